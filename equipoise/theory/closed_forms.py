"""The closed-form guarantee of Algorithm 1 for a selector, by the family of its bounds, with its radius and range."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.bounds import Bound, LinearSqrt, Power, SqrtLog
from equipoise.confidence import radius_sum
from equipoise.selectors import BalancedElimination
from equipoise.theory.guarantees import (
    Terms,
    linear_sqrt_guarantee,
    power_guarantee,
    rooted_radius,
    sqrt_log_guarantee,
)


def deviation(selector: BalancedElimination, n: int) -> float:
    """The selector's radius for the sum of n rewards: the widest, if learners have unequal shares of delta."""
    return max(radius_sum(selector.confidence_of(i).radius, n) for i in range(selector.n_learners))


def terms_of(selector: BalancedElimination, rounds: int) -> Terms:
    low, high = selector.reward_range
    radius = max(rooted_radius(selector.confidence_of(i).radius, rounds) for i in range(selector.n_learners))
    return {"rounds": rounds, "radius": radius, "width": high - low}


def closed_form(selector: BalancedElimination, well_specified: Sequence[bool], rounds: int) -> float | None:
    """The guaranteed regret if the `well_specified` learners satisfy their bounds: infinite if there is no guarantee,
    None if the bounds are of several families or have no closed form."""
    bounds, terms = selector.bounds or (), terms_of(selector, rounds)
    if len({_family(bound) for bound in bounds}) != 1:
        return None
    match bounds[0]:
        case Power(_, exponent):
            return power_guarantee(coefficients_of(bounds), exponent, well_specified, **terms)
        case SqrtLog(_, delta):
            return sqrt_log_guarantee(coefficients_of(bounds), delta, well_specified, **terms)
        case LinearSqrt(_, coefficient):
            slopes = [bound.slope for bound in bounds if isinstance(bound, LinearSqrt)]
            return linear_sqrt_guarantee(slopes, coefficient, well_specified, **terms)
        case _:
            return None


def coefficients_of(bounds: Sequence[Bound]) -> list[float]:
    """The coefficients of bounds that are all Power or SqrtLog."""
    return [bound.coefficient for bound in bounds if isinstance(bound, Power | SqrtLog)]


def _family(bound: Bound) -> tuple[type[Bound], float]:
    """What bounds of one family have in common."""
    match bound:
        case Power(_, shape) | SqrtLog(_, shape) | LinearSqrt(_, shape):
            return type(bound), shape
        case _:
            return type(bound), 0.0
