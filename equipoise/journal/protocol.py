"""What a journal is: a durable log of the events of one portfolio, with snapshots of its state.

State = fold of events, so the log is the truth and a snapshot only saves time, except for a base snapshot: events
before it have lost data (see `retention`), so it is kept until a newer one replaces it.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock
from typing import NamedTuple, Protocol

from equipoise.portfolio.events import Event
from equipoise.types import Config


class Commit:
    """Becomes durable, or fails, as a whole: what waits for a batch of events.

    Waited for by a thread (`wait`) or, if it was created with an event loop, by a coroutine (`await commit.future`).
    `then` is called by the journal when the batch is durable, before anybody who waits goes on.
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


class SnapshotInfo(NamedTuple):
    """A snapshot: the number of the last event in it, whether events before it lost data, and when it was taken."""

    seq: int
    is_base: bool
    time: float


class Journal(Protocol):
    """A durable log of the events of one portfolio. One process at a time may write."""

    @property
    def portfolio(self) -> str:
        """Name of the portfolio."""
        ...

    @property
    def backlog(self) -> int:
        """How many batches wait to be written; whoever appends keeps it bounded."""
        ...

    @property
    def last_seq(self) -> int:
        """Number of the last durable event; 0 if there is none."""
        ...

    def lease(self) -> int:
        """Take the right to write and return its epoch, which grows with every lease.

        Raises `JournalLocked` if another process has it. An append under an old epoch fails.
        """
        ...

    def check_writable(self) -> None:
        """Raise the error that an append would raise: not leased, forked, or failed before."""
        ...

    def append(self, events: Sequence[Event], commit: Commit) -> None:
        """Queue a batch, numbered without gaps; `commit` finishes when all before it and itself are durable.

        An empty batch waits for those before it. Raises `JournalFailed` if an earlier batch failed.
        """
        ...

    def read(self, from_seq: int = 1) -> Iterator[Event]:
        """The durable events from a number on; raises `UnreadableFile` at one that is damaged or missing."""
        ...

    def snapshots(self) -> list[SnapshotInfo]:
        """The complete snapshots, the newest first."""
        ...

    def get_snapshot(self, seq: int) -> Config:
        """The state at an event; raises `UnreadableFile` if the snapshot is damaged."""
        ...

    def put_snapshot(self, seq: int, state: Config, *, base: bool = False) -> None:
        """Store the state at an event, once that event is durable; appends go on meanwhile.

        Two snapshots are kept, and the newest base.
        """
        ...

    def redact(self, *, ids: Collection[str] | None, before: float | None, keep: Collection[str]) -> int:
        """Remove contexts and outcomes from the log, of these decisions or of those made before a time.

        Those in `keep` are left alone. Snapshots before the newest base go too. Returns the number of events that lost
        data.
        """
        ...

    def close(self) -> None:
        """Finish what is queued and give the lease back."""
        ...
