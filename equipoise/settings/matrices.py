"""Checks of matrices with one offered action per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import LARGEST
from equipoise.types import Array

FLOAT64 = np.dtype(np.float64)


def as_matrix(matrix: Any, dim: int = 0, name: str = "context") -> Array:
    """Return a matrix with one offered action per row and at least `dim` columns, entries unchecked."""
    actions = matrix if type(matrix) is np.ndarray and matrix.dtype is FLOAT64 else as_numbers(matrix, name)
    if actions.ndim != 2 or len(actions) == 0:
        raise InvalidArgument(f"{name} has shape {actions.shape}, but must be a K x d matrix with K >= 1 rows")
    if actions.shape[1] < dim:
        raise InvalidArgument(f"{name} has {actions.shape[1]} columns, but must have at least dim = {dim}")
    return actions


def as_numbers(numbers: Any, name: str, what: str = "a K x d matrix of numbers") -> Array:
    """Return numbers as an array of floats."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"{name} is {numbers!r:.80}, but must be {what}")
    with np.errstate(over="ignore"):  # beyond the range of a float64: rejected later as infinite
        return array.astype(np.float64)


def check_entries(numbers: Array, name: str = "context") -> None:
    """Raise an error if an entry is not finite or is too large in magnitude."""
    # One sum of squares covers all entries, nan and infinities included (vdot does not warn when it overflows); only if
    # it is out of range is the largest entry computed.
    if not np.vdot(numbers, numbers) <= LARGEST:
        worst = float(np.abs(numbers).max())
        if not worst <= LARGEST:
            raise InvalidArgument(f"{name} has an entry {worst!r}, but entries must be finite and at most {LARGEST:g}")
