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

    name: str = "full"
    repeats: int = 5
    passes: int = 5  # measurements per seed of what takes milliseconds
    shapes: tuple[Shape, ...] = (Shape(8, 10, 10_000), Shape(32, 20, 4_000), Shape(64, 100, 1_000))
    map_rounds: int = 10_000  # of the contest in selection
    run_rounds: int = 1_000_000  # of a whole run
    horizons: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    learner_counts: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    episodes: tuple[int, ...] = (1_000, 10_000)  # after which the time of one is measured
    step_rounds: int = 4_000  # of a portfolio step by step
    timeout: float = 1800.0  # seconds for one library


FULL = Scale()
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
