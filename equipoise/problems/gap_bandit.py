"""Two actions, of which the second is always worse by the same gap, in contexts that are rich or poor.

A round is rich with probability `share` and poor otherwise, which determines the expected reward of the best action and
nothing else. So the regret of a learner is exactly `gap` times the number of times it plays the second action, while
the variance of its rewards over contexts is as large as the range allows. The problem is used to test guarantees.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import KernelProblem, Kernels, Workspace, reward
from equipoise.settings import configurable, setting
from equipoise.settings.checks import fraction, positive
from equipoise.types import Action, Array, Context


class Params(NamedTuple):
    rich: float
    poor: float
    share: float
    gap: float


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw a round: the best action and the worse one; their only feature is the expected reward of the best."""
    level = params.rich if rng.random() < params.share else params.poor
    workspace.actions[0, 0] = level
    workspace.actions[1, 0] = level
    workspace.means[0] = level
    workspace.means[1] = level - params.gap
    return workspace.actions, workspace.means


@configurable
class GapBandit(KernelProblem[Params]):
    """Two actions, of which the second is always worse by the same gap.

    Examples
    --------
    >>> problem = GapBandit(gap=0.3)
    >>> problem.gap(problem.observe(np.random.default_rng(0)), 1)
    0.3
    """

    rich: float = setting("Expected reward of the first action in a rich round, in [0, 1].", fraction, default=1.0)
    poor: float = setting(
        "Expected reward of the first action in a poor round, from `gap` to `rich`.", fraction, default=0.4
    )
    share: float = setting("Probability in [0, 1] that a round is rich.", fraction, default=0.5)
    loss: float = setting(
        "By how much the expected reward of the second action is lower, positive.", positive, default=0.4, alias="gap"
    )

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
            raise InvalidArgument(f"context is {context!r:.80}, but must be returned by `observe`")
        best = float(level[0, 0])
        return np.array([best, best - self.loss])

    def gap(self, context: Context, action: Action) -> float:
        """Exactly 0 or the gap, without rounding."""
        self.means(context)
        return self.loss if self._offered(action) == 1 else 0.0
