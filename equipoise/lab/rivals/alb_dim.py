"""ALB-Dim-style learner: optimism on the relevant coordinates, which are found by rounds of uniform exploration.

theta* is sparse, with unknown support. Phase i plays optimistic least squares on the selected coordinates for 25^i T_0
rounds, then uniformly random actions for 5^i sqrt(T_0) rounds. A regression on all random rounds so far then selects
the coordinates whose estimate is at least half of 2^{-(i+1)} S in magnitude. As the number of random rounds grows like
5^i, the error of the estimates is about 5^{-i/2}, less than the threshold, so that eventually exactly the support is
selected; the random rounds cost only the square root of the number of rounds.

Reference: Ghosh, Sankararaman and Ramchandran (2021), "Problem-complexity adaptive model selection for stochastic
linear bandits", algorithm ALB for the unknown dimension.
Symbols: T_0 first_phase, eps_i = 2^{-i} S twice the threshold, S norm_bound (1 in the reference), delta_i
delta / 2^{i+1}, D_i kept.
"-style" because the text of the algorithm was not available for a line-by-line comparison (the bases 25 and 5 are from
memory; any bases with a square root above 2 work). Choices made here: the optimistic regression restarts in each phase;
the regression on random rounds has a ridge penalty of 1e-6 action_bound^2, which makes the estimate unique.
"""

from __future__ import annotations

from functools import partial
from math import ceil, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.kernels.powers import power
from equipoise.lab.rivals.selecting import (
    SelectingLearner,
    mask_features,
    optimistic_proposal,
    uniform_pmf,
    uniform_proposal,
)
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import delta_setting
from equipoise.learners._core.ridge import Ellipsoid, Ridge, new_ridge, restart, update_offered
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Array, Context, Integers

RANDOM_PENALTY = 1e-6  # penalty of the regression on random rounds, in units of action_bound^2


class Params(NamedTuple):
    noise: float
    delta: float
    regularization: float
    bias: float  # sqrt(lambda) S
    norm_bound: float  # S
    first_phase: int
    first_random: int
    low: float  # origin of rewards


class Memory(NamedTuple):
    ridge: Ridge  # of the current phase, on the coordinates kept
    random_ridge: Ridge  # of all random rounds, on all coordinates
    kept: Array  # (d,) 1 where a coordinate is selected, else 0
    phase: Integers  # (1,) from 0
    played: Integers  # (1,) rounds of the current phase that are over


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    if explores(params, memory):
        return uniform_proposal(memory.ridge, actions, params.low, rng)
    log_term = 2.0 * ((memory.phase[0] + 1.0) * log(2.0) + log(1.0 / params.delta))
    ellipsoid = Ellipsoid(params.noise, log_term, params.bias)
    return optimistic_proposal(ellipsoid, memory.ridge, mask_features(actions, memory.kept), params.low)


@kernel
def explores(params: Params, memory: Memory) -> bool:
    return bool(memory.played[0] >= params.first_phase * power(25, memory.phase[0]))


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    explored = explores(params, memory)
    ridge = memory.random_ridge if explored else memory.ridge
    rows = mask_features(actions, np.ones_like(memory.kept) if explored else memory.kept)
    update_offered(ridge, rows, action, reward - params.low)
    memory.played[0] += 1
    phase = memory.phase[0]
    if memory.played[0] == params.first_phase * power(25, phase) + params.first_random * power(5, phase):
        memory.phase[0] += 1
        memory.played[0] = 0
        threshold = 0.5 * power(0.5, memory.phase[0]) * params.norm_bound
        for j in range(len(memory.kept)):
            memory.kept[j] = 1.0 if abs(memory.random_ridge.theta[j]) >= threshold else 0.0
        restart(memory.ridge, params.regularization)


@configurable
class ALBDim(SelectingLearner[Params, Memory]):
    """Optimistic least squares on the features that turn out to have nonzero coefficients.

    A context is `Offers`, or a K x d matrix with one offered action per row and d >= dim columns; K may change from
    round to round.

    Examples
    --------
    >>> learner = ALBDim(4, first_phase=100)
    >>> learner.memory.kept
    array([1., 1., 1., 1.])
    """

    first_phase: int = setting(
        "Length T_0 of the first optimistic phase in rounds, at least 1. Its square root should be "
        "several times dim * noise^2 divided by the variance of random actions; otherwise the first "
        "selections are wrong and are corrected later.",
        partial(count, maximum=2**31),
        default=2500,
    )

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting(doc="Probability in (0, 1) that an ellipsoid of any phase fails.")
    seed: int = seed_setting()

    randomized = True
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        bias, first_random = self.ellipsoid(self.noise, self.delta).bias, ceil(sqrt(self.first_phase))
        known = self.noise, self.delta, self.regularization, bias, self.norm_bound
        self.params = Params(*known, self.first_phase, first_random, self.reward_range[0])
        penalties = self.regularization, RANDOM_PENALTY * self.action_bound**2
        ridge, random_ridge = (new_ridge(self.dim, penalty) for penalty in penalties)
        self.memory = Memory(ridge, random_ridge, np.ones(self.dim), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def _pmf(self, context: Context, actions: Array) -> Array:
        return uniform_pmf(actions) if explores(self.params, self.memory) else super()._pmf(context, actions)
