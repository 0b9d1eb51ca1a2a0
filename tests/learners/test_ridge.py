"""The regression against a direct solve of the normal equations, and its compiled twins against the interpreted
code."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.kernels.marks import NATIVE
from equipoise.learners._core import ridge as ridge_module
from equipoise.learners._core.ridge import (
    MAX_LOOPED_ROWS,
    Ellipsoid,
    Ridge,
    ellipsoid_radius,
    evaluate,
    most_optimistic,
    new_ridge,
    new_scratch,
    rank_one_offered,
    update,
)
from equipoise.types import Array


def unit_rows(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def direct_solve(rows: Array, rewards: Array, regularization: float) -> tuple:
    """(theta, Sigma^{-1}, ln det Sigma - d ln lambda) from scratch."""
    dim = rows.shape[1]
    sigma = regularization * np.eye(dim) + rows.T @ rows
    log_determinant = np.linalg.slogdet(sigma)[1] - dim * log(regularization)
    return np.linalg.solve(sigma, rows.T @ rewards), np.linalg.inv(sigma), log_determinant


def updated(dim: int, regularization: float, rows: Array, rewards: Array) -> Ridge:
    ridge = new_ridge(dim, regularization)
    for row, reward in zip(rows, rewards, strict=True):
        update(ridge, row, float(reward))
    return ridge


@given(
    dim=st.integers(1, 6),
    n=st.integers(0, 40),
    regularization=st.floats(1e-3, 1e3),
    repeats=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_updates_agree_with_a_direct_solve(dim: int, n: int, regularization: float, repeats: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng, n, dim) * rng.random((n, 1))
    if repeats and n:  # the same few rows again and again leave directions that are never seen
        rows = rows[rng.integers(min(n, 2), size=n)]
    rewards = rng.standard_normal(n)
    ridge = updated(dim, regularization, rows, rewards)
    theta, inverse, log_determinant = direct_solve(rows, rewards, regularization)
    scale = 1 / regularization
    np.testing.assert_allclose(ridge.theta, theta, rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(ridge.factor @ ridge.factor.T, inverse, rtol=1e-9, atol=1e-9 * scale)
    assert ridge.log_determinant[0] == pytest.approx(log_determinant, rel=1e-9, abs=1e-9)
    assert ridge.updates[0] == n


@given(dim=st.integers(1, 5), n_actions=st.integers(1, 6), extra=st.integers(0, 3), seed=st.integers(0, 2**32))
def test_evaluation_is_mean_and_squared_norm(dim: int, n_actions: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ridge = updated(dim, 0.5, unit_rows(rng, 30, dim), rng.standard_normal(30))
    actions = rng.standard_normal((n_actions, dim + extra))
    means, squared_norms = evaluate(ridge, actions)
    for mean, squared_norm, action in zip(means, squared_norms, actions[:, :dim], strict=True):
        assert mean == pytest.approx(action @ ridge.theta, rel=1e-9, abs=1e-12)
        assert squared_norm == pytest.approx(action @ ridge.factor @ ridge.factor.T @ action, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "unseen"), [(8, False), (8, True), (32, False)])
def test_agrees_with_a_direct_solve_after_100_000_updates(dim: int, unseen: bool) -> None:
    """`unseen` leaves one direction, not along a coordinate, without any row: the worst case for rounding."""
    rng = np.random.default_rng(1)
    n = 100_000
    rows = unit_rows(rng, 300, dim)
    if unseen:
        hidden = unit_rows(rng, 1, dim)[0]
        rows -= np.outer(rows @ hidden, hidden)
    played = rows[rng.integers(len(rows), size=n)]
    rewards = played @ unit_rows(rng, 1, dim)[0] + rng.uniform(-0.5, 0.5, n)
    ridge = updated(dim, 1.0, played, rewards)
    theta, inverse, log_determinant = direct_solve(played, rewards, 1.0)
    np.testing.assert_allclose(ridge.theta, theta, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ridge.factor @ ridge.factor.T, inverse, rtol=0, atol=1e-8)
    np.testing.assert_allclose(evaluate(ridge, rows)[1], np.vecdot(rows @ inverse, rows), rtol=1e-8)
    assert ridge.log_determinant[0] == pytest.approx(log_determinant, abs=1e-8)


def test_squared_norms_stay_positive_where_an_inverse_would_have_turned_negative() -> None:
    """A regularization this weak leaves an inverse, updated as such, with rounding errors far above 1/n."""
    rng = np.random.default_rng(2)
    row = unit_rows(rng, 1, 4)[0]
    ridge, inverse = new_ridge(4, 1e-18), np.eye(4) * 1e18
    for _ in range(50):
        update(ridge, row, 0.5)
        direction = inverse @ row
        inverse -= np.outer(direction, direction) / (1 + direction @ row)
    assert abs(row @ inverse @ row - 1 / 50) > 1 / 50
    assert evaluate(ridge, row[None, :])[1][0] == pytest.approx(1 / 50, rel=1e-5)


def test_radius_of_the_ellipsoid_is_the_determinant_form() -> None:
    rng = np.random.default_rng(3)
    rows = unit_rows(rng, 25, 1)
    ridge = updated(1, 2.0, rows, np.zeros(25))
    delta, noise, norm_bound = 0.05, 0.3, 1.5
    expected = noise * sqrt(log(27.0) - log(2.0) + 2 * log(1 / delta)) + sqrt(2.0) * norm_bound
    ellipsoid = Ellipsoid(noise, 2 * log(1 / delta), sqrt(2.0) * norm_bound)
    assert ellipsoid_radius(ellipsoid, ridge) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("choose", [most_optimistic, NATIVE[most_optimistic]], ids=["interpreted", "native"])
def test_ties_of_optimism_go_to_the_first(choose) -> None:
    assert choose(np.array([0.0, 1.0, 0.5, 1.0]), np.array([0.0, 0.0, 0.25, 0.0]), 1.0) == (1, 1)


@pytest.mark.parametrize("n_rows", [1, 2, MAX_LOOPED_ROWS, MAX_LOOPED_ROWS + 1, 4 * MAX_LOOPED_ROWS])
def test_optimism_over_few_rows_and_over_many_is_the_largest_sum(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    for _ in range(200):
        means, squared_norms = rng.integers(-3, 4, n_rows) / 3.0, rng.integers(0, 4, n_rows) / 7.0  # with ties
        radius = float(rng.exponential())
        expected = int(np.argmax(means + radius * np.sqrt(squared_norms))), int(np.argmax(means))
        assert most_optimistic(means, squared_norms, radius) == expected


def use_native_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the functions that compiled code runs, as plain Python, in place of the interpreted ones."""
    for interpreted, twin in NATIVE.items():
        if interpreted.__module__ == ridge_module.__name__:
            monkeypatch.setattr(ridge_module, interpreted.__name__, twin)


def run_through_module(dim: int, actions: Array, rewards: Array) -> tuple[Ridge, list[tuple]]:
    """Decide by optimism and learn, calling every kernel through the module, so that twins are found."""
    ridge = new_ridge(dim, 0.7)._replace(scratch=new_scratch(dim, actions.shape[1]))
    seen: list[tuple] = []
    for offered, reward in zip(actions, rewards, strict=True):
        means, squared_norms = (numbers.copy() for numbers in ridge_module.evaluate(ridge, offered))
        chosen, _ = ridge_module.most_optimistic(means, squared_norms, 1.3)
        ridge_module.update_offered(ridge, offered, chosen, reward)
        seen.append((chosen, means, squared_norms))
    return ridge, seen


@pytest.mark.parametrize(("dim", "n_columns"), [(1, 5), (5, 5), (6, 9), (50, 50), (50, 52)])
def test_native_twins_agree_with_the_interpreted_kernels(
    dim: int, n_columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    n = 300 if dim < 10 else 60
    actions, rewards = unit_rows(rng, n * 6, n_columns).reshape(n, 6, n_columns), rng.random(n)
    interpreted, seen = run_through_module(dim, actions, rewards)
    use_native_twins(monkeypatch)
    assert ridge_module.rank_one_offered is not rank_one_offered
    native, seen_native = run_through_module(dim, actions, rewards)
    for (chosen, means, squared_norms), (twin_chosen, twin_means, twin_norms) in zip(seen, seen_native, strict=True):
        assert chosen == twin_chosen
        np.testing.assert_allclose(twin_means, means, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(twin_norms, squared_norms, rtol=1e-9, atol=1e-12)
    for name in ("factor", "theta", "log_determinant", "updates"):
        np.testing.assert_allclose(getattr(native, name), getattr(interpreted, name), rtol=1e-9, atol=1e-12)
