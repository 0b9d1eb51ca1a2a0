"""Off-policy estimates: the value of a policy from rounds that another policy logged.

With w = pi(a | x) / p, q a model of the reward, q_pi(x) = sum_a pi(a | x) q(x, a), each estimator is a mean of terms:

| estimator | term of a round |
|---|---|
| IPS | w r |
| SNIPS | w r, divided by the mean of w instead of 1 |
| clipped IPS | min(w, M) r |
| DM | q_pi(x) |
| DR | q_pi(x) + w (r - q(x, a)) |
| SWITCH-DR | q_pi(x) + 1{w <= M} w (r - q(x, a)) |

A policy that learns is judged before it learns from each round. Its weights are then predictable, and the estimates are
of the mean of its values over the rounds. A round that stands for g rounds counts g times.

An estimate offers an interval only where it covers the value of the policy, and `refusals` says why it does not offer
the others; docs/guide/logs.md has them in a table.
Range and largest weight must be known beforehand: the extremes in a log miss those that are rare. The largest weight
follows from a log that states the probabilities of all actions, given its contexts, if these do not depend on earlier
rewards, and from the exploration floor of a journal; else state it, as 1 / (smallest probability of an action). With
rounds that stand for different numbers of rounds only the bootstrap is offered.

References: Horvitz and Thompson (1952); Swaminathan and Joachims (2015), "The self-normalized estimator for
counterfactual learning", section 3; Dudik, Langford and Li (2011), "Doubly robust policy evaluation and learning",
eq. (1) to (3); Wang, Agarwal and Dudik (2017), "Optimal and adaptive off-policy evaluation in contextual bandits",
eq. (9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.logs.intervals import Interval, bernstein, betting, bootstrap, time_uniform
from equipoise.settings.checks import interval, positive
from equipoise.types import Array

CLIP = 10.0  # M, if nothing else is given


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A policy on logged rounds, one entry per round.

    Examples
    --------
    >>> import numpy as np
    >>> log = np.array([1.0, 0.0, 1.0, 1.0]), np.full(4, 0.5)
    >>> policy = Evaluation(*log, probabilities=np.array([1.0, 0.0, 1.0, 0.0]))
    >>> ips(policy).value, snips(policy).value
    (1.0, 1.0)
    """

    rewards: Array  # logged
    propensities: Array  # of the logged actions under the policy that logged them
    probabilities: Array  # of the logged actions under the policy to evaluate
    reward_range: tuple[float, float] | None = None  # contains all possible rewards; None: unknown
    max_weight: float | None = None  # the largest possible weight; None: unknown
    predicted: Array | None = None  # reward of the logged action by a model of earlier rounds, for DM, DR and SWITCH-DR
    predicted_policy: Array | None = None  # expected reward of the policy by the same model
    round_weights: Array | None = None  # how many rounds each one stands for; None: 1
    learns: bool = False  # whether the policy learns from the rounds

    def __post_init__(self) -> None:
        n = len(self.rewards)
        for name in ("propensities", "probabilities", "predicted", "predicted_policy", "round_weights"):
            array = getattr(self, name)
            if array is not None and array.shape != (n,):
                raise InvalidArgument(
                    f"{name} has shape {array.shape}, but must have one entry for each of {n} rewards"
                )
        if not n:
            raise InvalidArgument("rewards is empty, but must have at least one round")
        p, pi = self.propensities, self.probabilities
        _require("rewards", self.rewards, np.isfinite(self.rewards), "must be finite")
        _require("propensities", p, (p > 0.0) & (p <= 1.0), "must lie in (0, 1]")
        _require("probabilities", pi, (pi >= 0.0) & (pi <= 1.0 + 1e-9), "must lie in [0, 1]")
        if self.round_weights is not None:
            _require("round_weights", self.round_weights, self.round_weights > 0.0, "must be positive")
        if self.reward_range is not None:
            low, high = interval("reward_range", self.reward_range)
            inside = (self.rewards >= low) & (self.rewards <= high)
            _require("rewards", self.rewards, inside, f"must lie in the reward_range {self.reward_range}")
        if self.max_weight is not None:
            largest = positive("max_weight", self.max_weight)
            small = self.weights <= largest * (1 + 1e-9)
            _require("weights", self.weights, small, f"must be at most max_weight {largest:g}")

    @property
    def weights(self) -> Array:
        return self.probabilities / self.propensities

    @property
    def counts(self) -> Array:
        """How many rounds each one stands for."""
        return np.ones(len(self.rewards)) if self.round_weights is None else self.round_weights

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2: the number of rounds of its own that would be as informative."""
        weights = self.weights * self.counts
        squares = float((weights**2).sum())
        return float(weights.sum()) ** 2 / squares if squares else 0.0

    @property
    def unsupported_share(self) -> float:
        """Estimated probability with which the policy takes actions that the log never takes: 1 - mean of w, or 0."""
        return max(0.0, 1.0 - float((self.weights * self.counts).sum() / self.counts.sum()))


INTERVALS = ("betting", "time_uniform", "bernstein", "bootstrap")
DEFAULTS = ("betting", "time_uniform", "bootstrap")  # the first one offered is shown
NO_RANGE = "the range of the rewards is not stated"
NO_WEIGHT = "the largest weight is neither stated nor given by the probabilities of the log"
COUNTS = "rounds stand for different numbers of rounds"
LEARNS = "the policy learns, so its expected reward changes"
WEIGHT = "; a largest weight taken from the log must not depend on its rewards"
BIASED = "the estimator is biased, and an interval would be of its own expectation"
DEPENDENT = "its terms depend on earlier rounds"
CONDITIONS = {
    "betting": "at all times, if all rounds have one law of contexts and rewards; the logging policy may have learned",
    "time_uniform": "at all times, for the mean over the rounds so far",
    "bernstein": "at this number of rounds, if rounds are independent",
    "bootstrap": "resampling only, no coverage stated",
}


class Named(NamedTuple):
    """An interval with its name and the conditions under which it covers."""

    name: str
    interval: Interval
    conditions: str


@dataclass(frozen=True, eq=False)
class Estimate:
    """A ratio of sums over rounds, with its intervals."""

    estimator: str
    numerators: Array
    denominators: Array
    refusals: Mapping[str, str]  # intervals that are not offered, with the reason
    bounds: tuple[float, float] | None = None  # of every term
    bets: tuple[Array, Array, tuple[float, float]] | None = None  # the arguments of `betting`
    limits: tuple[float, float] | None = None  # of the value

    @property
    def value(self) -> float:
        total = float(self.denominators.sum())
        return float(self.numerators.sum()) / total if total else np.nan

    @property
    def terms(self) -> Array:
        """One per round; their mean is the value. Of a ratio, those of its linear approximation."""
        mean = float(self.denominators.mean())
        if not mean:
            return np.full(len(self.numerators), np.nan)
        return self.value + (self.numerators - self.value * self.denominators) / mean

    @property
    def standard_error(self) -> float:
        n = len(self.numerators)
        return float(self.terms.std(ddof=1)) / n**0.5 if n > 1 else np.nan

    def interval(self, delta: float = 0.05) -> Named:
        """Return the first interval offered of betting, time-uniform and bootstrap, with its name and conditions."""
        name = next(name for name in DEFAULTS if name not in self.refusals)
        conditions = CONDITIONS[name]
        if name == "time_uniform" or (name == "betting" and self.bets is not None and self.bets[2] is self.bounds):
            conditions += WEIGHT
        if name == "bootstrap" and any(BIASED in why for why in self.refusals.values()):
            conditions += ", around its own expectation"
        make = {"betting": self.betting, "time_uniform": self.time_uniform, "bootstrap": self.bootstrap}[name]
        return Named(name, make(delta), conditions)

    def betting(self, delta: float = 0.05) -> Interval:
        self._check("betting")
        assert self.bets is not None
        return self._within(betting(*self.bets, delta))

    def bernstein(self, delta: float = 0.05) -> Interval:
        self._check("bernstein")
        return self._within(bernstein(*self._bounded(), delta))

    def time_uniform(self, delta: float = 0.05) -> Interval:
        self._check("time_uniform")
        return self._within(time_uniform(*self._bounded(), delta))

    def bootstrap(self, delta: float = 0.05, *, resamples: int = 1_000, seed: int = 0) -> Interval:
        return bootstrap(self.numerators, self.denominators, delta, resamples=resamples, seed=seed)

    def _check(self, name: str) -> None:
        if name in self.refusals:
            raise InvalidArgument(f"{name} is not offered for {self.estimator}: {self.refusals[name]}")

    def _within(self, found: Interval) -> Interval:
        return found if self.limits is None else Interval(*np.clip(found, *self.limits).tolist())

    def _bounded(self) -> tuple[Array, tuple[float, float]]:
        assert self.bounds is not None
        counted = self.denominators > 0.0  # those that do are equal
        return self.numerators[counted] / self.denominators[counted], self.bounds


def ips(evaluation: Evaluation) -> Estimate:
    """Inverse propensity score."""
    terms = evaluation.weights * evaluation.rewards
    refusals = _refusals(evaluation, betting="", bernstein="")
    bounds, bets = None, None
    if evaluation.reward_range is not None:
        low, high = evaluation.reward_range
        above, below = evaluation.rewards - low, high - evaluation.rewards
        bets = evaluation.weights * above, evaluation.weights * below, (low, high)
        if evaluation.max_weight is not None:
            bounds = min(0.0, low * evaluation.max_weight), max(0.0, high * evaluation.max_weight)
    return Estimate("IPS", *_counted(evaluation, terms), refusals, bounds, bets, evaluation.reward_range)


def clipped_ips(evaluation: Evaluation, max_weight: float = CLIP) -> Estimate:
    """IPS with weights of at most `max_weight`: less variance, biased toward 0."""
    terms = np.minimum(evaluation.weights, positive("max_weight", max_weight)) * evaluation.rewards
    return _biased("clipped IPS", *_counted(evaluation, terms))


def snips(evaluation: Evaluation) -> Estimate:
    """Self-normalized IPS: its bias shrinks as 1/n, and it moves with the rewards if a constant is added to them."""
    weights = evaluation.counts * evaluation.weights
    return _biased("SNIPS", weights * evaluation.rewards, weights)


def dm(evaluation: Evaluation) -> Estimate:
    """Direct method: what the model predicts, which is only as good as the model."""
    return _biased("DM", *_counted(evaluation, _model(evaluation)[1]))


def dr(evaluation: Evaluation) -> Estimate:
    """Doubly robust: the direct method plus the weighted errors of the model."""
    predicted, policy = _model(evaluation)
    terms = policy + evaluation.weights * (evaluation.rewards - predicted)
    refusals = _refusals(evaluation, betting="" if evaluation.max_weight else NO_WEIGHT, bernstein=DEPENDENT)
    bounds, bets = None, None
    if evaluation.reward_range is not None and evaluation.max_weight is not None:
        low, high = evaluation.reward_range
        reach = evaluation.max_weight * (high - low) * (1 + 1e-9)
        bounds = low - reach, high + reach
        bets = terms - bounds[0], bounds[1] - terms, bounds
    return Estimate("DR", *_counted(evaluation, terms), refusals, bounds, bets, evaluation.reward_range)


def switch_dr(evaluation: Evaluation, max_weight: float = CLIP) -> Estimate:
    """DR that relies on the model alone where the weight is above `max_weight`."""
    (predicted, policy), weights = _model(evaluation), evaluation.weights
    kept = np.where(weights <= positive("max_weight", max_weight), weights, 0.0)
    return _biased("SWITCH-DR", *_counted(evaluation, policy + kept * (evaluation.rewards - predicted)))


def logged(evaluation: Evaluation) -> Estimate:
    """The value of the policy that logged the rounds: the mean of their rewards."""
    refusals = dict.fromkeys(("betting", "bernstein"), "the policy that logged the rounds may have learned")
    if reason := _common_refusal(evaluation):
        refusals["time_uniform"] = reason
    limits = evaluation.reward_range
    return Estimate("logged", *_counted(evaluation, evaluation.rewards), refusals, limits, None, limits)


def difference(one: Estimate, other: Estimate) -> Estimate:
    """How much more `one` is worth than `other`, both on the same rounds, so that what they share cancels."""
    if len(one.numerators) != len(other.numerators):
        rounds = f"{len(one.numerators)} and {len(other.numerators)}"
        raise InvalidArgument(f"estimates are of {rounds} rounds, but must be of the same")
    refusals = {name: f"{each.estimator}: {why}" for each in (other, one) for name, why in each.refusals.items()}
    refusals["betting"] = "a difference has terms of both signs"
    if max(np.ptp(one.denominators), np.ptp(other.denominators)) > 0.0:
        refusals["time_uniform"] = refusals["bernstein"] = "its terms are those of a ratio"
    terms, limits = one.terms - other.terms, _minus(one.limits, other.limits)
    name, bounds = f"{one.estimator} - {other.estimator}", _minus(one.bounds, other.bounds)
    return Estimate(name, terms, np.ones(len(terms)), refusals, bounds, None, limits)


def _minus(one: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if one is None or other is None else (one[0] - other[1], one[1] - other[0])


def _counted(evaluation: Evaluation, terms: Array) -> tuple[Array, Array]:
    """Numerators and denominators of a mean of terms."""
    return evaluation.counts * terms, evaluation.counts


def _biased(name: str, numerators: Array, denominators: Array) -> Estimate:
    return Estimate(name, numerators, denominators, dict.fromkeys(INTERVALS[:-1], BIASED))


def _refusals(evaluation: Evaluation, *, betting: str, bernstein: str) -> dict[str, str]:
    """The intervals that an unbiased weighted mean does not offer; empty reasons are left out."""
    common, learns = _common_refusal(evaluation), LEARNS if evaluation.learns else ""
    weight = "" if evaluation.max_weight else NO_WEIGHT
    reasons = {
        "betting": common or learns or betting,
        "time_uniform": common or weight,
        "bernstein": common or weight or learns or bernstein,
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _common_refusal(evaluation: Evaluation) -> str:
    if evaluation.reward_range is None:
        return NO_RANGE
    return COUNTS if np.ptp(evaluation.counts) > 0.0 else ""


def _model(evaluation: Evaluation) -> tuple[Array, Array]:
    """Predictions, clipped to the range of the rewards if it is known."""
    if evaluation.predicted is None or evaluation.predicted_policy is None:
        raise InvalidArgument("predicted and predicted_policy are None, but this estimator needs a model")
    limits = evaluation.reward_range
    return clip_to(evaluation.predicted, limits), clip_to(evaluation.predicted_policy, limits)


def clip_to(values: Array, reward_range: tuple[float, float] | None) -> Array:
    """The values, clipped to the range of the rewards if it is known."""
    return values if reward_range is None else np.clip(values, *reward_range)


def _require(name: str, values: Array, good: NDArray[np.bool_], rule: str) -> None:
    if not good.all():
        i = int(good.argmin())
        raise InvalidArgument(f"{name}[{i}] is {values[i]:g}, but {rule}")


ESTIMATORS: dict[str, Callable[[Evaluation], Estimate]] = {
    "IPS": ips,
    "SNIPS": snips,
    "clipped IPS": clipped_ips,
    "DM": dm,
    "DR": dr,
    "SWITCH-DR": switch_dr,
}
