"""Estimating data-driven regret balancing (ED2RB): no candidate bounds; a learner's regret coefficient is estimated.

After each of its plays a learner's coefficient is set to what its rewards prove that it has lost against the best
learner, per sqrt(n), or to d_min if that is more. The learner of least potential, coefficient times sqrt(n), plays; a
potential never falls and at most doubles at a time. Unlike those of D3RB, coefficients may come down again, so a
learner that starts slow and ends best is forgiven.

Reference: Pacchiano, Dann and Gentile (2023), "Data-driven online model selection with regret guarantees", Algorithm 2.
Symbols: n_i plays, u_i rewards, dhat_i coefficient, phi_i potential, M n_learners; the printed
c sqrt(n ln(M ln n/delta)) is `radius_sum` of `equipoise.confidence`.
Guarantee of the reference, with probability 1 - delta: regret of order d M sqrt(T) + d^2 sqrt(M T) up to logarithms, d
the coefficient of the best learner as it is in the end rather than the largest it ever was.
Departures: those of D3RB; a potential grows with the square root of the number of pending plays.

>>> selector = ED2RB(2)
>>> for _ in range(400):
...     choice = selector.choose()
...     selector.credit(choice, reward=float(choice.learner))
>>> [standing.plays for standing in selector.standing()]
[53, 347]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from equipoise.confidence import Radius, radius_sum
from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings
from equipoise.selectors.evidence import Account, Pool, comes_first, greatest_lower
from equipoise.validation import positive


class FloorRules(NamedTuple):
    """`evidence.Rules` and the smallest coefficient."""

    radius: Radius
    low: float
    high: float
    width: float
    least_coefficient: float


@dataclass(slots=True)
class Balance:
    """How a learner stands in the balance."""

    coefficient: float
    potential: float


class BalanceBooks(NamedTuple):
    """The books of `evidence` and the balance."""

    accounts: list[Account]
    pool: list[Pool]  # one row
    balances: list[Balance]


@kernel
def choose(rules: FloorRules, books: BalanceBooks, rng: np.random.Generator) -> tuple[int, float]:
    """The learner of least potential."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(books.accounts)):
        plays, potential = books.accounts[i].plays, books.balances[i].potential
        booked_plays = max(books.accounts[i].booked_plays, 1)
        if plays > booked_plays:
            potential *= sqrt(plays / booked_plays)
        if comes_first(potential, plays, least, fewest):
            chosen, least, fewest = i, potential, plays
    return chosen, 1.0


@kernel
def book(rules: FloorRules, books: BalanceBooks, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward; estimate the coefficient of learner i anew and let its potential follow."""
    evidence.book(rules, books, i, reward, regret)
    account, balance = books.accounts[i], books.balances[i]
    n = account.booked_plays
    proved_regret = n * greatest_lower(books) - account.rewards - radius_sum(rules.radius, n)
    balance.coefficient = max(rules.least_coefficient, proved_regret / sqrt(n))
    balance.potential = min(max(balance.coefficient * sqrt(n), balance.potential), 2.0 * balance.potential)


class ED2RB(BookedSelector):
    """Balances estimated coefficients. `d_min` is the smallest coefficient, in units of the width of the reward range;
    the other settings are those of `BalancedElimination`."""

    name = "ED2RB"
    kernels: ClassVar[Kernels] = Kernels(choose, book)

    def __init__(self, n_learners: int, *, d_min: float = 1.0, **settings: Unpack[Settings]) -> None:
        self.d_min = positive("d_min", d_min)
        super().__init__(n_learners, None, **settings)

    @property
    def params(self) -> FloorRules:
        return FloorRules(*self.rules, self.d_min * self.rules.width)

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The estimate for each learner, in units of the width."""
        return tuple(balance.coefficient / self.rules.width for balance in self.books.balances)

    def _open_books(self) -> BalanceBooks:
        least = self.d_min * self.rules.width
        accounts, pool = super()._open_books()
        return BalanceBooks(accounts, pool, [Balance(least, least) for _ in range(self.n_learners)])

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {**super().config(), "d_min": self.d_min}
