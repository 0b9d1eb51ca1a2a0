"""Plain data as JSON: arrays as lists, numbers that JSON does not have as null."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The value with arrays, tuples and NumPy numbers as plain ones, and nan and infinities as None."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):  # half of a surrogate pair, which messages of errors may have, is no text
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return plain(str(value))


def known(number: float) -> float | None:
    """A number, or None if it is unknown (nan)."""
    return number if number == number else None
