"""ELEANOR: its solver against brute force on tiny instances, one step against OFUL, a pass against random points."""

from math import cos, pi, sin
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, differential_evolution

from equipoise.bounds import LinearSqrt
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, Eleanor
from equipoise.learners._core.trajectory import Trajectory

N_INSTANCES = 100


def instance(seed: int, dim: int) -> tuple[Eleanor, int]:
    """Two steps, three actions, six transitions at random; features of any sign, so regression weights are too."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((4, 3, dim))
    features /= np.linalg.norm(features, axis=-1, keepdims=True) * rng.uniform(1.0, 2.0, (4, 3, 1))
    learner = Eleanor(features, horizon=2, scale=0.2, misspecification=0.02, n_starts=4)
    for _ in range(6):
        states = rng.integers(0, 4, 2)
        learner.learn(states[0], Trajectory(states, rng.integers(0, 3, 2), rng.random(2)), 0.0)
    return learner, int(rng.integers(4))


def brute_force(learner: Eleanor, start: int) -> float:
    """The greatest max_a phi_1(s_1, a) tb_1 over both balls, regressions from their normal equations: for d = 1 on a
    grid, for d = 2 by differential evolution over disks."""
    rows, memory, radii = learner.features, learner.memory, learner.radii()
    grams = [np.linalg.inv(factor @ factor.T) for factor in memory.factors]
    fits = [np.linalg.solve(gram, memory.reward_sums[h]) for h, gram in enumerate(grams)]
    added = [np.linalg.solve(gram, memory.successor_sums[h].T) for h, gram in enumerate(grams)]
    roots = [radii[h] * np.linalg.inv(np.linalg.cholesky(gram).T) for h, gram in enumerate(grams)]

    def value(first: np.ndarray, second: np.ndarray) -> float:
        later = (rows @ (fits[1] + roots[1] @ second)).max(1)
        return float((rows[start] @ (fits[0] + added[0] @ later + roots[0] @ first)).max())

    if learner.dim == 1:
        grid = np.linspace(-1.0, 1.0, 81)[:, None]
        return max(value(first, second) for first in grid for second in grid)

    def negative(numbers: np.ndarray) -> float:
        (r, s), (a, b) = np.minimum(numbers[:2], 1.0), numbers[2:]
        return -value(np.array([r * cos(a), r * sin(a)]), np.array([s * cos(b), s * sin(b)]))

    limits = Bounds([0.0, 0.0, -pi, -pi], [1.2, 1.2, pi, pi])
    return float(-differential_evolution(negative, limits, seed=0, maxiter=40, popsize=10, tol=1e-8).fun)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_solver_reaches_brute_force_on_tiny_instances(block: int) -> None:
    """At least 99 % of the brute-force optimum on each of 100 instances."""
    for seed in range(block * N_INSTANCES // 5, (block + 1) * N_INSTANCES // 5):
        learner, start = instance(seed, dim=1 + seed % 2)
        program = learner.program()
        value = program.values(program.solve(start, learner._starts(), learner.finest_step))[0][start]
        optimum = brute_force(learner, start)
        assert value >= optimum - 0.01 * abs(optimum), f"instance {seed}: {value} of {optimum}"


@pytest.mark.slow
def test_one_step_is_oful() -> None:
    """Decision for decision, also with eps; values of tied actions may differ in the last digits."""
    for seed, eps in ((0, 0.0), (1, 0.05)):
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((3, 4, 3))
        features /= np.linalg.norm(features, axis=-1, keepdims=True) * rng.uniform(1.0, 2.0, (3, 4, 1))
        one = Eleanor(features, horizon=1, misspecification=eps, delta=0.02)
        other = OFUL(3, misspecification=eps, delta=0.02)
        theta = np.array([0.5, 0.1, 0.2])
        for _ in range(200):
            state = int(rng.integers(3))
            action = one.decide(state).action[0, state]
            assert action == other.decide(features[state]).action
            reward = float(rng.random() < 0.5 + 0.4 * features[state, action] @ theta)
            one.learn(state, Trajectory([state], [action], [reward]), reward)
            other.learn(features[state], action, reward)


def test_a_pass_with_fixed_actions_is_optimal_among_random_points() -> None:
    """The adjoint gives the maximum of the linear program: no other point does better with the same actions."""
    learner, start = instance(3, dim=2)
    program, rng = learner.program(), np.random.default_rng(0)
    policy, row = rng.integers(0, 3, (2, 4)), learner.features[start, 1]

    def linear_value(point: np.ndarray) -> float:
        later = np.zeros(4)
        for h in (1, 0):
            parameter = program.offsets[h] + later @ program.maps[h] + program.ellipsoids[h] @ point[h]
            later = (learner.features[range(4), policy[h]]) @ parameter
        return float(row @ parameter)

    best = linear_value(program.maximizer(policy, row))
    points = rng.standard_normal((500, 2, 2))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    assert all(linear_value(point) <= best + 1e-12 for point in points)


def test_refine_never_loses_value() -> None:
    learner, start = instance(5, dim=2)
    program = learner.program()
    for point in learner._starts():
        value, polished = program.refine(start, point, 1e-4)
        assert value >= program.values(point)[0][start] - 1e-12
        assert value == pytest.approx(program.values(polished)[0][start])
        assert np.linalg.norm(polished, axis=-1).max() <= 1 + 1e-9


@pytest.mark.parametrize("norm_bound", [1.0, 0.25])
def test_norms_of_the_plan_are_reported_against_their_bound(norm_bound: float) -> None:
    """Against the parameters of the plan, fitted anew to its own values; a point of the plan before any data is known:
    all of it is optimism, the radius in every direction of one feature."""
    learner, start = instance(3, dim=2)
    program = learner.program()
    values, _, parameters = program.values(program.solve(start, learner._starts(), learner.finest_step))
    ratios = [float(np.sqrt((parameters[h] ** 2).sum())) / (2 - h) for h in range(2)]
    assert learner.norm_ratio(start) == pytest.approx(max(ratios))
    assert values[start] == pytest.approx((learner.features[start] @ parameters[0]).max())
    fresh = Eleanor([[[1.0]]], horizon=2, norm_bound=norm_bound)
    first, second = fresh.radii()
    assert fresh.norm_ratio(0) == pytest.approx(max(first / (2 * norm_bound), second / norm_bound))


def test_paper_bound_is_the_printed_formula() -> None:
    learner = Eleanor([[[1.0] + [0.0] * 8]], horizon=3, misspecification=0.1)
    assert learner.paper_bound(constant=2.0) == LinearSqrt(2 * 3 * 3 * 0.1, 54.0)


@pytest.mark.parametrize(
    ("trajectory", "message"),
    [
        (Trajectory([0, 1, 2], [0, 0, 0], [0.0] * 3), "trajectory has 3 steps, but must have from 1 to horizon = 2"),
        (Trajectory([1], [0], [0.0]), "trajectory starts in 1, but must start in its context 0"),
    ],
)
def test_bad_trajectories_are_refused(trajectory: Any, message: str) -> None:
    learner, _ = instance(0, dim=1)
    before = learner.state()
    with pytest.raises(InvalidArgument) as caught:
        learner.learn(0, trajectory, 0.0)
    assert str(caught.value) == message
    assert all(np.array_equal(array, before[name]) for name, array in learner.state().items())
