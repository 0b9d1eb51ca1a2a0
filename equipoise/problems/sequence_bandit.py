"""A linear bandit on a sequence of action sets of your own, offered in their order and from the start again after the
last: logged contexts as they came, or an adversary's.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.problems.base import Kernels, Room, reward
from equipoise.problems.table_bandit import TableBandit
from equipoise.types import Action, Array, Integers


class Params(NamedTuple):
    table: Array  # (n, K, d)
    table_means: Array  # (n, K)
    rounds: Integers  # (1,) that are over


@kernel
def draw(params: Params, room: Room, rng: np.random.Generator) -> tuple[Array, Array]:
    """The next action set of the sequence and its expected rewards."""
    place = params.rounds[0] % len(params.table)
    return params.table[place], params.table_means[place]


@kernel
def record(params: Params, learner: int, action: int, reward: float) -> None:
    params.rounds[0] += 1


class SequenceBandit(TableBandit):
    """`features` holds action sets of K actions with d features each, in their order; the rest is as in `TableBandit`.

    The sequence moves on when a round is over, which `record` tells; asking for a context moves nothing.

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
        self.params = Params(table, table_means, np.zeros(1, np.int64))  # type: ignore[assignment]  # of its own kernels

    def record(self, learner: int, action: Action, reward: float) -> None:
        """A round is over: the next action set is on."""
        self.kernels.record(self.params, learner, action, reward)
