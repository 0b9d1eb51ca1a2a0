"""Warm start: learners learn logged rounds before they decide, with the propensities that they need.

A learner that accepts "off_policy" learns every round as it was logged, and the probability of the logged action if it
accepts that. One that accepts only "weight" learns round t with weight w_t / (K_t p_t), which makes up for the choices
of the logging policy (w_t: how many rounds it stands for; K_t offered actions; p_t propensity). Any other learner may
learn from rounds that it plays itself only, and does not learn the log.

For a selector, a learner that has learned a log is a learner with another initial state, so what it proves stays valid.
The logged rounds themselves are not evidence, since another policy chose their actions. They become evidence if the
portfolio plays them by rejection: it decides each round, and the round counts if the logged action is the one decided
and the round survives with probability min(p/w) / (p_t/w_t); otherwise it is withdrawn. If every offered action has a
positive known probability, a round counts with the same probability whatever its context and the decision. What
remains is then distributed as live rounds are, if contexts and rewards are.

Reference: Li, Chu, Langford and Wang (2011), "Unbiased offline evaluation of contextual-bandit-based news article
recommendation algorithms", algorithm 2 and theorem 1. Departure: thinning allows unequal propensities and weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from equipoise.errors import InvalidArgument, OfferRefused
from equipoise.features import Schema
from equipoise.learner import can_be_restored
from equipoise.portfolio.held import clipped
from equipoise.portfolio.pool import describe_error
from equipoise.portfolio.rounds import count_actions
from equipoise.portfolio.tickets import Decision
from equipoise.settings.checks import count
from equipoise.types import Action, Array, Context

if TYPE_CHECKING:
    from equipoise.portfolio.state import PortfolioState

CHUNK = 1_000  # logged rounds that are played between two events that count them
T = TypeVar("T", float, Array)


class LoggedRound(NamedTuple):
    """A logged round as learners see it.

    Parameters
    ----------
    context
        The context of the decision.
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
    min_offered_exposure: float  # smallest p / w of an offered action; nan if the log does not say all probabilities

    def each_round(self) -> Iterator[LoggedRound]:
        """Yield the rounds, in order."""


@runtime_checkable
class OfSchema(Protocol):
    """A log whose columns are those of a schema, if it has one; see `equipoise.logs.open_log`."""

    @property
    def schema(self) -> Schema | None: ...


AnyLog = Log | Sequence[LoggedRound]


class Warmed(NamedTuple):
    """How many logged rounds a learner learned, and how, or why none."""

    name: str
    rounds: int
    reason: str


class WarmStart(NamedTuple):
    """The result of a warm start."""

    rounds: int  # of the log
    learners: tuple[Warmed, ...]
    evidence: int  # rounds that count as evidence of the selector
    why: str  # as many or none

    def describe(self) -> str:
        """Return one line for each learner, and one for the selector."""
        lines = [f"{row.name}: {row.rounds:,} of {self.rounds:,} rounds, {row.reason}" for row in self.learners]
        return "\n".join([*lines, f"evidence of the selector: {self.evidence:,} rounds, {self.why}"])


def update_weights(accepts: frozenset[str], weights: T, n_offered: Any, propensities: T) -> T | None:
    """Return the weights, numbers or arrays, with which a learner learns logged rounds; None if it cannot.

    >>> update_weights(frozenset({"off_policy"}), 2.0, 4, 0.5), update_weights(frozenset({"weight"}), 2.0, 4, 0.5)
    (1.0, 1.0)
    >>> update_weights(frozenset({"off_policy", "weight"}), 2.0, 4, 0.5), update_weights(frozenset(), 2.0, 4, 0.5)
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

    def learn(self, decision: Decision | str, reward: float, *, at: float | None = None) -> None: ...

    def withdraw(self, decision: Decision | str) -> None: ...


def no_rejection(exposure: float) -> str:
    """Return why a log cannot be played by rejection; empty if it can.

    `exposure` is the smallest p / w of an offered action. If an action cannot be taken in some contexts, rounds with
    these contexts are left out more often, and the others are not distributed as live rounds are.
    """
    if exposure > 0.0:
        return ""
    lacks = "does not say the probability of every offered action" if isnan(exposure) else "has probabilities 0"
    return f"the log {lacks}, so whether a round counts would depend on its context"


def by_rejection(
    portfolio: Plays,
    rounds: Iterable[LoggedRound],
    min_exposure: float,
    seed: int,
    now: Callable[[], float | None] = lambda: None,
) -> Iterator[Step]:
    """Play logged rounds one after the other; withdraw those that do not count."""
    rng = np.random.default_rng([seed, 2])
    for logged in rounds:
        survives = rng.random() < min_exposure * logged.weight / logged.propensity
        decision = portfolio.decide(logged.context, at=now())
        kept = bool(survives and decision.action == logged.action)
        if kept:
            portfolio.learn(decision, logged.reward, at=now())
        else:
            portfolio.withdraw(decision)
        yield Step(decision, logged.reward, kept)


class LogReplay:
    """A log that a portfolio plays by rejection before its first decision, some rounds at a time."""

    def __init__(
        self,
        portfolio: Plays,
        state: PortfolioState,
        lock: AbstractContextManager[object],
        log: AnyLog,
        seed: int,
        now: Callable[[], float | None],
    ) -> None:
        _check_not_begun(state)
        if state.settings.aggregate != "first":
            raise InvalidArgument(
                f"evidence is True with aggregate {state.settings.aggregate!r}, but a logged reward is whole"
            )
        exposure = log.min_offered_exposure if isinstance(log, Log) else nan
        if rule := no_rejection(exposure):
            raise InvalidArgument(f"evidence is True, but {rule}")
        scales = _new_scales(state, log)
        for logged in _rounds(log):  # before the first is played
            _checked(state, logged)
        if scales:
            state.fix_scales(scales)
        self._state, self._lock, self._log, self._kept = state, lock, log, 0
        self._steps = by_rejection(portfolio, _rounds(log), exposure, count("seed", seed, minimum=0), now)

    def advance(self, limit: int = CHUNK) -> bool:
        """Play some rounds; return whether there were any."""
        with self._lock:
            done = [step.kept for step in islice(self._steps, limit)]
            self._kept += sum(done)
            self._state.count_replayed(sum(done))
        return bool(done)

    def result(self) -> WarmStart:
        with self._lock:
            names, standing = self._state.pool.names, self._state.selection.selector.standing()
        learners = [Warmed(names[row.learner], row.plays - row.pending, "those that it played") for row in standing]
        why = "which the portfolio decided as logged, thinned to equal chances"
        length = self._log.n_rounds if isinstance(self._log, Log) else len(self._log)
        return WarmStart(length, tuple(learners), self._kept, why)


def learn_log(state: PortfolioState, log: AnyLog, learners: Iterable[str] | None) -> WarmStart:
    """Let learners learn all rounds of a log, or after an error none."""
    pool = state.pool
    if learners is None:
        _check_not_begun(state)
        chosen = [i for i, _ in pool.present()]
    else:
        chosen = [pool.index(name) for name in learners]
        for i in chosen:
            _check_has_not_played(state, i)
    reasons = {i: _refusal(state, i) for i in chosen}
    willing = [i for i in chosen if not reasons[i]]
    if not willing:
        listed = "; ".join(f"{pool.names[i]}: {reason}" for i, reason in reasons.items())
        raise InvalidArgument(f"no learner can learn the log ({listed})")
    scales = _new_scales(state, log)
    rounds, refused = _learn_all(state, willing, log)
    if scales:
        state.fix_scales(scales)
    source = log.name if isinstance(log, Log) else "a list"
    rows = []
    for i in chosen:
        member = pool.members[i]
        if i in willing:
            learned = rounds - refused[i]
            state.count_warmed(i, learned, source)
            how = "as logged" if "off_policy" in member.adapted.accepts else "weighted by 1 / (K p)"
            left_out = f"; it refused {refused[i]:,} actions" if refused[i] else ""
            rows.append(Warmed(member.name, learned, f"{how}{left_out}"))
        else:
            rows.append(Warmed(member.name, 0, f"not learned: {reasons[i]}"))
    return WarmStart(rounds, tuple(rows), 0, "as another policy chose their actions")


def _new_scales(state: PortfolioState, log: AnyLog) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the ranges of numbers that a log has and the portfolio not yet; raise an error if its columns are others.

    What learners learned of a column must stay true of it.
    """
    schema, written = state.inputs.schema, log.schema if isinstance(log, OfSchema) else None
    if schema is None or written is None:
        return {}
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for side, own, of_log in zip(("context", "actions"), schema.layouts, written.layouts, strict=True):
        if own.columns != of_log.columns:
            raise InvalidArgument(
                f"columns of the {side} in the log are {', '.join(of_log.columns):.200}, but must be those of the "
                "portfolio: open the log with schema=portfolio.schema"
            )
        for name, scale in of_log.scales.items():
            known = own.scales.get(name)
            if known is not None and known != scale:
                raise InvalidArgument(
                    f"feature {name!r} of the {side} has the range {scale} in the log, but must have the one of the "
                    f"portfolio, {known}: declare it"
                )
            if known is None:
                found.setdefault(side, {})[name] = scale
    return found


def _check_not_begun(state: PortfolioState) -> None:
    if state.tickets.round:
        raise InvalidArgument(
            f"warm_start comes after {state.tickets.round:,} decisions, but must come before the first"
        )


def _check_has_not_played(state: PortfolioState, i: int) -> None:
    plays, name = state.selection.selector.standing()[i].plays, state.pool.names[i]
    if plays:
        raise InvalidArgument(f"learners has {name!r}, which has played {plays:,} rounds, but must not have played")


def _refusal(state: PortfolioState, i: int) -> str:
    """Return why a learner cannot learn logged rounds; empty if it can."""
    learner, selection = state.pool.members[i].adapted, state.selection
    if not {"off_policy", "weight"} & learner.accepts:
        return "it learns only from rounds that it plays itself"
    if "off_policy" not in learner.accepts and (i in selection.traits.observed or "lower" in selection.needs):
        return "what it says about itself, which the selector relies on, holds for rounds without weights only"
    if not can_be_restored(learner.learner):
        return "it has no state() and restore(), so nothing could be taken back if an update failed"
    return ""


def _learn_all(state: PortfolioState, willing: Sequence[int], log: AnyLog) -> tuple[int, Counter[int]]:
    """Let learners learn every round; return the number of rounds, and of those that each learner refused.

    A learner refuses a round if it cannot use the features of its action. After any other error no learner learned
    anything.
    """
    members = state.pool.members
    before = {i: members[i].adapted.state() for i in willing}
    rounds, refused, errors = 0, Counter[int](), dict[int, str]()
    try:
        for logged in _rounds(log):
            new = _learn_one(state, willing, _checked(state, logged))
            refused.update(new.keys())
            errors |= new
            rounds += 1
        for i, error in errors.items():
            if refused[i] == rounds:
                raise InvalidArgument(
                    f"{members[i].name!r} cannot learn the log, as it refuses the action of every round: {error}"
                )
    except BaseException:
        for i, saved in before.items():
            members[i].adapted.restore(saved)
        raise
    if not rounds:
        raise InvalidArgument("log has no rounds, but must have at least one")
    return rounds, refused


def _checked(state: PortfolioState, logged: LoggedRound) -> LoggedRound:
    """Return the round with the reward that counts; raise an error if it breaks a rule."""
    where = f" in row {logged.row}" if logged.row else ""
    if not (0.0 < logged.propensity <= 1.0 and logged.weight > 0.0):
        rule = "propensity must lie in (0, 1] and weight must be positive"
        raise InvalidArgument(f"propensity is {logged.propensity!r} and weight {logged.weight!r}{where}, but {rule}")
    reward, limits = logged.reward, state.reward_range
    if state.settings.clip and limits is not None:
        reward = clipped(reward, limits)
    try:
        return logged._replace(reward=state.check_reward(reward))
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}{where} of the log") from None


def _learn_one(state: PortfolioState, willing: Sequence[int], logged: LoggedRound) -> dict[int, str]:
    """Let learners learn a round; return the errors of those that refuse it."""
    refused = dict[int, str]()
    context = state.inputs.read(logged.context)
    offers = state.rounds.offers_of(context)
    for i in willing:
        member = state.pool.members[i]
        learner = member.adapted
        try:
            n_offered = 1 if "off_policy" in learner.accepts else count_actions(context, state.pool.members)
            weight = update_weights(learner.accepts, logged.weight, n_offered, logged.propensity)
            assert weight is not None
            learner.learn(learner.sees(context, offers), logged.action, logged.reward, weight, logged.propensity)
        except OfferRefused as error:
            refused[i] = describe_error(error)
        except Exception as error:
            where = f"row {logged.row}" if logged.row else "a round"
            raise InvalidArgument(
                f"{member.name!r} cannot learn {where} of the log, and nothing was learned: {describe_error(error)}"
            ) from error
    return refused


def _rounds(log: object) -> Iterable[LoggedRound]:
    if isinstance(log, Log):
        return log.each_round()
    if not isinstance(log, Sequence) or not all(isinstance(logged, LoggedRound) for logged in log):
        raise InvalidArgument(f"log is {log!r:.80}, but must be LoggedRounds or a list of LoggedRound")
    return log
