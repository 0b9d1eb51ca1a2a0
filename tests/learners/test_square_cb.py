"""SquareCB and MisspecificationAdaptive: their probabilities, weights and regressions against slow references."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import MisspecificationAdaptive
from equipoise.learners import SquareCB
from equipoise.learners.square_cb import inverse_gap_weights
from tests.square_cb_reference import naive_distribution, naive_draw, unit_rows, weighted_solve


@given(
    means=st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=8),
    rate=st.floats(0.0, 1e6),
)
def test_inverse_gaps_are_a_distribution_that_favors_the_best(means: list[float], rate: float) -> None:
    probabilities = inverse_gap_weights(np.array(means), int(np.argmax(means)), rate, 1.0)
    clipped = np.clip(means, 0.0, 1.0)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert probabilities.min() > 0.0
    assert probabilities[int(np.argmax(means))] >= probabilities.max() - 1e-12
    best = int(np.argmax(means))
    expected = 1 / (len(means) + rate * (clipped.max() - clipped))
    np.testing.assert_allclose(np.delete(probabilities, best), np.delete(expected, best), rtol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"scale": 4.0, "misspecification": 0.2, "reward_range": (-1.0, 1.0)}])
def test_decisions_are_those_of_the_naive_reference(settings: dict) -> None:
    """Everything is computed afresh each round from all rows; K changes, and columns beyond dim are ignored."""
    dim, rng = 3, np.random.default_rng(51)
    learner = SquareCB(dim, norm_bound=1.5, regularization=0.5, delta=0.05, **settings)
    low, high = settings.get("reward_range", (0.0, 1.0))
    scale, eps, width = settings.get("scale", 1.0), settings.get("misspecification", 0.0), high - low
    rows, rewards = np.zeros((0, dim)), np.zeros(0)
    for t in range(1, 201):
        actions = unit_rows(rng, int(rng.integers(1, 7)), dim + 2)
        proposal = learner.decide(actions, np.random.default_rng([52, t]))
        sigma, theta = weighted_solve(rows, rewards, np.ones(len(rows)), 0.5)
        regret = 0.5 * 1.5**2 + width**2 * np.linalg.slogdet(sigma / 0.5)[1]
        gamma = scale * sqrt(len(actions) * t / (regret + width**2 * log(2 / 0.05) + eps**2 * t))
        expected = naive_distribution(np.clip(actions[:, :dim] @ theta, 0.0, width), gamma)
        assert proposal.action == naive_draw(expected, np.random.default_rng([52, t]).random())
        assert proposal.probability == pytest.approx(expected[proposal.action], rel=1e-9)
        reward = float(rng.uniform(low, high))
        learner.learn(actions, proposal.action, reward)
        rows, rewards = np.vstack([rows, actions[proposal.action, :dim]]), np.append(rewards, reward - low)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SquareCB, MisspecificationAdaptive])
def test_actions_are_drawn_with_the_probability_that_is_reported(cls: type) -> None:
    """20,000 draws against the reported probabilities; right ones fail with probability 1e-6. The learner's own stream
    is used, and uniform draws (negative control) are told apart."""
    rng = np.random.default_rng(53)
    learner = cls(2, seed=7) if cls is SquareCB else cls(2, arms=4, rounds=1000, seed=7)
    for _ in range(60):
        actions = unit_rows(rng, 4, 2)
        action = int(rng.integers(4))
        learner.learn(actions, action, float(np.clip(0.5 + 0.5 * actions[action, 0], 0.0, 1.0)))
    actions = unit_rows(rng, 4, 2)
    proposals = [learner.decide(actions) for _ in range(20_000)]
    counts = np.bincount([proposal.action for proposal in proposals], minlength=4)
    probabilities = np.array([next(p.probability for p in proposals if p.action == k) for k in range(4)])
    assert probabilities.sum() == pytest.approx(1.0)
    assert chisquare(counts, 20_000 * probabilities).pvalue > 1e-6
    assert chisquare(counts).pvalue < 1e-6


def square_loss_regret(seed: int, regularization: float) -> tuple[float, float, float]:
    """(what clipped predictions lost against the best parameter, lambda ||theta||^2, w^2 ln det) on a random stream."""
    rng = np.random.default_rng(seed)
    dim, n = 3, 60
    learner = SquareCB(dim, regularization=regularization)
    rows = np.hstack([np.ones((n, 1)), unit_rows(rng, n, dim - 1)]) / sqrt(2)
    rewards, loss = (rng.random(n) < 0.5 + 0.6 * rows[:, 1]).astype(float), 0.0
    for row, reward in zip(rows, rewards, strict=True):
        loss += (np.clip(row @ learner.memory.theta, 0.0, 1.0) - reward) ** 2
        learner.learn(row[None, :], 0, float(reward))
    _, theta = weighted_solve(rows, rewards, np.ones(n), regularization)
    best = float(((rows @ theta - rewards) ** 2).sum())
    return loss - best, regularization * float(theta @ theta), float(learner.memory.log_determinant[0])


@given(seed=st.integers(0, 2**32), regularization=st.floats(1e-2, 1e2))
def test_the_square_loss_regret_is_bounded_as_stated(seed: int, regularization: float) -> None:
    lost, penalty, log_determinant = square_loss_regret(seed, regularization)
    assert lost <= penalty + log_determinant + 1e-9


def test_the_square_loss_regret_needs_its_determinant() -> None:
    """Negative control: without that term the bound fails."""
    lost, penalty, _ = square_loss_regret(1, 1e-2)
    assert lost > penalty


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (SquareCB, {"dim": 2, "misspecification": -0.1}, r"misspecification is -0.1, but must not be negative"),
        (SquareCB, {"dim": 2, "scale": 0.0}, r"scale is 0.0, but must be positive"),
        (SquareCB, {"dim": 0}, r"dim is 0, but must be a whole number from 1"),
        (MisspecificationAdaptive, {"dim": 2, "arms": 0, "rounds": 9}, r"arms is 0, but must be a whole number from 1"),
        (MisspecificationAdaptive, {"dim": 2, "arms": 3, "rounds": 0}, r"rounds is 0, but must be a whole number"),
    ],
)
def test_bad_settings_are_refused(cls: type, settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cls(**settings)
