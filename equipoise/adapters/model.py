"""The contract of a model: a regression of another library that scores actions and learns from rewards one by one.

A model is a description until a learner opens it: the learner makes a copy for itself, so one model can be given to
several learners, and nothing that a library object has learned before is used.

Rewards and scores of a model have mean zero and half-range 1: the low end of the reward range is -1 and the high end is
1. Step sizes and penalties of a library then mean the same in any unit of rewards.
"""

from __future__ import annotations

from functools import partial
from typing import Self

from equipoise.errors import InvalidArgument
from equipoise.settings import Configured, configurable, optional, setting
from equipoise.settings.checks import count
from equipoise.types import Array, State

dim_setting = partial(
    setting,
    check=optional(partial(count, maximum=100_000)),
    default=None,
    doc="Number of leading columns to use. Default: as many as the learner's `features` has.",
)


@configurable
class Model(Configured):
    """A regression that `Exploring` turns into a learner. Subclasses implement everything below."""

    dim: int | None = dim_setting()

    @property
    def n_features(self) -> int:
        """Number of features; raise an error if neither this model nor its learner says it."""
        if self.dim is None:
            raise InvalidArgument("dim is None, but must be given unless the learner of the model has features")
        return self.dim

    @property
    def bounded(self) -> bool:
        """Whether it can learn only rewards within the range."""
        return False

    def with_dim(self, dim: int) -> Self:
        """Return a copy in its initial state that has this number of features."""
        return type(self).from_config({**self.config(), "dim": dim})

    def open(self) -> None:
        """Create everything that learns."""
        raise NotImplementedError  # abstract

    def scores(self, rows: Array) -> Array:
        """The estimated reward of every row of `n_features`, in units of half the range; changes nothing."""
        raise NotImplementedError  # abstract

    def learn(self, row: Array, reward: float, weight: float) -> None:
        """Learn from the reward of a row, in [-1, 1] if it lies within the range; `weight` is positive."""
        raise NotImplementedError  # abstract

    def state(self) -> State:
        """Everything learned, as arrays; bytes as arrays of uint8."""
        raise NotImplementedError  # abstract

    def restore(self, state: State) -> None:
        """Replace everything learned by a state of the same arrays."""
        raise NotImplementedError  # abstract

    def describe(self) -> str:
        """A short name for tables."""
        return type(self).__name__
