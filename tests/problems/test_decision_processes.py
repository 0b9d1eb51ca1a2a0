"""Finite decision processes: exact values against enumeration, linearity, gymnasium's own checker, refusals."""

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import rl
from equipoise.errors import InvalidArgument
from equipoise.problems import CombinationLock, LinearMDP, RiverSwim
from equipoise.problems.river_swim import LEFT, RIGHT


def value_by_enumeration(problem: Any, policy: np.ndarray, state: int, step: int = 0) -> float:
    """The expected return along every path, one by one."""
    if step == problem.horizon:
        return 0.0
    action = policy[step, state]
    later = sum(
        problem.transitions[step, state, action, successor] * value_by_enumeration(problem, policy, successor, step + 1)
        for successor in range(problem.n_states)
    )
    return float(problem.rewards[step, state, action] + later)


TINY = [
    LinearMDP(2, 2, 3, 3, 2, seed=1),
    LinearMDP(3, 2, 2, 2, 2, misspecification=0.5, seed=2),
    RiverSwim(2, 3),
    CombinationLock(2, 2, slip=0.3),
]


@pytest.mark.parametrize("problem", TINY, ids=lambda problem: problem.name)
def test_values_are_those_of_all_paths_and_the_optimum_that_of_all_policies(problem: Any) -> None:
    shape = (problem.horizon, problem.n_states)
    tables = itertools.product(range(problem.n_actions), repeat=shape[0] * shape[1])
    policies = [np.array(table).reshape(shape) for table in tables]
    for state in range(problem.n_states):
        values = [value_by_enumeration(problem, policy, state) for policy in policies]
        assert problem.optimal_value(state) == pytest.approx(max(values), abs=1e-12)
        for policy, value in zip(policies[::7], values[::7], strict=True):
            assert problem.policy_value(policy)[state] == pytest.approx(value, abs=1e-12)
            assert problem.gap(state, policy) == pytest.approx(max(values) - value, abs=1e-12)
        assert problem.gap(state, problem.optimal_policy) == 0.0


def returns_by_enumeration(problem: Any, state: int, step: int = 0) -> set[int]:
    """Every return that can occur from a step and state on, whatever is done."""
    if step == problem.horizon:
        return {0}
    found = set()
    for action, successor in itertools.product(range(problem.n_actions), range(problem.n_states)):
        if problem.transitions[step, state, action, successor] > 0:
            now = (
                {0, 1} if 0 < problem.rewards[step, state, action] < 1 else {int(problem.rewards[step, state, action])}
            )
            found |= {one + later for one in now for later in returns_by_enumeration(problem, successor, step + 1)}
    return found


@pytest.mark.parametrize(
    "problem", [*TINY, CombinationLock(3, 2), CombinationLock(3, 2, consolation=0.0), RiverSwim(4, 2)]
)
def test_range_of_the_returns_is_that_of_all_paths(problem: Any) -> None:
    starts = np.flatnonzero(problem.start).tolist()
    returns = set.union(*(returns_by_enumeration(problem, state) for state in starts))
    assert problem.reward_range == (0.0, float(max(returns)))


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 5]), st.integers(0, 3), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_linear_mdp_is_exactly_linear_in_its_first_features(seed: int, d_star: int, extra: int, n_states: int) -> None:
    problem = LinearMDP(n_states, 3, 2, d_star + extra, d_star, seed=seed)
    rows = problem.features[:, :, :d_star].reshape(-1, d_star)
    for step in range(problem.horizon):
        targets = np.column_stack([problem.rewards[step].ravel(), problem.transitions[step].reshape(-1, n_states)])
        fit = np.linalg.lstsq(rows, targets, rcond=None)[0]
        assert np.allclose(rows @ fit, targets, atol=1e-9)
    assert np.allclose(problem.transitions.sum(-1), 1.0) and problem.transitions.min() >= 0.0
    assert problem.rewards.min() >= 0.0 and problem.rewards.max() <= 1.0
    assert np.linalg.norm(problem.features, axis=-1).max() <= 1.0 + 1e-12
    assert problem.largest_error == 0.0


@given(st.integers(0, 10_000), st.floats(0.01, 1.0))
@settings(max_examples=25, deadline=None)
def test_misspecified_process_reports_an_error_of_at_most_zeta(seed: int, zeta: float) -> None:
    exact, off = (LinearMDP(4, 2, 2, 4, 3, misspecification=size, seed=seed) for size in (0.0, zeta))
    rewards = np.abs(exact.rewards - off.rewards).max()
    variation = np.abs(exact.transitions - off.transitions).sum(-1).max() / 2
    assert off.largest_error == pytest.approx(max(rewards, variation)) and 0.0 < off.largest_error <= zeta + 1e-12


def test_too_few_features_lose_a_lot() -> None:
    """The best fixed answer to the first half of the features is far from optimal: that is what selection is about."""
    problem = LinearMDP(seed=0)
    rows = problem.features[:, :, : problem.d_star // 2].reshape(-1, problem.d_star // 2)
    for rewards in problem.rewards.reshape(5, -1):
        residuals = rewards - rows @ np.linalg.lstsq(rows, rewards, rcond=None)[0]
        assert np.abs(residuals).max() > 0.5


def test_river_pays_those_who_swim() -> None:
    problem = RiverSwim()
    swim, drift = (np.full((20, 6), action) for action in (RIGHT, LEFT))
    assert problem.policy_value(swim)[0] > 10 * problem.policy_value(drift)[0]
    assert problem.policy_value(drift)[0] == pytest.approx(20 * 0.005)


def test_lock_opens_to_its_combination_alone() -> None:
    problem = CombinationLock(4, 3, consolation=0.1, seed=3)
    assert problem.optimal_value(0) == 1.0
    for step in range(4):
        wrong = problem.optimal_policy.copy()
        wrong[step, step] = (wrong[step, step] + 1) % 3
        assert problem.policy_value(wrong)[0] == pytest.approx(0.1)


ENVIRONMENTS = [rl.LinearMDP(), rl.RiverSwim(), rl.CombinationLock(slip=0.1)]


@pytest.mark.parametrize("env", ENVIRONMENTS, ids=lambda env: env.name)
def test_environment_passes_the_checker_of_gymnasium(env: Any) -> None:
    check_env(env, skip_render_check=True)
    assert env.observation_space.n == env.n_states and env.action_space.n == env.n_actions


def test_environment_and_problem_are_one_process() -> None:
    """Mean returns of stepping agree with the exact value; the error of 4,000 returns in [0, 5] exceeds 0.27 with
    probability at most 2 exp(-2 * 4000 * (0.27/5)^2) < 1e-9."""
    env = rl.LinearMDP(seed=4)
    policy, returns = env.optimal_policy, 0.0
    env.reset(seed=1)
    for _ in range(4000):
        state, _ = env.reset()
        done = False
        for step in range(env.horizon):
            assert not done
            state, reward, done, truncated, _ = env.step(policy[step, state])
            returns += reward
        assert done and not truncated
    assert abs(returns / 4000 - env.optimal_values[0].mean()) < 0.27
    with pytest.raises(InvalidArgument, match=r"outside an episode, but must be called after reset\(\)"):
        env.step(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearMDP(d_max=4, d_star=5), "d_star is 5, but must be at most d_max = 4"),
        (lambda: LinearMDP(misspecification=1.5), "misspecification is 1.5, but must lie in [0, 1]"),
        (lambda: RiverSwim(n_states=1), "n_states is 1, but must be a whole number from 2 to 10000"),
        (lambda: CombinationLock(slip=-0.1), "slip is -0.1, but must lie in [0, 1]"),
        (lambda: RiverSwim(3, 2).gap(0, [[0] * 3]), "policy has shape (1, 3), but must have (2, 3): steps and states"),
        (lambda: RiverSwim(3, 1).gap(0, [[0, 0, 2]]), "policy has 2, but entries must lie from 0 to 1"),
        (lambda: RiverSwim(3, 1).gap(0, [[0, 0, 0.5]]), "policy is [[0, 0, 0.5]], but must be integers"),
        (lambda: RiverSwim(3, 1).optimal_value(3), "state is 3, but must be a whole number from 0 to 2"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_package_with_its_problems_needs_no_gymnasium() -> None:
    program = "import sys, equipoise; equipoise.problems.LinearMDP(); print('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
