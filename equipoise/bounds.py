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
from dataclasses import asdict, dataclass
from math import e, isfinite, log, nan, sqrt
from typing import Any, TypeAlias

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.kernels.marks import kernel
from equipoise.settings.checks import non_negative, positive, probability, real, text
from equipoise.types import Config, Plain

POWER, SQRT_LOG, LINEAR_SQRT, SUMMED = 0, 1, 2, 3


@dataclass(frozen=True)
class Power:
    """coefficient * n ** exponent.

    Parameters
    ----------
    coefficient
        Positive factor, in units of reward.
    exponent
        In (0, 1].
    """

    coefficient: float
    exponent: float = 0.5

    def __post_init__(self) -> None:
        _set(self, coefficient=positive("coefficient", self.coefficient), exponent=real("exponent", self.exponent))
        if not 0.0 < self.exponent <= 1.0:
            raise InvalidArgument(f"exponent is {self.exponent!r}, but must lie in (0, 1]")

    def raw(self, n: int) -> float:
        return closed_form(POWER, self.coefficient, self.exponent, n)


@dataclass(frozen=True)
class SqrtLog:
    """coefficient * sqrt(n * ln_+(n / delta)), where ln_+(x) = ln(max(x, e)).

    Parameters
    ----------
    coefficient
        Positive factor, in units of reward.
    delta
        Failure probability, in (0, 1).
    """

    coefficient: float
    delta: float

    def __post_init__(self) -> None:
        _set(self, coefficient=positive("coefficient", self.coefficient), delta=probability("delta", self.delta))

    def raw(self, n: int) -> float:
        return closed_form(SQRT_LOG, self.coefficient, self.delta, n)


@dataclass(frozen=True)
class LinearSqrt:
    """slope * n + coefficient * sqrt(n): the bound of a learner whose model is wrong by a constant.

    Parameters
    ----------
    slope
        Regret per play that remains, at least 0.
    coefficient
        Positive factor of sqrt(n), in units of reward.
    """

    slope: float
    coefficient: float

    def __post_init__(self) -> None:
        _set(self, slope=non_negative("slope", self.slope), coefficient=positive("coefficient", self.coefficient))

    def raw(self, n: int) -> float:
        return closed_form(LINEAR_SQRT, self.coefficient, self.slope, n)


@dataclass(frozen=True)
class Observed:
    """The sum of what the learner reports for each play in `Proposal.regret`."""


@dataclass(frozen=True)
class Custom:
    """A user-defined function of n.

    Parameters
    ----------
    function
        Must be finite, nonnegative and nondecreasing.
    name
        Identifies the function in saved files.
    """

    function: Callable[[int], float]
    name: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument(f"function is {self.function!r}, but must be a function of n")
        text("name", self.name)

    def raw(self, n: int) -> float:
        value, earlier = float(self.function(n)), float(self.function(n - 1)) if n > 1 else 0.0
        if not isfinite(value) or value < 0.0 or value < earlier:
            raise InvalidArgument(
                f"bound {self.name!r} gives {value!r} at n = {n} and {earlier!r} before it, "
                "but must be finite, nonnegative and nondecreasing"
            )
        return value


def _set(bound: object, **settings: float) -> None:
    """Convert settings to plain floats, so that a bound is always plain data."""
    for name, value in settings.items():
        object.__setattr__(bound, name, value)


Bound: TypeAlias = Power | SqrtLog | LinearSqrt | Observed | Custom
BOUNDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Power, SqrtLog, LinearSqrt, Observed, Custom)}


def to_json(bound: Bound) -> Config:
    """Plain data that `from_json` turns into an equal bound; for a `Custom` bound only the name."""
    if isinstance(bound, Custom):
        return {"bound": "Custom", "name": bound.name}
    return {"bound": type(bound).__name__, **asdict(bound)}


def from_json(data: Mapping[str, Plain], custom: Sequence[Custom] = ()) -> Bound:
    """The bound that `to_json` described; `Custom` ones are looked up by name in `custom`."""
    settings = {key: value for key, value in data.items() if key != "bound"}
    name = str(data.get("bound"))
    if name not in BOUNDS:
        raise UnknownName("bound", name, BOUNDS)
    if name == "Custom":
        by_name = {bound.name: bound for bound in custom}
        if settings.get("name") not in by_name:
            raise UnknownName("custom bound", str(settings.get("name")), by_name)
        return by_name[settings["name"]]
    try:
        bound: Bound = BOUNDS[name](**settings)
    except TypeError:
        raise InvalidArgument(f"bound {name!r} has settings {settings!r}, but must have those of its class") from None
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
