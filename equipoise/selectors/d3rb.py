"""Doubling data-driven regret balancing (D3RB): no candidate bounds; a regret coefficient is doubled when the rewards
contradict it.

Every learner is presumed to have regret d_i sqrt(n), where d_i starts at d_min. The learner with the smallest presumed
regret plays. If its rewards plus d_i sqrt(n) are still below what another learner has proved possible, d_i is doubled.
Learners therefore share the rounds in inverse proportion to their squared coefficients, and none is eliminated.

Reference: Pacchiano, Dann and Gentile (2023), "Data-driven online model selection with regret guarantees", Algorithm 1.
Symbols: n_i plays, u_i rewards, dhat_i coefficient, phi_i = dhat_i sqrt(n_i), M n_learners; the printed
c sqrt(n ln(M ln n/delta)) is `radius_sum` of `equipoise.confidence`.
Guarantee, proved with explicit constants in `equipoise.theory.doubling`, for prompt rewards, one law, and learners that
can all be chosen in every round: with probability 1 - delta, at all T at once, regret of order d M sqrt(T) +
(d^2/d_min) sqrt(M T) up to logarithms and for rewards of width 1, d the largest coefficient Reg_*(n)/sqrt(n) of any one
learner * at any n, at least d_min.
Departures: the radius has explicit constants and holds from the first play; d_min is in units of the width of the
reward range; pending plays count in n_i when learners are chosen, and rewards are tested at resolved prefixes of plays.
Ties go to fewer plays, then to the lower index.

>>> selector = D3RB(2)
>>> for _ in range(400):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=float(choice.learner))
>>> selector.coefficients, [standing.plays for standing in selector.standing()]
((4.0, 1.0), [54, 346])
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import best_mean_lower, comes_first
from equipoise.selectors._core.kernels import Kernels, Params, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, positive


@dataclass(slots=True)
class Presumption:
    """The presumed regret of a learner is coefficient * sqrt(plays)."""

    coefficient: float


class State(NamedTuple):
    evidence: evidence.State
    presumptions: list[Presumption]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The learner with the smallest presumed regret."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.evidence.accounts)):
        account = state.evidence.accounts[i]
        plays = account.plays
        # An unplayed learner counts as if it had one play; ties go to it.
        potential = state.presumptions[i].coefficient * sqrt(max(plays, 1))
        if account.active and comes_first(potential, plays, least, fewest):
            chosen, least, fewest = i, potential, plays
    return chosen, 1.0


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward; if the rewards of learner i contradict its presumed regret, double the coefficient."""
    evidence.credit(params.evidence, state.evidence, i, reward, regret)
    account, presumption = state.evidence.accounts[i], state.presumptions[i]
    n = account.booked_plays
    regret_bound, radius = presumption.coefficient * sqrt(n), radius_sum(params.evidence.radius, n)
    if (account.rewards + regret_bound + radius) / n < best_mean_lower(state.evidence):
        presumption.coefficient *= 2.0


def coefficients_of(selector: KernelSelector[Any, Any, Any]) -> tuple[float, ...]:
    """Return the current coefficient of each learner, in units of the width of the reward range."""
    return tuple(row.coefficient / selector.params.evidence.width for row in selector.kernel_state[1])


def d_min_setting() -> Any:
    return setting("Smallest regret coefficient, in units of the width of the reward range.", positive, default=1.0)


@configurable
class D3RB(KernelSelector[Params, State, Elimination]):
    """Balances regret coefficients that are doubled when the rewards contradict them."""

    name = "D3RB"
    explanation = (
        "The learner plays whose presumed regret, its coefficient times the square root of its plays, is "
        "smallest; the coefficient is doubled when its rewards contradict it, and the learner plays less."
    )
    refuses_learners = ""
    state_type = State
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    d_min: float = d_min_setting()

    coefficients = property(coefficients_of)

    def _make_row(self) -> Presumption:
        return Presumption(self.d_min * self.params.evidence.width)
