"""Ways to damage the file of a journal that is closed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

PAGE = 4096


def statements(*texts: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            for text in texts:
                connection.execute(text)

    return run


def zero_page(kind: str) -> Callable[[Path], None]:
    """Zero a leaf page in the middle of a table or an index, as a lost write does."""

    def zero(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            pages = connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno", (kind,)
            ).fetchall()
        (number,) = pages[len(pages) // 2]
        with path.open("r+b") as file:
            file.seek((number - 1) * PAGE)
            file.write(bytes(PAGE))

    return zero


def flip_index(path: Path) -> None:
    """Change an id in the index, which the structure of the page does not show."""
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        ((number,), *_) = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'events_of_subject' AND pagetype = 'leaf' ORDER BY pageno DESC"
        ).fetchall()
    where = content.index(b"round ", (number - 1) * PAGE)
    content[where : where + 5] = b"sound"
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "checksum": statements("UPDATE events SET time = time + 1 WHERE seq = 7"),
    "value of another type": statements("UPDATE events SET data = 'text' WHERE seq = 7"),
    "missing event": statements("DELETE FROM events WHERE seq = 7"),
    "missing first event": statements("DELETE FROM events WHERE seq = 1"),
    "page of events": zero_page("events"),
    "page of the index": zero_page("events_of_subject"),
    "entry of the index": flip_index,
    "snapshot": statements("UPDATE snapshot_parts SET data = zeroblob(length(data))"),
    "snapshot of another type": statements("UPDATE snapshot_parts SET data = 'text'"),
    "digest of another type": statements("UPDATE snapshots SET digest = 5"),
}
