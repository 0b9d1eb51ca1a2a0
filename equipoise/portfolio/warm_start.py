"""Warm start: learners learn logged rounds before they decide, with the propensities that they need.

A learner that accepts "off_policy" learns every round as it was logged, and the probability of the logged action if it
accepts that. One that accepts only "weight" learns round t with weight w_t / (K_t p_t), which makes up for the choices
of the logging policy (w_t: how many rounds it stands for; K_t offered actions; p_t propensity). Any other learner may
learn from rounds that it plays itself only, and is not taught.

For a selector, a learner that was taught is a learner with another initial state, so what it proves stays valid. The
logged rounds themselves are no evidence, since another policy chose their actions. They become evidence if the
portfolio plays them by rejection: it decides each round, and the round counts if the logged action is the one decided
and the round survives with probability min(p/w) / (p_t/w_t); otherwise it is withdrawn. If every offered action has a
positive known probability, a round counts with the same probability whatever its context and the decision. What
remains is then distributed as live rounds are, if contexts and rewards are.

Reference: Li, Chu, Langford and Wang (2011), "Unbiased offline evaluation of contextual-bandit-based news article
recommendation algorithms", algorithm 2 and theorem 1. Departure: thinning allows unequal propensities and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import isnan, nan
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.learner import can_be_restored
from equipoise.portfolio.contexts import seen_by
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.ids import ID
from equipoise.portfolio.members import Member, describe_error
from equipoise.portfolio.propensities import count_actions
from equipoise.portfolio.state import PortfolioState
from equipoise.settings.checks import boolean, count
from equipoise.types import Action, Array, Context, State

CHUNK = 1_000  # logged rounds that are played between two events that count them
T = TypeVar("T", float, Array)


class LoggedLesson(NamedTuple):
    """A logged round as learners see it.

    Parameters
    ----------
    context
        What was decided on.
    action
        The logged action.
    reward
        Its reward.
    propensity
        The probability with which it was chosen, in (0, 1].
    weight
        How many rounds it stands for, if rounds were dropped at random.
    row
        Row of the log, from 1, for messages.
    """

    context: Context
    action: Action
    reward: float
    propensity: float
    weight: float = 1.0
    row: int = 0


@runtime_checkable
class Log(Protocol):
    """A log that can be read again and again; see `equipoise.logs.LoggedRounds`."""

    name: str
    n_rounds: int
    min_exposure: float  # smallest p / w of a logged action
    min_offered_exposure: float  # of an offered action; nan if the log does not say all probabilities

    def lessons(self) -> Iterator[LoggedLesson]:
        """The rounds, in order."""
        ...


class Taught(NamedTuple):
    """How many logged rounds a learner was taught, and how, or why none."""

    name: str
    lessons: int
    reason: str


class WarmStart(NamedTuple):
    """What a warm start did."""

    rounds: int  # of the log
    learners: tuple[Taught, ...]
    evidence: int  # rounds that count as evidence of the selector
    why: str  # as many or none

    def describe(self) -> str:
        """One line for each learner, and one for the selector."""
        lines = [f"{row.name}: {row.lessons:,} of {self.rounds:,} rounds, {row.reason}" for row in self.learners]
        return "\n".join([*lines, f"evidence of the selector: {self.evidence:,} rounds, {self.why}"])


def lesson_weights(accepts: frozenset[str], weights: T, n_offered: Any, propensities: T) -> T | None:
    """The weights, numbers or arrays, with which a learner learns logged rounds of these weights; None if it cannot.

    >>> lesson_weights(frozenset({"off_policy"}), 2.0, 4, 0.5), lesson_weights(frozenset({"weight"}), 2.0, 4, 0.5)
    (1.0, 1.0)
    >>> lesson_weights(frozenset({"off_policy", "weight"}), 2.0, 4, 0.5), lesson_weights(frozenset(), 2.0, 4, 0.5)
    (2.0, None)
    """
    if "weight" not in accepts:
        return weights / weights if "off_policy" in accepts else None
    if "off_policy" in accepts:
        return weights
    corrected: T = weights / (n_offered * propensities)
    return corrected


class Step(NamedTuple):
    """A logged round that was played by rejection."""

    decision: Decision
    reward: float
    kept: bool


class Plays(Protocol):
    """What a log can be played with: a portfolio."""

    def decide(self, context: Context, *, at: float | None = None) -> Decision: ...

    def learn(self, decision: Decision | ID, reward: float, *, at: float | None = None) -> None: ...

    def withdraw(self, decision: Decision | ID) -> None: ...


def by_rejection(
    portfolio: Plays,
    lessons: Iterable[LoggedLesson],
    min_exposure: float,
    seed: int,
    now: Callable[[], float | None] = lambda: None,
) -> Iterator[Step]:
    """Play logged rounds one after the other; those that do not count are withdrawn."""
    rng = np.random.default_rng([seed, 2])
    for lesson in lessons:
        survives = rng.random() < min_exposure * lesson.weight / lesson.propensity
        decision = portfolio.decide(lesson.context, at=now())
        kept = bool(survives and decision.action == lesson.action)
        if kept:
            portfolio.learn(decision, lesson.reward, at=now())
        else:
            portfolio.withdraw(decision)
        yield Step(decision, lesson.reward, kept)


class WarmStarting(PortfolioState):
    """Teaches learners from logs."""

    def decide(self, context: Context, *, at: float | None = None) -> Decision:
        raise NotImplementedError  # abstract

    def learn(self, decision: Decision | ID, reward: float, *, at: float | None = None) -> None:
        raise NotImplementedError  # abstract

    def withdraw(self, decision: Decision | ID) -> None:
        raise NotImplementedError  # abstract

    def warm_start(
        self,
        log: Log | Sequence[LoggedLesson],
        *,
        learners: Iterable[str] | None = None,
        evidence: bool = False,
        seed: int = 0,
    ) -> WarmStart:
        """Teach learners the rounds of a log before they play; returns who was taught, who was not, and why.

        All rounds are learned or, after an error, none. The selector starts without evidence, unless `evidence`: then
        the portfolio plays the log by rejection, and every learner learns the rounds that it plays; if a round cannot
        be decided, those before it stay played.

        Parameters
        ----------
        log
            `equipoise.logs.open_log(...)`, or a list of `LoggedLesson`. Check its health first.
        learners
            Names of the learners to teach, which must not have played. Default: all, before the first decision.
        evidence
            Whether rounds that the portfolio would have decided as logged count as played. The log must have the
            probability of every offered action, and contexts and rewards must be distributed as live ones.
        seed
            Seed of the thinning of rounds, with `evidence`.

        Examples
        --------
        >>> import numpy as np
        >>> from equipoise import Portfolio
        >>> from equipoise.learners import OFUL
        >>> portfolio = Portfolio([OFUL(2), OFUL(1)])
        >>> log = [LoggedLesson(np.eye(2), action=0, reward=1.0, propensity=0.5)] * 20
        >>> print(portfolio.warm_start(log).learners[0].reason)
        as logged
        """
        with self._lock:
            if boolean("evidence", evidence):
                return self._play_whole(log, learners, seed)
            return self._teach_log(log, learners)

    def _play_whole(self, log: Log | Sequence[LoggedLesson], learners: Iterable[str] | None, seed: int) -> WarmStart:
        steps, kept = self._steps(log, learners, seed), 0
        while (advanced := self._advance(steps)) is not None:
            kept += advanced
        return self._played(log, kept)

    def _steps(
        self,
        log: Log | Sequence[LoggedLesson],
        learners: Iterable[str] | None,
        seed: int,
        now: Callable[[], float | None] = lambda: None,
    ) -> Iterator[Step]:
        """The rounds of a log by rejection, one at each step; raises an error if they would be no evidence."""
        self._check_not_begun()
        if learners is not None:
            raise InvalidArgument("learners is given with evidence, but every learner learns the rounds that it plays")
        if self.aggregate != "first":
            raise InvalidArgument(f"evidence is True with aggregate {self.aggregate!r}, but a logged reward is whole")
        exposure = log.min_offered_exposure if isinstance(log, Log) else nan
        if not exposure > 0.0:
            lacks = "does not say the probability of every offered action" if isnan(exposure) else "has probabilities 0"
            raise InvalidArgument(f"evidence is True, but the log {lacks}: whether a round counts would depend on it")
        for lesson in _lessons(log):  # before the first is played
            self._checked(lesson)
        return by_rejection(self, _lessons(log), exposure, count("seed", seed, minimum=0), now)

    def _advance(self, steps: Iterator[Step], limit: int = CHUNK) -> int | None:
        """Play some rounds; returns how many count, or None at the end."""
        done = [step.kept for step in islice(steps, limit)]
        if not done:
            return None
        self._count_replayed(sum(done))
        return sum(done)

    def _count_replayed(self, rounds: int) -> None:
        if rounds:
            self._counts.replayed += rounds
            self._emit("rounds_replayed", {"rounds": rounds})

    def _played(self, log: Log | Sequence[LoggedLesson], kept: int) -> WarmStart:
        rows = [(each.plays - each.pending, self._members[each.learner].name) for each in self._selector.standing()]
        learners = tuple(Taught(name, plays, "those that it played") for plays, name in rows)
        why = "which the portfolio decided as logged, thinned to equal chances"
        return WarmStart(_length(log), learners, kept, why)

    def _check_not_begun(self) -> None:
        if self._round:
            raise InvalidArgument(f"warm_start comes after {self._round:,} decisions, but must come before the first")

    def _teach_log(self, log: Log | Sequence[LoggedLesson], learners: Iterable[str] | None) -> WarmStart:
        if learners is None:
            self._check_not_begun()
            chosen = [i for i, member in enumerate(self._members) if member.learner is not None]
        else:
            chosen = [self._index(name) for name in learners]
            for i in chosen:
                self._check_has_not_played(i)
        reasons = {i: self._refusal(i) for i in chosen}
        students = [i for i in chosen if not reasons[i]]
        if not students:
            listed = "; ".join(f"{self._members[i].name}: {reason}" for i, reason in reasons.items())
            raise InvalidArgument(f"no learner can be taught the log ({listed})")
        rounds = self._teach_all(students, log)
        source = getattr(log, "name", "a list")
        rows = []
        for i in chosen:
            member = self._members[i]
            if i in students:
                self._set_taught(i, member.adapted.state(), rounds, source)
                how = "as logged" if "off_policy" in member.adapted.accepts else "weighted by 1 / (K p)"
                rows.append(Taught(member.name, rounds, how))
            else:
                rows.append(Taught(member.name, 0, f"not taught: {reasons[i]}"))
        why = "as another policy chose their actions"
        return WarmStart(rounds, tuple(rows), 0, why)

    def _check_has_not_played(self, i: int) -> None:
        plays = self._selector.standing()[i].plays
        if plays:
            name = self._members[i].name
            raise InvalidArgument(f"learners has {name!r}, which has played {plays:,} rounds, but must not have played")

    def _refusal(self, i: int) -> str:
        """Why a learner cannot be taught logged rounds; empty if it can."""
        learner = self._members[i].adapted
        if not {"off_policy", "weight"} & learner.accepts:
            return "it learns only from rounds that it plays itself"
        if "off_policy" not in learner.accepts and (i in self._traits.observed or "lower" in self._selector.needs):
            return "what it says about itself, which the selector relies on, holds for rounds without weights only"
        if not can_be_restored(learner.learner):
            return "it has no state() and restore(), so nothing could be taken back if a lesson failed"
        return ""

    def _teach_all(self, students: Sequence[int], log: Log | Sequence[LoggedLesson]) -> int:
        """Teach every round to every student; returns the number of rounds. After an error nobody learned anything."""
        before = {i: self._members[i].adapted.state() for i in students}
        rounds = 0
        try:
            for lesson in _lessons(log):
                self._teach_logged(students, self._checked(lesson))
                rounds += 1
        except BaseException:
            for i, state in before.items():
                self._members[i].adapted.restore(state)
            raise
        if not rounds:
            raise InvalidArgument("log has no rounds, but must have at least one")
        return rounds

    def _checked(self, lesson: LoggedLesson) -> LoggedLesson:
        """The lesson with the reward that counts; raises an error if it breaks a rule."""
        where = f" in row {lesson.row}" if lesson.row else ""
        if not (0.0 < lesson.propensity <= 1.0 and lesson.weight > 0.0):
            rule = "propensity must lie in (0, 1] and weight must be positive"
            raise InvalidArgument(
                f"propensity is {lesson.propensity!r} and weight {lesson.weight!r}{where}, but {rule}"
            )
        reward = lesson.reward
        if self.clip and self.reward_range is not None:
            reward = min(max(reward, self.reward_range[0]), self.reward_range[1])
        try:
            return lesson._replace(reward=self._check_reward(reward))
        except InvalidArgument as error:
            raise InvalidArgument(f"{error}{where} of the log") from None

    def _teach_logged(self, students: Sequence[int], lesson: LoggedLesson) -> None:
        context, offers = lesson.context, self._contexts.offers(lesson.context)
        for i in students:
            member = self._members[i]
            learner = member.adapted
            try:
                n_offered = 1 if "off_policy" in learner.accepts else count_actions(context, self._members)
                weight = lesson_weights(learner.accepts, lesson.weight, n_offered, lesson.propensity)
                assert weight is not None
                learner.learn(
                    seen_by(learner, context, offers), lesson.action, lesson.reward, weight, lesson.propensity
                )
            except Exception as error:
                where = f"row {lesson.row}" if lesson.row else "a round"
                raise InvalidArgument(
                    f"{member.name!r} cannot learn {where} of the log, and nothing was learned: {describe_error(error)}"
                ) from error

    def _set_taught(self, i: int, state: State, rounds: int, source: str) -> None:
        """Record that a learner was taught logged rounds, after which it has this state."""
        member: Member = self._members[i]
        member.logged_rounds += rounds
        reason = f"{rounds:,} rounds of {source}"
        self._emit(
            "learner_taught",
            {"name": member.name, "rounds": rounds, "source": source, "reason": reason, "state": state},
        )


def _lessons(log: object) -> Iterable[LoggedLesson]:
    if isinstance(log, Log):
        return log.lessons()
    if not isinstance(log, Sequence) or not all(isinstance(lesson, LoggedLesson) for lesson in log):
        raise InvalidArgument(f"log is {log!r:.80}, but must be LoggedRounds or a list of LoggedLesson")
    return log


def _length(log: Log | Sequence[LoggedLesson]) -> int:
    return log.n_rounds if isinstance(log, Log) else len(log)
