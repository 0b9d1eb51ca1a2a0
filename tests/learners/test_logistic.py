"""LogisticUCB and LogisticThompson against a posterior that a general optimizer finds, and what they refuse."""

from math import inf, isnan, log, nan, sqrt
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.features import Offers
from equipoise.kernels.marks import NATIVE
from equipoise.learners import LogisticThompson, LogisticUCB
from equipoise.learners._core.logistic import MIN_CURVATURE, evaluate_offered, posterior_mode, sigmoid
from equipoise.learners._core.ridge import new_scratch
from equipoise.types import Array


class Posterior:
    """The normal approximation with matrices, moved by a general optimizer over all entries of theta."""

    def __init__(self, dim: int, regularization: float) -> None:
        self.mean, self.precision = np.zeros(dim), regularization * np.eye(dim)

    def add(self, row: Array, share: float, weight: float) -> None:
        def loss(theta: Array) -> float:
            moved, logit = theta - self.mean, row @ theta
            return float(moved @ self.precision @ moved / 2 + weight * (np.logaddexp(0.0, logit) - share * logit))

        def gradient(theta: Array) -> Array:
            step: Array = self.precision @ (theta - self.mean) + weight * (expit(row @ theta) - share) * row
            return step

        def curvature(theta: Array) -> Array:
            p = expit(row @ theta)
            added: Array = self.precision + weight * p * (1 - p) * np.outer(row, row)
            return added

        found = minimize(loss, self.mean, jac=gradient, hess=curvature, method="trust-exact", options={"gtol": 1e-10})
        self.mean, self.precision = found.x, curvature(found.x)


def rows_in_the_ball(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random((n, 1))


@pytest.mark.parametrize("cls", [LogisticUCB, LogisticThompson])
def test_the_posterior_is_the_one_of_a_general_optimizer(cls: Any) -> None:
    """Clicks, shares between, weights (0 included), another range, columns beyond dim. Decisions follow from it."""
    dim, rng = 3, np.random.default_rng(3)
    learner, posterior = cls(dim, regularization=0.3, scale=0.8, reward_range=(2.0, 6.0)), Posterior(dim, 0.3)
    for t in range(150):
        rows = rows_in_the_ball(rng, int(rng.integers(1, 6)), dim + 2)
        proposal = learner.decide(rows, np.random.default_rng([4, t]))
        features, factor = rows[:, :dim], learner.memory.factor
        np.testing.assert_allclose(factor @ factor.T @ posterior.precision, np.eye(dim), atol=1e-6)
        np.testing.assert_allclose(learner.memory.theta, posterior.mean, atol=1e-6)
        logits = features @ posterior.mean
        if cls is LogisticUCB:
            deviations = np.sqrt(np.vecdot(features, np.linalg.solve(posterior.precision, features.T).T))
            indices, probability = logits + 0.8 * deviations, 1.0
        else:
            drawn = learner.params.directions[int(np.random.default_rng([4, t]).random() * 256)]
            indices, probability = features @ (posterior.mean + 0.8 * factor @ drawn), nan
        assert proposal.action == indices.argmax() and proposal.greedy == logits.argmax()
        assert proposal.value == pytest.approx(2.0 + 4.0 * expit(logits[proposal.action]), abs=1e-5)
        assert proposal.lower == -inf and isnan(proposal.regret)
        assert repr(proposal.probability) == repr(probability)
        share = float(rng.random()) if t % 5 == 0 else float(rng.random() < 0.2)
        weight = (1.0, 0.0, 3.5)[t % 3]
        learner.learn(rows, proposal.action, 2.0 + 4.0 * share, weight)
        if weight > 0.0:
            posterior.add(features[proposal.action], share, weight)


@settings(max_examples=300, deadline=None)
@given(st.floats(-60, 60), st.floats(-9, 9), st.floats(0, 1))
def test_the_mode_is_a_root(mean: float, log_spread: float, share: float) -> None:
    spread = 10.0**log_spread
    mode = posterior_mode(mean, spread, share)
    least, most = sorted((mean, mean + spread * (share - sigmoid(mean))))
    assert least <= mode <= most
    # The function grows by at least 1 per unit: this is the distance to the root, in units of rounding.
    slope = 1.0 + spread * sigmoid(mode) * sigmoid(-mode)
    error = mode - mean + spread * (sigmoid(mode) - share)
    assert abs(error) / slope <= 1e-10 * (1.0 + abs(mode) + abs(mean)) + 1e-15 * spread / slope


def test_the_sigmoid_overflows_nowhere() -> None:
    for x in (-1e100, -800.0, -30.0, 0.0, 2.5, 40.0, 1e100):
        assert sigmoid(x) == pytest.approx(float(expit(x)), rel=1e-14)


def test_one_outcome_for_ever_keeps_everything_finite() -> None:
    """Nothing but clicks of large weight: the curvature rounds to 0, and its floor keeps the update defined."""
    learner = LogisticUCB(2, regularization=1e-8)
    for reward in (1.0, 0.0):
        for _ in range(50):
            learner.learn([[1.0, 0.0]], 0, reward, 1e9)
    assert np.isfinite(learner.memory.theta).all() and np.isfinite(learner.memory.factor).all()
    assert learner.memory.weights[0] >= 100 * MIN_CURVATURE


def clicks(n: int, dim: int, intercept: float) -> tuple[Array, Array, Array]:
    """Rows, clicks and the true probabilities."""
    rng = np.random.default_rng(8)
    theta = np.linspace(-1.5, 1.5, dim)
    rows = np.hstack([np.full((n, 1), 0.6), rows_in_the_ball(rng, n, dim) * 0.8])
    probabilities = expit(rows[:, 1:] @ theta + intercept)
    return rows, (rng.random(n) < probabilities).astype(float), probabilities


def test_values_approach_the_click_rate() -> None:
    """8,000 rows with a click rate of 3 %. Close to the fit of all rows at once, and to the truth."""
    rows, rewards, probabilities = clicks(8_000, 4, -3.5)
    learner = LogisticUCB(5)
    for row, reward in zip(rows, rewards, strict=True):
        learner.learn(row[None, :], 0, float(reward))
    assert 0.025 < probabilities.mean() < 0.04

    def loss(theta: Array) -> float:
        logits = rows @ theta
        return float(0.05 * theta @ theta + (np.logaddexp(0.0, logits) - rewards * logits).sum())

    at_once = expit(rows @ minimize(loss, np.zeros(5)).x)
    values = np.array([learner.decide(row[None, :]).value for row in rows[:300]])
    assert np.abs(values - at_once[:300]).max() < 0.005
    assert np.abs(values - probabilities[:300]).mean() < 0.01
    assert np.abs(0.5 - probabilities[:300]).mean() > 0.4  # control: what it starts from


@pytest.mark.parametrize("cls", [LogisticUCB, LogisticThompson])
@pytest.mark.parametrize("reward", [-0.01, 1.01, -1e9])
def test_rewards_beyond_the_range_are_refused_and_change_nothing(cls: Any, reward: float) -> None:
    learner = cls(2, name="mine")
    learner.learn([[0.5, 0.5]], 0, 1.0)
    before = learner.state()
    with pytest.raises(InvalidArgument, match=rf"reward is {reward}, but must lie in \[0, 1\] for mine"):
        learner.learn([[0.5, 0.5]], 0, reward)
    assert all(np.array_equal(array, before[name]) for name, array in learner.state().items())


def test_pmf_counts_the_decisions_of_all_directions() -> None:
    rng, learner = np.random.default_rng(9), LogisticThompson(4, scale=0.7)
    for _ in range(60):
        learner.learn(rows_in_the_ball(rng, 1, 4), 0, float(rng.random() < 0.3))
    actions, n = rows_in_the_ball(rng, 6, 5), len(learner.params.directions)
    counts = np.zeros(6, int)
    for m in range(n):
        counts[learner.decide(actions, Mock(random=lambda m=m: (m + 0.5) / n)).action] += 1
    np.testing.assert_array_equal(learner.pmf(actions), counts / n)
    assert np.count_nonzero(counts) > 2
    mask = np.array([True, False, True] * 2)
    masked = learner.pmf(Offers(actions, mask=mask))
    np.testing.assert_array_equal(masked[mask], learner.pmf(actions[mask]))
    assert masked.sum() == 1.0 and not masked[~mask].any()


def test_rare_clicks_narrow_the_logit_by_their_variance() -> None:
    """n rows with the rate p: the standard deviation of the logit is near 1 / sqrt(n p (1 - p)); 1 / sqrt(n) is far."""
    learner, n, p = LogisticUCB(1), 4_000, 0.03
    for t in range(n):
        learner.learn([[1.0]], 0, float(3 * t % 100 >= 97))
    deviation = float(abs(learner.memory.factor[0, 0]))
    assert deviation == pytest.approx(1 / sqrt(n * p * (1 - p)), rel=0.05)
    assert learner.memory.theta[0] == pytest.approx(log(p / (1 - p)), abs=0.05)


@pytest.mark.parametrize("dim", [1, 5])
def test_the_native_twin_agrees_with_the_interpreted_kernel(dim: int) -> None:
    rng, learner = np.random.default_rng(10), LogisticUCB(dim)
    for _ in range(30):
        learner.learn(rows_in_the_ball(rng, 1, dim), 0, float(rng.random()))
    memory, rows = learner.memory._replace(scratch=new_scratch(dim, 4)), rows_in_the_ball(rng, 4, dim + 1)
    for action in range(4):
        native = NATIVE[evaluate_offered](memory, rows, action)
        assert native == pytest.approx(evaluate_offered(memory, rows, action), rel=1e-12, abs=1e-14)


def test_name_and_refusals() -> None:
    assert LogisticUCB(4, scale=0.5).name == "LogisticUCB(d=4, scale=0.5)"
    for cls, more, message in (
        (LogisticThompson, {"dim": 1001}, "dim is 1001, but must be at most 1000 for LogisticThompson"),
        (LogisticUCB, {"dim": 2, "scale": -1.0}, "scale is -1.0, but must be positive, at least 1e-100"),
        (LogisticUCB, {"dim": 2, "regularization": 1e-9}, "regularization is 1e-09, but must be at least"),
    ):
        made: Any = cls
        with pytest.raises(InvalidArgument, match=message):
            made(**more)
    unknown: Any = {"norm_bound": 1.0}  # of linear learners: nothing here follows from it
    with pytest.raises(UnknownSetting, match="setting of LogisticUCB 'norm_bound' is unknown"):
        LogisticUCB(2, **unknown)
