"""The reporting kit: blocks of a report, in HTML and in Markdown, and formats of numbers.

A report is a list of blocks. `page` makes it one HTML file without external resources, in light and dark; `markdown`
makes it a page of the documentation. The terminal prints the same tables. Text is data and never markup: `Bold` and
`Code` mark parts of a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite, isnan
from textwrap import fill
from typing import NamedTuple

from equipoise import theme
from equipoise.types import Plain

LINE = 120  # characters of a line of Markdown
MAX_UNBROKEN = 30  # characters of a column of text
BAR = r"\|"  # in a cell of Markdown
MISSING = "–"  # a number that is not known


class Block(NamedTuple):
    """A part of a report in both forms."""

    html: str
    markdown: str


class Bold(str):
    """A part of a sentence in bold."""


class Code(str):
    """A part of a sentence that is code."""


def heading(text: str, level: int = 2) -> Block:
    """A heading; level 1 is the title of the report, level 2 begins a section."""
    return Block(f"<h{level}>{escape(text)}</h{level}>", f"{'#' * level} {text}")


def paragraph(*parts: str, kind: str = "") -> Block:
    """Sentences, from parts; `kind` is "claim" for the main statement and "quiet" for explanations."""
    attribute = f" class='{kind}'" if kind else ""
    return Block(f"<p{attribute}>{_html(parts)}</p>", fill(_markdown(parts), LINE, break_on_hyphens=False))


def items(entries: Iterable[Sequence[str]], *, ordered: bool = False) -> Block:
    """A list, numbered if `ordered`; an entry is its parts."""
    tag, html, lines = "ol" if ordered else "ul", [], []
    for k, parts in enumerate(entries, 1):
        mark = f"{k}. " if ordered else "- "
        html.append(f"<li>{_html(parts)}</li>")
        lines.append(fill(f"{mark}{_markdown(parts)}", LINE, subsequent_indent=" " * len(mark), break_on_hyphens=False))
    return Block("\n".join([f"<{tag}>", *html, f"</{tag}>"]), "\n".join(lines))


def quote(text: str) -> Block:
    """A statement as it stands, line by line."""
    lines = text.splitlines()
    html = f"<blockquote>{'<br>'.join(map(escape, lines))}</blockquote>"
    return Block(html, "\n".join(f"> {line}" for line in lines))


def listing(text: str) -> Block:
    """Lines of code, such as a command."""
    return Block(f"<pre>{escape(text)}</pre>", f"```sh\n{text}\n```")


def picture(svg: str, title: str, file: str = "") -> Block:
    """A figure: HTML embeds the SVG, Markdown refers to a file."""
    return Block(f"<figure>{_inline(svg, title)}</figure>", f"![{title}]({file})")


@dataclass(frozen=True)
class Table:
    """Cells as text. Columns in `left` hold text and are aligned to the left, all others to the right.

    `marks` gives rows a meaning by their number: "selector" stands out, "bad" warns.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[int] = (0,)
    marks: Mapping[int, str] = field(default_factory=dict)

    @property
    def html(self) -> str:
        lines = [f"<div class='wide'><table><thead>{self._row(self.head, 'col')}</thead><tbody>"]
        lines += [self._row(cells, "row", self.marks.get(i, "")) for i, cells in enumerate(self.rows)]
        return "\n".join([*lines, "</tbody></table></div>"])

    def _row(self, cells: Sequence[str], scope: str, mark: str = "") -> str:
        written = []
        for column, cell in enumerate(cells):
            tag, attributes = ("th", f" scope='{scope}'") if scope == "col" or column == 0 else ("td", "")
            attributes += f" class='{self._kind(column)}'" if column and column in self.left else ""
            written.append(f"<{tag}{attributes}>{escape(cell)}</{tag}>")
        start = f"<tr class='{mark}'>" if mark else "<tr>"
        return f"{start}{''.join(written)}</tr>"

    def _kind(self, column: int) -> str:
        """Only columns of whole sentences are broken into lines: all others would be broken first."""
        return "text" if max((len(row[column]) for row in self.rows), default=0) <= MAX_UNBROKEN else "text long"

    @property
    def markdown(self) -> str:
        rule = ["---" if column in self.left else "---:" for column in range(len(self.head))]
        lines = (self.head, rule, *self.rows)
        return "\n".join(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |" for cells in lines)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of text, such as settings: every column is aligned to the left."""
    return Table(head, rows, left=range(len(head)))


def settings_table(settings: Iterable[tuple[str, Plain]]) -> Table:
    """Names of settings and their values."""
    rows = [(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)) for name, value in settings]
    return text_table(("setting", "value"), rows)


def page(title: str, blocks: Iterable[Block | Table]) -> str:
    """The report as a whole HTML page; a section begins at each heading of level 2."""
    body = "\n".join(block.html for block in blocks).replace("\n<h2>", "\n</section>\n<section>\n<h2>")
    return _PAGE.format(title=escape(title), style=f"{theme.css()}\n{theme.report_css()}", body=body)


def markdown(blocks: Iterable[Block | Table]) -> str:
    """The report as a page in Markdown."""
    return "\n\n".join(block.markdown for block in blocks) + "\n"


def json_text(data: Plain) -> str:
    """Results as JSON for people and programs; nan and infinities, which are not JSON, become null."""
    return json.dumps(_plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def number(value: float) -> str:
    """Two decimal places, fewer for large numbers; empty for nan.

    >>> [number(value) for value in (0.9876, 98.76, 9876.5, float("nan"))]
    ['0.99', '98.8', '9,876', '']
    """
    return "" if isnan(value) else f"{value:,.{_places(value)}f}"


def with_error(mean: float, error: float | None) -> str:
    """A mean and its standard error, with a number of digits that suits the mean.

    >>> with_error(4782.2, 379.7), with_error(47.23, 3.64), with_error(0.0123, None)
    ('4,782 ± 380', '47.2 ± 3.6', '0.0123')
    """
    if 0 < abs(mean) < 1:
        return f"{mean:.3g}" if error is None else f"{mean:.3g} ± {error:.2g}"
    return number(mean) if error is None else f"{number(mean)} ± {error:,.{_places(mean)}f}"


def significant(value: float, digits: int = 3) -> str:
    """A number with some significant digits, or a whole one if it has more; a dash for nan.

    >>> significant(0.012345), significant(12345.6), significant(float("nan"))
    ('0.0123', '12,346', '–')
    """
    if isnan(value):
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def short(name: str, longest: int = 28) -> str:
    """The name, with its middle left out if it is too long: similar names usually differ at their ends."""
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[len(name) - (longest - 1) // 2 :]}"


def _places(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def _plain(value: Plain) -> Plain:
    match value:
        case dict():
            return {key: _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float() if not isfinite(value):
            return None
    return value


def _html(parts: Iterable[str]) -> str:
    tags = {Bold: "b", Code: "code"}
    found = ((tags.get(type(part)), escape(part)) for part in parts)
    return "".join(f"<{tag}>{text}</{tag}>" if tag else text for tag, text in found)


def _markdown(parts: Iterable[str]) -> str:
    marks = {Bold: "**", Code: "`"}
    return "".join(f"{mark}{part}{mark}" for part in parts for mark in [marks.get(type(part), "")])


def _inline(svg: str, title: str) -> str:
    """The SVG for embedding in HTML: without prolog, namespaces, fixed size and global styles."""
    tag, rest = svg[svg.index("<svg") :].split(">", 1)
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", tag)
    rest = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", rest, count=1, flags=re.DOTALL)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, count=1, flags=re.DOTALL)
    label = escape(f"Figure: {title}", quote=True)
    return f'{tag} role="img" aria-label="{label}" style="stroke-linejoin:round;stroke-linecap:butt">{rest}'


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<section>
{body}
</section>
</main>
</body>
</html>
"""
