"""State as rows of objects in plain Python, as structured arrays in compiled code, and as columns in files.

Kernels read and write `rows[i].field`, which works both on a list of slotted dataclass objects (fastest to access in
Python) and on a structured array (one pointer in machine code, where a tuple of twenty arrays would cost more than the
arithmetic). A state is a NamedTuple of such rows and of nested states. Fields that are `derived` from others are kept
to save time; files do not hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import Field, field, fields
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.types import AnyArray, State

_CODES = {"int": "i8", "float": "f8", "bool": "?"}
Rows: TypeAlias = Sequence[Any]  # dataclass objects, or records of a structured array
S = TypeVar("S", bound=NamedTuple)
T = TypeVar("T", int, float, bool)


def derived(unknown: T) -> T:
    """A field of a row that kernels compute from others when they need it; `unknown` says that it must be computed."""
    made: T = field(default=unknown, compare=False, metadata={"derived": True})
    return made


def as_records(rows: Rows) -> AnyArray:
    """The rows as a structured array; all are objects of one dataclass with int, float and bool fields."""
    columns = fields(rows[0])
    dtype = np.dtype([(each.name, _CODES[str(each.type)]) for each in columns])
    records = np.array([tuple(getattr(row, each.name) for each in columns) for row in rows], dtype)
    return records.view(np.recarray)  # so that fields are attributes in plain Python too


def load_records(rows: Rows, records: AnyArray) -> None:
    for row, record in zip(rows, records.tolist(), strict=True):
        for each, value in zip(fields(row), record, strict=True):
            setattr(row, each.name, value)


def state_records(state: S) -> S:
    """A copy of the state for compiled code, with a structured array for each list of rows."""
    return state._make(as_records(part) if isinstance(part, list) else state_records(part) for part in state)


def load_state(state: NamedTuple, records: NamedTuple) -> None:
    """Copy records from `state_records`, as changed by compiled code, back into the state."""
    for (_, rows), (_, array) in zip(_leaves(state), _leaves(records), strict=True):
        load_records(rows, array)


def state_columns(state: NamedTuple) -> dict[str, AnyArray]:
    """The state as plain arrays, one for each field of its rows, named by their paths."""
    columns: dict[str, AnyArray] = {}
    for path, rows in _leaves(state):
        records = as_records(rows)
        columns |= {f"{path}.{each.name}": records[each.name].copy() for each in _saved(rows[0])}
    return columns


def load_columns(state: NamedTuple, columns: Mapping[str, AnyArray]) -> None:
    """Copy columns from `state_columns`, checked by `check_columns`, into the state."""
    for path, rows in _leaves(state):
        saved = _saved(rows[0])
        for each in fields(rows[0]):
            values = columns[f"{path}.{each.name}"].tolist() if each in saved else [each.default] * len(rows)
            for row, value in zip(rows, values, strict=True):
                setattr(row, each.name, value)


def check_columns(state: NamedTuple, columns: Mapping[str, AnyArray]) -> None:
    for path, rows in _leaves(state):
        check_shapes(columns, {f"{path}.{each.name}": (len(rows),) for each in _saved(rows[0])})


def check_shapes(state: Mapping[str, AnyArray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise an error if an entry of the state is missing or has another shape."""
    for name, expected in shapes.items():
        shape = state[name].shape if name in state else None
        if shape != expected:
            raise InvalidArgument(f"state {name} has shape {shape}, but must have {expected}")


def check_layout(state: State, own: State, name: str, any_length: Collection[str] = ()) -> None:
    """Raise an error if a state has other arrays than a learner's own; the lengths of `any_length` may differ."""
    if state.keys() != own.keys():
        raise InvalidArgument(f"state has entries {sorted(state)}, but must have {sorted(own)} for {name}")
    for entry, array in own.items():
        given = np.asarray(state[entry])
        free = entry in any_length and given.ndim > 0
        same = given.shape[1:] == array.shape[1:] if free else given.shape == array.shape
        if not same or given.dtype != array.dtype:
            raise InvalidArgument(
                f"state {entry!r} of {name} is {given.dtype} of shape {given.shape}, "
                f"but must be {array.dtype} of shape {array.shape}"
            )


def _saved(row: Any) -> list[Field[Any]]:
    """The fields of a row that files hold."""
    return [each for each in fields(row) if "derived" not in each.metadata]


def _leaves(state: NamedTuple, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All rows of a state with their paths."""
    for name, part in state._asdict().items():
        if isinstance(part, list | np.ndarray):
            yield f"{prefix}{name}", part
        else:
            yield from _leaves(part, f"{prefix}{name}.")
