"""Logs with known truth, and plain readers to compare with."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.logs import LoggedRounds, from_arrays
from equipoise.types import Array, Integers


class Truth(NamedTuple):
    contexts: Array  # (n, K, d), rows of norm below 1
    means: Array  # (n, K)
    pmf: Array  # (n, K) of the logging policy
    actions: Integers
    rewards: Array

    @property
    def propensities(self) -> Array:
        return self.pmf[np.arange(len(self.actions)), self.actions]

    def log(self, **settings: Any) -> LoggedRounds:
        return from_arrays(self.contexts, self.actions, self.rewards, self.propensities, pmf=self.pmf, **settings)


def linear_truth(n: int, seed: int, n_actions: int = 4, dim: int = 3, floor: float = 0.4) -> Truth:
    """Linear mean rewards in [0, 1], Bernoulli noise, and a logging policy that depends on the context."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, n_actions, dim))
    contexts /= np.linalg.norm(contexts, axis=2, keepdims=True) * (1 + 1e-9)
    theta = np.arange(1, dim + 1) / np.linalg.norm(np.arange(1, dim + 1))
    means = 0.5 + 0.45 * contexts @ theta
    scores = np.exp(2.0 * contexts[:, :, 0])
    pmf = (1 - floor) * scores / scores.sum(axis=1, keepdims=True) + floor / n_actions
    actions = (pmf.cumsum(axis=1) > rng.random(n)[:, None] * (1 - 1e-12)).argmax(axis=1)
    rewards = (rng.random(n) < means[np.arange(n), actions]).astype(float)
    return Truth(contexts, means, pmf, actions, rewards)


def event(action: int = 0, n_actions: int = 2, **changes: Any) -> dict[str, Any]:
    """A valid dsjson event; a change to None removes the entry."""
    order = [action + 1, *(k + 1 for k in range(n_actions) if k != action)]
    valid = {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": action + 1,
        "_labelIndex": action,
        "Timestamp": "2026-11-01T00:00:00.0000000Z",
        "EventId": "e",
        "a": order,
        "p": [0.5, *[0.5 / (n_actions - 1)] * (n_actions - 1)],
        "c": {"user": {"age": 0.25}, "_multi": [{"ad": {"price": 0.5 + k}} for k in range(n_actions)]},
    }
    return {key: value for key, value in {**valid, **changes}.items() if value is not None}


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path
