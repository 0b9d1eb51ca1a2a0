"""UCB1 over learners: each learner is treated as one action of a stochastic bandit.

The learner with the highest mean reward plus w sqrt(exploration ln t / (2 n)) plays. Learners improve, so their rewards
are not identically distributed and the analysis does not apply: there is no guarantee. The selector does well if
learners converge quickly, and fails if a learner is good early and poor later.

Reference: Auer, Cesa-Bianchi and Fischer (2002), "Finite-time analysis of the multiarmed bandit problem", figure 1;
Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit problems", section
2.2, for the exploration factor (their alpha).
Symbols: t the current round, n_i plays, w width of the reward range.
Departures: the exploration factor is 1 by default, the smallest in common use; UCB1 as published has 4, which gives
sqrt(2 ln t / n). Pending plays count in n and t; the mean is that of all rewards that have arrived, and a
learner without one counts as if it had earned the lowest possible reward. Ties go to fewer plays, then to the lower
index.

>>> selector = UCB1(2)
>>> for reward in (0.0, 1.0, 1.0):
...     _ = selector.credit(selector.choose(), reward)
>>> [round(index, 3) for index in selector.indices]
[0.833, 1.589]
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import comes_first, rounds_made
from equipoise.selectors._core.kernels import ArrivalState, Kernels, arrive, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors.greedy_mean import mean_reward
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, positive


class Params(NamedTuple):
    evidence: evidence.Params
    exploration: float


@kernel
def choose(params: Params, state: ArrivalState, rng: np.random.Generator) -> tuple[int, float]:
    """The learner with the highest index."""
    t = rounds_made(state.evidence) + 1
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.evidence.accounts)):
        account, loss = state.evidence.accounts[i], -index(params, state, i, t)
        if account.active and (chosen < 0 or comes_first(loss, account.plays, least, fewest)):
            chosen, least, fewest = i, loss, account.plays
    return chosen, 1.0


@kernel
def index(params: Params, state: ArrivalState, i: int, t: int) -> float:
    """Mean reward plus exploration term; inf for an unplayed learner."""
    n = state.evidence.accounts[i].plays
    if n == 0:
        return inf
    width = params.evidence.width * sqrt(params.exploration * log(t) / (2.0 * n))
    return mean_reward(params.evidence.low, state.arrivals[i]) + width


@configurable
class UCB1(KernelSelector[Params, ArrivalState, Elimination]):
    """Plays the learner with the highest upper confidence bound on its mean reward."""

    name = "UCB1"
    explanation = (
        "The learner with the highest mean reward plus an exploration term, which decreases with its plays, plays."
    )
    refuses_learners = ""
    reconfigurable = ("exploration",)
    state_type = ArrivalState
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    exploration: float = setting("Factor of ln t in the bound; 4 in the original algorithm.", positive, default=1.0)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.exploration)

    @property
    def indices(self) -> tuple[float, ...]:
        """The index of each learner; the highest one plays next."""
        t = rounds_made(self.evidence) + 1
        return tuple(index(self.params, self.kernel_state, i, t) for i in range(self.pool_size))
