"""Checks and fields that the settings of several selectors share; those of all selectors are in `selector`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, TypeVar, dataclass_transform

from equipoise.bounds import BOUNDS, Bound, from_json, to_json
from equipoise.errors import InvalidArgument
from equipoise.settings import configurable, describe, setting
from equipoise.settings.checks import seed_number
from equipoise.types import Config

T = TypeVar("T")


def check_bounds(name: str, bounds: object, each: str = "learner") -> tuple[Bound, ...]:
    """Check that there is one candidate bound per learner or algorithm."""
    if not isinstance(bounds, Iterable):
        raise InvalidArgument(f"{name} is {bounds!r}, but must have one bound per {each}")
    candidates = tuple(bounds)
    if not candidates:
        raise InvalidArgument(f"{name} is empty, but must have one bound per {each}")
    for bound in candidates:
        if not isinstance(bound, tuple(BOUNDS.values())):
            raise InvalidArgument(f"{name} has {bound!r}, but every entry must be one of {', '.join(BOUNDS)}")
    return candidates


def encode_bounds(bounds: Iterable[Bound] | None) -> list[Config] | None:
    return None if bounds is None else [to_json(bound) for bound in bounds]


def decode_bounds(rows: Iterable[Config] | None) -> list[Bound] | None:
    return None if rows is None else [from_json(row) for row in rows]


def fixed(value: Any) -> Any:
    """Declare a field that is a setting of other selectors only; in this class it always has this value."""
    return field(default=value, init=False)


def fix(cls: type[Any], **values: Any) -> None:
    """Declare such fields in a class that becomes configurable afterwards."""
    for name, value in values.items():
        cls.__annotations__[name] = "Any"
        setattr(cls, name, fixed(value))


@dataclass_transform(kw_only_default=True, field_specifiers=(setting, field))
def bounded_rewards(cls: type[T]) -> type[T]:
    """Make a class configurable whose rewards must be bounded: without the settings `noise` and `radius_scale`."""
    fix(cls, noise=None, radius_scale=1.0)
    return describe(reward_range="Lowest and highest reward. Default: the portfolio's, or (0, 1).")(configurable(cls))


def seed_setting() -> Any:
    """Declare the seed of a randomized selector, used if `choose` gets no generator."""
    return setting("Seed of the selector's random numbers, used if `choose` gets no generator.", seed_number, default=0)
