"""Portfolios that were created over HTTP: their documents in the data folder, and where they go in the end.

A document is the content of a file `portfolio.toml` as JSON, in `portfolios/NAME.json`. It is there before its journal
is, so a crash in between leaves a portfolio that the next start opens. An archived portfolio is a folder
`archived/NAME-TIME` with document, journal and everything next to it. The folder has the file `UNFINISHED` until all of
them are there, and the document moves first: then the portfolio is gone, and a start moves the rest.

Without a data folder, documents are forgotten when the process ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from time import gmtime, strftime
from typing import Any

from equipoise.serve.tokens import make_data_folder
from equipoise.storage.files import flush, write_atomic

DOCUMENTS, ARCHIVED, UNFINISHED = "portfolios", "archived", "unfinished"
ENDINGS = (".db", ".db-wal", ".db-shm", ".db.lock", ".db.archive", ".timeline")  # of a journal and what is next to it


class Created:
    def __init__(self, data: Path | None = None) -> None:
        self._data = data
        self._in_memory: set[str] = set()

    def __contains__(self, name: str) -> bool:
        file = self.file(name)
        return name in self._in_memory if file is None else file.is_file()

    def file(self, name: str) -> Path | None:
        """Return the file of a document, which need not exist; None without a data folder. The name was checked."""
        return None if self._data is None else self._data / DOCUMENTS / f"{name}.json"

    def files(self) -> list[Path]:
        """Return the files of all documents."""
        return [] if self._data is None else sorted((self._data / DOCUMENTS).glob("*.json"))

    def leftovers(self, name: str) -> list[Path]:
        """Return the files of a journal, and next to it, that are there for a name."""
        found = [] if self._data is None else [self._data / f"{name}{ending}" for ending in ENDINGS]
        return [path for path in found if path.exists()]

    def add(self, name: str, document: Mapping[str, Any]) -> Path | None:
        """Keep a document, durably."""
        file = self.file(name)
        if file is None:
            self._in_memory.add(name)
        else:
            make_data_folder(file.parents[1])
            make_data_folder(file.parent)
            write_atomic(file, json.dumps(document, indent=1).encode() + b"\n")
            flush(file.parent)
        return file

    def discard(self, name: str) -> None:
        """Remove a document that was never served, with the journal that it began."""
        self._in_memory.discard(name)
        file = self.file(name)
        if file is not None:
            for path in (file, *self.leftovers(name)):
                path.unlink(missing_ok=True)

    def archive(self, name: str) -> None:
        """Move the document and the journal of a portfolio that is not served any more."""
        self._in_memory.discard(name)
        file = self.file(name)
        if file is None:
            return
        folder = file.parents[1] / ARCHIVED / f"{name}-{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{token_hex(4)}"
        for each in (folder.parent, folder):
            make_data_folder(each)
        write_atomic(folder / UNFINISHED, name.encode())
        flush(folder)
        file.replace(folder / file.name)
        self._finish(folder, name)

    def finish(self) -> None:
        """Finish what a crash interrupted, before anything is served."""
        if self._data is None:
            return
        for mark in sorted((self._data / ARCHIVED).glob(f"*/{UNFINISHED}")):
            name = mark.read_text()
            if (mark.parent / f"{name}.json").exists():
                self._finish(mark.parent, name)
            else:  # nothing has moved
                mark.unlink()
                mark.parent.rmdir()

    def _finish(self, folder: Path, name: str) -> None:
        for path in self.leftovers(name):
            path.replace(folder / path.name)
        (folder / UNFINISHED).unlink()
        for each in (folder, folder.parents[1], folder.parents[1] / DOCUMENTS):
            flush(each)
