"""A bandit with K actions of fixed expected rewards and no context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import KernelProblem, Kernels, Workspace, reward
from equipoise.settings import Numbers, configurable, setting
from equipoise.settings.checks import fraction
from equipoise.types import Array, Context


class Params(NamedTuple):
    means: Array  # (K,)


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same K actions every round; they have no features."""
    return workspace.actions, params.means


def check_means(name: str, means: object) -> Array:
    """Return the expected rewards of at least 2 actions, each in [0, 1]."""
    if isinstance(means, str | bytes) or not isinstance(means, Sequence | np.ndarray):
        raise InvalidArgument(f"{name} is {means!r}, but must be a list of expected rewards, one per action")
    if len(means) < 2:
        raise InvalidArgument(f"{name} has {len(means)} entries, but must have at least 2")
    return np.array([fraction(f"{name}[{k}]", mean) for k, mean in enumerate(means)])


@configurable
class KArmedBandit(KernelProblem[Params]):
    """K actions with fixed expected rewards and no features.

    A context is a K x 0 matrix.

    Examples
    --------
    >>> problem = KArmedBandit([0.5, 0.6])
    >>> round(problem.gap(None, 0), 6)
    0.1
    """

    mean_rewards: Numbers = setting(
        "Expected rewards of the K >= 2 actions, each in [0, 1].", check_means, alias="means", kw_only=False
    )

    n_columns = 0
    kernels: ClassVar[Kernels] = Kernels(draw, reward)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.mean_rewards)
        self.n_actions = len(self.mean_rewards)
        self.name = f"KArmedBandit(K={self.n_actions})"

    def means(self, context: Context) -> Array:
        return self.mean_rewards
