"""coba: LinUCB on the features of the actions, one model for all of them."""

from typing import Any

from coba.learners import LinUCBLearner

RUNS = "LinUCBLearner(alpha=width, features=['a'])"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.learner = LinUCBLearner(alpha=width, features=["a"], seed=seed)

    def prepare(self, actions: Any) -> list[tuple[float, ...]]:
        return [tuple(row) for row in actions.tolist()]

    def decide(self, context: list[tuple[float, ...]]) -> int:
        action, _ = self.learner.predict(None, context)
        return context.index(action)

    def learn(self, context: list[tuple[float, ...]], action: int, reward: float) -> None:
        self.learner.learn(None, context[action], reward, 1.0)
