"""Regret bound balancing with elimination.

Every learner i comes with a candidate regret bound R_i, which may be false. The selector plays the active learner whose
bound at its own number of plays is smallest, which keeps the putative regrets of all active learners about equal, and
eliminates a learner when its rewards contradict its bound. The total regret is then close to that of the best learner
whose bound holds, without knowing which learner that is.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1.
Symbols: n_i plays, U_i rewards, R_i regret_bound, I_t active, M n_learners, delta; the paper's c sqrt(n ln(M ln
n/delta)) is `radius_sum` of `equipoise.confidence`.
Departures: unplayed learners come first, by the tie rule (R_i(0) = 0 is the smallest value; ties go to fewer plays,
then to the lower index), so the balancing lemma still holds; the radius has explicit constants and holds from the first
play.

>>> from equipoise.bounds import Power
>>> selector = BalancedElimination([Power(0.25), Power(0.5)])
>>> for _ in range(5):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.5)
>>> [standing.plays for standing in selector.standing()]
[4, 1]
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import ClassVar

import numpy as np

from equipoise.certificates import Certificate
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import PlainSelector
from equipoise.selectors._core.evidence import Params, State, comes_first
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.outlook import next_elimination
from equipoise.selectors._core.settings import CandidateBounds, ConfidenceSettings
from equipoise.settings import configurable


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The active learner with the smallest putative regret; ties go to fewer plays, then to the lower index."""
    chosen, least_bound, fewest_plays = -1, inf, 0
    for i in range(len(state.accounts)):
        account = state.accounts[i]
        bound, plays = account.regret_bound, account.plays
        if account.active and comes_first(bound, plays, least_bound, fewest_plays):
            chosen, least_bound, fewest_plays = i, bound, plays
    return chosen, 1.0


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward, then eliminate every learner whose bound its rewards contradict."""
    evidence.credit(params, state, i, reward, regret)
    if state.accounts[i].active:
        evidence.eliminate(state)


@configurable
class BalancedElimination(CandidateBounds, ConfidenceSettings, PlainSelector):
    """Balances candidate regret bounds and eliminates learners whose rewards contradict their bound.

    Parameters
    ----------
    bounds
        One candidate regret bound per learner.
    delta
        Failure probability of the selector's statements, in addition to that of the learners.
    reward_range
        Lowest and highest reward; with `noise`, lowest and highest expected reward. Default: as the portfolio says;
        alone (0, 1).
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius
        Form of the confidence radius: "stitched", "paper" or "bernstein" (bounded rewards only).
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    """

    name = "Balanced elimination"
    rule = (
        "The active learner plays whose candidate bound at its number of plays is smallest, so a learner with a "
        "larger bound plays less; one whose rewards contradict its bound is eliminated."
    )
    refuses_learners = ""
    kernels: ClassVar[Kernels] = Kernels(choose, credit)

    def certificate(self) -> Certificate:
        """What the rewards prove so far, and when the next elimination would come at the current means."""
        outlook = next_elimination(self.standing(), self._bounds, self.confidence.radius, self.params.width)
        return replace(super().certificate(), next_elimination=outlook)
