"""UCB-C: the learner whose median mean reward, with all that its bound and chance leave open, is highest.

Each algorithm stands as several independent copies that all play when it is chosen, one round each. What an algorithm
can earn is at most its mean reward plus R_i(n)/n, what it lost while learning, plus the deviation of a mean; the median
over the copies is far less likely to be misled by one unlucky copy than any single mean.

Reference: Arora, Marinov and Mohri (2021), "Corralling stochastic bandit algorithms", the UCB-C algorithm. The paper's
text could not be consulted and the authors' code adds 8 sqrt(k ln t) / n, which lacks the root of n that R(n) = sqrt(k
n ln t) has; so this is UCB-C-style with the bonus written out: R_i(n)/n + w sqrt(ln T / (2 n)), n the plays of a copy.
The authors take ceil(ln(1 + 1/delta)) copies; here one unless told otherwise.
Departures: while no reward of a copy is in, its mean counts as the greatest possible; the bonus counts all plays made.

>>> from equipoise.bounds import Power
>>> selector = UCBC([Power(1.0), Power(1.0)], rounds=100, copies=2)
>>> selector.n_learners, [selector.choose().learner for _ in range(4)]
(4, [0, 1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound
from equipoise.kernels.marks import kernel
from equipoise.selector import SelectorTraits
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.nested import State
from equipoise.selectors._core.settings import (
    CandidateBounds,
    CertificateSettings,
    check_bounds,
    decode_bounds,
    encode_bounds,
)
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


class Params(NamedTuple):
    evidence: evidence.Params
    copies: int
    log_rounds: float


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The next copy of the algorithm whose turn it is, else the first copy of that with the highest index."""
    n_groups, best, highest = len(state.evidence.accounts) // params.copies, 0, -inf
    for group in range(n_groups):
        first = group * params.copies
        for i in range(first + 1, first + params.copies):
            if state.evidence.accounts[i].plays < state.evidence.accounts[first].plays:
                return i, 1.0
        index = group_index(params, state, first)
        if index > highest:
            best, highest = first, index
    return best, 1.0


@kernel
def group_index(params: Params, state: State, first: int) -> float:
    """Median mean reward of the copies from `first` on, plus the bonus; infinite while unplayed."""
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
def median_mean(params: Params, state: State, first: int) -> float:
    """The upper median of the copies' mean rewards."""
    for i in range(first, first + params.copies):
        mean, below, at_most = mean_reward(params, state, i), 0, 0
        for j in range(first, first + params.copies):
            other = mean_reward(params, state, j)
            below += other < mean
            at_most += other <= mean
        if 2 * below <= params.copies < 2 * at_most:
            return mean
    return params.evidence.high


@kernel
def mean_reward(params: Params, state: State, i: int) -> float:
    account = state.evidence.accounts[i]
    return account.rewards / account.booked_plays if account.booked_plays > 0 else params.evidence.high


@configurable
class UCBC(CandidateBounds, CertificateSettings, EvidenceSelector[Params, State]):
    """Plays the algorithm with the highest upper confidence bound on its median mean reward.

    With `copies` > 1, learners copies * i to copies * (i + 1) - 1 of the portfolio are the copies of algorithm i:
    separate objects with equal settings.

    Parameters
    ----------
    bounds
        One candidate regret bound per algorithm.
    delta
        Failure probability of the certificate; it does not affect choices.
    reward_range
        Lowest and highest reward.
    contexts
        "fixed" if contexts and action sets never change, else "random"; only for the certificate.
    rounds
        Number of rounds T.
    copies
        Number of copies of each algorithm.
    """

    name = "UCB-C"
    kernels: ClassVar[Kernels] = nested_kernels(choose)

    bounds: Sequence[Bound] = setting(
        check=partial(check_bounds, each="algorithm"), encode=encode_bounds, decode=decode_bounds, kw_only=False
    )
    rounds: int = setting(check=partial(count, least=2), deprecated="horizon")
    copies: int = setting(default=1, check=count)

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for bound in self.bounds for _ in range(self.copies))

    @property
    def traits(self) -> SelectorTraits:
        return replace(super().traits, copies=self.copies)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, copies=self.copies, log_rounds=log(self.rounds))

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts)
