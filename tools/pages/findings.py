"""Text that is written by hand inside a generated page and kept when the page is written again.

Findings stand between two comments, `<!-- findings: NAME -->` and `<!-- end of findings -->`; the setting of an
experiment is the section of that name. A writer takes them from the page in the repository's `docs`, wherever the new
page goes; a page without them gets an empty place for them.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
START, END = "<!-- findings: {name} -->", "<!-- end of findings -->"


def findings(page: str, name: str) -> str:
    """The findings called `name` of a page such as "theory.md", comments included."""
    start = START.format(name=name)
    found = re.search(f"{re.escape(start)}\n(.*?)\n?{re.escape(END)}", _source(page), re.DOTALL)
    return f"{start}\n{found[1] if found else ''}\n{END}"


def section(page: str, heading: str) -> str:
    """The text of a section of level 2, without its heading."""
    found = re.search(rf"^## {re.escape(heading)}\n\n(.*?)\n\n## ", _source(page), re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def _source(page: str) -> str:
    path = DOCS / page
    return path.read_text(encoding="utf-8") if path.exists() else ""
