"""The lemmas that certificates rest on, over random instances; each check fails if the lemma's constant is halved.

Statistical checks have fixed seeds; the docstrings state the probability that a true lemma would be rejected.
"""

from math import exp, inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from equipoise.bounds import POWER, Power
from equipoise.certificates.comparisons import paired_radius
from equipoise.confidence import RADII, expected_regret_sum, make_confidence, radius_at, radius_sum
from equipoise.learner import Proposal
from equipoise.learners import LinearClass
from equipoise.selectors import BalancedElimination, EpochBalancing
from equipoise.selectors._core.evidence import Account, admissible
from tools.crossings import ALPHA, REWARDS, crossings, holds

RUNS, PLAYS = 1_500, 3_000


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[tuple[str, float], int]]:
    contexts = {conditions: "random" if conditions == "context-driven" else "fixed" for conditions in REWARDS}
    kinds = ("two-point", "rare", "context-driven")
    return {
        conditions: crossings(REWARDS[conditions], runs=RUNS, plays=PLAYS, contexts=contexts[conditions], seed=1)
        for conditions in kinds
    }


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mixture", "stitched", "paper", "bernstein"])
def test_sums_cross_a_radius_in_at_most_a_share_alpha_of_runs(name: str, counts: Any) -> None:
    """A radius that is crossed in exactly a share alpha of the runs is rejected with probability at most 3e-4."""
    assert all(holds(found[name, 1.0], RUNS) for found in counts.values())


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["mixture", "stitched", "bernstein"])
def test_half_a_radius_is_crossed_more_often(name: str, counts: Any) -> None:
    assert not all(holds(found[name, 0.5], RUNS) for found in counts.values())


def test_half_the_printed_radius_is_below_the_boundary_that_it_must_exceed() -> None:
    """Its lemma is that it is nowhere below the stitched one: at half its constant it is everywhere."""
    conditions: Any = {"width": 1.0, "noise": None, "contexts": "random", "scale": 1.0}
    for alpha in (0.1, 1e-3):
        printed, stitched = radius_at("paper", alpha, **conditions), radius_at("stitched", alpha, **conditions)
        for n in (1, 100, 10**6):
            assert printed.radius_sum(n) >= stitched.radius_sum(n) > printed.radius_sum(n) / 2


def log_moment(values: tuple[float, ...], chances: tuple[float, ...], rate: float) -> float:
    """The logarithm of E[exp(rate (X - E X))] of a random variable with finitely many values."""
    mean = sum(chance * value for chance, value in zip(chances, values, strict=True))
    return log(sum(chance * exp(rate * (value - mean)) for chance, value in zip(chances, values, strict=True)))


@given(st.floats(0.001, 0.999), st.floats(-8.0, 8.0), st.floats(0.1, 3.0))
def test_a_bounded_reward_is_sub_gaussian_with_a_quarter_of_the_squared_width(p: float, rate: float, w: float) -> None:
    """Hoeffding's lemma: v = w^2/4 for one bracket, so w^2/2 for rewards and contexts together."""
    assert log_moment((0.0, w), (1 - p, p), rate) <= rate**2 * (w**2 / 4) / 2 + 1e-12


def test_with_half_that_factor_it_is_false() -> None:
    assert log_moment((0.0, 1.0), (0.5, 0.5), 0.5) > 0.5**2 * (1 / 8) / 2


@given(st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 1.0))
def test_expected_regret_has_the_supermartingale_of_its_proof(p: float, x: float, size: float) -> None:
    """E[exp(-x reg)] <= exp(-(1 - exp(-x)) E[reg]) for regrets in [0, 1]; two values suffice, by convexity."""
    assert p * exp(-x * size) + 1 - p <= exp(-(1 - exp(-x)) * p * size) + 1e-12


def test_with_twice_the_rate_it_is_false() -> None:
    """Halving the bound (x Reg + ln(1/alpha))/(1 - exp(-x)) doubles 1 - exp(-x)."""
    assert 0.5 * exp(-0.5) + 0.5 > exp(-2 * (1 - exp(-0.5)) * 0.5)


@pytest.mark.statistical
def test_half_of_the_expected_regret_bound_is_exceeded() -> None:
    """Regrets of mean 0.3: the bound holds in at least 1 - alpha of 2,000 runs (a true one is rejected with probability
    below 1e-4), half of it in none."""
    alpha, rng = 0.1, np.random.default_rng(3)
    radius: Any = radius_at("bernstein", alpha, width=1.0, noise=None, contexts="random", scale=1.0)
    lost = np.cumsum(rng.random((2_000, 300)) < 0.3, axis=1)
    bounds = np.array([expected_regret_sum(radius, float(total)) for total in range(301)])[lost]
    expected = 0.3 * np.arange(1, 301)
    crossed = [int(np.count_nonzero((factor * bounds < expected).any(axis=1))) for factor in (1.0, 0.5)]
    assert binomtest(crossed[0], 2_000, alpha, alternative="greater").pvalue > 1e-4
    assert crossed[1] == 2_000


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.floats(0.05, 2.0), st.floats(0.1, 1.0))
def test_clipping_a_true_bound_keeps_it_true(regrets: list[float], coefficient: float, exponent: float) -> None:
    """R(n) = min(R(n-1) + w, max(R(n-1), raw(n))): regrets in [0, w] that satisfy raw(n) satisfy R(n), w = 1. With
    half of w, regrets of w violate it at once."""
    total, bound, halved = 0.0, 0.0, 0.0
    for n, regret in enumerate(regrets, start=1):
        total = min(total + regret, coefficient * n**exponent) if total <= coefficient * n**exponent else inf
        bound = admissible(Account(POWER, coefficient, exponent), n, 0.0, bound, 1.0)
        assert total <= bound + 1e-9
    halved = admissible(Account(POWER, 1.0, 1.0), 1, 0.0, 0.0, 0.5)
    assert halved < 1.0


ROUNDS, OPTIMUM = 60, 0.5


def on_the_event(regrets: tuple[float, ...], sides: tuple[float, ...], scale: float = 1.0) -> BalancedElimination:
    """A run in which the bound c n of every learner is true and tight, and whose rewards deviate steadily, by `sides`
    times as much as the event of the unscaled radius allows for every learner and for the pool at all times."""
    bounds = [Power(regret, 1.0) for regret in regrets]
    allowed = radius_sum(BalancedElimination(bounds).confidence.radius, ROUNDS) / ROUNDS  # means shrink with plays
    selector = BalancedElimination(bounds, radius_scale=scale)
    for _ in range(ROUNDS):
        choice = selector.choose()
        selector.credit(choice, OPTIMUM - regrets[choice.learner] + allowed * sides[choice.learner])
    return selector


def true_regret(selector: BalancedElimination, regrets: tuple[float, ...]) -> float:
    return sum(row.plays * regret for row, regret in zip(selector.standing(), regrets, strict=True))


REGRETS = st.tuples(*[st.floats(0.001, 0.02)] * 3)
SIDES = st.tuples(*[st.floats(-1.0, 1.0)] * 3)


@given(REGRETS, SIDES)
def test_on_the_event_no_true_bound_is_refuted_and_every_statement_holds(
    regrets: tuple[float, ...], sides: tuple[float, ...]
) -> None:
    selector = on_the_event(regrets, sides)
    certificate = selector.certificate()
    assert selector.eliminations == [] and certificate.consistent
    assert certificate.optimum_lower <= OPTIMUM <= certificate.optimum_upper
    assert certificate.regret_lower <= true_regret(selector, regrets) + 1e-9 <= certificate.regret_upper + 2e-9
    for row, proved, regret in zip(selector.standing(), certificate.learner_regret_lowers, regrets, strict=True):
        assert proved <= row.plays * regret + 1e-9
        assert row.mean_lower <= OPTIMUM <= row.mean_upper
    for i, j in ((0, 1), (1, 2), (2, 0)):
        found = selector.compare(i, j)
        assert found.difference_lower <= regrets[i] - regrets[j] + 1e-9 <= found.difference_upper + 2e-9


def test_with_half_the_radius_each_of_them_fails() -> None:
    """Learners that deviate to opposite sides: a true bound is refuted, the optimum and a comparison are missed. All
    to the lower side: the optimum is above its upper end."""
    regrets = (0.001, 0.001, 0.001)
    opposite = on_the_event(regrets, (1.0, -1.0, 0.0), 0.5)
    assert [each.learner.index for each in opposite.eliminations] == [1]
    assert opposite.certificate().optimum_lower > OPTIMUM
    assert opposite.compare(1, 0).difference_lower > 0.0
    assert on_the_event(regrets, (-1.0, -1.0, -1.0), 0.5).certificate().optimum_upper < OPTIMUM


@pytest.mark.parametrize("name", RADII)
@pytest.mark.parametrize("contexts", ["random", "fixed"])
def test_all_shares_together_are_delta(name: str, contexts: str) -> None:
    """k one-sided events of each of M learners and of the pool, each with its alpha; for bernstein two of the
    two-sided radius, two of the deviations and, with random contexts, one of the expected regrets."""
    events = {"bernstein": 5 if contexts == "random" else 4}.get(name, 2)
    made = make_confidence(name, n_learners=5, delta=0.05, width=1.0, noise=None, contexts=contexts, scale=1.0)
    assert made.alpha * events * (5 + 1) == pytest.approx(0.05)


def same_round(regrets: tuple[float, ...], optima: tuple[float, ...], scale: float) -> BalancedElimination:
    """A run whose true bounds are tight, in which both learners' rewards fall short of their expectations by what the
    unscaled noise radius allows; the second learner states the optimum of every round as its lower bound."""
    settings: Any = {"same_round": True, "contexts": "fixed"}
    bounds = [Power(regret, 1.0) for regret in regrets]
    allowed = radius_sum(BalancedElimination(bounds, **settings)._noise_radius, ROUNDS) / ROUNDS
    selector = BalancedElimination(bounds, radius_scale=scale, **settings)
    for optimum in optima:
        choice = selector.choose()
        selector.observe(choice, {i: Proposal(0, lower=optimum) for i in selector.active})
        selector.credit(choice, optimum - regrets[choice.learner] - allowed)
    return selector


def optima_between(low: float, high: float) -> Any:
    return st.integers(0, 2**32).map(
        lambda seed: tuple(np.random.default_rng(seed).uniform(low, high, ROUNDS).tolist())
    )


@given(st.tuples(*[st.floats(0.001, 0.02)] * 2), optima_between(0.6, 0.9))
def test_the_same_round_test_refutes_no_true_bound_on_its_event(
    regrets: tuple[float, ...], optima: tuple[float, ...]
) -> None:
    assert same_round(regrets, optima, 1.0).eliminations == []


def test_with_half_its_radius_the_same_round_test_refutes_a_true_bound() -> None:
    (elimination,) = same_round((0.01, 0.01), (0.75,) * ROUNDS, 0.5).eliminations
    assert elimination.learner.index == 0


def epoch(regrets: tuple[float, ...], optima: tuple[float, ...], side: float, scale: float) -> tuple[bool, bool, float]:
    """Whether the epoch of learners that know all but the noise ends, whether the certificate calls the last class
    false, and by how much the certified regret exceeds the true one; rewards deviate steadily, by `side` times what the
    unscaled radius allows."""
    classes = [LinearClass(str(dim), dim) for dim in (1, 3)]
    allowed = radius_sum(EpochBalancing(classes).confidence.radius, ROUNDS) / ROUNDS
    selector = EpochBalancing(classes, radius_scale=scale)
    regret = 0.0
    for optimum in optima:
        choice = selector.choose()
        lowers = [optimum - each for each in regrets]
        selector.observe(choice, {i: Proposal(0, lower=lowers[i], regret=regrets[i]) for i in selector.active})
        regret += regrets[choice.learner]
        selector.credit(choice, lowers[choice.learner] + side * allowed)
    certificate = selector.certificate()
    return selector.ended is not None, not certificate.consistent, certificate.regret_upper - regret


@given(st.tuples(*[st.floats(0.0, 0.02)] * 2), optima_between(0.45, 0.55))
def test_on_its_event_no_epoch_of_true_classes_ends_and_its_certificate_holds(
    regrets: tuple[float, ...], optima: tuple[float, ...]
) -> None:
    for side in (-0.999, 0.999):
        ended, called_false, excess = epoch(regrets, optima, side, 1.0)
        assert not ended and not called_false and excess >= 0.0


def test_with_half_its_radius_an_epoch_of_true_classes_ends_and_its_certificate_fails() -> None:
    """Rewards below their expectations end the epoch; by rewards above them a true class is called false, or the
    certified regret is below the true one."""
    optima = (0.5,) * ROUNDS
    assert epoch((0.0, 0.0), optima, -0.999, 0.5)[0]
    assert epoch((0.0, 0.0), optima, 0.999, 0.5)[1]
    assert epoch((0.15, 0.15), optima, 0.999, 0.5)[2] < 0.0


def windowed(regret: float, side: float, scale: float) -> BalancedElimination:
    """One learner whose every second play is left out because its reward does not come within the window. Its bound is
    tight at all plays, and all of its regret falls on the counted ones."""
    n_all = 2 * ROUNDS
    bound = Power(regret * ROUNDS / n_all, 1.0)
    allowed = radius_sum(BalancedElimination([bound]).confidence.radius, ROUNDS) / ROUNDS
    selector = BalancedElimination([bound], radius_scale=scale)
    selector.configure(delays="exogenous", window=1)
    for _ in range(ROUNDS):
        selector.choose()  # its reward never comes
        choice = selector.choose()
        selector.credit(choice, OPTIMUM - regret + side * allowed)
    return selector


@given(st.floats(0.001, 0.05), st.floats(-1.0, 1.0))
def test_counted_plays_of_a_window_bound_the_optimum(regret: float, side: float) -> None:
    """With the bound at all plays up to the last counted one; at the counted plays alone it would be false."""
    selector = windowed(regret, side, 1.0)
    (row,) = selector.standing()
    assert row.plays - row.pending == ROUNDS
    assert row.mean_lower <= OPTIMUM <= row.mean_upper + 1e-9
    assert row.mean_bound >= regret - 1e-9 > regret / 2 + 1e-9


def test_with_half_the_radius_counted_plays_of_a_window_miss_the_optimum() -> None:
    assert windowed(0.001, 1.0, 0.5).standing()[0].mean_lower > OPTIMUM
    assert windowed(0.001, -1.0, 0.5).standing()[0].mean_upper < OPTIMUM


@pytest.mark.statistical
def test_half_of_the_paired_radius_is_crossed_more_often_than_its_alpha() -> None:
    """Two experts that always disagree and are drawn by a fair coin, both of whose proposals pay fair coins: Y is 1/2
    or -1/2, its expectation 0. A radius crossed in exactly a share alpha of the runs is rejected with probability
    3e-4."""
    radius = np.array([paired_radius(n / 4, 1.0, ALPHA) for n in range(1, PLAYS + 1)])
    gain = np.cumsum(np.random.default_rng(7).integers(0, 2, (RUNS, PLAYS)) - 0.5, axis=1)
    crossed = [int((gain > factor * radius).any(axis=1).sum()) for factor in (1.0, 0.5)]
    assert holds(crossed[0], RUNS) and not holds(crossed[1], RUNS)
