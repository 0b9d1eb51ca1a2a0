"""Comparing the states of learners and selectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equipoise.testing.checks import require
from equipoise.types import AnyArray, State


def require_plain(state: Mapping[str, object]) -> None:
    for name, array in state.items():
        plain = isinstance(array, np.ndarray) and not array.dtype.hasobject
        require(plain, f"state {name!r} is {type(array).__name__}, not an array of numbers")


def require_same_arrays(expected: State, seen: State, when: str) -> None:
    require(expected.keys() == seen.keys(), f"state {when} has {sorted(seen)}, not {sorted(expected)}")
    for name, array in expected.items():
        finding = first_difference(array, seen[name])
        require(not finding, f"state {name!r} {when} has {finding}")


def first_difference(expected: AnyArray, seen: AnyArray) -> str:
    """Where two arrays first differ; empty if they are equal."""
    if expected.dtype != seen.dtype or expected.shape != seen.shape:
        return f"{seen.dtype} of shape {seen.shape}, not {expected.dtype} of shape {expected.shape}"
    differs = (expected != seen) & ~((expected != expected) & (seen != seen))
    if not differs.any():
        return ""
    place = tuple(int(index[0]) for index in np.nonzero(differs))
    return f"{seen[place]!r} at {list(place)}, not {expected[place]!r} ({int(differs.sum())} of {differs.size} differ)"
