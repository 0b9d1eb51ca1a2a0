"""What selectors with a horizon have in common that draw learners by odds they keep: the draw and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.selectors.base import BookedSelector
from equipoise.selectors.evidence import Account, Limits, Pool
from equipoise.validation import count


class Drawn(Protocol):
    """A row that says with which probability its learner is drawn."""

    probability: float


class DrawnBooks(NamedTuple):
    """The books of `evidence` and a row of odds per learner, of whatever kind the selector keeps."""

    accounts: list[Account]
    pool: list[Pool]
    odds: list[Any]


@kernel
def draw(odds: list[Drawn], rng: np.random.Generator) -> int:
    """A learner, drawn by its probability."""
    left = rng.random()
    for i in range(len(odds) - 1):
        left -= odds[i].probability
        if left < 0.0:
            return i
    return len(odds) - 1  # rounding may leave a rest beyond the last one


@kernel
def choose(rules: Limits, books: DrawnBooks, rng: np.random.Generator) -> tuple[int, float]:
    i = draw(books.odds, rng)
    return i, books.odds[i].probability


@kernel
def loss_of(rules: Limits, reward: float) -> float:
    """The reward as a loss in [0, 1]: here, and nowhere else, rewards turn into losses."""
    return (rules.high - reward) / rules.width


class DrawnSelector(BookedSelector):
    """A selector over at least two learners for `horizon` rounds, whose books have `odds`."""

    randomized = True
    own_settings: ClassVar[tuple[str, ...]]  # of the constructor, beside those that follow here
    books: Any

    def __init__(
        self,
        n_learners: int,
        *,
        horizon: int,
        reward_range: tuple[float, float],
        delta: float,
        contexts: str,
        seed: int,
    ) -> None:
        self.horizon = count("horizon", horizon, least=2)
        super().__init__(n_learners, None, delta=delta, reward_range=reward_range, contexts=contexts, seed=seed)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """With which each learner is drawn."""
        return tuple(row.probability for row in self.books.odds)

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {
            "n_learners": self.n_learners,
            "horizon": self.horizon,
            **{name: getattr(self, name) for name in self.own_settings},
            "delta": self.delta,
            "reward_range": list(self.reward_range),
            "contexts": self.contexts,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The selector that `config` describes, in its initial state."""
        return cls(**{**config, "reward_range": tuple(config["reward_range"])})


def at_least_two(n_learners: int) -> int:
    number = count("n_learners", n_learners)
    if number < 2:
        raise InvalidArgument(f"n_learners is {n_learners!r}, but must be at least 2 to draw from")
    return number
