"""A learner written from the `Learner` Protocol, and one with nothing but `decide` and `learn`."""

from typing import Any

import numpy as np

from equipoise import Proposal


class RunningMeans:
    """Plays the action of highest mean reward, now and then any of them."""

    name = "running means"
    accepts: frozenset[str] = frozenset()
    provides = frozenset({"greedy", "value"})
    randomized = True

    def __init__(self, n_actions: int, epsilon: float = 0.1) -> None:
        self.n_actions, self.epsilon = n_actions, epsilon
        self.counts, self.sums = np.zeros(n_actions), np.zeros(n_actions)

    def decide(self, context: Any, rng: np.random.Generator | None = None) -> Proposal:
        means = (self.sums / np.maximum(self.counts, 1.0))[: len(offered(context))]
        greedy = action = int(np.argmax(means))
        rng = rng or np.random.default_rng(int(self.counts.sum()))
        if rng.random() < self.epsilon:
            action = int(rng.integers(len(context)))
        chance = self.epsilon / len(context) + (1.0 - self.epsilon) * (action == greedy)
        return Proposal(action, probability=chance, greedy=greedy, value=float(means[action]))

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        if not isinstance(action, int | np.integer) or not 0 <= action < len(offered(context)):
            raise ValueError(f"action is {action!r}, but must be an offered one")
        if type(reward) is not float or not abs(reward) < 1e100:
            raise ValueError(f"reward is {reward!r}, but must be a number")
        self.counts[action] += 1.0
        self.sums[action] += reward

    def config(self) -> dict[str, Any]:
        return {"n_actions": self.n_actions, "epsilon": self.epsilon}

    def state(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts.copy(), "sums": self.sums.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        for name in ("counts", "sums"):
            if name not in state or state[name].shape != (self.n_actions,):
                raise ValueError(f"state {name} must have shape ({self.n_actions},)")
        self.counts, self.sums = state["counts"].copy(), state["sums"].copy()


def offered(context: Any) -> np.ndarray:
    matrix = np.asarray(context, float)
    if matrix.ndim != 2 or not len(matrix) or not np.all(np.abs(matrix) < 1e100):
        raise ValueError("context must be a matrix of numbers")
    return matrix


class First:
    """Always the first action: all that is required of a learner."""

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: int, reward: float) -> None:
        pass
