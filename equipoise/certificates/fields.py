"""Fields of records: what each must hold, and sentences about those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isclose, isfinite
from typing import TypeAlias, TypeGuard

from equipoise.types import Plain

CLOSE = 1e-12  # relative; logarithms and roots may differ in the last digits between machines


def whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> bool:
    # A whole number too large for a float would break the comparisons that follow.
    return (whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(number(end) for end in value)


def optional_number(value: object) -> bool:
    return value is None or number(value)


Record: TypeAlias = dict[str, Plain]  # as read from JSON
Test = Callable[[object], bool]
KINDS: dict[Test, str] = {
    whole: "a whole number",
    number: "a finite number",
    text: "a text that is not empty",
    mapping: "an object",
    pair: "a pair of finite numbers",
    optional_number: "a finite number or null",
}


def shape_faults(prefix: str, found: Mapping[str, object], fields: Mapping[str, Test]) -> list[str]:
    faults = [f"{prefix}{name} is missing" for name in fields if name not in found]
    faults += [f"{prefix}{name} is no field of a record" for name in found if name not in fields]
    for name, test in fields.items():
        if name in found and not test(found[name]):
            faults.append(f"{prefix}{name} is {found[name]!r:.80}, but must be {KINDS[test]}")
    return faults


def rule_faults(rules: Iterable[tuple[str, object, bool, str]]) -> list[str]:
    """Sentences about the rules (field, value, kept, what it must be) that were not kept."""
    return [f"{name} is {value!r}, but must be {rule}" for name, value, kept, rule in rules if not kept]


def recomputed_faults(rows: Iterable[tuple[str, float, float, float]]) -> list[str]:
    """Rows (name, stated, recomputed, magnitude) whose numbers differ by more than rounding."""
    return [
        f"{name} is {stated!r}, but recomputed it is {value!r}"
        for name, stated, value, magnitude in rows
        if not isclose(stated, value, rel_tol=CLOSE, abs_tol=CLOSE * abs(magnitude))
    ]


def regret_faults(name: str, total: float, low: float, high: float, n: int) -> list[str]:
    """Whether n plays can have lost `total`, with expected rewards in [low, high]."""
    slack = CLOSE * max(abs(low), abs(high))  # sums are compensated, so their rounding does not grow with the plays
    possible = -slack * n <= total <= (high - low + slack) * n
    return [] if possible else [f"{name} is {total!r}, but {n} plays cost from 0 to {(high - low) * n!r}"]


def sum_faults(name: str, total: float, low: float, high: float, n: int, what: str) -> list[str]:
    """Whether n numbers in [low, high] can add up to `total`."""
    slack = CLOSE * max(abs(low), abs(high))
    possible = (low - slack) * n <= total <= (high + slack) * n
    return [] if possible else [f"{name} is {total!r}, but {n} {what} in [{low!r}, {high!r}] cannot add up to it"]


def digits(upper: float, lower: float) -> int:
    """How many digits tell the two sides of an inequality apart, four at least."""
    return next((places for places in range(4, 17) if f"{upper:.{places}f}" != f"{lower:.{places}f}"), 17)
