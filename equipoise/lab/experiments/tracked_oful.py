"""OFUL that knows the true parameter and tracks how far it is from its estimate, for simulation only.

It decides and learns as OFUL does. After every update it compares the distance ||theta - theta*|| in the norm of Sigma
with the unscaled radius beta and keeps the largest ratio so far: the smallest kappa for which the ellipsoids of radius
kappa beta would have contained theta* throughout.
"""

from __future__ import annotations

from dataclasses import field
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learners import OFUL
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.ridge import Scratch, ellipsoid_radius, update_offered
from equipoise.learners.oful import Params, decide
from equipoise.problems.base import as_vector
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Array, Integers


class Memory(NamedTuple):
    """The regression as in `Ridge`, and the error of its estimate."""

    factor: Array
    theta: Array
    log_determinant: Array
    updates: Integers
    weights: Array
    scratch: Scratch
    truth: Array  # (d,) theta*
    error_sum: Array  # (d,) sum of a (reward - <theta*, a>) - lambda theta*, which is Sigma (theta - theta*)
    largest_ratio: Array  # (1,)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    update_offered(memory, actions, action, reward - params.low)  # type: ignore[arg-type]  # it has all that a Ridge has
    dim = len(memory.theta)
    error = reward - params.low
    for i in range(dim):
        error -= actions[action, i] * memory.truth[i]
    for i in range(dim):
        memory.error_sum[i] += actions[action, i] * error
    update_ratio(params, memory)


@kernel
def update_ratio(params: Params, memory: Memory) -> None:
    """Keep the ratio of the distance to the radius if it is the largest so far."""
    squared_distance = 0.0
    for i in range(len(memory.theta)):
        squared_distance += (memory.theta[i] - memory.truth[i]) * memory.error_sum[i]
    radius = ellipsoid_radius(params.ellipsoid, memory)  # type: ignore[arg-type]  # likewise
    memory.largest_ratio[0] = max(memory.largest_ratio[0], sqrt(max(squared_distance, 0.0)) / radius)


@configurable
class TrackedOFUL(OFUL):
    """OFUL on `truth` = theta*, with the settings of `OFUL`."""

    truth: Numbers = setting("Expected reward parameter theta* of the problem.", as_vector, kw_only=False)
    dim: int = field(init=False)  # that of theta*
    discount: float = field(default=1.0, init=False)  # the ellipsoid holds for rewards that do not change

    accepts = frozenset({"off_policy"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        self.dim = len(self.truth)
        super()._set_up()
        self._tracked = Memory(*self.memory, self.truth, -self.regularization * self.truth, np.zeros(1))
        self.memory = self._tracked  # type: ignore[assignment]  # it has all that a Ridge has
        update_ratio(self.params, self._tracked)

    @property
    def largest_ratio(self) -> float:
        """The largest ||theta - theta*|| / beta so far, in the norm of Sigma."""
        return float(self._tracked.largest_ratio[0])
