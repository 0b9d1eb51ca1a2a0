"""What callers have as rows: dicts, nested dicts, rows of data frames, named tuples and dataclasses, as flat dicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.types import Plain

MAX_FIELDS = 1_000
MAX_EXACT = 1 << 53  # a larger whole number is not equal to a float
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
NOTHING = ("NAType", "NaTType")  # names of the classes of missing values in data frames
MAX_DEPTH = 16  # of nested objects
PLAIN = frozenset({str, int, float, bool, type(None), list, np.float64})  # types of values that have no names in them


@runtime_checkable
class Labeled(Protocol):
    """A row with labels, such as a Series of pandas."""

    index: Any

    def items(self) -> Iterable[tuple[Any, Any]]: ...


@runtime_checkable
class NamedRow(Protocol):
    """A named tuple."""

    def _asdict(self) -> dict[str, Any]: ...


@runtime_checkable
class RowsByName(Protocol):
    """A data frame of polars."""

    def to_dicts(self) -> list[dict[str, Any]]: ...


@runtime_checkable
class Tabular(Protocol):
    """A data frame of pandas."""

    columns: Any

    def to_dict(self, orient: Any) -> Any: ...


def is_record(given: object) -> bool:
    """Whether a value has names for its entries."""
    if type(given) is dict or isinstance(given, Mapping):
        return True
    if given is None or isinstance(given, np.ndarray | list):
        return False
    if isinstance(given, NamedRow) or nests(given):
        return True
    return isinstance(given, Labeled) and not isinstance(given, Tabular | RowsByName)


def as_record(given: Any, where: str) -> Mapping[str, Any]:
    """Return a row as a dict; raise an error if its entries have no names."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, NamedRow):
        row = dict(given._asdict())
        if type(given).__name__ == "Pandas":  # `itertuples` puts the index of the frame first
            row.pop("Index", None)
        return row
    if is_dataclass(given) and not isinstance(given, type):
        return {each.name: getattr(given, each.name) for each in fields(given)}
    if isinstance(given, Labeled) and not isinstance(given, Tabular | RowsByName):
        return dict(given.items())
    raise InvalidArgument(f"{where} is {given!r:.80}, but must be a dict of names and values, or a row of a data frame")


def as_rows(given: Any) -> Any:
    """Return a data frame as a list of dicts, and anything else as it is."""
    if given is None or isinstance(given, list | np.ndarray | bool | int | float):
        return given
    if isinstance(given, RowsByName):
        return given.to_dicts()
    return given.to_dict("records") if isinstance(given, Tabular) else given


def nests(given: object) -> bool:
    """Whether a value of a feature is a record of further features: a dict or a dataclass."""
    if type(given) in PLAIN:  # nearly all are
        return False
    return isinstance(given, Mapping) or (is_dataclass(given) and not isinstance(given, type))


def is_nested(record: Mapping[str, Any]) -> bool:
    return any(map(nests, record.values()))


def flat(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a record with the names of nested ones behind dots; raise an error for two values of one name."""
    found: dict[str, Any] = {}
    _flatten(found, record, "", where, 1)
    return found


def _flatten(found: dict[str, Any], record: Mapping[str, Any], prefix: str, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidArgument(f"{where} is nested more than {MAX_DEPTH} levels deep, which is the maximum")
    for name, value in record.items():
        if not isinstance(name, str):
            raise InvalidArgument(f"{where} has the name {name!r:.80}, but names must be strings")
        path = prefix + name
        if nests(value):
            _flatten(found, as_record(value, where), f"{path}.", where, depth + 1)
        elif path in found:
            raise InvalidArgument(f"{where} has {path!r:.80} twice, but names must differ")
        else:
            found[path] = value
        if len(found) > MAX_FIELDS:
            raise InvalidArgument(f"{where} has more than {MAX_FIELDS} fields, which is the maximum")


def joined(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one record with the features of several; objects of the same name are joined, too.

    >>> joined([{"user": {"age": 7}}, {"user": {"new": True}, "hour": 9}])
    {'user': {'age': 7, 'new': True}, 'hour': 9}
    """
    found: dict[str, Any] = {}
    for record in records:
        for name, value in record.items():
            before = found.get(name)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                found[name] = {**before, **value}
            else:
                found[name] = value
    return found


def with_id(id_: object, record: Mapping[str, Any], unknown: str) -> Mapping[str, Any]:
    """Return the features of an action with its id, if unknown names are hashed: other features can be equal."""
    return {"id": id_, **record} if unknown == "hash" and isinstance(id_, str) else record


def features_digest(*given: Any) -> str:
    """Return the SHA-256 of features that a caller gave: equal for equal features in any order and form.

    A missing value is one that is not there, and a whole number is equal to the same float.
    """
    parts = [_flat_plain(each) if type(each) is dict else _plain(each) for each in given]
    return sha256(ENCODER.encode(parts).encode()).hexdigest()


def _flat_plain(record: Mapping[str, Any]) -> Plain:
    """Return a record as plain data; fast if it has plain values only."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        kind = type(value)
        if kind is str or kind is bool:
            found[name] = value
        elif (kind is float and value == value) or (kind is int and -MAX_EXACT < value < MAX_EXACT):
            found[name] = float(value)
        elif value is not None:
            pairs = ((path, _plain(each)) for path, each in flat(record, "features").items())
            return {path: each for path, each in pairs if each is not None}
    return found


def _plain(given: Any) -> Plain:
    """Return a value, or a list or table of records, as what JSON has."""
    if given is None or isinstance(given, str | bool):
        return given
    if type(given) is tuple and all(type(each) is str for each in given):  # ids
        return given
    given = as_rows(given)
    if isinstance(given, np.generic | np.ndarray):
        given = given.tolist()
    if isinstance(given, int | float):
        return given if abs(given) >= MAX_EXACT else None if given != given else float(given)
    if isinstance(given, list | tuple) and not is_record(given):
        return [_flat_plain(each) if type(each) is dict else _plain(each) for each in given]
    if is_record(given):
        return _flat_plain(as_record(given, "features"))
    return None if type(given).__name__ in NOTHING else str(given)
