"""Doubling data-driven regret balancing (D3RB): no candidate bounds; a learner's regret coefficient is doubled when
its rewards disprove it.

Every learner is presumed to have regret d_i sqrt(n), with d_i as small as d_min at first. The learner of least presumed
regret plays. If even with d_i sqrt(n) added its rewards fall short of what another learner has proved possible, d_i is
doubled. So learners share the rounds in inverse proportion to their squared coefficients, and nobody is dropped for
ever.

Reference: Pacchiano, Dann and Gentile (2023), "Data-driven online model selection with regret guarantees", Algorithm 1.
Symbols: n_i plays, u_i rewards, dhat_i coefficient, phi_i = dhat_i sqrt(n_i), M n_learners; the printed
c sqrt(n ln(M ln n/delta)) is `radius_sum` of `equipoise.confidence`.
Guarantee of the reference, with probability 1 - delta: regret of order d M sqrt(T) + d^2 sqrt(M T) up to logarithms, d
the largest coefficient Reg_*(n)/sqrt(n) that the best learner * ever realised, at least d_min.
Departures: the radius has explicit constants and holds from the first play; d_min counts in units of the width of the
reward range; pending plays count in n_i when learners are chosen, and rewards are tested at resolved prefixes of plays.
Ties go to fewer plays, then to the lower index.

>>> selector = D3RB(2)
>>> for _ in range(400):
...     choice = selector.choose()
...     selector.credit(choice, reward=float(choice.learner))
>>> selector.coefficients, [standing.plays for standing in selector.standing()]
((4.0, 1.0), [50, 350])
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from equipoise.confidence import radius_sum
from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings
from equipoise.selectors.evidence import Account, Pool, Rules, comes_first, greatest_lower
from equipoise.validation import positive


@dataclass(slots=True)
class Presumption:
    """That the regret of a learner is at most coefficient * sqrt(plays)."""

    coefficient: float


class PresumptionBooks(NamedTuple):
    """The books of `evidence` and what is presumed of each learner."""

    accounts: list[Account]
    pool: list[Pool]  # one row
    presumptions: list[Presumption]


@kernel
def choose(rules: Rules, books: PresumptionBooks, rng: np.random.Generator) -> tuple[int, float]:
    """The learner of least presumed regret."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(books.accounts)):
        plays = books.accounts[i].plays
        # An unplayed learner starts at its coefficient, as after one play; the tie goes to it.
        potential = books.presumptions[i].coefficient * sqrt(max(plays, 1))
        if comes_first(potential, plays, least, fewest):
            chosen, least, fewest = i, potential, plays
    return chosen, 1.0


@kernel
def book(rules: Rules, books: PresumptionBooks, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward; if what is presumed of learner i cannot be true, double it."""
    evidence.book(rules, books, i, reward, regret)
    account, presumption = books.accounts[i], books.presumptions[i]
    n = account.booked_plays
    regret_bound, radius = presumption.coefficient * sqrt(n), radius_sum(rules.radius, n)
    if (account.rewards + regret_bound + radius) / n < greatest_lower(books):
        presumption.coefficient *= 2.0


class D3RB(BookedSelector):
    """Balances coefficients that double. `d_min` is the smallest coefficient, in units of the width of the reward
    range; the other settings are those of `BalancedElimination`."""

    name = "D3RB"
    kernels: ClassVar[Kernels] = Kernels(choose, book)

    def __init__(self, n_learners: int, *, d_min: float = 1.0, **settings: Unpack[Settings]) -> None:
        self.d_min = positive("d_min", d_min)
        super().__init__(n_learners, None, **settings)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """What is presumed of each learner now, in units of the width."""
        return tuple(presumption.coefficient / self.rules.width for presumption in self.books.presumptions)

    def _open_books(self) -> PresumptionBooks:
        least = self.d_min * self.rules.width
        accounts, pool = super()._open_books()
        return PresumptionBooks(accounts, pool, [Presumption(least) for _ in range(self.n_learners)])

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {**super().config(), "d_min": self.d_min}
