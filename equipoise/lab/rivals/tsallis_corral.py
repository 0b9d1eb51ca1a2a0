"""Tsallis corral: CORRAL with the 1/2-Tsallis entropy in place of the log barrier.

Weights are w_i = 4 / (eta_i (L_i - x))^2, where L_i is the sum of importance-weighted losses and x < min L is such that
the weights add up to 1; rates eta_i decrease like 1/sqrt(t). When a weight falls below 1 / (5 M 2^k) for the first
time, k = 0, 1, ..., its rate increases by the factor beta = exp(1/ln T), which compensates for the larger regret of a
learner that is rarely played. If one learner is better than all others by a margin, the regret of sampling grows only
like ln(t).

Reference: Arora, Marinov and Mohri (2021), "Corralling stochastic bandit algorithms", the Tsallis-INF corralling
algorithm. The text of the paper was not available; weights, rates and thresholds are those of the authors' published
experiments, so this is a variant in the style of Tsallis corral.
Symbols: L loss_sum, w weight, k rises, eta rate, beta growth, x normalizer.
Departures: losses are divided by the sampling probability, mixture included, which makes them unbiased. An increase of
a rate does not change the weights of its round: with eta_i times beta, L_i - x is divided by beta. The smallest L is
subtracted from all, which changes no weight and keeps numbers small. Late rewards count when they are credited.

>>> selector = TsallisCorral(2, rounds=1000)
>>> _ = selector.credit(selector.choose(), reward=0.0)
>>> max(selector.choice_probabilities()) > 0.6
True
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, log2, sqrt
from typing import ClassVar, NamedTuple

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.kernels.powers import power
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import bounded_rewards, seed_setting
from equipoise.selectors.corral import MAX_STEPS, TOLERANCE, State, chances, choose, loss_of
from equipoise.settings import setting
from equipoise.settings.checks import at_least_2


@dataclass(slots=True)
class Odds:
    """One learner's row."""

    weight: float
    probability: float
    rate: float
    loss_sum: float = 0.0
    rises: int = 0
    losses: int = 0  # number of losses in the sum


class Params(NamedTuple):
    evidence: evidence.Params
    growth: float
    max_rises: int


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    odds, n_learners = state.odds, len(state.odds)
    odds[i].loss_sum += loss_of(params.evidence, reward) / probability
    odds[i].losses += 1
    next_round = 1
    for j in range(n_learners):
        next_round += odds[j].losses
    least = odds[0].loss_sum
    for j in range(n_learners):
        odds[j].rate = power(params.growth, odds[j].rises) / sqrt(next_round)
        least = min(least, odds[j].loss_sum)
    for j in range(n_learners):
        odds[j].loss_sum -= least
    x = weigh(odds)
    for j in range(n_learners):
        row = odds[j]
        row.probability = (1.0 - 1.0 / next_round) * row.weight + 1.0 / (next_round * n_learners)
        if row.rises < params.max_rises and row.weight * 5.0 * n_learners * power(2.0, row.rises) < 1.0:
            row.rises += 1
            row.loss_sum = x + (row.loss_sum - x) / params.growth


@kernel
def weigh(odds: list[Odds]) -> float:
    """Compute the weights from loss sums and rates; returns x."""
    x = normalizer(odds)
    total = 0.0
    for j in range(len(odds)):
        root = 2.0 / (odds[j].rate * (odds[j].loss_sum - x))
        odds[j].weight = root * root
        total += odds[j].weight
    for j in range(len(odds)):
        odds[j].weight /= total
    return x


@kernel
def normalizer(odds: list[Odds]) -> float:
    """The x for which the weights add up to 1, by Newton's method.

    The sum is increasing and convex in x, and at least 1 at the starting point, where the first weight is 1, so the
    iteration decreases monotonically.
    """
    x = odds[0].loss_sum - 2.0 / odds[0].rate
    for j in range(1, len(odds)):
        x = min(x, odds[j].loss_sum - 2.0 / odds[j].rate)
    for _ in range(MAX_STEPS):
        excess, slope = -1.0, 0.0
        for j in range(len(odds)):
            root = 2.0 / (odds[j].rate * (odds[j].loss_sum - x))
            excess += root * root
            slope += odds[j].rate * root * root * root
        lower = x - excess / slope
        if excess <= TOLERANCE or lower == x:
            break
        x = lower
    return x


@bounded_rewards
class TsallisCorral(KernelSelector[Params, State[Odds], Elimination]):
    """CORRAL with Tsallis entropy over learners that accept importance weights."""

    name = "Tsallis corral"
    needs = frozenset({"weight"})
    simulation_only = True
    state_type, _chances = State, chances
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    n_learners: int = setting("Number of learners M, at least 2.", at_least_2, kw_only=False)
    seed: int = seed_setting()
    rounds: int = setting("Number of rounds T, at least 2.", at_least_2)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, growth=exp(1.0 / log(self.rounds)), max_rises=int(0.5 * log2(self.rounds)))

    def _make_row(self) -> Odds:
        return Odds(1.0 / self.n_learners, 1.0 / self.n_learners, 1.0)
