"""Rows of state that are objects in plain Python and records of one array in compiled code.

Kernels read and write `rows[i].field`, which works on a list of slotted dataclass objects (the fastest thing to touch
one by one in Python) and on a structured array alike (one pointer in machine code, where a tuple of twenty arrays would
cost more than the arithmetic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument

_CODES = {"int": "i8", "float": "f8", "bool": "?"}


def as_records(rows: Sequence[Any]) -> NDArray[Any]:
    """A structured array with the contents of the rows, all of one dataclass with int, float and bool fields."""
    columns = fields(rows[0])
    dtype = np.dtype([(field.name, _CODES[str(field.type)]) for field in columns])
    records = np.array([tuple(getattr(row, field.name) for field in columns) for row in rows], dtype)
    return records.view(np.recarray)  # whose rows have their fields as attributes in plain Python too


def take_records(rows: Sequence[Any], records: NDArray[Any]) -> None:
    """Copy the contents of a structured array into the rows."""
    for row, record in zip(rows, records.tolist(), strict=True):
        for field, value in zip(fields(row), record, strict=True):
            setattr(row, field.name, value)


def as_columns(prefix: str, rows: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """The rows as plain arrays, one per field, for saving."""
    records = as_records(rows)
    return {f"{prefix}.{name}": records[name].copy() for name in records.dtype.names or ()}


def take_columns(prefix: str, rows: Sequence[Any], columns: Mapping[str, NDArray[Any]]) -> None:
    """Take on what `as_columns` returned and `check_columns` has passed."""
    for field in fields(rows[0]):
        for row, value in zip(rows, columns[f"{prefix}.{field.name}"].tolist(), strict=True):
            setattr(row, field.name, value)


def check_columns(prefix: str, rows: Sequence[Any], columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse columns that `as_columns` cannot have made of these rows."""
    check_shapes(columns, {f"{prefix}.{field.name}": (len(rows),) for field in fields(rows[0])})


def check_shapes(state: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a state that lacks one of these entries or has it in another shape."""
    for name, expected in shapes.items():
        shape = state[name].shape if name in state else None
        if shape != expected:
            raise InvalidArgument(f"state {name} has shape {shape}, but must have {expected}")
