"""The optimistic action on a ball against searches that know nothing of the secular equation."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, Ball
from equipoise.learners._core.ball import farthest_point
from equipoise.types import Array


def rotation(rng: np.random.Generator, dim: int) -> Array:
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def ellipsoid_factor(rng: np.random.Generator, lengths: Array) -> Array:
    """F whose ellipsoid {F u : ||u|| <= 1} has half-axes of these lengths, in directions of no special kind."""
    return rotation(rng, len(lengths)) @ np.diag(lengths) @ rotation(rng, len(lengths)).T


def preimage_norm(point: Array, center: Array, factor: Array) -> float:
    """||u|| of center + factor u = point."""
    return float(np.linalg.norm(np.linalg.solve(factor, point - center)))


def circle(n: int) -> Array:
    angles = np.linspace(0, 2 * pi, n, endpoint=False)
    return np.stack([np.cos(angles), np.sin(angles)])


def greatest_norm_on_a_grid(center: Array, factor: Array, width: float) -> float:
    """Two dimensions: over a dense grid of the ellipse's edge."""
    return float(np.linalg.norm(center[:, None] + width * factor @ circle(200_000), axis=0).max())


def greatest_norm_by_search(rng: np.random.Generator, center: Array, factor: Array, width: float) -> float:
    """Any dimension: random points u of the sphere, each improved by u <- gradient / ||gradient||.

    The squared norm of center + factor u is convex in u, so this step (maximize the linear lower bound on the sphere)
    never loses; the best of many starts is the greatest norm up to where the iteration stands still.
    """
    starts = rng.standard_normal((300, len(center)))
    points = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    for _ in range(3000):
        gradients = (center + width * points @ factor.T) @ factor
        points = gradients / np.linalg.norm(gradients, axis=1, keepdims=True)
    return float(np.linalg.norm(center + width * points @ factor.T, axis=1).max())


@pytest.mark.slow
@given(
    center=st.tuples(st.floats(-3, 3), st.floats(-3, 3)),
    lengths=st.tuples(st.floats(0.01, 2), st.floats(0.01, 2)),
    width=st.floats(0.05, 3),
    seed=st.integers(0, 1000),
)
def test_agrees_with_a_dense_grid_in_two_dimensions(center, lengths, width: float, seed: int) -> None:
    """The grid misses the best angle by at most 1.6e-5, which costs less than its square, 1e-9 of the norm."""
    factor = ellipsoid_factor(np.random.default_rng(seed), np.array(lengths))
    point = farthest_point(np.array(center), factor, width)
    searched = greatest_norm_on_a_grid(np.array(center), factor, width)
    norm = float(np.linalg.norm(point))
    assert searched * (1 - 1e-12) <= norm <= searched * (1 + 1e-9)
    assert preimage_norm(point, np.array(center), factor) == pytest.approx(width, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 3, 8])
@pytest.mark.parametrize("center_norm", [0.01, 1.0, 10.0])
def test_agrees_with_random_and_local_search(dim: int, center_norm: float) -> None:
    rng = np.random.default_rng(dim)
    for _ in range(5):
        center = rng.standard_normal(dim) * center_norm
        factor = ellipsoid_factor(rng, rng.uniform(0.05, 1.0, dim))
        norm = float(np.linalg.norm(farthest_point(center, factor, 0.7)))
        assert norm == pytest.approx(greatest_norm_by_search(rng, center, factor, 0.7), rel=1e-6)


@given(
    dim=st.integers(1, 10),
    seed=st.integers(0, 2**32),
    conditioning=st.floats(0, 6),
    center_exponent=st.floats(-8, 8),
    width_exponent=st.floats(-6, 6),
    zeros=st.integers(0, 10),
)
def test_point_is_on_the_edge_and_first_order_optimal(
    dim: int, seed: int, conditioning: float, center_exponent: float, width_exponent: float, zeros: int
) -> None:
    """x = center + F u with ||u|| = width maximizes ||x|| only if F^T x = mu u with mu >= every eigenvalue of F^T F.

    `zeros` coordinates of the center vanish, the longest axes first: hard cases and their neighbors.
    """
    rng = np.random.default_rng(seed)
    lengths = np.sort(10 ** -rng.uniform(0, conditioning, dim))[::-1]
    width = 10**width_exponent
    axes, turn = rotation(rng, dim), rotation(rng, dim)
    factor = axes @ np.diag(lengths) @ turn.T
    coordinates = rng.standard_normal(dim) * 10**center_exponent
    coordinates[: min(zeros, dim)] = 0.0
    center = axes @ coordinates
    point = farthest_point(center, factor, width)
    # Along the axes, where nothing is lost by inverting F.
    preimage = (axes.T @ (point - center)) / lengths
    assume(np.linalg.norm(center) < 1e6 * width * lengths[-1])  # else point - center has no digits left
    assert np.linalg.norm(preimage) == pytest.approx(width, rel=1e-6)
    pull = lengths * (axes.T @ point)
    multiplier = float(np.linalg.norm(pull)) / width
    np.testing.assert_allclose(pull, multiplier * preimage, rtol=0, atol=1e-6 * multiplier * width)
    assert multiplier >= lengths[0] ** 2 * (1 - 1e-6)


def test_without_an_estimate_the_longest_axis_is_farthest() -> None:
    rng = np.random.default_rng(5)
    factor = ellipsoid_factor(rng, np.array([0.9, 0.5, 0.1]))
    point = farthest_point(np.zeros(3), factor, 2.0)
    assert np.linalg.norm(point) == pytest.approx(1.8, rel=1e-12)
    assert preimage_norm(point, np.zeros(3), factor) == pytest.approx(2.0, rel=1e-9)


def test_hard_case_puts_what_is_missing_along_the_longest_axis() -> None:
    """Half-axes 2 and 1, center (0, t): for t <= 3 the farthest point is at height 4 t / 3, by hand."""
    factor = np.diag([2.0, 1.0])
    for t in (0.3, 1.0, 2.9):
        point = farthest_point(np.array([0.0, t]), factor, 1.0)
        assert point[1] == pytest.approx(4 * t / 3, rel=1e-12)
        assert abs(point[0]) == pytest.approx(2 * sqrt(1 - (t / 3) ** 2), rel=1e-12)
    np.testing.assert_allclose(farthest_point(np.array([0.0, 3.5]), factor, 1.0), [0.0, 4.5], atol=1e-12)


@pytest.mark.parametrize("part", [0.0, 1e-300, 1e-60, 1e-30, 1e-16, 1e-8, 1e-3])
@pytest.mark.parametrize("height", [0.5, 2.999999, 3.0, 3.000001, 5.0])
def test_neighbors_of_the_hard_case(part: float, height: float) -> None:
    factor, center = np.diag([2.0, 1.0]), np.array([part, height])
    point = farthest_point(center, factor, 1.0)
    assert np.linalg.norm(point) == pytest.approx(greatest_norm_on_a_grid(center, factor, 1.0), rel=1e-9)
    assert point[0] >= 0.0 or part < 1e-30  # on the side where the center lies, unless that cannot be told


@pytest.mark.parametrize("center", [[0.0, 0.0, 0.0], [0.3, -0.1, 0.2]])
def test_equal_axes(center: list[float]) -> None:
    """In a ball the farthest point lies straight away from the origin."""
    factor = rotation(np.random.default_rng(6), 3) * 0.4
    point = farthest_point(np.array(center), factor, 0.5)
    norm = float(np.linalg.norm(center))
    assert np.linalg.norm(point) == pytest.approx(norm + 0.2, rel=1e-12)
    if norm:
        np.testing.assert_allclose(point, np.array(center) * (norm + 0.2) / norm, rtol=1e-12)


def test_two_equal_longest_axes_and_a_center_along_the_third() -> None:
    point = farthest_point(np.array([0.0, 0.0, 0.6]), np.diag([1.0, 1.0, 0.5]), 1.0)
    assert point[2] == pytest.approx(0.6 / 0.75, rel=1e-12)
    assert np.linalg.norm(point[:2]) == pytest.approx(sqrt(1 - (0.6 * 0.5 / 0.75) ** 2), rel=1e-12)


@pytest.mark.parametrize("width", [1e-150, 1e-12, 1e12, 1e150])
def test_tiny_and_huge_widths(width: float) -> None:
    center, factor = np.array([0.3, 0.4]), np.diag([1.0, 0.01])
    point = farthest_point(center, factor, width)
    assert np.isfinite(point).all()
    expected = np.array([0.3, 0.4]) if width < 1 else np.array([width + 0.3, 0.4])
    np.testing.assert_allclose(point, expected, rtol=0, atol=1e-11 * float(np.linalg.norm(expected)))


def test_ill_conditioned_axes() -> None:
    rng = np.random.default_rng(7)
    lengths = np.array([1e4, 1.0, 1e-4])
    factor, center = ellipsoid_factor(rng, lengths), np.array([0.1, 0.2, 0.3])
    point = farthest_point(center, factor, 1.0)
    assert np.linalg.norm(point) == pytest.approx(greatest_norm_by_search(rng, center, factor, 1.0), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "scale", "misspecification"), [(2, 1.0, 0.0), (2, 0.2, 0.0), (2, 0.5, 0.1)])
def test_action_on_the_ball_agrees_with_a_dense_search(dim: int, scale: float, misspecification: float) -> None:
    """Optimistic reward of the action, with Sigma solved afresh from all rows, against 200,000 actions of the
    circle."""
    rng = np.random.default_rng(8)
    ball = Ball(4, radius=1.5)
    learner = OFUL(dim, action_bound=1.5, scale=scale, misspecification=misspecification, delta=0.1)
    rows: list[Array] = []
    rewards: list[float] = []
    for _ in range(40):
        proposal = learner.decide(ball)
        action = proposal.action
        assert action.shape == (4,) and (action[dim:] == 0).all()
        assert np.linalg.norm(action) == pytest.approx(1.5, rel=1e-12)
        played = np.array(rows).reshape(-1, dim)
        sigma = np.eye(dim) + played.T @ played
        theta = np.linalg.solve(sigma, played.T @ np.array(rewards))
        beta = 0.5 * sqrt(np.linalg.slogdet(sigma)[1] + 2 * np.log(10)) + 1.0
        width = scale * beta + misspecification * sqrt(len(rows))
        grid = np.concatenate([1.5 * circle(200_000), action[:dim, None]], axis=1)
        half_widths = width * np.sqrt((grid * np.linalg.solve(sigma, grid)).sum(axis=0))
        optimistic = theta @ grid + half_widths
        assert optimistic[-1] == pytest.approx(optimistic.max(), rel=1e-9)
        assert proposal.regret == pytest.approx(min(2 * (half_widths[-1] + misspecification), 1.0), rel=1e-9)
        lower = 0.5 + theta @ action[:dim] - half_widths[-1] - misspecification  # from the middle of the range
        assert proposal.lower == pytest.approx(min(max(lower, 0.0), 1.0), rel=1e-9, abs=1e-12)
        reward = float(rng.random() < 0.5 + 0.3 * action[0] / 1.5)
        learner.learn(ball, action, reward)
        rows.append(action[:dim])
        rewards.append(reward - 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "dim is 0, but must be a whole number at least 1"),
        ((2, -1.0), "radius is -1.0, but must be positive, at least 1e-100"),
        ((2, float("nan")), "radius is nan, but must be a finite number of magnitude at most 1e+100"),
    ],
)
def test_impossible_balls_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        Ball(*arguments)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("ball", "action", "message"),
    [
        (Ball(2), [1.0, 0.0], "context has 2 dimensions, but must have at least dim = 3"),
        (Ball(3, 1.1), [1.0, 0.0, 0.0], "context has radius 1.1, but must have at most action_bound = 1"),
        (Ball(3), 1, "action has shape (), but must be a vector of 3 numbers"),
        (Ball(3), "up", "action is 'up', but must be a vector of 3 numbers"),
        (Ball(3), [1.0, 0.0], "action has shape (2,), but must be a vector of 3 numbers"),
        (Ball(3), [1.0, 0.0, 0.1], "action has norm 1.00499, but must lie in the ball of radius 1"),
        (Ball(3), [1e155, 1e155, 0.0], "action has norm inf, but must lie in the ball of radius 1"),
        (Ball(3), [np.nan, 0.0, 0.0], "action has norm nan, but must lie in the ball of radius 1"),
    ],
)
def test_bad_input_on_the_ball_is_refused_and_changes_nothing(ball: Ball, action, message: str) -> None:
    learner = OFUL(3)
    learner.learn(Ball(3), [0.0, 1.0, 0.0], 0.5)
    before = learner.state()
    with pytest.raises(InvalidArgument) as error:
        learner.learn(ball, action, 0.5)
    assert str(error.value) == message
    for name, array in learner.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_ball_that_does_not_fit_is_refused_when_deciding() -> None:
    with pytest.raises(InvalidArgument, match="context has 2 dimensions, but must have at least dim = 3"):
        OFUL(3).decide(Ball(2))


def test_bad_reward_on_the_ball_is_refused() -> None:
    learner = OFUL(2)
    with pytest.raises(InvalidArgument, match="reward is nan, but must be a finite number"):
        learner.learn(Ball(2), [1.0, 0.0], float("nan"))
    with pytest.raises(InvalidArgument, match=r"weight is -2.0, but must not be negative"):
        learner.learn(Ball(2), [1.0, 0.0], 0.5, weight=-2.0)
    assert learner.state()["updates"][0] == 0
