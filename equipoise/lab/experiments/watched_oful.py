"""OFUL that is told the truth and keeps the score of its own ellipsoid, for simulation only.

It decides and learns as OFUL does. After every update it compares the distance ||theta - theta*|| in the norm of Sigma
with the unscaled radius beta and keeps the largest ratio so far: the smallest kappa for which the ellipsoids of radius
kappa beta would have contained theta* throughout.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learners import OFUL
from equipoise.learners._core.base import KernelLearner, Kernels
from equipoise.learners._core.ridge import Scratch, ellipsoid_radius, update_offered
from equipoise.learners.oful import Params, decide
from equipoise.problems.base import check_array
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Action, Array, Context, Integers


class Memory(NamedTuple):
    """The regression as in `Ridge`, and what is needed to judge it."""

    factor: Array
    theta: Array
    log_determinant: Array
    updates: Integers
    weights: Array
    scratch: Scratch
    truth: Array  # (d,) theta*
    surprise: Array  # (d,) sum of a (reward - <theta*, a>) - lambda theta*, which is Sigma (theta - theta*)
    greatest_ratio: Array  # (1,)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    update_offered(memory, actions, action, reward)  # type: ignore[arg-type]  # it has all that a Ridge has
    dim = len(memory.theta)
    error = reward
    for i in range(dim):
        error -= actions[action, i] * memory.truth[i]
    for i in range(dim):
        memory.surprise[i] += actions[action, i] * error
    judge(params, memory)


@kernel
def judge(params: Params, memory: Memory) -> None:
    """Keep the ratio of the distance to the radius if it is the largest so far."""
    squared_distance = 0.0
    for i in range(len(memory.theta)):
        squared_distance += (memory.theta[i] - memory.truth[i]) * memory.surprise[i]
    radius = ellipsoid_radius(params.ellipsoid, memory)  # type: ignore[arg-type]  # likewise
    memory.greatest_ratio[0] = max(memory.greatest_ratio[0], sqrt(max(squared_distance, 0.0)) / radius)


@configurable
class WatchedOFUL(OFUL):
    """OFUL on `truth` = theta*, with the settings of `OFUL`."""

    truth: Numbers = setting(check=partial(check_array, ndim=1), encode=np.ndarray.tolist, kw_only=False)
    dim: int = field(init=False)  # that of theta*

    accepts = frozenset({"off_policy"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        self.dim = len(self.truth)
        super()._set_up()
        self._watched = Memory(*self.memory, self.truth, -self.regularization * self.truth, np.zeros(1))
        self.memory = self._watched  # type: ignore[assignment]  # it has all that a Ridge has
        judge(self.params, self._watched)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """As OFUL, with the score kept."""
        KernelLearner.learn(self, context, action, reward, weight)

    @property
    def greatest_ratio(self) -> float:
        """The largest ||theta - theta*|| / beta so far, in the norm of Sigma."""
        return float(self._watched.greatest_ratio[0])
