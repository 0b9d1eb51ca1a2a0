"""A portfolio whose every answer is durable.

A call changes the portfolio in memory, queues the events of the change, and answers when they are durable: decisions,
rewards, refusals and reports alike, so nothing is visible that a crash could take back. Calls of other threads or tasks
go on meanwhile, and one flush to disk serves all that wait.

Memory is ahead of the log only while calls wait. If the log cannot be written (full disk, lost device), the calls that
wait get `JournalFailed` and so does every later one: what is in memory is no longer what is durable, and the way on is
to open the journal again. A failed call was not acknowledged; after opening again, its change is there as a whole or
not at all, and a caller's own id tells which (`decide` with the same id and context gives the one decision).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from itertools import count
from threading import Lock
from typing import TypeVar

from equipoise.errors import EquipoiseError, InvalidArgument, JournalBusy, JournalFailed
from equipoise.journal.protocol import Commit
from equipoise.journal.recovery import REDACTED
from equipoise.journal.retention import redact
from equipoise.journal.snapshots import Background
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.portfolio import Portfolio
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.events import Event, Listeners
from equipoise.types import Config

Result = TypeVar("Result")


class Durable:
    """Runs operations on a portfolio and answers when their events are durable."""

    def __init__(
        self,
        portfolio: Portfolio,
        journal: SQLiteJournal,
        *,
        snapshot_every: int = 20_000,
        retention_seconds: float | None = None,
        max_waiting: int = 1024,
    ) -> None:
        self._portfolio, self._journal = portfolio, journal
        self._max_waiting = max_waiting
        self._lock = Lock()
        self._seq = journal.last_seq
        self._events: list[Event] = []
        self._failure: EquipoiseError | None = None
        self._listeners = Listeners()
        self._clock = Clock(portfolio._time)
        portfolio.on_event(lambda event: self._events.append(event))
        self._retention_seconds = retention_seconds
        self._background = Background(journal, snapshot_every, self._state_and_seq, self._retain)

    @property
    def failure(self) -> EquipoiseError | None:
        """Why nothing more is accepted, if so."""
        return self._failure or self._journal.failure

    def _now(self) -> float:
        """The time, not before that of the last call."""
        return self._clock.now(self._portfolio._time)

    def transact(self, operation: Callable[[Portfolio, float], Result]) -> Result:
        """Call a function with the portfolio and the time; all that it changes becomes durable at once."""
        return self._call(lambda: operation(self._portfolio, self._now()))

    async def atransact(self, operation: Callable[[Portfolio, float], Result]) -> Result:
        """`transact` for asyncio: other tasks run until it is durable."""
        return await self._acall(lambda: operation(self._portfolio, self._now()))

    def _call(self, operation: Callable[[], Result]) -> Result:
        commit, result, error = self._begin(operation, None)
        commit.wait()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # set unless there was an error

    async def _acall(self, operation: Callable[[], Result]) -> Result:
        commit, result, error = self._begin(operation, asyncio.get_running_loop())
        assert commit.future is not None
        await commit.future
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # set unless there was an error

    def _begin(
        self, operation: Callable[[], Result], loop: asyncio.AbstractEventLoop | None
    ) -> tuple[Commit, Result | None, Exception | None]:
        """Run an operation and queue its events; its result, or its error, may be shown when the commit is done."""
        result, refusal = None, None
        with self._lock:
            self._check_open()
            try:
                result = operation()
            except Exception as error:  # a refusal changed nothing, but may speak of what is not durable yet
                refusal = error
            except BaseException:
                self._failure = JournalFailed("a call was interrupted while it changed the portfolio: open it again")
                raise
            commit = self._queue_events(loop)
        self._background.wake_if_due(self._seq)
        return commit, result, refusal

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._journal.check_writable()
        if self._journal.backlog >= self._max_waiting:
            raise JournalBusy(f"{self._max_waiting} calls wait for the journal, which is the maximum")

    def _queue_events(self, loop: asyncio.AbstractEventLoop | None = None) -> Commit:
        """Queue the events of an operation, numbered."""
        events, self._events = self._events, []
        name, seqs = self._journal.portfolio, count(self._seq + 1)
        numbered = [
            Event(kind, data, at, derived, version, name, seq, key)  # several times faster than `_replace`
            for (kind, data, at, derived, version, _, _, key), seq in zip(events, seqs, strict=False)
        ]
        commit = Commit(loop, (lambda: self._deliver(numbered)) if self._listeners.callbacks and numbered else None)
        try:
            self._journal.append(numbered, commit)
        except EquipoiseError as error:
            self._failure = self._failure or JournalFailed(f"an event could not be stored ({error}): open it again")
            raise
        self._seq += len(numbered)
        return commit

    def _deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            self._listeners.announce(event)

    def _state_and_seq(self) -> tuple[Config, int]:
        """The state, and the last event in it."""
        with self._lock:
            return self._portfolio.state(), self._seq

    def _retain(self) -> None:
        """Remove what is past its retention."""
        if self._retention_seconds is not None:
            redact(self._journal, self._note_redaction, None, self._now() - self._retention_seconds)

    def _note_redaction(self, ids: Collection[str] | None, before: float | None) -> tuple[Config, int, frozenset[str]]:
        """Append the event of a redaction; the state and last event before it, and the decisions to leave alone."""
        with self._lock:
            self._check_open()
            keep = frozenset(str(row["id"]) for row in self._needed_tickets())
            for id_ in ids or ():
                if id_ in keep:
                    raise InvalidArgument(f"id {id_!r} is open, or waits to be learned, but only closed ones can go")
            state, seq = self._portfolio.state(), self._seq
            data = {"ids": None if ids is None else sorted(ids), "before": before}
            self._events.append(Event(REDACTED, data, self._portfolio._time))
            commit = self._queue_events()
        commit.wait()
        return state, seq, keep

    def _needed_tickets(self) -> list[Config]:
        state = self._portfolio.state()
        return [*state["tickets"], *state["teaching"]["tickets"]]
