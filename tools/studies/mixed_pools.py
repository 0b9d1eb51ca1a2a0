"""What a plain class costs a pool of learners that share data: `python -m tools.studies.mixed_pools [--seeds N]`.

Five learners that accept "off_policy" play public classification data (`tools.studies.public_data`), alone and with a
sixth one that has only `decide` and `learn`: a rule that always plays action 0, random actions, ridge regression that
explores 5 % of the time, nearest neighbors, or a classifier that is always right. Regret is the number of wrong rows.

The limit is 1.15 times the regret of the five alone. Control: `share_data=False`, which must exceed it. The classifier
must be found: regret below that of the five alone. Seeds are below 1,000.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np

from equipoise import Portfolio
from equipoise.learners import OFUL, LinearThompson, SquareCB
from equipoise.types import Array, Context
from tools.main import run_command
from tools.studies.public_data import LINEAR, Problem, mean_with_error, problems

DATA, ROUNDS, FIRST_SEED, LIMIT = ("wine", "breast cancer"), 2_000, 900, 1.15


class AlwaysFirst:
    """A plain class that never learns, and does not say so."""

    def decide(self, context: Context) -> int:
        return 0

    def learn(self, context: Context, action: int, reward: float) -> None:
        return


class RandomActions:
    """A plain class that draws its actions."""

    def decide(self, context: Context, rng: np.random.Generator) -> int:
        return int(rng.integers(len(context)))

    def learn(self, context: Context, action: int, reward: float) -> None:
        return


class PlainRidge:
    """A plain class that learns from its own plays."""

    def __init__(self, dim: int) -> None:
        self.moments, self.products, self.theta = np.eye(dim) / 10, np.zeros(dim), np.zeros(dim)

    def decide(self, context: Context, rng: np.random.Generator) -> int:
        if rng.random() < 0.05:
            return int(rng.integers(len(context)))
        return int((context @ self.theta).argmax())

    def learn(self, context: Context, action: int, reward: float) -> None:
        features = context[action]
        self.moments += np.outer(features, features)
        self.products += reward * features
        self.theta[:] = np.linalg.solve(self.moments, self.products)


class Neighbors:
    """A plain class that plays the action which paid most in the five own plays that are most like the row."""

    def __init__(self) -> None:
        self.rows: list[Array] = []
        self.plays: list[tuple[int, float]] = []

    def decide(self, context: Context, rng: np.random.Generator) -> int:
        n_actions, scores = len(context), 1e-6 * rng.random(len(context))
        if self.rows and rng.random() >= 0.02:
            distances = ((np.array(self.rows) - context[0][: context.shape[1] // n_actions]) ** 2).sum(axis=1)
            for near in distances.argsort()[:5]:
                action, reward = self.plays[near]
                scores[action] += (reward - 0.1) * np.exp(-10 * distances[near])
        return int(scores.argmax())

    def learn(self, context: Context, action: int, reward: float) -> None:
        self.rows.append(context[0][: context.shape[1] // len(context)])
        self.plays.append((action, reward))


class AlwaysRight:
    """A plain class that knows the label of every row."""

    def __init__(self, problem: Problem) -> None:
        rows = zip(problem.contexts(problem.rows), problem.labels, strict=True)
        self.labels = {context.tobytes(): int(label) for context, label in rows}

    def decide(self, context: Context) -> int:
        return self.labels[context.tobytes()]

    def learn(self, context: Context, action: int, reward: float) -> None:
        return


PLAIN: dict[str, Callable[[Problem], Any]] = {
    "always action 0": lambda problem: AlwaysFirst(),
    "random actions": lambda problem: RandomActions(),
    "ridge, 5 % random": lambda problem: PlainRidge(problem.dim),
    "nearest neighbors": lambda problem: Neighbors(),
    "always right": AlwaysRight,
}


def five(problem: Problem) -> list[Any]:
    """Return the learners that share data."""
    half = problem.n_actions * (problem.rows.shape[1] // 2 + 1)
    return [
        OFUL(problem.dim, **LINEAR),
        OFUL(half, **LINEAR),
        LinearThompson(problem.dim, **LINEAR),
        OFUL(problem.dim, **{**LINEAR, "scale": 1.0}),
        SquareCB(problem.dim, norm_bound=LINEAR["norm_bound"], action_bound=LINEAR["action_bound"]),
    ]


def regret(problem: Problem, plain: str, seed: int, rounds: int = ROUNDS, share_data: bool | None = None) -> float:
    """Return the number of wrong rows of the five, and of a plain class unless its name is empty."""
    added = [PLAIN[plain](problem)] if plain else []
    portfolio = Portfolio([*five(problem), *added], seed=seed, share_data=share_data)
    rows, labels = problem.draw(np.random.default_rng([seed, 6]), rounds)
    wrong = 0
    for context, label in zip(problem.contexts(rows), labels.tolist(), strict=True):
        decision = portfolio.decide(context)
        wrong += decision.action != label
        portfolio.learn(decision, float(decision.action == label))
    return float(wrong)


def run(seeds: int = 24, rounds: int = ROUNDS, data: str = ",".join(DATA)) -> None:
    """Print one table per data set."""
    logging.disable(logging.WARNING)
    chosen = range(FIRST_SEED, FIRST_SEED + seeds)
    for name in data.split(","):
        problem = problems()[name]
        alone = np.array([regret(problem, "", seed, rounds) for seed in chosen])
        print(f"\n{name}, {rounds:,} rounds, {seeds} seeds; the five alone: {mean_with_error(alone)}", flush=True)
        for plain in PLAIN:
            for shared in (None, False):
                found = np.array([regret(problem, plain, seed, rounds, shared) for seed in chosen])
                ratio, how = fmean(found) / fmean(alone), "own data" if shared is False else "default"
                print(f"{plain:20} {how:10} {mean_with_error(found)}, {ratio:.2f} times", flush=True)


if __name__ == "__main__":
    run_command(run)
