"""A bandit with K actions of fixed expected rewards and no context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.problems.base import Array, KernelProblem, Kernels, Room, reward
from equipoise.validation import fraction


class Params(NamedTuple):
    means: Array  # (K,)


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same K actions every round; they have no features."""
    return room.actions, params.means


class KArmedBandit(KernelProblem):
    """K actions with expected rewards `means` in [0, 1]; a context is a K x 0 matrix, as actions have no features.

    >>> problem = KArmedBandit([0.5, 0.6])
    >>> round(problem.gap(None, 0), 6)
    0.1
    """

    n_columns = 0
    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def __init__(self, means: Sequence[float] | Array, *, noise: str = "bernoulli", noise_scale: float = 0.1) -> None:
        super().__init__(noise, noise_scale)
        if isinstance(means, str | bytes) or not isinstance(means, Sequence | np.ndarray):
            raise InvalidArgument(f"means is {means!r}, but must have one expected reward per action")
        if len(means) < 2:
            raise InvalidArgument(f"means has {len(means)} entries, but must have at least 2")
        self.params = Params(np.array([fraction(f"means[{k}]", mean) for k, mean in enumerate(means)]))
        self.n_actions = len(means)
        self.name = f"KArmedBandit(K={self.n_actions})"
        self._noise_settings = (noise, self.reward_law.scale)

    def means(self, context: Any) -> Array:
        """The expected rewards of the actions."""
        means: Array = self.params.means
        return means

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        noise, noise_scale = self._noise_settings
        return {"means": self.params.means.tolist(), "noise": noise, "noise_scale": noise_scale}
