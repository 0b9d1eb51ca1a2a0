"""The contract of a learner: a bandit or reinforcement-learning algorithm that decides and learns.

Only `decide` and `learn` are required (`MinimalLearner`): `decide` may take just the context and return a bare action.
Whoever plays learners wraps each of them once into an `AdaptedLearner`, which has all of `Learner`: the class name
stands in for `name`, `accepts` and `provides` are empty, the learner counts as randomized. A learner without `state`
and `restore` works but cannot be saved.

What else a learner may have, and what for:
- `delta`: the probability with which what it states ("lower", "regret") is wrong; 0 if it does not say.
- `regret_of(outcome)`: what a play adds to its observed regret bound where that is known only afterwards (an episode);
  asked before the outcome is learned. A learner that has it may leave `regret` out of its proposals.

A learner that accepts "weight" can learn from rounds in which a selector drew at random who plays: a round that it
played with probability p counts 1/p times, and one that it did not play counts 0 times (its own proposal comes as the
action, with reward 0), so that in expectation over the draw every round counts once. What "counts w times" means is up
to the learner; those of the package give the squared error of the round the weight w.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from equipoise._deprecated import provided_as_offers
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.types import Action, Config, Context, Outcome, State

ACCEPTS = frozenset({"off_policy", "weight"})
PROVIDES = frozenset({"lower", "regret", "greedy", "value", "pmf"})


class Proposal(NamedTuple):
    """What a learner would do in a context, and what it knows about it."""

    action: Action
    lower: float = -inf  # lower confidence bound on the action's expected reward, if the learner has one
    regret: float = nan  # what this play adds to the learner's own observed regret bound, if it has one
    probability: float = 1.0  # with which the learner picked this action; nan if it cannot tell
    greedy: Action = None  # the action it believes best, without exploring, if it can tell
    value: float = nan  # its estimate of the expected reward of `action`, if it has one


class Proposals(NamedTuple):
    """What all learners proposed in a round, as kernels of selectors see it: entry i is learner i's.

    Of a learner that was not asked `actions` and `greedy` are -1 and all else is nan.
    """

    actions: Sequence[int]
    greedy: Sequence[int]
    lowers: Sequence[float]
    regrets: Sequence[float]
    probabilities: Sequence[float]
    values: Sequence[float]


class MinimalLearner(Protocol):
    """All that is required of a learner. `decide` may also take a random generator, `rng`, as its second argument."""

    @property
    def decide(self) -> Callable[..., Proposal | Action]:
        """What to do in a context; changes nothing."""
        ...

    @property
    def learn(self) -> Callable[..., None]:
        """Learn what came of an action: takes context, action and reward, and a weight where that is accepted."""
        ...


class Learner(Protocol):
    """A full learner; see the module's text for what may be left out and what may be added."""

    @property
    def name(self) -> str:
        """What people see in tables and figures."""
        ...

    @property
    def accepts(self) -> frozenset[str]:
        """Of {"off_policy", "weight"}: rounds that it did not play; importance-weighted rewards."""
        ...

    @property
    def provides(self) -> frozenset[str]:
        """Of {"lower", "regret", "greedy", "value", "pmf"}: what it knows beside the action."""
        ...

    @property
    def randomized(self) -> bool:
        """Whether deciding draws random numbers."""
        ...

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """What to do in this context; changes nothing."""
        ...

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn what came of an action; the round counts `weight` times."""
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


class ModelClass(Protocol):
    """What a learner presumes of the rewards, for selectors that need nested learners. A learner states it by a method
    `model_class()`; see `equipoise.learners.LinearClass` for one."""

    def check_contains(self, smaller: Self) -> None:
        """Refuse if something that `smaller` presumes possible is not possible here."""
        ...

    def check_equals(self, expected: Self, selector_name: str) -> None:
        """Refuse if this is not the class that a selector was made for."""
        ...


@runtime_checkable
class StatesClass(Protocol):
    """A learner that states what it presumes."""

    def model_class(self) -> ModelClass: ...


def model_class_of(learner: object) -> ModelClass:
    """What a learner presumes, or the refusal of one that does not say."""
    if not isinstance(learner, StatesClass):
        raise IncompatibleLearner(
            f"learner {part_name(learner)!r} has no model_class(), but must state what it presumes"
        )
    return learner.model_class()


class AdaptedLearner:
    """Any learner with the members of a full one; the only place that looks for what a learner may leave out."""

    def __init__(self, learner: MinimalLearner) -> None:
        _check_is_learner(learner)
        self.learner = learner
        self.name = part_name(learner)
        self.accepts = accepts(learner)
        self.provides = provides(learner)
        self.randomized = bool(getattr(learner, "randomized", True))
        self.delta = float(getattr(learner, "delta", 0.0))
        self._takes_rng = _takes_rng(learner)

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """What to do in this context."""
        if self._takes_rng == BY_POSITION:
            answer = self.learner.decide(context, rng)
        elif self._takes_rng == BY_NAME:
            answer = self.learner.decide(context, rng=rng)
        else:
            answer = self.learner.decide(context)
        return answer if isinstance(answer, Proposal) else Proposal(answer)

    def regret_after(self, proposed: float, outcome: Outcome) -> float:
        """What a play adds to the observed regret bound: as told by the outcome where it tells, else as proposed."""
        regret_of = getattr(self.learner, "regret_of", None)
        return proposed if regret_of is None or outcome is None else float(regret_of(outcome))

    def state(self) -> State:
        """Everything learned, where the learner can tell."""
        state: State = self._method("state")()
        return state

    def restore(self, state: State) -> None:
        """Take on a state that `state` returned."""
        self._method("restore")(state)

    def _method(self, name: str) -> Callable[..., State]:
        method: Callable[..., State] | None = getattr(self.learner, name, None)
        if method is None:
            raise InvalidArgument(f"{self.name!r} has no {name}(), so it cannot be saved")
        return method


NOT_AT_ALL, BY_POSITION, BY_NAME = 0, 1, 2


def _takes_rng(learner: MinimalLearner) -> int:
    """How `decide` wants its random generator."""
    parameters = list(inspect.signature(learner.decide).parameters.values())
    if any(parameter.name == "rng" and parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        return BY_NAME
    return BY_POSITION if any(_stands_for_rng(parameter) for parameter in parameters[1:2]) else NOT_AT_ALL


def _stands_for_rng(second: inspect.Parameter) -> bool:
    # decide(context, k=5) has a setting there, not a place for the generator.
    by_position = second.kind in (second.POSITIONAL_ONLY, second.POSITIONAL_OR_KEYWORD, second.VAR_POSITIONAL)
    return by_position and (second.name == "rng" or second.default in (None, second.empty))


def _check_is_learner(learner: object) -> None:
    if isinstance(learner, type):
        name = learner.__name__
        raise InvalidArgument(f"learners has the class {name}, but must have objects: write {name}(...)")
    for method in ("decide", "learn"):
        if not callable(getattr(learner, method, None)):
            raise InvalidArgument(
                f"learner {part_name(learner)!r} has no {method}(), but must have one: see equipoise.Learner"
            )


def part_name(part: object) -> str:
    """What people see of a learner or selector: its name, else that of its class."""
    return str(getattr(part, "name", type(part).__name__))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number after each one that has occurred before.

    >>> unique_names(["UCB", "OFUL", "UCB"])
    ('UCB', 'OFUL', 'UCB (2)')
    """
    unique: list[str] = []
    for i, name in enumerate(names):
        candidate, n = name, 1
        while candidate in unique or (n > 1 and candidate in names[i:]):
            n += 1
            candidate = f"{name} ({n})"
        unique.append(candidate)
    return tuple(unique)


def accepts(learner: object) -> frozenset[str]:
    """What a learner accepts beside rounds that it played, each counting once."""
    accepted: frozenset[str] = getattr(learner, "accepts", frozenset())
    return accepted


def can_be_restored(learner: object) -> bool:
    """Whether a learner can be saved and its policies kept."""
    return all(callable(getattr(learner, method, None)) for method in ("state", "restore"))


def provides(learner: object) -> frozenset[str]:
    """What a learner provides beside the action of its proposals."""
    if hasattr(learner, "provides"):
        provided: frozenset[str] = learner.provides
        return provided
    if hasattr(learner, "offers"):
        return provided_as_offers(learner)
    return frozenset()
