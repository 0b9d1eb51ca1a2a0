"""SquareCB and its regressions, written from their formulas."""

from __future__ import annotations

import numpy as np

from equipoise.types import Array


def unit_rows(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def naive_distribution(predictions: Array, gamma: float) -> Array:
    """The definition, one action after another."""
    best = int(np.argmax(predictions))
    probabilities = np.array([1 / (len(predictions) + gamma * (predictions[best] - y)) for y in predictions])
    probabilities[best] = 0.0
    probabilities[best] = 1.0 - probabilities.sum()
    return probabilities


def naive_draw(probabilities: Array, number: float) -> int:
    return min(int(np.searchsorted(np.cumsum(probabilities), number, side="right")), len(probabilities) - 1)


def weighted_solve(rows: Array, rewards: Array, weights: Array, regularization: float) -> tuple[Array, Array]:
    """(Sigma, theta) of weighted ridge regression from scratch."""
    sigma = regularization * np.eye(rows.shape[1]) + rows.T @ (rows * weights[:, None])
    theta = np.linalg.solve(sigma, rows.T @ (weights * rewards)).astype(np.float64)
    return sigma, theta


def regret_of(learner, problem, rounds: int) -> float:
    """Summed gaps over some rounds."""
    rng, total = np.random.default_rng(56), 0.0
    for _ in range(rounds):
        context = problem.observe(rng)
        action = learner.decide(context, rng).action
        total += problem.gap(context, action)
        learner.learn(context, action, problem.respond(context, action, rng))
    return total
