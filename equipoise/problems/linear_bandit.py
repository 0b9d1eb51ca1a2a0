"""A linear bandit with nested features: rewards depend on the first d* of d_max features, where d* is unknown.

Every round offers K actions. Each has first entry 1/sqrt(2), a uniformly random direction of norm 0.6 in entries 2..d*
and one of norm 0.37 in the others, which do not affect rewards. theta has first entry sqrt(2)/2 and (0.5/0.6) u in
entries 2..d*, u a random unit vector whose first d*/2 - 1 entries are multiplied by 0.3 before normalization, so that
the features beyond d*/2 matter most. The expected reward is 0.5 + 0.5 cos(angle between u and the action's direction);
norms are at most 1 (actions) and 1.1 (theta). A `signal` below 1 multiplies (0.5/0.6) u, so that the expected rewards
of good and bad actions are closer together.

Contexts are fresh in every round, drawn from a stored table, or one fixed action set. Columns that neither a learner
nor the rewards need are not drawn.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.kernels.normals import fill_row, start_rows
from equipoise.kernels.streams import INSTANCE, generator_at
from equipoise.problems.base import ColumnReader, KernelProblem, Kernels, Workspace, draw_stored, linear_means, reward
from equipoise.settings import configurable, setting
from equipoise.settings.checks import at_least_2, count, one_of, positive_fraction, several
from equipoise.types import Array, Context

SIGNAL_NORM, DISTRACTOR_NORM = 0.6, 0.37
SHRINKAGE = 0.3


class Params(NamedTuple):
    theta: Array  # (d_max,)
    n_signal: int  # d*
    table: Array  # (n, K, d_max) stored action sets; n = 0 if contexts are fresh
    table_means: Array  # (n, K)


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the offered actions and their expected rewards; fresh actions are written to the workspace."""
    if len(params.table) > 0:
        return draw_stored(params.table, params.table_means, rng)
    start_rows(workspace.seeds, rng)
    fill_actions(params, workspace, 0, len(workspace.actions), workspace.n_columns[0])
    return workspace.actions, workspace.means


@kernel
def complete(params: Params, workspace: Workspace, action: int) -> None:
    """Draw the columns of one action that `draw` omitted."""
    if len(params.table) == 0:
        fill_actions(params, workspace, action, action + 1, len(params.theta))


@kernel
def fill_actions(params: Params, workspace: Workspace, first: int, last: int, n_columns: int) -> None:
    """Draw actions first..last - 1 from rows of normal numbers, of which those of the signal come first."""
    n_signal = params.n_signal
    n_numbers = len(params.theta) - 1 if n_columns > n_signal else n_signal - 1
    for k in range(first, last):
        fill_row(workspace.numbers, k, n_numbers, workspace.seeds)
    shape_actions(params, workspace, first, last, n_numbers)


@kernel
def shape_actions(params: Params, workspace: Workspace, first: int, last: int, n_numbers: int) -> None:
    """Normalize the parts of each action and compute its expected reward."""
    n_signal, actions = params.n_signal, workspace.actions[first:last]
    signal, rest = (
        workspace.numbers[first:last, : n_signal - 1],
        workspace.numbers[first:last, n_signal - 1 : n_numbers],
    )
    actions[:, 0] = 1.0 / sqrt(2.0)
    actions[:, 1:n_signal] = signal * (SIGNAL_NORM / np.sqrt(np.vecdot(signal, signal)))[:, None]
    if n_numbers >= n_signal:
        visible = rest[:, : actions.shape[1] - n_signal]
        actions[:, n_signal:] = visible * (DISTRACTOR_NORM / np.sqrt(np.vecdot(rest, rest)))[:, None]
    workspace.means[first:last] = actions[:, :n_signal].dot(params.theta[:n_signal])


@native(shape_actions)
def _shape_actions(params: Params, workspace: Workspace, first: int, last: int, n_numbers: int) -> None:
    actions, numbers, n_signal = workspace.actions, workspace.numbers, params.n_signal
    for k in range(first, last):
        squared_length = 0.0
        for j in range(1, n_signal):
            squared_length += numbers[k, j - 1] * numbers[k, j - 1]
        scale = SIGNAL_NORM / sqrt(squared_length)
        actions[k, 0] = 1.0 / sqrt(2.0)
        mean = actions[k, 0] * params.theta[0]
        for j in range(1, n_signal):
            actions[k, j] = numbers[k, j - 1] * scale
            mean += actions[k, j] * params.theta[j]
        workspace.means[k] = mean
        if n_numbers >= n_signal:
            squared_length = 0.0
            for j in range(n_signal - 1, n_numbers):
                squared_length += numbers[k, j] * numbers[k, j]
            scale = DISTRACTOR_NORM / sqrt(squared_length)
            for j in range(n_signal, actions.shape[1]):
                actions[k, j] = numbers[k, j - 1] * scale


@configurable
class LinearBandit(KernelProblem[Params]):
    """A linear bandit whose rewards depend on the first `d_star` of `d_max` features.

    Examples
    --------
    >>> problem = LinearBandit(d_max=8, d_star=4, n_actions=3)
    >>> context = problem.observe(np.random.default_rng(0))
    >>> context.shape, min(problem.gap(context, action) for action in range(3))
    ((3, 8), 0.0)
    """

    d_max: int = setting("Number of features of an action, d_max >= 2.", several, default=32, kw_only=False)
    d_star: int = setting(
        "Number of features d* that affect rewards, from 2 to `d_max`.", at_least_2, default=8, kw_only=False
    )
    n_actions: int = setting(
        "Number of actions K per round, at least 2.",
        partial(count, minimum=2, maximum=1_000_000),
        default=10,
        kw_only=False,
    )
    contexts: str = setting(
        '"fresh": new random actions in every round; "table": one of `table_size` stored action sets, '
        'drawn uniformly; "fixed": the same actions in every round.',
        partial(one_of, options=("fresh", "table", "fixed")),
        default="fresh",
    )
    table_size: int = setting('Number of stored action sets if `contexts` is "table".', count, default=200)
    signal: float = setting(
        "Strength of the signal in (0, 1]: expected rewards lie within `signal` / 2 of 1/2.",
        positive_fraction,
        default=1.0,
    )
    seed: int = setting("Seed of the instance (theta and stored action sets).", partial(count, minimum=0), default=0)

    kernels: ClassVar[Kernels] = Kernels(draw, reward, complete=complete)

    def _set_up(self) -> None:
        super()._set_up()
        if self.d_star > self.d_max:
            raise InvalidArgument(f"d_star is {self.d_star!r}, but must be at most d_max = {self.d_max}")
        self.n_columns = self.d_max
        self.name = f"LinearBandit(d*={self.d_star} of {self.d_max}, K={self.n_actions}, {self.contexts} contexts)"
        rng = generator_at(self.seed, INSTANCE)
        theta = draw_theta(self.d_max, self.d_star, rng)
        theta[1:] *= self.signal
        n_stored = {"fresh": 0, "table": self.table_size, "fixed": 1}[self.contexts]
        empty = Params(theta, self.d_star, np.empty((0, self.n_actions, self.d_max)), np.empty((0, self.n_actions)))
        drawn = [draw(empty, self.workspace(), rng) for _ in range(n_stored)]
        self.params = empty
        if drawn:
            table, table_means = map(np.stack, zip(*drawn, strict=True))
            self.params = empty._replace(table=table, table_means=table_means)

    @property
    def same_actions(self) -> bool:
        return self.contexts == "fixed"

    def columns_for(self, learner: ColumnReader) -> int:
        """Number of columns that the learner uses or that affect the rewards."""
        used = self.n_columns if learner.n_columns is None else learner.n_columns
        return min(self.n_columns, max(used, self.d_star))

    def means(self, context: Context) -> Array:
        return linear_means("context", context, (self.n_actions, self.n_columns), self.params.theta[: self.d_star])


def draw_theta(d_max: int, d_star: int, rng: np.random.Generator) -> Array:
    direction = rng.standard_normal(d_star - 1)
    direction[: d_star // 2 - 1] *= SHRINKAGE
    theta = np.zeros(d_max)
    theta[0] = sqrt(2.0) / 2
    theta[1:d_star] = 0.5 / SIGNAL_NORM * direction / np.linalg.norm(direction)
    return theta
