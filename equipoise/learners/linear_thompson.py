"""Linear Thompson sampling: play the best action for a parameter drawn from around the estimate.

The expected reward of an action a is <theta*, a>. Each round the learner draws theta + kappa beta Sigma^{-1/2} z with z
standard normal and plays the best action for the sampled parameter. The ellipsoid of radius beta around theta
holds however actions were chosen: estimate minus width is a lower bound on the expected reward of an action, and the
largest upper bound over all offered actions minus that lower bound is an upper bound on the regret of the play.

References: Agrawal and Goyal (2013), "Thompson sampling for contextual bandits with linear payoffs", algorithm 1;
Abeille and Lazaric (2017), "Linear Thompson sampling revisited", figure 1.
Symbols: Sigma^{-1/2} ridge.factor (any F with F F^T = Sigma^{-1} gives the same distribution), beta ellipsoid_radius,
kappa scale.
Departures: beta is the determinant form at level delta instead of sigma sqrt(9 d ln(t / delta)) (Agrawal and Goyal)
or of level delta / (4 T) for T rounds (Abeille and Lazaric). `scale` affects the sampled parameter only; the regret
theorems use 1, and smaller values are common in practice. The probability of an action is a Gaussian orthant
probability without closed form and is reported as nan.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel, native
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import LinearLearner, delta_setting, learn
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, evaluate, most_optimistic
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.units import noise_setting, range_setting
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
    action = best_action_for(draw(ridge, params.scale * radius, rng), actions)
    means, squared_norms = evaluate(ridge, actions)
    best, greedy = most_optimistic(means, squared_norms, radius)
    mean = params.low + float(means[action])
    lower = clip_to_range(params, mean - radius * sqrt(squared_norms[action]))
    upper = clip_to_range(params, params.low + means[best] + radius * sqrt(squared_norms[best]))
    return Proposal(action, lower, upper - lower, nan, greedy, mean)


@kernel
def clip_to_range(params: Params, mean: float) -> float:
    return min(max(float(mean), params.low), params.high)


@kernel
def draw(ridge: Ridge, spread: float, rng: np.random.Generator) -> Array:
    """theta + spread Sigma^{-1/2} z, z standard normal."""
    deviation: Array = ridge.factor.dot(rng.standard_normal(len(ridge.theta)))
    return ridge.theta + spread * deviation


@kernel
def best_action_for(parameter: Array, rows: Array) -> int:
    """The first row a that maximizes <parameter, a>."""
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


@native(best_action_for)
def _best_action_for(parameter: Array, rows: Array) -> int:
    best, best_value = 0, -np.inf
    for k in range(len(rows)):
        value = 0.0
        for i in range(len(parameter)):
            value += parameter[i] * rows[k, i]
        if value > best_value:
            best, best_value = k, value
    return best


@configurable
class LinearThompson(LinearLearner[Params, Ridge]):
    """Thompson sampling for rewards that are linear in the features of the actions.

    Contexts are as for `OFUL`, except `Ball`.

    Examples
    --------
    >>> learner = LinearThompson(2, scale=0.1, seed=3)
    >>> for t in range(100):
    ...     learner.learn([[1.0, 0.0], [0.0, 1.0]], action=t % 2, reward=float(t % 2))
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).action
    1
    """

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting()
    scale: float = setting(
        "Factor of the standard deviation of the sampled parameter, positive.", positive, default=1.0
    )
    seed: int = seed_setting()

    randomized = True
    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.dim, self.ellipsoid(self.noise, self.delta), self.scale, *self.reward_range)
        self.memory = self.new_ridge()

    def default_name(self) -> str:
        return self._name_with(self.scale)

    def model_class(self) -> LinearClass:
        return self.linear_class(self.noise, self.delta)
