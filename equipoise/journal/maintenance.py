"""What is done to a journal from outside: backup, restore, and the comparison of a rebuild with a recovery."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.errors import EquipoiseError, StoreConflict, UnreadableFile
from equipoise.journal import schema
from equipoise.journal.archive import Archive
from equipoise.journal.recovery import Recovered, rebuild, recover
from equipoise.journal.scrub import verify
from equipoise.journal.sqlite import LockFile, SQLiteJournal, connect_reader, lock_path, read_mark
from equipoise.portfolio import Portfolio
from equipoise.storage.files import flush, replacing
from equipoise.types import Config, Plain


def backup(path: str | Path, target: str | Path) -> int:
    """Write a consistent copy of a journal, also one that is in use; returns its number of events.

    All of the copy is checked before it takes its name; `UnreadableFile` says what is damaged, and then there is no
    copy. It replaces nothing.
    """
    source, copy = Path(path), Path(target)
    if not source.is_file():
        raise UnreadableFile(f"{str(source)!r} does not exist, so there is no journal to copy")
    if copy.exists():
        raise StoreConflict(f"{str(copy)!r} exists, and a backup replaces nothing")
    return _copy(source, copy)


def restore(backup_path: str | Path, path: str | Path, *, replace: bool = False) -> int:
    """Make a journal from a backup after checking all of it; returns its number of events.

    An existing journal is left alone unless `replace`, and always while it is open in a process.
    """
    source, target = Path(backup_path), Path(os.path.realpath(path))
    if not source.is_file():
        raise UnreadableFile(f"{str(source)!r} does not exist, so there is no backup to restore")
    if target.exists() and not replace:
        raise StoreConflict(f"{str(target)!r} exists: restore to another file, or say that it is to be replaced")
    lock = LockFile(target)
    try:
        last_seq = _copy(source, target)
        lock.mark(0, "")  # what the replaced journal had committed says nothing about this one
        return last_seq
    finally:
        lock.close()


def _copy(source: Path, target: Path) -> int:
    marked, marked_id = _mark_of(source)
    try:
        with replacing(target) as temporary:
            with closing(connect_reader(source)) as reader, closing(sqlite3.connect(temporary)) as writer:
                schema.version_of(reader, source)
                reader.backup(writer)
                writer.execute("PRAGMA journal_mode = DELETE")  # one file, without a WAL next to it
            flush(temporary)
            with closing(connect_reader(temporary)) as copy:  # as it is on disk
                last_seq = verify(copy, source)
                (own_id,) = copy.execute("SELECT value FROM meta WHERE key = 'id'").fetchone()
            if marked > last_seq and marked_id == own_id:
                raise UnreadableFile(
                    f"{str(source)!r} ends at event {last_seq}, but {marked} were committed: its end is lost"
                )
            for leftover in ("-wal", "-shm"):  # of a journal that is replaced: they do not belong to the new one
                target.with_name(target.name + leftover).unlink(missing_ok=True)
        flush(target.parent)
    except UnreadableFile as error:
        raise UnreadableFile(f"there is no copy at {str(target)!r}: {error}") from error
    except (sqlite3.Error, OSError, EquipoiseError) as error:
        raise EquipoiseError(f"{str(source)!r} could not be copied to {str(target)!r}: {error}") from error
    return last_seq


def _mark_of(journal: Path) -> tuple[int, str]:
    """Return the last event that was committed, and the id of its journal, as the lock file says; 0 without one."""
    try:
        return read_mark(lock_path(journal).read_bytes())
    except OSError:
        return 0, ""


class Comparison(NamedTuple):
    rebuilt: Recovered
    recovered: Recovered
    differences: tuple[str, ...]


def compare(journal: SQLiteJournal, template: Portfolio | None = None, archive: Archive | None = None) -> Comparison:
    """Fold the log from its first event or its base, and compare with what a start would give.

    With an archive, the fold begins at the first event, which needs all contexts.
    """
    rebuilt = rebuild(journal, template, None if archive is None else archive.read)
    recovered = recover(journal, template)
    states = [_compared(each.portfolio.state()) for each in (recovered, rebuilt)]
    return Comparison(rebuilt, recovered, tuple(differences(states[0], states[1], "")))


def _compared(state: Config) -> Config:
    """Return a state without the counts of refused contexts: an earlier release makes snapshots without them."""
    return {key: value for key, value in state.items() if key != "refusals"}


def differences(one: Plain, other: Plain, where: str) -> Iterator[str]:
    """The places at which two states differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where}.{key}" if where else str(key))
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for i, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from differences(first, second, f"{where}[{i}]")
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes():
            yield f"{where}: arrays differ"
    elif type(one) is not type(other) or not (one == other or (one != one and other != other)):
        yield f"{where}: {one!r:.60} and {other!r:.60}"
