"""The time of a portfolio: a clock that never goes backwards, whatever the system's clock is set to."""

from __future__ import annotations

import time
from math import inf

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import real

MAX_TIME = 1e11  # seconds, so that a time in milliseconds is refused; later calls could not correct it


class Clock:
    """Seconds since 1970, read once from the system's clock and then measured by a steady one.

    It never shows a time before one that it was given. If the system's clock was ahead in an earlier process, the clock
    continues from there; otherwise deadlines would wait until the system's clock reached that time again.
    """

    def __init__(self, at_least: float = -inf) -> None:
        self._offset = max(time.time(), at_least) - steady()

    def now(self, at_least: float = -inf) -> float:
        """Return the time, not before `at_least`."""
        passed = steady()
        if self._offset + passed < at_least:
            self._offset = at_least - passed
        return self._offset + passed


_BOOT = getattr(time, "CLOCK_BOOTTIME", None)  # it counts while the machine sleeps, too


def steady() -> float:
    """Return seconds that pass, whatever the system's clock is set to."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def check_time(at: float) -> float:
    """Return the time of a call, in seconds."""
    if type(at) is float and -MAX_TIME <= at <= MAX_TIME:  # fast path; nan does not pass
        return at
    moment = real("at", at)
    if abs(moment) > MAX_TIME:
        raise InvalidArgument(f"at is {at!r}, but must be in seconds, of magnitude at most {MAX_TIME:g}")
    return moment
