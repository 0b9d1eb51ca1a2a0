"""Tables of the SQLite journal, their version and the steps from older versions.

`user_version` of the file is the version. A step runs in one transaction with the new number, so a crash leaves the old
version or the new one. Steps are never changed once released.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from equipoise.errors import UnreadableFile
from equipoise.journal.writer import transaction

VERSION = 1
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

Step = Callable[[sqlite3.Connection], None]
STEPS: Mapping[int, Step] = {}  # by the version that a step starts from


def create(connection: sqlite3.Connection, portfolio: str) -> None:
    rows = [("id", secrets.token_hex(8)), ("portfolio", portfolio), ("epoch", 0)]
    with transaction(connection):
        for statement in TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


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
        )
    return int(version)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a journal from an older version to the current one, step by step."""
    while version < VERSION:
        with transaction(connection):
            STEPS[version](connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        version += 1
