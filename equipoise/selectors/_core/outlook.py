"""When the next elimination would come, if nothing changed but the number of plays.

Present mean rewards and present shares of plays are taken to stay as they are while the rounds go on. Radii per play
and bounds per play then shrink, and the first active learner whose upper mean falls below the greatest lower mean is
the next to go. It is no promise: it tells how far the evidence is from a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from equipoise.bounds import Bound, Observed
from equipoise.certificates import Outlook, Standing
from equipoise.confidence import Radius, radius_sum

FARTHEST = 2**40  # rounds; nobody waits longer


def next_elimination(rows: Sequence[Standing], bounds: Sequence[Bound], radius: Radius, width: float) -> Outlook | None:
    """The next elimination at the present means; None if there is none within `FARTHEST` rounds.

    A bound c n^beta goes on as it is stated; what a learner observes of itself is taken to grow as the root of its
    plays.
    """
    known = [row for row in rows if row.active and row.plays > row.pending]
    if len(known) < 2:
        return None
    resolved = {row.learner: row.plays - row.pending for row in known}
    rounds = sum(row.plays for row in rows if row.active)

    def verdict(extra: int) -> tuple[int, int] | None:
        """Who would be dropped after so many rounds more, and the witness."""
        factor = (rounds + extra) / rounds
        plays = {i: max(1, round(n * factor)) for i, n in resolved.items()}
        witness = max(
            known, key=lambda row: row.mean_reward - radius_sum(radius, plays[row.learner]) / plays[row.learner]
        )
        lower = witness.mean_reward - radius_sum(radius, plays[witness.learner]) / plays[witness.learner]
        for row in known:
            n = plays[row.learner]
            bound = _bound_after(bounds[row.learner], row, resolved[row.learner], n, width)
            if row.mean_reward + (bound + radius_sum(radius, n)) / n < lower:
                return row.learner, witness.learner
        return None

    extra = _first(lambda more: verdict(more) is not None)
    found = None if extra is None else verdict(extra)
    if extra is None or found is None:
        return None
    learner, witness = found
    plays = round(resolved[learner] * extra / rounds)
    return Outlook(learner, witness, extra, max(1, plays))


def _bound_after(bound: Bound, row: Standing, resolved: int, plays: int, width: float) -> float:
    if isinstance(bound, Observed):
        return row.mean_bound * resolved * sqrt(plays / resolved)
    return min(float(bound.raw(plays)), width * plays)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The least number at which something holds that goes on holding; None if it does not by `FARTHEST`."""
    high = 1
    while not holds(high):
        high *= 2
        if high > FARTHEST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
