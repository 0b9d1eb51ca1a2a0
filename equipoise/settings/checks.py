"""Checks of arguments: each returns the value in its proper type or raises an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument

LARGEST, SMALLEST = 1e100, 1e-100  # squares of larger or smaller magnitudes overflow or underflow
FINEST = 1e-9  # a narrower interval, relative to its ends, is lost in the rounding of sums over 1e8 rounds


def real(name: str, value: Any) -> float:
    """A finite float of reasonable magnitude; booleans are rejected."""
    if type(value) is float and -LARGEST <= value <= LARGEST:
        return value
    if isinstance(value, str | bytes | bytearray | bool | np.bool_):
        raise InvalidArgument(f"{name} is {value!r}, but must be a real number")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floating-point range
        number = math.inf
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} is {value!r}, but must be a real number") from None
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise InvalidArgument(f"{name} is {value!r}, but must be a finite number of magnitude at most {LARGEST:g}")
    return number


def measured(name: str, value: Any) -> float:
    """A reward or a feature: a real number, or a boolean as 0 or 1."""
    if type(value) is not float and isinstance(value, bool | np.bool_):
        return float(value)
    return real(name, value)


def in_range(name: str, value: Any, limits: tuple[float, float] | None) -> float:
    """A reward within the range of rewards, if that has limits."""
    number = measured(name, value)
    if limits is not None and not limits[0] <= number <= limits[1]:
        low, high = limits
        raise InvalidArgument(f"{name} is {value!r}, but must lie in reward_range ({low:g}, {high:g})")
    return number


def positive(name: str, value: Any) -> float:
    number = real(name, value)
    if number < SMALLEST:
        raise InvalidArgument(f"{name} is {value!r}, but must be positive, at least {SMALLEST:g}")
    return number


def non_negative(name: str, value: Any) -> float:
    number = real(name, value)
    if number < 0.0:
        raise InvalidArgument(f"{name} is {value!r}, but must not be negative")
    return number


def probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    number = real(name, value)
    if not 0.0 < number < 1.0:
        raise InvalidArgument(f"{name} is {value!r}, but must lie in (0, 1)")
    return positive(name, value)


def fraction(name: str, value: Any) -> float:
    """A number from 0 to 1, ends included."""
    number = real(name, value)
    if not 0.0 <= number <= 1.0:
        raise InvalidArgument(f"{name} is {value!r}, but must lie in [0, 1]")
    return number


def positive_fraction(name: str, value: Any) -> float:
    """A number above 0 and at most 1."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise InvalidArgument(f"{name} is {value!r}, but must lie in (0, 1]")
    return number


def count(name: str, value: Any, minimum: int = 1, maximum: int = 2**62) -> int:
    """A whole number in [minimum, maximum]; floats and booleans are rejected."""
    try:
        number = None if isinstance(value, bool | np.bool_) else index(value)
    except TypeError:
        number = None
    if number is None or not minimum <= number <= maximum:
        unlimited = maximum == 2**62 and (number is None or number < minimum)
        rule = f"at least {minimum}" if unlimited else f"from {minimum} to {maximum}"
        raise InvalidArgument(f"{name} is {value!r}, but must be a whole number {rule}")
    return number


def interval(name: str, value: Any) -> tuple[float, float]:
    """A pair (low, high) with low < high."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise InvalidArgument(f"{name} is {value!r}, but must be a pair (low, high)")
    low, high = real(f"{name}[0]", value[0]), real(f"{name}[1]", value[1])
    if not low < high:
        raise InvalidArgument(f"{name} is {value!r}, but must have low < high")
    if high - low < max(SMALLEST, FINEST * max(abs(low), abs(high))):
        raise InvalidArgument(f"{name} is {value!r}, but must be wider than {FINEST:g} of its ends and {SMALLEST:g}")
    return low, high


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} is {value!r}, but must be True or False")
    return value


def one_of(name: str, value: Any, options: Sequence[str]) -> str:
    if value not in options:
        raise InvalidArgument(f"{name} is {value!r}, but must be one of {', '.join(options)}")
    return str(value)


def text(name: str, value: Any) -> str:
    """A nonempty string."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name} is {value!r}, but must be a nonempty string")
    return value


def function(name: str, value: Any, of: str) -> Any:
    """A function; `of` says of what, in messages."""
    if not callable(value):
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a function of {of}")
    return value


seed_number = partial(count, minimum=0, maximum=2**64 - 1)
at_least_2 = partial(count, minimum=2)
size = partial(count, maximum=10_000)
several = partial(size, minimum=2)
