"""Classes of linear rewards that contain each other: what a selector that needs "nested" learners presumes of them.

Learner i presumes that the expected reward of an action is linear in its first d_i features, with a parameter of norm
at most S_i, actions of norm at most L_i and values in a given range. Selection under adversarial contexts removes the
learner of smallest class when some class must be false, which is sound only if every class contains those before it:
then "class i is true" implies that all classes after it are.

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
    """What a learner of linear rewards presumes; `name` is the learner's."""

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
        """Refuse if something that `smaller` presumes possible is not possible here."""
        for quantity in GROWING:
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
        """Refuse if this is not the class that a selector was made for."""
        for quantity in LinearClass._fields[1:]:
            value, made_for = getattr(self, quantity), getattr(expected, quantity)
            if value != made_for:
                raise IncompatibleLearner(
                    f"learner {self.name!r} has {quantity} = {value}, but {selector_name} was made for {made_for}"
                )


# A class contains another only if each of these is at least as large.
GROWING = ("dim", "norm_bound", "action_bound", "noise", "scale", "misspecification")


def linear_class(learner: object) -> LinearClass:
    """The class that a learner states.

    >>> from equipoise.learners import OFUL
    >>> linear_class(OFUL(4, norm_bound=1.5)).norm_bound
    1.5
    """
    return check_class(model_class_of(learner))


def check_class(claimed: object) -> LinearClass:
    """The class with every entry in its proper type, or what is wrong with it."""
    if not isinstance(claimed, LinearClass):
        raise InvalidArgument(f"classes has {claimed!r}, but every entry must be a LinearClass")
    return LinearClass(
        name=text("name", claimed.name),
        dim=count("dim", claimed.dim),
        norm_bound=positive("norm_bound", claimed.norm_bound),
        action_bound=positive("action_bound", claimed.action_bound),
        regularization=positive("regularization", claimed.regularization),
        noise=positive("noise", claimed.noise),
        delta=probability("delta", claimed.delta),
        scale=positive("scale", claimed.scale),
        misspecification=non_negative("misspecification", claimed.misspecification),
        reward_range=interval("reward_range", claimed.reward_range),
    )


def check_nested(classes: Sequence[LinearClass]) -> None:
    """Refuse classes of which one does not contain the one before it, naming the learner."""
    for smaller, larger in pairwise(classes):
        larger.check_contains(smaller)


def proof_size(claimed: LinearClass) -> float:
    """z of the proof: d (sigma^2 d + lambda S^2)(1 + b^2), b the lesser of R^max / min(1, beta) and L / sqrt(lambda).

    beta is the radius of the ellipsoid before any data, below which it never falls; the paper takes it to be 1 at
    least.
    """
    least_radius = claimed.noise * sqrt(2 * log(1 / claimed.delta)) + sqrt(claimed.regularization) * claimed.norm_bound
    greatest = min(_half_width(claimed) / min(1.0, least_radius), claimed.action_bound / sqrt(claimed.regularization))
    spread = claimed.noise**2 * claimed.dim + claimed.regularization * claimed.norm_bound**2
    return claimed.dim * spread * (1 + greatest**2)


def text_size(claimed: LinearClass) -> float:
    """z as the paper's text prints it: (d^2 + d S^2) times R^max or L^2, whichever is less."""
    return _unit_size(claimed) * min(_half_width(claimed), claimed.action_bound**2)


def theorem_size(claimed: LinearClass) -> float:
    """z as the paper's regret theorem ends up with: 2 (d^2 + d S^2) times the square of R^max or L."""
    return 2 * _unit_size(claimed) * min(_half_width(claimed), claimed.action_bound) ** 2


def _unit_size(claimed: LinearClass) -> float:
    return claimed.dim**2 + claimed.dim * claimed.norm_bound**2


def _half_width(claimed: LinearClass) -> float:
    low, high = claimed.reward_range
    return (high - low) / 2


# How the paper measures a class: OFUL's regret grows like sqrt(z n).
SIZES: dict[str, Callable[[LinearClass], float]] = {"proof": proof_size, "text": text_size, "theorem": theorem_size}


def well_spaced(sizes: Sequence[float]) -> list[bool]:
    """Which classes to keep so that each size is at most half the next one kept; the last class always is.

    From the top, so that every class left out has a kept superset of less than twice its size.

    >>> well_spaced([1.0, 3.0, 4.0, 7.0, 8.0])
    [True, False, True, False, True]
    """
    kept, least = [False] * len(sizes), float("inf")
    for i in reversed(range(len(sizes))):
        if 2 * sizes[i] <= least:
            kept[i], least = True, sizes[i]
    return kept
