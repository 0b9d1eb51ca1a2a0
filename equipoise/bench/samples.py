"""Figures of the benchmark as plain data: medians with the range they come from."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any


def summary(values: Iterable[float]) -> dict[str, Any]:
    """Median, range and number of measurements.

    >>> summary([3.0, 1.0, 2.0])
    {'median': 2.0, 'least': 1.0, 'greatest': 3.0, 'measurements': 3}
    """
    numbers = list(values)
    return {
        "median": median(numbers),
        "least": min(numbers),
        "greatest": max(numbers),
        "measurements": len(numbers),
    }


def figure(group: str, name: str, unit: str, values: Iterable[float]) -> dict[str, Any]:
    """One line of the table of figures."""
    return {"group": group, "name": name, "unit": unit, **summary(values)}
