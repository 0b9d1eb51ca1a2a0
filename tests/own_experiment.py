"""An experiment as a user would write it: problem, learners and selector of their own, outside the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from equipoise.certificates import Certificate, Standing
from equipoise.lab.experiments import Experiment, Setup
from equipoise.learner import Proposal
from equipoise.selector import Choice
from equipoise.types import Action, Config, Context, Plain, State

MEANS = (0.3, 0.7, 0.5)


class Coins:
    """Three coins; in a problem that is not i.i.d. the round number is the context."""

    name = "Coins"
    reward_range = (0.0, 1.0)
    noise: float | None = None

    def __init__(self, iid: bool) -> None:
        self.iid = iid
        self.rounds = 0

    def observe(self, rng: np.random.Generator) -> Context:
        return None if self.iid else self.rounds

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        return float(rng.random() < MEANS[action])

    def gap(self, context: Context, action: Action) -> float:
        return max(MEANS) - MEANS[action]

    def record(self, learner: int, action: Action, reward: float) -> None:
        self.rounds += 1

    def config(self) -> Config:
        return {"iid": self.iid}


class Habit:
    """Repeats an action while it pays, and draws another one when it does not."""

    accepts: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()

    def __init__(self, first: int) -> None:
        self.name = f"habit {first}"
        self.action = first

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        if self.action >= 0:
            return Proposal(self.action)
        assert rng is not None
        return Proposal(int(rng.integers(len(MEANS))), probability=1 / len(MEANS))

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        self.action = int(action) if reward > 0.5 else -1

    def config(self) -> Config:
        return {"first": self.action}

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        return cls(**config)

    def state(self) -> State:
        return {"action": np.array([self.action])}

    def restore(self, state: State) -> None:
        self.action = int(state["action"][0])


class InTurn:
    """Every learner in turn, or drawn at random."""

    name = "In turn"
    needs: frozenset[str] = frozenset()

    def __init__(self, n_learners: int, random: bool) -> None:
        self.n_learners = n_learners
        self.random = random
        self.plays = [0] * n_learners

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(range(self.n_learners))

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        i = sum(self.plays) % self.n_learners
        if self.random:
            assert rng is not None
            i = int(rng.integers(self.n_learners))
        self.plays[i] += 1
        return Choice(i, self.plays[i], 1 / self.n_learners if self.random else 1.0)

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        pass

    def replay(self, choice: Choice) -> None:
        self.plays[choice.learner] += 1

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[()]:
        return ()

    def withdraw(self, choice: Choice) -> tuple[()]:
        self.plays[choice.learner] -= 1
        return ()

    def standing(self) -> list[Standing]:
        return []

    def certificate(self) -> Certificate:
        rounds, n = sum(self.plays), float("nan")
        return Certificate(rounds, rounds, 0.0, 1.0, 0.0, n, (n,) * self.n_learners, 0.05, 0.0, True, False)

    def config(self) -> Config:
        return {"n_learners": self.n_learners, "random": self.random}

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        return cls(**config)

    def state(self) -> State:
        return {"plays": np.array(self.plays)}

    def restore(self, state: State) -> None:
        self.plays = state["plays"].tolist()


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    learners = tuple(Habit(first) for first in range(settings["learners"]))
    selectors = {"in-turn": InTurn(len(learners), False), "at-random": InTurn(len(learners), True)}
    return Setup(Coins(settings["instance"] == "alike"), learners, selectors)


OWN = Experiment(
    name="own",
    title="Coins and habits",
    section="none",
    claim="Nothing.",
    defaults={"rounds": 300, "seeds": 3, "learners": 3},
    selectors=("in-turn", "at-random"),
    build=build,
    instances=("alike", "in order"),
)
