"""UCBVI and Q-learning against slow and obvious references; compiled tapes against interpreted ones."""

from collections import defaultdict
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.lab.runs.results import log_rounds
from equipoise.learners import UCBVI, QLearning
from equipoise.learners._core.trajectory import Trajectory
from equipoise.problems import RiverSwim
from equipoise.simulation.tapes import Tapes
from tests.episodes import HORIZON, N_ACTIONS, N_STATES, random_trajectory, start_state
from tests.simulation.plain import Plain

SIZES: dict[str, Any] = {"n_states": N_STATES, "n_actions": N_ACTIONS, "horizon": HORIZON, "episodes": 60}


def value_iteration(past: list[Trajectory], scale: float) -> list[list[list[float]]]:
    """Q[h][s][a] by going through all trajectories for every entry."""
    q = [[[0.0] * N_ACTIONS for _ in range(N_STATES)] for _ in range(HORIZON)]
    for h in reversed(range(HORIZON)):
        for s in range(N_STATES):
            for a in range(N_ACTIONS):
                targets = [
                    rewards[h] + (max(q[h + 1][states[h + 1]]) if h + 1 < len(states) else 0.0)
                    for states, actions, rewards in past
                    if h < len(states) and (states[h], actions[h]) == (s, a)
                ]
                estimate = sum(targets) / len(targets) + scale / sqrt(len(targets)) if targets else HORIZON
                q[h][s][a] = min(estimate, HORIZON - h)
    return q


@given(st.integers(0, 10**6), st.floats(0.001, 1.0))
@settings(max_examples=30, deadline=None)
def test_ucbvi_is_value_iteration_on_counts(seed: int, bonus: float) -> None:
    rng, learner = np.random.default_rng(seed), UCBVI(**SIZES, bonus=bonus)
    past: list[Trajectory] = []
    scale = bonus * HORIZON * log(5 * N_STATES * N_ACTIONS * 60 * HORIZON / (learner.delta / 2))
    for _ in range(12):
        start = start_state(rng)
        policy, q = learner.decide(start).action, value_iteration(past, scale)
        for h in range(HORIZON):
            for s in range(N_STATES):
                assert q[h][s][policy[h, s]] == pytest.approx(max(q[h][s]), abs=1e-12)
        past.append(random_trajectory(start, policy, rng))
        learner.learn(start, past[-1], 0.0)


@given(st.integers(0, 10**6), st.floats(0.001, 1.0))
@settings(max_examples=30, deadline=None)
def test_q_learning_is_the_printed_recursion(seed: int, bonus: float) -> None:
    rng, learner = np.random.default_rng(seed), QLearning(**SIZES, bonus=bonus)
    scale = bonus * sqrt(HORIZON**3 * log(N_STATES * N_ACTIONS * 60 * HORIZON / learner.delta))
    q: dict[Any, float] = defaultdict(float, {(h, s, a): float(HORIZON - h) for h, s, a in np.ndindex(4, 3, 2)})
    visits: dict[Any, int] = defaultdict(int)
    for _ in range(25):
        start = start_state(rng)
        policy = learner.decide(start).action
        for h, s in np.ndindex(HORIZON, N_STATES):
            values = [q[h, s, a] for a in range(N_ACTIONS)]
            assert values[policy[h, s]] == pytest.approx(max(values), abs=1e-12)
        states, actions, rewards = episode = random_trajectory(start, policy, rng)
        for h in range(len(states)):
            key = (h, states[h], actions[h])
            visits[key] += 1
            later = max(q[h + 1, states[h + 1], a] for a in range(N_ACTIONS)) if h + 1 < len(states) else 0.0
            rate = (HORIZON + 1) / (HORIZON + visits[key])
            target = rewards[h] + min(HORIZON - h - 1, later) + scale / sqrt(visits[key])
            q[key] = (1 - rate) * q[key] + rate * target
        learner.learn(start, episode, 0.0)


@pytest.mark.compiled
def test_ucbvi_finds_the_rich_end_of_the_river_and_the_printed_constant_takes_longer() -> None:
    """Fixed seed: what the last of 4,000 episodes lose, as a share of the optimum."""
    problem = RiverSwim(5, 15)
    losses = {}
    for bonus in (0.01, 7.0):
        learner = UCBVI(5, 2, horizon=15, episodes=4000, bonus=bonus)
        curve = Tapes(problem, [learner], np.array([3000, 4000]), seed=1).curve(0)
        losses[bonus] = (curve[1] - curve[0]) / 1000 / problem.optimal_value(0)
    assert losses[0.01] < 0.1 < 0.9 < losses[7.0]


@pytest.mark.compiled
@pytest.mark.parametrize("cls", [UCBVI, QLearning])
def test_compiled_tape_is_the_interpreted_one(cls: Any) -> None:
    rows = []
    for wrap in (lambda problem: problem, Plain):
        learner = cls(4, 2, horizon=6, episodes=300, bonus=0.05)
        tapes = Tapes(wrap(RiverSwim(4, 6)), [learner], log_rounds(300), seed=7)
        tapes.extend(0)
        rows.append(tapes.rows[0, :300].copy())
    assert np.allclose(rows[0], rows[1], rtol=1e-9, atol=1e-9, equal_nan=cls is QLearning)
    assert np.isnan(rows[0][:, 2]).all() == (cls is QLearning)


def test_paper_bounds_are_the_printed_formulas() -> None:
    sizes: dict[str, Any] = {"horizon": 3, "episodes": 100, "delta": 0.1}
    pairs = 3 * 4 * 2
    assert UCBVI(4, 2, **sizes).paper_bound().raw(9) == pytest.approx(
        20 * 3 * log(5 * pairs * 100 / 0.1) * sqrt(pairs * 3 * 9)
    )
    assert QLearning(4, 2, **sizes).paper_bound().raw(9) == pytest.approx(
        sqrt(3**4 * 4 * 2 * (3 * 9) * log(4 * 2 * 300 / 0.1))
    )
