"""The page of the dashboard and its files: read once, compressed once, served by exact name."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple

from equipoise import theme

FOLDER = Path(__file__).parents[1] / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE, DOCS = "index.html", "docs.html"
THEME = "theme.css"


class File(NamedTuple):
    media_type: str
    content: bytes
    compressed: bytes


@cache
def page(has_tokens: bool) -> File:
    """The page; it says whether the service has tokens, so that it can ask for one at once."""
    content = files()[PAGE].content
    if has_tokens:
        content = content.replace(b'data-tokens="no"', b'data-tokens="yes"')
    return File(MEDIA_TYPES[".html"], content, gzip.compress(content, mtime=0))


@cache
def files() -> dict[str, File]:
    """All files by their path below `/static/`. Names in requests are only ever looked up here."""
    paths = {path.relative_to(FOLDER).as_posix(): path for path in sorted(FOLDER.rglob("*")) if path.is_file()}
    paths[THEME] = theme.PATH
    return {name: _file(path) for name, path in paths.items() if path.suffix in MEDIA_TYPES}


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(MEDIA_TYPES[path.suffix], content, gzip.compress(content, mtime=0))
