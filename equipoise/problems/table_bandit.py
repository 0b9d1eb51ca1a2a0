"""A linear bandit on given features: a table of action sets, of which each round offers one, drawn uniformly.

The expected reward of an action is the product of its features with theta. A round costs only a lookup, so the problem
suits logged features and benchmarks of learners.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import (
    KernelProblem,
    Kernels,
    Workspace,
    as_tensor,
    as_vector,
    draw_stored,
    linear_means,
    reward,
)
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Array, Context


class Params(NamedTuple):
    table: Array  # (n, K, d)
    table_means: Array  # (n, K)


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    return draw_stored(params.table, params.table_means, rng)


@configurable
class TableBandit(KernelProblem[Params]):
    """A linear bandit on a table of given action sets, of which every round offers one, drawn uniformly.

    Examples
    --------
    >>> problem = TableBandit([[[1.0, 0.0], [0.0, 1.0]]], theta=[0.2, 0.7])
    >>> [round(problem.gap(problem.observe(np.random.default_rng(0)), action), 6) for action in range(2)]
    [0.5, 0.0]
    """

    features: Numbers = setting(
        "Action sets, an array (n, K, d): n sets of K >= 2 actions with d features.", as_tensor, kw_only=False
    )
    theta: Numbers = setting("Weights of the d features; expected rewards lie in [0, 1].", as_vector, kw_only=False)

    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def _set_up(self) -> None:
        super()._set_up()
        table, theta = self.features, self.theta
        n_sets, self.n_actions, self.n_columns = table.shape
        if n_sets < 1 or self.n_actions < 2 or self.n_columns < 1:
            raise InvalidArgument(
                f"features has shape {table.shape}, but must have at least 1 set of 2 actions with 1 feature"
            )
        if len(theta) != self.n_columns:
            raise InvalidArgument(
                f"theta has {len(theta)} entries, but must have one for each of {self.n_columns} features"
            )
        means = [linear_means(f"features[{n}]", actions, actions.shape, theta) for n, actions in enumerate(table)]
        self.params = Params(table, np.array(means))
        self.name = f"{type(self).__name__}({n_sets} sets, K={self.n_actions}, d={self.n_columns})"

    def means(self, context: Context) -> Array:
        return linear_means("context", context, (self.n_actions, self.n_columns), self.theta)
