"""What the selectors of Vowpal Wabbit have in common: a, b and the action are namespaces, the features interactions."""

from random import Random
from typing import Any, ClassVar

from vowpalwabbit import Workspace

from tools.bench.contest import PART_A, PART_B


class Namespaces:
    arguments: ClassVar[str]

    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.workspace = Workspace(f"{self.arguments} --quiet --random_seed {seed}")
        self.rng, self.actions = Random(seed), range(n_actions)
        self.probabilities: list[float] = []

    def prepare(self, actions: Any) -> list[str]:
        n = len(actions)
        a, b = actions[0, n : n + PART_A].tolist(), actions[0, n * (1 + PART_A) :][:PART_B].tolist()
        words = [" ".join(f"{letter}{j}:{x!r}" for j, x in enumerate(part)) for letter, part in (("a", a), ("b", b))]
        return [f"shared |A {words[0]} |B {words[1]}", *(f"|X k{k}" for k in range(n))]

    def decide(self, context: list[str]) -> int:
        self.probabilities = self.workspace.predict(context)
        return self.rng.choices(self.actions, self.probabilities)[0]

    def learn(self, context: list[str], action: int, reward: float) -> None:
        lines = list(context)
        lines[1 + action] = f"0:{-reward}:{self.probabilities[action]} {lines[1 + action]}"
        self.workspace.learn(lines)
