"""How numbers are worded in statements."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10


def confidence_text(failure: float) -> str:
    """1 - `failure`, never rounded up, with as many digits as it takes to tell it from 1.

    >>> confidence_text(0.05), confidence_text(1 / 3), confidence_text(2e-5), confidence_text(1e-12)
    ('0.95', '0.6666', '0.99998', '1 − 1e-12')
    """
    if failure < 1e-6:
        return f"1 − {failure:.4g}"
    places = max(4, ceil(-log10(failure)))
    # Binary fractions such as 0.95 are a little off: what is within a billionth of the next digit counts as that digit.
    return f"{floor((1.0 - failure) * 10**places + 1e-9 * 10**places) / 10**places:.{places}f}".rstrip("0")


def name_of(learner: int, names: Sequence[str] | None) -> str:
    return f"learner {learner}" if names is None else names[learner]


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "round"), counted(2000, "more play")
    ('1 round', '2,000 more plays')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def readable(total: float) -> str:
    return f"{total:,.0f}" if total >= 1000.0 else f"{total:.4g}"
