"""Adversaries as data: changes to the contexts of a linear bandit that depend on the number of the round and on the
learners played in earlier rounds.

An adversary can do two things to an action set. It can scale all actions, and with them all expected rewards: in a poor
round even the best action earns little. And it can hide features by setting them to zero in every action. Neither takes
expected rewards out of [0, 1] or norms above 1, and every linear class that was true remains true; only the
comparability of rounds changes.

`Switching` alternates between rich and poor blocks. `Predicting` makes rounds poor for chosen learners, as far as it
can predict the next learner. `Punishing` alternates between rich and poor rounds as learners are eliminated. `Hiding`
hides the features of the learner that was played most often in recent rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.settings import named_part, setting, value
from equipoise.settings.checks import count, fraction
from equipoise.types import Array, Config, Integers, Plain

MAX_LEARNERS = 64
SWITCHING, PREDICTING, PUNISHING, HIDING = range(4)


class Rule(NamedTuple):
    """An adversary as plain numbers, for compiled code."""

    kind: int
    span: int  # length of a block, rounds until a learner counts as inactive, or length of the window
    scales: Array
    learners: Integers  # (64,) for each learner: 1 if it is a target, or its number of features


class History(NamedTuple):
    """The learners played so far; arrays change in place. Learners beyond the first 64 are not recorded."""

    rounds: Integers  # (1,) rounds that are over
    last_played: Integers  # (64,) the last round in which each learner was played, 0 if none
    recent_plays: Array  # (64,) exponentially discounted plays of each learner


def new_history() -> History:
    return History(np.zeros(1, np.int64), np.zeros(MAX_LEARNERS, np.int64), np.zeros(MAX_LEARNERS))


def _check_list(name: str, value: object, min_length: int, max_length: int) -> tuple[Plain, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not min_length <= len(value) <= max_length:
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a list of {min_length} to {max_length} numbers")
    return tuple(value)


def _scales(name: str, value: object) -> tuple[float, ...]:
    return tuple(fraction(f"{name}[{k}]", scale) for k, scale in enumerate(_check_list(name, value, 2, 1_000_000)))


def _learners(name: str, value: object) -> tuple[int, ...]:
    learners = _check_list(name, value, 1, MAX_LEARNERS)
    return tuple(count(name, learner, minimum=0, maximum=MAX_LEARNERS - 1) for learner in learners)


def _dims(name: str, value: object) -> tuple[int, ...]:
    return tuple(count(f"{name}[{i}]", dim) for i, dim in enumerate(_check_list(name, value, 1, MAX_LEARNERS)))


def _per_learner(values: Mapping[int, int]) -> Integers:
    array = np.zeros(MAX_LEARNERS, np.int64)
    for learner, number in values.items():
        array[learner] = number
    return array


_scales_setting = partial(setting, "Factors in [0, 1], at least 2.", _scales, default=(1.0, 0.3))


@value
class Switching:
    """Blocks of rounds, scaled by each of several factors in turn."""

    period: int = setting("Length of a block in rounds.", count, default=1)
    scales: Sequence[float] = _scales_setting()

    def rule(self) -> Rule:
        return Rule(SWITCHING, self.period, np.array(self.scales), _per_learner({}))


@value
class Predicting:
    """Rounds scaled down whenever a target learner is predicted to play next.

    The prediction is the learner whose last play is longest ago, among those played in the last `patience` rounds. That
    is right whenever learners play in turn, as under regret balancing with equal bounds; a learner drawn at random
    cannot be predicted.
    """

    against: Sequence[int] = setting("Indices of the target learners, from 0 to 63.", _learners)
    scale: float = setting("Factor in [0, 1] of the rounds of target learners.", fraction, default=0.3)
    patience: int = setting(
        "Number of rounds without a play after which a learner counts as inactive.", count, default=50
    )

    def rule(self) -> Rule:
        targets = _per_learner(dict.fromkeys(self.against, 1))
        return Rule(PREDICTING, self.patience, np.array([1.0, self.scale]), targets)


@value
class Punishing:
    """Rounds scaled by each of several factors in turn, with the next factor whenever a learner becomes inactive."""

    scales: Sequence[float] = _scales_setting()
    patience: int = setting(
        "Number of rounds without a play after which a learner counts as inactive.", count, default=1000
    )

    def rule(self) -> Rule:
        return Rule(PUNISHING, self.patience, np.array(self.scales), _per_learner({}))


@value
class Hiding:
    """Hides features 2..d, where d is the number of features of the learner played most often in recent rounds.

    Nothing is hidden if that learner uses all features that affect rewards.
    """

    dims: Sequence[int] = setting("Number of features of each learner, at most 64 numbers.", _dims)
    window: int = setting("Approximate number of recent rounds over which plays are counted.", count, default=1000)

    def rule(self) -> Rule:
        return Rule(HIDING, self.window, np.ones(1), _per_learner(dict(enumerate(self.dims))))


Adversary = Switching | Predicting | Punishing | Hiding
ADVERSARIES: dict[str, type[Adversary]] = {cls.__name__: cls for cls in (Switching, Predicting, Punishing, Hiding)}


def to_json(adversary: Adversary) -> Config:
    plain = {key: list(item) if isinstance(item, tuple) else item for key, item in asdict(adversary).items()}
    return {"adversary": type(adversary).__name__, **plain}


def from_json(data: Adversary | Mapping[str, Plain]) -> Adversary:
    """The adversary described by the result of `to_json`; an adversary is returned as it is."""
    adversary: Adversary = named_part("adversary", data, Adversary, ADVERSARIES, key="adversary")
    return adversary


@kernel
def record(rule: Rule, history: History, learner: int) -> None:
    """End a round in which `learner` was played."""
    history.rounds[0] += 1
    if rule.kind == HIDING:
        for j in range(len(history.recent_plays)):
            history.recent_plays[j] *= 1.0 - 1.0 / rule.span
    if learner < len(history.last_played):
        history.last_played[learner] = history.rounds[0]
        history.recent_plays[learner] += 1.0


@kernel
def scale_of(rule: Rule, history: History) -> float:
    """The factor by which the next round is scaled."""
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
    """The active learner whose last play is longest ago; -1 if there is none."""
    due, longest_ago = -1, history.rounds[0] + 1
    for j in range(len(history.last_played)):
        last = history.last_played[j]
        if last > 0 and last > history.rounds[0] - rule.span and last < longest_ago:
            due, longest_ago = j, last
    return due


@kernel
def n_inactive(rule: Rule, history: History) -> int:
    """The number of learners that have played, but not in the last `span` rounds."""
    inactive = 0
    for j in range(len(history.last_played)):
        if 0 < history.last_played[j] <= history.rounds[0] - rule.span:
            inactive += 1
    return inactive


@kernel
def n_hidden(rule: Rule, history: History, n_signal: int) -> int:
    """The next round hides features 2 to this number; 0 if none is hidden."""
    max_plays, hidden = 0.0, 0
    if rule.kind == HIDING:
        for j in range(len(history.recent_plays)):
            if history.recent_plays[j] > max_plays:
                max_plays, hidden = history.recent_plays[j], rule.learners[j]
    return hidden if hidden < n_signal else 0
