"""Checks of a whole journal: at once, of a copy, and slowly, of journals in use.

A start reads the newest snapshot and the events after it. Damage to older events would be found by the request that
needs them, long after the last good backup was replaced. `verify` reads all of a file. The `Scrubber` reads the files
of all journals in use, in slices of some milliseconds with long pauses, in one thread of the process. It checks the
checksum of every event, gaps, whether the index finds the event, and the digests of snapshots.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Condition, Thread
from time import monotonic

from equipoise.errors import FileUnavailable, UnreadableFile
from equipoise.journal.sqlite import COLUMNS, check_row, connect_reader, is_damage, reading, snapshot_parts
from equipoise.journal.writer import Row
from equipoise.portfolio.events import logger

SLICE_SECONDS = 0.002  # after which a slice ends with the present row
MAX_ROWS = 1_000  # of a slice
MAX_SHARE = 0.01  # of the time
RETRY_SECONDS = 60.0  # after an error that is not damage
PERIOD_SECONDS = 6 * 3600.0  # between the starts of two checks of a journal
ARCHIVED = "SELECT value FROM meta WHERE key = 'archived'"
INDEXED = """subject IS NULL OR EXISTS (
    SELECT 1 FROM events AS other INDEXED BY events_of_subject WHERE other.subject = events.subject
    AND other.seq = events.seq)"""


def verify(connection: sqlite3.Connection, path: Path) -> int:
    """Check all of a journal: pages, indexes, every event, gaps and snapshots; return the number of the last event.

    Raises `UnreadableFile` at the first fault; `path` is the name of the file in its message.
    """
    with reading(path):
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise UnreadableFile(f"{str(path)!r} is damaged: {' '.join(str(found).split())}")
        archived = int((connection.execute(ARCHIVED).fetchone() or (0,))[0])
        last = 0
        for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY seq"):
            if row[0] != last + 1 and (last == 0 or row[0] > archived + 1):
                raise UnreadableFile(f"{str(path)!r} has no event {max(last, archived) + 1}")
            check_row(row, path)
            last = row[0]
        for (seq,) in connection.execute("SELECT seq FROM snapshots").fetchall():
            if seq > last:
                raise UnreadableFile(f"{str(path)!r} ends at event {last}, before its snapshot at {seq}")
            for _ in snapshot_parts(connection, seq, path):
                pass
        return max(last, archived)


class Scrub:
    """The slow check of one journal."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.checked = 0  # events since the start of the process
        self.passes = 0  # complete checks of the file
        self.error = ""  # the first damage
        self.due = 0.0  # when the next slice or check begins
        self._found = self._before = 0  # damaged events and snapshots in this check and in the one before
        self._steps = self._check()

    @property
    def damaged(self) -> int:
        """Number of damaged events and snapshots that this check or the one before has found."""
        return max(self._found, self._before)

    def step(self) -> None:
        """Check a slice."""
        try:
            pause = next(self._steps)
        except (FileUnavailable, OSError) as error:
            logger.warning("%s: the journal could not be checked and is checked later: %s", self.name, error)
            self._steps, pause = self._check(), RETRY_SECONDS
        except UnreadableFile as error:
            self._note(str(error))
            self._before, self._steps, pause = self._found, self._check(), PERIOD_SECONDS
        self.due = monotonic() + pause

    def _check(self) -> Iterator[float]:
        """Check all of the file again and again, a slice per step; yield the seconds until the next."""
        while True:
            since, self._found = monotonic(), 0
            with reading(self.path), closing(connect_reader(self.path)) as connection:
                (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
            position = 1
            while position <= last:
                position = self._check_events(position, last)
                yield 0.0
            with reading(self.path), closing(connect_reader(self.path)) as connection:
                seqs = [seq for (seq,) in connection.execute("SELECT seq FROM snapshots")]
            for seq in seqs:
                self._check_snapshot(seq)
                yield 0.0
            self._before, self.passes = self._found, self.passes + 1
            yield max(since + PERIOD_SECONDS - monotonic(), SLICE_SECONDS)

    def _check_events(self, position: int, last: int) -> int:
        """Check the events from a number on until the time is over; return the number after them."""
        until, n_rows = monotonic() + SLICE_SECONDS, 0
        statement = f"SELECT {COLUMNS}, {INDEXED} FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"
        try:
            with closing(connect_reader(self.path)) as connection:
                for *row, is_indexed in connection.execute(statement, (position, last, MAX_ROWS)):
                    self._check_gap(connection, position, row[0])
                    position, n_rows, self.checked = row[0] + 1, n_rows + 1, self.checked + 1
                    self._check_event(tuple(row), bool(is_indexed))
                    if monotonic() > until:
                        return position
                if n_rows == MAX_ROWS:
                    return position
                self._check_gap(connection, position, last + 1)
                return last + 1
        except sqlite3.Error as error:
            if not is_damage(error):
                raise FileUnavailable(str(error)) from error
            self._note(f"event {position} cannot be read: {error}")
            return position + 1

    def _check_event(self, row: Row, is_indexed: bool) -> None:
        try:
            check_row(row, self.path)
        except UnreadableFile as error:
            self._note(str(error))
        else:
            if not is_indexed:
                self._note(f"the index does not have event {row[0]}")

    def _check_gap(self, connection: sqlite3.Connection, expected: int, found: int) -> None:
        """Note events that are missing and were not archived; the first one never is."""
        if found == expected:
            return
        (archived,) = connection.execute(ARCHIVED).fetchone() or (0,)  # of the same state as the rows
        missing = range(max(expected, int(archived) + 1), found)
        if missing or expected == 1:
            self._note(f"there is no event {1 if expected == 1 else missing[0]}", max(len(missing), 1))

    def _check_snapshot(self, seq: int) -> None:
        with reading(self.path), closing(connect_reader(self.path)) as connection:
            connection.execute("BEGIN")
            if connection.execute("SELECT 1 FROM snapshots WHERE seq = ?", (seq,)).fetchone() is None:
                return  # a newer one has replaced it
            try:
                for _ in snapshot_parts(connection, seq, self.path):
                    pass
            except UnreadableFile as error:
                self._note(str(error))

    def _note(self, fault: str, number: int = 1) -> None:
        if not self.error:
            self.error = fault
            logger.error("%s: the journal is damaged, restore a backup; the first fault: %s", self.name, fault)
        self._found += number


class Scrubber:
    """Checks journals in turn, in one thread that runs while there are any."""

    def __init__(self) -> None:
        self._scrubs: list[Scrub] = []
        self._changed = Condition()
        self._thread: Thread | None = None
        self._busy: Scrub | None = None
        self._free = 0.0  # when the next slice may begin

    def add(self, path: Path, name: str) -> Scrub:
        """Check a journal from now on."""
        scrub = Scrub(path, name)
        with self._changed:
            self._scrubs.append(scrub)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="equipoise scrub", daemon=True)
                self._thread.start()
            self._changed.notify()
        return scrub

    def remove(self, scrub: Scrub) -> None:
        """Check a journal no longer; returns when its file is not in use here."""
        with self._changed:
            if scrub in self._scrubs:
                self._scrubs.remove(scrub)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy is not scrub)

    def _run(self) -> None:
        while (scrub := self._next()) is not None:
            since = monotonic()
            try:
                scrub.step()
            except Exception:  # the others go on
                logger.exception("%s: the check of the journal failed", scrub.name)
                scrub.due = monotonic() + PERIOD_SECONDS
            with self._changed:
                self._busy, self._free = None, monotonic() + (monotonic() - since) / MAX_SHARE
                self._changed.notify_all()

    def _next(self) -> Scrub | None:
        """Wait until a journal is due; None if there are no more."""
        with self._changed:
            while self._scrubs:
                scrub = min(self._scrubs, key=lambda each: each.due)
                seconds = max(scrub.due, self._free) - monotonic()
                if seconds <= 0.0:
                    self._busy = scrub
                    return scrub
                self._changed.wait(seconds)
            self._thread = None
            return None


SCRUBBER = Scrubber()  # of the process
