"""A bandit with K fixed actions, each with a linear function of its own of the visitor's attributes.

A visitor has m attributes, each +1 or -1, independent and equally likely. The expected reward of action k is
biases[k] + sum_j weights[k][j] attribute_j, so with all weights 0 only the index of the action matters. What a learner
is offered are features that make this linear in one parameter: in column k of row k stands 1/sqrt(2), in column
j K + k of row k the j-th attribute over sqrt(2 m), and 0 elsewhere. The first K columns are then the index alone, the
first (1 + p) K the index and p attributes: a learner of that dimension looks at the first p attributes only.

Reference: Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news article
recommendation", section 3.1 (disjoint linear models).
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import (
    ROUNDING,
    ColumnReader,
    KernelProblem,
    Kernels,
    Room,
    linear_means,
    numbers,
    reward,
)
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Array, Context

FIRST = 1 / sqrt(2.0)


class Params(NamedTuple):
    biases: Array  # (K,)
    weights: Array  # (K, m)
    entry: float  # size of an attribute's feature


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """The features of a visitor, as many columns as the room has, and the expected rewards."""
    actions, means = room.actions, room.means
    n_actions = len(actions)
    actions[:] = 0.0
    for k in range(n_actions):
        actions[k, k] = FIRST
        means[k] = params.biases[k]
    for j in range(1, actions.shape[1] // n_actions):
        attribute = 1.0 if rng.random() < 0.5 else -1.0
        for k in range(n_actions):
            actions[k, j * n_actions + k] = attribute * params.entry
            means[k] += attribute * params.weights[k, j - 1]
    return actions, means


@configurable
class DisjointLinearBandit(KernelProblem[Params]):
    """K actions with `biases` and, for each of m attributes, K x m `weights`; expected rewards must lie in [0, 1].

    >>> problem = DisjointLinearBandit([0.5, 0.5], [[0.3, 0.0], [-0.3, 0.0]])
    >>> context = problem.observe(np.random.default_rng(0))
    >>> context.shape, sorted(round(problem.gap(context, action), 6) for action in range(2))
    ((2, 6), [0.0, 0.6])
    """

    biases: Numbers = setting(check=partial(numbers, ndim=1), encode=np.ndarray.tolist, kw_only=False)
    weights: Numbers = setting(check=partial(numbers, ndim=2), encode=np.ndarray.tolist, kw_only=False)

    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def _set_up(self) -> None:
        super()._set_up()
        means, slopes = self.biases, self.weights
        if len(means) < 2 or slopes.shape[1] < 1 or len(slopes) != len(means):
            raise InvalidArgument(
                f"biases and weights have shapes {means.shape} and {slopes.shape}, but must have (K,) and (K, m) with "
                "K >= 2 actions and m >= 1 attributes"
            )
        reach = np.abs(slopes).sum(axis=1)
        lowest, highest = float((means - reach).min()), float((means + reach).max())
        if not (lowest >= -ROUNDING and highest <= 1.0 + ROUNDING):
            raise InvalidArgument(
                f"biases and weights give expected rewards from {lowest:g} to {highest:g}, but they must lie in [0, 1]"
            )
        self.n_actions, self.n_attributes = len(means), len(slopes.T)
        self.n_columns = self.n_actions * (1 + self.n_attributes)
        entry = FIRST / sqrt(self.n_attributes)
        self.params = Params(means, slopes, entry)
        self.theta: Array = np.concatenate([means / FIRST, (slopes / entry).T.ravel()])
        self.name = f"DisjointLinearBandit(K={self.n_actions}, {self.n_relevant} of {self.n_attributes} attributes)"

    @property
    def n_relevant(self) -> int:
        """How many attributes a learner has to look at: up to the last that matters."""
        relevant = np.flatnonzero(self.weights.any(axis=0))
        return int(relevant[-1]) + 1 if len(relevant) else 0

    @property
    def norm(self) -> float:
        """||theta||."""
        return float(np.linalg.norm(self.theta))

    def columns_for(self, learner: ColumnReader) -> int:
        """Those the learner looks at, and those that make the rewards."""
        looked_at = self.n_columns if learner.n_columns is None else learner.n_columns
        needed = -(-looked_at // self.n_actions)  # blocks of K columns
        return self.n_actions * min(1 + self.n_attributes, max(needed, 1 + self.n_relevant))

    def means(self, context: Context) -> Array:
        """The expected rewards of the offered actions."""
        return linear_means("context", context, (self.n_actions, self.n_columns), self.theta)
