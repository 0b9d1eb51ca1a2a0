"""A bandit with K fixed actions, each with its own linear function of the visitor's attributes.

A visitor has m attributes, each +1 or -1, independent and equally likely. The expected reward of action k is
biases[k] + sum_j weights[k][j] attribute_j, so with all weights 0 only the index of the action matters. The
features make this linear in one parameter: column k of row k is 1/sqrt(2), column j K + k of row k is the j-th
attribute divided by sqrt(2 m), and all other entries are 0. The first K columns encode the index alone, the first
(1 + p) K columns the index and p attributes: a learner of that dimension uses the first p attributes only.

Reference: Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news article
recommendation", section 3.1 (disjoint linear models).
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import (
    ROUNDING_TOLERANCE,
    ColumnReader,
    KernelProblem,
    Kernels,
    Workspace,
    as_matrix,
    as_vector,
    linear_means,
    reward,
)
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Array, Context

INDICATOR_ENTRY = 1 / sqrt(2.0)


class Params(NamedTuple):
    biases: Array  # (K,)
    weights: Array  # (K, m)
    entry: float  # size of an attribute's feature


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the features of a visitor, for the columns of the workspace, and the expected rewards."""
    actions, means = workspace.actions, workspace.means
    n_actions = len(actions)
    actions[:] = 0.0
    for k in range(n_actions):
        actions[k, k] = INDICATOR_ENTRY
        means[k] = params.biases[k]
    for j in range(1, actions.shape[1] // n_actions):
        attribute = 1.0 if rng.random() < 0.5 else -1.0
        for k in range(n_actions):
            actions[k, j * n_actions + k] = attribute * params.entry
            means[k] += attribute * params.weights[k, j - 1]
    return actions, means


@configurable
class DisjointLinearBandit(KernelProblem[Params]):
    """K actions, each with its own linear function of the attributes of a visitor.

    Examples
    --------
    >>> problem = DisjointLinearBandit([0.5, 0.5], [[0.3, 0.0], [-0.3, 0.0]])
    >>> context = problem.observe(np.random.default_rng(0))
    >>> context.shape, sorted(round(problem.gap(context, action), 6) for action in range(2))
    ((2, 6), [0.0, 0.6])
    """

    biases: Numbers = setting("Expected rewards of K >= 2 actions for an average visitor.", as_vector, kw_only=False)
    weights: Numbers = setting(
        "Effect of each attribute on each action (K x m); expected rewards lie in [0, 1].", as_matrix, kw_only=False
    )

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
        if not (lowest >= -ROUNDING_TOLERANCE and highest <= 1.0 + ROUNDING_TOLERANCE):
            raise InvalidArgument(
                f"biases and weights give expected rewards from {lowest:g} to {highest:g}, but they must lie in [0, 1]"
            )
        self.n_actions, self.n_attributes = len(means), len(slopes.T)
        self.n_columns = self.n_actions * (1 + self.n_attributes)
        entry = INDICATOR_ENTRY / sqrt(self.n_attributes)
        self.params = Params(means, slopes, entry)
        self.theta: Array = np.concatenate([means / INDICATOR_ENTRY, (slopes / entry).T.ravel()])
        self.name = f"DisjointLinearBandit(K={self.n_actions}, {self.n_relevant} of {self.n_attributes} attributes)"

    @property
    def n_relevant(self) -> int:
        """Number of attributes that a learner needs: up to the last one with a nonzero weight."""
        relevant = np.flatnonzero(self.weights.any(axis=0))
        return int(relevant[-1]) + 1 if len(relevant) else 0

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.theta))

    def columns_for(self, learner: ColumnReader) -> int:
        """Number of columns that the learner uses or that affect the rewards."""
        used = self.n_columns if learner.n_columns is None else learner.n_columns
        needed = -(-used // self.n_actions)  # blocks of K columns
        return self.n_actions * min(1 + self.n_attributes, max(needed, 1 + self.n_relevant))

    def means(self, context: Context) -> Array:
        return linear_means("context", context, (self.n_actions, self.n_columns), self.theta)
