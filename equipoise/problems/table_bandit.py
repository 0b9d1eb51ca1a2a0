"""A linear bandit on features of your own: a table of action sets, of which each round offers one, drawn uniformly.

The expected reward of an action is the product of its features with theta. What is stored is never drawn anew, so a
round costs no more than looking it up: the problem for logged features and for timing learners.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import KernelProblem, Kernels, Room, linear_means, numbers, reward, stored
from equipoise.settings import Numbers, configurable, setting
from equipoise.types import Array, Context


class Params(NamedTuple):
    table: Array  # (n, K, d)
    table_means: Array  # (n, K)


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """A stored action set and its expected rewards."""
    return stored(params.table, params.table_means, rng)


@configurable
class TableBandit(KernelProblem[Params]):
    """`features` holds n action sets of K actions with d features each, `theta` the d weights that make the rewards.

    >>> problem = TableBandit([[[1.0, 0.0], [0.0, 1.0]]], theta=[0.2, 0.7])
    >>> [round(problem.gap(problem.observe(np.random.default_rng(0)), action), 6) for action in range(2)]
    [0.5, 0.0]
    """

    features: Numbers = setting(check=partial(numbers, ndim=3), encode=np.ndarray.tolist, kw_only=False)
    theta: Numbers = setting(check=partial(numbers, ndim=1), encode=np.ndarray.tolist, kw_only=False)

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
        """The expected rewards of the offered actions."""
        return linear_means("context", context, (self.n_actions, self.n_columns), self.theta)
