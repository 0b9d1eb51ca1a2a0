"""Two actions, of which the second is always worse by the same gap, in contexts that are rich or poor.

A round is rich with probability `share` and poor else: that decides the expected reward of the best action, and nothing
depends on it besides. So the regret of a learner is `gap` times the number of its second actions, exactly, while its
rewards vary with the luck of the context as much as the range allows: the problem on which promises are checked.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import KernelProblem, Kernels, Room, reward
from equipoise.settings import configurable, setting
from equipoise.settings.checks import fraction, positive
from equipoise.types import Action, Array, Context


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


@configurable
class GapBandit(KernelProblem[Params]):
    """Expected rewards `rich` or `poor` for the first action, `gap` less for the second; the rest of [0, 1] is noise.

    >>> problem = GapBandit(gap=0.3)
    >>> problem.gap(problem.observe(np.random.default_rng(0)), 1)
    0.3
    """

    rich: float = setting(default=1.0, check=fraction)
    poor: float = setting(default=0.4, check=fraction)
    share: float = setting(default=0.5, check=fraction)
    loss: float = setting(default=0.4, alias="gap", check=positive)

    n_actions, n_columns = 2, 1
    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def _set_up(self) -> None:
        super()._set_up()
        rich, poor, gap = self.rich, self.poor, self.loss
        if poor > rich:
            raise InvalidArgument(f"poor is {poor!r}, but must be at most rich = {rich!r}")
        if poor < gap:
            raise InvalidArgument(f"poor is {poor!r}, but must be at least gap = {gap!r}: rewards lie in [0, 1]")
        self.params = Params(rich, poor, self.share, gap)
        self.name = f"GapBandit(gap={gap:g})"

    @property
    def optimum(self) -> float:
        """The expectation over contexts of the best expected reward."""
        return self.share * self.rich + (1 - self.share) * self.poor

    def means(self, context: Context) -> Array:
        """The expected rewards of the two actions."""
        level = np.asarray(context, float)
        if level.shape != (2, 1) or level[0, 0] not in (self.rich, self.poor):
            raise InvalidArgument(f"context is {context!r:.80}, but must be one that `observe` gave")
        best = float(level[0, 0])
        return np.array([best, best - self.loss])

    def gap(self, context: Context, action: Action) -> float:
        """Exactly 0 or the gap, without the rounding of a difference."""
        self.means(context)
        return self.loss if self._offered(action) == 1 else 0.0
