"""The contract of a selector: the rule that picks which learner plays, without seeing the context.

The confidence statements need the choice to be independent of the round's context given the past, so `choose` takes no
context. A play is open from `choose` until its reward is credited or the round is withdrawn; rewards may come late, in
any order, or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import NamedTuple, Protocol, Self

import numpy as np

from equipoise.certificates import AnyElimination, Certificate, Standing
from equipoise.errors import InvalidArgument
from equipoise.learner import ModelClass, Proposal
from equipoise.settings.checks import real
from equipoise.types import Config, Plain, State

NEEDS = frozenset({"bounds", "actions", "lower", "weight", "snapshots", "nested"})


class Choice(NamedTuple):
    """Which learner plays; the ticket under which its reward is credited."""

    learner: int
    play: int  # this learner's play number, from 1
    probability: float
    snapshot: int | None = None  # play an earlier policy of this learner: the kept one, which has this number
    teach: bool = True  # whether the learner learns from this round
    keep: int | None = None  # keep the policy that plays this round, under this number


class Selector(Protocol):
    """A rule that picks learners. Everything it knows comes through these calls, so it can be rebuilt from a log.

    These members are required; `config`, `state`, `restore` and `from_config` only of a selector that is to be saved.
    What else a selector may have, and what for:
    - `name`: what people see; the class name unless given.
    - `traits`: what it says of itself, a `SelectorTraits`; the defaults of that class unless given.
    - `check_credit(choice, reward, regret=None)`: reward and regret as floats, nan for a regret that is not known;
      raises what `credit` would and changes nothing. A portfolio calls it before any learner learns, so that a reward
      that is refused changes nothing. Without it a reward has to be finite and within the traits' range.
    - `eliminations`: all that it has eliminated so far, in order; what simulations report.
    """

    @property
    def needs(self) -> frozenset[str]:
        """Of {"bounds", "actions", "lower", "weight", "snapshots", "nested"}; see `equipoise.compatibility`."""
        ...

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that may be chosen."""
        ...

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """The learner that plays this round, chosen without seeing the context; opens a play."""
        ...

    def replay(self, choice: Choice) -> None:
        """Open this given play without drawing: recovery from a log."""
        ...

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """What the chosen learner proposed; with need "actions", what every active learner did."""
        ...

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[AnyElimination, ...]:
        """Book the reward of a play, in any order and however late; returns the eliminations that it brought."""
        ...

    def withdraw(self, choice: Choice) -> tuple[AnyElimination, ...]:
        """The round did not happen: strike its play; returns the eliminations that it brought."""
        ...

    def standing(self) -> list[Standing]:
        """How every learner stands."""
        ...

    def certificate(self) -> Certificate:
        """What the rewards so far prove."""
        ...

    def config(self) -> Config:
        """The constructor's arguments, as plain data."""
        ...

    def state(self) -> State:
        """Everything learned, as arrays."""
        ...

    def restore(self, state: State) -> None:
        """Take on a state that `state` returned."""
        ...

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        """The selector that `config` describes, in its initial state."""
        ...


@dataclass(frozen=True)
class SelectorTraits:
    """What a selector says of itself beside its needs; the defaults suit a selector that says nothing."""

    n_learners: int | None = None  # that it was made for; None if it takes any number
    randomized: bool = True  # whether choosing draws random numbers
    reward_range: tuple[float, float] | None = None  # that rewards, or under noise expected rewards, have to lie in
    noise: float | None = None  # sub-Gaussian factor of unbounded rewards, None where rewards keep to the range
    observed: tuple[int, ...] = ()  # the learners whose bound is `Observed`
    copies: int = 1  # how many equal learners in a row stand for one
    classes: tuple[ModelClass, ...] | None = None  # the nested classes that it was made for
    per_learner: tuple[str, ...] = ("bounds",)  # settings with one entry for each learner
    readmits: bool = False  # whether a learner that is not active may become so again
    excluded: tuple[int, ...] = ()  # learners that are never played
    compilable: bool = False  # whether its kernels can be compiled as it is set

    def check_reward(self, reward: float) -> float:
        """The reward as a float, or the reason why it cannot be booked."""
        number = real("reward", reward)
        if self.reward_range is not None and self.noise is None:
            low, high = self.reward_range
            if not low <= number <= high:
                raise InvalidArgument(f"reward is {reward!r}, but must lie in reward_range ({low:g}, {high:g})")
        return number


def traits_of(selector: object) -> SelectorTraits:
    """What a selector says of itself, or the defaults if it says nothing."""
    return getattr(selector, "traits", None) or SelectorTraits()


def eliminations_of(selector: object) -> tuple[AnyElimination, ...]:
    """All that a selector has eliminated so far; nothing if it does not say."""
    return tuple(getattr(selector, "eliminations", ()))


def check_credit(selector: Selector, choice: Choice, reward: float, regret: float | None) -> tuple[float, float]:
    """Reward and regret as `credit` will take them, nan for a regret that is not known; changes nothing."""
    check = getattr(selector, "check_credit", None)
    if check is None:
        return traits_of(selector).check_reward(reward), nan if regret is None else real("regret", regret)
    checked: tuple[float, float] = check(choice, reward, regret)
    return checked
