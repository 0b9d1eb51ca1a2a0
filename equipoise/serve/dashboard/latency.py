"""How long decisions take, from the counts of the service's measurements."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from equipoise.serve.metrics import SECONDS

N_BUCKETS = len(SECONDS) + 1


def quantile(q: float, counts: Sequence[float]) -> float:
    """The time in seconds that a share q of the requests did not exceed, interpolated within its bucket.

    >>> quantile(0.5, [0.0] * 4 + [10.0] + [0.0] * 7)
    0.0075
    """
    rank, below = q * sum(counts), 0.0
    if not rank:
        return nan
    for k, count in enumerate(counts[:-1]):
        if below + count >= rank:
            low = SECONDS[k - 1] if k else 0.0
            return low + (SECONDS[k] - low) * (rank - below) / count
        below += count
    return SECONDS[-1]
