"""Regret bound balancing with elimination.

Every learner i comes with a candidate regret bound R_i, a claim that may be false. The selector plays the active
learner whose bound at its own number of plays is smallest, which keeps the putative regrets of all active learners
level, and drops a learner once its rewards contradict its bound. The total regret is then close to that of the best
learner whose bound was true, without knowing which that is.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1.
Symbols: n_i plays, U_i rewards, R_i regret_bound, I_t active, M n_learners, delta; the paper's c sqrt(n ln(M ln
n/delta)) is `radius_sum` of `equipoise.confidence`.
Departures: unplayed learners come first, which is the tie rule (R_i(0) = 0 is least; ties go to fewer plays, then to
the lower index), so the balancing lemma is untouched; the radius has explicit constants and holds from the first play.

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
    """The active learner of least putative regret; ties go to fewer plays, then to the lower index."""
    chosen, least_bound, fewest_plays = -1, inf, 0
    for i in range(len(state.accounts)):
        account = state.accounts[i]
        bound, plays = account.regret_bound, account.plays
        if account.active and comes_first(bound, plays, least_bound, fewest_plays):
            chosen, least_bound, fewest_plays = i, bound, plays
    return chosen, 1.0


@kernel
def book(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward, then drop every learner whose bound its rewards contradict."""
    evidence.book(params, state, i, reward, regret)
    if state.accounts[i].active:
        evidence.eliminate(state)


@configurable
class BalancedElimination(CandidateBounds, ConfidenceSettings, PlainSelector):
    """Algorithm 1 of the paper.

    `bounds` has one candidate bound per learner. `delta` is the selector's own failure probability; learners spend
    theirs separately. Rewards lie in `reward_range`; with sub-Gaussian `noise` (its factor) the range concerns
    expected rewards and a reward only has to be finite. `contexts="fixed"` says that contexts and action sets never
    change, which narrows the radius. `radius` is "stitched", "paper" or "bernstein" (narrow where rewards vary little,
    for bounded rewards only); `radius_scale` multiplies it, and below 1 voids every certificate.
    """

    name = "Balanced elimination"
    kernels: ClassVar[Kernels] = Kernels(choose, book)

    def certificate(self) -> Certificate:
        """What the rewards booked so far prove, and when the next learner would go at the present means."""
        outlook = next_elimination(self.standing(), self.bounds, self.confidence.radius, self.params.width)
        return replace(super().certificate(), next_elimination=outlook)
