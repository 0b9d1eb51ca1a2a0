"""Online mirror descent with the log barrier and learning rates that increase as a learner's probability decreases.

A step replaces the weights p by the minimizer p' of <loss, p'> plus the Bregman divergence of sum_i -ln(p_i) / eta_i:
1/p'_i = 1/p_i + eta_i (loss_i - lam), with lam such that the new weights add up to 1. A learner is sampled with
probability pbar, a mixture of the weights and, with share gamma, uniform probabilities. When 1/pbar_i exceeds its
ceiling rho_i, the ceiling is set to 2/pbar_i and the rate of i is multiplied by beta = exp(1/ln T), which compensates
for the larger regret of a learner that is rarely played.

Reference: Agarwal, Luo, Neyshabur and Schapire (2017), "Corralling a band of bandit algorithms", algorithm 1 (mixing
and rates) and algorithm 2 (Log-Barrier-OMD).
Symbols: p weight, pbar probability, eta rate, rho ceiling, gamma mixing, beta growth.
The ceiling at least doubles with each increase and pbar_i >= gamma / M = 1 / (T M), so a rate increases at most log2(T)
times, in total at most by the factor exp(1 / ln 2) < 4.24.
The equation for lam: the sum of new weights is increasing and convex in lam. At the smallest lam for which some new
weight is 1, or at the largest loss if that is smaller, the sum is at least 1; Newton's method started there decreases
monotonically to the root for any losses. A final normalization removes the rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence

MAX_STEPS = 200
TOLERANCE = 1e-15


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


def open_odds(n_learners: int, rate: float) -> list[Odds]:
    uniform = 1.0 / n_learners
    return [Odds(uniform, uniform, rate, 2.0 * n_learners) for _ in range(n_learners)]


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
