"""Betting confidence sequences: against exact fractions, by their invariants, and by coverage with controls."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import equipoise
from equipoise import Portfolio
from equipoise.errors import InvalidArgument
from equipoise.learners import UCB
from equipoise.logs import from_arrays, intervals, open_log
from equipoise.logs.estimators import Evaluation, clipped_ips, difference, dm, dr, ips, logged, snips, switch_dr
from equipoise.logs.intervals import betting, log_wealth, lower_bound
from equipoise.logs.models import evaluate
from tools.studies.log_coverage import CASES, always, coverage_of_cases, dm_of_a_journal, looks

# Weights and rewards; products are exact in binary, so that rounding does not matter.
ROUNDS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 4.0, 64.0]), st.sampled_from([0.0, 0.25, 1.0])), min_size=1)


def exact_lower_bound(terms: list[float], alpha: float) -> Fraction:
    """The root of mean over c of prod (1 - c + c x / v) = 1 / alpha, by bisection in exact fractions."""
    bets, values = [Fraction(1, 2**k) for k in range(1, 15)], [Fraction(x) for x in terms]

    def wealth(v: Fraction) -> Fraction:
        total = Fraction(0)
        for c in bets:
            product = Fraction(1)
            for x in values:
                product *= 1 - c + c * x / v
            total += product
        return total / len(bets)

    below, above = Fraction(0), max(values)
    for _ in range(24):
        middle = (below + above) / 2
        if wealth(middle) >= 1 / Fraction(alpha):
            below = middle
        else:
            above = middle
    return below


@pytest.mark.parametrize("seed", range(4))
def test_the_lower_bound_by_exact_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = rng.choice([0.0, 0.5, 1.0, 8.0], size=24, p=[0.4, 0.2, 0.2, 0.2])
    expected = float(exact_lower_bound(terms.tolist(), 0.05))
    assert lower_bound(terms, 0.05) == pytest.approx(expected, abs=8.0 * 2.0**-23)
    assert expected > 0.1


@given(ROUNDS, st.floats(0.001, 0.5), st.floats(1.01, 100.0))
def test_an_interval_narrows_in_delta_and_contains_nothing_but_possible_means(
    rounds: list[tuple[float, float]], delta: float, factor: float
) -> None:
    w, r = map(np.array, zip(*rounds, strict=True))
    sure, unsure = betting(w * r, w * (1.0 - r), (0.0, 1.0), delta / factor), betting(w * r, w * (1 - r), (0, 1), delta)
    assert 0.0 <= sure.low <= unsure.low <= min(1.0, float((w * r).mean()))
    assert 1.0 >= sure.high >= unsure.high >= max(0.0, 1.0 - float((w * (1.0 - r)).mean()))


@given(ROUNDS, st.sampled_from([0.001, 1.0, 120.0]), st.sampled_from([-3.0, 0.0, 100.0]))
def test_an_interval_follows_affine_changes_of_the_rewards(
    rounds: list[tuple[float, float]], scale: float, shift: float
) -> None:
    """Also on the other side: with 1 - r in place of r, it is mirrored."""
    w, r = map(np.array, zip(*rounds, strict=True))
    p, pi = np.where(w > 0.0, 1.0 / np.maximum(w, 1.0), 1.0), np.where(w > 0.0, np.minimum(w, 1.0), 0.0)
    plain = ips(Evaluation(r, p, pi, (0.0, 1.0))).betting()
    changed = ips(Evaluation(scale * r + shift, p, pi, (shift, scale + shift))).betting()
    assert (changed.low - shift) / scale == pytest.approx(plain.low, abs=1e-6)
    assert (changed.high - shift) / scale == pytest.approx(plain.high, abs=1e-6)
    mirrored = ips(Evaluation(1.0 - r, p, pi, (0.0, 1.0))).betting()
    assert [1.0 - mirrored.high, 1.0 - mirrored.low] == pytest.approx(list(plain), abs=1e-9)


def test_wealth_is_a_martingale_at_the_mean_and_falls_in_it() -> None:
    """E W_1(v) = 1 at v = E X for a law with three values, by summation; at a larger v it is smaller."""
    values, chances = np.array([0.0, 1.0, 30.0]), np.array([0.7, 0.25, 0.05])
    mean, one = float(values @ chances), np.ones(1, np.int64)

    def expected_wealth(v: float) -> float:
        return sum(p * np.exp(log_wealth(v, np.array([x]), one)) for x, p in zip(values, chances, strict=True))

    assert expected_wealth(mean) == pytest.approx(1.0, abs=1e-12)
    assert expected_wealth(1.1 * mean) < 1.0 < expected_wealth(0.9 * mean)


def test_many_values_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the bound can only get smaller, by at most one part in 4,096."""
    terms = np.random.default_rng(0).random(3_000) * 5.0
    exact = lower_bound(terms, 0.025)
    monkeypatch.setattr(intervals, "MAX_VALUES", 100)
    assert exact * (1 - 1 / 4096) <= lower_bound(terms, 0.025) < exact
    single = terms.astype(np.float32)
    assert lower_bound(single, 0.025) == lower_bound(single.astype(np.float64), 0.025)  # type: ignore[arg-type]


def test_extreme_terms() -> None:
    assert lower_bound(np.zeros(5), 0.05) == 0.0
    assert betting(np.zeros(9), np.zeros(9), (0.0, 1.0)) == (0.0, 1.0)
    rare = np.concatenate([np.zeros(10**6), [1.0]])
    assert 0.0 <= lower_bound(rare, 0.05) < 1e-6
    assert 0.0 < lower_bound(np.array([1e250, 0.0]), 0.05) < 1e250
    with pytest.raises(InvalidArgument, match="above must have at least one entry, and all must be nonnegative"):
        betting(np.array([-1.0]), np.zeros(1), (0.0, 1.0))
    with pytest.raises(InvalidArgument, match="below must have"):
        betting(np.zeros(1), np.array([np.nan]), (0.0, 1.0))
    with pytest.raises(InvalidArgument, match="above must have"):
        betting(np.empty(0), np.zeros(1), (0.0, 1.0))


@pytest.mark.parametrize("make", [clipped_ips, dm, switch_dr, snips])
def test_biased_estimators_say_so(make: object) -> None:
    n = np.ones(50)
    evaluation = Evaluation(n, n, n, (0.0, 1.0), 1.0, n, n)
    estimate = make(evaluation)  # type: ignore[operator]
    for name in ("betting", "time_uniform", "bernstein"):
        with pytest.raises(InvalidArgument, match=f"{name} is not offered for .*: the estimator is biased"):
            getattr(estimate, name)()
    named = estimate.interval()
    for shown in (named, difference(estimate, logged(evaluation)).interval()):
        assert (shown.name, shown.conditions[-46:]) == ("bootstrap", "no coverage stated, around its own expectation")


def test_intervals_are_offered_only_with_what_they_need() -> None:
    r, p, pi = np.array([0.0, 1.0] * 20), np.full(40, 0.5), np.full(40, 0.25)
    bare, ranged = Evaluation(r, p, pi), Evaluation(r, p, pi, (0.0, 1.0))
    bounded = Evaluation(r, p, pi, (0.0, 1.0), 2.0, r / 2, r / 2)
    learner = Evaluation(r, p, pi, (0.0, 1.0), 2.0, r / 2, r / 2, learns=True)
    several = Evaluation(r, p, pi, (0.0, 1.0), 2.0, round_weights=np.arange(1.0, 41.0))
    assert set(ips(bare).refusals) == set(logged(bare).refusals) == {"betting", "time_uniform", "bernstein"}
    assert ips(bare).refusals["betting"] == "the range of the rewards is not stated"
    assert set(ips(ranged).refusals) == {"time_uniform", "bernstein"}
    assert "largest weight is neither stated nor" in ips(ranged).refusals["bernstein"]
    assert ips(bounded).refusals == {} and set(dr(bounded).refusals) == {"bernstein"}
    assert set(ips(learner).refusals) == set(dr(learner).refusals) == {"betting", "bernstein"}
    assert "different numbers of rounds" in ips(several).refusals["betting"]
    assert set(logged(bounded).refusals) == {"betting", "bernstein"}
    both = difference(dr(bounded), logged(bounded))
    assert set(both.refusals) == {"betting", "bernstein"} and both.time_uniform().contains(both.value)
    assert [ips(each).interval().name for each in (bare, bounded, learner)] == ["bootstrap", "betting", "time_uniform"]
    shown = [make(each).interval().conditions for make, each in ((ips, bounded), (dr, bounded), (dr, learner))]
    assert ["a largest weight taken from the log must not" in text for text in shown] == [False, True, True]


def test_the_largest_weight_follows_from_the_stated_probabilities_not_from_the_log() -> None:
    """A policy that always takes action 1 can get the weight 500 in a log that never shows it."""
    pmf = np.tile([0.998, 0.002], (100, 1))
    log = from_arrays(None, np.zeros(100, int), np.ones(100), pmf[:, 0], pmf=pmf)
    evaluation = evaluate(log, always(1), reward_range=(0.0, 1.0))
    assert evaluation.max_weight == pytest.approx(500.0) and evaluation.weights.max() == 0.0
    assert ips(evaluation).bernstein() == ips(evaluation).time_uniform() == (0.0, 1.0)
    assert evaluate(log, always(0), reward_range=(0.0, 1.0)).max_weight == pytest.approx(1 / 0.998)
    unknown = from_arrays(None, np.zeros(100, int), np.ones(100), pmf[:, 0], n_actions=2)
    assert evaluate(unknown, always(1)).max_weight is None
    assert evaluate(unknown, always(1), max_weight=500.0).max_weight == 500.0


@pytest.mark.statistical
def test_every_interval_offered_covers() -> None:
    """40 logs of each case at delta = 0.05. An exact interval misses more than 7 with probability below 1e-3, over all
    figures below 3 %; betting, time-uniform and Bernstein miss far fewer. Controls: largest weight and range as they
    occur in the log miss more with rare actions and with jackpots."""
    limit = int(stats.binom.ppf(0.999, 40, 0.05))
    for case in CASES.values():
        found = coverage_of_cases({"": case}, 40)[""]
        assert {"IPS betting", "IPS time_uniform", "IPS bernstein", "DR betting", "DR time_uniform"} == set(found)
        for name, (covered, _) in found.items():
            assert 40 * (1 - covered) <= limit, (case, name, covered)
    seen = coverage_of_cases({name: CASES[name] for name in ("rare action", "jackpots")}, 40, seen=True)
    assert all(40 * (1 - row["IPS bernstein"][0]) > limit for row in seen.values())


@pytest.mark.statistical
def test_betting_holds_at_all_times_and_controls_are_caught() -> None:
    """60 adaptive logs, checked at 8 times up to 3,000 rounds, at delta = 0.05: an exact sequence would ever miss in
    more than 9 with probability below 1e-3. Controls: rewards without importance weights, and the threshold 2 / 0.99
    in place of 2 / delta."""
    limit = int(stats.binom.ppf(0.999, 60, 0.05))
    assert looks(60, 0.05, n_looks=8) <= limit
    assert looks(60, 0.05, n_looks=8, weighted=False) > 50
    assert looks(60, 0.99, n_looks=8) > limit


@pytest.mark.statistical
def test_a_policy_that_the_log_does_not_support_is_still_covered() -> None:
    """The policy takes action 1, which the log takes in half of the contexts only. E w = 1/2, and the value stays in
    the interval: 50 logs, at most 9 misses at delta 0.05 (probability below 1e-3 if exact)."""
    rng, misses = np.random.default_rng(0), 0
    for _ in range(50):
        can = rng.random(400) < 0.5
        takes = can & (rng.random(400) < 0.5)
        rewards = (rng.random(400) < np.where(can, 0.9, 0.2)).astype(float)
        p = np.where(can, 0.5, 1.0)
        misses += not ips(Evaluation(rewards, p, takes.astype(float), (0.0, 1.0))).betting().contains(0.55)
    assert misses <= 9


def test_the_direct_method_on_a_journal_is_the_one_on_the_same_table(tmp_path: Path) -> None:
    """Every decision of a journal with prompt rewards has an even event number: folds by number had one half empty,
    DM was 0 for every policy and DR was IPS."""
    journal, table = dm_of_a_journal(tmp_path / "shop.db", 300, 0)
    assert abs(journal.value - table.value) < 3 * table.standard_error
    assert journal.value > 0.4
    with equipoise.open(tmp_path / "two.db", Portfolio([UCB(2)], explore=0.5)) as live:
        for t in range(60):
            live.learn(live.decide(None), float(t % 2))
    found = evaluate(open_log(tmp_path / "two.db", n_actions=2), always(1), reward_range=(0, 1))
    assert dm(found).value > 0.1 and dr(found).value != ips(found).value
    assert ips(found).interval().name == "betting" and dr(found).interval().name == "bootstrap"


def test_cases_have_their_stated_value() -> None:
    """Within 5 standard errors of 200,000 rounds of the policy itself."""
    for name, case in CASES.items():
        drawn = case.rewards(np.random.default_rng(0), 200_000)
        assert abs(drawn.mean() - case.value) < 5 * drawn.std() / 200_000**0.5, name
