"""A bandit with K actions whose expected rewards change over the rounds, whatever is played."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.problems.base import KernelProblem, Kernels, Workspace, as_matrix, reward
from equipoise.settings import Numbers, configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Action, Array, Context, Integers


class Params(NamedTuple):
    knots: Integers  # (n,) rounds, increasing
    knot_means: Array  # (n, K) expected rewards in these rounds
    rounds: Integers  # (1,) number of completed rounds


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """The same K actions every round, with the expected rewards of the round: linear between two knots."""
    knots, means, t = params.knots, params.knot_means, params.rounds[0] + 1
    last = len(knots) - 1
    after = 0
    while after <= last and knots[after] < t:
        after += 1
    for k in range(len(workspace.means)):
        if after == 0 or after > last:
            workspace.means[k] = means[min(after, last), k]
        else:
            share = (t - knots[after - 1]) / (knots[after] - knots[after - 1])
            workspace.means[k] = (1.0 - share) * means[after - 1, k] + share * means[after, k]
    return workspace.actions, workspace.means


@kernel
def record(params: Params, learner: int, action: int, reward: float) -> None:
    params.rounds[0] += 1


def check_knots(name: str, knots: object) -> tuple[int, ...]:
    """Return rounds, each at least 1 and later than the one before."""
    if isinstance(knots, str | bytes) or not isinstance(knots, Sequence | np.ndarray):
        raise InvalidArgument(f"{name} is {knots!r}, but must be a list of rounds")
    rounds = tuple(count(f"{name}[{k}]", knot) for k, knot in enumerate(knots))
    if not rounds or any(late <= early for early, late in pairwise(rounds)):
        raise InvalidArgument(f"{name} is {list(rounds)}, but must be increasing rounds, at least one")
    return rounds


@configurable
class DriftingBandit(KernelProblem[Params]):
    """K actions whose expected rewards are given at some rounds and change linearly in between.

    Before the first of these rounds and after the last they do not change; two rounds next to each other make a jump.
    `record`, called after every round, moves to the next round; asking for a context does not.

    Examples
    --------
    >>> problem = DriftingBandit([[0.9, 0.1], [0.1, 0.9]], knots=[100, 101])
    >>> round(problem.gap(None, 0), 6)
    0.0
    >>> for _ in range(100):
    ...     problem.record(learner=0, action=0, reward=1.0)
    >>> round(problem.gap(None, 0), 6)
    0.8
    """

    knot_means: Numbers = setting(
        "Expected rewards of K >= 2 actions in [0, 1], one row per knot.", as_matrix, alias="means", kw_only=False
    )
    knots: tuple[int, ...] = setting("Rounds, counted from 1, in increasing order.", check_knots, encode=list)

    n_columns = 0
    iid: ClassVar[bool] = False
    kernels: ClassVar[Kernels] = Kernels(draw, reward, record)

    def _set_up(self) -> None:
        super()._set_up()
        n_rows, self.n_actions = self.knot_means.shape
        if n_rows != len(self.knots) or self.n_actions < 2:
            raise InvalidArgument(
                f"means has shape {self.knot_means.shape}, but must have a row for each of the {len(self.knots)} knots "
                "and at least 2 columns"
            )
        if not (self.knot_means.min() >= 0.0 and self.knot_means.max() <= 1.0):
            raise InvalidArgument("means has entries outside of [0, 1], but expected rewards must lie in it")
        self.params = Params(np.array(self.knots, np.int64), self.knot_means, np.zeros(1, np.int64))
        self.name = f"DriftingBandit(K={self.n_actions})"

    def record(self, learner: int, action: Action, reward: float) -> None:
        self.kernels.record(self.params, learner, action, reward)

    def means(self, context: Context) -> Array:
        """The expected rewards of the actions in the present round."""
        return self.kernels.draw(self.params, self.workspace(), np.random.default_rng(0))[1]
