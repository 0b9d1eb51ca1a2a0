"""How long decisions take, from the counts of the service's measurements."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from equipoise.serve.metrics import SECONDS, Metrics

N_BUCKETS = len(SECONDS) + 1
FAMILY, OPERATION = "equipoise_request_seconds", "decide"


def request_counts(metrics: Metrics) -> list[float]:
    """Totals of the decisions that took at most as long as each bucket says, and longer than the one before."""
    totals = [
        sample.value
        for family in metrics.registry.collect()
        if family.name == FAMILY
        for sample in family.samples
        if sample.name == f"{FAMILY}_bucket" and sample.labels["operation"] == OPERATION
    ]
    if len(totals) != N_BUCKETS:
        return [0.0] * N_BUCKETS
    return [total - before for before, total in zip([0.0, *totals], totals, strict=False)]


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
