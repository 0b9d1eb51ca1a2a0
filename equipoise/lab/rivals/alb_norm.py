"""ALB-Norm-style learner: optimism whose bound on the norm of the parameter shrinks from epoch to epoch.

The expected reward of arm k is mu_k + <a_k, theta*>, and ||theta*|| measures how much the context matters: at 0 the
problem is a multi-armed bandit. Each epoch, twice as long as the one before, plays optimistically with an ellipsoid
that assumes ||theta*|| <= b; at its end b becomes the largest norm in the ellipsoid. If contexts vary in all
directions, b converges to ||theta*||, and the regret adapts to it, although the norm is not known in advance.

Reference: Ghosh, Sankararaman and Ramchandran (2021), "Problem-complexity adaptive model selection for stochastic
linear bandits", algorithm ALB for the unknown norm.
Symbols: b norm_bounds, delta_i delta / 2^i, T_1 first_epoch, mu_k intercepts.
"-style" because the text of the algorithm was not available for a line-by-line comparison. Choices made here: the
first b is the argument `norm_bound` instead of an estimate from initial rounds; intercepts and theta* are estimated in
one regression, which is kept from epoch to epoch (the ellipsoid holds for any adaptively chosen rows); the largest norm
in the ellipsoid is bounded by ||theta|| + beta ||F|| with F the rows of the factor that belong to theta*; b never
grows. The statements (lower, regret) hold simultaneously at all times with probability 1 - delta if ||theta*|| <=
`norm_bound`.
"""

from __future__ import annotations

from functools import partial
from math import log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.kernels.powers import power
from equipoise.lab.rivals.selecting import add_intercepts, check_n_rows, check_rows_are_arms, optimistic_action
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.linear import LinearLearner, check_arms, delta_setting
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, new_ridge, update_offered
from equipoise.learners._core.rows import Choices, choices_of
from equipoise.settings import configurable, describe, setting
from equipoise.settings.checks import count
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Array, Context, Integers


class Params(NamedTuple):
    arms: int
    dim: int
    noise: float
    delta: float
    regularization: float
    first_epoch: int
    intercepts: float  # bound on the squared norm of (mu_1..mu_K)
    low: float
    high: float


class Memory(NamedTuple):
    ridge: Ridge  # over (mu, theta)
    norm_bound: Array  # (1,) b of the current epoch
    epoch: Integers  # (1,) from 1


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator | None) -> Proposal:
    rows = add_intercepts(actions, params.arms, params.dim)
    action, mean, half_width, greedy = optimistic_action(ellipsoid_of(params, memory), memory.ridge, rows)
    value = params.low + mean
    lower = min(max(value - half_width, params.low), params.high)
    return Proposal(action, lower, min(2.0 * half_width, params.high - params.low), 1.0, greedy, value)


@kernel
def ellipsoid_of(params: Params, memory: Memory) -> Ellipsoid:
    """The ellipsoid of the current epoch, which fails with probability delta / 2^epoch."""
    log_term = 2.0 * (memory.epoch[0] * log(2.0) + log(1.0 / params.delta))
    norm = sqrt(params.intercepts + memory.norm_bound[0] * memory.norm_bound[0])
    return Ellipsoid(params.noise, log_term, sqrt(params.regularization) * norm)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    rows = add_intercepts(actions, params.arms, params.dim)
    update_offered(memory.ridge, rows, action, reward - params.low)
    # Epochs of length T_1, 2 T_1, 4 T_1, ... end after T_1, 3 T_1, 7 T_1, ... rounds.
    if memory.ridge.updates[0] == params.first_epoch * (power(2, memory.epoch[0]) - 1):
        norm = max_norm(memory.ridge, params.arms, ellipsoid_radius(ellipsoid_of(params, memory), memory.ridge))
        memory.norm_bound[0] = min(memory.norm_bound[0], norm)
        memory.epoch[0] += 1


@kernel
def max_norm(ridge: Ridge, arms: int, radius: float) -> float:
    """Upper bound on ||theta|| in the ellipsoid, theta being the part of the parameter after the intercepts."""
    theta, factor = ridge.theta[arms:], np.ascontiguousarray(ridge.factor[arms:, :])
    return sqrt((theta * theta).sum()) + radius * float(np.linalg.norm(factor, 2))


@describe(
    norm_bound=(
        "Initial upper bound on the norm of theta*, positive, in units of rewards. Default: the width of the reward "
        "range."
    )
)
@configurable
class ALBNorm(LinearLearner[Params, Memory]):
    """Optimistic least squares with a bound on the norm of the parameter that shrinks as data arrive.

    A context is `Offers`, or a K x d matrix with one offered action per row and d >= dim columns.

    Examples
    --------
    >>> learner = ALBNorm(2, norm_bound=10.0, first_epoch=50)
    >>> for t in range(50):
    ...     learner.learn([[1.0, 0.0], [0.0, 1.0]], t % 2, 0.5)
    >>> bool(learner.memory.norm_bound[0] < 5.0)
    True
    """

    arms: int = setting(
        "With `arms` > 0, row k of a context is arm k, and each arm has an intercept that does not count "
        "toward the norm. With 0 there are no intercepts, and K may change from round to round.",
        partial(check_arms, minimum=0),
        default=0,
    )
    first_epoch: int = setting(
        "Rounds of the first epoch; every epoch is twice as long as the last.",
        partial(count, maximum=2**31),
        default=128,
    )

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting()

    accepts = frozenset({"off_policy"})
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})
    simulation_only = True
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        known = self.arms, self.dim, self.noise, self.delta, self.regularization, self.first_epoch
        self.params = Params(*known, self.arms * (high - low) ** 2, low, high)
        ridge = new_ridge(self.arms + self.dim, self.regularization)
        self.memory = Memory(ridge, np.array([self.norm_bound]), np.array([1]))

    def offered(self, context: Context) -> Choices:
        return choices_of(context, self.check_context(context))

    def check_context(self, context: Context) -> Array:
        if self.arms == 0:
            return super().check_context(context)
        check_rows_are_arms(context, self.name)
        return check_n_rows(super().check_context(context), self.arms)

    def model_class(self) -> LinearClass:
        """The class of rewards that the learner assumes; intercepts are features, whose part of the norm is known."""
        linear = self.linear_class(self.noise, self.delta)
        if self.arms == 0:
            return linear
        intercepts = tuple(f"intercept {k}" for k in range(self.arms))
        return linear._replace(dim=self.arms + self.dim, features=intercepts + linear.feature_names)
