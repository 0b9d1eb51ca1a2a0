"""Two actions, of which the second is always worse by the same gap, in contexts that are rich or poor.

A round is rich with probability `share` and poor else: that decides the expected reward of the best action, and nothing
depends on it besides. So the regret of a learner is `gap` times the number of its second actions, exactly, while its
rewards vary with the luck of the context as much as the range allows: the problem on which promises are checked.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.problems.base import Array, KernelProblem, Kernels, Room, reward
from equipoise.validation import fraction, positive


class Params(NamedTuple):
    rich: float
    poor: float
    share: float
    gap: float


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """The best action and the worse one; their one feature tells what the round is like."""
    level = params.rich if rng.random() < params.share else params.poor
    room.actions[0, 0] = level
    room.actions[1, 0] = level
    room.means[0] = level
    room.means[1] = level - params.gap
    return room.actions, room.means


class GapBandit(KernelProblem):
    """Expected rewards `rich` or `poor` for the first action, `gap` less for the second; the rest of [0, 1] is noise.

    >>> problem = GapBandit(gap=0.3)
    >>> problem.gap(problem.observe(np.random.default_rng(0)), 1)
    0.3
    """

    n_actions, n_columns = 2, 1
    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def __init__(
        self,
        *,
        rich: float = 1.0,
        poor: float = 0.4,
        share: float = 0.5,
        gap: float = 0.4,
        noise: str = "bernoulli",
        noise_scale: float = 0.1,
    ) -> None:
        super().__init__(noise, noise_scale)
        high, low, loss = fraction("rich", rich), fraction("poor", poor), positive("gap", gap)
        if low > high:
            raise InvalidArgument(f"poor is {poor!r}, but must be at most rich = {rich!r}")
        if low < loss:
            raise InvalidArgument(f"poor is {poor!r}, but must be at least gap = {gap!r}: rewards lie in [0, 1]")
        self.params = Params(high, low, fraction("share", share), loss)
        self.name = f"GapBandit(gap={loss:g})"
        self._noise_settings = (noise, self.reward_law.scale)

    @property
    def optimum(self) -> float:
        """The expectation over contexts of the best expected reward."""
        rich, poor, share, _ = self.params
        return float(share * rich + (1 - share) * poor)

    def means(self, context: Any) -> Array:
        """The expected rewards of the two actions."""
        level = np.asarray(context, float)
        if level.shape != (2, 1) or level[0, 0] not in (self.params.rich, self.params.poor):
            raise InvalidArgument(f"context is {context!r:.80}, but must be one that `observe` gave")
        best = float(level[0, 0])
        return np.array([best, best - self.params.gap])

    def gap(self, context: Any, action: Any) -> float:
        """Exactly 0 or the gap, without the rounding of a difference."""
        self.means(context)
        return float(self.params.gap) if self._offered(action) == 1 else 0.0

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        noise, noise_scale = self._noise_settings
        return {**self.params._asdict(), "noise": noise, "noise_scale": noise_scale}
