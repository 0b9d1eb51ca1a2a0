"""CORRAL: learners are the arms of an adversarial bandit and learn from importance-weighted rewards.

In every round one learner is sampled. Its loss divided by its probability is an unbiased estimate of its loss if it
always played, and mirror descent with the log barrier updates the probabilities. Every learner learns from every round:
the sampled one with weight 1/probability, the others with weight 0, so that each faces, in expectation, the problem it
would face alone. The regret is then of the order of the best learner's under such feedback, which is why learners must
accept importance weights.

A step replaces the weights p by the minimizer p' of <loss, p'> plus the Bregman divergence of sum_i -ln(p_i) / eta_i:
1/p'_i = 1/p_i + eta_i (loss_i - lam), with lam such that the new weights add up to 1. A learner is sampled with
probability pbar, a mixture of the weights and, with share gamma, uniform probabilities. When 1/pbar_i exceeds its
ceiling rho_i, the ceiling is set to 2/pbar_i and the rate of i is multiplied by beta = exp(1/ln T), which compensates
for the larger regret of a learner that is rarely played.

Reference: Agarwal, Luo, Neyshabur and Schapire (2017), "Corralling a band of bandit algorithms", algorithm 1 and
theorem 4; algorithm 2 (Log-Barrier-OMD) is `descend`.
Departures: learners get the reward and the weight separately, not their product, so that a regression can weight its
squared error; the default of `eta` is sqrt(M / T), the theorem's choice without its term 1 / (40 R ln T), because the
regret bound R of the best learner is unknown. A late reward is divided by the probability of its own choice and updates
the probabilities that hold when it is credited.
Symbols: p weight, pbar probability, eta rate, rho ceiling, gamma mixing, beta growth.
The ceiling at least doubles with each increase and pbar_i >= gamma / M = 1 / (T M), so a rate increases at most log2(T)
times, in total at most by the factor exp(1 / ln 2) < 4.24.
The equation for lam: the sum of new weights is increasing and convex in lam. At the smallest lam for which some new
weight is 1, or at the largest loss if that is smaller, the sum is at least 1; Newton's method started there decreases
monotonically to the root for any losses. A final normalization removes the rounding error.

>>> selector = Corral(2, rounds=1000)
>>> for _ in range(100):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=float(choice.learner))
>>> selector.choice_probabilities()[1] > 0.7
True
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import bounded_rewards, seed_setting
from equipoise.settings import optional, setting
from equipoise.settings.checks import at_least_2, positive

MAX_STEPS = 200
TOLERANCE = 1e-15


class HasProbability(Protocol):
    """A row with the probability of its learner."""

    probability: float


Row = TypeVar("Row", bound=HasProbability)


class State(NamedTuple, Generic[Row]):
    """Evidence and one row of sampling weights per learner, of a type that the selector defines."""

    evidence: evidence.State
    odds: list[Row]


@kernel
def sample(accounts: evidence.State, odds: list[Row], rng: np.random.Generator) -> tuple[int, float]:
    """An active learner, sampled by the probabilities in the rows, and its probability among the active ones."""
    total = active_total(accounts, odds)
    left, chosen = rng.random() * total, -1
    for i in range(len(odds)):
        if accounts.accounts[i].active:
            chosen = i  # rounding may leave a remainder beyond the last learner
            left -= odds[i].probability
            if left < 0.0:
                break
    return chosen, odds[chosen].probability / total


@kernel
def active_total(accounts: evidence.State, odds: list[Row]) -> float:
    """The sum of the probabilities of the active learners: exactly 1, without rounding error, if all are."""
    total, complete = 0.0, True
    for i in range(len(odds)):
        if accounts.accounts[i].active:
            total += odds[i].probability
        else:
            complete = False
    return 1.0 if complete else total


def chances(selector: KernelSelector[Any, Any, Any]) -> tuple[float, ...]:
    """Return the probability of each learner among the active ones."""
    rows, odds = selector.evidence.accounts, selector.kernel_state.odds
    total = active_total(selector.evidence, odds)
    return tuple(row.probability / total if a.active else 0.0 for row, a in zip(odds, rows, strict=True))


@kernel
def choose(params: object, state: State[Row], rng: np.random.Generator) -> tuple[int, float]:
    return sample(state.evidence, state.odds, rng)


@kernel
def loss_of(limits: evidence.Params, reward: float) -> float:
    """The reward as a loss in [0, 1]."""
    return (limits.high - reward) / limits.width


@dataclass(slots=True)
class Odds:
    """Sampling weight of one learner."""

    weight: float
    probability: float
    rate: float
    ceiling: float
    loss: float = 0.0  # importance-weighted, in the last credited round


class Params(NamedTuple):
    evidence: evidence.Params
    mixing: float
    growth: float


def make_params(limits: evidence.Params, rounds: int) -> Params:
    return Params(limits, mixing=1.0 / rounds, growth=exp(1.0 / log(rounds)))


def new_odds(n_learners: int, rate: float) -> Odds:
    uniform = 1.0 / n_learners
    return Odds(uniform, uniform, rate, 2.0 * n_learners)


@kernel
def update_weights(params: Params, odds: list[Odds], i: int, loss: float, probability: float) -> None:
    """Update the probabilities after a loss of learner i, which was sampled with `probability`."""
    n_learners = len(odds)
    for j in range(n_learners):
        odds[j].loss = 0.0
    odds[i].loss = loss / probability
    descend(odds)
    for j in range(n_learners):
        row = odds[j]
        row.probability = (1.0 - params.mixing) * row.weight + params.mixing / n_learners
        if row.probability * row.ceiling < 1.0:
            row.ceiling = 2.0 / row.probability
            row.rate *= params.growth


@kernel
def descend(odds: list[Odds]) -> float:
    """One step of mirror descent with the losses in the rows; returns lam."""
    shift = multiplier(odds)
    total = 0.0
    for j in range(len(odds)):
        row = odds[j]
        row.weight = 1.0 / (1.0 / row.weight + row.rate * (row.loss - shift))
        total += row.weight
    for j in range(len(odds)):
        odds[j].weight /= total
    return shift


@kernel
def multiplier(odds: list[Odds]) -> float:
    """The lam for which the new weights add up to 1."""
    start = least = odds[0].loss
    for j in range(1, len(odds)):
        start, least = max(start, odds[j].loss), min(least, odds[j].loss)
    for j in range(len(odds)):
        row = odds[j]
        start = min(start, row.loss + (1.0 / row.weight - 1.0) / row.rate)
    shift = max(start, least)
    for _ in range(MAX_STEPS):
        excess, slope = -1.0, 0.0
        for j in range(len(odds)):
            row = odds[j]
            weight = 1.0 / (1.0 / row.weight + row.rate * (row.loss - shift))
            excess += weight
            slope += row.rate * weight * weight
        lower = max(shift - excess / slope, least)
        if excess <= TOLERANCE or lower == shift:
            break
        shift = lower
    return shift


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@bounded_rewards
class Corral(KernelSelector[Params, State[Odds], Elimination]):
    """CORRAL over learners that accept importance weights."""

    name = "Corral"
    explanation = (
        "A learner is sampled; its probability decreases with its losses, each divided by the probability with "
        "which it was played."
    )
    needs = frozenset({"weight"})
    state_type, _chances = State, chances
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    n_learners: int = setting("Number of learners M, at least 2.", at_least_2, kw_only=False)
    seed: int = seed_setting()
    rounds: int = setting("Number of rounds T, at least 2.", at_least_2)
    eta: float = setting("Initial learning rate. Default: sqrt(M / T).", optional(positive), default=None)

    def _set_up(self) -> None:
        self.eta = self.eta or sqrt(self.n_learners / self.rounds)
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return make_params(limits, self.rounds)

    def _make_row(self) -> Odds:
        return new_odds(self.n_learners, self.eta)
