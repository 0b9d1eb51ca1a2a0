"""Nested classes of linear rewards, as needed by selectors for "nested" learners.

Learner i assumes that the expected reward of an action, minus the low end of the reward range, is linear in its first
d_i features, or in d_i features with names, with a parameter of norm at most S_i, actions of norm at most L_i and
values in a given range. Selection under adversarial contexts removes the learner of the smallest class when some class
must be false. That is sound only if every class contains those before it: then "class i is true" implies that all later
classes are true.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Extension to Adversarial Contexts".
Symbols: d dim, S norm_bound, L action_bound, lambda regularization, sigma noise, R^max half the width of reward_range,
kappa scale, eps misspecification, T rounds.

Ladders of kappa and of eps. Class i with kappa_i means that the noise has the factor kappa_i sigma and theta* a norm of
at most kappa_i S; then kappa_i beta is a radius of the ellipsoid, whatever rounds were learned, and a larger kappa
contains a smaller one. Class i with eps_i means that expected rewards are within eps_i of linear. A play costs at most
2 (kappa beta + eps sqrt(n)) ||a|| + 2 eps, n plays in all 2 (kappa beta + eps sqrt(n)) sqrt(n X) + 2 eps n by
Cauchy-Schwarz, with X <= (1 + b^2) d ln(...) the elliptical potential. So the square of the regret over n, up to
logarithms, is at most z = d (kappa^2 (sigma^2 d + lambda S^2) + eps^2 n)(1 + b^2) + eps^2 n. The probabilities 1/z are
fixed within an epoch, so n is replaced by its upper bound T, which must be given if some eps is positive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log, sqrt
from typing import Any, NamedTuple

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features.maps import Prefix, feature_names
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
    features: tuple[str, ...] = ()  # names of the features; empty for the first `dim` columns

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.features or feature_names(Prefix(self.dim))

    def check_contains(self, smaller: LinearClass) -> None:
        """Raise an error unless this class contains `smaller`."""
        (low, high), (own_low, own_high) = smaller.reward_range, self.reward_range
        if not (own_low == low and high <= own_high):
            raise IncompatibleLearner(
                f"learner {self.name!r} has reward_range ({own_low:g}, {own_high:g}), but it must contain "
                f"({low:g}, {high:g}) of {smaller.name!r} before it and have the same low end, from which rewards are "
                "measured"
            )
        for quantity in NESTED_QUANTITIES:
            before, now = getattr(smaller, quantity), getattr(self, quantity)
            if now < before:
                raise IncompatibleLearner(
                    f"learner {self.name!r} has {quantity} = {now:g} after {smaller.name!r} with {before:g}, but "
                    "learners must come in order, every class containing the one before it"
                )
        if self.features or smaller.features:
            self._check_features(smaller)

    def _check_features(self, smaller: LinearClass) -> None:
        lacking = Counter(smaller.feature_names) - Counter(self.feature_names)
        if lacking:
            raise IncompatibleLearner(
                f"learner {self.name!r} lacks the feature {next(iter(lacking))!r} of {smaller.name!r} before it, but "
                "learners must come in order, every class containing the one before it"
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


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(LinearClass._fields, positive),
    "name": text,
    "dim": count,
    "delta": probability,
    "misspecification": non_negative,
    "reward_range": interval,
    "features": lambda name, names: tuple(text(f"every entry of {name}", each) for each in names),
}


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
    made = LinearClass._make(CHECKS[name](name, entry) for name, entry in model_class._asdict().items())
    if made.features and len(made.features) != made.dim:
        raise InvalidArgument(f"features has {len(made.features)} names, but must have dim = {made.dim}, or none")
    return made


def check_nested(classes: Sequence[LinearClass]) -> None:
    """Raise an error, naming the learner, if a class does not contain the one before it."""
    for smaller, larger in pairwise(classes):
        larger.check_contains(smaller)


def proof_size(model_class: LinearClass, rounds: int | None = None) -> float:
    """z of the proof, extended: d (kappa^2 (sigma^2 d + lambda S^2) + eps^2 T)(1 + b^2) + eps^2 T.

    b is the smaller of R^max / min(1, kappa beta) and L / sqrt(lambda), beta the radius of the ellipsoid before any
    data, which is its smallest; the paper assumes that it is at least 1.
    """
    _, dim, norm_bound, action_bound, regularization, noise, delta, scale, *_ = model_class
    min_radius = scale * (noise * sqrt(2 * log(1 / delta)) + sqrt(regularization) * norm_bound)
    norm_ratio = min(_half_width(model_class) / min(1.0, min_radius), action_bound / sqrt(regularization))
    spread = noise**2 * dim + regularization * norm_bound**2
    error = _squared_error_sum(model_class, rounds)
    return dim * (scale**2 * spread + error) * (1 + norm_ratio**2) + error


def text_size(model_class: LinearClass, rounds: int | None = None) -> float:
    """z as the paper's text prints it, (d^2 + d S^2) times the smaller of R^max and L^2, extended likewise."""
    error = _squared_error_sum(model_class, rounds)
    return _unit_size(model_class, error) * min(_half_width(model_class), model_class.action_bound**2) + error


def theorem_size(model_class: LinearClass, rounds: int | None = None) -> float:
    """z as in the paper's regret theorem, 2 (d^2 + d S^2) times the square of the smaller of R^max and L, extended."""
    error = _squared_error_sum(model_class, rounds)
    return 2 * _unit_size(model_class, error) * min(_half_width(model_class), model_class.action_bound) ** 2 + error


def _unit_size(model_class: LinearClass, error: float) -> float:
    dim, scale, norm_bound = model_class.dim, model_class.scale, model_class.norm_bound
    return scale**2 * (dim**2 + dim * norm_bound**2) + dim * error


def _squared_error_sum(model_class: LinearClass, rounds: int | None) -> float:
    """eps^2 T."""
    if model_class.misspecification == 0.0:
        return 0.0
    if rounds is None:
        raise InvalidArgument(
            f"rounds is None, but must be given for {model_class.name!r} with misspecification = "
            f"{model_class.misspecification:g}: the regret of such a class grows faster than the square root of "
            "rounds, so its probability depends on their number"
        )
    return model_class.misspecification**2 * rounds


def _half_width(model_class: LinearClass) -> float:
    low, high = model_class.reward_range
    return (high - low) / 2


# The paper's measures z of the size of a class: OFUL's regret in n <= `rounds` rounds is of order sqrt(z n).
Size = Callable[[LinearClass, int | None], float]


def _in_any_unit(size: Size) -> Size:
    """The size of a class in the unit in which its range has width 1: the paper's terms have no unit."""

    def size_of(model_class: LinearClass, rounds: int | None = None) -> float:
        width = 2 * _half_width(model_class)
        names = ("norm_bound", "noise", "misspecification")
        scaled = {name: getattr(model_class, name) / width for name in names}
        return size(model_class._replace(reward_range=(0.0, 1.0), **scaled), rounds)

    return size_of


SIZES: dict[str, Size] = {
    "proof": _in_any_unit(proof_size),
    "text": _in_any_unit(text_size),
    "theorem": _in_any_unit(theorem_size),
}


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
