"""OSOM: its switch against a slow reference, and that it switches where contexts matter and only there."""

from math import log, sqrt

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import OSOM
from equipoise.learners._core.ridge import Ellipsoid
from equipoise.types import Array

ARMS, DIM = 3, 2
INTERCEPTS = np.array([0.5, 0.45, 0.4])


def contexts(rng: np.random.Generator) -> Array:
    rows = rng.standard_normal((ARMS, DIM))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def means_of(theta: Array, actions: Array) -> Array:
    means: Array = INTERCEPTS[: len(actions)] + actions @ theta
    return means


def reward_of(mean: float, rng: np.random.Generator) -> float:
    """Uniform noise of standard deviation 0.1; half its range is about 0.17."""
    return float(mean + 0.1 * sqrt(3) * rng.uniform(-1.0, 1.0))


NOISE, RIDGE = 0.1 * sqrt(3), 0.05


def stitched_width(noise: float, alpha: float, n: int) -> float:
    """The radius of a sum over n plays, as published."""
    return 1.7 * sqrt(noise**2 * n * (log(log(2 * n)) + 0.72 * log(5.2 / alpha)))


def naive_run(theta: Array, rounds: int, seed: int, noise: float, delta: float) -> tuple[list[int], int | None]:
    """Decisions and the round of the switch, everything recomputed from stored rounds."""
    history: list[tuple[int, Array, float]] = []
    offers: list[Array] = []
    rng, decisions, switched, excess = np.random.default_rng(seed), [], None, 0.0
    share = delta / 3
    for t in range(rounds):
        actions = contexts(rng)[: 2 + t % 2]
        offers.append(actions)
        rows = np.array([np.concatenate([np.eye(ARMS)[k], actions[k]]) for k in range(len(actions))])
        played = np.array([row for _, row, _ in history]).reshape(-1, ARMS + DIM)
        rewards = np.array([reward for _, _, reward in history])
        sigma = RIDGE * np.eye(ARMS + DIM) + played.T @ played
        center = np.linalg.solve(sigma, played.T @ (rewards - 0.5))
        growth = np.linalg.slogdet(sigma / RIDGE)[1]
        beta = noise * sqrt(growth + 2 * log(1 / share)) + sqrt(RIDGE * (1.0 + ARMS / 4))
        half_widths = beta * np.sqrt(np.einsum("ki,ij,kj->k", rows, np.linalg.inv(sigma), rows))
        uppers, widths = [], []
        for k in range(len(actions)):
            mine = [reward for arm, _, reward in history if arm == k]
            width = stitched_width(noise, share / (2 * ARMS), len(mine)) / len(mine) if mine else np.inf
            uppers.append(float(np.mean(mine)) + width if mine else np.inf)
            widths.append(width)
        linear = switched is not None
        action = int((rows @ center + half_widths if linear else np.array(uppers)).argmax())
        decisions.append(action)
        reward = reward_of(means_of(theta, actions)[action], rng)
        if not linear:
            seen = [[offer[k] for offer in offers if len(offer) > k] for k in range(len(actions))]
            centered = [row - np.mean(mine, axis=0) for row, mine in zip(actions, seen, strict=True)]
            context_rows = np.array([np.concatenate([np.zeros(ARMS), row]) for row in centered])
            spans = beta * np.sqrt(np.einsum("ki,ij,kj->k", context_rows, np.linalg.inv(sigma), context_rows))
            if np.isfinite(uppers).all():
                optimistic = float((np.array(uppers) + context_rows @ center + spans).max())
                excess += optimistic - reward - 2 * widths[action] - 2 * float(spans.max())
            if excess > stitched_width(noise, share, t + 1):
                switched = t
        history.append((action, rows[action], reward))
    return decisions, switched


def run(learner: OSOM, theta: Array, rounds: int, seed: int, vary: bool = False) -> tuple[list[int], int | None, float]:
    """Decisions, the round of the switch, and the regret of the last fifth of the rounds."""
    rng, decisions, switched, late_regret = np.random.default_rng(seed), [], None, 0.0
    for t in range(rounds):
        actions = contexts(rng)[: 2 + t % 2 if vary else ARMS]
        action = learner.decide(actions).action
        means = means_of(theta, actions)
        learner.learn(actions, action, reward_of(float(means[action]), rng))
        decisions.append(action)
        if learner.memory.linear[0] and switched is None:
            switched = t
        if t >= 0.8 * rounds:
            late_regret += float(means.max() - means[action])
    return decisions, switched, late_regret


def test_decisions_and_switch_are_those_of_the_naive_reference() -> None:
    """K changes from round to round."""
    theta, rounds = np.array([0.4, 0.0]), 600
    expected, expected_switch = naive_run(theta, rounds, 91, noise=0.05, delta=0.2)
    decisions, switch, _ = run(
        OSOM(ARMS, dim=DIM, noise=0.05, delta=0.2, regularization=RIDGE), theta, rounds, 91, vary=True
    )
    assert switch == expected_switch
    assert switch is not None and 20 < switch < rounds - 100
    assert decisions == expected


@pytest.mark.slow
def test_it_stays_with_the_arms_where_contexts_tell_nothing() -> None:
    """Each seed switches with probability at most delta = 0.01, so 2 or more of 8 with probability below 0.003. Without
    widths (negative control) chance alone makes most of them switch."""
    theta = np.zeros(DIM)
    switches = [run(OSOM(ARMS, dim=DIM, noise=NOISE), theta, 800, seed)[1] for seed in range(8)]
    assert sum(switch is not None for switch in switches) < 2
    careless = [run(without_widths(OSOM(ARMS, dim=DIM, noise=NOISE)), theta, 800, seed)[1] for seed in range(5)]
    assert sum(switch is not None for switch in careless) >= 4


def without_widths(learner: OSOM) -> OSOM:
    params = learner.params
    learner.params = params._replace(
        ellipsoid=Ellipsoid(0.0, 0.0, 0.0),
        noise=params.noise._replace(scale=0.0),
        ucb=params.ucb._replace(radius=params.ucb.radius._replace(scale=1e-9)),
    )
    return learner


def test_it_switches_where_contexts_matter_and_then_plays_well() -> None:
    """Arms alone earn 0.5 at most, contexts 0.3 more on average, which UCB would lose in every round."""
    for seed in (95, 96):
        _, switch, late_regret = run(OSOM(ARMS, dim=DIM, noise=NOISE), np.array([0.4, 0.0]), 3000, seed)
        assert switch is not None and switch < 2400
        assert late_regret < 0.01 * 600


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arms": 0, "dim": 2}, r"arms is 0, but must be a whole number from 1 to 10000"),
        ({"arms": 2, "dim": 2, "delta": 1.5}, r"delta is 1.5, but must lie in \(0, 1\)"),
    ],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        OSOM(**settings)


def test_more_rows_than_arms_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"context has 3 rows, but must have at most arms = 2"):
        OSOM(2, dim=1).decide(np.zeros((3, 1)))
