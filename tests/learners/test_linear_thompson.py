"""LinearThompson: the law of its draws, its decisions given the draws, and what it states about them."""

from math import isnan, log, sqrt

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import NATIVE
from equipoise.learners import LinearThompson
from equipoise.learners import linear_thompson as module
from equipoise.learners._core.ridge import new_scratch
from equipoise.learners.linear_thompson import draw
from equipoise.types import Array


def unit_rows(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def taught(dim: int, n: int = 30, **settings) -> tuple[LinearThompson, Array, Array]:
    """A learner after n rows, with the rows and their rewards."""
    rng = np.random.default_rng(31)
    learner = LinearThompson(dim, **settings)
    rows, rewards = unit_rows(rng, n, dim) * 0.9, rng.random(n)
    for row, reward in zip(rows, rewards, strict=True):
        learner.learn(row[None, :], 0, float(reward))
    return learner, rows, rewards


def test_draws_have_the_right_mean_and_covariance() -> None:
    """20,000 draws, brought to the standard normal law by a Cholesky factor of Sigma computed from the rows.

    Then n ||mean||^2 has a chi-square law with d degrees, and each entry of the covariance is within 6 standard errors
    (1 / sqrt n off the diagonal, sqrt(2 / n) on it). Right draws fail with probability below 1e-6.
    """
    dim, n, spread = 4, 20_000, 0.7
    learner, rows, rewards = taught(dim)
    sigma = np.eye(dim) + rows.T @ rows
    theta = np.linalg.solve(sigma, rows.T @ rewards)
    rng = np.random.default_rng(32)
    draws = np.array([draw(learner.memory, spread, rng) for _ in range(n)])
    standard = (draws - theta) / spread @ np.linalg.cholesky(sigma)
    assert chi2.sf(n * (standard.mean(axis=0) ** 2).sum(), dim) > 1e-7
    errors = np.abs(np.cov(standard.T) - np.eye(dim)) * sqrt(n)
    assert (errors < 6 * np.where(np.eye(dim) == 1, sqrt(2), 1)).all()


def test_draws_of_another_spread_would_be_noticed() -> None:
    """Negative control: draws 10 % too wide leave the bounds of the test above."""
    learner, rows, _ = taught(4)
    rng = np.random.default_rng(32)
    draws = np.array([draw(learner.memory, 0.77, rng) for _ in range(20_000)])
    standard = (draws - learner.memory.theta) / 0.7 @ np.linalg.cholesky(np.eye(4) + rows.T @ rows)
    errors = np.abs(np.cov(standard.T) - np.eye(4)) * sqrt(20_000)
    assert (np.diag(errors) > 6 * sqrt(2)).all()


@pytest.mark.parametrize("settings", [{}, {"scale": 0.3, "delta": 0.2, "regularization": 0.5, "norm_bound": 2.0}])
def test_decisions_are_those_of_the_naive_reference(settings: dict) -> None:
    """Sigma is solved afresh each round; the reference draws z itself from the same generator state.

    F z = (F Sigma^{1/2}) (Sigma^{-1/2} z) with F Sigma^{1/2} orthogonal, so the reference needs the learner's F for the
    very same draw; that F F^T = Sigma^{-1} is checked in every round. K changes, and columns beyond dim are ignored.
    """
    dim, rng = 3, np.random.default_rng(33)
    defaults = {"scale": 1.0, "delta": 0.01, "regularization": 1.0, "norm_bound": 2.0} | settings
    learner = LinearThompson(dim, noise=0.5, reward_range=(-1.0, 1.0), **settings)
    rows, rewards = np.zeros((0, dim)), np.zeros(0)
    for t in range(300):
        actions = unit_rows(rng, int(rng.integers(1, 7)), dim + 2)
        proposal = learner.decide(actions, np.random.default_rng([34, t]))

        sigma = defaults["regularization"] * np.eye(dim) + rows.T @ rows
        factor = learner.memory.factor
        np.testing.assert_allclose(factor @ factor.T @ sigma, np.eye(dim), atol=1e-9)
        theta = np.linalg.solve(sigma, rows.T @ rewards)
        log_ratio = np.linalg.slogdet(sigma)[1] - dim * log(defaults["regularization"])
        beta = 0.5 * sqrt(log_ratio + 2 * log(1 / defaults["delta"]))
        beta += sqrt(defaults["regularization"]) * defaults["norm_bound"]
        normal = np.random.default_rng([34, t])
        drawn = theta + defaults["scale"] * beta * factor @ [normal.standard_normal() for _ in range(dim)]
        features = actions[:, :dim]
        action = int(np.argmax(features @ drawn))
        half_widths = beta * np.sqrt(np.vecdot(features, np.linalg.solve(sigma, features.T).T))
        lower = np.clip((features @ theta - 1.0 - half_widths)[action], -1.0, 1.0)
        upper = np.clip((features @ theta - 1.0 + half_widths).max(), -1.0, 1.0)

        assert proposal.action == action
        assert proposal.lower == pytest.approx(lower, abs=1e-9)
        assert proposal.regret == pytest.approx(upper - lower, abs=1e-9)
        assert isnan(proposal.probability)
        reward = float(rng.random())
        learner.learn(actions, action, reward)
        rows, rewards = np.vstack([rows, features[action]]), np.append(rewards, reward + 1.0)


def statement_ever_broken(seed: int, noise: float) -> bool:
    """Whether, in 100 rounds, an action was worse than `lower` or lost more than `regret`; true noise factor 1/2."""
    rng = np.random.default_rng([35, seed])
    theta = np.array([0.1, 0.05])
    learner = LinearThompson(
        2, noise=noise, norm_bound=0.12, regularization=0.01, delta=0.1, scale=0.5, reward_range=(-1.0, 1.0)
    )
    for _ in range(100):
        actions = np.abs(unit_rows(rng, 4, 2))
        means = actions @ theta - 1.0  # linear above the low end of the range
        proposal = learner.decide(actions, rng)
        if proposal.lower > means[proposal.action] or proposal.regret < means.max() - means[proposal.action]:
            return True
        learner.learn(actions, proposal.action, float(means[proposal.action] + rng.choice([-0.5, 0.5])))
    return False


@pytest.mark.statistical
def test_statements_hold_with_their_probability() -> None:
    """delta = 0.1, 100 runs; fails with probability at most 1e-6 if the claim is true (exact binomial test)."""
    n_broken = sum(statement_ever_broken(seed, noise=0.5) for seed in range(100))
    assert binomtest(n_broken, 100, 0.1, alternative="greater").pvalue > 1e-6


@pytest.mark.statistical
def test_statements_for_understated_noise_are_caught() -> None:
    """Negative control: a fifth of the true noise declared, and the same test must reject."""
    n_broken = sum(statement_ever_broken(seed, noise=0.1) for seed in range(100))
    assert binomtest(n_broken, 100, 0.1, alternative="greater").pvalue < 1e-6


def test_better_actions_are_played_more_often_as_data_come_in() -> None:
    """Two actions 0.4 apart: after 400 rounds the better one has 90 % of the last 100, a wide margin for a fixed
    seed."""
    learner, rng = LinearThompson(2, noise=0.1, scale=0.3), np.random.default_rng(36)
    actions = np.array([[0.8, 0.0], [0.0, 0.8]])
    played = []
    for _ in range(400):
        action = learner.decide(actions, rng).action
        learner.learn(actions, action, 0.6 - 0.4 * action)
        played.append(action)
    assert np.mean(played[-100:]) < 0.1
    assert 0 < np.mean(played[:30]) < 1


@pytest.mark.parametrize("dim", [1, 5])
def test_native_twins_agree_with_the_interpreted_kernels(dim: int) -> None:
    learner, _, _ = taught(dim)
    memory = learner.memory._replace(scratch=new_scratch(dim, 6))
    rng = np.random.default_rng(37)
    for seed in range(50):
        interpreted = draw(memory, 0.4, np.random.default_rng(seed))
        native = NATIVE[draw](memory, 0.4, np.random.default_rng(seed))
        np.testing.assert_allclose(native, interpreted, rtol=1e-9)
        actions = unit_rows(rng, 6, 5)
        assert NATIVE[module.best_action_for](interpreted, actions) == module.best_action_for(interpreted, actions)
    tied = np.zeros((3, 5))
    assert NATIVE[module.best_action_for](interpreted, tied) == module.best_action_for(interpreted, tied) == 0


def test_own_stream_belongs_to_the_seed_and_moves_on() -> None:
    actions = unit_rows(np.random.default_rng(38), 10, 3)

    def decisions(seed: int) -> list[int]:
        learner = LinearThompson(3, seed=seed)
        return [learner.decide(actions).action for _ in range(30)]

    assert decisions(1) == decisions(1) != decisions(2)
    assert len(set(decisions(1))) > 1


def test_name_and_refusals() -> None:
    assert LinearThompson(4, scale=0.25).name == "LinearThompson(d=4, scale=0.25)"
    for settings, message in (
        ({"dim": 0}, "dim is 0, but must be a whole number from 1 to 10000"),
        ({"dim": 2, "scale": 0.0}, "scale is 0.0, but must be positive, at least 1e-100"),
        ({"dim": 2, "seed": 1.5}, "seed is 1.5, but must be a whole number from 0 to 18446744073709551615"),
    ):
        with pytest.raises(InvalidArgument) as error:
            LinearThompson(**settings)
        assert str(error.value) == message
