"""Linear Thompson sampling: play the best action for a parameter drawn from around the estimate.

The expected reward of an action a is <theta*, a>. Each round the learner draws theta + kappa beta Sigma^{-1/2} z with z
uniform over N fixed vectors and plays the best action for the sampled parameter. So the probability of an action is the
share of the N vectors for which it is best. The ellipsoid of radius beta around theta holds however actions were
chosen: estimate minus width is a lower bound on the expected reward of an action, and the largest upper bound over all
offered actions minus that lower bound is an upper bound on the regret of the play.

References: Agrawal and Goyal (2013), "Thompson sampling for contextual bandits with linear payoffs", algorithm 1;
Abeille and Lazaric (2017), "Linear Thompson sampling revisited", figure 1, definition 1 and theorem 1.
Symbols: Sigma^{-1/2} ridge.factor (any F with F F^T = Sigma^{-1}), beta ellipsoid_radius, kappa scale, z one of
`directions`.
Departures: z is uniform over N = max(256, 32 d) fixed vectors, N/2 standard normal ones and their negatives, where the
papers draw a standard normal z, for which the probability of an action has no closed form; the normal law is the limit
of large N. Definition 1 of Abeille and Lazaric asks two things of the law of z: a norm of order sqrt(d), up to
logarithms, which N vectors have, and that a share p > 0 of it lies in every half-space <u, z> >= 1 with ||u|| = 1. The
normal law has p = .159; the worst u that a descent finds leaves .06 of the N vectors (tested to d = 32). beta is the
determinant form at level delta instead of sigma sqrt(9 d ln(t / delta)) (Agrawal and Goyal) or of level delta / (4 T)
for T rounds (Abeille and Lazaric). `scale` affects the sampled parameter only; the regret theorems use 1, and smaller
values are common in practice.
"""

from __future__ import annotations

from functools import lru_cache
from math import nan, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.kernels.streams import generator_at
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import FeatureLearner, LinearLearner, delta_setting, learn
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, evaluate, most_optimistic
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Array, Context

MIN_DIRECTIONS, DIRECTIONS_PER_DIM = 256, 32
MAX_DIM = 1000  # with 256 MB of directions


@lru_cache(maxsize=16)
def directions_of(dim: int) -> Array:
    """The vectors z for a dimension, one per row, the same for every learner; they must not be changed."""
    half = generator_at(0, dim, 0).standard_normal((max(MIN_DIRECTIONS, DIRECTIONS_PER_DIM * dim) // 2, dim))
    return np.vstack([half, -half])


def directions_for(learner: FeatureLearner[Any, Any]) -> Array:
    """The vectors z for a learner; raises an error if it has too many features."""
    if learner.dim > MAX_DIM:
        raise InvalidArgument(f"dim is {learner.dim}, but must be at most {MAX_DIM} for {type(learner).__name__}")
    return directions_of(learner.dim)


class Params(NamedTuple):
    dim: int
    ellipsoid: Ellipsoid
    scale: float
    low: float
    high: float
    directions: Array  # (N, d)


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator) -> Proposal:
    radius = ellipsoid_radius(params.ellipsoid, ridge)
    drawn = params.directions[int(rng.random() * len(params.directions))]
    action = best_action_for(drawn, ridge, params.scale * radius, actions)
    means, squared_norms = evaluate(ridge, actions)
    best, greedy = most_optimistic(means, squared_norms, radius)
    mean = params.low + float(means[action])
    lower = clip_to_range(params, mean - radius * sqrt(squared_norms[action]))
    upper = clip_to_range(params, params.low + means[best] + radius * sqrt(squared_norms[best]))
    return Proposal(action, lower, upper - lower, nan, greedy, mean)  # its probability, by `pmf`, would take longer


@kernel
def clip_to_range(params: Params, mean: float) -> float:
    return min(max(float(mean), params.low), params.high)


@kernel
def best_action_for(direction: Array, ridge: Ridge, spread: float, rows: Array) -> int:
    """The first row a that maximizes <theta + spread F z, a>, where z is the direction."""
    return int(sampled_values(direction, ridge, spread, rows).argmax())


def sampled_values(directions: Array, ridge: Ridge, spread: float, rows: Array) -> Array:
    """<theta + spread F z, a> for every row a, for one direction z or, as a matrix, for many of them.

    One direction and many give the same bits, so that equal actions are told apart in the same way.
    """
    rows = rows[:, : len(ridge.theta)]
    values: Array = np.vecdot(directions[..., None, :], rows.dot(ridge.factor))
    values *= spread
    values += rows.dot(ridge.theta)
    return values


def shares_of_best(directions: Array, ridge: Ridge, spread: float, rows: Array) -> Array:
    """For each row the share of directions for which it is the best one."""
    best = sampled_values(directions, ridge, spread, rows).argmax(axis=1)
    return np.bincount(best, minlength=len(rows)) / len(directions)


@native(best_action_for)
def _best_action_for(direction: Array, ridge: Ridge, spread: float, rows: Array) -> int:
    dim, parameter = len(ridge.theta), ridge.scratch.direction
    for i in range(dim):
        entry = 0.0
        for j in range(dim):
            entry += ridge.factor[i, j] * direction[j]
        parameter[i] = ridge.theta[i] + spread * entry
    best, best_value = 0, -np.inf
    for k in range(len(rows)):
        value = 0.0
        for i in range(dim):
            value += parameter[i] * rows[k, i]
        if value > best_value:
            best, best_value = k, value
    return best


@configurable
class LinearThompson(LinearLearner[Params, Ridge]):
    """Thompson sampling for rewards that are linear in the features of the actions.

    Contexts are as for `OFUL`, except `Ball`. A learner with d columns draws from max(256, 32 d) fixed directions, so
    that `pmf` is exact; d is at most 1000.

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
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        ellipsoid = self.ellipsoid(self.noise, self.delta)
        self.params = Params(self.dim, ellipsoid, self.scale, *self.reward_range, directions_for(self))
        self.memory = self.new_ridge()

    def _pmf(self, context: Context, actions: Array) -> Array:
        spread = self.scale * ellipsoid_radius(self.params.ellipsoid, self.memory)
        return shares_of_best(self.params.directions, self.memory, spread, actions)

    def default_name(self) -> str:
        return self._name_with(self.scale)

    def model_class(self) -> LinearClass:
        return self.linear_class(self.noise, self.delta)
