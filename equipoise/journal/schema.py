"""Tables of the SQLite journal, their version, additions to them, and the steps from older files.

`user_version` of the file is the version: the least that a release must know to use the file. Additions are what
earlier releases need not know, so that one can still continue the file; `level` in `meta` counts them, and a file
without it has level 1. A step to a version or level runs in one transaction with the new number, so a crash leaves the
old one or the new one. Steps are never changed once released.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from equipoise import __version__
from equipoise.errors import UnreadableFile
from equipoise.journal.writer import transaction

VERSION, LEVEL = 1, 2
APPLICATION = 0x65717031  # application_id of the file: "eqp1"

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # `subject` is the id of the decision that an event is about, `key` the caller's.
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT, subject TEXT, time REAL NOT NULL,
        derived INTEGER NOT NULL, version INTEGER NOT NULL, redacted INTEGER NOT NULL, data BLOB NOT NULL,
        crc INTEGER NOT NULL)""",
    "CREATE INDEX events_of_subject ON events (subject) WHERE subject IS NOT NULL",
    # A snapshot is complete when its row is there, which is written after its parts.
    """CREATE TABLE snapshots (
        seq INTEGER PRIMARY KEY, base INTEGER NOT NULL, time REAL NOT NULL, parts INTEGER NOT NULL,
        digest TEXT NOT NULL)""",
    "CREATE TABLE snapshot_parts (seq INTEGER, part INTEGER, data BLOB NOT NULL, PRIMARY KEY (seq, part))",
)

# Only where retention needs it: a few bytes for each event that has its context.
UNREDACTED = "CREATE INDEX IF NOT EXISTS events_unredacted ON events (time) WHERE redacted = 0 AND subject IS NOT NULL"

# Who wrote an event or a snapshot: the lease of that time, with its release and the rule of its selector. Triggers note
# leases and snapshots of earlier releases too, which do not know the tables; `release` is NULL then.
WRITERS = (
    """CREATE TABLE leases (
        epoch INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, release TEXT, selector TEXT, rule INTEGER)""",
    "INSERT INTO leases (epoch, first_seq) SELECT value, 1 FROM meta WHERE key = 'epoch'",
    """CREATE TRIGGER lease AFTER UPDATE ON meta WHEN NEW.key = 'epoch' BEGIN
        INSERT OR REPLACE INTO leases (epoch, first_seq)
        VALUES (NEW.value, (SELECT coalesce(max(seq), 0) + 1 FROM events)); END""",
    "CREATE TABLE snapshot_leases (seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL)",
    """CREATE TRIGGER snapshot_stored AFTER INSERT ON snapshots BEGIN
        INSERT OR REPLACE INTO snapshot_leases VALUES (NEW.seq, (SELECT value FROM meta WHERE key = 'epoch')); END""",
    """CREATE TRIGGER snapshot_removed AFTER DELETE ON snapshots BEGIN
        DELETE FROM snapshot_leases WHERE seq = OLD.seq; END""",
)

Step = Callable[[sqlite3.Connection], None]
STEPS: Mapping[int, Step] = {}  # by the version that a step starts from
ADDITIONS: Mapping[int, Sequence[str]] = {1: WRITERS}  # by the level that they are added to


def create(connection: sqlite3.Connection, portfolio: str) -> None:
    rows = [("id", secrets.token_hex(8)), ("portfolio", portfolio), ("epoch", 0)]
    with transaction(connection):
        for statement in TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        _add(connection, 1)


def _add(connection: sqlite3.Connection, level: int) -> None:
    """Make the additions to a level, in the transaction of the caller."""
    for each in range(level, LEVEL):
        for statement in ADDITIONS[each]:
            connection.execute(statement)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('level', ?)", (LEVEL,))


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a file; 0 if it is empty. Raises an error for what is not a journal of this or an older release.

    Statements of the first kind to touch a damaged file raise `sqlite3.DatabaseError`.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0 and application == 0 and version == 0:
        return 0
    if application != APPLICATION:
        raise UnreadableFile(f"{str(path)!r} is a database, but not a journal of equipoise")
    if not 1 <= version <= VERSION:
        raise UnreadableFile(
            f"{str(path)!r} is a journal of version {version}, but this release reads versions up to {VERSION}"
            f"{_last_release(connection)}"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a journal from an older version and level to the current ones, step by step."""
    while version < VERSION:
        with transaction(connection):
            STEPS[version](connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        version += 1
    row = connection.execute("SELECT value FROM meta WHERE key = 'level'").fetchone()
    level = 1 if row is None else int(row[0])
    if level < LEVEL:  # a later release may have made more
        with transaction(connection):
            _add(connection, level)


def _last_release(connection: sqlite3.Connection) -> str:
    with suppress(sqlite3.Error):
        statement = "SELECT release FROM leases WHERE release IS NOT NULL ORDER BY epoch DESC LIMIT 1"
        row = connection.execute(statement).fetchone()
        return "" if row is None else f": equipoise {row[0]} wrote it, and this is equipoise {__version__}"
    return ""
