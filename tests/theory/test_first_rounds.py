"""The explicit regret bound of D3RB in runs where it is far below trivial, with a control that breaks it."""

from math import sqrt

import numpy as np
import pytest

from equipoise.confidence import radius_sum
from equipoise.selectors import D3RB
from equipoise.theory.first_rounds import doubling_regret

ROUNDS, GAP = 20_000, 0.8


def excess(d_min: float, *, doubling: bool) -> float:
    """The largest regret over its bound, at rounds in which the bound is below trivial.

    Learner 0 has regret sqrt(n), the two others lose GAP in every play; rewards are coins."""
    selector = D3RB(3, d_min=d_min)
    coins = np.random.default_rng([4, round(100 * d_min)]).random(ROUNDS)
    plays, regret, largest = 0, 0.0, -np.inf
    for t in range(ROUNDS):
        choice = selector.choose()
        plays += choice.learner == 0
        lost = GAP if choice.learner else min(0.9, sqrt(plays) - sqrt(plays - 1))
        regret += lost
        selector.credit(choice, float(coins[t] < 0.9 - lost))
        if not doubling:
            selector.kernel_state.presumptions[choice.learner].coefficient = d_min
        if t % 1_000 == 999:
            bound = doubling_regret(t + 1, 3, 1.0, d_min=d_min)
            largest = max(largest, regret - bound if bound < t + 1 else -np.inf)
    return largest


@pytest.mark.parametrize("d_min", [1.0, 0.5])
def test_regret_is_within_the_bound(d_min: float) -> None:
    """With probability 0.95, by theory; the seeds are fixed."""
    assert -np.inf < excess(d_min, doubling=True) <= 0.0


def test_without_doubling_it_is_not() -> None:
    assert excess(1.0, doubling=False) > 0.0


def test_the_growth_of_the_default_radius_is_covered() -> None:
    """D(n) <= g sqrt(n) for all n <= T, with the g of the stitched boundary at half of alpha."""
    radius = D3RB(5).confidence.radius
    for rounds in (10, 1_000, 100_000):
        growth = max(radius_sum(radius, n) / sqrt(n) for n in range(1, rounds + 1, max(1, rounds // 500)))
        trivial = 2 * sqrt(4 * rounds) * growth  # one of the terms that contain g
        assert doubling_regret(rounds, 5, 1.0) > trivial * (1 + 2 * sqrt(2))
