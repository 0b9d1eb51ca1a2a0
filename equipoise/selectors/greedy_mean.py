"""Greedy selection: after one play of each learner, the learner with the highest mean reward plays.

A learner that learns slowly, or was unlucky once, is not played again while another learner has a higher mean. There is
no guarantee: the regret can grow linearly.

Reference: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.2, with learners for actions.
Departures: with late rewards the mean is that of all rewards that have arrived, and a learner without one counts as if
it had earned the lowest possible reward. Ties go to fewer plays, then to the lower index.

>>> selector = GreedyMean(2)
>>> for reward in (0.2, 0.6, 0.6, 0.6):
...     _ = selector.credit(selector.choose(), reward)
>>> [standing.plays for standing in selector.standing()]
[1, 3]
"""

from __future__ import annotations

from math import inf
from typing import ClassVar

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core.evidence import comes_first
from equipoise.selectors._core.kernels import Arrivals, ArrivalState, Kernels, Params, arrive, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


@kernel
def choose(params: Params, state: ArrivalState, rng: np.random.Generator) -> tuple[int, float]:
    """An unplayed learner if there is one, otherwise the learner with the highest mean reward."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.arrivals)):
        account = state.evidence.accounts[i]
        plays = account.plays
        loss = -inf if plays == 0 else -mean_reward(params.evidence.low, state.arrivals[i])
        if account.active and (chosen < 0 or comes_first(loss, plays, least, fewest)):
            chosen, least, fewest = i, loss, plays
    return chosen, 1.0


@kernel
def mean_reward(unknown: float, row: Arrivals) -> float:
    """Mean of the rewards that have arrived; `unknown` if there are none."""
    return row.rewards / row.plays if row.plays > 0 else unknown


@configurable
class GreedyMean(KernelSelector[Params, ArrivalState, Elimination]):
    """Plays the learner with the highest mean reward."""

    name = "Greedy mean"
    explanation = "The learner with the highest mean reward plays; one with a lower mean is not tried again."
    refuses_learners = ""
    state_type = ArrivalState
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
