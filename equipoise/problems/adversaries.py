"""Adversaries as data: what may be done to the contexts of a linear bandit, from the number of the round and from who
was played in earlier ones.

An adversary can do two things to an action set. It can scale all actions, and with them all expected rewards: a poor
round, in which even the best action earns little. And it can hide features, by setting them to zero in every action,
from learners that look at no others. Neither takes expected rewards out of [0, 1] or norms above 1, and every linear
class that was true stays true: only which rounds are comparable changes.

`Switching`: rich and poor blocks by turns, whatever anybody plays. `Predicting`: poor rounds for chosen learners, as
far as it can predict who plays next. `Punishing`: rich and poor by turns as learners drop out, epoch by epoch.
`Hiding`: takes its features from whichever learner was played most of late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.kernels.marks import kernel
from equipoise.settings.checks import count, fraction
from equipoise.types import Array, Config, Integers, Plain

MAX_LEARNERS = 64
SWITCHING, PREDICTING, PUNISHING, HIDING = range(4)


class Rule(NamedTuple):
    """An adversary as plain numbers, so that compiled code can follow it."""

    kind: int
    span: int  # length of a block, rounds until a learner counts as gone, or rounds that are looked back on
    scales: Array
    learners: Integers  # (64,) what it has in mind for each learner: poor rounds (1), or so many features


class History(NamedTuple):
    """Who was played; arrays change in place. Learners beyond the first 64 leave no trace."""

    rounds: Integers  # (1,) rounds that are over
    last_played: Integers  # (64,) the last round in which each learner was played, 0 if none
    recent_plays: Array  # (64,) of each learner, a play counting less the longer ago it was


def new_history() -> History:
    return History(np.zeros(1, np.int64), np.zeros(MAX_LEARNERS, np.int64), np.zeros(MAX_LEARNERS))


@dataclass(frozen=True)
class Switching:
    """Blocks of `period` rounds, scaled by `scales` in turn."""

    period: int = 1
    scales: Sequence[float] = (1.0, 0.3)

    def rule(self) -> Rule:
        return Rule(SWITCHING, count("period", self.period), _scales(self.scales), _per_learner({}))


@dataclass(frozen=True)
class Predicting:
    """Rounds scaled by `scale` whenever a learner of `against` seems to be next.

    It predicts the learner whose last play is longest ago, apart from those gone for `patience` rounds. That is right
    whenever learners play in turn, as regret balancing makes them do while their bounds are level; a learner drawn at
    random cannot be predicted.
    """

    against: Sequence[int]
    scale: float = 0.3
    patience: int = 50

    def rule(self) -> Rule:
        against = _check_list("against", self.against, 1, MAX_LEARNERS)
        targets = {count("against", learner, least=0, most=MAX_LEARNERS - 1): 1 for learner in against}
        scales = np.array([1.0, fraction("scale", self.scale)])
        return Rule(PREDICTING, count("patience", self.patience), scales, _per_learner(targets))


@dataclass(frozen=True)
class Punishing:
    """Rounds scaled by `scales` in turn, the next scale each time that a learner is gone for `patience` rounds."""

    scales: Sequence[float] = (1.0, 0.3)
    patience: int = 1000

    def rule(self) -> Rule:
        return Rule(PUNISHING, count("patience", self.patience), _scales(self.scales), _per_learner({}))


@dataclass(frozen=True)
class Hiding:
    """Features 2..d are zero, d being what the learner looks at that was played most in about the last `window` rounds.

    `dims` has the number of features of each learner. A learner that looks at all features that matter is left alone.
    """

    dims: Sequence[int]
    window: int = 1000

    def rule(self) -> Rule:
        dims = _check_list("dims", self.dims, 1, MAX_LEARNERS)
        hidden = {i: count(f"dims[{i}]", dim) for i, dim in enumerate(dims)}
        return Rule(HIDING, count("window", self.window), np.ones(1), _per_learner(hidden))


Adversary = Switching | Predicting | Punishing | Hiding
ADVERSARIES: dict[str, type[Adversary]] = {cls.__name__: cls for cls in (Switching, Predicting, Punishing, Hiding)}


def to_json(adversary: Adversary) -> Config:
    """The adversary as plain data."""
    settings = asdict(adversary)
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {"adversary": type(adversary).__name__, **plain}


def from_json(data: Adversary | Mapping[str, Plain]) -> Adversary:
    """The adversary that `to_json` described, or the one given."""
    if isinstance(data, tuple(ADVERSARIES.values())):
        return data  # type: ignore[return-value]  # mypy cannot tell from a tuple of classes
    if not isinstance(data, Mapping) or "adversary" not in data:
        raise InvalidArgument(f"adversary is {data!r}, but must be one of {', '.join(ADVERSARIES)}")
    settings: Config = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    name = str(settings.pop("adversary"))
    if name not in ADVERSARIES:
        raise UnknownName("adversary", name, ADVERSARIES)
    try:
        adversary: Adversary = ADVERSARIES[name](**settings)
    except TypeError:
        raise InvalidArgument(f"adversary is {data!r}, but {name} has other settings") from None
    return adversary


@kernel
def record(rule: Rule, history: History, learner: int) -> None:
    """A round is over, in which `learner` was played."""
    history.rounds[0] += 1
    if rule.kind == HIDING:
        for j in range(len(history.recent_plays)):
            history.recent_plays[j] *= 1.0 - 1.0 / rule.span
    if learner < len(history.last_played):
        history.last_played[learner] = history.rounds[0]
        history.recent_plays[learner] += 1.0


@kernel
def scale_of(rule: Rule, history: History) -> float:
    """By how much the next round is scaled."""
    if rule.kind == SWITCHING:
        return float(rule.scales[(history.rounds[0] // rule.span) % len(rule.scales)])
    if rule.kind == PREDICTING:
        due = next_learner(rule, history)
        return float(rule.scales[rule.learners[due]]) if due >= 0 else 1.0
    if rule.kind == PUNISHING:
        return float(rule.scales[n_inactive(rule, history) % len(rule.scales)])
    return 1.0


@kernel
def next_learner(rule: Rule, history: History) -> int:
    """The learner played longest ago, of those that are not gone; -1 if there is none."""
    due, longest_ago = -1, history.rounds[0] + 1
    for j in range(len(history.last_played)):
        last = history.last_played[j]
        if last > 0 and last > history.rounds[0] - rule.span and last < longest_ago:
            due, longest_ago = j, last
    return due


@kernel
def n_inactive(rule: Rule, history: History) -> int:
    """How many learners have played, but not in the last `span` rounds."""
    inactive = 0
    for j in range(len(history.last_played)):
        if 0 < history.last_played[j] <= history.rounds[0] - rule.span:
            inactive += 1
    return inactive


@kernel
def n_hidden(rule: Rule, history: History, n_signal: int) -> int:
    """How many features the next round hides, the first counted but never zero; 0 if the rest would not matter."""
    most, hidden = 0.0, 0
    if rule.kind == HIDING:
        for j in range(len(history.recent_plays)):
            if history.recent_plays[j] > most:
                most, hidden = history.recent_plays[j], rule.learners[j]
    return hidden if hidden < n_signal else 0


def _scales(scales: Sequence[float]) -> Array:
    factors = _check_list("scales", scales, 2, 1_000_000)
    return np.array([fraction(f"scales[{k}]", scale) for k, scale in enumerate(factors)])


def _check_list(name: str, value: object, least: int, most: int) -> list[Plain]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not least <= len(value) <= most:
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a list of {least} to {most} numbers")
    return list(value)


def _per_learner(values: Mapping[int, int]) -> Integers:
    array = np.zeros(MAX_LEARNERS, np.int64)
    for learner, value in values.items():
        array[learner] = value
    return array
