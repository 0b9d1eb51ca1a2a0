"""Linear Thompson sampling: play what is best for a parameter drawn from around the estimate.

The expected reward of an action a is <theta*, a>. Each round the learner draws theta + kappa beta Sigma^{-1/2} z with z
standard normal and plays the action of greatest reward under the draw, so actions are explored in proportion to how
plausible it is that they are best. The ellipsoid of radius beta around theta holds however actions were chosen:
estimate minus width bounds the action's expected reward from below, and the greatest upper end over all offered
actions minus that bounds what the play loses.

References: Agrawal and Goyal (2013), "Thompson sampling for contextual bandits with linear payoffs", algorithm 1;
Abeille and Lazaric (2017), "Linear Thompson sampling revisited", figure 1.
Symbols: Sigma^{-1/2} ridge.factor (any F with F F^T = Sigma^{-1} gives the same law), beta ellipsoid_radius, kappa
scale.
Departures: beta is the determinant form at level delta in place of sigma sqrt(9 d ln(t / delta)) (Agrawal and Goyal)
or of level delta / (4 T) with the horizon T (Abeille and Lazaric). `scale` concerns the draws only; the regret theorems
take 1, smaller values are common in practice. The probability of an action is a Gaussian orthant probability without
closed form and is reported as nan.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel, native
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, Seeded
from equipoise.learners._core.linear import RangedEllipsoidLearner, RidgeLearner, learn
from equipoise.learners._core.ridge import (
    Ellipsoid,
    Ridge,
    ellipsoid_radius,
    evaluate,
    most_optimistic,
)
from equipoise.settings import configurable
from equipoise.types import Array


class Params(NamedTuple):
    dim: int
    ellipsoid: Ellipsoid
    scale: float
    low: float
    high: float


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator) -> Proposal:
    radius = ellipsoid_radius(params.ellipsoid, ridge)
    action = best_for(draw(ridge, params.scale * radius, rng), actions)
    means, squared_norms = evaluate(ridge, actions)
    best, greedy = most_optimistic(means, squared_norms, radius)
    lower = within(params, means[action] - radius * sqrt(squared_norms[action]))
    regret = within(params, means[best] + radius * sqrt(squared_norms[best])) - lower
    return Proposal(action, lower, regret, nan, greedy, float(means[action]))


@kernel
def within(params: Params, mean: float) -> float:
    """The nearest number in the range of expected rewards."""
    return min(max(float(mean), params.low), params.high)


@kernel
def draw(ridge: Ridge, spread: float, rng: np.random.Generator) -> Array:
    """theta + spread Sigma^{-1/2} z, z standard normal."""
    deviation: Array = ridge.factor.dot(rng.standard_normal(len(ridge.theta)))
    return ridge.theta + spread * deviation


@kernel
def best_for(parameter: Array, rows: Array) -> int:
    """The first row a of greatest <parameter, a>."""
    return int(rows[:, : len(parameter)].dot(parameter).argmax())


@native(draw)
def _draw(ridge: Ridge, spread: float, rng: np.random.Generator) -> Array:
    dim, numbers, drawn = len(ridge.theta), ridge.scratch.image, ridge.scratch.direction
    for j in range(dim):
        numbers[j] = rng.standard_normal()
    for i in range(dim):
        entry = 0.0
        for j in range(dim):
            entry += ridge.factor[i, j] * numbers[j]
        drawn[i] = ridge.theta[i] + spread * entry
    return drawn


@native(best_for)
def _best_for(parameter: Array, rows: Array) -> int:
    best, greatest = 0, -np.inf
    for k in range(len(rows)):
        value = 0.0
        for i in range(len(parameter)):
            value += parameter[i] * rows[k, i]
        if value > greatest:
            best, greatest = k, value
    return best


@configurable
class LinearThompson(Seeded[Params, Ridge], RangedEllipsoidLearner[Params, Ridge], RidgeLearner[Params]):
    """Thompson sampling on the first `dim` features of the offered actions; see `LinearLearner` for contexts.

    `noise` is the sub-Gaussian factor of the rewards (half their range always suffices), `norm_bound` bounds theta*,
    `scale` multiplies the spread of the draws, `seed` is that of the learner's own random stream, used where `decide`
    is given none.
    """

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.dim, self.ellipsoid, self.scale, *self.reward_range)
