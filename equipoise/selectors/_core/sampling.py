"""What selectors have in common that draw learners by odds they keep, for a number of rounds that is known."""

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
    """A row that says with which probability its learner is drawn."""

    probability: float


Odds = TypeVar("Odds", bound=HasProbability)


class State(NamedTuple, Generic[Odds]):
    """The odds are of whatever kind the selector keeps, a row per learner."""

    evidence: evidence.State
    odds: list[Odds]


@kernel
def sample(odds: list[Odds], rng: np.random.Generator) -> int:
    """A learner, drawn by its probability."""
    left = rng.random()
    for i in range(len(odds) - 1):
        left -= odds[i].probability
        if left < 0.0:
            return i
    return len(odds) - 1  # rounding may leave a rest beyond the last one


@kernel
def choose(params: object, state: State[Odds], rng: np.random.Generator) -> tuple[int, float]:
    i = sample(state.odds, rng)
    return i, state.odds[i].probability


@kernel
def loss_of(limits: evidence.Params, reward: float) -> float:
    """The reward as a loss in [0, 1]: here, and nowhere else, rewards turn into losses."""
    return (limits.high - reward) / limits.width


def at_least_two(name: str, n_learners: int) -> int:
    number = count(name, n_learners)
    if number < 2:
        raise InvalidArgument(f"{name} is {n_learners!r}, but must be at least 2 to draw from")
    return number


@configurable
class SamplingSettings(Seeded, CertificateSettings):
    """For a selector over at least two learners and for `rounds` rounds."""

    n_learners: int = setting(check=at_least_two, kw_only=False)
    rounds: int = setting(check=partial(count, least=2), deprecated="horizon")


class SamplingSelector(SamplingSettings, EvidenceSelector[P, State[Odds]]):
    """A selector that has a row of odds for each learner."""

    @property
    def probabilities(self) -> tuple[float, ...]:
        """With which each learner is drawn."""
        return tuple(row.probability for row in self.kernel_state.odds)
