"""SquareCB: exploration by inverse gaps, from nothing but a regression.

A regression predicts the reward of every offered action. The action b of greatest prediction gets what is left of the
probability after each other action a got 1 / (K + gamma (yhat_b - yhat_a)): the worse an action looks, the less often
it is tried, and the regret is at most that of the regression times a factor. No confidence width is involved, and an
error eps of the linear model costs eps sqrt(K) a round where optimism may fail altogether.

Reference: Foster and Rakhlin (2020), "Beyond UCB: optimal and efficient contextual bandits with regression oracles",
algorithm 1 and theorem 1.
Symbols: gamma learning rate, mu = K, Reg_Sq(t) square_loss_regret, eps misspecification, w width of `reward_range`.
Departures: the learning rate follows the round, gamma_t = scale sqrt(K t / (Reg_Sq(t) + w^2 ln(2 / delta) + eps^2 t)),
where the theorem fixes it for a known horizon T. The regression is ridge regression with predictions clipped to the
reward range, and Reg_Sq(t) = lambda S^2 + w^2 ln det(Sigma / lambda) is what it has at most lost on squared error so
far: with h = ||a||^2 in Sigma^{-1}, sum err^2 / (1 + h) equals the least regularised squared error, and a clipped error
is at most w, so each round adds at most w^2 h / (1 + h) <= w^2 ln(1 + h) to it.
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
from equipoise.types import Array


class Params(NamedTuple):
    dim: int
    scale: float
    misspecification: float
    penalty: float  # lambda S^2 + w^2 ln(2 / delta)
    low: float
    high: float


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator) -> Proposal:
    rate = learning_rate(params, ridge, len(actions))
    means = predict(ridge, actions)
    greedy = int(means.argmax())
    probabilities = inverse_gaps(means, greedy, rate, params.low, params.high)
    action = drawn(probabilities, rng.random())
    value = min(max(float(means[action]), params.low), params.high)
    return Proposal(action, -inf, nan, float(probabilities[action]), greedy, value)


@kernel
def learning_rate(params: Params, ridge: Ridge, n_actions: int) -> float:
    """gamma of the round to come."""
    t = ridge.updates[0] + 1.0
    square_loss_regret = (params.high - params.low) ** 2 * ridge.log_determinant[0]
    return params.scale * sqrt(n_actions * t / (params.penalty + square_loss_regret + params.misspecification**2 * t))


@kernel
def inverse_gaps(means: Array, best: int, rate: float, low: float, high: float) -> Array:
    """The probability of each action, given predictions, which are clipped to [low, high], the best one, and gamma."""
    n_actions = len(means)
    greatest = min(max(float(means[best]), low), high)
    probabilities = np.empty(n_actions)
    rest = 1.0
    for k in range(n_actions):
        if k != best:
            gap = greatest - min(max(float(means[k]), low), high)
            probabilities[k] = 1.0 / (n_actions + rate * gap)
            rest -= probabilities[k]
    probabilities[best] = rest
    return probabilities


@kernel
def drawn(probabilities: Array, number: float) -> int:
    """The action that a uniform number falls on; the last one if rounding leaves a rest."""
    for k in range(len(probabilities) - 1):
        number -= probabilities[k]
        if number < 0.0:
            return k
    return len(probabilities) - 1


@configurable
class SquareCB(Seeded[Params, Ridge], RidgeLearner[Params]):
    """Inverse gap weighting on the first `dim` features of the offered actions; see `LinearLearner` for contexts.

    `norm_bound` bounds theta*, `reward_range` is where rewards lie, `misspecification` bounds how far expected rewards
    are from linear. `scale` multiplies the learning rate: greater explores less. `delta` is the failure probability
    of the guarantee, `seed` that of the learner's own random stream, used where `decide` is given none.

    >>> learner = SquareCB(2, seed=3)
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    delta: float = setting(default=0.01, check=probability)
    misspecification: float = setting(default=0.0, check=non_negative)

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        penalty = self.regularization * self.norm_bound**2 + (high - low) ** 2 * log(2 / self.delta)
        self.params = Params(self.dim, self.scale, self.misspecification, penalty, low, high)
