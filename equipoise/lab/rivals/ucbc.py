"""UCB-C: an upper confidence bound on the median mean reward of several copies of each algorithm.

Each algorithm runs as several independent copies; when it is chosen, all of them play, one round each. The expected
reward of the algorithm is at most its mean reward plus R_i(n)/n, its regret per play, plus the deviation of the mean;
the median over the copies is much less sensitive to one unlucky copy than a single mean.

Reference: Arora, Marinov and Mohri (2021), "Corralling stochastic bandit algorithms", the UCB-C algorithm. The text of
the paper was not available, and the authors' code adds 8 sqrt(k ln t) / n, which lacks the square root of n in
R(n) = sqrt(k n ln t). So this is a variant in the style of UCB-C with the bonus R_i(n)/n + w sqrt(ln T / (2 n)), n the
plays of a copy. The authors use ceil(ln(1 + 1/delta)) copies; the default here is one.
Departures: means are those of all rewards that have arrived, and a copy without one counts with the highest possible
mean; the bonus counts all plays made. If some copies are unavailable, the others of their algorithm play; a copy that
has fewer plays than another one of its algorithm comes first.

>>> from equipoise.bounds import Power
>>> selector = UCBC([Power(1.0), Power(1.0)], rounds=100, copies=2)
>>> selector.n_learners, [selector.choose().learner for _ in range(4)]
(4, [0, 1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import ArrivalState, Kernels, arrive, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import bounded_rewards, check_bounds, decode_bounds, encode_bounds
from equipoise.selectors.greedy_mean import mean_reward
from equipoise.settings import setting
from equipoise.settings.checks import at_least_2, count


class Params(NamedTuple):
    evidence: evidence.Params
    copies: int
    log_rounds: float


@kernel
def choose(params: Params, state: ArrivalState, rng: np.random.Generator) -> tuple[int, float]:
    """The next copy of an algorithm that is being played, else the first copy of the one with the highest index."""
    n_groups, best, highest = len(state.evidence.accounts) // params.copies, -1, -inf
    for group in range(n_groups):
        first, behind, most = group * params.copies, -1, 0
        for i in range(first, first + params.copies):
            account = state.evidence.accounts[i]
            if account.active:
                if behind < 0 or account.plays < state.evidence.accounts[behind].plays:
                    behind = i
                most = max(most, account.plays)
        if behind < 0:
            continue
        if state.evidence.accounts[behind].plays < most:
            return behind, 1.0
        index = group_index(params, state, first)
        if best < 0 or index > highest:
            best, highest = behind, index
    return best, 1.0


@kernel
def group_index(params: Params, state: ArrivalState, first: int) -> float:
    """Median mean reward of the copies starting at `first`, plus the bonus; infinite while unplayed."""
    plays = state.evidence.accounts[first].plays
    if plays == 0:
        return inf
    bound = 0.0
    for i in range(first, first + params.copies):
        bound = max(bound, state.evidence.accounts[i].regret_bound)
    return (
        median_mean(params, state, first)
        + bound / plays
        + params.evidence.width * sqrt(params.log_rounds / (2.0 * plays))
    )


@kernel
def median_mean(params: Params, state: ArrivalState, first: int) -> float:
    """The upper median of the copies' mean rewards; the highest possible mean for a copy without a reward."""
    high = params.evidence.high
    for i in range(first, first + params.copies):
        mean, below, at_most = mean_reward(high, state.arrivals[i]), 0, 0
        for j in range(first, first + params.copies):
            other = mean_reward(high, state.arrivals[j])
            below += other < mean
            at_most += other <= mean
        if 2 * below <= params.copies < 2 * at_most:
            return mean
    return high


@bounded_rewards
class UCBC(KernelSelector[Params, ArrivalState, Elimination]):
    """Plays the algorithm with the highest upper confidence bound on its median mean reward.

    With `copies` > 1, learners copies * i to copies * (i + 1) - 1 of the portfolio are the copies of algorithm i:
    separate objects with equal settings.
    """

    name = "UCB-C"
    simulation_only = True
    needs = frozenset({"bounds"})
    state_type = ArrivalState
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    bounds: Sequence[Bound] = setting(
        "One candidate regret bound per algorithm.",
        partial(check_bounds, each="algorithm"),
        encode=encode_bounds,
        decode=decode_bounds,
        kw_only=False,
    )
    rounds: int = setting("Number of rounds T.", at_least_2)
    copies: int = setting("Number of copies of each algorithm.", count, default=1)

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for bound in self.bounds for _ in range(self.copies))

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, copies=self.copies, log_rounds=log(self.rounds))
