"""Off-policy estimates and their intervals: against formulas written out by hand, and against known truth."""

from dataclasses import replace
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from equipoise.errors import InvalidArgument
from equipoise.logs import from_arrays
from equipoise.logs.estimators import (
    ESTIMATORS,
    Evaluation,
    clipped_ips,
    difference,
    dm,
    dr,
    ips,
    logged,
    snips,
    switch_dr,
)
from equipoise.logs.intervals import MAX_BLOCKS, bernstein, bootstrap, time_uniform
from equipoise.logs.models import Ridge, evaluate, uniform
from equipoise.logs.rounds import contexts, take
from tests.logs.generate import linear_truth

unit = st.floats(0, 1)
rounds = st.lists(
    st.tuples(unit, st.floats(0.05, 1), unit, unit, unit, st.floats(1, 5)),
    min_size=1,
    max_size=20,
)


def evaluation_of(rows: list[tuple[float, ...]], **changes: Any) -> Evaluation:
    r, p, pi, q, q_pi, g = (np.array(column) for column in zip(*rows, strict=True))
    settings = {"predicted": q, "predicted_policy": q_pi, "round_weights": g, "reward_range": (0.0, 1.0), **changes}
    return Evaluation(r, p, pi, **settings)


@given(rounds)
def test_estimators_are_the_formulas_of_their_papers(rows: list[tuple[float, ...]]) -> None:
    evaluation, n = evaluation_of(rows), sum(row[-1] for row in rows)

    def total(term: Any) -> float:
        return sum(g * term(pi / p, r, q, q_pi) for r, p, pi, q, q_pi, g in rows)

    expected = {
        "IPS": total(lambda w, r, q, q_pi: w * r) / n,
        "clipped IPS": total(lambda w, r, q, q_pi: min(w, 10.0) * r) / n,
        "DM": total(lambda w, r, q, q_pi: q_pi) / n,
        "DR": total(lambda w, r, q, q_pi: q_pi + w * (r - q)) / n,
        "SWITCH-DR": total(lambda w, r, q, q_pi: q_pi + (w * (r - q) if w <= 10.0 else 0.0)) / n,
    }
    weights = total(lambda w, r, q, q_pi: w)
    if weights > 0:
        expected["SNIPS"] = total(lambda w, r, q, q_pi: w * r) / weights
    for name, value in expected.items():
        estimate = ESTIMATORS[name](evaluation)
        assert estimate.value == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert estimate.terms.mean() == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert np.isnan(snips(evaluation).value) == (weights == 0)


@given(rounds)
def test_terms_lie_in_their_stated_range(rows: list[tuple[float, ...]]) -> None:
    """Otherwise the intervals that need a range would raise an error. They contain the value as far as it is
    possible."""
    evaluation = evaluation_of(rows, round_weights=None, max_weight=20.0)
    for estimate in (ips(evaluation), dr(evaluation), logged(evaluation)):
        found = (
            [estimate.time_uniform(), estimate.bernstein()]
            if estimate.estimator == "IPS"
            else [estimate.time_uniform()]
        )
        for low, high in found:
            assert low - 1e-12 <= min(max(estimate.value, 0.0), 1.0) <= high + 1e-12


def test_diagnostics() -> None:
    evaluation = Evaluation(np.ones(4), np.full(4, 0.5), np.array([1.0, 0.0, 0.5, 0.0]))
    assert evaluation.weights.tolist() == [2.0, 0.0, 1.0, 0.0]
    assert evaluation.effective_sample_size == pytest.approx(9 / 5)
    assert evaluation.unsupported_share == 0.25
    same = Evaluation(np.ones(4), np.full(4, 0.5), np.full(4, 0.5))
    assert (same.effective_sample_size, same.unsupported_share) == (4.0, 0.0)


def test_paired_differences_cancel_what_is_shared() -> None:
    """A policy that differs from the log in one round only has a difference without the noise of the others."""
    rng = np.random.default_rng(0)
    rewards, p = rng.random(1_000), np.full(1_000, 0.5)
    probabilities = p.copy()
    probabilities[0] = 1.0
    evaluation = Evaluation(rewards, p, probabilities)
    paired = difference(ips(evaluation), logged(evaluation))
    assert paired.value == pytest.approx(rewards[0] / 1_000)
    assert paired.standard_error < 0.1 * ips(evaluation).standard_error
    with pytest.raises(InvalidArgument, match="estimates are of 1000 and 3 rounds, but must be of the same"):
        difference(paired, ips(Evaluation(rewards[:3], p[:3], p[:3])))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"propensities": np.array([0.5, 0.0])}, r"propensities\[1\] is 0, but must lie in \(0, 1\]"),
        ({"propensities": np.array([1.5, 0.5])}, r"propensities\[0\] is 1.5, but must lie in \(0, 1\]"),
        ({"propensities": np.array([0.5, np.nan])}, r"propensities\[1\] is nan, but must lie in \(0, 1\]"),
        ({"probabilities": np.array([0.5, 1.5])}, r"probabilities\[1\] is 1.5, but must lie in \[0, 1\]"),
        ({"rewards": np.array([np.nan, 1.0])}, r"rewards\[0\] is nan, but must be finite"),
        ({"rewards": np.empty(0), "propensities": np.empty(0), "probabilities": np.empty(0)}, "rewards is empty"),
        ({"round_weights": np.array([1.0, 0.0])}, r"round_weights\[1\] is 0, but must be positive"),
        ({"reward_range": (0.0, 0.5)}, r"rewards\[0\] is 1, but must lie in the reward_range \(0.0, 0.5\)"),
        ({"max_weight": 0.5}, r"weights\[0\] is 1, but must be at most max_weight 0.5"),
        ({"probabilities": np.array([0.5])}, "probabilities has shape \\(1,\\), but must have one entry for each of 2"),
        ({"reward_range": (1.0, 0.0)}, "reward_range is \\(1.0, 0.0\\)"),
    ],
)
def test_bad_evaluations(changes: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"rewards": np.ones(2), "propensities": np.full(2, 0.5), "probabilities": np.full(2, 0.5)}
    assert ips(Evaluation(**valid)).value == 1.0
    with pytest.raises(InvalidArgument, match=message):
        Evaluation(**{**valid, **changes})


def test_bad_intervals() -> None:
    plain = Evaluation(np.ones(2), np.full(2, 0.5), np.full(2, 0.5))
    with pytest.raises(InvalidArgument, match="predicted and predicted_policy are None"):
        dr(plain)
    with pytest.raises(InvalidArgument, match="bernstein is not offered for SNIPS: the estimator is biased"):
        snips(plain).bernstein()
    with pytest.raises(InvalidArgument, match="terms has entries from 0 to 2, but they must lie in 0 to 1"):
        bernstein(np.array([0.0, 2.0]), (0.0, 1.0))
    with pytest.raises(InvalidArgument, match="terms is empty"):
        time_uniform(np.empty(0), (0.0, 1.0))
    with pytest.raises(InvalidArgument, match=r"delta is 1.5, but must lie in \(0, 1\)"):
        bernstein(np.zeros(3), (0.0, 1.0), 1.5)
    with pytest.raises(InvalidArgument, match="max_weight is 0"):
        clipped_ips(plain, 0)


def test_bernstein_is_theorem_4_of_maurer_and_pontil() -> None:
    terms = np.array([0.0, 0.5, 1.0, 0.25] * 500)
    n, level = 2_000, log(2 / 0.025)
    variance = sum((a - b) ** 2 for a in terms[:4] for b in terms[:4]) / 2 / 16 * n / (n - 1)
    radius = sqrt(2 * variance * level / n) + 7 * level / (3 * (n - 1))
    assert list(bernstein(terms, (0.0, 1.0), 0.05)) == pytest.approx([0.4375 - radius, 0.4375 + radius])
    assert bernstein(np.array([0.3]), (0.0, 1.0)) == (0.0, 1.0)


def test_time_uniform_by_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    terms = rng.random(300) * 2.0
    spread, total = 0.0, 0.0
    for t, term in enumerate(terms):
        spread += (term - (total / t if t else 1.0)) ** 2
        total += term
    width, level, variance = 2.0, log(5.2 / 0.025), max(4.0, spread)
    iterated = log(log(2 * variance / width**2))
    radius = 1.7 * sqrt(variance * (iterated + 0.72 * level)) + width * (1.4 * iterated + level)
    expected = [max(0.0, (total - radius) / 300), min(2.0, (total + radius) / 300)]
    assert list(time_uniform(terms, (0.0, 2.0), 0.05)) == pytest.approx(expected)


def test_bootstrap_of_blocks() -> None:
    """Blocks change neither the value nor, for independent rounds, the width by more than a fifth."""
    rng = np.random.default_rng(2)
    terms, ones = rng.random(3 * MAX_BLOCKS), np.ones(3 * MAX_BLOCKS)
    low, high = bootstrap(terms, ones, resamples=200)
    assert low < terms.mean() < high
    normal = 2 * 1.96 * terms.std() / sqrt(len(terms))
    assert 0.8 < (high - low) / normal < 1.2
    assert bootstrap(terms, ones, resamples=50) == bootstrap(terms, ones, resamples=50)


def target(contexts: np.ndarray) -> np.ndarray:
    """A fixed stochastic policy that prefers the largest last feature."""
    scores = np.exp(1.5 * contexts[:, :, -1])
    return scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.statistical
def test_estimates_of_known_truth() -> None:
    """300 logs of 400 rounds: IPS, DR and (well specified) DM have no bias beyond 4.5 standard errors, one error in
    1e5 each; Bernstein and time-uniform intervals at delta 0.1 miss in at most the 99.9 % quantile of a binomial.
    Negative control: with propensities that are wrong by a factor, IPS is off by more than 4.5 standard errors."""
    values: dict[str, list[float]] = {name: [] for name in ("IPS", "DR", "DM", "wrong")}
    misses = {"bernstein": 0, "time uniform": 0}
    n_logs = 300
    for seed in range(n_logs):
        truth = linear_truth(400, seed)
        policy = target(truth.contexts)
        value = float((policy * truth.means).sum(axis=1).mean())
        evaluation = evaluate(truth.log(), lambda batch: target(batch.offers))
        for name in ("IPS", "DR", "DM"):
            values[name].append(ESTIMATORS[name](evaluation).value - value)
        wrong = np.minimum(truth.propensities * 1.2, 1.0)
        values["wrong"].append(ips(Evaluation(truth.rewards, wrong, evaluation.probabilities)).value - value)
        bounded = ips(replace(evaluation, reward_range=(0.0, 1.0), max_weight=10.0))
        misses["bernstein"] += not bounded.bernstein(0.1).contains(value)
        misses["time uniform"] += not bounded.time_uniform(0.1).contains(value)
    scores = {name: float(np.mean(x) / stats.sem(x)) for name, x in values.items()}
    assert abs(scores["IPS"]) < 4.5 and abs(scores["DR"]) < 4.5
    assert abs(np.mean(values["DM"])) < 0.01  # ridge shrinks a little
    assert abs(scores["wrong"]) > 4.5
    assert np.std(values["DR"]) < np.std(values["IPS"])
    limit = stats.binom.ppf(0.999, n_logs, 0.1)
    assert all(count <= limit for count in misses.values()), misses


@pytest.mark.statistical
def test_the_bias_of_snips_shrinks_as_1_over_n() -> None:
    """40,000 logs: n times the bias is -E[w^2 (r - V)], the first term of its expansion, within 4 standard errors at
    n = 200 (one error in 1e4); and it is not zero, so that the test can fail."""
    rng, n = np.random.default_rng(5), 200
    action = rng.random((40_000, n)) < 0.2
    w, means = np.where(action, 0.9 / 0.2, 0.1 / 0.8), np.where(action, 0.9, 0.1)
    value = 0.9 * 0.9 + 0.1 * 0.1
    errors = (w * (rng.random(w.shape) < means)).sum(axis=1) / w.sum(axis=1) - value
    expected = -(0.2 * 4.5**2 * (0.9 - value) + 0.8 * 0.125**2 * (0.1 - value))
    scaled, error = n * errors.mean(), n * stats.sem(errors)
    assert abs(scaled - expected) < 4 * error
    assert abs(scaled) > 4 * error


@pytest.mark.statistical
def test_an_interval_that_is_valid_at_one_time_only_fails_at_all_times() -> None:
    """Negative control of the time-uniform interval: looking at every hundredth round, Bernstein at delta = 0.1 with a
    vanishing range term would miss; the time-uniform one misses in no more than the 99.9 % quantile of a binomial."""
    rng = np.random.default_rng(6)
    n_logs, misses, peeking = 200, 0, 0
    for _ in range(n_logs):
        terms = (rng.random(3_000) < 0.3).astype(float)
        times = range(100, 3_001, 100)
        misses += any(not time_uniform(terms[:t], (0.0, 1.0), 0.1).contains(0.3) for t in times)
        deviations = [abs(terms[:t].mean() - 0.3) / (terms[:t].std() / sqrt(t)) for t in times]
        peeking += max(deviations) > stats.norm.ppf(0.95)
    limit = stats.binom.ppf(0.999, n_logs, 0.1)
    assert misses <= limit < peeking


def test_ridge_by_the_normal_equations() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.random((50, 3)), rng.random(50)
    model = Ridge(3, regularization=0.5)
    model.learn(x[:20], y[:20])
    model.learn(x[20:], y[20:])
    model.fit()
    rows = np.hstack([x, np.ones((50, 1))])
    theta = np.linalg.inv(rows.T @ rows + np.diag([0.5, 0.5, 0.5, 1e-6])) @ rows.T @ y
    np.testing.assert_allclose(model.predict(x), rows @ theta, rtol=1e-9)
    with pytest.raises(InvalidArgument, match="dim is 5000, but must be at most 4000"):
        Ridge(5_000)


def test_a_prediction_depends_on_earlier_rounds_only() -> None:
    """Changing the rewards from round 60 on changes no prediction up to round 60, and most of those after it."""
    truth = linear_truth(100, 4)
    one = evaluate(truth.log(), uniform)
    later = np.arange(100) >= 60
    changed = truth._replace(rewards=np.where(later, 1.0 - truth.rewards, truth.rewards))
    other = evaluate(changed.log(), uniform)
    assert one.predicted is not None and other.predicted is not None
    np.testing.assert_array_equal(one.predicted[:61], other.predicted[:61])
    assert (one.predicted[67:] != other.predicted[67:]).all()


def test_predictions_by_a_plain_loop_whatever_the_batches() -> None:
    """A fit of the rounds so far whenever they have grown by a tenth."""
    truth = linear_truth(90, 2)
    found = evaluate(truth.log(), uniform)
    (batch,) = truth.log()
    model, expected, fitted = Ridge(3), list[float](), 0
    for t in range(90):
        if t >= fitted + 1 + fitted // 10:
            model, fitted = Ridge(3), t
            model.learn(truth.contexts[np.arange(t), truth.actions[:t]], truth.rewards[:t])
            model.fit()
        expected.append(float(model.predict(truth.contexts[t, truth.actions[t]])))
    assert found.predicted is not None
    np.testing.assert_allclose(found.predicted, np.array(expected), rtol=1e-9, atol=1e-12)
    pieces, whole = Ridge(3), contexts(batch)
    parts = [pieces.follow(whole[which], take(batch, which)) for which in (np.arange(90) < 37, np.arange(90) >= 37)]
    own = np.concatenate(parts)[np.arange(90), truth.actions]
    np.testing.assert_allclose(own, np.array(expected), rtol=1e-9, atol=1e-12)


def test_policies_are_checked() -> None:
    log = from_arrays(None, [0, 1], [1.0, 0.0], [0.5, 0.5])
    with pytest.raises(InvalidArgument, match=r"policy returned shape \(2, 3\), but must return \(2, 2\)"):
        evaluate(log, lambda batch: np.full((2, 3), 1 / 3))
    rule = r"policy returned \[0.6 0.6\] in row 1, but must return nonnegative probabilities of the 2 offered actions"
    with pytest.raises(InvalidArgument, match=rule):
        evaluate(log, lambda batch: np.full((2, 2), 0.6))
    with pytest.raises(InvalidArgument, match=r"\[nan  1.\] in row 2"):
        evaluate(log, lambda batch: np.array([[0.0, 1.0], [np.nan, 1.0]]))
    lacking = from_arrays(None, [0, 0], [1.0, 0.0], [1.0, 1.0], pmf=np.array([[1.0, 0.0], [1.0, 0.0]]))
    rule = "policy takes action 1 in row 1 with probability 0.5, but the log says that it never takes it there"
    with pytest.raises(InvalidArgument, match=rule):
        evaluate(lacking, uniform)
    with pytest.raises(InvalidArgument, match=r"reward_range is \(0.0, 0.5\), but the log has rewards from 0 to 1"):
        evaluate(log, uniform, reward_range=(0.0, 0.5))
    assert dm(evaluate(log, uniform)).value == pytest.approx(switch_dr(evaluate(log, uniform)).value, abs=1.0)
