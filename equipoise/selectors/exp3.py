"""EXP3 over learners: each learner is drawn with a probability that falls exponentially with its estimated losses.

The loss of the chosen learner, divided by the probability of choosing it, is an unbiased estimate of what every
learner would have lost in that round, if it had played. For fixed actions that bounds the regret against the best of
them, whatever the rewards. Learners, however, learn only when played: the guarantee is against the rewards they would
have earned as they stood, and says nothing about the regret of the best learner alone.

Reference: Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit
problems", figure 3.1 and theorem 3.1 (after Auer, Cesa-Bianchi, Freund and Schapire 2002, without forced exploration).
Symbols: K n_learners, n horizon, eta rate, loss (high - reward)/w, Ltilde loss_sum.
Both rates of the theorem are offered: eta = sqrt(2 ln K/(n K)) where the horizon is given, pseudo-regret at most
w sqrt(2 n K ln K); else eta_t = sqrt(ln K/(t K)), at most 2 w sqrt(n K ln K).
Departures: a loss is booked once all earlier plays of its learner are resolved, with the probability of its own round;
pending plays count in t.

>>> selector = EXP3(2, seed=4)
>>> selector.credit(selector.choose(), 0.0)
>>> [round(probability, 3) for probability in selector.probabilities]
[0.697, 0.303]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np

from equipoise.confidence import Radius
from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels, Settings
from equipoise.selectors.evidence import Account, Pool, add, rounds_made
from equipoise.validation import count


class RateRules(NamedTuple):
    """`evidence.Rules` and the horizon, 0 where it is unknown."""

    radius: Radius
    low: float
    high: float
    width: float
    horizon: int


@dataclass(slots=True)
class Estimate:
    """What a learner would have lost in all resolved rounds: an unbiased estimate, as a compensated sum."""

    loss_sum: float = 0.0
    loss_carry: float = 0.0


class LossBooks(NamedTuple):
    """The books of `evidence` and the estimated losses."""

    accounts: list[Account]
    pool: list[Pool]  # one row
    estimates: list[Estimate]


@kernel
def choose(rules: RateRules, books: LossBooks, rng: np.random.Generator) -> tuple[int, float]:
    """A learner drawn with probability proportional to its weight."""
    eta, least = rate(rules, books), least_loss(books)
    total, chosen = 0.0, 0
    for i in range(len(books.estimates)):
        total += weight(books, i, eta, least)
        if books.estimates[i].loss_sum == least:
            chosen = i  # should rounding leave a rest beyond the last learner
    left, drawn = rng.random() * total, False
    for i in range(len(books.estimates)):
        share = weight(books, i, eta, least)
        if not drawn and left < share:
            chosen, drawn = i, True
        left -= share
    return chosen, weight(books, chosen, eta, least) / total


@kernel
def rate(rules: RateRules, books: LossBooks) -> float:
    n_learners = len(books.estimates)
    if rules.horizon > 0:
        return sqrt(2.0 * log(n_learners) / (n_learners * rules.horizon))
    return sqrt(log(n_learners) / (n_learners * (rounds_made(books) + 1.0)))


@kernel
def least_loss(books: LossBooks) -> float:
    least = inf
    for i in range(len(books.estimates)):
        least = min(least, books.estimates[i].loss_sum)
    return least


@kernel
def weight(books: LossBooks, i: int, eta: float, least: float) -> float:
    """Relative to the best learner, whose weight is 1, so that nothing overflows."""
    return exp(-eta * (books.estimates[i].loss_sum - least))


@kernel
def book(rules: RateRules, books: LossBooks, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward and the estimate of the loss that it gives."""
    evidence.book(rules, books, i, reward, regret)
    estimate, loss = books.estimates[i], (rules.high - reward) / rules.width
    estimate.loss_sum, estimate.loss_carry = add(estimate.loss_sum, estimate.loss_carry, loss / probability)


class EXP3(BookedSelector):
    """Draws learners by exponential weights. `horizon` is the number of rounds, where it is known. `seed` is that of
    the selector's own random stream, used where `choose` is given none; the other settings are those of
    `BalancedElimination`."""

    name = "EXP3"
    randomized = True
    kernels: ClassVar[Kernels] = Kernels(choose, book)

    def __init__(
        self, n_learners: int, *, horizon: int | None = None, seed: int = 0, **settings: Unpack[Settings]
    ) -> None:
        self.horizon = None if horizon is None else count("horizon", horizon)
        super().__init__(n_learners, None, seed=seed, **settings)

    @property
    def params(self) -> RateRules:
        return RateRules(*self.rules, self.horizon or 0)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """With which each learner is drawn next."""
        eta, least = rate(self.params, self.books), least_loss(self.books)
        weights = [weight(self.books, i, eta, least) for i in range(self.n_learners)]
        return tuple(share / sum(weights) for share in weights)

    def _open_books(self) -> LossBooks:
        accounts, pool = super()._open_books()
        return LossBooks(accounts, pool, [Estimate() for _ in range(self.n_learners)])

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {**super().config(), "horizon": self.horizon}
