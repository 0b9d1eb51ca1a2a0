"""A forecast of the next elimination at the current mean rewards.

Mean rewards and shares of plays are assumed to stay constant. Radii and bounds per play then decrease with the number
of rounds, and the first active learner whose upper mean falls below the highest lower mean is the next to be
eliminated. This is an extrapolation without a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from equipoise.bounds import Bound, Observed
from equipoise.certificates import Outlook, Standing
from equipoise.confidence import Radius, lower_sum, upper_sum

MAX_ROUNDS = 2**40  # limit of the forecast


def next_elimination(
    rows: Sequence[Standing], bounds: Sequence[Bound], radii: Sequence[Radius], spreads: Sequence[float], width: float
) -> Outlook | None:
    """The next elimination at the current means; None if there is none within `MAX_ROUNDS` rounds.

    A stated bound is evaluated at the future number of plays; an observed bound is assumed to grow like the square root
    of the plays, the `spreads` of the rewards like the plays.
    """
    known = [row for row in rows if row.active and row.plays > row.pending]
    if len(known) < 2:
        return None
    resolved = {row.learner: row.plays - row.pending for row in known}
    rounds = sum(row.plays for row in rows if row.active)

    def eliminated_after(extra: int) -> tuple[int, int] | None:
        """The learner that would be eliminated after `extra` more rounds, and the witness."""
        factor = (rounds + extra) / rounds
        plays = {i: max(1, round(n * factor)) for i, n in resolved.items()}
        spread = {i: spreads[i] * n / resolved[i] for i, n in plays.items()}
        lowers = {
            row.learner: row.mean_reward - lower_sum(radii[row.learner], n, spread[row.learner]) / n
            for row, n in zip(known, plays.values(), strict=True)
        }
        witness = max(known, key=lambda row: lowers[row.learner])
        lower = lowers[witness.learner]
        for row in known:
            n = plays[row.learner]
            bound = _bound_after(bounds[row.learner], row, resolved[row.learner], n, width)
            if row.mean_reward + (bound + upper_sum(radii[row.learner], n, spread[row.learner], bound)) / n < lower:
                return row.learner, witness.learner
        return None

    extra = first_true(lambda more: eliminated_after(more) is not None)
    found = None if extra is None else eliminated_after(extra)
    if extra is None or found is None:
        return None
    learner, witness = found
    plays = round(resolved[learner] * extra / rounds)
    return Outlook(learner, witness, extra, max(1, plays))


def _bound_after(bound: Bound, row: Standing, resolved: int, plays: int, width: float) -> float:
    if isinstance(bound, Observed):
        return row.mean_bound * resolved * sqrt(plays / resolved)
    return min(float(bound.raw(plays)), width * plays)


def first_true(holds: Callable[[int], bool], most: int = MAX_ROUNDS) -> int | None:
    """The smallest number for which a monotone condition holds; None if it is above `most`."""
    high = 1
    while not holds(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
