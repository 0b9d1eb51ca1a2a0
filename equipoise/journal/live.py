"""The methods of a portfolio, durable at each answer; how is in `durable`."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from equipoise.certificates import Certificate, Standing
from equipoise.errors import EquipoiseError, InvalidArgument, JournalFailed
from equipoise.journal.durable import Durable
from equipoise.journal.maintenance import backup
from equipoise.journal.retention import redact
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.learner import MinimalLearner
from equipoise.portfolio import Decision
from equipoise.portfolio.events import Callback
from equipoise.portfolio.ids import ID
from equipoise.portfolio.teaching import Lesson
from equipoise.portfolio.warm_start import Log, LoggedLesson, WarmStart
from equipoise.storage.parts import describe_part
from equipoise.types import Config, Context, Outcome, Plain

Result = TypeVar("Result")
Reward = tuple[ID, float] | tuple[ID, float, str | None]  # id of the decision, reward, key


class LivePortfolio(Durable):
    """The methods of `Portfolio`, durable at each answer; made by `equipoise.open`.

    Safe for threads and for asyncio: `adecide`, `alearn`, `awithdraw` and `aexpire` are the awaitable forms of the
    frequent calls, `arun` is that of any other. Use it as a context manager, or close it; without that, nothing
    acknowledged is lost, but the next start takes longer.

    Parameters
    ----------
    portfolio
        The portfolio, in the state of the journal.
    journal
        The journal, leased.
    snapshot_every
        Number of events between two snapshots.
    retention_seconds
        Age in seconds at which contexts of closed decisions are removed. None: never.
    max_waiting
        Number of calls that may wait for the disk; one more gets `JournalBusy`.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LivePortfolio({str(self._journal.path)!r}, {self._seq:,} events)"

    @property
    def name(self) -> str:
        """Name of the portfolio, as in its events."""
        return self._journal.portfolio

    @property
    def journal(self) -> SQLiteJournal:
        """The journal, for reading."""
        return self._journal

    @property
    def learner_names(self) -> tuple[str, ...]:
        """The names of the learners, unique in this portfolio."""
        return self._portfolio.learner_names

    @property
    def pending(self) -> tuple[ID, ...]:
        """The ids of the decisions that have no reward yet."""
        return self._call(lambda: self._portfolio.pending)

    @property
    def failed_lessons(self) -> tuple[Lesson, ...]:
        """Lessons that learners failed to learn, the oldest first; see `retry_lessons`."""
        return self._call(lambda: self._portfolio.failed_lessons)

    def decide(
        self,
        context: Context,
        *,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        propensity: bool = False,
    ) -> Decision:
        """Choose a learner and return its action, as `Portfolio.decide`; durable when it returns."""
        return self._call(lambda: self._decide(context, id, available, at, propensity))

    async def adecide(
        self,
        context: Context,
        *,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        propensity: bool = False,
    ) -> Decision:
        """`decide` for asyncio: decides at once, and other tasks run until it is durable."""
        return await self._acall(lambda: self._decide(context, id, available, at, propensity))

    def learn(
        self,
        decision: Decision | ID,
        reward: float,
        outcome: Outcome = None,
        regret: float | None = None,
        *,
        key: str | None = None,
        at: float | None = None,
    ) -> None:
        """Learn from the reward of a decision, as `Portfolio.learn`; durable when it returns."""
        self._call(lambda: self._learn(decision, reward, outcome, regret, key, at))

    async def alearn(
        self,
        decision: Decision | ID,
        reward: float,
        outcome: Outcome = None,
        regret: float | None = None,
        *,
        key: str | None = None,
        at: float | None = None,
    ) -> None:
        """`learn` for asyncio."""
        await self._acall(lambda: self._learn(decision, reward, outcome, regret, key, at))

    def learn_many(self, rewards: Sequence[Reward]) -> list[EquipoiseError | None]:
        """Learn from several rewards, each `(id, reward)` or `(id, reward, key)`, with one wait for the disk.

        Returns for each what `learn` would have raised, or None; one that is refused does not disturb the others.
        """
        return self._call(lambda: self._learn_many(rewards))

    async def alearn_many(self, rewards: Sequence[Reward]) -> list[EquipoiseError | None]:
        """`learn_many` for asyncio."""
        return await self._acall(lambda: self._learn_many(rewards))

    def withdraw(self, decision: Decision | ID) -> None:
        """Withdraw an open decision whose round did not happen, as `Portfolio.withdraw`."""
        self._call(lambda: self._portfolio.withdraw(decision))

    async def awithdraw(self, decision: Decision | ID) -> None:
        """`withdraw` for asyncio."""
        await self._acall(lambda: self._portfolio.withdraw(decision))

    def expire(self, limit: int | None = None, *, at: float | None = None) -> int:
        """Give overdue decisions their default reward, as `Portfolio.expire`."""
        return self._call(lambda: self._expire(limit, at))

    async def aexpire(self, limit: int | None = None, *, at: float | None = None) -> int:
        """`expire` for asyncio."""
        return await self._acall(lambda: self._expire(limit, at))

    def add_learner(self, learner: MinimalLearner, *, bound: Any = None) -> str:
        """Add a learner to the running portfolio, as `Portfolio.add_learner`; it must have `state` and `restore`."""
        return self._call(lambda: self._add_learner(learner, bound))

    def warm_start(
        self,
        log: Log | Sequence[LoggedLesson],
        *,
        learners: Iterable[str] | None = None,
        evidence: bool = False,
        seed: int = 0,
    ) -> WarmStart:
        """Teach learners the rounds of a log before they play, as `Portfolio.warm_start`; durable when it returns.

        The journal keeps what they learned, not the log. With `evidence` the rounds become durable some at a time, as
        if played live: after a crash, those that are durable stay played.
        """
        if not evidence:
            return self._call(lambda: self._portfolio.warm_start(log, learners=learners))
        steps, kept = self._call(lambda: self._portfolio._steps(log, learners, seed, self._now)), 0
        while (advanced := self._call(lambda: self._portfolio._advance(steps))) is not None:
            kept += advanced
        return self._call(lambda: self._portfolio._played(log, kept))

    def remove_learner(self, name: str) -> None:
        """Remove a learner: it plays and learns no more."""
        self._call(lambda: self._portfolio.remove_learner(name))

    def rename_learner(self, name: str, new: str) -> None:
        """Give a learner another name."""
        self._call(lambda: self._portfolio.rename_learner(name, new))

    def suspend(self, name: str) -> None:
        """Let a learner play no more until it is resumed; it goes on learning."""
        self._call(lambda: self._portfolio.suspend(name))

    def resume(self, name: str) -> None:
        """Let a learner play again that was suspended, by request or because of failures."""
        self._call(lambda: self._portfolio.resume(name))

    def reconfigure(self, **changes: Plain) -> None:
        """Change settings while the portfolio runs, as `Portfolio.reconfigure`; `fallback` must be no function."""
        if callable(changes.get("fallback")):
            raise InvalidArgument("fallback is a function, which a journal cannot keep: give it when it is created")
        self._call(lambda: self._portfolio.reconfigure(**changes))

    def retry_lessons(self) -> int:
        """Try to teach the failed lessons again, the oldest first; returns how many succeeded."""
        return self._call(self._portfolio.retry_lessons)

    def certificate(self) -> Certificate:
        """What the rewards so far prove, as `Portfolio.certificate`."""
        return self._call(self._portfolio.certificate)

    def standing(self) -> list[Standing]:
        """How every learner is doing, one row per learner."""
        return self._call(self._portfolio.standing)

    def describe(self) -> str:
        """Certificate and standing in sentences."""
        return self._call(self._portfolio.describe)

    def to_json(self) -> Config:
        """Certificate and standing as plain data."""
        return self._call(self._portfolio.to_json)

    def state(self) -> Config:
        """Everything as plain data, as `Portfolio.state`."""
        return self._call(self._portfolio.state)

    def health(self) -> Config:
        """What an operator wants to know: that of the portfolio, and of the journal under "journal"."""
        health: Config = self._call(self._portfolio.health)
        return {
            **health,
            "journal": {
                "events": self._seq,
                "waiting": self._journal.backlog,
                "snapshot": self._background.last,
                "snapshot_seconds": self._background.pause_seconds,
                "snapshot_error": self._background.error,
                "sqlite_version": sqlite3.sqlite_version,
            },
        }

    def on_event(self, callback: Callback) -> None:
        """Call `callback` with every `Event` once it is durable, numbered as in the journal.

        It is called by the thread that writes, so it must be quick. If it raises an error, that is logged.
        """
        self._listeners.add(callback)

    async def arun(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of `Portfolio` by its name; other tasks run until it is durable."""
        return await self._acall(lambda: getattr(self._portfolio, method)(*arguments, **options))

    def redact(self, ids: Collection[str] | None = None, *, before: float | None = None) -> int:
        """Remove contexts and outcomes of closed decisions from the journal, of these ids or made before a time.

        Decisions, rewards, and all that is certified stay as they are: a base snapshot is kept, and a rebuild starts
        there. Returns the number of events that lost data.

        Parameters
        ----------
        ids
            Ids of closed decisions, your own or the portfolio's.
        before
            Seconds since 1970: decisions from before that time are meant. Give either this or `ids`.
        """
        return redact(self._journal, self._note_redaction, ids, before)

    def snapshot(self) -> int:
        """Store a snapshot now; returns the number of the last event in it."""
        return self._background.snapshot()

    def backup(self, path: str | Path) -> None:
        """Write a copy of the journal to another file while it is in use."""
        backup(self._journal.path, path)

    def close(self, *, snapshot: bool = True) -> None:
        """Finish what waits, store a snapshot so that the next start is quick, and give the journal back."""
        self._background.close()
        if snapshot and self.failure is None:
            self._background.snapshot()
        with self._lock:
            self._failure = self._failure or JournalFailed(f"{str(self._journal.path)!r} is closed")
        self._journal.close()

    def _decide(
        self, context: Context, id_: str | None, available: Iterable[str] | None, at: float | None, propensity: bool
    ) -> Decision:
        at = self._now() if at is None else at
        return self._portfolio.decide(context, id=id_, available=available, at=at, propensity=propensity)

    def _learn(
        self,
        decision: Decision | ID,
        reward: float,
        outcome: Outcome,
        regret: float | None,
        key: str | None,
        at: float | None,
    ) -> None:
        at = self._now() if at is None else at
        self._portfolio.learn(decision, reward, outcome, regret, key=key, at=at)

    def _learn_many(self, rewards: Sequence[Reward]) -> list[EquipoiseError | None]:
        results: list[EquipoiseError | None] = []
        for id_, reward, *rest in rewards:
            try:
                self._learn(id_, reward, None, None, rest[0] if rest else None, None)
            except EquipoiseError as error:
                results.append(error)
            else:
                results.append(None)
        return results

    def _expire(self, limit: int | None, at: float | None) -> int:
        return self._portfolio.expire(limit, at=self._now() if at is None else at)

    def _add_learner(self, learner: MinimalLearner, bound: Any) -> str:
        describe_part(learner)  # raises an error if it has no state
        return self._portfolio.add_learner(learner, bound=bound)
