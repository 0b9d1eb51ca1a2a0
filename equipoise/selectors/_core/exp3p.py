"""EXP3.P: exponential weights with a lower limit on every probability and a bonus for rarely sampled learners.

In every round each gain estimate increases by half the floor divided by the learner's probability, in addition to the
importance-weighted reward, so that it is an upper bound on the true gain with high probability; the floor limits the
bonus.

Reference: Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit
problems", figure 3.2 (EXP3.P); over smoothed learners: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert,
Lattimore and Szepesvari (2020), "Model selection in contextual stochastic bandit problems".
Symbols: G gain, q probability, p floor, eta rate; their beta is p / 2 and their gamma M p.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import NamedTuple

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence


@dataclass(slots=True)
class Odds:
    """Sampling weight of one learner."""

    probability: float
    gain: float = 0.0  # relative to the largest


class Params(NamedTuple):
    evidence: evidence.Params
    rate: float
    floor: float


def default_rate(n_learners: int, rounds: int) -> float:
    return 0.95 * sqrt(log(n_learners) / (n_learners * rounds))


def default_floor(n_learners: int, rounds: int) -> float:
    """T^(-1/3) M^(-2/3): for learners whose regret is of order sqrt(T) with an unknown factor."""
    return min(float(rounds ** (-1 / 3) * n_learners ** (-2 / 3)), 1.0 / n_learners)


def open_odds(n_learners: int) -> list[Odds]:
    return [Odds(1.0 / n_learners) for _ in range(n_learners)]


@kernel
def update_weights(params: Params, odds: list[Odds], i: int, gain: float, probability: float) -> None:
    """Update the probabilities after a gain in [0, 1] of learner i, which was sampled with `probability`."""
    n_learners, bonus = len(odds), 0.5 * params.floor
    for j in range(n_learners):
        odds[j].gain += (gain + bonus) / probability if j == i else bonus / odds[j].probability
    greatest = odds[0].gain
    for j in range(1, n_learners):
        greatest = max(greatest, odds[j].gain)
    total = 0.0
    for j in range(n_learners):
        odds[j].gain -= greatest
        total += exp(params.rate * odds[j].gain)
    for j in range(n_learners):
        share = exp(params.rate * odds[j].gain) / total
        odds[j].probability = (1.0 - n_learners * params.floor) * share + params.floor
