"""Stochastic CORRAL: a bandit rule over learners that are smoothed, so that plain rewards are enough for them.

The rule draws a learner for two rounds. In the first the learner plays its current policy and learns from its reward
as if it were alone; in the second one of the policies of its first rounds so far, each equally likely, plays again,
nobody learns, and the rule is told the reward. The expected regret of such a second round is the average of the
learner's regret so far, which falls from play to play: it is what the rule needs to know of a learner, and no learner
has to stand importance weights.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation with CORRAL or EXP3.P above it. The two steps and
the exponents of rate and floor agree with published code; the constants of the rate (1 for CORRAL) and of EXP3.P (those
of `exp3p`) could not be checked against the paper, so this is stochastic-CORRAL-style.
Symbols: s taught, the drawn policy number kept; `log_barrier` and `exp3p` have those of the two rules.
Departures: of each learner's policies one is kept, not all. The s-th is kept in place of the one before with
probability 1/s, which makes the kept number uniform on 1..s at every s, given all rewards up to the choice of the
learner: each second round has the law of the original. Second rounds of one learner are dependent, though: they repeat
a policy until it is replaced, where fresh draws would not. The expectation of every round, hence of the regret, is the
same; its variance is larger. Memory is one policy per learner, and about ln(s) copies are made in s plays.

>>> selector = StochasticCorral(2, horizon=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, first.teach, second.teach, second.snapshot
(True, True, False, 1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.selector import Choice
from equipoise.selectors import evidence
from equipoise.selectors.base import Kernels
from equipoise.selectors.drawn import DrawnSelector, at_least_two, draw, loss_of
from equipoise.selectors.evidence import (
    KEEP,
    REPLAY,
    TEACH,
    Account,
    Limits,
    Pool,
    open_books_without_bounds,
)
from equipoise.selectors.exp3p import (
    GainRules,
    gain_rules,
    open_gain_odds,
    reward_learner,
    usual_floor,
    usual_rate,
)
from equipoise.selectors.log_barrier import BarrierRules, barrier_rules, feel, open_barrier_odds
from equipoise.streams import SELECTOR, seek
from equipoise.validation import count, one_of, positive

MASTERS = ("corral", "exp3p")


@dataclass(slots=True)
class Policies:
    """Which policy of one learner is kept."""

    taught: int = 0  # first rounds made: the number of the newest policy
    kept: int = 0  # number of the kept policy


@dataclass(slots=True)
class Turn:
    """Who plays a second round next, and the probability it was drawn with; -1 and 0 if a first round is next."""

    learner: int = -1
    probability: float = 0.0


class SmoothBooks(NamedTuple):
    """The books of `evidence`, the odds of the rule, and what smoothing remembers."""

    accounts: list[Account]
    pool: list[Pool]
    odds: list[Any]
    policies: list[Policies]
    turn: list[Turn]  # one row


@kernel
def choose(rules: Limits, books: SmoothBooks, rng: np.random.Generator) -> tuple[int, float]:
    """The learner of the round and the probability it was drawn with, if in this round or in the one before."""
    turn = books.turn[0]
    if turn.learner >= 0:
        return turn.learner, turn.probability
    i = draw(books.odds, rng)
    return i, books.odds[i].probability


@kernel
def stage(rules: Limits, books: SmoothBooks, i: int, probability: float, rng: np.random.Generator) -> int:
    """Begin the round that `choose` gave to learner i: what its learner is to do in it."""
    turn, policies = books.turn[0], books.policies[i]
    if turn.learner >= 0:
        turn.learner = -1
        turn.probability = 0.0
        return REPLAY
    turn.learner = i
    turn.probability = probability
    policies.taught += 1
    if rng.random() * policies.taught < 1.0:
        policies.kept = policies.taught
        return KEEP
    return TEACH


# A first round is booked with probability 0: the rule learns from second rounds only.


@kernel
def book_corral(
    rules: BarrierRules, books: SmoothBooks, i: int, reward: float, regret: float, probability: float
) -> None:
    evidence.book(rules, books, i, reward, regret)
    if probability > 0.0:
        feel(rules, books.odds, i, loss_of(rules, reward), probability)


@kernel
def book_exp3p(rules: GainRules, books: SmoothBooks, i: int, reward: float, regret: float, probability: float) -> None:
    evidence.book(rules, books, i, reward, regret)
    if probability > 0.0:
        reward_learner(rules, books.odds, i, 1.0 - loss_of(rules, reward), probability)


BOOKING: dict[str, Callable[..., None]] = {"corral": book_corral, "exp3p": book_exp3p}


class StochasticCorral(DrawnSelector):
    """CORRAL or EXP3.P (`master`) over smoothed learners, whose policies can be kept, for `horizon` rounds.

    Rewards must lie in `reward_range`. Two rounds make one of the rule, so T = horizon / 2: `eta` is its learning rate,
    sqrt(M / T) or 0.95 sqrt(ln M / (M T)) unless given, `floor` the least probability under EXP3.P, T^(-1/3) M^(-2/3)
    unless given. `delta` and `contexts` concern the certificate alone; `seed` is that of the selector's own random
    stream, used where `choose` is given none.
    """

    name = "Stochastic corral"
    needs = frozenset({"snapshots"})
    own_settings = ("master", "eta", "floor")

    def __init__(
        self,
        n_learners: int,
        *,
        horizon: int,
        master: str = "corral",
        reward_range: tuple[float, float] = (0.0, 1.0),
        eta: float | None = None,
        floor: float | None = None,
        delta: float = 0.05,
        contexts: str = "random",
        seed: int = 0,
    ) -> None:
        self.master = one_of("master", master, MASTERS)
        self.turns = max(count("horizon", horizon, least=2) // 2, 2)
        rule_is_corral, learners = self.master == "corral", at_least_two(n_learners)
        usual = sqrt(learners / self.turns) if rule_is_corral else usual_rate(learners, self.turns)
        self.eta = positive("eta", usual if eta is None else eta)
        if rule_is_corral and floor is not None:
            raise InvalidArgument(f"floor is {floor!r}, but only master='exp3p' has one")
        self.floor = None if rule_is_corral else self._check_floor(learners, floor)
        self.kernels = Kernels(choose, BOOKING[self.master], stage=stage)  # type: ignore[misc]  # the rule is a setting
        self._kept_before = (-1, 0, 0)  # learner and play of the newest first round, and what was kept before it
        super().__init__(
            n_learners, horizon=horizon, reward_range=reward_range, delta=delta, contexts=contexts, seed=seed
        )

    def _check_floor(self, n_learners: int, floor: float | None) -> float:
        number = positive("floor", usual_floor(n_learners, self.turns) if floor is None else floor)
        if number * n_learners > 1.0:
            raise InvalidArgument(f"floor is {floor!r}, but must be at most 1 / n_learners = {1 / n_learners:g}")
        return number

    @property
    def params(self) -> BarrierRules | GainRules:
        if self.floor is None:
            return barrier_rules(self.rules, self.turns)
        return gain_rules(self.rules, self.eta, self.floor)

    def _open_books(self) -> SmoothBooks:
        corral = self.master == "corral"
        odds = open_barrier_odds(self.n_learners, self.eta) if corral else open_gain_odds(self.n_learners)
        policies = [Policies() for _ in range(self.n_learners)]
        books = open_books_without_bounds(self.n_learners, self.rules.width)
        return SmoothBooks(books.accounts, books.pool, odds, policies, [Turn()])

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """The learner that plays this round, and with which policy; opens a play."""
        self._ledger.settle()
        if rng is None:
            seek(self._stream, SELECTOR, self._draws)
            rng = self._stream.generator
        learner, chance = self._pick(rng)
        policies = self.books.policies[learner]
        kept = policies.kept
        again = stage(self.params, self.books, learner, chance, rng) == REPLAY
        self._draws += 1
        play = self._ledger.open(learner, chance if again else 0.0)
        if again:
            return Choice(learner, play, 1.0, snapshot=policies.kept, teach=False)
        self._kept_before = (learner, play, kept)
        return Choice(learner, play, chance)

    def keeps(self, choice: Choice) -> int | None:
        """The number under which the policy that plays this choice, the newest, is to be kept; None if it is not."""
        policies = self.books.policies[choice.learner]
        return int(policies.kept) if choice.teach and policies.kept == policies.taught else None

    def withdraw(self, choice: Choice) -> None:
        """The round did not happen: strike its play. If it was the newest, everything is as before it."""
        chance = self._ledger.entry(choice.learner, choice.play).probability
        if not self._ledger.withdraw(choice.learner, choice.play):
            return
        self._draws -= 1
        turn, policies = self.books.turn[0], self.books.policies[choice.learner]
        if chance > 0.0:
            turn.learner, turn.probability = choice.learner, chance
            return
        turn.learner, turn.probability = -1, 0.0
        policies.taught -= 1
        if self._kept_before[:2] == (choice.learner, choice.play):
            policies.kept = self._kept_before[2]
