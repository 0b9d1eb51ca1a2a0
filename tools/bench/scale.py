"""How much is measured: everything, or just enough to see that the benchmark works."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """A size of the LinUCB problem."""

    dim: int
    n_actions: int
    rounds: int


class Scale(NamedTuple):
    """Every figure is the median of at least `repeats` measurements, each with a seed of its own."""

    name: str
    repeats: int
    passes: int  # measurements per seed of what takes milliseconds
    shapes: tuple[Shape, ...]
    map_rounds: int  # of the contest in selection
    run_rounds: int  # of a whole run
    horizons: tuple[int, ...]
    learner_counts: tuple[int, ...]
    episodes: tuple[int, ...]  # after which the time of one is measured
    step_rounds: int  # of a portfolio step by step
    timeout: float  # seconds for one library


FULL = Scale(
    name="full",
    repeats=5,
    passes=5,
    shapes=(Shape(8, 10, 10_000), Shape(32, 20, 4_000), Shape(64, 100, 1_000)),
    map_rounds=10_000,
    run_rounds=1_000_000,
    horizons=(100_000, 1_000_000, 10_000_000),
    learner_counts=(2, 4, 8, 16, 32, 64),
    episodes=(1_000, 10_000),
    step_rounds=4_000,
    timeout=1800.0,
)
QUICK = Scale(
    name="quick",
    repeats=1,
    passes=1,
    shapes=(Shape(8, 10, 50), Shape(32, 20, 20), Shape(64, 100, 10)),
    map_rounds=50,
    run_rounds=300,
    horizons=(100, 200),
    learner_counts=(2, 4),
    episodes=(10, 20),
    step_rounds=50,
    timeout=300.0,
)
