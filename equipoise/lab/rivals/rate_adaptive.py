"""Rate-adaptive selection: follow the learner with the largest sum of rewards at a common number of plays.

With probability t^(-1/3) a learner is sampled uniformly. Otherwise all learners are compared at a number of plays that
each of them has reached, so that none is at a disadvantage because it has learned from fewer plays, and the learner
with the largest sum of rewards up to that number plays.

Reference: Bibaut, Chambaz and van der Laan (2020), "Rate-adaptive model selection over a collection of black-box
contextual bandit algorithms", the master algorithm described in the abstract; it achieves the regret rate of the best
learner if each learner's bound holds with high probability.
Symbols: p_t explore, internal sample size 2^k with k `common_mark`.
Departures: the abstract does not state the schedule; p_t = t^(-1/3) is ours, so their rate is not claimed. Learners are
compared at the largest power of two that all of them have resolved, instead of at the smallest number of plays: this
needs 62 sums for each learner instead of all its rewards. While some learner has no resolved play, the learner with the
fewest plays is chosen. Ties go to fewer plays, then to the lower index.

>>> selector = RateAdaptive(2, seed=5)
>>> for _ in range(300):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.4 + 0.2 * choice.learner)
>>> [standing.plays for standing in selector.standing()]
[35, 265]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.kernels.powers import power
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import comes_first, count_active, nth_active, rounds_made
from equipoise.selectors._core.kernels import Kernels, Params, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import seed_setting
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count

N_MARKS = 62  # per learner: after 1, 2, 4, ... plays


@dataclass(slots=True)
class Mark:
    """The sum of rewards of one learner at a power-of-two number of plays."""

    rewards: float = 0.0


class State(NamedTuple):
    evidence: evidence.State
    marks: list[Mark]  # N_MARKS consecutive rows per learner


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The leading learner or, in exploration, any learner, with the probability of the one chosen."""
    n_active = count_active(state.evidence)
    leading = leader(state)
    explore, draw = (rounds_made(state.evidence) + 1) ** (-1.0 / 3.0), rng.random()
    chosen = leading
    if draw < explore:
        # Given draw < explore, draw / explore is uniform; it can round up to 1.
        chosen = nth_active(state.evidence, min(int(draw / explore * n_active), n_active - 1))
    return chosen, explore / n_active + (1.0 - explore if chosen == leading else 0.0)


@kernel
def leader(state: State) -> int:
    """The learner with the largest sum of rewards at the common mark; the one with the fewest plays before it."""
    mark = common_mark(state)
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.evidence.accounts)):
        loss = -state.marks[i * N_MARKS + mark].rewards if mark >= 0 else 0.0
        account = state.evidence.accounts[i]
        plays = account.plays
        if account.active and comes_first(loss, plays, least, fewest):
            chosen, least, fewest = i, loss, plays
    return chosen


@kernel
def common_mark(state: State) -> int:
    """The largest k such that every learner has 2^k resolved plays; -1 if there is none."""
    fewest = state.evidence.accounts[0].booked_plays
    for i in range(1, len(state.evidence.accounts)):
        fewest = min(fewest, state.evidence.accounts[i].booked_plays)
    return mark_below(fewest)


@kernel
def mark_below(plays: int) -> int:
    mark = -1
    while plays > 0:
        plays //= 2
        mark += 1
    return mark


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward; store the sum if the number of plays is a power of two."""
    evidence.credit(params.evidence, state.evidence, i, reward, regret)
    account = state.evidence.accounts[i]
    mark = mark_below(account.booked_plays)
    if account.booked_plays == power(2, mark):
        state.marks[i * N_MARKS + mark].rewards = account.rewards


def exploring_chances(state: evidence.State, explore: float, favorite: int) -> tuple[float, ...]:
    """The probability of each learner if any active one is drawn with probability `explore`, else the favorite."""
    share = explore / count_active(state)
    return tuple(share * row.active + (1.0 - explore) * (i == favorite) for i, row in enumerate(state.accounts))


@configurable
class RateAdaptive(KernelSelector[Params, State, Elimination]):
    """Follows the learner with the largest sum of rewards at equal numbers of plays."""

    name = "Rate-adaptive"
    simulation_only = True
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    seed: int = seed_setting()

    def _chances(self) -> tuple[float, ...]:
        explore = (rounds_made(self.evidence) + 1) ** (-1.0 / 3.0)
        return exploring_chances(self.evidence, explore, leader(self.kernel_state))

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Mark() for _ in range(N_MARKS * self.n_learners)])
