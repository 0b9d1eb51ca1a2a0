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
...     selector.credit(choice, reward=0.5)
>>> [standing.plays for standing in selector.standing()]
[4, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import ClassVar

import numpy as np

from equipoise.bounds import Bound
from equipoise.kernel import kernel
from equipoise.outlook import next_elimination
from equipoise.selector import Certificate
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, check_bounds
from equipoise.selectors.evidence import Books, Rules, comes_first


@kernel
def choose(rules: Rules, books: Books, rng: np.random.Generator) -> tuple[int, float]:
    """The active learner of least putative regret; ties go to fewer plays, then to the lower index."""
    chosen, least_bound, fewest_plays = -1, inf, 0
    for i in range(len(books.accounts)):
        account = books.accounts[i]
        bound, plays = account.regret_bound, account.plays
        if account.active and comes_first(bound, plays, least_bound, fewest_plays):
            chosen, least_bound, fewest_plays = i, bound, plays
    return chosen, 1.0


@kernel
def book(rules: Rules, books: Books, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward, then drop every learner whose bound its rewards contradict."""
    evidence.book(rules, books, i, reward, regret)
    if books.accounts[i].active:
        evidence.eliminate(books)


class BalancedElimination(BookedSelector):
    """Algorithm 1 of the paper.

    `bounds` has one candidate bound per learner. `delta` is the selector's own failure probability; learners spend
    theirs separately. Rewards lie in `reward_range`; with sub-Gaussian `noise` (its factor) the range concerns
    expected rewards and a reward only has to be finite. `contexts="fixed"` says that contexts and action sets never
    change, which narrows the radius. `radius` is "stitched", "paper" or "bernstein" (narrow where rewards vary little,
    for bounded rewards only); `radius_scale` multiplies it, and below 1 voids every certificate.
    """

    name = "Balanced elimination"
    needs = frozenset({"bounds"})
    kernels: ClassVar[Kernels] = Kernels(choose, book)

    def __init__(
        self,
        bounds: Sequence[Bound],
        *,
        delta: float = 0.05,
        reward_range: tuple[float, float] = (0.0, 1.0),
        noise: float | None = None,
        contexts: str = "random",
        radius: str = "stitched",
        radius_scale: float = 1.0,
    ) -> None:
        candidates = check_bounds(bounds)
        super().__init__(
            len(candidates),
            candidates,
            delta=delta,
            reward_range=reward_range,
            noise=noise,
            contexts=contexts,
            radius=radius,
            radius_scale=radius_scale,
        )

    def certificate(self) -> Certificate:
        """What the rewards booked so far prove, and when the next learner would go at the present means."""
        outlook = next_elimination(self.standing(), self.bounds or (), self.rules.radius, self.rules.width)
        return replace(super().certificate(), next_elimination=outlook)
