"""Checks of the arguments of the guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from math import e

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import count, positive, probability, real


def check_pool(bounds: Sequence[float], well_specified: Sequence[bool]) -> None:
    """Check that there is one positive number per learner, and at least one well-specified learner."""
    if len(bounds) != len(well_specified):
        raise InvalidArgument(
            f"well_specified has {len(well_specified)} entries, but must have {len(bounds)}, one per bound"
        )
    if not any(well_specified):
        raise InvalidArgument("well_specified has no True, but must have at least one")
    for i, number in enumerate(bounds):
        positive(f"coefficients[{i}]", number)


def check_terms(rounds: int, radius: float, width: float) -> None:
    count("rounds", rounds)
    positive("radius", radius)
    positive("width", width)


def check_exponent(exponent: float) -> float:
    number = real("exponent", exponent)
    if not 0.0 < number <= 1.0:
        raise InvalidArgument(f"exponent is {exponent!r}, but must lie in (0, 1]")
    return number


def check_gap(gap: float, gap_exponent: float, exponent: float) -> None:
    """Check that elimination can detect a gap Delta n^alpha: alpha above 1/2 and above the exponent of the bounds."""
    positive("gap", gap)
    if not max(0.5, exponent) < real("gap_exponent", gap_exponent) <= 1.0:
        raise InvalidArgument(f"gap_exponent is {gap_exponent!r}, but must lie in ({max(0.5, exponent):g}, 1]")


def check_bound_delta(bound_delta: float) -> float:
    """Check the delta of bounds c sqrt(n ln_+(n / delta)); with a larger one they are not concave."""
    if probability("bound_delta", bound_delta) > 1 / e:
        raise InvalidArgument(f"bound_delta is {bound_delta!r}, but must be at most 1/e for concave bounds")
    return bound_delta


def check_printed(sizes: Sequence[float], constant: float) -> None:
    """Check the normalization of the printed theorems: d_i >= 1 and C >= 1 (width 1)."""
    for i, size in enumerate(sizes):
        if real(f"sizes[{i}]", size) < 1.0:
            raise InvalidArgument(f"sizes[{i}] is {size!r}, but must be at least 1, as in the printed theorem")
    if real("constant", constant) < 1.0:
        raise InvalidArgument(f"constant is {constant!r}, but must be at least 1, as in the printed theorem")
