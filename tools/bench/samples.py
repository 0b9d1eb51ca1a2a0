"""Figures of the benchmark as plain data: medians with the range they come from."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import TypedDict


class Summary(TypedDict):
    """Of several measurements."""

    median: float
    least: float
    greatest: float
    measurements: int


class Figure(Summary):
    """One line of the table of figures."""

    group: str
    name: str
    unit: str


class Result(TypedDict):
    """Of a contender on problems of one size."""

    dim: int
    n_actions: int
    rounds: int
    micros: Summary  # microseconds per round
    regret: float  # average of a round
    regrets: list[float]  # the same of each run


class Line(TypedDict):
    """A contender; one that could not be measured has an error and no results."""

    name: str
    runs: str  # what was run
    version: str
    error: str
    results: list[Result]


class Machine(TypedDict):
    """What figures depend on beside the code."""

    date: str
    processor: str
    cores: int | None
    load: list[float] | None
    system: str
    versions: dict[str, str]


class Benchmark(TypedDict):
    """The content of `benchmarks.json`."""

    version: int
    scale: str
    machine: Machine
    seconds: int
    contest: list[Line]
    selection: list[Line]
    figures: list[Figure]


def summary(values: Iterable[float]) -> Summary:
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


def figure(group: str, name: str, unit: str, values: Iterable[float]) -> Figure:
    return {"group": group, "name": name, "unit": unit, **summary(values)}
