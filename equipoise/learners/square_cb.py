"""SquareCB: exploration by inverse gap weighting, which needs only a regression oracle.

A regression predicts the reward of every offered action. Each action a other than the best predicted action b has
probability 1 / (K + gamma (yhat_b - yhat_a)), and b has the remaining probability: the worse an action looks, the less
often it is tried, and the regret is at most that of the regression times a factor. No confidence widths are needed, and
an error eps of the linear model costs eps sqrt(K) per round, where optimism may fail completely.

Reference: Foster and Rakhlin (2020), "Beyond UCB: optimal and efficient contextual bandits with regression oracles",
algorithm 1 and theorem 1.
Symbols: gamma learning rate, mu = K, Reg_Sq(t) square_loss_regret, eps misspecification, w width of `reward_range`.
Departures: the learning rate follows the round, gamma_t = scale sqrt(K t / (Reg_Sq(t) + w^2 ln(2 / delta) + eps^2 t)),
where the theorem fixes it for a known number of rounds T. The regression is ridge regression with predictions clipped
to the reward range, and Reg_Sq(t) = lambda S^2 + w^2 ln det(Sigma / lambda) bounds its regret in squared error so far:
with h = ||a||^2 in Sigma^{-1}, sum err^2 / (1 + h) equals the least regularized squared error, and a clipped error is
at most w, so each round adds at most w^2 h / (1 + h) <= w^2 ln(1 + h) to it.
"""

from __future__ import annotations

from math import inf, log, nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import LinearLearner, learn
from equipoise.learners._core.ridge import Ridge, predict
from equipoise.settings import configurable, setting
from equipoise.settings.checks import non_negative, positive, probability
from equipoise.settings.units import rewards_setting
from equipoise.types import Array, Context


class Params(NamedTuple):
    dim: int
    scale: float
    misspecification: float
    penalty: float  # lambda S^2 + w^2 ln(2 / delta)
    low: float
    high: float


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator) -> Proposal:
    means = predict(ridge, actions)
    greedy = int(means.argmax())
    probabilities = pmf(params, ridge, means, greedy)
    action = sample_index(probabilities, rng.random())
    value = params.low + min(max(float(means[action]), 0.0), params.high - params.low)
    return Proposal(action, -inf, nan, float(probabilities[action]), greedy, value)


@kernel
def pmf(params: Params, ridge: Ridge, means: Array, greedy: int) -> Array:
    """The probability of every offered action, given its predictions."""
    return inverse_gap_weights(means, greedy, learning_rate(params, ridge, len(means)), params.high - params.low)


@kernel
def learning_rate(params: Params, ridge: Ridge, n_actions: int) -> float:
    """gamma of the next round."""
    t = ridge.updates[0] + 1.0
    width, misspecification = params.high - params.low, params.misspecification
    square_loss_regret = width * width * ridge.log_determinant[0]
    misspecified = misspecification * misspecification * t
    return params.scale * sqrt(n_actions * t / (params.penalty + square_loss_regret + misspecified))


@kernel
def inverse_gap_weights(means: Array, best: int, rate: float, width: float) -> Array:
    """The probability of each action, given its predictions (clipped to [0, width]), the best action and gamma."""
    n_actions = len(means)
    best_mean = min(max(float(means[best]), 0.0), width)
    probabilities = np.empty(n_actions)
    remaining = 1.0
    for k in range(n_actions):
        if k != best:
            gap = best_mean - min(max(float(means[k]), 0.0), width)
            probabilities[k] = 1.0 / (n_actions + rate * gap)
            remaining -= probabilities[k]
    probabilities[best] = remaining
    return probabilities


@kernel
def sample_index(probabilities: Array, number: float) -> int:
    """The index selected by a uniform number in [0, 1); the last one if the probabilities sum to less than it."""
    for k in range(len(probabilities) - 1):
        number -= probabilities[k]
        if number < 0.0:
            return k
    return len(probabilities) - 1


@configurable
class SquareCB(LinearLearner[Params, Ridge]):
    """Inverse gap weighting on top of ridge regression.

    Contexts are as for `OFUL`, except `Ball`.

    Examples
    --------
    >>> learner = SquareCB(2, seed=3)
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    reward_range: tuple[float, float] = rewards_setting()
    scale: float = setting("Factor of the learning rate, positive; larger values explore less.", positive, default=1.0)
    seed: int = seed_setting()
    delta: float = setting("Failure probability of the regret guarantee, in (0, 1).", probability, default=0.01)
    misspecification: float = setting(
        "Upper bound on the error of a linear function of the features, not negative.", non_negative, default=0.0
    )

    randomized = True
    accepts = frozenset({"off_policy"})
    provides = frozenset({"greedy", "value", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        penalty = self.regularization * self.norm_bound**2 + (high - low) ** 2 * log(2 / self.delta)
        self.params = Params(self.dim, self.scale, self.misspecification, penalty, low, high)
        self.memory = self.new_ridge()

    def default_name(self) -> str:
        return self._name_with(self.scale)

    def _pmf(self, context: Context, actions: Array) -> Array:
        means = predict(self.memory, actions)
        return pmf(self.params, self.memory, means, int(means.argmax()))
