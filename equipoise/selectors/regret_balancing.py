"""Regret balancing: play the learner whose empirical regret against an optimistic value is least.

If a learner keeps its bound, its mean reward plus its bound per play is about the best expected reward or more. The
largest such value over learners stands for the optimum; what a learner's rewards lack to it is its empirical regret.
Playing the learner of least empirical regret keeps all of them level. Nobody is dropped, and nothing is concluded from
a bound that turns out false.

Reference: Abbasi-Yadkori, Pacchiano and Phan (2020), "Regret balancing for bandit and RL model selection", the regret
balancing strategy.
Symbols: n_i plays, U_i rewards, R_i booked_bound, v optimistic, g_i empirical regret.
Guarantee of the reference: regret of the order of the best learner's, if the bound given for it is true and tight; the
selection needs that bound. Nothing is proved where bounds are false.
Departures: the reference has one bound, that of the best learner; here each learner may have its own, so give the same
one to all for the original. A bound is taken at the learner's own plays. Values are at resolved prefixes, and a pending
play counts the full width as empirical regret. Ties go to fewer plays, then to the lower index.

>>> from equipoise.bounds import Power
>>> selector = RegretBalancing([Power(1.0), Power(1.0)])
>>> for _ in range(100):
...     choice = selector.choose()
...     selector.credit(choice, reward=0.4 + 0.2 * choice.learner)
>>> [standing.plays for standing in selector.standing()]
[27, 73]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar, Unpack

import numpy as np

from equipoise.bounds import Bound
from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings, check_bounds
from equipoise.selectors.evidence import Books, Rules, comes_first


@kernel
def choose(rules: Rules, books: Books, rng: np.random.Generator) -> tuple[int, float]:
    """An unplayed learner, else the one of least empirical regret."""
    optimistic = optimistic_value(rules, books)
    chosen, least, fewest = -1, inf, 0
    for i in range(len(books.accounts)):
        plays = books.accounts[i].plays
        regret = empirical_regret(rules, books, i, optimistic) if plays > 0 else -inf
        if chosen < 0 or comes_first(regret, plays, least, fewest):
            chosen, least, fewest = i, regret, plays
    return chosen, 1.0


@kernel
def optimistic_value(rules: Rules, books: Books) -> float:
    """What the optimum may be; the least possible reward while nothing is resolved."""
    value = rules.low
    for j in range(len(books.accounts)):
        account = books.accounts[j]
        if account.booked_plays > 0:
            value = max(value, (account.rewards + account.booked_bound) / account.booked_plays)
    return value


@kernel
def empirical_regret(rules: Rules, books: Books, i: int, optimistic: float) -> float:
    """A total: what the rewards of learner i lack to the optimistic value, and the full width of pending plays."""
    account = books.accounts[i]
    n = account.booked_plays
    return n * optimistic - account.rewards + rules.width * (account.plays - n)


class RegretBalancing(BookedSelector):
    """Balances empirical regrets. `bounds` has one bound per learner; the other settings are those of
    `BalancedElimination`."""

    name = "Regret balancing"
    needs = frozenset({"bounds"})
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.book_only)

    def __init__(self, bounds: Sequence[Bound], **settings: Unpack[Settings]) -> None:
        candidates = check_bounds(bounds)
        super().__init__(len(candidates), candidates, **settings)

    @property
    def empirical_regrets(self) -> tuple[float, ...]:
        """Of each learner; totals."""
        optimistic = optimistic_value(self.rules, self.books)
        return tuple(empirical_regret(self.rules, self.books, i, optimistic) for i in range(self.n_learners))
