"""A portfolio: several learners and the selector that chooses among them.

`decide` lets the selector choose a learner without seeing the context, asks that learner for an action and returns a
decision. `learn` takes the decision (or just its id) with its reward, in any order and however late. One learner cannot
take the portfolio down: if it fails, another one plays, and a lesson that fails is kept for another try.

The parts: `choosing` (who plays), `teaching` (who learns), `members` (failures and pauses of learners), `ids`,
`tickets`, `deadlines`, `propensities`, `events`, `folding` (state = fold of events), `saving`, `units` (the range of
rewards), and `reporting` with `health`, `history` and `explaining`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import RLock
from typing import Any, Self

from equipoise._deprecated import with_old_methods
from equipoise.compatibility import check_compatible, check_learners, check_selector
from equipoise.errors import InvalidArgument
from equipoise.learner import MinimalLearner
from equipoise.portfolio import saving, units
from equipoise.portfolio.claims import claim
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.drifting import begin_epoch
from equipoise.portfolio.events import Callback, Listeners
from equipoise.portfolio.folding import Foldable
from equipoise.portfolio.ids import ID, check_caller_id, context_digest
from equipoise.portfolio.reporting import Reporting
from equipoise.portfolio.rewards import check_key
from equipoise.portfolio.settling import id_of
from equipoise.portfolio.teaching import Lesson, check_no_lesson
from equipoise.portfolio.tickets import copy_if_mutable
from equipoise.selector import Selector
from equipoise.settings.checks import count, real
from equipoise.storage.parts import check_savable, read_part, write_part
from equipoise.types import Action, Config, Context, Outcome, Plain

EXPIRED_PER_CALL = 8  # at most so many overdue decisions are closed by each call


@with_old_methods
class Portfolio(Foldable, Reporting):
    """Several learners and the selector that chooses among them.

    Safe for use by several threads: calls wait for each other. Decisions are plain values and may be passed between
    threads and processes. Learners over features use the threads of the linear algebra library; on a busy machine one
    thread is many times faster (set OPENBLAS_NUM_THREADS=1 before NumPy is imported).

    Parameters
    ----------
    learners
        The learners, at least `decide` and `learn` each; see `equipoise.Learner`.
    selector
        The rule that chooses among them; by default the recommended one, `RealizedBalancing`, for rewards in [0, 1].
    seed
        Seed of all random numbers that are drawn by learners and selector.
    share_data
        Whether every learner that accepts off-policy data learns from every round. Default: no.
    deadline
        When a decision without a reward gets `default_reward`: after a number of later decisions (an int), or after a
        time (a timedelta, or a text such as "24h"). All statements are then about rewards with these defaults. A reward
        that arrives even later is logged and ignored.
    default_reward
        The reward of decisions past their deadline; must be given together with `deadline`.
    aggregate
        "first": the first reward of a decision is its reward. "sum" or "last": rewards until the deadline, each with a
        `key`, are added up, or the last one counts. All statements are then about the aggregate.
    delays
        "any"; "independent" if the arrival time of a reward is independent of its value given context and action; or
        "exogenous" if delays might as well have been drawn before the first round, independently of contexts, actions
        and rewards; this needs `window`. What is said here is a promise: if it is not true, certificates are not valid.
    window
        Needed with exogenous delays, and only then: a play whose reward has not arrived after this many rounds is left
        out of evidence for good, so that no other reward waits for it.
    fallback
        The action, or a function from the context to the action, if no learner can play.
    explore
        Probability with which an offered action is drawn uniformly, instead of a learner's: a play of no learner.
    availability
        "any", or "independent" if failures of learners, and `available` of `decide`, do not depend on contexts. With
        "any", a round that a substitute plays does not count as evidence.
    reward_range
        Lowest and highest reward, in any unit; said here once, and adopted by selector and learners that state none.
        Default: that of the selector, which is (0, 1) unless it states another.
    on_drift
        What follows if one law of the rewards is refuted: "warn" for an event and a sentence in `describe()`, "restart"
        for a new epoch of the selector in addition, "ignore" if nothing is to be watched. See docs/drift.md.
    clip
        Whether rewards outside of the range count as its nearer end; else they are refused. All statements are then
        about clipped rewards.

    Examples
    --------
    >>> from equipoise.learners import UCB
    >>> portfolio = Portfolio([UCB(3, scale=0.1), UCB(3, scale=1.0)])
    >>> portfolio.learn(portfolio.decide(None), reward=1.0)
    """

    def __init__(
        self,
        learners: Sequence[MinimalLearner],
        selector: Selector | None = None,
        *,
        seed: int = 0,
        share_data: bool | None = None,
        deadline: int | timedelta | str | None = None,
        default_reward: float | None = None,
        aggregate: str = "first",
        delays: str = "any",
        window: int | None = None,
        fallback: Action | Callable[[Context], Action] | None = None,
        explore: float = 0.0,
        availability: str = "any",
        reward_range: tuple[float, float] | None = None,
        clip: bool = False,
        on_drift: str = "warn",
    ) -> None:
        check_learners(learners)
        if selector is None:
            from equipoise.selectors import RealizedBalancing  # slow to import

            selector = RealizedBalancing(len(learners))
        check_selector(selector)
        check_compatible(selector, learners)
        units.check(learners, selector, reward_range)
        self._set_up(
            learners,
            selector,
            seed=seed,
            share_data=share_data,
            deadline=deadline,
            default_reward=default_reward,
            aggregate=aggregate,
            delays=delays,
            window=window,
            fallback=fallback,
            explore=explore,
            availability=availability,
            reward_range=reward_range,
            clip=clip,
            on_drift=on_drift,
        )
        units.tell(self)
        begin_epoch(self._selector, self._drift)

    def __getstate__(self) -> dict[str, object]:
        # A copy must not call the callbacks of the original; a lock cannot be copied, nor a clock to another machine.
        state = {**self.__dict__, "_listeners": Listeners(), "_on_elimination": []}
        del state["_lock"], state["_clock"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock, self._clock = RLock(), Clock()
        claim(self._selector, self)

    def __repr__(self) -> str:
        return f"Portfolio({[learner for learner in self.learners if learner is not None]}, {self._selector})"

    @property
    def learners(self) -> tuple[Any, ...]:
        """The given learners by index; None for one that was removed."""
        return tuple(None if member.learner is None else member.learner.learner for member in self._members)

    @property
    def selector(self) -> Any:
        """The given selector."""
        return self._selector

    @property
    def pending(self) -> tuple[ID, ...]:
        """The ids of the decisions that have no reward yet."""
        return tuple(self._open)

    @property
    def failed_lessons(self) -> tuple[Lesson, ...]:
        """Lessons that learners failed to learn, the oldest first; see `retry_lessons`."""
        return self._teaching.failed_lessons

    def decide(
        self,
        context: Context,
        *,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        propensity: bool = False,
    ) -> Decision:
        """Choose a learner and return its action in this context.

        Arrays, lists, tuples and dicts are copied; a context of another type must not change before its reward is
        learned.

        Parameters
        ----------
        context
            What the learners decide on.
        id
            Your own id of the decision. A repeated call with the same id and context returns the same decision.
        available
            Names of the learners that may play this round. Default: all that are not suspended.
        at
            Time of the decision, in seconds; used for deadlines. Default: by the clock.
        propensity
            Whether to compute the propensity of the action, which may ask every learner. It is computed anyway if the
            selector asks every learner, and with an exploration floor.
        """
        with self._lock:
            digest = ""
            if id is not None:
                check_caller_id(id, self._ids)
                digest = context_digest(context)
                earlier = self._callers.find(id, digest)
                if earlier is not None:
                    return earlier
            if self._savable:
                check_savable(context, "context")
            allowed = None if available is None else self._indices(available)
            before, time, round_ = self._time, self._admit(at), self._round + 1
            try:
                ticket, chance, turn = self._play(copy_if_mutable(context), round_, allowed, propensity)
            except BaseException:
                self._time = before
                raise
            ticket.id = self._ids.next(round_) if id is None else id
            ticket.time = time
            decision = self._decision(ticket, chance)
            if id is not None:
                self._callers.remember(digest, decision, round_)
            self._record(decision, ticket, turn, digest)
            if self.deadline is not None:
                self._expire(EXPIRED_PER_CALL)
            return decision

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
        """Learn from the reward of a decision.

        Learners learn from `outcome` instead of the action if there is more to learn from (the trajectory of an
        episode). `regret` is what the play adds to the learner's observed regret bound, if that is known only now.
        `key` identifies a reward among several of the same decision. A learner that raises an error loses this lesson,
        which is kept in `failed_lessons`.
        """
        with self._lock:
            before = self._time
            self._admit(at)
            try:
                self._learn(decision, reward, outcome, regret, key)
            except BaseException:
                self._time = before
                raise
            if self.deadline is not None:
                self._expire(EXPIRED_PER_CALL)

    def _learn(
        self, decision: Decision | ID, reward: float, outcome: Outcome, regret: float | None, key: str | None
    ) -> None:
        ticket, clipped = self._find(decision), False
        if self.clip and self.aggregate == "first":
            reward, clipped = self._clip(reward)
        if ticket is None:
            self._ignore_late(id_of(decision), reward)
            return
        if self.deadline is not None and self._is_overdue(ticket):
            self._check_reward(reward)
            self._expire_ticket(ticket)
            self._ignore_late(ticket.id, reward)
            return
        if outcome is not None:
            if self._savable:
                check_savable(tuple(outcome) if isinstance(outcome, tuple) else outcome, "outcome")
            outcome = copy_if_mutable(outcome)
        if self.aggregate == "first":
            credit = self._check_credit(ticket, reward, regret)
            self._settle(ticket, "rewarded", *credit, outcome, was_clipped=clipped)
        else:
            self._add_reward(ticket, check_key(ticket, key), real("reward", reward), outcome)

    def withdraw(self, decision: Decision | ID) -> None:
        """Withdraw an open decision whose round did not happen: its play does not count and no learner learns from it.

        Its id is not used again.
        """
        with self._lock:
            ticket = self._find_open(decision)
            check_no_lesson(ticket, self._members)
            self._withdraw(ticket)

    def regret_of(self, decision: Decision | ID, outcome: Outcome) -> float:
        """What a play adds to the observed regret bound, if its learner tells that only now; nan otherwise."""
        with self._lock:
            return self._regret_of(self._find_open(decision), outcome)

    def expire(self, limit: int | None = None, *, at: float | None = None) -> int:
        """Give overdue decisions their default reward, at most `limit` of them; returns how many it were.

        Every call of `decide` and `learn` does this for a few.
        """
        with self._lock:
            limit, before = None if limit is None else count("limit", limit), self._time
            self._admit(at)
            expired = self._expire(limit)
            if not expired:
                self._time = before  # nothing happened, so there is no event that could repeat this
            return expired

    def on_event(self, callback: Callback) -> None:
        """Call `callback` with every `Event`, after it happened. If it raises an error, that is logged."""
        self._listeners.add(callback)

    def on_elimination(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with every elimination, after it happened. If it raises an error, that is logged."""
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be callable with an Elimination")
        self._on_elimination.append(callback)

    def retry_lessons(self) -> int:
        """Try to teach the failed lessons again, the oldest first; returns how many succeeded."""
        with self._lock:
            return self._retry(None)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, including open decisions; if that fails, an old file remains unchanged."""
        write_part(path, "portfolio", self.state())

    @classmethod
    def load(
        cls,
        path: str | Path,
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
        changes: Mapping[str, Plain] | None = None,
    ) -> Self:
        """Read a saved portfolio; it continues exactly as the saved one would have.

        Registered classes are created from the file. For other classes, pass all learners in order, or the selector,
        created with the same settings; they are compared with what was saved. `changes` are passed to `reconfigure`.
        """
        if changes is not None and not isinstance(changes, Mapping):
            raise InvalidArgument(f"changes is {changes!r:.80}, but must be a dict of settings")
        portfolio = cls.from_state(read_part(path, "portfolio"), learners, selector)
        if changes:
            portfolio.reconfigure(**changes)
        return portfolio

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Plain],
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
    ) -> Self:
        """The portfolio that `state` returned; `learners` and `selector` are as in `load`."""
        return saving.from_state(cls, state, learners, selector)

    def state(self) -> Config:
        """Everything as plain data: settings, learned state, open decisions."""
        with self._lock:
            return saving.state(self)
