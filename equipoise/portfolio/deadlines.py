"""Deadlines and windows: how long a reward is waited for, in rounds or in seconds."""

from __future__ import annotations

import re
from datetime import timedelta

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import count, real

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LATEST = 1e11  # seconds, so that a time in milliseconds is refused; later calls could not correct it
DURATION = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([smhd])")


def check_deadline(deadline: int | timedelta | str) -> int | float:
    """A deadline as a whole number of rounds or as a float of seconds.

    >>> check_deadline(100), check_deadline("1.5h"), check_deadline(timedelta(days=1))
    (100, 5400.0, 86400.0)
    """
    if isinstance(deadline, timedelta):
        seconds = deadline.total_seconds()
    elif isinstance(deadline, str):
        match = DURATION.fullmatch(deadline.strip())
        if match is None:
            raise InvalidArgument(f"deadline is {deadline!r}, but a text must be a number and a unit, such as '24h'")
        seconds = float(match[1]) * UNITS[match[2]]
    else:
        return count("deadline", deadline)
    if not 0.0 < seconds <= 1e10:
        raise InvalidArgument(f"deadline is {deadline!r}, but must be positive and at most 1e10 seconds")
    return seconds


def deadline_to_plain(deadline: int | float | None) -> int | str | None:
    """A checked deadline as an argument from which `check_deadline` makes the same one."""
    return f"{deadline!r}s" if isinstance(deadline, float) else deadline


def check_time(at: float) -> float:
    """The time of a call, in seconds."""
    if type(at) is float and -LATEST <= at <= LATEST:  # nearly always; nan is not
        return at
    time = real("at", at)
    if abs(time) > LATEST:
        raise InvalidArgument(f"at is {at!r}, but must be in seconds, of magnitude at most {LATEST:g}")
    return time


def check_window(delays: str, window: int | None) -> int | None:
    """The window of exogenous delays; other delays have none."""
    if delays != "exogenous":
        if window is not None:
            raise InvalidArgument(f"window is {window!r} with delays {delays!r}, but needs delays 'exogenous'")
        return None
    if window is None:
        raise InvalidArgument("window is None with delays 'exogenous', but must be a number of rounds")
    return count("window", window)
