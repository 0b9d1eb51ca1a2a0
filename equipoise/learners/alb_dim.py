"""ALB-Dim-style learner: optimism on the coordinates that matter, found by rounds of pure exploration.

theta* has few entries that are not zero, nobody knows which. Phase i plays optimistic least squares on the selected
coordinates for 25^i T_0 rounds, then actions at random for 5^i sqrt(T_0) rounds. An ordinary regression on all random
rounds so far then selects anew: the coordinates whose estimate reaches half of 2^{-(i+1)} in magnitude. As the random
rounds grow like 5^i, estimates err by about 5^{-i/2}, less than the threshold, so that in the end exactly the support
is kept; the random rounds cost only the square root of the horizon.

Reference: Ghosh, Sankararaman and Ramchandran (2021), "Problem-complexity adaptive model selection for stochastic
linear bandits", algorithm ALB for the unknown dimension.
Symbols: T_0 first_phase, eps_i = 2^{-i} twice the threshold, delta_i delta / 2^{i+1}, D_i kept.
"-style", as the text of the algorithm could not be compared line by line (the bases 25 and 5 are from memory; any
with a root beyond 2 do). Chosen: optimism starts afresh in each phase; the ordinary regression is ridge regression with
a penalty of 1e-6 action_bound^2, which also settles what is not determined yet.
"""

from __future__ import annotations

from functools import partial
from math import ceil, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, Seeded
from equipoise.learners._core.linear import EllipsoidLearner
from equipoise.learners._core.ridge import Ellipsoid, Ridge, open_ridge, restart, update_offered
from equipoise.learners._core.selecting import SelectingLearner, masked, optimistic_proposal, uniform_proposal
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Array, Integers

ORDINARY = 1e-6  # penalty of the regression on random rounds, in units of action_bound^2


class Params(NamedTuple):
    noise: float
    delta: float
    regularization: float
    bias: float  # sqrt(lambda) S
    first_phase: int
    first_random: int


class Memory(NamedTuple):
    ridge: Ridge  # of the current phase, on the coordinates kept
    random_ridge: Ridge  # of all random rounds, on all coordinates
    kept: Array  # (d,) 1 where a coordinate is selected, else 0
    phase: Integers  # (1,) from 0
    played: Integers  # (1,) rounds of the current phase so far


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    if explores(params, memory):
        return uniform_proposal(memory.ridge, actions, rng)
    log_term = 2.0 * ((memory.phase[0] + 1.0) * log(2.0) + log(1.0 / params.delta))
    ellipsoid = Ellipsoid(params.noise, log_term, params.bias)
    return optimistic_proposal(ellipsoid, memory.ridge, masked(actions, memory.kept))


@kernel
def explores(params: Params, memory: Memory) -> bool:
    return bool(memory.played[0] >= params.first_phase * 25 ** memory.phase[0])


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    explored = explores(params, memory)
    ridge = memory.random_ridge if explored else memory.ridge
    rows = masked(actions, np.ones_like(memory.kept) if explored else memory.kept)
    update_offered(ridge, rows, action, reward)
    memory.played[0] += 1
    phase = memory.phase[0]
    if memory.played[0] == params.first_phase * 25**phase + params.first_random * 5**phase:
        memory.phase[0] += 1
        memory.played[0] = 0
        threshold = 0.5 * 0.5 ** memory.phase[0]
        for j in range(len(memory.kept)):
            memory.kept[j] = 1.0 if abs(memory.random_ridge.theta[j]) >= threshold else 0.0
        restart(memory.ridge, params.regularization)


@configurable
class ALBDim(Seeded[Params, Memory], EllipsoidLearner[Params, Memory], SelectingLearner[Params, Memory]):
    """Optimistic least squares on those of the first `dim` features that turn out to matter; see `LinearLearner`.

    `first_phase` is the length T_0 of the first optimistic phase in rounds; its root should be several times
    dim * noise^2 / (covariance of random actions), or the first selections are wrong and repaired later. `noise` is
    the sub-Gaussian factor of the rewards, `norm_bound` bounds theta*, `seed` is that of the learner's own random
    stream, used where `decide` is given none.

    >>> learner = ALBDim(4, first_phase=100)
    >>> learner.memory.kept
    array([1., 1., 1., 1.])
    """

    first_phase: int = setting(default=2500, check=partial(count, most=2**31))

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(
            self.noise,
            self.delta,
            self.regularization,
            self.ellipsoid.bias,
            self.first_phase,
            ceil(sqrt(self.first_phase)),
        )
        self.memory = Memory(
            open_ridge(self.dim, self.regularization),
            open_ridge(self.dim, ORDINARY * self.action_bound**2),
            np.ones(self.dim),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
        )
