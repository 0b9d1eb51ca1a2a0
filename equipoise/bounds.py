"""Candidate regret bounds: upper bounds on the regret of a learner over n plays. A candidate bound may be false.

A bound has `raw(n)`. The selector, which knows the width w of the reward range, makes it admissible:
R(0) = 0 and R(n) = min(R(n - 1) + w, max(R(n - 1), raw(n))), so that R never decreases and never grows by more than w
per play. Clipping keeps a true bound true, because the regret itself has both properties.

Families of the paper: c n^beta (`Power`), c sqrt(n ln(n / delta)) (`SqrtLog`), c sqrt(n) + s n (`LinearSqrt`), and the
data-dependent bound that sums what the learner reports for each play (`Observed`).

>>> Power(2.0).raw(9)
6.0
>>> from_json(to_json(SqrtLog(1.5, delta=0.1))) == SqrtLog(1.5, delta=0.1)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import e, isfinite, log, nan, sqrt
from typing import Any, TypeAlias

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.kernels.marks import kernel
from equipoise.settings import named_part, setting, value
from equipoise.settings.checks import function, non_negative, positive, positive_fraction, probability, text
from equipoise.types import Config, Plain

POWER, SQRT_LOG, LINEAR_SQRT, SUMMED = 0, 1, 2, 3


class _ClosedForm:
    """A bound that depends on n alone."""

    def raw(self: Any, n: int) -> float:
        return closed_form(*bound_code(self), n)


@value
class Power(_ClosedForm):
    """coefficient * n ** exponent."""

    coefficient: float = setting("Positive factor, in units of reward.", positive)
    exponent: float = setting("In (0, 1].", positive_fraction, default=0.5)


@value
class SqrtLog(_ClosedForm):
    """coefficient * sqrt(n * ln_+(n / delta)), where ln_+(x) = ln(max(x, e))."""

    coefficient: float = setting("Positive factor, in units of reward.", positive)
    delta: float = setting("Failure probability, in (0, 1).", probability)


@value
class LinearSqrt(_ClosedForm):
    """slope * n + coefficient * sqrt(n): the bound of a learner whose model is wrong by a constant."""

    slope: float = setting("Regret per play that remains, at least 0.", non_negative)
    coefficient: float = setting("Positive factor of sqrt(n), in units of reward.", positive)


@value
class Observed:
    """The sum of what the learner reports for each play in `Proposal.regret`."""


@value
class Custom:
    """A user-defined function of n."""

    function: Callable[[int], float] = setting(
        "Must be finite, nonnegative and nondecreasing.", partial(function, of="n")
    )
    name: str = setting("Identifies the function in saved files.", text)

    def raw(self, n: int) -> float:
        value, earlier = float(self.function(n)), float(self.function(n - 1)) if n > 1 else 0.0
        if not isfinite(value) or value < 0.0 or value < earlier:
            raise InvalidArgument(
                f"bound {self.name!r} gives {value!r} at n = {n} and {earlier!r} before it, "
                "but must be finite, nonnegative and nondecreasing"
            )
        return value


Bound: TypeAlias = Power | SqrtLog | LinearSqrt | Observed | Custom
BOUNDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Power, SqrtLog, LinearSqrt, Observed, Custom)}


def to_json(bound: Bound) -> Config:
    """Plain data that `from_json` turns into an equal bound; for a `Custom` bound only the name."""
    if isinstance(bound, Custom):
        return {"bound": "Custom", "name": bound.name}
    return {"bound": type(bound).__name__, **asdict(bound)}


def from_json(data: Mapping[str, Plain], custom: Sequence[Custom] = ()) -> Bound:
    """The bound that `to_json` described; `Custom` ones are looked up by name in `custom`."""
    if data.get("bound") == "Custom":
        by_name = {bound.name: bound for bound in custom}
        if data.get("name") not in by_name:
            raise UnknownName("custom bound", str(data.get("name")), by_name)
        return by_name[data["name"]]
    bound: Bound = named_part("bound", data, (), BOUNDS, key="bound")
    return bound


def bound_code(bound: Bound) -> tuple[int, float, float]:
    """(kind, coefficient, shape): the bound as numbers, so that compiled code can evaluate it."""
    match bound:
        case Power(coefficient, exponent):
            return POWER, coefficient, exponent
        case SqrtLog(coefficient, delta):
            return SQRT_LOG, coefficient, delta
        case LinearSqrt(slope, coefficient):
            return LINEAR_SQRT, coefficient, slope
        case _:  # Observed and Custom are passed as increments, play by play
            return SUMMED, nan, nan


def bound_of(code: tuple[int, float, float]) -> Bound:
    """The bound that `bound_code` described; not for a `Custom` one."""
    kind, coefficient, shape = code
    match kind:
        case 0:
            return Power(coefficient, shape)
        case 1:
            return SqrtLog(coefficient, shape)
        case 2:
            return LinearSqrt(shape, coefficient)
        case _:
            return Observed()


@kernel
def closed_form(kind: int, coefficient: float, shape: float, n: int) -> float:
    """raw(n) of the families that depend on n alone."""
    if kind == POWER:
        # The square root is by far the most common case and much cheaper than a power.
        return coefficient * (sqrt(n) if shape == 0.5 else n**shape)
    if kind == SQRT_LOG:
        return coefficient * sqrt(n * log(max(n / shape, e)))
    return coefficient * sqrt(n) + shape * n
