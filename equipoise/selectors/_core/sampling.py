"""Selectors that sample learners from stored probabilities, for a known number of rounds."""

from __future__ import annotations

from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector, P
from equipoise.selectors._core.settings import CertificateSettings, Seeded
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count


class HasProbability(Protocol):
    """A row with the probability of its learner."""

    probability: float


Odds = TypeVar("Odds", bound=HasProbability)


class State(NamedTuple, Generic[Odds]):
    """Evidence and one row of sampling weights per learner, of a type that the selector defines."""

    evidence: evidence.State
    odds: list[Odds]


@kernel
def sample(odds: list[Odds], rng: np.random.Generator) -> int:
    """Sample a learner by the probabilities in the rows."""
    left = rng.random()
    for i in range(len(odds) - 1):
        left -= odds[i].probability
        if left < 0.0:
            return i
    return len(odds) - 1  # rounding may leave a remainder beyond the last learner


@kernel
def choose(params: object, state: State[Odds], rng: np.random.Generator) -> tuple[int, float]:
    i = sample(state.odds, rng)
    return i, state.odds[i].probability


@kernel
def loss_of(limits: evidence.Params, reward: float) -> float:
    """The reward as a loss in [0, 1]."""
    return (limits.high - reward) / limits.width


def at_least_two(name: str, n_learners: int) -> int:
    number = count(name, n_learners)
    if number < 2:
        raise InvalidArgument(f"{name} is {n_learners!r}, but must be at least 2")
    return number


@configurable
class SamplingSettings(Seeded, CertificateSettings):
    """Settings of a selector over at least two learners, for `rounds` rounds."""

    n_learners: int = setting(check=at_least_two, kw_only=False)
    rounds: int = setting(check=partial(count, minimum=2), deprecated="horizon")


class SamplingSelector(SamplingSettings, EvidenceSelector[P, State[Odds]]):
    """A selector with one row of sampling weights per learner."""

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each learner."""
        return tuple(row.probability for row in self.kernel_state.odds)
