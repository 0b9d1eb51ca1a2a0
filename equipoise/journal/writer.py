"""Group commit: one thread writes, and all waiting batches go into one transaction.

While a transaction is flushed to disk, the next batches queue up, so one flush serves many callers. The caller bounds
the queue (`backlog`). After the first error the writer stops, because later batches build on the failed one.
"""

from __future__ import annotations

import sqlite3
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Condition, Lock, Thread
from typing import Any

from equipoise.errors import JournalFailed
from equipoise.portfolio.events import logger

MAX_ROWS = 4096  # of one transaction
MAX_AT_ONCE = 99  # rows of one statement; all releases of SQLite take 999 parameters
INSERT, ROW = "INSERT INTO events VALUES ", "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

Row = tuple[Any, ...]
Work = Callable[[sqlite3.Connection], object]  # anything else that writes; makes its own transaction


class Commit:
    """Handle for a batch that commits or fails atomically.

    A thread waits with `wait`. A coroutine awaits `future`, which exists if the commit has an event loop. The journal
    calls `then` when the batch is durable, before it wakes any caller.
    """

    __slots__ = ("_done", "error", "future", "loop", "then")

    def __init__(self, loop: AbstractEventLoop | None = None, then: Callable[[], None] | None = None) -> None:
        self.error: Exception | None = None
        self.loop, self.then = loop, then
        self.future: Future[None] | None = None if loop is None else loop.create_future()
        self._done = Lock()
        self._done.acquire()

    def finish(self, error: Exception | None) -> None:
        """Called once, by the journal, when the batch is durable or has failed."""
        self.error = error
        if error is None and self.then is not None:
            self.then()
        self._done.release()

    def finish_future(self) -> None:
        """Called in the event loop after `finish`."""
        assert self.future is not None
        if self.future.done():  # the task was canceled
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)

    def wait(self) -> None:
        """Return when the batch is durable; raise the error if it failed."""
        with self._done:
            pass
        if self.error is not None:
            raise self.error


class Writer:
    """Owns the only connection that writes. `committed` is called with the last row of every transaction."""

    def __init__(self, connection: sqlite3.Connection, committed: Callable[[Row], None], name: str) -> None:
        self._connection, self._committed, self._name = connection, committed, name
        self._queue: deque[tuple[Sequence[Row] | Work, Commit]] = deque()
        self._changed = Condition()
        self._busy = self._closing = False
        self.failure: JournalFailed | None = None
        self._thread = Thread(target=self._run, name=f"equipoise journal {name}", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        return len(self._queue)

    def put(self, work: Sequence[Row] | Work, commit: Commit) -> None:
        """Queue rows, or other work, to be committed."""
        with self._changed:
            if self.failure is not None:
                raise self.failure
            if self._closing:
                raise JournalFailed("the journal is closed")
            self._queue.append((work, commit))
            self._changed.notify()

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._busy

    def close(self) -> None:
        """Finish what is queued, then close the connection."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                while not self._queue and not self._closing:
                    self._changed.wait()
                if not self._queue:
                    break
                rows, commits, work = self._next_transaction()
                self._busy = True
            try:
                self._write(rows, work)
            except Exception as error:
                self._fail(error, commits)
            else:
                finish(commits, None)
        with suppress(sqlite3.Error):
            self._connection.close()

    def _next_transaction(self) -> tuple[list[Row], list[Commit], Work | None]:
        """Batches of rows up to the limit, or one piece of other work."""
        rows: list[Row] = []
        commits: list[Commit] = []
        while self._queue and len(rows) < MAX_ROWS:
            entry, commit = self._queue[0]
            if callable(entry):
                if commits:
                    break
                self._queue.popleft()
                return [], [commit], entry
            self._queue.popleft()
            rows += entry
            commits.append(commit)
        return rows, commits, None

    def _write(self, rows: Sequence[Row], work: Work | None) -> None:
        if self.failure is not None:
            raise self.failure
        if not rows and work is None:
            return
        if work is not None:
            work(self._connection)
            return
        if len(rows) <= MAX_AT_ONCE:
            self._insert(rows)
        else:
            with transaction(self._connection):
                for start in range(0, len(rows), MAX_AT_ONCE):
                    self._insert(rows[start : start + MAX_AT_ONCE])
        self._committed(rows[-1])

    def _insert(self, rows: Sequence[Row]) -> None:
        """Insert rows by one statement, which is a transaction of its own if none is open.

        After each step of a statement this thread has to wait until the others release it, several milliseconds if
        they are busy; a step for each row would make that the price of a commit.
        """
        statement = INSERT + ", ".join([ROW] * len(rows))
        self._connection.execute(statement, list(chain.from_iterable(rows)))

    def _fail(self, error: Exception, commits: Sequence[Commit]) -> None:
        if not isinstance(error, JournalFailed):
            failure = JournalFailed(f"the journal could not be written ({error}): fix the cause and reopen the journal")
            failure.__cause__ = error
            error = failure
            logger.error("%s: %s", self._name, error)
        with self._changed:
            self.failure = error
            waiting = [commit for _, commit in self._queue]
            self._queue.clear()
        finish([*commits, *waiting], error)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it becomes durable, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def finish(commits: Sequence[Commit], error: Exception | None) -> None:
    """Finish commits; each event loop is woken up once for all of its own."""
    loops: dict[AbstractEventLoop, list[Commit]] = {}
    for commit in commits:
        commit.finish(error)
        if commit.loop is not None:
            loops.setdefault(commit.loop, []).append(commit)
    for loop, own in loops.items():
        with suppress(RuntimeError):  # the loop was closed, so no task waits
            loop.call_soon_threadsafe(_finish_futures, own)


def _finish_futures(commits: Sequence[Commit]) -> None:
    for commit in commits:
        commit.finish_future()
