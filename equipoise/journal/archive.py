"""The archive of a journal: files of old events, which leave the journal's own file.

A segment is a file like a journal, with `SEGMENT_EVENTS` events and no snapshots; its name is the number of its first
event. It is complete or not there, and changes only if contexts are removed, again as a whole. The journal notes up to
which event the archive is complete. So the archive can be moved elsewhere: a start, a rebuild from the base and a
service do without it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from equipoise.errors import EquipoiseError, FileUnavailable, StoreConflict, UnreadableFile
from equipoise.journal import schema
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.journal.writer import transaction
from equipoise.portfolio.events import Event
from equipoise.storage.files import flush, make_folder, replacing

SEGMENT_EVENTS = 50_000
ENDING = ".archive"


class Archive:
    """The segments of a journal, in a folder; by default the one that the journal names, next to it."""

    def __init__(self, journal: SQLiteJournal, folder: str | Path | None = None) -> None:
        self._journal = journal
        self.folder = journal.path.parent / (folder or journal.archive_folder or journal.path.name + ENDING)

    def read(self, from_seq: int = 1) -> Iterator[Event]:
        """The durable events from a number on, archived ones included, as `SQLiteJournal.read`."""
        position = from_seq
        while position <= self._journal.archived:
            before = position
            for event in self._segment(position).read(position):
                yield event
                position = event.seq + 1
            if position == before:
                raise self._missing(position)
        yield from self._journal.read(position)

    def write(self, first: int, last: int) -> None:
        """Write the segment of these events, durably; it replaces one that a crash has left."""
        make_folder(self.folder, 0o700)
        path = self.folder / f"{first:012d}.db"
        if path.exists():
            self._check_own(SQLiteJournal(path, create=False))
        with self._replacing(path) as connection:
            schema.create(connection, self._journal.portfolio)
            connection.execute("ATTACH ? AS journal", (f"file:{quote(str(self._journal.path))}?mode=ro",))
            own = "SELECT * FROM journal.events WHERE seq BETWEEN ? AND ?"
            with transaction(connection):
                connection.execute(schema.UNREDACTED)
                rows = [("id", self._journal.id), ("archived", first - 1)]
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
                copied = connection.execute(f"INSERT INTO events {own}", (first, last)).rowcount
            different = f"SELECT count(*) FROM ({own} EXCEPT SELECT * FROM events)"
            if copied != last - first + 1 or connection.execute(different, (first, last)).fetchone() != (0,):
                raise UnreadableFile(f"{str(self._journal.path)!r} could not be archived from event {first} on")

    def unredacted(self, before: float, keep: Collection[str]) -> bool:
        """Whether a segment has contexts of decisions before a time, but for those to keep."""
        return any(segment.unredacted(None, before, keep) for segment in self._segments())

    def of_unit(self, unit: str) -> set[str]:
        """The ids of the decisions of a unit in all segments, as `SQLiteJournal.of_unit`."""
        return {id_ for segment in self._segments() for id_ in segment.of_unit(unit)}

    def redact(self, *, ids: Collection[str] | None, before: float | None, keep: Collection[str]) -> int:
        """Remove contexts and outcomes, as `SQLiteJournal.redact`; the number of events that only the archive has."""
        removed = 0
        for segment in self._segments():
            seqs = segment.unredacted(ids, before, keep)
            if not seqs:
                continue
            with self._replacing(segment.path, copy=True) as connection, transaction(connection):
                for seq in seqs:
                    for statement, arguments in segment.stripped([seq]):
                        connection.execute(statement, arguments)
            removed += sum(self._journal.time_of(seq) is None for seq in seqs)
        return removed

    def check_complete(self) -> None:
        """Raise an error if archived events are not in the folder: without them, what they have cannot be removed."""
        position = 1
        for segment in self._segments():
            if segment.path.stem == f"{position:012d}":
                position = segment.last_seq + 1
        if position <= self._journal.archived:
            raise self._missing(position)

    def clean(self) -> None:
        """Remove what a crash has left of segments that were not complete."""
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    @contextmanager
    def _replacing(self, path: Path, *, copy: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection to a new file, or to a copy, which takes the place of a segment when it is on disk."""
        try:
            with replacing(path) as temporary:
                if copy:
                    shutil.copyfile(path, temporary)
                uri = f"file:{quote(str(temporary))}"
                with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                    for setting in ("journal_mode = MEMORY", "synchronous = OFF", "secure_delete = ON"):
                        connection.execute(f"PRAGMA {setting}")
                    yield connection
                flush(temporary)
            flush(self.folder)
        except sqlite3.Error as error:
            raise EquipoiseError(f"{str(path)!r} could not be written: {error}") from error

    def _segments(self) -> Iterator[SQLiteJournal]:
        for path in sorted(self.folder.glob("*.db")):
            yield self._check_own(SQLiteJournal(path, self._journal.portfolio, create=False))

    def _segment(self, seq: int) -> SQLiteJournal:
        """The segment with an event."""
        earlier = [path for path in self.folder.glob("*.db") if path.stem.isdecimal() and int(path.stem) <= seq]
        if not earlier:
            raise self._missing(seq)
        return self._check_own(SQLiteJournal(max(earlier), self._journal.portfolio, create=False))

    def _check_own(self, segment: SQLiteJournal) -> SQLiteJournal:
        if segment.id != self._journal.id:
            raise StoreConflict(f"{str(segment.path)!r} is of another journal than {str(self._journal.path)!r}")
        return segment

    def _missing(self, seq: int) -> FileUnavailable:
        return FileUnavailable(
            f"{str(self._journal.path)!r}: the events up to {self._journal.archived} were archived, but "
            f"{str(self.folder)!r} does not have event {seq}"
        )
