"""The soak study can fail: on memory that grows, and on too few samples to tell."""

from __future__ import annotations

from math import isnan

import pytest

pytest.importorskip("uvicorn")

from tools.studies.soak import GROWTH, Sample, memory_ratio


def samples(kilobytes_per_decision: float, n: int = 60) -> list[Sample]:
    return [Sample(60.0 * k, 40_000 * k, 100.0 + 40.0 * k * kilobytes_per_decision, 0, 0.0) for k in range(n)]


def test_the_check_of_memory_can_fail() -> None:
    """A leak of 20 bytes per decision over an hour is found; what fills up at first is not taken for one."""
    assert memory_ratio(samples(0.0)) == 1.0
    assert memory_ratio(samples(0.02)) > GROWTH
    filling = [row._replace(memory_megabytes=min(150.0, 100.0 + 25.0 * k)) for k, row in enumerate(samples(0.0))]
    assert memory_ratio(filling) == 1.0
    assert isnan(memory_ratio(samples(0.0, n=5))) and not memory_ratio(samples(0.0, n=5)) <= GROWTH
