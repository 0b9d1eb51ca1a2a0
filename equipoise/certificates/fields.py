"""Fields of records: how values are checked, read and written.

The type of a field says how it is checked and written. A field with a default is left out of the record where it has
that value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from math import isclose, isfinite
from typing import Any, TypeAlias, TypeGuard, TypeVar, get_type_hints

from equipoise.types import Plain

CLOSE = 1e-12  # relative; logarithms and roots may differ in the last digits between machines

T = TypeVar("T")
Record: TypeAlias = dict[str, Plain]  # as read from JSON
Names: TypeAlias = Sequence[str] | Mapping[int, str]  # of the learners, by index


@dataclass(frozen=True)
class Field:
    """One field of a record."""

    type: type  # of its value, or of each of several
    rule: str  # "a whole number"
    accepts: Callable[[object], bool]
    plain: Callable[[Any], Plain]  # makes the value that is written
    required: bool = True
    absent: object = None  # the value for which an optional field is left out
    claimed: bool = False  # whether it is a difference of larger numbers, and may be off by their rounding
    stated_with: str = ""  # an optional field; where that is stated, so is this
    parts: Fields | None = None  # of an object


Fields: TypeAlias = Mapping[str, Field]


def is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    # A whole number too large for a float would break later comparisons.
    return (is_whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def _are_numbers(value: object, n: int | None = None) -> bool:
    return isinstance(value, list | tuple) and len(value) == (n or len(value)) > 0 and all(map(is_number, value))


whole = Field(int, "a whole number", is_whole, int)
positive = Field(int, "a whole number of at least 1, or left out", lambda value: is_whole(value) and value >= 1, int)
number = Field(float, "a finite number", is_number, float)
claim = replace(number, claimed=True)
text = Field(str, "a nonempty string", lambda value: isinstance(value, str) and value != "", str)
true = Field(bool, "true, or left out", lambda value: value is True, bool)
numbers = Field(list, "a nonempty list of finite numbers", _are_numbers, lambda values: list(map(float, values)))
pair = replace(numbers, rule="a pair of finite numbers", accepts=lambda value: _are_numbers(value, 2))
optional_number = Field(
    float,
    "a finite number or null",
    lambda value: value is None or is_number(value),
    lambda value: None if value is None else float(value),
)
BY_TYPE = {
    int: whole,
    float: number,
    str: text,
    bool: true,
    float | None: optional_number,
    tuple[float, float]: pair,
}


def part(parts: Fields) -> Field:
    """Return the field of an object with these parts."""
    return Field(dict, "an object", lambda value: isinstance(value, Mapping), dict, parts=parts)


def maybe(field: Field, absent: object, stated_with: str = "") -> Field:
    """Return the field as one that is left out if its value is `absent`, unless the field `stated_with` is stated."""
    return replace(field, required=False, absent=absent, stated_with=stated_with)


def fields_of(made: type, *left_out: str) -> dict[str, Field]:
    """Return the fields of a dataclass as fields of a record."""
    types, found = get_type_hints(made), {}
    for each in fields(made):
        if each.name not in left_out:
            field = BY_TYPE[types[each.name]]
            found[each.name] = field if each.default is MISSING else maybe(field, each.default)
    return found


def read(made: type[T], *sources: Mapping[str, Plain], **others: Plain) -> T:
    """Return the dataclass whose fields the sources and the other arguments hold; later ones take precedence."""
    held: Record = {}
    for source in (*sources, others):
        held.update(source)
    own = {each.name for each in fields(made)}  # type: ignore[arg-type]
    return made(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in held.items() if name in own}
    )


def write(source: Any, stated: Fields, names: Names = ()) -> Record:
    """Return the stated fields of an object as plain data; "name" is the name of the learner with its index."""
    content: Record = {}
    for name, field in stated.items():
        value = names[source.index] if name == "name" else getattr(source, name)
        other = field.stated_with
        needed = field.required or (other != "" and getattr(source, other) != stated[other].absent)
        if needed or value != field.absent:
            content[name] = field.plain(value) if field.parts is None else write(value, field.parts, names)
    return content


def shape_faults(data: Mapping[str, object], stated: Fields, prefix: str = "") -> list[str]:
    """Return sentences about fields that are missing, unknown or of another type."""
    faults = [f"{prefix}{name} is missing" for name, field in stated.items() if field.required and name not in data]
    faults += [f"{prefix}{name} is not a field of a record" for name in data if name not in stated]
    for name, field in stated.items():
        if name not in data:
            continue
        value = data[name]
        if not field.accepts(value):
            faults.append(f"{prefix}{name} is {value!r:.80}, but must be {field.rule}")
        elif field.parts is not None and isinstance(value, Mapping):
            faults += shape_faults(value, field.parts, f"{name}.")
    return faults


def recomputed_faults(
    data: Mapping[str, Plain], recomputed: Mapping[str, Plain], stated: Fields, magnitude: float, prefix: str = ""
) -> Iterator[str]:
    """Yield sentences about numbers that differ from the recomputed ones by more than rounding."""
    for name, value in recomputed.items():
        field = stated[name]
        if field.parts is not None:
            yield from recomputed_faults(data[name], value, field.parts, magnitude, f"{name}.")
        elif isinstance(value, int | float):
            slack = CLOSE * abs(magnitude) if field.claimed else 0.0
            if name not in data or not isclose(data[name], value, rel_tol=CLOSE, abs_tol=slack):
                yield f"{prefix}{name} is {data.get(name)!r}, but the recomputed value is {value!r}"
