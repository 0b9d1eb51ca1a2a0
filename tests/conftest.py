"""Settings that all tests share."""

import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples on every run, so that a failure is never a matter of luck; and no deadline per example, because
# a busy machine is no fault of the code.
settings.register_profile("equipoise", derandomize=True, deadline=None)
settings.load_profile("equipoise")

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"

LONGEST, MARKS = "test_recorded_bits.py", ("compiled", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest file goes first, then those with most tests that compile, then those with most that compute for
    long, so that at the end no process is left alone with one of them; and without the compiler, statistics of
    millions of rounds would take days."""
    compiled, slow = (Counter(item.path for item in items if item.get_closest_marker(mark)) for mark in MARKS)
    items.sort(key=lambda item: (item.path.name != LONGEST, -compiled[item.path], -slow[item.path]))
    if INTERPRETED:
        for item in items:
            if item.get_closest_marker("statistical") and item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="millions of rounds: needs the compiler"))


LOGGERS = ("", "equipoise", "equipoise.serve", "uvicorn.error")


@pytest.fixture(autouse=True)
def leave_logging_as_it_was() -> Iterator[None]:
    """Restore handlers and levels: studies switch warnings off, and `serve` replaces the handlers of the root."""
    disabled = logging.root.manager.disable
    loggers = [(logger, logger.level, logger.handlers[:]) for logger in map(logging.getLogger, LOGGERS)]
    yield
    logging.disable(disabled)
    for logger, level, handlers in loggers:
        logger.setLevel(level)
        logger.handlers[:] = handlers
