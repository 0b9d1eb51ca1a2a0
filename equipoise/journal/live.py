"""A portfolio that is durable at each answer.

A call changes the portfolio in memory, queues the events of the change, and answers when they are durable: decisions,
rewards, refusals and reports alike, so nothing is visible that a crash could take back. Calls of other threads or tasks
continue meanwhile, and one flush to disk serves all that wait.

Memory is ahead of the log only while calls wait. If the log cannot be written (full disk, lost device), the waiting
calls and all later ones get `JournalFailed`: the memory no longer equals the log, so reopen the journal to continue. A
failed call was not acknowledged. After reopening, its change is there as a whole or not at all, and a caller's own id
tells which (`decide` with the same id and context gives the one decision).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import wraps
from inspect import signature
from itertools import count
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from equipoise.errors import EquipoiseError, InvalidArgument, JournalBusy, JournalFailed
from equipoise.journal.maintenance import backup
from equipoise.journal.recovery import REDACTED
from equipoise.journal.retention import Retainer
from equipoise.journal.snapshots import Background
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.journal.writer import Commit
from equipoise.learner import MinimalLearner
from equipoise.portfolio import Portfolio
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.events import Callback, Event, Listeners, logger
from equipoise.portfolio.settings import Retention
from equipoise.portfolio.warm_start import Log, LoggedRound, WarmStart
from equipoise.storage.parts import describe_part
from equipoise.types import Config, Plain

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Reward = tuple[str, float] | tuple[str, float, str | None]  # id of the decision, reward, key


Durable = Callable[Concatenate["LivePortfolio", Arguments], Result]
Awaitable = Callable[Concatenate["LivePortfolio", Arguments], Coroutine[Any, Any, Result]]


def _durable(operation: Callable[Concatenate[LivePortfolio, Arguments], Result]) -> Durable[Arguments, Result]:
    """Make a method that runs this operation and returns when its events are durable."""

    @wraps(operation)
    def call(self: LivePortfolio, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._call(operation, self, *arguments, **options)

    return call


def _of_portfolio(method: Callable[Concatenate[Portfolio, Arguments], Result]) -> Durable[Arguments, Result]:
    """Make the durable form of a method of `Portfolio`; one that takes a time gets the journal's clock by default."""
    is_timed = "at" in signature(method).parameters

    @wraps(method)
    def operation(self: LivePortfolio, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if is_timed and options.get("at") is None:
            options["at"] = self._now()
        return method(self._portfolio, *arguments, **options)

    return _durable(operation)


def _property_of_portfolio(read: object) -> property:
    """Make the durable form of a property of `Portfolio`."""
    assert isinstance(read, property) and read.fget is not None
    get = read.fget
    return property(_durable(lambda self: get(self._portfolio)), doc=read.__doc__)


def _awaitable(method: Callable[Concatenate[LivePortfolio, Arguments], Result]) -> Awaitable[Arguments, Result]:
    """Make the form of a durable method for asyncio: other tasks run until its events are durable."""
    operation: Callable[..., Result] = method.__wrapped__  # type: ignore[attr-defined]

    @wraps(operation)
    async def call(self: LivePortfolio, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await self._acall(operation, self, *arguments, **options)

    call.__doc__ = f"Do the same as `{operation.__name__}`, for asyncio."
    return call


class LivePortfolio:
    """The methods of `Portfolio`, durable at each answer; made by `equipoise.open`.

    Safe for threads and for asyncio: `adecide`, `alearn`, `awithdraw` and `aexpire` are the awaitable forms of the
    frequent calls, `arun` is the awaitable form of any other. Use it as a context manager, or close it; without that,
    nothing acknowledged is lost, but the next start takes longer.
    """

    def __init__(
        self,
        portfolio: Portfolio,
        journal: SQLiteJournal,
        *,
        snapshot_every: int,
        retention: Retention,
        max_waiting: int,
    ) -> None:
        self._portfolio, self.journal, self.name = portfolio, journal, journal.portfolio
        self._max_waiting = max_waiting
        self._lock = Lock()
        self._seq = journal.last_seq
        self._events: list[Event] = []
        self._failure: EquipoiseError | None = None
        self._listeners = Listeners()
        self._last_time = journal.last_time
        self._clock = Clock(self._last_time)
        portfolio.on_event(lambda event: self._events.append(event))
        self._background = Background(journal, snapshot_every, self._state_and_seq)
        self._retainer = Retainer(journal, self._note_redaction, self._now, lambda: self.unfinished, self._background)
        self._retainer.apply(retention)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LivePortfolio({str(self.journal.path)!r}, {self._seq:,} events)"

    @property
    def failure(self) -> EquipoiseError | None:
        """The reason why no more calls are accepted, if so."""
        return self._failure or self.journal.failure

    decide = _of_portfolio(Portfolio.decide)
    slate = _of_portfolio(Portfolio.slate)
    kept_decision = _of_portfolio(Portfolio.kept_decision)
    learn = _of_portfolio(Portfolio.learn)
    withdraw = _of_portfolio(Portfolio.withdraw)
    activate = _of_portfolio(Portfolio.activate)
    expire = _of_portfolio(Portfolio.expire)
    extend_deadlines = _of_portfolio(Portfolio.extend_deadlines)
    remove_learner = _of_portfolio(Portfolio.remove_learner)
    rename_learner = _of_portfolio(Portfolio.rename_learner)
    suspend = _of_portfolio(Portfolio.suspend)
    resume = _of_portfolio(Portfolio.resume)
    retry_updates = _of_portfolio(Portfolio.retry_updates)

    # Reads, which wait too: they must not tell what a crash could take back.
    settings = _property_of_portfolio(Portfolio.settings)
    declared = _property_of_portfolio(Portfolio.declared)
    schema = _property_of_portfolio(Portfolio.schema)
    reward_range = _property_of_portfolio(Portfolio.reward_range)
    learner_names = _property_of_portfolio(Portfolio.learner_names)
    recommendation = _property_of_portfolio(Portfolio.recommendation)
    restarted_settings = _property_of_portfolio(Portfolio.restarted_settings)
    pending = _property_of_portfolio(Portfolio.pending)
    n_pending = _property_of_portfolio(Portfolio.n_pending)
    waiting_bytes = _property_of_portfolio(Portfolio.waiting_bytes)
    unfinished = _property_of_portfolio(Portfolio.unfinished)
    failed_updates = _property_of_portfolio(Portfolio.failed_updates)
    time = _property_of_portfolio(Portfolio.time)
    units_bytes = _property_of_portfolio(Portfolio.units_bytes)
    history = _property_of_portfolio(Portfolio.history)
    open_decisions = _of_portfolio(Portfolio.open_decisions)
    counted = _of_portfolio(Portfolio.counted)
    regret_of = _of_portfolio(Portfolio.regret_of)
    certificate = _of_portfolio(Portfolio.certificate)
    compare = _of_portfolio(Portfolio.compare)
    standing = _of_portfolio(Portfolio.standing)
    statements = _of_portfolio(Portfolio.statements)
    describe = _of_portfolio(Portfolio.describe)
    explain = _of_portfolio(Portfolio.explain)
    records = _of_portfolio(Portfolio.records)
    plot = _of_portfolio(Portfolio.plot)
    to_json = _of_portfolio(Portfolio.to_json)
    state = _of_portfolio(Portfolio.state)
    save = _of_portfolio(Portfolio.save)

    @_durable
    def learn_many(self, rewards: Sequence[Reward]) -> list[EquipoiseError | None]:
        """Learn from several rewards, each `(id, reward)` or `(id, reward, key)`, with one wait for the disk.

        Returns for each the error that `learn` would have raised, or None; a refused one does not disturb the others.
        """
        results: list[EquipoiseError | None] = []
        for id_, reward, *rest in rewards:
            try:
                self._portfolio.learn(id_, reward, key=rest[0] if rest else None, at=self._now())
            except EquipoiseError as error:
                results.append(error)
            else:
                results.append(None)
        return results

    adecide = _awaitable(decide)
    alearn = _awaitable(learn)
    alearn_many = _awaitable(learn_many)
    awithdraw = _awaitable(withdraw)
    aexpire = _awaitable(expire)

    @_durable
    def add_learner(self, learner: MinimalLearner, *, bound: Any = None) -> str:
        """Add a learner to the running portfolio, as `Portfolio.add_learner`; it must have `state` and `restore`."""
        describe_part(learner)  # raises an error if it has no state
        return self._portfolio.add_learner(learner, bound=bound)

    def warm_start(
        self,
        log: Log | Sequence[LoggedRound],
        *,
        learners: Iterable[str] | None = None,
        evidence: bool = False,
        seed: int = 0,
    ) -> WarmStart:
        """Teach learners the rounds of a log before they play, as `Portfolio.warm_start`; durable when it returns.

        The journal keeps the learned state, not the log. With `evidence` the rounds become durable some at a time, as
        if played live: after a crash, the durable ones stay played.
        """
        if not evidence:
            return self._call(self._portfolio.warm_start, log, learners=learners)
        replay = self._call(self._portfolio.replay_log, log, learners=learners, seed=seed, now=self._now)
        while self._call(replay.advance):
            pass
        return self._call(replay.result)

    def reconfigure(self, **changes: Plain) -> None:
        """Change settings while the portfolio runs, as `Portfolio.reconfigure`; `fallback` must not be a function."""
        if callable(changes.get("fallback")):
            raise InvalidArgument("fallback is a function, which a journal cannot keep: give it when it is created")
        self._call(self._portfolio.reconfigure, **changes)

    def health(self) -> Config:
        """Return the numbers for operators: those of the portfolio, and of the journal under "journal"."""
        health: Config = self._call(self._portfolio.health)
        return {**health, "journal": self.journal_health()}

    def journal_health(self) -> Config:
        """Return the numbers of the journal, without waiting for it."""
        return {
            "events": self._seq,
            "waiting": self.journal.backlog,
            "snapshot": self._background.last,
            "snapshot_seconds": self._background.pause_seconds,
            "state_bytes": self._background.bytes,
            "snapshot_error": self._background.error,
            "archived": self.journal.archived,
            "retention_error": self._retainer.error,
            "damage": self.journal.damage,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def on_event(self, callback: Callback) -> None:
        """Call `callback` with every `Event` once it is durable, numbered as in the journal.

        The thread that writes calls it, so it must be quick. If it raises an error, that is logged.
        """
        self._listeners.add(callback)

    async def arun(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of `Portfolio` by its name; other tasks run until it is durable."""
        return await self._acall(getattr(self._portfolio, method), *arguments, **options)

    def transact(self, operation: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function with the portfolio, the time and `arguments`; all its changes become durable at once."""
        return self._call(self._transact, operation, *arguments)

    async def atransact(self, operation: Callable[..., Result], *arguments: Any) -> Result:
        """Do the same as `transact`, for asyncio: other tasks run until it is durable."""
        return await self._acall(self._transact, operation, *arguments)

    def redact(
        self, ids: Collection[str] | None = None, *, before: float | None = None, unit: str | None = None
    ) -> int:
        """Remove contexts and outcomes of closed decisions from the journal: of these ids, a unit, or before a time.

        Decisions, rewards and certificates stay as they are: a base snapshot is kept, and a rebuild starts there.
        Returns the number of events that lost data.

        Parameters
        ----------
        ids
            Ids of closed decisions, your own or the portfolio's.
        before
            Seconds since 1970: the limit for decisions to be redacted.
        unit
            The unit whose decisions are redacted; all must be closed. Give one of the three.
        """
        return self._retainer.redact(ids, before, unit)

    def retain(self, retention: Retention) -> None:
        """Remove contexts and archive events after these times from now on."""
        self._retainer.apply(retention)

    def snapshot(self) -> int:
        """Store a snapshot now; returns the number of the last event in it."""
        return self._background.snapshot()

    def backup(self, path: str | Path) -> None:
        """Write a copy of the journal to another file while it is in use."""
        backup(self.journal.path, path)

    def close(self, *, snapshot: bool = True) -> None:
        """Finish waiting calls, store a snapshot so that the next start is quick, and give the journal back."""
        self._retainer.close()
        self._background.close()
        try:
            if snapshot and self.failure is None:
                self._background.snapshot()
        finally:
            with self._lock:
                self._failure = self._failure or JournalFailed(f"{str(self.journal.path)!r} is closed")
            self.journal.close()

    def _now(self) -> float:
        """Return the time, not before that of the last event."""
        return self._clock.now(self._last_time)

    def _transact(self, operation: Callable[..., Result], *arguments: Any) -> Result:
        return operation(self._portfolio, self._now(), *arguments)

    def _call(
        self, operation: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> Result:
        commit, result, error = self._begin(None, operation, *arguments, **options)
        commit.wait()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # set unless there was an error

    async def _acall(
        self, operation: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> Result:
        commit, result, error = self._begin(asyncio.get_running_loop(), operation, *arguments, **options)
        assert commit.future is not None
        await commit.future
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # set unless there was an error

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop | None,
        operation: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> tuple[Commit, Result | None, Exception | None]:
        """Run an operation and queue its events; its result, or its error, may be shown when the commit is done."""
        result, refusal = None, None
        with self._lock:
            self._check_open()
            try:
                result = operation(*arguments, **options)
            except Exception as error:  # a refusal changed nothing, but may speak of what is not durable yet
                refusal = error
            except BaseException:
                self._fail("a call was interrupted while it changed the portfolio: reopen the journal")
                raise
            commit = self._queue_events(loop)
        if self._seq >= self._background.next:
            self._background.wake()
        return commit, result, refusal

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.journal.check_writable()
        if self.journal.backlog >= self._max_waiting:
            raise JournalBusy(f"{self._max_waiting} calls wait for the journal, which is the maximum")

    def _queue_events(self, loop: asyncio.AbstractEventLoop | None = None) -> Commit:
        events, self._events = self._events, []
        name, seqs = self.journal.portfolio, count(self._seq + 1)
        numbered = [
            Event(kind, data, at, derived, version, name, seq, key)  # several times faster than `_replace`
            for (kind, data, at, derived, version, _, _, key), seq in zip(events, seqs, strict=False)
        ]
        commit = Commit(loop, (lambda: self._deliver(numbered)) if self._listeners.callbacks and numbered else None)
        try:
            self.journal.append(numbered, commit)
        except EquipoiseError as error:
            if self._failure is None and self.journal.failure is None:
                self._fail(f"an event could not be stored ({error}): reopen the journal")
            raise
        if numbered:
            self._seq, self._last_time = numbered[-1].seq, numbered[-1].time
        return commit

    def _fail(self, reason: str) -> None:
        """Accept no more calls."""
        self._failure = JournalFailed(reason)
        logger.error("%s: %s", self.name, reason)

    def _deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            self._listeners.announce(event)

    def _state_and_seq(self) -> tuple[Config, int, float]:
        """Return the state, the number of the last event in it, and how many seconds all calls waited for it."""
        with self._lock:
            since = perf_counter()
            state = self._portfolio.frozen()
            return state, self._seq, perf_counter() - since

    def _note_redaction(self, ids: Collection[str] | None, before: float | None) -> tuple[Config, int, frozenset[str]]:
        """Append the event of a redaction; return the state and last event before it, and the decisions to keep."""
        with self._lock:
            self._check_open()
            self._portfolio.check_finished(ids or ())
            state, seq = self._portfolio.frozen(), self._seq
            keep = self._portfolio.unfinished
            data = {"ids": None if ids is None else sorted(ids), "before": before}
            self._events.append(Event(REDACTED, data, self._portfolio.time))
            commit = self._queue_events()
        commit.wait()
        return state, seq, keep
