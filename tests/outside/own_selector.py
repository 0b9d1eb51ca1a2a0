"""A selector written from the `Selector` Protocol alone: plays the learner of highest mean reward, others in turn."""

from collections.abc import Mapping
from math import nan
from typing import Any, Self

import numpy as np

from equipoise import Certificate, Choice, Proposal, Standing
from equipoise.errors import InvalidArgument, UnknownDecision


class TurnsThenBest:
    """Every `every`-th round goes to the learners in turn, all others to the one of highest mean reward."""

    needs: frozenset[str] = frozenset()

    def __init__(self, n_learners: int, every: int = 4) -> None:
        self.n_learners, self.every = n_learners, every
        self.rounds = 0
        self.plays = np.zeros(n_learners, np.int64)
        self.rewarded = np.zeros(n_learners, np.int64)
        self.reward_sums = np.zeros(n_learners)
        self.open: set[tuple[int, int]] = set()

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(range(self.n_learners))

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        if self.rounds % self.every == 0:
            learner = self.rounds // self.every % self.n_learners
        else:
            learner = int(np.argmax(self.reward_sums / np.maximum(self.rewarded, 1)))
        choice = Choice(learner, int(self.plays[learner]) + 1, 1.0)
        self.replay(choice)
        return choice

    def replay(self, choice: Choice) -> None:
        self.open.add((choice.learner, choice.play))
        self.plays[choice.learner] += 1
        self.rounds += 1

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        self._check_open(choice)

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[()]:
        self._check_open(choice)
        if type(reward) is not float or not 0.0 <= reward <= 1.0:
            raise InvalidArgument(f"reward is {reward!r}, but must lie in [0, 1]")
        self.open.remove((choice.learner, choice.play))
        self.rewarded[choice.learner] += 1
        self.reward_sums[choice.learner] += reward
        return ()

    def withdraw(self, choice: Choice) -> tuple[()]:
        self._check_open(choice)
        self.open.remove((choice.learner, choice.play))
        if choice.play == self.plays[choice.learner]:
            self.plays[choice.learner] -= 1
            self.rounds -= 1
        return ()

    def standing(self) -> list[Standing]:
        rows = []
        for i in range(self.n_learners):
            n, plays = int(self.rewarded[i]), int(self.plays[i])
            mean = float(self.reward_sums[i] / n) if n else nan
            rows.append(Standing(i, plays, plays - n, mean, nan, nan, nan, nan, active=True))
        return rows

    def certificate(self) -> Certificate:
        rounds = int(self.plays.sum())
        resolved = rounds if not self.open else int(self.rewarded.sum())
        nothing = (0.0,) * self.n_learners
        return Certificate(
            rounds, resolved, 0.0, 1.0, 0.0, float(rounds), nothing, 0.5, 0.0, consistent=True, valid=True
        )

    def config(self) -> dict[str, Any]:
        return {"n_learners": self.n_learners, "every": self.every}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "rounds": np.array([self.rounds]),
            "plays": self.plays.copy(),
            "rewarded": self.rewarded.copy(),
            "reward_sums": self.reward_sums.copy(),
            "open": np.array(sorted(self.open), np.int64).reshape(-1, 2),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        shapes: dict[str, tuple[int, ...]] = {
            "rounds": (1,),
            "plays": (self.n_learners,),
            "rewarded": (self.n_learners,),
        }
        shapes |= {"reward_sums": (self.n_learners,), "open": (len(state.get("open", ())), 2)}
        for name, shape in shapes.items():
            if name not in state or state[name].shape != shape:
                raise InvalidArgument(f"state {name} must have shape {shape}")
        self.rounds = int(state["rounds"][0])
        self.plays, self.rewarded = state["plays"].copy(), state["rewarded"].copy()
        self.reward_sums = state["reward_sums"].copy()
        self.open = {(int(learner), int(play)) for learner, play in state["open"]}

    def _check_open(self, choice: Choice) -> None:
        if (choice.learner, choice.play) not in self.open:
            raise UnknownDecision(f"play {choice.play} of learner {choice.learner} is not open")
