"""Vowpal Wabbit: SquareCB over one linear model of the actions' features, trained by gradient steps.

It has no LinUCB; its updates cost O(d), not O(d^2). Action sets are parsed beforehand; only the chosen action is parsed
again, with its cost, because a label cannot be taken off an example. gamma_scale was chosen for low regret here.
"""

from random import Random
from typing import Any

from vowpalwabbit import Workspace

ARGUMENTS = "--cb_explore_adf --squarecb --gamma_scale 1000 --noconstant"
RUNS = f"{ARGUMENTS}: no LinUCB, gradient steps"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.workspace = Workspace(f"{ARGUMENTS} --quiet --random_seed {seed}")
        self.rng, self.actions = Random(seed), range(n_actions)
        self.probabilities: list[float] = []

    def prepare(self, actions: Any) -> tuple[list[Any], list[str]]:
        lines = ["| " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row)) for row in actions.tolist()]
        return [self.workspace.example(line) for line in lines], lines

    def decide(self, context: tuple[list[Any], list[str]]) -> int:
        self.probabilities = self.workspace.predict(context[0])
        return self.rng.choices(self.actions, self.probabilities)[0]

    def learn(self, context: tuple[list[Any], list[str]], action: int, reward: float) -> None:
        examples, lines = context
        unlabeled = examples[action]
        examples[action] = self.workspace.example(f"0:{-reward}:{self.probabilities[action]} {lines[action]}")
        self.workspace.learn(examples)
        examples[action] = unlabeled
