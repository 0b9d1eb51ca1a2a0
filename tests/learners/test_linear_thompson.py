"""LinearThompson: the law of its draws, its decisions given the draws, and what it states about them."""

from math import isnan, log, sqrt
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import binomtest

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.kernels.marks import NATIVE
from equipoise.learners import LinearThompson
from equipoise.learners import linear_thompson as module
from equipoise.learners._core.ridge import new_scratch
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


@pytest.mark.parametrize("dim", [1, 2, 5, 20])
def test_directions_are_standard_normal_vectors_and_their_negatives(dim: int) -> None:
    """The same for every learner. n/2 free vectors: entries of the covariance within 6 standard errors, which right
    vectors miss with probability below 1e-5."""
    directions = LinearThompson(dim).params.directions
    assert directions.shape == (max(256, 32 * dim), dim)
    assert LinearThompson(dim, seed=3, scale=0.1).params.directions is directions
    n = len(directions) // 2
    np.testing.assert_array_equal(directions[:n], -directions[n:])
    errors = np.abs(directions.T @ directions / (2 * n) - np.eye(dim)) * sqrt(n)
    assert (errors < 6 * np.where(np.eye(dim) == 1, sqrt(2), 1)).all()


def share_beyond(directions: Array, u: Array) -> float:
    """The share of directions in the half-space <u, z> >= 1."""
    return float(np.mean(directions @ u >= 1.0))


def descended(directions: Array, u: Array) -> float:
    """The least share that is met on a descent from u: along vectors near the border, outward to inward."""
    least = share_beyond(directions, u)
    for k in range(60):
        along = directions @ u
        step = np.exp(-((along - 1.0) ** 2) / 0.18) @ directions
        step -= (step @ u) * u
        if not step.any():
            break
        u = u - 0.15 * 0.97**k * step / np.linalg.norm(step)
        u /= np.linalg.norm(u)
        least = min(least, share_beyond(directions, u))
    return least


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32])
def test_every_half_space_holds_a_share_of_the_directions(dim: int) -> None:
    """What the regret theorem needs (anti-concentration); .159 for the normal law. Control: too few directions."""
    rng = np.random.default_rng(40)
    directions = LinearThompson(dim).params.directions
    starts = unit_rows(rng, 30, dim)
    assert min(share_beyond(directions, u) for u in unit_rows(rng, 1000, dim)) > 0.08
    assert min(descended(directions, u) for u in starts) > 0.05
    if dim >= 8:
        few = rng.standard_normal((2 * dim, dim))
        assert min(descended(np.vstack([few, -few]), u) for u in starts) < 0.05


@pytest.mark.parametrize("settings", [{}, {"scale": 0.3, "delta": 0.2, "regularization": 0.5, "norm_bound": 2.0}])
def test_decisions_are_those_of_the_naive_reference(settings: dict) -> None:
    """Sigma is solved afresh each round; the reference picks z itself from the same generator state.

    F z = (F Sigma^{1/2}) (Sigma^{-1/2} z) with F Sigma^{1/2} orthogonal, so the reference needs the learner's F for the
    very same draw; that F F^T = Sigma^{-1} is checked in every round. K changes, and columns beyond dim are ignored.
    The probabilities are counted over all directions, one at a time.
    """
    dim, rng = 3, np.random.default_rng(33)
    half = np.random.Generator(np.random.Philox(key=np.array([0, dim], np.uint64))).standard_normal((128, dim))
    directions = [*half, *-half]
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
        features = actions[:, :dim]
        best = [int(np.argmax(features @ (theta + defaults["scale"] * beta * factor @ z))) for z in directions]
        action = best[int(np.random.default_rng([34, t]).random() * 256)]
        half_widths = beta * np.sqrt(np.vecdot(features, np.linalg.solve(sigma, features.T).T))
        lower = np.clip((features @ theta - 1.0 - half_widths)[action], -1.0, 1.0)
        upper = np.clip((features @ theta - 1.0 + half_widths).max(), -1.0, 1.0)

        assert proposal.action == action
        assert proposal.lower == pytest.approx(lower, abs=1e-9)
        assert proposal.regret == pytest.approx(upper - lower, abs=1e-9)
        assert isnan(proposal.probability)
        assert learner.pmf(actions).tolist() == [best.count(k) / 256 for k in range(len(actions))]
        reward = float(rng.random())
        learner.learn(actions, action, reward)
        rows, rewards = np.vstack([rows, features[action]]), np.append(rewards, reward + 1.0)


@pytest.mark.parametrize("rows", ["different", "equal"])
def test_pmf_counts_the_decisions_of_all_directions(rows: str) -> None:
    """By the very decisions, one for each direction; equal rows, told apart by rounding at most, get the same."""
    learner, _, _ = taught(5, scale=0.4)
    actions = unit_rows(np.random.default_rng(41), 9, 7) * 0.8
    if rows == "equal":
        actions[4:] = actions[3]
    n, counts = len(learner.params.directions), np.zeros(9, int)
    for m in range(n):
        counts[learner.decide(actions, Mock(random=lambda m=m: (m + 0.5) / n)).action] += 1
    np.testing.assert_array_equal(learner.pmf(actions), counts / n)
    assert np.count_nonzero(counts) > 2
    mask = np.array([True, False, True] * 3)
    masked = learner.pmf(Offers(actions, mask=mask))
    assert masked.sum() == 1.0 and not masked[~mask].any()
    np.testing.assert_array_equal(masked[mask], learner.pmf(actions[mask]))


def worst_deviation(learner: LinearThompson, stated: Array, actions: Array, n: int) -> float:
    """The largest deviation of frequencies in n decisions from the stated probabilities, in standard errors."""
    rng = np.random.default_rng(42)
    found = np.bincount([learner.decide(actions, rng).action for _ in range(n)], minlength=len(actions)) / n
    return float(np.max(np.abs(found - stated) / np.sqrt(np.maximum(stated * (1 - stated), 1 / n) / n)))


def test_pmf_is_the_frequency_of_decisions() -> None:
    """4,000 decisions, 6 actions: beyond 4 standard errors with probability below 1e-3. Control: another scale."""
    learner, _, _ = taught(4, scale=0.3)
    wider, _, _ = taught(4, scale=0.6)
    actions = np.abs(unit_rows(np.random.default_rng(43), 6, 4))
    assert worst_deviation(learner, learner.pmf(actions), actions, 4000) < 4
    assert worst_deviation(learner, wider.pmf(actions), actions, 4000) > 4


def regret_of_run(seed: int, scale: float, gaussian: bool) -> float:
    """Regret of 300 rounds of a linear problem: of the learner, or of Gaussian Thompson sampling, written out."""
    dim, rng = 4, np.random.default_rng([44, seed])
    theta = np.abs(unit_rows(rng, 1, dim)[0])
    learner, sigma, sums, regret = LinearThompson(dim, noise=0.1, scale=scale), np.eye(dim), np.zeros(dim), 0.0
    for _ in range(300):
        actions = np.abs(unit_rows(rng, 5, dim))
        if gaussian:
            beta = 0.1 * sqrt(np.linalg.slogdet(sigma)[1] + 2 * log(100)) + 1.0
            cholesky = np.linalg.cholesky(np.linalg.inv(sigma))
            drawn = np.linalg.solve(sigma, sums) + scale * beta * cholesky @ rng.standard_normal(dim)
            action = int(np.argmax(actions @ drawn))
        else:
            action = learner.decide(actions, rng).action
        means = actions @ theta
        regret += means.max() - means[action]
        reward = float(means[action] + 0.1 * rng.standard_normal())
        if gaussian:
            sigma += np.outer(actions[action], actions[action])
            sums += reward * actions[action]
        else:
            learner.learn(actions, action, reward)
    return float(regret)


@pytest.mark.statistical
def test_regret_is_that_of_gaussian_thompson_sampling() -> None:
    """40 runs each: the means differ by less than 4 standard errors. Control: twice the scale is told apart."""
    own, normal, wider = (
        np.array([regret_of_run(seed, scale, gaussian) for seed in range(40)])
        for scale, gaussian in ((0.3, False), (0.3, True), (0.6, False))
    )
    assert abs(own.mean() - normal.mean()) < 4 * sqrt((own.var() + normal.var()) / 40)
    assert wider.mean() - normal.mean() > 4 * sqrt((wider.var() + normal.var()) / 40)


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
    rng, best_action_for = np.random.default_rng(37), module.best_action_for
    for direction in learner.params.directions[:50]:
        actions = unit_rows(rng, 6, 5)
        assert NATIVE[best_action_for](direction, memory, 0.4, actions) == best_action_for(
            direction, memory, 0.4, actions
        )
    tied = np.zeros((3, 5))
    assert NATIVE[best_action_for](direction, memory, 0.4, tied) == best_action_for(direction, memory, 0.4, tied) == 0


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
        ({"dim": 1001}, "dim is 1001, but must be at most 1000 for LinearThompson"),
        ({"dim": 2, "scale": 0.0}, "scale is 0.0, but must be positive, at least 1e-100"),
        ({"dim": 2, "seed": 1.5}, "seed is 1.5, but must be a whole number from 0 to 18446744073709551615"),
    ):
        with pytest.raises(InvalidArgument) as error:
            LinearThompson(**settings)
        assert str(error.value) == message
