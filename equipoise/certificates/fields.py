"""Fields of records: what each must contain, and sentences about those that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isclose, isfinite
from typing import TypeAlias, TypeGuard

from equipoise.types import Plain

CLOSE = 1e-12  # relative; logarithms and roots may differ in the last digits between machines


def whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> bool:
    # A whole number too large for a float would break later comparisons.
    return (whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def true(value: object) -> bool:
    return value is True


def text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(number(end) for end in value)


def numbers(value: object) -> bool:
    return isinstance(value, list | tuple) and all(number(each) for each in value)


def optional_number(value: object) -> bool:
    return value is None or number(value)


Record: TypeAlias = dict[str, Plain]  # as read from JSON
Test = Callable[[object], bool]
KINDS: dict[Test, str] = {
    whole: "a whole number",
    number: "a finite number",
    true: "true, or left out",
    text: "a nonempty string",
    mapping: "an object",
    pair: "a pair of finite numbers",
    numbers: "a list of finite numbers",
    optional_number: "a finite number or null",
}


def shape_faults(prefix: str, data: Mapping[str, object], fields: Mapping[str, Test]) -> list[str]:
    faults = [f"{prefix}{name} is missing" for name in fields if name not in data]
    faults += [f"{prefix}{name} is not a field of a record" for name in data if name not in fields]
    for name, test in fields.items():
        if name in data and not test(data[name]):
            faults.append(f"{prefix}{name} is {data[name]!r:.80}, but must be {KINDS[test]}")
    return faults


def rule_faults(rules: Iterable[tuple[str, object, bool, str]]) -> list[str]:
    """Sentences about the rules (field, value, satisfied, what it must be) that are not satisfied."""
    return [f"{name} is {value!r}, but must be {rule}" for name, value, satisfied, rule in rules if not satisfied]


def recomputed_faults(rows: Iterable[tuple[str, float, float, float]]) -> list[str]:
    """Sentences about rows (name, stated, recomputed, magnitude) whose numbers differ by more than rounding."""
    return [
        f"{name} is {stated!r}, but the recomputed value is {value!r}"
        for name, stated, value, magnitude in rows
        if not isclose(stated, value, rel_tol=CLOSE, abs_tol=CLOSE * abs(magnitude))
    ]


def regret_faults(name: str, total: float, low: float, high: float, n: int) -> list[str]:
    """A sentence if n plays with expected rewards in [low, high] cannot have the regret `total`."""
    slack = CLOSE * max(abs(low), abs(high))  # sums are compensated, so their rounding does not grow with the plays
    possible = -slack * n <= total <= (high - low + slack) * n
    return [] if possible else [f"{name} is {total!r}, but the regret of {n} plays is from 0 to {(high - low) * n!r}"]


def sum_faults(name: str, total: float, low: float, high: float, n: int, what: str) -> list[str]:
    """A sentence if n numbers in [low, high] cannot add up to `total`."""
    slack = CLOSE * max(abs(low), abs(high))
    possible = (low - slack) * n <= total <= (high + slack) * n
    return [] if possible else [f"{name} is {total!r}, but {n} {what} in [{low!r}, {high!r}] cannot add up to it"]


def digits(upper: float, lower: float) -> int:
    """How many digits show the difference between the two sides of an inequality, at least four."""
    return next((places for places in range(4, 17) if f"{upper:.{places}f}" != f"{lower:.{places}f}"), 17)
