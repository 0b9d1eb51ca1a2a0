"""Text about measured results, written by hand inside a generated page and kept when the page is written again.

It stands between two comments, `<!-- findings: NAME -->` and `<!-- end of findings -->`. A writer takes it from the
page in the repository's `docs`, wherever the new page goes; a page without one gets an empty place for it.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
START, END = "<!-- findings: {name} -->", "<!-- end of findings -->"


def findings(page: str, name: str) -> str:
    """The findings called `name` of a page such as "theory.md", comments included."""
    start = START.format(name=name)
    path = DOCS / page
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(f"{re.escape(start)}\n(.*?)\n?{re.escape(END)}", source, re.DOTALL)
    return f"{start}\n{found[1] if found else ''}\n{END}"
