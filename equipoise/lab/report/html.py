"""Self-contained HTML pages: one file each, without external resources, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from equipoise import theme


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


_STYLE = (
    theme.css()
    + """
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
td { white-space: pre; }
tbody th { min-width: 7.5rem; }
.selector { background: var(--tint); }
.selector th { font-weight: 600; }
.settings td { text-align: left; white-space: normal; }
.settings thead th { text-align: left; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
figure svg { display: block; width: 100%; height: auto; }
blockquote { margin: .3rem 0 .9rem; padding: .1rem 0 .1rem 1rem; border-left: 3px solid var(--line); max-width: 46rem; }
@media (min-width: 44rem) {
  .figures td, .figures thead th { padding-left: .6rem; padding-right: .6rem; }
}
@media (max-width: 44rem) {
  main { padding: 1.2rem .9rem 3rem; }
  th:first-child { position: sticky; left: 0; background: var(--paper); }
  .selector th:first-child { background: var(--tint); }
  figure { overflow-x: auto; }
  figure svg { min-width: 46rem; }
}
"""
)

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
