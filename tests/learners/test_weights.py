"""Importance-weighted updates: what a weight means to each learner, against direct formulas and by simulation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.learner import accepts
from equipoise.learners import (
    LEARNERS,
    OFUL,
    UCB,
    Constant,
    DisjointOFUL,
    EpsilonGreedy,
    LinearThompson,
    LogisticThompson,
    LogisticUCB,
    QLearning,
)
from equipoise.learners._core.ridge import Ellipsoid, ellipsoid_radius, new_ridge, update
from equipoise.learners._core.trajectory import Trajectory

WEIGHTED: dict[str, Any] = {
    "OFUL": lambda: OFUL(3),
    "UCB": lambda: UCB(4),
    "EpsilonGreedy": lambda: EpsilonGreedy(4, epsilon=0.1),
    "LinearThompson": lambda: LinearThompson(3),
    "LogisticUCB": lambda: LogisticUCB(3),
    "LogisticThompson": lambda: LogisticThompson(3),
    "Constant": lambda: Constant(1),
    "DisjointOFUL": lambda: DisjointOFUL(3, arms=4),
}


def offered(rng: np.random.Generator) -> Any:
    actions = rng.standard_normal((4, 5))
    return actions / np.linalg.norm(actions, axis=1, keepdims=True)


def test_every_learner_that_accepts_weights_is_tested_here() -> None:
    assert {name for name, cls in LEARNERS.items() if "weight" in cls.accepts} == set(WEIGHTED)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_one_is_a_plain_update_and_weight_zero_is_none(name: str) -> None:
    plain, told = WEIGHTED[name](), WEIGHTED[name]()
    rng = np.random.default_rng(3)
    for t in range(40):
        actions, action, reward = offered(rng), int(rng.integers(4)), float(rng.random())
        if t % 3 == 0:
            told.learn(actions, action, 0.0, 0.0)
        plain.learn(actions, action, reward)
        told.learn(actions, action, reward, 1.0)
    for key, array in plain.state().items():
        np.testing.assert_array_equal(array, told.state()[key])


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "2"])
def test_bad_weight_is_refused_and_changes_nothing(name: str, weight: Any) -> None:
    learner = WEIGHTED[name]()
    before = learner.state()
    with pytest.raises(InvalidArgument, match="weight is"):
        learner.learn(offered(np.random.default_rng(0)), 0, 0.5, weight)
    for key, array in learner.state().items():
        np.testing.assert_array_equal(array, before[key])


def test_learner_without_weights_says_so() -> None:
    learner = QLearning(2, 2, horizon=1, episodes=10)
    assert "weight" not in accepts(learner)
    episode = Trajectory(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))
    with pytest.raises(InvalidArgument, match=r"weight is 2.0, but must be 1 for Q-learning\(c=1\)"):
        learner.learn(0, episode, 0.5, 2.0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5), st.integers(1, 25), st.integers(0, 10**6))
def test_weighted_rows_are_weighted_least_squares(dim: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, rewards = rng.standard_normal((n, dim)), rng.standard_normal(n)
    weights = np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.uniform(0.0, 6.0, n)))
    ridge = new_ridge(dim, 0.7)
    for row, reward, weight in zip(rows, rewards, weights, strict=True):
        update(ridge, row, float(reward), float(weight))
    sigma = 0.7 * np.eye(dim) + (rows.T * weights) @ rows
    np.testing.assert_allclose(ridge.factor @ ridge.factor.T, np.linalg.inv(sigma), rtol=1e-7, atol=1e-10)
    theta = np.linalg.solve(sigma, rows.T @ (weights * rewards))
    np.testing.assert_allclose(ridge.theta, theta, rtol=1e-7, atol=1e-8)
    log_determinant = np.linalg.slogdet(sigma)[1] - dim * np.log(0.7)
    assert ridge.log_determinant[0] == pytest.approx(log_determinant, rel=1e-9, abs=1e-9)
    assert ridge.weights[0] == pytest.approx(weights.sum())
    assert ridge.weights[1] == weights.max()


def test_ellipsoid_of_weighted_rows_follows_its_formula() -> None:
    """Greatest weight 5: level 3, so rho = 8 and a share delta / 12."""
    ridge, row = new_ridge(1, 1.0), np.array([1.0])
    for weight in (1.0, 5.0, 2.0):
        update(ridge, row, 0.5, weight)
    expected = 0.5 * np.sqrt(8 * (np.log(9.0) + 2 * np.log(12 / 0.01))) + 0.3
    assert ellipsoid_radius(Ellipsoid(0.5, 2 * np.log(1 / 0.01), 0.3), ridge) == pytest.approx(expected, rel=1e-12)


def weighted_sums(rng: np.random.Generator, n_runs: int, n_plays: int) -> tuple[Any, Any, Any]:
    """Weighted noise of Rademacher rewards (sub-Gaussian factor 1) with weights that react to the past: after a win
    the next play counts 16 times. Returns sum w e, sum w, sum w^2 of every run and play."""
    noise = rng.choice([-1.0, 1.0], (n_runs, n_plays))
    weights = np.ones_like(noise)
    weights[:, 1:] = np.where(noise[:, :-1] > 0, 16.0, 1.0)
    return (weights * noise).cumsum(1), weights.cumsum(1), (weights**2).cumsum(1)


@pytest.mark.slow
def test_weighted_intervals_of_ucb_hold_and_would_not_if_weights_were_plays() -> None:
    """An upper side fails in at most a share alpha = 0.05 of 2,000 runs: more than 150 failures (mean 100, deviation
    9.7) have probability below 1e-6 if the claim is true. Counting weights as plays, D(sum w) / sum w, is the
    negative control."""
    from equipoise.confidence import radius_sum, stitched

    radius = stitched(1.0, 0.05, 1.0)
    sums, totals, squares = weighted_sums(np.random.default_rng(11), 2000, 300)
    widths = np.vectorize(lambda n: radius_sum(radius, n))
    assert (sums > widths(squares)).any(1).sum() <= 150
    assert (sums > widths(totals)).any(1).sum() > 600

    learner = UCB(1, noise=1.0, delta=0.1)
    for reward, weight in ((1.0, 1.0), (-1.0, 16.0), (1.0, 4.0)):
        learner.learn(None, 0, reward, weight)
    assert learner.memory.mean_uppers[0] == pytest.approx((1 - 16 + 4) / 21 + radius_sum(radius, 273.0) / 21)


def test_weighted_mean_of_epsilon_greedy() -> None:
    learner = EpsilonGreedy(2, epsilon=0.0)
    for reward, weight in ((1.0, 2.0), (0.0, 6.0)):
        learner.learn(None, 0, reward, weight)
    learner.learn(None, 1, 0.5)
    assert learner.memory.mean_rewards.tolist() == [0.25, 0.5]
    assert learner.decide(None, np.random.default_rng(0)).action == 1
