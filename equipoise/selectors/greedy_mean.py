"""Greedy selection: after one play of each learner, the learner with the highest mean reward plays.

A learner that learns slowly, or was unlucky once, is not played again while another learner has a higher mean. There is
no guarantee: the regret can grow linearly.

Reference: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.2, with learners for actions.
Departures: with late rewards the mean is that of the resolved prefix of plays, and a learner without a resolved play
counts as if it had earned the lowest possible reward. Ties go to fewer plays, then to the lower index.

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

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import PlainSelector
from equipoise.selectors._core.evidence import Params, State, comes_first
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.settings import ConfidenceSettings, LearnerCount
from equipoise.settings import configurable


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """An unplayed learner if there is one, otherwise the learner with the highest mean reward."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.accounts)):
        plays = state.accounts[i].plays
        loss = -inf if plays == 0 else -mean_reward(params, state, i)
        if chosen < 0 or comes_first(loss, plays, least, fewest):
            chosen, least, fewest = i, loss, plays
    return chosen, 1.0


@kernel
def mean_reward(params: Params, state: State, i: int) -> float:
    """Mean reward over the resolved plays of learner i; the lowest possible reward if there are none."""
    account = state.accounts[i]
    return account.rewards / account.booked_plays if account.booked_plays > 0 else params.low


@configurable
class GreedyMean(LearnerCount, ConfidenceSettings, PlainSelector):
    """Plays the learner with the highest mean reward.

    Parameters
    ----------
    n_learners
        Number of learners.
    delta
        Failure probability of the certificate; it does not affect choices.
    reward_range
        Lowest and highest reward; with `noise`, lowest and highest expected reward.
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    radius
        Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein" (bounded rewards only).
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    """

    name = "Greedy mean"
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.credit_only)
