"""The results of a suite: one row per instance, seed and selector, appended to a log as they come in.

A row carries the key of what it is the result of, and a digest of itself. A line that was cut off or altered is passed
over, and what it held is computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from equipoise.errors import EquipoiseError
from equipoise.storage.files import canonical_json, digest, write_atomic
from equipoise.types import Config

Row = Config  # of one run, or of all learners alone


class ResultLog:
    """The rows of a file by key; the latest counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise EquipoiseError(f"'{path}' cannot be read: {error.strerror}") from error
        rows = [_row(line) for line in lines if line]
        self.rows = {row["key"]: row for row in rows if row is not None}
        if None in rows or lines[-1]:  # what follows must not be joined to half a line
            write_atomic(path, b"".join(_line(row) for row in self.rows.values()))

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows, each with its "key", on disk before anything else happens."""
        new = list(rows)
        with self.path.open("ab") as file:
            file.write(b"".join(_line(row) for row in new))
            file.flush()
            os.fsync(file.fileno())
        self.rows |= {row["key"]: row for row in new}


def _line(row: Row) -> bytes:
    return canonical_json({**row, "digest": digest(row)}) + b"\n"


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
        return row if row["digest"] == digest(row) and isinstance(row["key"], str) else None
    except (ValueError, TypeError, KeyError):
        return None
