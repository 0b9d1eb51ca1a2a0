"""Nested classes of linear rewards, as needed by selectors for "nested" learners.

Learner i assumes that the expected reward of an action is linear in its first d_i features, with a parameter of norm
at most S_i, actions of norm at most L_i and values in a given range. Selection under adversarial contexts removes the
learner of the smallest class when some class must be false. That is sound only if every class contains those before
it: then "class i is true" implies that all later classes are true.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Extension to Adversarial Contexts".
Symbols: d dim, S norm_bound, L action_bound, lambda regularization, sigma noise, R^max half the width of reward_range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import model_class_of
from equipoise.settings.checks import count, interval, non_negative, positive, probability, text


class LinearClass(NamedTuple):
    """What a learner of linear rewards assumes; `name` is the name of the learner."""

    name: str
    dim: int
    norm_bound: float = 1.0
    action_bound: float = 1.0
    regularization: float = 1.0
    noise: float = 0.5
    delta: float = 0.01
    scale: float = 1.0  # of the ellipsoid
    misspecification: float = 0.0
    reward_range: tuple[float, float] = (0.0, 1.0)

    def check_contains(self, smaller: LinearClass) -> None:
        """Raise an error unless this class contains `smaller`."""
        for quantity in NESTED_QUANTITIES:
            before, now = getattr(smaller, quantity), getattr(self, quantity)
            if now < before:
                raise IncompatibleLearner(
                    f"learner {self.name!r} has {quantity} = {now:g} after {smaller.name!r} with {before:g}, but "
                    "learners must come in order, every class containing the one before it"
                )
        (low, high), (own_low, own_high) = smaller.reward_range, self.reward_range
        if not (own_low <= low and high <= own_high):
            raise IncompatibleLearner(
                f"learner {self.name!r} has reward_range ({own_low:g}, {own_high:g}), but it must contain "
                f"({low:g}, {high:g}) of {smaller.name!r} before it"
            )

    def check_equals(self, expected: LinearClass, selector_name: str) -> None:
        """Raise an error unless this is the class that a selector was created for."""
        for quantity in LinearClass._fields[1:]:
            value, expected_value = getattr(self, quantity), getattr(expected, quantity)
            if value != expected_value:
                raise IncompatibleLearner(
                    f"learner {self.name!r} has {quantity} = {value}, but must have {expected_value}, for which "
                    f"{selector_name} was created"
                )


# A class contains another only if each of these is at least as large.
NESTED_QUANTITIES = ("dim", "norm_bound", "action_bound", "noise", "scale", "misspecification")


def linear_class(learner: object) -> LinearClass:
    """Return the class that a learner states.

    >>> from equipoise.learners import OFUL
    >>> linear_class(OFUL(4, norm_bound=1.5)).norm_bound
    1.5
    """
    return check_class(model_class_of(learner))


def check_class(model_class: object) -> LinearClass:
    """Return the class with every entry checked and converted."""
    if not isinstance(model_class, LinearClass):
        raise InvalidArgument(f"classes has {model_class!r}, but every entry must be a LinearClass")
    return LinearClass(
        name=text("name", model_class.name),
        dim=count("dim", model_class.dim),
        norm_bound=positive("norm_bound", model_class.norm_bound),
        action_bound=positive("action_bound", model_class.action_bound),
        regularization=positive("regularization", model_class.regularization),
        noise=positive("noise", model_class.noise),
        delta=probability("delta", model_class.delta),
        scale=positive("scale", model_class.scale),
        misspecification=non_negative("misspecification", model_class.misspecification),
        reward_range=interval("reward_range", model_class.reward_range),
    )


def check_nested(classes: Sequence[LinearClass]) -> None:
    """Raise an error, naming the learner, if a class does not contain the one before it."""
    for smaller, larger in pairwise(classes):
        larger.check_contains(smaller)


def proof_size(model_class: LinearClass) -> float:
    """z of the proof: d (sigma^2 d + lambda S^2)(1 + b^2), b the smaller of R^max / min(1, beta) and L / sqrt(lambda).

    beta is the radius of the ellipsoid before any data, which is its smallest; the paper assumes that it is at least 1.
    """
    min_radius = (
        model_class.noise * sqrt(2 * log(1 / model_class.delta))
        + sqrt(model_class.regularization) * model_class.norm_bound
    )
    norm_ratio = min(
        _half_width(model_class) / min(1.0, min_radius), model_class.action_bound / sqrt(model_class.regularization)
    )
    spread = model_class.noise**2 * model_class.dim + model_class.regularization * model_class.norm_bound**2
    return model_class.dim * spread * (1 + norm_ratio**2)


def text_size(model_class: LinearClass) -> float:
    """z as the paper's text prints it: (d^2 + d S^2) times the smaller of R^max and L^2."""
    return _unit_size(model_class) * min(_half_width(model_class), model_class.action_bound**2)


def theorem_size(model_class: LinearClass) -> float:
    """z as in the paper's regret theorem: 2 (d^2 + d S^2) times the square of the smaller of R^max and L."""
    return 2 * _unit_size(model_class) * min(_half_width(model_class), model_class.action_bound) ** 2


def _unit_size(model_class: LinearClass) -> float:
    return model_class.dim**2 + model_class.dim * model_class.norm_bound**2


def _half_width(model_class: LinearClass) -> float:
    low, high = model_class.reward_range
    return (high - low) / 2


# The paper's measures z of the size of a class: OFUL's regret grows like sqrt(z n).
SIZES: dict[str, Callable[[LinearClass], float]] = {"proof": proof_size, "text": text_size, "theorem": theorem_size}


def well_spaced(sizes: Sequence[float]) -> list[bool]:
    """Which classes to keep so that each size is at most half the next one kept. The last class is always kept.

    Classes are chosen from the largest down, so every omitted class has a kept superset of less than twice its size.

    >>> well_spaced([1.0, 3.0, 4.0, 7.0, 8.0])
    [True, False, True, False, True]
    """
    kept, smallest_kept = [False] * len(sizes), float("inf")
    for i in reversed(range(len(sizes))):
        if 2 * sizes[i] <= smallest_kept:
            kept[i], smallest_kept = True, sizes[i]
    return kept
