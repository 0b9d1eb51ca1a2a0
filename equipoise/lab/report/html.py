"""Self-contained HTML pages: one file each, without external resources, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape


def page(title: str, sections: Sequence[Iterable[str]]) -> str:
    """A whole page; every section is a sequence of HTML fragments."""
    body = "\n</section>\n<section>\n".join("\n".join(parts) for parts in sections)
    return _PAGE.format(title=escape(title), style=_STYLE, body=body)


def inline(svg: str, title: str) -> str:
    """The SVG for embedding in HTML: without prolog, namespaces, fixed size and global styles."""
    drawing = svg[svg.index("<svg") :]
    tag, rest = drawing.split(">", 1)
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", tag)
    rest = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", rest, count=1, flags=re.DOTALL)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, count=1, flags=re.DOTALL)
    label = escape(f"Figure: {title}", quote=True)
    return f'{tag} role="img" aria-label="{label}" style="stroke-linejoin:round;stroke-linecap:butt">{rest}'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], n_plain: int = 0, kind: str = "figures") -> str:
    """A table in a scrollable container; rows after the first `n_plain` are highlighted."""
    cells = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    lines = [f"<div class='wide'><table class='{kind}'><thead><tr>{cells}</tr></thead><tbody>"]
    for i, (first, *others) in enumerate(rows):
        mark = " class='selector'" if 0 < n_plain <= i else ""
        values = "".join(f"<td>{escape(value)}</td>" for value in others)
        lines.append(f"<tr{mark}><th scope='row'>{escape(first)}</th>{values}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


_STYLE = """
:root { color-scheme: light dark; }
:root { --ink: #1c1c1c; --quiet: #5f6368; --paper: #fdfdfc; --line: #d9d9d6; --tint: #f3f1ea; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --quiet: #a3a09a; --paper: #17181a; --line: #3a3c40; --tint: #222427; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
h4 { font-size: .92rem; margin: 1rem 0 .2rem; color: var(--quiet); }
p { max-width: 46rem; margin: .5rem 0; }
.claim { font-size: 1.1rem; }
.quiet { color: var(--quiet); font-size: .88rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .9rem .38rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: pre; }
th:first-child { text-align: left; }
td { padding-left: .9rem; }
thead th { font-size: .82rem; color: var(--quiet); font-weight: 600; vertical-align: bottom; padding-left: .9rem; }
tbody th { font-weight: 400; }
th:first-child { padding-left: .5rem; }
.selector { background: var(--tint); }
.selector th { font-weight: 600; }
.settings td { text-align: left; }
.settings thead th { text-align: left; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
figure svg { display: block; width: 100%; height: auto; }
blockquote { margin: .3rem 0 .9rem; padding: .1rem 0 .1rem 1rem; border-left: 3px solid var(--line); max-width: 46rem; }
pre { background: var(--tint); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
@media (max-width: 44rem) {
  main { padding: 1.2rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding: .34rem .55rem; font-size: .88rem; }
  th:first-child { position: sticky; left: 0; background: var(--paper); }
  .selector th:first-child { background: var(--tint); }
  figure { overflow-x: auto; }
  figure svg { min-width: 46rem; }
}
"""

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
