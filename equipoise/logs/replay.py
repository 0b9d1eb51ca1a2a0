"""Replay: what each learner would have earned, from rounds that another policy logged.

*Progressive*: every learner proposes in every round, is judged by importance weights before it learns from the round,
and then learns what was logged. All rounds are used. A learner that accepts off-policy rounds learns all of them; one
that accepts weights learns all with weight 1 / (K p), which makes up for the choices of the logging policy; any other
learns the rounds in which it proposed the logged action. In a round of which it takes no offer, the policy that logged
the round acts in its place.

*Rejection*: a learner plays a round only if it proposes the logged action, and the round then survives with probability
min(p/w) / (p/w), where w is how many rounds it stands for. What remains is distributed as if the learner had played
live, so its mean reward is what it would have earned; but only a share of about min(p) of the rounds remains. This
needs a log that states a positive probability of every offered action. Otherwise rejection is refused: rounds in which
the log cannot take the action of the learner are left out, and the others are not distributed as live rounds are.

Reference: Li, Chu, Langford and Wang (2011), "Unbiased offline evaluation of contextual-bandit-based news article
recommendation algorithms", algorithm 2 and theorem 1. Departure: thinning allows unequal propensities and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument, OfferRefused
from equipoise.learner import (
    AdaptedLearner,
    ChecksContexts,
    MinimalLearner,
    accepts,
    capabilities,
    implements,
    part_name,
    unique_names,
)
from equipoise.logs.estimators import (
    LEARNS,
    NO_RANGE,
    Estimate,
    Evaluation,
    Named,
    clip_to,
    difference,
    dr,
    ips,
    logged,
)
from equipoise.logs.intervals import Interval
from equipoise.logs.models import Ridge, check_range
from equipoise.logs.rounds import LoggedRounds, Rounds, contexts, each_context
from equipoise.portfolio import Portfolio
from equipoise.portfolio.warm_start import by_rejection, no_rejection, update_weights
from equipoise.settings.checks import count, one_of
from equipoise.simulation.logged import Answers, Batch, LoggedLearner
from equipoise.simulation.parts import ALWAYS, NEVER, WHEN_PROPOSED, log_rounds
from equipoise.types import Array, Context, Integers

METHODS = ("progressive", "rejection")
MAX_MODEL_COLUMNS = 512  # with more, no model of the reward is fitted
REPORT_EVERY = 1_000  # rounds of a portfolio
MIN_BOUND_ROUNDS = 100  # before, a suggested bound says nothing
Progress = Callable[[str, float], None]


def no_progress(what: str, share: float) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False)
class LearnerReplay:
    name: str
    evaluation: Evaluation  # of all rounds
    accepted: Integers  # rounds, from 0, that the learner would have played itself
    unsupported_row: int | None = None  # the first in which its action has probability 0 in the log
    sat_out: int = 0  # rounds of which it takes no offer, so that the policy that logged them acts in its place

    def estimate(self, method: str) -> Estimate:
        """Its value by a method, over all rounds; nan if the log cannot tell it."""
        if method == "progressive" and self.unsupported_row is None:
            return ips(self.evaluation) if self.evaluation.predicted is None else dr(self.evaluation)
        played = np.zeros(len(self.evaluation.rewards))
        if method == "rejection":
            played[self.accepted] = 1.0
        return _by_rejection(played * self.evaluation.rewards, played, self.evaluation.reward_range)

    def advantage(self, method: str) -> Estimate:
        """How much more than the logging policy it earns per round."""
        return difference(self.estimate(method), logged(self.evaluation))

    @property
    def agreement(self) -> float:
        """Mean probability with which it takes the logged action."""
        return float(self.evaluation.probabilities.mean())


def _by_rejection(rewards: Array, played: Array, reward_range: tuple[float, float] | None) -> Estimate:
    refusals = dict.fromkeys(("betting", "bernstein"), LEARNS)
    if reward_range is None:
        refusals["time_uniform"] = NO_RANGE
    return Estimate("rejection", rewards, played, refusals, reward_range, None, reward_range)


class Summary(NamedTuple):
    """What is reported of one learner, or of the logging policy; nan for what is unknown."""

    name: str
    value: float
    interval: Named
    advantage: float  # over the logging policy
    advantage_interval: Named
    effective_rounds: float


NOTHING = Named("none", Interval(np.nan, np.nan), "")


def summarize(replay: Replay, delta: float = 0.05) -> list[Summary]:
    """The logging policy and then every learner, with the intervals that their estimates offer first."""
    baseline = logged(replay.learners[0].evaluation)
    rounds = float(len(baseline.numerators))
    rows = [Summary("logging policy", baseline.value, baseline.interval(delta), 0.0, NOTHING, rounds)]
    for learner in replay.learners:
        estimate, advantage = learner.estimate(replay.method), learner.advantage(replay.method)
        if np.isnan(estimate.value):
            rows.append(Summary(learner.name, np.nan, NOTHING, np.nan, NOTHING, 0.0))
            continue
        own = learner.evaluation.effective_sample_size if replay.method == "progressive" else len(learner.accepted)
        intervals = estimate.interval(delta), advantage.interval(delta)
        rows.append(Summary(learner.name, estimate.value, intervals[0], advantage.value, intervals[1], float(own)))
    return rows


@dataclass(frozen=True, eq=False)
class Replay:
    method: str
    learners: tuple[LearnerReplay, ...]

    @property
    def ranking(self) -> list[int]:
        """The learners by their value, best first; those without a single round last."""
        values = [learner.estimate(self.method).value for learner in self.learners]
        return sorted(range(len(values)), key=lambda i: -np.inf if np.isnan(values[i]) else values[i], reverse=True)

    def suggested_coefficients(self) -> list[float]:
        """For each learner the smallest c for which c sqrt(n) covers its loss against the best learner in this log.

        The loss after n rounds is n times the best learner's value over the second half of its rounds, minus what the
        learner earned. It is noisy, and the best learner need not be the best policy: a starting point, not a promise.
        """
        curves = [self._terms(learner) for learner in self.learners]
        levels = [float(terms[len(terms) // 2 :].mean()) for terms in curves if len(terms) >= MIN_BOUND_ROUNDS]
        if not levels:
            return [np.nan] * len(curves)
        return [_coefficient(max(levels), terms) for terms in curves]

    def _terms(self, learner: LearnerReplay) -> Array:
        if self.method == "progressive":
            terms = learner.estimate(self.method).terms
            return terms[~np.isnan(terms)]  # all or none
        played: Array = learner.evaluation.rewards[learner.accepted]
        return played


def _coefficient(best: float, terms: Array) -> float:
    """Rounded up to two digits."""
    if len(terms) < MIN_BOUND_ROUNDS:
        return np.nan
    marks = log_rounds(len(terms))
    marks = marks[marks >= MIN_BOUND_ROUNDS]
    losses = marks * best - np.cumsum(terms)[marks - 1]
    c = max(float((losses / np.sqrt(marks)).max()), 0.01)
    digit = 10.0 ** (np.floor(np.log10(c)) - 1)
    return float(f"{ceil(c / digit - 1e-9) * digit:.2g}")


def replay(
    log: LoggedRounds,
    learners: Sequence[MinimalLearner],
    *,
    method: str = "progressive",
    seed: int = 0,
    reward_range: tuple[float, float] | None = None,
    progress: Progress = no_progress,
) -> Replay:
    """Replay a log for each of several learners, which learn from it.

    Parameters
    ----------
    log
        The log; it is read once.
    learners
        The learners, which are changed. Those made of kernels run compiled.
    method
        "progressive" or "rejection"; see the module's docstring.
    seed
        Seed of the random numbers of learners and of thinning.
    reward_range
        Least and greatest possible reward, known beforehand; without it only bootstrap intervals are offered.
    progress
        Called with the name of the step and the share of the work done since the last call.

    Examples
    --------
    >>> from equipoise.logs import from_arrays
    >>> class Always:
    ...     def __init__(self, action):
    ...         self.name, self.action = f"always {action}", action
    ...     def decide(self, context):
    ...         return self.action
    ...     def learn(self, context, action, reward):
    ...         pass
    >>> log = from_arrays(None, [0, 1] * 50, [1.0, 0.0] * 50, [0.5] * 100)
    >>> result = replay(log, [Always(1), Always(0)])
    >>> [result.learners[i].name for i in result.ranking]
    ['always 0', 'always 1']
    """
    chosen = one_of("method", method, METHODS)
    if not learners:
        raise InvalidArgument("learners is empty, but must have at least one learner")
    check_range(log, reward_range)
    if chosen == "rejection":
        check_rejection(log)
    names = unique_names([part_name(learner) for learner in learners])
    tracks = [_Track(learner, log, i, count("seed", seed, minimum=0), chosen) for i, learner in enumerate(learners)]
    columns = max(track.n_columns for track in tracks)
    model = Ridge(log.n_columns) if chosen == "progressive" and log.n_columns <= MAX_MODEL_COLUMNS else None
    rng, parts = np.random.default_rng([seed, 1]), list[tuple[Array, ...]]()
    for batch in log:
        rows = contexts(batch, log.n_columns if model else columns)
        survives = rng.random(batch.n_rounds) < log.thinning(batch)
        values = None if model is None else clip_to(model.follow(rows, batch), reward_range)
        of_logged = np.zeros(0) if values is None else values[np.arange(batch.n_rounds), batch.actions]
        parts.append((batch.rewards, batch.propensities, of_logged, batch.weights))
        each = EachContext(batch)
        for track in tracks:
            track.play(batch, rows, each, survives, values)
        progress("replaying", batch.n_rounds / log.n_rounds)
    common = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    found = zip(tracks, names, strict=True)
    return Replay(chosen, tuple(track.result(name, reward_range, *common) for track, name in found))


def check_rejection(log: LoggedRounds) -> None:
    """Raise an error unless the log states a positive probability of every offered action."""
    if rule := no_rejection(log.min_offered_exposure):
        raise InvalidArgument(f"method is 'rejection', but {rule}")


class EachContext:
    """The contexts of a batch one by one, made once for all learners that need them."""

    def __init__(self, batch: Rounds) -> None:
        self._batch = batch

    @cached_property
    def all(self) -> list[Context]:
        return list(each_context(self._batch))


class _Track:
    def __init__(self, learner: MinimalLearner, log: LoggedRounds, lane: int, seed: int, method: str) -> None:
        self.learner, self.log, self._method = learner, log, method
        can = capabilities(learner)
        self.n_columns: int = log.n_columns if can.n_columns is None else can.n_columns
        self._fits_rows = log.fits_rows(can)
        self._loop = LoggedLearner(learner, log.n_actions, lane, seed)
        self._accepts: frozenset[str] = accepts(learner) if method == "progressive" else frozenset()
        self._probabilities: list[Array] = []
        self._expected: list[Array] = []
        self._accepted: list[Integers] = []
        self._unsupported_row: int | None = None
        self._done = 0

    def play(self, batch: Rounds, rows: Array, each: EachContext, survives: Any, values: Array | None) -> None:
        weights = update_weights(self._accepts, batch.weights, batch.n_offered, batch.propensities)
        updates = np.full(batch.n_rounds, ALWAYS)
        if weights is None:  # it learns only what it would have played
            weights, updates = np.ones(batch.n_rounds), np.where(survives, WHEN_PROPOSED, NEVER)
        logged_rounds = batch.actions, batch.rewards, weights, updates, batch.propensities
        try:
            own = self._rows(batch, rows)
            answers = self._loop.play(Batch(each.all if own is None else own, batch.n_offered, *logged_rounds))
            if self._loop.sat_out == self._done + batch.n_rounds:  # none so far that it could play: say why
                AdaptedLearner(self.learner).decide(each.all[0], np.random.default_rng(0))
        except InvalidArgument as error:
            where = f"rows {batch.rows[0]} to {batch.rows[-1]} of the log"
            raise InvalidArgument(f"learner {part_name(self.learner)!r}, {where}: {error}") from error
        if self._loop.sat_out and self._method == "rejection":
            raise InvalidArgument(
                f"method is 'rejection', but learner {part_name(self.learner)!r} takes no offer of "
                f"{self._loop.sat_out:,} rounds so far, so whether a round counts would depend on its context"
            )
        self._record(batch, answers, survives, values)

    def _rows(self, batch: Rounds, rows: Array) -> Array | None:
        """The rows for compiled code, checked as it checks none; None if the learner has to see each context."""
        if not (self._loop.compiles and self._fits_rows):
            return None
        own = np.ascontiguousarray(rows[:, :, : max(self.n_columns, 0)])
        try:
            check_contexts(self.learner, own, batch)
        except OfferRefused:  # compiled code takes all rows
            return None
        return own

    def _record(self, batch: Rounds, answers: Answers, survives: Any, values: Array | None) -> None:
        proposed = answers.proposed
        wrong = np.flatnonzero((proposed < 0) | (proposed >= batch.n_offered))
        if len(wrong):
            row, action = batch.rows[wrong[0]], proposed[wrong[0]]
            raise InvalidArgument(
                f"learner {part_name(self.learner)!r} proposed action {action} in row {row}, "
                f"but only {batch.n_offered[wrong[0]]} actions are offered there"
            )
        if self._unsupported_row is None:
            never = batch.pmf[np.arange(batch.n_rounds), proposed] == 0.0
            self._unsupported_row = int(batch.rows[never.argmax()]) if never.any() else None
        self._probabilities.append(answers.probabilities)
        self._accepted.append(self._done + np.flatnonzero((proposed == batch.actions) & survives))
        if values is not None:
            self._expected.append(values[np.arange(batch.n_rounds), proposed])
        self._done += batch.n_rounds

    def result(
        self,
        name: str,
        reward_range: tuple[float, float] | None,
        rewards: Array,
        propensities: Array,
        predicted: Array,
        counts: Array,
    ) -> LearnerReplay:
        predictions: tuple[Array | None, Array | None] = None, None
        if len(predicted):
            predictions = predicted, np.concatenate(self._expected)
        own, least = np.concatenate(self._probabilities), self.log.min_offered_exposure
        # Rounded probabilities can make a weight slightly larger than the stated ones allow.
        largest = max(1.0 / least, 1.0 / self.log.min_propensity) if least > 0.0 else None
        evaluation = Evaluation(rewards, propensities, own, reward_range, largest, *predictions, counts, learns=True)
        accepted = np.concatenate(self._accepted)
        return LearnerReplay(name, evaluation, accepted, self._unsupported_row, self._loop.sat_out)


def check_contexts(learner: MinimalLearner, rows: Array, batch: Rounds) -> None:
    """Raise an error if a learner made of kernels cannot use all rows."""
    if not implements(learner, ChecksContexts):
        return
    most = int(batch.n_offered.argmax())
    learner.check_context(rows[most, : batch.n_offered[most]])
    if rows.shape[2]:
        learner.check_context(rows.reshape(-1, rows.shape[2]))


class PortfolioReplay(NamedTuple):
    """A portfolio by rejection."""

    names: tuple[str, ...]  # of the learners
    plays: tuple[int, ...]
    rewards: Array  # of the rounds it played, in order
    description: str  # standing and certificate at the end
    reward_range: tuple[float, float] | None

    @property
    def estimate(self) -> Estimate:
        return _by_rejection(self.rewards, np.ones(len(self.rewards)), self.reward_range)


def replay_portfolio(
    log: LoggedRounds, portfolio: Portfolio, *, seed: int = 0, progress: Progress = no_progress
) -> PortfolioReplay:
    """Replay a log by rejection for a whole portfolio: selector and learners together.

    A round counts if the portfolio takes the logged action and the round survives thinning; otherwise its decision is
    withdrawn. The log must state a positive probability of every offered action.
    """
    check_rejection(log)
    rewards, plays = list[float](), [0] * len(portfolio.learners)
    steps = by_rejection(portfolio, log.each_round(), log.min_offered_exposure, seed)
    for done, step in enumerate(steps, 1):
        if step.kept:
            rewards.append(step.reward)
            if step.decision.learner is not None:  # None: a play of the exploration floor
                plays[step.decision.learner] += 1
        if done % REPORT_EVERY == 0 or done == log.n_rounds:
            progress("replaying the portfolio", ((done - 1) % REPORT_EVERY + 1) / log.n_rounds)
    names = tuple(portfolio.learner_names)
    limits = None if portfolio.settings.clip else portfolio.reward_range  # rewards of the log are not clipped
    return PortfolioReplay(names, tuple(plays), np.array(rewards), portfolio.describe(), limits)
