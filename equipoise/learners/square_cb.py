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
from equipoise.learners._core.base import Kernels, Seeded
from equipoise.learners._core.linear import RidgeLearner, learn
from equipoise.learners._core.ridge import Ridge, predict
from equipoise.settings import configurable, setting
from equipoise.settings.checks import non_negative, probability
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
    value = min(max(float(means[action]), params.low), params.high)
    return Proposal(action, -inf, nan, float(probabilities[action]), greedy, value)


@kernel
def pmf(params: Params, ridge: Ridge, means: Array, greedy: int) -> Array:
    """The probability of every offered action, given its predictions."""
    return inverse_gap_weights(means, greedy, learning_rate(params, ridge, len(means)), params.low, params.high)


@kernel
def learning_rate(params: Params, ridge: Ridge, n_actions: int) -> float:
    """gamma of the next round."""
    t = ridge.updates[0] + 1.0
    square_loss_regret = (params.high - params.low) ** 2 * ridge.log_determinant[0]
    return params.scale * sqrt(n_actions * t / (params.penalty + square_loss_regret + params.misspecification**2 * t))


@kernel
def inverse_gap_weights(means: Array, best: int, rate: float, low: float, high: float) -> Array:
    """The probability of each action, given its predictions (clipped to [low, high]), the best action and gamma."""
    n_actions = len(means)
    best_mean = min(max(float(means[best]), low), high)
    probabilities = np.empty(n_actions)
    remaining = 1.0
    for k in range(n_actions):
        if k != best:
            gap = best_mean - min(max(float(means[k]), low), high)
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
class SquareCB(Seeded[Params, Ridge], RidgeLearner[Params]):
    """Inverse gap weighting on top of ridge regression.

    A context is `Offers`, or a K x d matrix with one offered action per row and d >= dim columns; K may change from
    round to round.

    Parameters
    ----------
    dim
        Number of features used: the first `dim` columns of a context, at least 1. Default: that of `features`.
    features
        Feature map to use instead of the first columns; see `equipoise.features`. Default: none.
    norm_bound
        Upper bound on the norm of the true parameter theta*, positive. Default: 1.
    action_bound
        Upper bound on the norm of a row of a context, positive; larger rows are rejected. Default: 1.
    regularization
        Ridge penalty lambda, at least 1e-8 * action_bound^2. Default: 1.
    delta
        Failure probability of the regret guarantee, in (0, 1). Default: 0.01.
    scale
        Factor of the learning rate, positive; larger values explore less. Default: 1.
    misspecification
        Upper bound on the distance between expected rewards and a linear function, not negative. Default: 0.
    reward_range
        Interval (low, high) that contains all rewards. Default: the portfolio's, or (0, 1).
    seed
        Seed of the learner's own random stream, which is used when `decide` is given no generator. Default: 0.
    name
        Name of the learner in tables and certificates. Default: made from the other settings.

    Examples
    --------
    >>> learner = SquareCB(2, seed=3)
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    delta: float = setting(default=0.01, check=probability)
    misspecification: float = setting(default=0.0, check=non_negative)

    provides = frozenset({"greedy", "value", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        penalty = self.regularization * self.norm_bound**2 + (high - low) ** 2 * log(2 / self.delta)
        self.params = Params(self.dim, self.scale, self.misspecification, penalty, low, high)

    def _pmf(self, context: Context, actions: Array) -> Array:
        means = predict(self.memory, actions)
        return pmf(self.params, self.memory, means, int(means.argmax()))
