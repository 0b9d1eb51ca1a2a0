"""The contract of a learner: a bandit or reinforcement-learning algorithm that decides and learns.

Only `decide` and `learn` are required. `decide` may take just the context and return a bare action; `name` defaults to
the class name, `accepts` and `provides` to nothing. A learner without `state` and `restore` works but cannot be saved.
Where a play's share in the observed regret bound is known only afterwards (an episode), a learner that provides
"regret" leaves it out of its proposals and has `regret_of(outcome)` instead, asked before the outcome is learned.

A learner that accepts "weight" can be told of rounds that a selector drew at random who plays: a round that it played
with probability p counts 1/p times, and one that it did not play counts 0 times (its own proposal comes as the action,
with reward 0), so that in expectation over the draw every round counts once. What "counts w times" means is the
learner's own business; those of the package give the squared error of the round the weight w.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.types import Action

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


class Learner(Protocol):
    """A full learner; see the module's text for what may be left out."""

    name: str  # what people see in tables and figures
    accepts: frozenset[str]  # of {"off_policy", "weight"}: rounds it did not play; importance-weighted rewards
    provides: frozenset[str]  # of {"lower", "regret", "greedy", "value", "pmf"}: what it knows beside the action

    def decide(self, context: Any, rng: np.random.Generator | None = None) -> Proposal:
        """What to do in this context; changes nothing."""
        ...

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        """Take in what came of an action, `weight` times."""
        ...

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take on a state that `state` returned."""
        ...


def learner_name(learner: Any) -> str:
    return str(getattr(learner, "name", type(learner).__name__))


def accepts(learner: Any) -> frozenset[str]:
    return cast(frozenset[str], getattr(learner, "accepts", frozenset()))


def provides(learner: object) -> frozenset[str]:
    """What a learner provides beside the action of its proposals."""
    if hasattr(learner, "provides"):
        provided: frozenset[str] = learner.provides
        return provided
    if hasattr(learner, "offers"):
        warnings.warn(
            f"{type(learner).__name__}.offers is deprecated and will not be read by equipoise 0.3: call it provides",
            DeprecationWarning,
            stacklevel=3,
        )
        offered: frozenset[str] = learner.offers
        return offered
    return frozenset()


def can_be_restored(learner: Any) -> bool:
    """Whether the learner can be saved and its policies kept."""
    return all(callable(getattr(learner, method, None)) for method in ("state", "restore"))


def decider(learner: Any) -> Callable[[Any, np.random.Generator], Proposal]:
    """`learner.decide` as a function of context and generator that always returns a `Proposal`."""
    for method in ("decide", "learn"):
        if not callable(getattr(learner, method, None)):
            raise InvalidArgument(f"learner {learner_name(learner)!r} has no {method}(), but must have one")
    decide = learner.decide
    parameters = list(inspect.signature(decide).parameters.values())
    if any(parameter.name == "rng" and parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        return lambda context, rng: as_proposal(decide(context, rng=rng))
    if any(_stands_for_rng(parameter) for parameter in parameters[1:2]):
        # Spelled out, as it is what the learners of the package go through in every round.
        return lambda context, rng: answer if isinstance(answer := decide(context, rng), Proposal) else Proposal(answer)
    return lambda context, rng: as_proposal(decide(context))


def _stands_for_rng(second: inspect.Parameter) -> bool:
    # decide(context, k=5) has a setting there, not a place for the generator.
    by_position = second.kind in (second.POSITIONAL_ONLY, second.POSITIONAL_OR_KEYWORD, second.VAR_POSITIONAL)
    return by_position and (second.name == "rng" or second.default in (None, second.empty))


def as_proposal(answer: Any) -> Proposal:
    return answer if isinstance(answer, Proposal) else Proposal(answer)


def regret_after(learner: Any, proposed: float, outcome: Any) -> float:
    """What a play adds to the learner's observed regret bound: by its word on the outcome, else as proposed."""
    judge = getattr(learner, "regret_of", None)
    return proposed if judge is None or outcome is None else float(judge(outcome))
