"""A linear bandit on features of your own: a table of action sets, of which each round offers one, drawn uniformly.

The expected reward of an action is the product of its features with theta. What is stored is never drawn anew, so a
round costs no more than looking it up: the problem for logged features and for timing learners.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.problems.base import Array, KernelProblem, Kernels, Room, linear_means, numbers, reward, stored


class Params(NamedTuple):
    table: Array  # (n, K, d)
    table_means: Array  # (n, K)


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """A stored action set and its expected rewards."""
    return stored(params.table, params.table_means, rng)


class TableBandit(KernelProblem):
    """`features` holds n action sets of K actions with d features each, `theta` the d weights that make the rewards.

    >>> problem = TableBandit([[[1.0, 0.0], [0.0, 1.0]]], theta=[0.2, 0.7])
    >>> [round(problem.gap(problem.observe(np.random.default_rng(0)), action), 6) for action in range(2)]
    [0.5, 0.0]
    """

    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def __init__(
        self, features: ArrayLike, theta: ArrayLike, *, noise: str = "bernoulli", noise_scale: float = 0.1
    ) -> None:
        super().__init__(noise, noise_scale)
        table, self.theta = numbers("features", features, 3), numbers("theta", theta, 1)
        n_sets, self.n_actions, self.n_columns = table.shape
        if n_sets < 1 or self.n_actions < 2 or self.n_columns < 1:
            raise InvalidArgument(
                f"features has shape {table.shape}, but must have at least 1 set of 2 actions with 1 feature"
            )
        if len(self.theta) != self.n_columns:
            raise InvalidArgument(
                f"theta has {len(self.theta)} entries, but must have one for each of {self.n_columns} features"
            )
        means = [linear_means(f"features[{n}]", actions, actions.shape, self.theta) for n, actions in enumerate(table)]
        self.params = Params(table, np.array(means))
        self.name = f"TableBandit({n_sets} sets, K={self.n_actions}, d={self.n_columns})"
        self._noise_settings = (noise, self.reward_law.scale)

    def means(self, context: Any) -> Array:
        """The expected rewards of the offered actions."""
        return linear_means("context", context, (self.n_actions, self.n_columns), self.theta)

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        noise, noise_scale = self._noise_settings
        features, theta = self.params.table.tolist(), self.theta.tolist()
        return {"features": features, "theta": theta, "noise": noise, "noise_scale": noise_scale}
