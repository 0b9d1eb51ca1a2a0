"""A linear bandit on a given sequence of action sets, such as logged contexts or those of an adversary."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.problems.base import Kernels, Workspace, reward
from equipoise.problems.table_bandit import TableBandit
from equipoise.settings import configurable, describe
from equipoise.types import Action, Array, Integers


class Params(NamedTuple):
    table: Array  # (n, K, d)
    table_means: Array  # (n, K)
    rounds: Integers  # (1,) number of completed rounds


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """The next action set of the sequence and its expected rewards."""
    position = params.rounds[0] % len(params.table)
    return params.table[position], params.table_means[position]


@kernel
def record(params: Params, learner: int, action: int, reward: float) -> None:
    params.rounds[0] += 1


@describe(features="Action sets in the order in which they are offered, an array of shape (n, K, d).")
@configurable
class SequenceBandit(TableBandit):
    """A linear bandit on a given sequence of action sets, which starts again after the last one.

    `record`, called after every round, moves to the next action set; asking for a context does not.

    Examples
    --------
    >>> problem = SequenceBandit([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 0.5]]], theta=[0.2, 0.7])
    >>> problem.record(learner=0, action=0, reward=1.0)
    >>> problem.observe(np.random.default_rng(0)).tolist()
    [[0.5, 0.5], [0.0, 0.5]]
    """

    kernels: ClassVar[Kernels] = Kernels(draw, reward, record)
    iid: ClassVar[bool] = False

    def _set_up(self) -> None:
        super()._set_up()
        table, table_means = self.params
        self.params = Params(table, table_means, np.zeros(1, np.int64))  # type: ignore[assignment]  # for its own kernels

    def record(self, learner: int, action: Action, reward: float) -> None:
        """End a round: move to the next action set."""
        self.kernels.record(self.params, learner, action, reward)
