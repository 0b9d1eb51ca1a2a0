"""Settings that all tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run, so that a failure is never a matter of luck; and no deadline per example, because
# a busy machine is no fault of the code.
settings.register_profile("equipoise", derandomize=True, deadline=None)
settings.load_profile("equipoise")

# All test processes, of this run and the next, find each other's compiled drivers here.
os.environ.setdefault("EQUIPOISE_CACHE", str(Path(__file__).resolve().parents[1] / "build" / "drivers"))

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the compiler, statistics of millions of rounds would take days."""
    if INTERPRETED:
        for item in items:
            if item.get_closest_marker("statistical") and item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="millions of rounds: needs the compiler"))
