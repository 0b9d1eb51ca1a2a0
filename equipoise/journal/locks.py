"""The lock file beside a journal: one process writes, and what it has committed is noted outside the log.

The lock is the operating system's and ends with its process, however that ends, so a stale file locks nobody out. The
file also holds the number of the last committed event. It is written after each commit and not flushed, so it is never
ahead of a log that was flushed; a log that ends before it has lost events that were acknowledged.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from equipoise.errors import EquipoiseError, JournalLocked

try:
    import fcntl
except ImportError:  # pragma: no cover - other systems
    fcntl = None  # type: ignore[assignment]

MARK = "%020d %s\n"  # number of the last committed event, id of the journal


class LockFile:
    """Held from its creation until `close`, or until the process ends."""

    def __init__(self, journal: Path) -> None:
        if fcntl is None:  # pragma: no cover - other systems
            raise EquipoiseError("a journal needs file locks as on Linux and macOS, which this system does not have")
        self.path = journal.with_name(journal.name + ".lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EquipoiseError(f"{str(self.path)!r} could not be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = self._owner()
            os.close(self._file)
            where = "already open in this process" if owner == os.getpid() else f"open in another process ({owner})"
            raise JournalLocked(f"{str(journal)!r} is {where}, but only one may write to a journal") from None
        self._pid = os.getpid()
        os.pwrite(self._file, f"{self._pid:<20d}\n".encode(), MARK_LENGTH)

    def _owner(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(os.pread(self._file, 20, MARK_LENGTH))
        return None

    def check_process(self) -> None:
        """Raise an error in a process that was forked from the one that took the lock."""
        if os.getpid() != self._pid:
            raise JournalLocked(f"the journal belongs to process {self._pid}, from which this one was forked")

    def mark(self, seq: int, journal_id: str) -> None:
        """Note the last committed event."""
        os.pwrite(self._file, (MARK % (seq, journal_id)).encode(), 0)

    def marked(self, journal_id: str | None = None) -> int:
        """The last event that was noted, for the journal with this id if it is given; 0 if none was."""
        seq, _, marked_id = os.pread(self._file, MARK_LENGTH, 0).decode("ascii", "replace").partition(" ")
        return int(seq) if journal_id in (None, marked_id.strip()) and seq.isdecimal() else 0

    def close(self) -> None:
        os.close(self._file)


MARK_LENGTH = len(MARK % (0, "0" * 16))
