"""First rounds at which bounds say something, recomputed by brute force; and the bound of D3RB in runs, with a control
that breaks it."""

from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

from equipoise.bounds import Power
from equipoise.confidence import RADII, make_radius, mixture, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.selectors import D3RB, BalancedElimination, CounterfactualBalancing, RealizedBalancing
from equipoise.theory import first_rounds
from equipoise.theory.closed_forms import terms_of
from equipoise.theory.first_rounds import balanced_regret, doubling_regret
from equipoise.theory.guarantees import rooted_radius
from equipoise.types import Array

ROUNDS, GAP = 20_000, 0.8
DELTA = 0.05


def growth(alpha: float, rounds: int) -> Array:
    """D(n)/sqrt(n) of the mixture radius for n = 1, ..., T, written out: v = 1/2, half of alpha for each boundary."""
    n = np.arange(1, rounds + 1, dtype=float)
    logs = 2 * log(1 / alpha)
    prior = 5_400 / (logs + log(1 + logs))
    stitching = 2.89 * n * (np.log(np.log(2 * n)) + 0.72 * log(10.4 / alpha))
    mixing = (n + prior) * (np.log1p(n / prior) + 2 * log((1 + alpha / 2) / alpha))
    grown: Array = np.sqrt(0.5 * np.minimum(stitching, mixing) / n)
    return grown


def first_below_trivial(bounds: Array) -> int:
    """The smallest T from which on every bound, the T-th of the array, is below T."""
    vacuous = np.flatnonzero(bounds >= np.arange(1, len(bounds) + 1))
    return int(vacuous[-1]) + 2


def corollary_a(alpha: float, others: int, slack: float, margin: float, rounds: int) -> Array:
    """Corollary A for d = 1, c = 4.5 and rho = 0.25, with the largest D(n)/sqrt(n) so far."""
    b, t = np.maximum.accumulate(growth(alpha, rounds)), np.arange(1, rounds + 1)
    bounds: Array = np.sqrt(t) + others * (1 + slack * 0.25 * np.sqrt(t)) + (margin + 4.5 + b) * np.sqrt(others * t)
    return bounds


def test_the_mixture_radius_over_the_root_of_plays_does_not_grow_throughout() -> None:
    """M = 5: the largest value up to 33,768 plays is at 470, not at the end."""
    grown = growth(DELTA / 18, 34_000)
    assert [round(float(grown[n - 1]), 2) for n in (470, 5_400, 33_768)] == [3.37, 2.79, 2.87]
    assert abs(int(grown.argmax()) + 1 - 470) <= 1
    shipped = [radius_sum(RealizedBalancing(5).confidence.radius, n) / sqrt(n) for n in (470, 5_400, 33_768)]
    np.testing.assert_allclose(shipped, grown[[469, 5_399, 33_767]], rtol=1e-12)


@pytest.mark.parametrize("name", RADII)
@pytest.mark.parametrize("n_learners", [1, 5, 40])
def test_the_rooted_radius_is_the_largest_of_all_plays(name: str, n_learners: int) -> None:
    """Against every n up to T: before, at and after the place where the two boundaries of the default cross."""
    settings = {"n_learners": n_learners, "delta": DELTA, "width": 3.0, "noise": None, "contexts": "random"}
    radius = make_radius(name, scale=1.0, **settings)  # type: ignore[arg-type]
    largest = np.maximum.accumulate([radius_sum(radius, n) / sqrt(n) for n in range(1, 20_001)])
    for rounds in (1, 2, 100, 460, 470, 480, 500, 5_400, 20_000):
        assert rooted_radius(radius, rounds) == pytest.approx(largest[rounds - 1] * sqrt(rounds), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.4, 0.1, 1e-3, 1e-9, 1e-30])
def test_it_is_so_for_every_alpha(alpha: float) -> None:
    radius = mixture(0.5, alpha, 1.0)
    largest = np.maximum.accumulate(growth(alpha, 300_000))
    for rounds in (50, 500, 3_000, 30_000, 300_000):
        assert rooted_radius(radius, rounds) == pytest.approx(largest[rounds - 1] * sqrt(rounds), rel=1e-12)


def test_first_rounds_by_brute_force() -> None:
    """Each bound is written out for every T, with the largest D(n)/sqrt(n) up to T in place of that at T."""
    found = first_rounds.first_rounds(first_rounds.realized_balancing)
    assert found == first_below_trivial(corollary_a(DELTA / 18, 4, 8.0, 80.0, 10**5)) == 34_136
    found = first_rounds.first_rounds(first_rounds.counterfactual_balancing)
    assert found == first_below_trivial(corollary_a(DELTA / 33, 9, 32.0, 200.0, 10**6)) == 485_661
    b, t = np.maximum.accumulate(growth(DELTA / 12, 10**5)), np.arange(1, 10**5 + 1)
    # M = 5, B = 4, Z = 16: (M + sqrt(Z)) sqrt(T) + 2 M + 2 (sqrt(B) + sqrt(Z)) b sqrt(T)
    found = first_rounds.first_rounds(first_rounds.balanced_elimination)
    assert found == first_below_trivial(9 * np.sqrt(t) + 10 + 12 * b * np.sqrt(t)) == 2_387
    assert first_rounds.first_rounds(first_rounds.d3rb) == 4_910


def test_the_radius_at_the_last_round_would_be_too_small() -> None:
    """The control: with D(T) in place of the largest value the sum of radii of a learner with 470 plays is exceeded."""
    selector = BalancedElimination([Power(1.0)] * 5)
    radius, rounds = selector.confidence.radius, 10_000
    at_470 = radius_sum(radius, 470)
    assert at_470 > radius_sum(radius, rounds) * sqrt(470 / rounds)
    assert at_470 <= terms_of(selector, rounds)["radius"] * sqrt(470 / rounds)


@pytest.mark.parametrize(("rounds", "limit"), [(100, 1.19), (470, 1.13), (33_768, 1.13), (10**6, 1.13)])
def test_corollary_a_takes_coefficients_with_a_at_most_c_at_all_plays(rounds: int, limit: float) -> None:
    """a <= d + D(n)/(w sqrt n) at every n <= T; at T = 33,768 alone it would be d <= 1.63."""
    exact = 4.5 - float(growth(DELTA / 18, rounds).max())
    assert round(exact, 2) == limit
    balanced_regret(rounds, 5, exact - 1e-9)
    with pytest.raises(InvalidArgument, match=rf"must be at most {limit} for 5 learners and {rounds} rounds"):
        balanced_regret(rounds, 5, exact + 1e-3)


def test_the_counterfactual_theorem_takes_regret_up_to_1_04_roots() -> None:
    slack = CounterfactualBalancing(5).slack
    with pytest.raises(InvalidArgument, match=r"must be at most 1\.04 for 10 learners and 485661 rounds"):
        balanced_regret(485_661, 10, 1.05, slack=slack, margin=200.0)


def regret_of_a_pair(rounds: int, *, removed: bool) -> float:
    """Learner 0 always loses 0.95, learner 1 nothing."""
    selector = RealizedBalancing(2)
    if removed:
        selector.remove_learner(1)
    plays = 0
    for _ in range(rounds):
        choice = selector.choose()
        plays += choice.learner == 0
        selector.credit(choice, 0.05 if choice.learner == 0 else 1.0)
    return 0.95 * plays


def test_corollary_a_needs_an_unchanged_pool() -> None:
    """It is below w T for two learners from some 8,000 rounds on. If the learner whose regret it presumes is removed,
    it says nothing of the rounds without it, and here it would be false."""
    rounds = 12_000
    bound = balanced_regret(rounds, 2, 1.0)
    assert bound < 0.9 * rounds
    assert regret_of_a_pair(rounds, removed=False) < 0.05 * bound
    assert regret_of_a_pair(rounds, removed=True) > bound


def test_corollary_b_starts_where_its_page_says() -> None:
    """M = 5 and d = 1, with coins (u = w) and with quiet rewards (u = w/5)."""
    page = (Path(__file__).parents[2] / "docs" / "realized-balancing.md").read_text(encoding="utf-8")
    radius = RealizedBalancing(5).confidence.radius

    def corollary_b(rounds: int, unit: float) -> float:
        b = rooted_radius(radius, rounds) / sqrt(rounds)
        a = 1.0 + b
        m, others = max(1.0, a / (0.25 * unit)), 4
        first = others * (1 + 8 * max(0.25, a) * sqrt(rounds))
        return sqrt(rounds) + first + ((a + b) * 8 * m + 4.5 + b) * sqrt(others * rounds)

    coins, quiet = (first_rounds.first_rounds(lambda t, u=unit: corollary_b(t, u)) for unit in (1.0, 0.2))  # type: ignore[misc]
    assert coins is not None and quiet is not None
    assert f"T = {coins / 1e6:.1f} · 10⁶ if rewards are coins and {quiet / 1e8:.1f} · 10⁸" in " ".join(page.split())


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
