"""The radius of a learner from a record, and the shares of delta of learners that were added later.

The j-th learner that is added later, j = 0, 1, ..., spends delta/((j + 1)(j + 2)) in addition to delta, which the M
learners of the start share with the pool: all that are ever added spend at most delta together. Learners keep their
index, so that those from M on are the late ones. A record states how many there were, `n_late`.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.confidence import Radius, make_radius
from equipoise.types import Plain


def late_share(delta: float, j: int) -> float:
    """What the j-th learner that is added later, from 0, spends in addition to delta."""
    return delta / ((j + 1) * (j + 2))


def radius_of(record: Mapping[str, Plain], index: int, *, separate_lower: bool) -> Radius:
    """The radius of a learner with the settings of a record."""
    n_learners, delta = record["n_learners"], record["delta"]
    if index >= n_learners:  # the radius that M learners and the pool would have if each of them had this share
        delta = late_share(delta, index - n_learners) * (n_learners + 1)
    low, high = record["reward_range"]
    return make_radius(
        record["radius"],
        n_learners=n_learners,
        delta=delta,
        width=high - low,
        noise=record["noise"],
        contexts=record["contexts"],
        scale=record["radius_scale"],
        separate_lower=separate_lower,
        extra_events=int(record.get("same_round", False)),
        version=record.get("radius_version", 1),
    )


def total_delta(record: Mapping[str, Plain]) -> float:
    """What the statements about all learners spend, late ones included."""
    delta: float = record["delta"]
    return delta + sum(late_share(delta, j) for j in range(record.get("n_late", 0)))
