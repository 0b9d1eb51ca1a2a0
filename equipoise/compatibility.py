"""What fits what: the one place that says which learners a selector can work with, and why others are refused.

A selector declares what it `needs`, a learner what it `accepts` and `provides`. Everything is compared once, when a
portfolio is made or a run begins, and a refusal names the learner and what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import (
    MinimalLearner,
    ModelClass,
    StatesClass,
    accepts,
    can_be_restored,
    model_class_of,
    part_name,
    provides,
)
from equipoise.selector import Selector, traits_of
from equipoise.types import Config

REQUIRED = ("needs", "active", "choose", "observe", "credit", "withdraw", "standing", "certificate")


class Need(NamedTuple):
    """Something that a selector may need of every learner."""

    heading: str  # in tables
    meaning: str
    met_by: Callable[[object], bool]
    refusal: str  # "{selector} needs ..., but {learner} ..."


NEEDS: Mapping[str, Need] = {
    "bounds": Need("bounds", "one candidate regret bound per learner, given to the selector", lambda _: True, ""),
    "actions": Need("all actions", "every learner proposes an action in every round", lambda _: True, ""),
    "lower": Need(
        "lower bounds",
        'every proposal has a lower bound on its expected reward: the learner provides "lower"',
        lambda learner: "lower" in provides(learner),
        "{selector} needs a lower bound from every learner, but {learner} provides none",
    ),
    "weight": Need(
        "weights",
        'every learner learns from every round, importance-weighted: it accepts "weight"',
        lambda learner: "weight" in accepts(learner),
        "{selector} needs learners that accept importance weights, but {learner} does not",
    ),
    "snapshots": Need(
        "snapshots",
        "earlier policies play again: the learner has `state` and `restore`",
        can_be_restored,
        "{selector} needs learners whose policies can be kept, but {learner} has no state() and restore()",
    ),
    "nested": Need(
        "nested",
        "the learners' classes contain each other: each states its class of linear rewards",
        lambda learner: isinstance(learner, StatesClass),
        "",  # the refusal says which learner breaks the order, and how
    ),
}


def check_selector(selector: object) -> None:
    """Refuse what is no selector, naming what it lacks."""
    if isinstance(selector, type):
        name = selector.__name__
        raise InvalidArgument(f"selector is the class {name}, but must be an object: write {name}(...)")
    lacking = [member for member in REQUIRED if not hasattr(selector, member)]
    if lacking:
        raise InvalidArgument(
            f"selector is a {type(selector).__name__} without {', '.join(lacking)}, but must have all that "
            "equipoise.Selector has"
        )


def check_learners(learners: object) -> None:
    """Refuse what is no list of learners, each an object of its own."""
    if not isinstance(learners, Sequence):
        raise InvalidArgument(f"learners is {learners!r:.80}, but must be a list of learners")
    if len(set(map(id, learners))) < len(learners):
        raise InvalidArgument("learners has one object twice, but every learner must be an object of its own")


def check_compatible(selector: Selector, learners: Sequence[MinimalLearner]) -> None:
    """Refuse learners that lack what the selector needs, naming the learner and what it lacks."""
    name, traits = part_name(selector), traits_of(selector)
    if traits.n_learners not in (None, len(learners)):
        raise InvalidArgument(f"learners has {len(learners)} entries, but {name} was made for {traits.n_learners}")
    for i, learner in enumerate(learners):
        for need in sorted(selector.needs & NEEDS.keys()):
            if NEEDS[need].refusal and not NEEDS[need].met_by(learner):
                raise IncompatibleLearner(NEEDS[need].refusal.format(selector=name, learner=repr(part_name(learner))))
        if i in traits.observed and "regret" not in provides(learner):
            raise IncompatibleLearner(
                f"bound {i} of {name} is Observed, but learner {part_name(learner)!r} provides no 'regret'"
            )
    _check_copies(name, traits.copies, learners)
    if "nested" in selector.needs:
        try:
            _check_nested(name, traits.classes, learners)
        except IncompatibleLearner as refusal:
            raise IncompatibleLearner(f"{name} needs learners of nested classes: {refusal}") from None


def check_sharing(selector: Selector, learners: Sequence[MinimalLearner]) -> frozenset[int]:
    """The learners that can learn from every round; refuses if none can, or if the selector teaches in its own way."""
    sharing = frozenset(i for i in selector.active if "off_policy" in accepts(learners[i]))
    if not sharing:
        raise InvalidArgument("share_data is True, but no learner accepts 'off_policy' data")
    if selector.needs & {"weight", "snapshots"}:
        raise InvalidArgument(
            f"share_data is True, but {part_name(selector)} tells each learner of its own rounds in its own way"
        )
    return sharing


def provided_by(learner: object) -> frozenset[str]:
    """All that a learner accepts and provides, with what follows from the methods and settings it has."""
    follows = {"snapshots": can_be_restored(learner), "nested": isinstance(learner, StatesClass)}
    return provides(learner) | accepts(learner) | {word for word, given in follows.items() if given}


def _check_nested(name: str, classes: Sequence[ModelClass] | None, learners: Sequence[MinimalLearner]) -> None:
    stated = [model_class_of(learner) for learner in learners]
    for smaller, larger in pairwise(stated):
        larger.check_contains(smaller)
    for own, expected in zip(stated, stated if classes is None else classes, strict=True):
        own.check_equals(expected, name)


def _check_copies(name: str, copies: int, learners: Sequence[MinimalLearner]) -> None:
    for i, learner in enumerate(learners if copies > 1 else ()):
        first = learners[i - i % copies]
        if type(learner) is not type(first) or _settings(learner) != _settings(first):
            raise IncompatibleLearner(
                f"{name} needs {copies} copies of every learner, but {part_name(learner)!r} (learner {i}) "
                f"is none of {part_name(first)!r} (learner {i - i % copies})"
            )


def _settings(learner: MinimalLearner) -> Config:
    config: Config = getattr(learner, "config", dict)()
    return {key: value for key, value in config.items() if key not in ("name", "seed")}
