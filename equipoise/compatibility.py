"""Which learners a selector can work with, why others are rejected, and from which rounds each learner learns.

A selector declares what it `needs`, a learner what it `accepts` and `provides`. They are compared once, when a
portfolio is created or a run starts. The error names the learner and what it lacks.

Sharing data is a property of each learner: `learning_mode` has the one rule, for portfolios, selectors and simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import (
    HasModelClass,
    HasSettings,
    MinimalLearner,
    ModelClass,
    accepts,
    can_be_restored,
    capabilities,
    implements,
    model_class_of,
    part_name,
    provides,
    runs_in_simulations_only,
)
from equipoise.selector import ChecksLearners, Selector, Updates, active_of, check_selector, needs_of, traits_of

S = TypeVar("S", bound=Selector)


class Need(NamedTuple):
    """Something that a selector may need from every learner."""

    heading: str  # in tables
    meaning: str
    met_by: Callable[[object], bool]
    message: str  # "{selector} needs ..., but {learner} ..."


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
    "nested": Need(
        "nested",
        "each learner's model class contains that of the learner before it",
        lambda learner: implements(learner, HasModelClass),
        "",  # the check itself says which learner breaks the order, and how
    ),
}


def check_live(selector: Selector, learners: Sequence[MinimalLearner]) -> None:
    """Raise an error if the selector or a learner runs in simulations only."""
    rivals: list[tuple[str, object]] = [
        ("learner", learner) for learner in learners if runs_in_simulations_only(learner)
    ]
    if traits_of(selector).simulation_only:
        rivals.append(("selector", selector))
    for what, part in rivals:
        raise InvalidArgument(f"{what} is a {type(part).__name__}, which runs in simulate() only, not in a portfolio")


def check_learners(learners: object) -> None:
    """Raise an error if this is not a sequence of different objects."""
    if not isinstance(learners, Sequence):
        raise InvalidArgument(f"learners is {learners!r:.80}, but must be a list of learners")
    if not learners:
        raise InvalidArgument("learners is empty, but must have at least one learner")
    if len(set(map(id, learners))) < len(learners):
        raise InvalidArgument("learners has one object twice, but must have different objects")


def check_compatible(selector: S, learners: Sequence[MinimalLearner]) -> S:
    """Return the selector; raise an error if a learner lacks what it needs, or if it is not for so many learners."""
    check_selector(selector)
    name, traits, needs, active = part_name(selector), traits_of(selector), needs_of(selector), active_of(selector)
    if traits.n_learners not in (None, len(learners)):
        raise InvalidArgument(f"learners has {len(learners)} entries, but {name} was created for {traits.n_learners}")
    if not all(0 <= i < len(learners) for i in active):
        raise InvalidArgument(
            f"active of selector {name!r} is {active!r:.80}, but must be a tuple of indices below {len(learners)}, the "
            "number of learners"
        )
    for i, learner in enumerate(learners):
        for need in sorted(needs):
            if NEEDS[need].message and not NEEDS[need].met_by(learner):
                raise IncompatibleLearner(NEEDS[need].message.format(selector=name, learner=repr(part_name(learner))))
        check_asked(name, needs, traits.learning_modes, learner)
        if i in traits.observed and "regret" not in provides(learner):
            raise IncompatibleLearner(
                f"bound {i} of {name} is Observed, but learner {part_name(learner)!r} provides no 'regret'"
            )
    _check_copies(name, traits.copies, learners)
    if implements(selector, ChecksLearners):
        selector.check_learners(learners)
    if "nested" in needs:
        try:
            _check_nested(name, traits.classes, learners)
        except IncompatibleLearner as error:
            raise IncompatibleLearner(f"{name} needs learners with nested model classes: {error}") from None
    return selector


def check_asked(name: str, needs: Collection[str], modes: Sequence[str], learner: object) -> None:
    """Raise an error if a selector asks every learner in every round, but this one cannot be asked without playing."""
    if {"actions", "weight"} & set(needs) and not modes and capabilities(learner).silent:
        raise IncompatibleLearner(
            f"{name} asks every learner in every round, but {part_name(learner)!r} is silent: asked only if it plays"
        )


def can_share(learner: object) -> bool:
    """Whether a learner gains from rounds that others play: it learns, from whatever was played."""
    return "off_policy" in accepts(learner) and capabilities(learner).learns


def learning_mode(learner: object, share_data: bool | None, contexts: str = "random") -> str:
    """Return from which rounds a learner learns: "all", "agreed", "own" or "silent".

    A learner that accepts "off_policy" learns from all rounds unless `share_data` is False; a fixed rule has nothing to
    learn from them. Others learn from the rounds in which the action is the one they proposed, if they accept "agreed";
    if they ignore contexts, only with "fixed" ones: next to learners that see contexts, the rounds that they agree with
    are not a fair sample. The rest learn from their own plays. A silent learner is asked only in these.
    """
    accepted, can = accepts(learner), capabilities(learner)
    if can.silent:
        return "silent"
    if "off_policy" in accepted and (share_data is not False or not can.learns):
        return "all"
    return "agreed" if "agreed" in accepted and (contexts == "fixed" or not can.ignores_contexts) else "own"


def check_share_data(learners: Sequence[object], share_data: bool | None) -> None:
    """Raise an error if data are to be shared, but no learner can."""
    if share_data and not any(map(can_share, learners)):
        raise InvalidArgument("share_data is True, but no learner accepts 'off_policy' data")


def check_sharing(selector: Selector, learners: Sequence[object], share_data: bool | None) -> None:
    """Raise an error if a selector, with these learners, does not share data as `share_data` says."""
    if share_data is None:
        return
    name, modes = part_name(selector), traits_of(selector).learning_modes
    shares = any(mode == "all" and can_share(learner) for mode, learner in zip(modes, learners, strict=False))
    if share_data and ("weight" in needs_of(selector) or (not modes and implements(selector, Updates))):
        raise InvalidArgument(f"share_data is True, but must stay None: {name} decides itself what each learner learns")
    check_share_data(learners, share_data)
    if modes and shares is not share_data:
        raise InvalidArgument(
            f"share_data is {share_data}, but learners of {name} {'share' if shares else 'do not share'} data: "
            f"make it with for_learners(learners, share_data={share_data})"
        )


def provided_by(learner: object) -> frozenset[str]:
    """All that a learner accepts and provides, declared or implied by its methods."""
    implied = {"saving": can_be_restored(learner), "nested": implements(learner, HasModelClass)}
    return provides(learner) | accepts(learner) | {word for word, present in implied.items() if present}


def _check_nested(name: str, classes: Sequence[ModelClass] | None, learners: Sequence[MinimalLearner]) -> None:
    actual = [model_class_of(learner) for learner in learners]
    for smaller, larger in pairwise(actual):
        larger.check_contains(smaller)
    for model_class, expected in zip(actual, actual if classes is None else classes, strict=True):
        model_class.check_equals(expected, name)


def _check_copies(name: str, copies: int, learners: Sequence[MinimalLearner]) -> None:
    for i, learner in enumerate(learners if copies > 1 else ()):
        first = learners[i - i % copies]
        if type(learner) is not type(first) or _settings(learner) != _settings(first):
            raise IncompatibleLearner(
                f"{name} needs {copies} copies of every learner, but {part_name(learner)!r} (learner {i}) "
                f"is not one of {part_name(first)!r} (learner {i - i % copies})"
            )


def _settings(learner: MinimalLearner) -> dict[str, object]:
    config = learner.config() if implements(learner, HasSettings) else {}
    return {key: value for key, value in config.items() if key not in ("name", "seed")}
