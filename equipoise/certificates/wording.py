"""How numbers are worded in statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, isfinite, log10

SIGNIFICANT = 4  # digits of a stated number


def confidence_text(failure: float) -> str:
    """1 - `failure`, never rounded up, with as many digits as it takes to tell it from 1.

    >>> confidence_text(0.05), confidence_text(1 / 3), confidence_text(2e-5), confidence_text(1e-12)
    ('0.95', '0.6666', '0.99998', '1 − 1e-12')
    """
    if failure < 1e-6:
        return f"1 − {failure:.4g}"
    if failure > 0.999:
        return at_least(1.0 - failure)
    places = max(4, ceil(-log10(failure)))
    # Binary fractions such as 0.95 are a little off: what is within a billionth of the next digit counts as that digit.
    return f"{floor((1.0 - failure) * 10**places + 1e-9 * 10**places) / 10**places:.{places}f}".rstrip("0")


def with_confidence(failure: float) -> str:
    """
    >>> with_confidence(0.05), with_confidence(1.08)
    ('with confidence 0.95', 'without confidence (failure probabilities add up to 1.08)')
    """
    if failure < 1.0:
        return f"with confidence {confidence_text(failure)}"
    return f"without confidence (failure probabilities add up to {failure:.4g})"


def at_least(bound: float) -> str:
    """A lower bound, never rounded up.

    >>> at_least(0.12348), at_least(-0.12341), at_least(0.25)
    ('0.1234', '-0.1235', '0.25')
    """
    return f"{_rounded(bound, floor):.{SIGNIFICANT}g}"


def at_most(bound: float) -> str:
    """An upper bound, never rounded down.

    >>> at_most(0.12341), at_most(-0.12348), at_most(0.25)
    ('0.1235', '-0.1234', '0.25')
    """
    return f"{_rounded(bound, ceil):.{SIGNIFICANT}g}"


def total_at_least(total: float) -> str:
    """
    >>> total_at_least(1234.9), total_at_least(12.349)
    ('1,234', '12.34')
    """
    return f"{_rounded(total, floor, 0):,.0f}" if total >= 1000.0 else at_least(total)


def total_at_most(total: float) -> str:
    """
    >>> total_at_most(1234.1), total_at_most(12.341)
    ('1,235', '12.35')
    """
    return f"{_rounded(total, ceil, 0):,.0f}" if total >= 1000.0 else at_most(total)


def told_apart(upper: float, lower: float) -> tuple[str, str]:
    """An upper bound that is below a lower one, with as many digits as it takes to see that.

    >>> told_apart(0.45694, 0.45751), told_apart(0.45694, 0.45698)
    (('0.4570', '0.4575'), ('0.45694', '0.45698'))
    """
    for places in range(4, 17):
        most, least = _rounded(upper, ceil, places), _rounded(lower, floor, places)
        if most < least:
            return f"{most:.{places}f}", f"{least:.{places}f}"
    return repr(upper), repr(lower)


def _rounded(value: float, direction: Callable[[float], int], places: int | None = None) -> float:
    """The value rounded up or down to decimal places, by default to the significant digits."""
    if value == 0.0 or not isfinite(value):
        return value + 0.0  # no negative zero
    if places is None:
        places = min(300, SIGNIFICANT - 1 - floor(log10(abs(value))))
    scaled = value * 10.0**places
    # As above, what is within a billionth of a digit counts as that digit.
    whole = round(scaled) if abs(scaled - round(scaled)) < 1e-9 * max(1.0, abs(scaled)) else direction(scaled)
    return whole / 10.0**places + 0.0


def about(rewards: str) -> str:
    """The sentence that ends a statement about rewards which a portfolio has changed."""
    return f" This is about {rewards}." if rewards else ""


def name_of(learner: int, names: Sequence[str] | None) -> str:
    return f"learner {learner}" if names is None else names[learner]


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "round"), counted(2000, "more play")
    ('1 round', '2,000 more plays')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def law_clause(since: int, refuted_at: int, refuted: str) -> str:
    """Since which round one law is assumed, and the null hypothesis `refuted` in round `refuted_at`; 0 if none was.

    >>> law_clause(1, 0, ""), law_clause(91, 90, "one law, or that UCB keeps its bound")[45:]
    ('', 'In round 90 the rewards refuted one law, or that UCB keeps its bound.')
    """
    if not refuted_at:
        ended = f"round {since - 1:,}, after which the deadline or the default reward changed"
        return f" No round up to {ended}, counts in this." if since > 1 else ""
    found = f"In round {refuted_at:,} the rewards refuted {refuted or 'one law for all rounds'}"
    advice = "" if since > refuted_at else ": do not rely on it"
    return f" All of this assumes one law since round {since:,}. {found}{advice}."
