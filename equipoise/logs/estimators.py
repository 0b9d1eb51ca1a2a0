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

References: Horvitz and Thompson (1952); Swaminathan and Joachims (2015), "The self-normalized estimator for
counterfactual learning", section 3; Dudik, Langford and Li (2011), "Doubly robust policy evaluation and learning",
eq. (1) to (3); Wang, Agarwal and Dudik (2017), "Optimal and adaptive off-policy evaluation in contextual bandits",
eq. (9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.logs.intervals import Interval, bernstein, bootstrap, time_uniform
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
    reward_range: tuple[float, float] = (0.0, 1.0)  # contains all rewards
    max_weight: float | None = None  # the largest possible weight; None: the largest that occurs, at least 1
    predicted: Array | None = None  # reward of the logged action by a model, for DM, DR and SWITCH-DR
    predicted_policy: Array | None = None  # expected reward of the policy by the same model
    round_weights: Array | None = None  # how many rounds each one stands for; None: 1

    def __post_init__(self) -> None:
        n = len(self.rewards)
        for name in ("propensities", "probabilities", "predicted", "predicted_policy", "round_weights"):
            array = getattr(self, name)
            if array is not None and array.shape != (n,):
                raise InvalidArgument(
                    f"{name} has shape {array.shape}, but must have one entry for each of {n} rewards"
                )
        if not n or not (self.propensities.min() > 0.0 and self.propensities.max() <= 1.0):
            raise InvalidArgument("propensities must lie in (0, 1], and there must be at least one")
        if not (self.probabilities.min() >= 0.0 and self.probabilities.max() <= 1.0 + 1e-9):
            raise InvalidArgument("probabilities must lie in [0, 1]")
        interval("reward_range", self.reward_range)

    @property
    def weights(self) -> Array:
        return self.probabilities / self.propensities

    @property
    def counts(self) -> Array:
        """How many rounds each one stands for."""
        return np.ones(len(self.rewards)) if self.round_weights is None else self.round_weights

    @property
    def weight_bound(self) -> float:
        if self.max_weight is not None:
            return positive("max_weight", self.max_weight)
        return max(1.0, float(self.weights.max()))  # all weights below 1 would mean that the log lacks actions

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


@dataclass(frozen=True, eq=False)
class Estimate:
    """A ratio of sums over rounds, with its intervals."""

    estimator: str
    numerators: Array
    denominators: Array
    bounds: tuple[float, float] | None  # of every term; None if the ratio is no mean of bounded terms

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

    def bernstein(self, delta: float = 0.05) -> Interval:
        return bernstein(*self._bounded(), delta)

    def time_uniform(self, delta: float = 0.05) -> Interval:
        return time_uniform(*self._bounded(), delta)

    def bootstrap(self, delta: float = 0.05, *, resamples: int = 1_000, seed: int = 0) -> Interval:
        return bootstrap(self.numerators, self.denominators, delta, resamples=resamples, seed=seed)

    def _bounded(self) -> tuple[Array, tuple[float, float]]:
        if self.bounds is None:
            raise InvalidArgument(f"estimator is {self.estimator}, but must be a mean of bounded terms: use bootstrap")
        return self.numerators / float(self.denominators.mean()), self.bounds


def ips(evaluation: Evaluation) -> Estimate:
    """Inverse propensity score."""
    return _weighted("IPS", evaluation, evaluation.weights, evaluation.weight_bound)


def clipped_ips(evaluation: Evaluation, max_weight: float = CLIP) -> Estimate:
    """IPS with weights of at most `max_weight`: less variance, biased toward 0."""
    bound = positive("max_weight", max_weight)
    return _weighted("clipped IPS", evaluation, np.minimum(evaluation.weights, bound), bound)


def snips(evaluation: Evaluation) -> Estimate:
    """Self-normalized IPS: its bias shrinks as 1/n, and it moves with the rewards if a constant is added to them."""
    weights = evaluation.counts * evaluation.weights
    return Estimate("SNIPS", weights * evaluation.rewards, weights, None)


def dm(evaluation: Evaluation) -> Estimate:
    """Direct method: what the model predicts, which is only as good as the model."""
    _, policy = _model(evaluation)
    return _mean("DM", evaluation, policy, evaluation.reward_range)


def dr(evaluation: Evaluation) -> Estimate:
    """Doubly robust: the direct method plus the weighted errors of the model."""
    return _robust("DR", evaluation, evaluation.weights, evaluation.weight_bound)


def switch_dr(evaluation: Evaluation, max_weight: float = CLIP) -> Estimate:
    """DR that relies on the model alone where the weight is above `max_weight`."""
    bound, weights = positive("max_weight", max_weight), evaluation.weights
    return _robust("SWITCH-DR", evaluation, np.where(weights <= bound, weights, 0.0), bound)


def logged(evaluation: Evaluation) -> Estimate:
    """The value of the policy that logged the rounds: the mean of their rewards."""
    return _mean("logged", evaluation, evaluation.rewards, evaluation.reward_range)


def difference(one: Estimate, other: Estimate) -> Estimate:
    """How much more `one` is worth than `other`, both on the same rounds, so that what they share cancels."""
    if len(one.numerators) != len(other.numerators):
        rounds = f"{len(one.numerators)} and {len(other.numerators)}"
        raise InvalidArgument(f"estimates are of {rounds} rounds, but must be of the same")
    bounds = None
    if one.bounds is not None and other.bounds is not None:
        bounds = one.bounds[0] - other.bounds[1], one.bounds[1] - other.bounds[0]
    terms = one.terms - other.terms
    return Estimate(f"{one.estimator} - {other.estimator}", terms, np.ones(len(terms)), bounds)


def _mean(name: str, evaluation: Evaluation, terms: Array, bounds: tuple[float, float]) -> Estimate:
    counts = evaluation.counts
    factor = float(counts.max() / counts.mean())  # of a term, if rounds stand for different numbers of rounds
    low, high = bounds
    return Estimate(name, counts * terms, counts, (min(low, low * factor), max(high, high * factor)))


def _weighted(name: str, evaluation: Evaluation, weights: Array, bound: float) -> Estimate:
    low, high = evaluation.reward_range
    return _mean(name, evaluation, weights * evaluation.rewards, (min(0.0, low * bound), max(0.0, high * bound)))


def _robust(name: str, evaluation: Evaluation, weights: Array, bound: float) -> Estimate:
    predicted, policy = _model(evaluation)
    low, high = evaluation.reward_range
    terms = policy + weights * (evaluation.rewards - predicted)
    return _mean(name, evaluation, terms, (low - bound * (high - low), high + bound * (high - low)))


def _model(evaluation: Evaluation) -> tuple[Array, Array]:
    """Predictions, clipped to the range of the rewards."""
    if evaluation.predicted is None or evaluation.predicted_policy is None:
        raise InvalidArgument("predicted and predicted_policy are None, but this estimator needs a model")
    low, high = evaluation.reward_range
    return np.clip(evaluation.predicted, low, high), np.clip(evaluation.predicted_policy, low, high)


ESTIMATORS: dict[str, Callable[[Evaluation], Estimate]] = {
    "IPS": ips,
    "SNIPS": snips,
    "clipped IPS": clipped_ips,
    "DM": dm,
    "DR": dr,
    "SWITCH-DR": switch_dr,
}
