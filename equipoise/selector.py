"""The contract of a selector: the rule that picks which learner plays, without seeing the context.

Confidence statements require that the choice is independent of the round's context given the past, so `choose` takes
no context. A play is open from `choose` until its reward is credited or the round is withdrawn. Rewards may arrive
late, in any order, or never.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np

from equipoise.certificates import AnyElimination, Certificate, Comparison, Standing
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learner import ModelClass, Proposal
from equipoise.settings.checks import real
from equipoise.types import Config, Plain, State

NEEDS = frozenset({"bounds", "actions", "lower", "weight", "snapshots", "nested"})


class Choice(NamedTuple):
    """The learner that plays a round, and the key under which its reward is credited.

    Parameters
    ----------
    learner
        Index of the learner.
    play
        Number of this play among the learner's plays, from 1.
    probability
        Probability with which the learner was chosen.
    snapshot
        Number of a saved policy of the learner that plays instead of the current one.
    teach
        Whether the learner learns from this round.
    keep
        Number under which the policy that plays this round is saved.
    greedy
        Whether the learner's greedy action is played instead of its proposal.
    evidence
        False if the round may not count as evidence, because the context had a part in who plays it.
    """

    learner: int
    play: int
    probability: float
    snapshot: int | None = None
    teach: bool = True
    keep: int | None = None
    greedy: bool = False
    evidence: bool = True


class Selector(Protocol):
    """A rule that chooses learners. All it knows comes through these calls, so it can be rebuilt from a log.

    These members are required, except that `config`, `state`, `restore` and `from_config` are needed only for saving,
    and that `choose` and `replay` need `available` only if a portfolio ever leaves a learner out of a choice.
    Optional members:
    - `name`: the name shown in tables and figures; by default the class name.
    - `explanation`: how it chooses, in one sentence; used by `Portfolio.explain`.
    - `traits`: its properties, a `SelectorTraits`; by default the defaults of that class.
    - `check_credit(choice, reward, regret=None)`: reward and regret as floats, nan for an unknown regret; raises what
      `credit` would and changes nothing. A portfolio calls it before any learner learns, so that an invalid reward
      changes nothing. Without it, a reward must be finite and in the range of the traits.
    - `eliminations`: all eliminations so far, in order. A simulation reports these, or what `credit` and `withdraw`
      have returned if the selector does not keep them.
    - `choice_probabilities(available=None)`: the probability of every learner in the next `choose`; changes nothing.
    - `configure(reward_range=None, noise=None, delays="any", window=None)`: what a portfolio says once, before the
      first play. Without it, only delays "any" and "independent" are possible.
    - `tick(rounds=1)`: counts rounds that no learner played; returns the resulting eliminations.
    - `add_learner(bound=None)`, which returns the new index, and `remove_learner(learner)`: without them, the pool
      cannot change. Indices are stable: a learner that was removed keeps its own. `joining(learner)` returns further
      arguments of `add_learner` for a learner, or raises an error if it cannot join.
    - `reconfigure(**changes)`: changes settings of a running selector.
    - `blocking()`: for each learner whose rewards wait, the play that they wait for, and how many they are.
    - `compare(learner, other)`: how much more regret per play one learner has had than another, a `Comparison`.
    """

    @property
    def needs(self) -> frozenset[str]:
        """Subset of {"bounds", "actions", "lower", "weight", "snapshots", "nested"}; see `equipoise.compatibility`."""
        ...

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that may be chosen."""
        ...

    @property
    def choose(self) -> Callable[..., Choice]:
        """`choose(rng=None, available=None)`: choose the learner that plays this round; opens a play.

        The choice does not see the context. Only `available` learners are chosen; if none of them is active,
        `NoLearnerAvailable` is raised and nothing changes. Which ones are available may depend on the past, not on the
        context of the round.
        """
        ...

    @property
    def replay(self) -> Callable[..., None]:
        """`replay(choice, available=None)`: open a given play without random numbers, to rebuild it from a log."""
        ...

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Receive the proposal of the chosen learner or, with need "actions", of every active learner.

        A `choice` whose `evidence` is False, here or in `replay` or `credit`, is left out of evidence for good: it is
        counted as a play, and no statement uses it.
        """
        ...

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[AnyElimination, ...]:
        """Credit the reward of a play, in any order and however late; returns the resulting eliminations."""
        ...

    def withdraw(self, choice: Choice) -> tuple[AnyElimination, ...]:
        """Remove the play of a round that did not happen; returns the resulting eliminations."""
        ...

    def standing(self) -> list[Standing]:
        """How every learner is doing, one row per learner."""
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
        """Replace the current state by one that `state` returned."""
        ...

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        """The selector that `config` describes, in its initial state."""
        ...


@dataclass(frozen=True)
class SelectorTraits:
    """Properties of a selector besides its needs.

    Parameters
    ----------
    n_learners
        Number of learners in its pool, those included that were added later or removed; None for any number.
    randomized
        Whether choosing draws random numbers.
    reward_range
        Range of the rewards or, with `noise`, of the expected rewards; None for any finite reward.
    noise
        Sub-Gaussian factor of unbounded rewards; None if rewards are in the range.
    observed
        The learners whose bound is `Observed`.
    copies
        Number of consecutive equal learners that count as copies of one.
    classes
        The nested model classes that it was created for.
    per_learner
        Settings with one entry for each learner.
    readmits
        Whether an inactive learner may become active again.
    excluded
        Learners that are never played.
    compilable
        Whether its kernels can be compiled with its settings.
    """

    n_learners: int | None = None
    randomized: bool = True
    reward_range: tuple[float, float] | None = None
    noise: float | None = None
    observed: tuple[int, ...] = ()
    copies: int = 1
    classes: tuple[ModelClass, ...] | None = None
    per_learner: tuple[str, ...] = ("bounds",)
    readmits: bool = False
    excluded: tuple[int, ...] = ()
    compilable: bool = False

    def check_reward(self, reward: float) -> float:
        """The reward as a float; raises an error if it is invalid."""
        number = real("reward", reward)
        if self.reward_range is not None and self.noise is None:
            low, high = self.reward_range
            if not low <= number <= high:
                raise InvalidArgument(f"reward is {reward!r}, but must lie in reward_range ({low:g}, {high:g})")
        return number


def choose(selector: Selector, rng: np.random.Generator | None, available: Collection[int] | None = None) -> Choice:
    """Choose among the `available` learners; all of them if None, which a selector without `available` supports."""
    if available is None:
        return selector.choose(rng)
    _require_available(selector, "choose")
    return selector.choose(rng, available)


def replay(selector: Selector, choice: Choice, available: Collection[int] | None = None) -> None:
    """Open a given play; `available` is as in `choose`."""
    if available is None:
        selector.replay(choice)
    else:
        _require_available(selector, "replay")
        selector.replay(choice, available)


def _require_available(selector: Selector, method: str) -> None:
    if "available" not in inspect.signature(getattr(selector, method)).parameters:
        name = type(selector).__name__
        raise InvalidArgument(f"selector is a {name}, but its {method}() must take `available` to leave learners out")


def require_member(selector: object, name: str, purpose: str) -> Callable[..., Any]:
    """An optional method of the contract; raises an error that tells what it is needed for."""
    method = getattr(selector, name, None)
    if not callable(method):
        raise InvalidArgument(f"selector is a {type(selector).__name__}, but must have {name}() to {purpose}")
    return cast(Callable[..., Any], method)


def configure(selector: object, *, delays: str = "any", **facts: Any) -> None:
    """Tell a selector what its portfolio knows; one without `configure` can only be told that delays are not exogenous.

    `facts` are the other arguments of `Selector.configure`.
    """
    if delays == "exogenous" or hasattr(selector, "configure"):
        require_member(selector, "configure", f"be told that delays are {delays!r}")(delays=delays, **facts)


def traits_of(selector: object) -> SelectorTraits:
    """The traits of a selector, or the defaults if it has none."""
    return getattr(selector, "traits", None) or SelectorTraits()


def eliminations_of(selector: object) -> tuple[AnyElimination, ...] | None:
    """All eliminations of a selector so far; None if it does not keep them."""
    kept = getattr(selector, "eliminations", None)
    return None if kept is None else tuple(kept)


def compare_learners(selector: object, learner: int | str, other: int | str, names: Sequence[str]) -> Comparison:
    """What the selector says about two learners, given by index or name; raises an error if it compares none."""
    compare = getattr(selector, "compare", None)
    if compare is None:
        name = type(selector).__name__
        raise InvalidArgument(f"selector is a {name}, which compares no learners: it has no compare()")
    for argument, given in (("learner", learner), ("other", other)):
        if isinstance(given, str) and given not in names:
            raise UnknownName(argument, given, names)
    first, second = (names.index(given) if isinstance(given, str) else given for given in (learner, other))
    compared: Comparison = compare(first, second)
    return compared


def check_credit(selector: Selector, choice: Choice, reward: float, regret: float | None) -> tuple[float, float]:
    """Reward and regret as floats, nan for an unknown regret; raises an error if they are invalid."""
    check = getattr(selector, "check_credit", None)
    if check is None:
        return traits_of(selector).check_reward(reward), nan if regret is None else real("regret", regret)
    checked: tuple[float, float] = check(choice, reward, regret)
    return checked
