"""Estimating data-driven regret balancing (ED2RB): no candidate bounds; a learner's regret coefficient is estimated.

After each of its plays a learner's coefficient is set to the regret against the best learner that its rewards prove,
divided by sqrt(n), and at least to d_min. The learner with the smallest potential, coefficient times sqrt(n), plays; a
potential never decreases and at most doubles in one step. Unlike in D3RB, coefficients can decrease, so a learner that
starts slowly and ends best recovers.

Reference: Pacchiano, Dann and Gentile (2023), "Data-driven online model selection with regret guarantees", Algorithm 2.
Symbols: n_i plays, u_i rewards, dhat_i coefficient, phi_i potential, M n_learners; the printed
c sqrt(n ln(M ln n/delta)) is `radius_sum` of `equipoise.confidence`.
Guarantee of the reference, with probability 1 - delta: regret of order d M sqrt(T) + d^2 sqrt(M T) up to logarithms, d
the final coefficient of the best learner rather than its largest.
Departures: those of D3RB; a potential grows with the square root of the number of pending plays.

>>> selector = ED2RB(2)
>>> for _ in range(400):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=float(choice.learner))
>>> [standing.plays for standing in selector.standing()]
[56, 344]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import best_mean_lower, comes_first
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors.d3rb import coefficients_of, d_min_setting
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


class Params(NamedTuple):
    evidence: evidence.Params
    min_coefficient: float


@dataclass(slots=True)
class Balance:
    """What is balanced for one learner."""

    coefficient: float
    potential: float


class State(NamedTuple):
    evidence: evidence.State
    balances: list[Balance]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The learner with the smallest potential."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.evidence.accounts)):
        account, potential = state.evidence.accounts[i], state.balances[i].potential
        plays, booked_plays = account.plays, max(account.booked_plays, 1)
        if plays > booked_plays:
            potential *= sqrt(plays / booked_plays)
        if account.active and comes_first(potential, plays, least, fewest):
            chosen, least, fewest = i, potential, plays
    return chosen, 1.0


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward; estimate the coefficient of learner i again and update its potential."""
    evidence.credit(params.evidence, state.evidence, i, reward, regret)
    account, balance = state.evidence.accounts[i], state.balances[i]
    n = account.booked_plays
    proved_regret = n * best_mean_lower(state.evidence) - account.rewards - radius_sum(params.evidence.radius, n)
    balance.coefficient = max(params.min_coefficient, proved_regret / sqrt(n))
    balance.potential = min(max(balance.coefficient * sqrt(n), balance.potential), 2.0 * balance.potential)


@configurable
class ED2RB(KernelSelector[Params, State, Elimination]):
    """Balances regret coefficients that are estimated from the rewards."""

    name = "ED2RB"
    explanation = (
        "The learner plays whose potential is smallest: the regret that its rewards prove, or a small multiple of "
        "the square root of its plays if that is larger."
    )
    refuses_learners = ""
    state_type = State
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    d_min: float = d_min_setting()

    coefficients = property(coefficients_of)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.d_min * limits.width)

    def _make_row(self) -> Balance:
        return Balance(self.params.min_coefficient, self.params.min_coefficient)
