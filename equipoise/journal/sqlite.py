"""The journal in one SQLite file: WAL, flushed at each commit, one connection that writes and checkpoints.

Every row has a CRC over all its columns. The writing connection lives in the writer thread (see `writer`); everything
else reads over connections of its own that can only read, also in other processes. SQLite before 3.51.3 can damage a
WAL if several connections write or checkpoint; here only one ever does.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from math import inf
from pathlib import Path
from time import sleep
from time import time as clock
from typing import Any, TypeVar
from urllib.parse import quote

from equipoise import __version__
from equipoise.errors import EquipoiseError, FileUnavailable, JournalFailed, JournalLocked, UnreadableFile
from equipoise.journal import schema
from equipoise.journal.protocol import SnapshotInfo, WrittenBy
from equipoise.journal.writer import Commit, Row, Work, Writer, finish, transaction
from equipoise.portfolio.events import Event, logger
from equipoise.storage.codec import accelerate, decode, encode, encode_in_parts
from equipoise.types import Config, Plain

try:
    import fcntl
except ImportError:  # pragma: no cover - other systems
    fcntl = None  # type: ignore[assignment]

MAX_SNAPSHOTS = 2
PART_BYTES = 1 << 18  # of a snapshot, written in one transaction between those of events
ROWS_PER_TRANSACTION = 256  # redacted or removed
VACUUM_PAGES = 64  # given back to the file system in one transaction
MAX_CHECKPOINTS, CHECKPOINT_SECONDS = 100, 0.05  # tries to empty the WAL, and the pause between two
BUSY_SECONDS = 5.0
CHECK_BYTES = 1 << 25  # of a file whose pages are checked at a start; larger ones take seconds if the disk is slow
COLUMNS = "seq, kind, key, subject, time, derived, version, redacted, data, crc"
LATEST_AMONG, MAX_LATEST = 5_000, 200
REMOVED = ("context", "digest", "outcome", "seen", "unit")  # what redaction removes
ERRORS = frozenset({"failures", "failed", "refused"})  # entries that end with the message of a learner's error
MARK = "%020d %s\n"  # number of the last committed event, id of the journal
MARK_LENGTH = len(MARK % (0, "0" * 16))

UNAVAILABLE = frozenset(  # other errors of SQLite are damage
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)

T = TypeVar("T")
accelerate()


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error of SQLite says that the file is damaged, and not that it cannot be used at present."""
    if isinstance(error, sqlite3.ProgrammingError):  # the connection is closed
        return False
    code: int | None = getattr(error, "sqlite_errorcode", None)  # text that is not UTF-8 has none
    return code is None or code & 0xFF not in UNAVAILABLE


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        kind = UnreadableFile if is_damage(error) else FileUnavailable
        raise kind(f"{str(path)!r} could not be used as a journal: {error}") from error


def quick_check(connection: sqlite3.Connection) -> str:
    """Check the structure of the pages; return the first fault, empty if there is none."""
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    return "" if found == "ok" else " ".join(str(found).split())


def read_mark(line: bytes) -> tuple[int, str]:
    """Return the number of an event and the id of its journal, as a lock file has them; 0 if it has none."""
    seq, _, journal_id = line[:MARK_LENGTH].decode("ascii", "replace").partition(" ")
    return (int(seq), journal_id.strip()) if seq.isdecimal() else (0, "")


def lock_path(journal: Path) -> Path:
    return journal.with_name(journal.name + ".lock")


class LockFile:
    """The lock file next to a journal: held from its creation until `close`, or until the process ends.

    The operating system releases the lock with its process, however that ends, so a stale file locks no process out.
    The file also holds the number of the last committed event. It is written after each commit and not flushed, so it
    is never ahead of a log that was flushed; a log that ends before it has lost events that were acknowledged.
    """

    def __init__(self, journal: Path) -> None:
        if fcntl is None:  # pragma: no cover - other systems
            raise EquipoiseError("a journal needs file locks as on Linux and macOS, which this system does not have")
        self.path = lock_path(journal)
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

    @property
    def marked(self) -> tuple[int, str]:
        """The last event that was noted, and the id of its journal; 0 if none was."""
        return read_mark(os.pread(self._file, MARK_LENGTH, 0))

    def close(self) -> None:
        os.close(self._file)


class SQLiteJournal:
    """A journal in a file.

    Parameters
    ----------
    path
        The file; created if `create` says so.
    portfolio
        Name of the portfolio, for a new file. Default: the name of the file.
    create
        Whether to create a file that does not exist.
    """

    def __init__(self, path: str | Path, portfolio: str | None = None, *, create: bool = True) -> None:
        self.path = Path(os.path.realpath(path))
        if not create and not self.path.is_file():
            fault = "is not a file" if self.path.exists() else "does not exist"
            raise UnreadableFile(f"{os.fspath(path)!r} {fault}, so there is no journal to open")
        self.portfolio = self.path.stem if portfolio is None else portfolio  # name
        self._writer: Writer | None = None
        self._lock: LockFile | None = None
        self._last_seq = self._archived = 0
        self._id = ""
        self.damage = ""  # that the check of the pages found when the lease was taken

    @property
    def last_seq(self) -> int:
        """Number of the last durable event; 0 if there is none."""
        if self._writer is None:
            return int(self._query("SELECT coalesce(max(seq), 0) FROM events")[0][0])
        return self._last_seq

    @property
    def archived(self) -> int:
        """Number of the last event that was archived (see `archive`); 0 if none was.

        Of the events up to this one, the file has the first one and some others; all later ones are there.
        """
        return int(self._meta("archived") or 0) if self._writer is None else self._archived

    @property
    def archive_folder(self) -> str | None:
        """The folder of the archive, if it is not the default one."""
        folder: str | None = self._meta("archive")
        return folder

    @property
    def id(self) -> str:
        """The random id of the journal, which its copies and archives share."""
        return str(self._meta("id"))

    def _meta(self, key: str) -> Any:
        rows = self._query("SELECT value FROM meta WHERE key = ?", key)
        return rows[0][0] if rows else None

    @property
    def last_time(self) -> float:
        """Time of the last durable event, in seconds since 1970; -inf if there is none."""
        rows = self._query("SELECT time FROM events ORDER BY seq DESC LIMIT 1")
        return float(rows[0][0]) if rows else -inf

    @property
    def backlog(self) -> int:
        """How many batches wait to be written."""
        return 0 if self._writer is None else self._writer.backlog

    @property
    def failure(self) -> JournalFailed | None:
        """Why nothing more is written, if so."""
        return None if self._writer is None else self._writer.failure

    def check_writable(self) -> None:
        """Raise the error that an append would raise."""
        failure = self._leased().failure
        if failure is not None:
            raise failure

    def lease(self) -> int:
        """Take the right to write, create or migrate the tables, and start the writer; returns the epoch."""
        lock = LockFile(self.path)
        try:
            if not self.path.exists():
                self._check_end(lock)
            with reading(self.path):
                connection = sqlite3.connect(
                    self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
                )
            try:
                epoch = self._prepare(connection, lock)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        self._writer = Writer(connection, self._committed, self.portfolio)
        return epoch

    def _prepare(self, connection: sqlite3.Connection, lock: LockFile) -> int:
        def prepare() -> int:
            version = schema.version_of(connection, self.path)
            if version == 0:
                self._check_end(lock)
            if version == 0:  # before the first page is written; without it, `shrink` does nothing
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise EquipoiseError(f"{str(self.path)!r} cannot be used with a WAL (its file system gives {mode!r})")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            if version == 0:
                schema.create(connection, self.portfolio)
            else:
                schema.migrate(connection, version)
            # A write, so that a file that cannot be written is found before the first event.
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")
            statement = "UPDATE leases SET release = ? WHERE epoch = (SELECT value FROM meta WHERE key = 'epoch')"
            connection.execute(statement, (__version__,))
            meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
            self._id, self.portfolio = meta["id"], meta["portfolio"]
            self._archived = int(meta.get("archived", 0))
            (self._last_seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
            return int(meta["epoch"])

        with reading(self.path):
            epoch = prepare()
        self._check_end(lock)
        if self.path.stat().st_size <= CHECK_BYTES:
            self.damage = quick_check(connection)
        if self.damage:
            logger.error("%s: the journal is damaged (%s): restore a backup", self.portfolio, self.damage)
        lock.mark(self._last_seq, self._id)
        return epoch

    def _check_end(self, lock: LockFile) -> None:
        """Raise an error, before anything is marked, if events are missing that the lock file knows of."""
        marked, journal_id = lock.marked
        if self._id and marked and journal_id != self._id:
            fault = "is another journal than the one that was open here"
        elif marked > self._last_seq:
            fault = f"ends at event {self._last_seq}"
        else:
            return
        raise UnreadableFile(
            f"{str(self.path)!r} {fault}, but {marked} were committed: its end is lost. Restore a backup, or remove "
            f"{lock.path.name!r} to accept the loss"
        )

    def note_rule(self, selector: str, version: int | None) -> None:
        """Note, before the first event under a lease, which rule decides."""
        epoch = self._meta("epoch")
        self._do([("UPDATE leases SET selector = ?, rule = ? WHERE epoch = ?", (selector, version, epoch))])

    def writer_of(self, seq: int) -> WrittenBy:
        """Who wrote an event."""
        return next((writer for first, writer in reversed(self.writers()) if first <= seq), WrittenBy())

    def writers(self) -> list[tuple[int, WrittenBy]]:
        """Who wrote the events: the number of the first one of each writer, and the writer."""
        found: dict[int, WrittenBy] = {}
        for first, *writer in self._leases("SELECT first_seq, release, selector, rule FROM leases ORDER BY epoch"):
            found[first] = WrittenBy(*writer)  # leases without an event are replaced by the next one
        return [(first, writer) for first, writer in found.items() if first <= self.last_seq]

    def writer_of_snapshot(self, seq: int) -> WrittenBy:
        """Who wrote a snapshot."""
        statement = "SELECT release, selector, rule FROM snapshot_leases JOIN leases USING (epoch) WHERE seq = ?"
        return next((WrittenBy(*row) for row in self._leases(statement, seq)), WrittenBy())

    def _leases(self, statement: str, *arguments: object) -> list[Row]:
        """Query leases; a file of an earlier release has none until this one writes to it."""
        tables = self._query("SELECT count(*) FROM sqlite_master WHERE name = 'leases'")
        return self._query(statement, *arguments) if tables[0][0] else []

    def append(self, events: Sequence[Event], commit: Commit) -> None:
        """Queue a batch; `commit` finishes when all before it and itself are durable."""
        writer = self._leased()
        if not events and writer.is_idle and writer.failure is None:
            finish([commit], None)
        else:
            writer.put([_row(event) for event in events], commit)

    def read(self, from_seq: int = 1) -> Iterator[Event]:
        """The durable events from a number on; raises `UnreadableFile` at one that is damaged or missing."""
        for row in self._rows(from_seq):
            yield self._event(row)

    def of_decision(self, id_: str) -> list[Event]:
        """The events about a decision."""
        return self._events("subject = ? ORDER BY seq", id_)

    def of_unit(self, unit: str) -> set[str]:
        """The ids of the decisions of a unit whose events have their data; reads every event, but decodes few."""
        found = self._events("kind = 'decided' AND redacted = 0 AND instr(data, ?)", unit.encode())
        return {str(event.data["id"]) for event in found if event.data.get("unit") == unit}

    def time_of(self, seq: int) -> float | None:
        """The time of an event; None if it is not in the file."""
        rows = self._query("SELECT time FROM events WHERE seq = ?", seq)
        return float(rows[0][0]) if rows else None

    def latest(self, kind: str) -> list[Event]:
        """The newest events of a kind, the newest first, among the last `LATEST_AMONG`; at most `MAX_LATEST`."""
        since = self.last_seq - LATEST_AMONG
        return self._events(f"seq > ? AND kind = ? ORDER BY seq DESC LIMIT {MAX_LATEST}", since, kind)

    def snapshots(self) -> list[SnapshotInfo]:
        """The complete snapshots, the newest first."""
        size = "(SELECT coalesce(sum(length(data)), 0) FROM snapshot_parts WHERE snapshot_parts.seq = snapshots.seq)"
        rows = self._query(f"SELECT seq, base, time, {size} FROM snapshots ORDER BY seq DESC")
        return [SnapshotInfo(seq, bool(base), time, size) for seq, base, time, size in rows]

    def get_snapshot(self, seq: int) -> Config:
        """The state at an event; raises `UnreadableFile` if the snapshot is damaged."""
        state: Config = decode(self._snapshot(seq))
        return state

    def make_base(self, seq: int) -> None:
        """Make a snapshot the base, after checking it."""
        self._snapshot(seq)
        self._do([("UPDATE snapshots SET base = 1 WHERE seq = ?", (seq,))])

    def _snapshot(self, seq: int) -> bytes:
        with reading(self.path), closing(connect_reader(self.path)) as connection:
            return b"".join(snapshot_parts(connection, seq, self.path))

    def put_snapshot(self, seq: int, state: Config, *, base: bool = False) -> int:
        """Store the state at an event in parts, between which events are written; two snapshots are kept.

        Returns the size of the snapshot in bytes. Each part is made when it is written, and other threads run between
        its pieces.
        """
        digest, n_parts, n_bytes, time = hashlib.sha256(), 0, 0, clock()
        unused = "DELETE FROM snapshot_parts WHERE seq NOT IN (SELECT seq FROM snapshots)"
        newest = f"SELECT seq FROM snapshots ORDER BY seq DESC LIMIT {MAX_SNAPSHOTS}"
        base_seq = "SELECT max(seq) FROM snapshots WHERE base"
        old = f"DELETE FROM snapshots WHERE seq NOT IN ({newest}) AND seq IS NOT ({base_seq})"
        self._do([("DELETE FROM snapshots WHERE seq = ?", (seq,)), (unused, ())])
        for content in _parts(encode_in_parts(state)):
            self._do([("INSERT INTO snapshot_parts VALUES (?, ?, ?)", (seq, n_parts, content))])
            digest.update(content)
            n_parts, n_bytes = n_parts + 1, n_bytes + len(content)
        row = (seq, base, time, n_parts, digest.hexdigest())
        self._do([("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", row), (old, ()), (unused, ())])
        return n_bytes

    def redact(self, *, ids: Collection[str] | None, before: float | None, keep: Collection[str], last: int) -> int:
        """Remove contexts and outcomes from the log, of these decisions or of those made before a time.

        Events after the one with the number `last` are left alone: decisions were made since `keep` was determined.
        """
        seqs = [seq for seq in self.unredacted(ids, before, keep) if seq <= last]
        for some in _chunks(seqs):
            self._do(self.stripped(some))
        # Older snapshots and the WAL hold it too.
        base = "(SELECT max(seq) FROM snapshots WHERE base)"
        self._do([(f"DELETE FROM {table} WHERE seq < {base}", ()) for table in ("snapshot_parts", "snapshots")])
        self._empty_wal()
        return len(seqs)

    def index_unredacted(self) -> None:
        """Index the events that have their contexts by time, for retention; takes a second for a million events."""
        self._do([(schema.UNREDACTED, ())])

    def unredacted(self, ids: Collection[str] | None, before: float | None, keep: Collection[str]) -> list[int]:
        """Numbers of the events that have contexts and outcomes, of these decisions or before a time, but not kept."""
        found, of_any = [], "SELECT seq, subject FROM events WHERE redacted = 0 AND subject IS NOT NULL"
        if ids is None:
            found = self._query(f"{of_any} AND time < ?", before)
        for some in _chunks(sorted(ids or ())):
            found += self._query(f"{of_any} AND subject {_in(some)}", *some)
        kept = frozenset(keep)
        return [seq for seq, subject in found if subject not in kept]

    def stripped(self, seqs: Sequence[int]) -> list[tuple[str, Row]]:
        """The statements that remove contexts and outcomes from events."""
        return [_stripped(event) for event in self._events(f"seq {_in(seqs)}", *seqs)]

    def note_archived(self, seq: int, folder: str | None) -> None:
        """Note that the events up to this one are durable in the archive."""
        notes = [("INSERT OR REPLACE INTO meta VALUES (?, ?)", row) for row in (("archived", seq), ("archive", folder))]
        self._do(notes)
        self._archived = seq

    def has_archived(self, ids: Collection[str]) -> bool:
        """Whether the archive may have events of one of these decisions."""
        later: set[str] = set()
        for some in _chunks(sorted(ids)):
            statement = f"SELECT subject FROM events WHERE subject {_in(some)} AND kind = 'decided' AND seq > ?"
            later.update(subject for (subject,) in self._query(statement, *some, self.archived))
        return self.archived > 0 and not later.issuperset(ids)

    def remove_archived(self, keep: Collection[str], since: float) -> Iterator[None]:
        """Remove archived events, a transaction per step, but the first one and those that calls may still need.

        These are the events of the decisions in `keep`, and of the decisions with an event since a time.
        """
        kept, position, archived = frozenset(keep), 1, self.archived
        needless = (
            "SELECT seq, subject FROM events AS each WHERE seq > ? AND seq <= ? AND NOT EXISTS "
            "(SELECT 1 FROM events WHERE subject = each.subject AND time >= ?) ORDER BY seq LIMIT ?"
        )
        while rows := self._query(needless, position, archived, since, ROWS_PER_TRANSACTION):
            position = rows[-1][0]
            if seqs := [seq for seq, subject in rows if subject not in kept]:
                self._do([(f"DELETE FROM events WHERE seq {_in(seqs)}", tuple(seqs))])
                yield

    def shrink(self) -> Iterator[None]:
        """Give unused space back to the file system, some pages per step; older files only use it again."""
        while self._query("PRAGMA auto_vacuum")[0][0] and self._query("PRAGMA freelist_count")[0][0]:
            self._work(lambda connection: connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall())
            yield

    def _empty_wal(self) -> None:
        """Truncate the WAL, which has what was redacted; readers must end first, and events are written meanwhile."""
        busy: list[int] = []

        def truncate(connection: sqlite3.Connection) -> None:
            connection.execute("PRAGMA busy_timeout = 0")
            busy[:] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[:1]
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1e3:.0f}")

        for _ in range(MAX_CHECKPOINTS):
            self._work(truncate)
            if not any(busy):
                return
            sleep(CHECKPOINT_SECONDS)
        raise FileUnavailable(
            f"{str(self.path)!r}: contexts were removed, but its WAL still has them, because another process reads the "
            "journal: repeat this when it has ended"
        )

    def close(self) -> None:
        """Finish what is queued and give the lease back."""
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            self._lock.close()
        self._writer = self._lock = None

    def _leased(self) -> Writer:
        if self._writer is None or self._lock is None:
            raise JournalFailed(f"{str(self.path)!r} is closed, or open for reading only")
        self._lock.check_process()
        return self._writer

    def _do(self, statements: Sequence[tuple[str, Row]]) -> None:
        """Let the writer execute statements in one transaction, and wait for it."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                for statement, arguments in statements:
                    connection.execute(statement, arguments)

        self._work(work)

    def _work(self, work: Work) -> None:
        commit = Commit()
        self._leased().put(work, commit)
        commit.wait()

    def _committed(self, row: Row) -> None:
        self._last_seq = row[0]
        assert self._lock is not None
        self._lock.mark(self._last_seq, self._id)

    def _rows(self, from_seq: int) -> Iterator[Row]:
        """Checked rows, without gaps."""
        expected = from_seq
        statement = f"SELECT {COLUMNS} FROM events WHERE seq >= ? ORDER BY seq"
        with reading(self.path), closing(connect_reader(self.path)) as connection:
            for row in connection.execute(statement, (from_seq,)):
                if row[0] != expected and expected <= (archived := self.archived):
                    raise UnreadableFile(
                        f"{str(self.path)!r} has no event {expected}: the events up to {archived} were archived"
                    )
                if row[0] != expected:
                    raise UnreadableFile(f"{str(self.path)!r} has no event {expected}, though later ones are there")
                expected += 1
                yield check_row(row, self.path)

    def _event(self, row: Row) -> Event:
        seq, kind, key, _, time, derived, version, _, data, _ = row
        return Event(kind, decode(data), time, bool(derived), version, self.portfolio, seq, key)

    def _events(self, where: str, *arguments: object) -> list[Event]:
        rows = self._query(f"SELECT {COLUMNS} FROM events WHERE {where}", *arguments)
        return [self._event(check_row(row, self.path)) for row in rows]

    def _query(self, statement: str, *arguments: object) -> list[Row]:
        with reading(self.path), closing(connect_reader(self.path)) as connection:
            return connection.execute(statement, arguments).fetchall()


def snapshot_parts(connection: sqlite3.Connection, seq: int, path: Path) -> Iterator[bytes]:
    """Yield the parts of a snapshot; raise an error, at the end at the latest, if it is damaged."""
    digest = hashlib.sha256()
    for (data,) in connection.execute("SELECT data FROM snapshot_parts WHERE seq = ? ORDER BY part", (seq,)):
        if not isinstance(data, bytes):
            break  # a value of another type
        digest.update(data)
        yield data
    if connection.execute("SELECT digest FROM snapshots WHERE seq = ?", (seq,)).fetchone() != (digest.hexdigest(),):
        raise UnreadableFile(f"{str(path)!r} has a damaged snapshot at event {seq}")


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read, for any thread."""
    uri = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _row(event: Event, *, redacted: bool = False) -> Row:
    subject: Plain = event.data.get("id")
    kind, data, time, derived, version, _, seq, key = event
    head = [seq, kind, key, subject if isinstance(subject, str) else None, float(time), int(derived), version]
    head.append(int(redacted))
    encoded = encode(data)
    return *head, encoded, _crc(head, encoded)


def _crc(head: list[Any], data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(repr(head).encode()))


def check_row(row: Row, path: Path) -> Row:
    """Return a row of `COLUMNS`; raise an error if it is damaged."""
    *head, data, crc = row
    if not isinstance(data, bytes) or _crc(head, data) != crc:
        raise UnreadableFile(f"{str(path)!r} has a damaged event {row[0]}: its checksum does not match")
    return row


def _in(values: Sequence[object]) -> str:
    return f"IN ({', '.join('?' * len(values))})"


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of all pieces in parts of one size; other threads may run after each piece."""
    part = bytearray()
    for piece in pieces:
        part += piece
        sleep(0.0)
        while len(part) >= PART_BYTES:
            yield bytes(part[:PART_BYTES])
            del part[:PART_BYTES]
    if part:
        yield bytes(part)


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + ROWS_PER_TRANSACTION] for start in range(0, len(values), ROWS_PER_TRANSACTION))


def _stripped(event: Event) -> tuple[str, Row]:
    """The statement that removes contexts and outcomes from an event."""
    data: dict[str, Plain] = {key: None if key in REMOVED else value for key, value in event.data.items()}
    for key in ERRORS & data.keys():  # a message may quote the context
        data[key] = tuple((*about, error.partition(":")[0]) for *about, error in event.data[key])
    *_, encoded, crc = _row(event._replace(data=data), redacted=True)
    return "UPDATE events SET redacted = 1, data = ?, crc = ? WHERE seq = ?", (encoded, crc, event.seq)
