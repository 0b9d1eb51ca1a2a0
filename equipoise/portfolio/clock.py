"""A clock for deadlines: no setting of the system's clock moves it, ahead or back."""

from __future__ import annotations

import time
from math import inf


class Clock:
    """Seconds since 1970, read once from the system's clock and then measured by a steady one.

    It never shows a time before one that it was told: a time that the system's clock showed while it was ahead, in an
    earlier process say, is where it goes on. Otherwise deadlines would wait until the system's clock got there again.
    """

    def __init__(self, at_least: float = -inf) -> None:
        self._offset = max(time.time(), at_least) - steady()

    def now(self, at_least: float = -inf) -> float:
        """The time, not before `at_least`."""
        passed = steady()
        if self._offset + passed < at_least:
            self._offset = at_least - passed
        return self._offset + passed


def steady() -> float:
    """Seconds that pass, whatever the system's clock is set to."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # goes on while the machine sleeps
    return time.monotonic() if boot is None else time.clock_gettime(boot)
