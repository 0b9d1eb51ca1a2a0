"""How learners learn from rounds that others play, and which of them have a greedy twin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import accepts, part_name, provides
from equipoise.selectors._core.pairs import AGREED, ALL, OWN
from equipoise.settings.checks import count

TEACHING = {"all": ALL, "agreed": AGREED, "own": OWN}


class Way(NamedTuple):
    """How a learner that is added later plays and learns."""

    teaching: int  # ALL, AGREED or OWN
    twin: bool
    n_pairs: int  # ordered pairs of experts that it adds


def check_teaching(name: str, teaching: object) -> tuple[str, ...]:
    words = tuple(TEACHING)  # an entry may be of any kind, so that it need not have a hash
    if isinstance(teaching, str) or not isinstance(teaching, Sequence) or not all(each in words for each in teaching):
        raise InvalidArgument(f"{name} is {teaching!r}, but must have one of {', '.join(TEACHING)} per learner")
    return tuple(teaching)


def check_twins(name: str, twins: object) -> tuple[int, ...]:
    if isinstance(twins, str) or not isinstance(twins, Sequence):
        raise InvalidArgument(f"{name} is {twins!r}, but must be a list of learners")
    chosen = tuple(count(name, i, minimum=0) for i in twins)
    if len(set(chosen)) < len(chosen):
        raise InvalidArgument(f"{name} is {twins!r}, but must have no learner twice")
    return tuple(sorted(chosen))


def teaching_of(learner: object, share_data: bool, contexts: str) -> str:
    """From which rounds a learner learns; with `share_data`, from all of them if it can."""
    accepted = accepts(learner)
    if "off_policy" in accepted and (share_data or not can_learn(learner)):
        return "all"
    fair = contexts == "fixed" or not getattr(learner, "ignores_contexts", False)
    return "agreed" if "agreed" in accepted and fair else "own"


def check_way(learner: object, teaching: str, contexts: str) -> None:
    """Raise an error if a learner cannot learn from these rounds."""
    needed = {"all": "off_policy", "agreed": "agreed"}
    if teaching in needed and needed[teaching] not in accepts(learner) and "off_policy" not in accepts(learner):
        raise IncompatibleLearner(
            f"teaching of {part_name(learner)!r} is {teaching!r}, but it does not accept {needed[teaching]!r}"
        )
    if teaching == "agreed" and contexts != "fixed" and getattr(learner, "ignores_contexts", False):
        raise IncompatibleLearner(
            f"teaching of {part_name(learner)!r} is 'agreed', but it ignores contexts, so contexts must be "
            "'fixed': where others see them, the rounds that it agrees with are no fair sample"
        )


def misfit(learner: object) -> str:
    """Why a learner gains nothing from rounds of others and a twin; empty if it does, or is a fixed rule."""
    if not can_learn(learner):
        return ""
    if not {"off_policy", "agreed"} & accepts(learner):
        return "learns from its own plays only (it accepts neither 'off_policy' nor 'agreed')"
    if "greedy" not in provides(learner):
        return "has no greedy action (it does not provide 'greedy')"
    return ""


def has_twin(learner: object) -> bool:
    """Whether the greedy action of a learner is an expert of its own."""
    return "greedy" in provides(learner) and can_learn(learner)


def can_learn(learner: object) -> bool:
    """Whether the proposals of a learner change: those of a fixed rule do not, and a twin would be the same expert."""
    return bool(getattr(learner, "learns", True))
