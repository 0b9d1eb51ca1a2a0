"""Selectors that sample learners from stored probabilities, for a known number of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.parts import P
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
def sample(accounts: evidence.State, odds: list[Odds], rng: np.random.Generator) -> tuple[int, float]:
    """An active learner, sampled by the probabilities in the rows, and its probability among the active ones."""
    total = active_total(accounts, odds)
    left, chosen = rng.random() * total, -1
    for i in range(len(odds)):
        if accounts.accounts[i].active:
            chosen = i  # rounding may leave a remainder beyond the last learner
            left -= odds[i].probability
            if left < 0.0:
                break
    return chosen, odds[chosen].probability / total


@kernel
def active_total(accounts: evidence.State, odds: list[Odds]) -> float:
    """The sum of the probabilities of the active learners: exactly 1, without rounding error, if all are."""
    total, complete = 0.0, True
    for i in range(len(odds)):
        if accounts.accounts[i].active:
            total += odds[i].probability
        else:
            complete = False
    return 1.0 if complete else total


def chances(accounts: evidence.State, odds: Sequence[HasProbability]) -> tuple[float, ...]:
    """The probability of each learner among the active ones."""
    total = active_total(accounts, list(odds))
    return tuple(row.probability / total if a.active else 0.0 for row, a in zip(odds, accounts.accounts, strict=True))


@kernel
def choose(params: object, state: State[Odds], rng: np.random.Generator) -> tuple[int, float]:
    return sample(state.evidence, state.odds, rng)


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

    def _chances(self) -> tuple[float, ...]:
        return chances(self.evidence, self.kernel_state.odds)
