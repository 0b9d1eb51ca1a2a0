"""coba: Corral over LinUCB on each of the three feature maps."""

from typing import Any

from coba.learners import CorralLearner, LinUCBLearner

from tools.bench.contest import PART_A, PART_B

RUNS = "CorralLearner(mode='off-policy') over LinUCBLearner(alpha=width) on each map"


class OnMap:
    """LinUCB on the first `dim` features of the actions."""

    def __init__(self, dim: int, width: float, seed: int) -> None:
        self.dim, self.learner = dim, LinUCBLearner(alpha=width, features=["a"], seed=seed)

    @property
    def params(self) -> dict[str, Any]:
        return {"dim": self.dim, **self.learner.params}

    def predict(self, context: Any, actions: list[tuple[float, ...]]) -> tuple[tuple[float, ...], float]:
        seen = [action[: self.dim] for action in actions]
        chosen, probability = self.learner.predict(None, seen)[:2]
        return actions[seen.index(chosen)], probability

    def learn(self, context: Any, action: tuple[float, ...], reward: float, probability: float) -> None:
        self.learner.learn(None, action[: self.dim], reward, probability)


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        dims = [n_actions * n for n in (1, 1 + PART_A, 1 + PART_A + PART_B)]
        self.learner = CorralLearner([OnMap(d, width, seed) for d in dims], mode="off-policy", seed=seed)
        self.probability, self.info = 1.0, {}

    def prepare(self, actions: Any) -> list[tuple[float, ...]]:
        return [tuple(row) for row in actions.tolist()]

    def decide(self, context: list[tuple[float, ...]]) -> int:
        action, self.probability, self.info = self.learner.predict(None, context)
        return context.index(action)

    def learn(self, context: list[tuple[float, ...]], action: int, reward: float) -> None:
        self.learner.learn(None, context[action], reward, self.probability, **self.info)
