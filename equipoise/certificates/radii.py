"""The radius of a learner from a record, and what each learner spends of the failure probability delta.

The M learners of the start spend delta M/(M + 1) together, the pool of all rounds the rest. Each learner spends the
same, or its part of the weights that a record states as `delta_weights`. The j-th learner that is added later, j = 0,
1, ..., spends delta/((j + 1)(j + 2)) in addition: all that are ever added spend at most delta together. Learners keep
their index, so that those from M on are the late ones. A record states how many there were, `n_late`. A selector that
plays a learner in several ways has that many accounts for it, stated as `accounts`: M counts those of the start, and a
late learner divides its share among its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from equipoise.confidence import Radius, make_radius
from equipoise.types import Plain


def late_share(delta: float, j: int) -> float:
    """What the j-th learner that is added later, from 0, spends in addition to delta."""
    return delta / ((j + 1) * (j + 2))


def start_share(delta: float, weights: Sequence[float], i: int) -> float:
    """What learner i of the start spends; the weights of all need not add up to 1.

    >>> [round(start_share(0.06, [2, 1], i), 9) for i in range(2)]  # and the pool of all rounds 0.02
    [0.026666667, 0.013333333]
    """
    return delta * len(weights) / (len(weights) + 1) * (weights[i] / fsum(weights))


def radius_of(record: Mapping[str, Plain], index: int, *, separate_lower: bool) -> Radius:
    """The radius of a learner with the settings of a record."""
    n_learners, delta, weights = start_accounts(record), record["delta"], record.get("delta_weights")
    late, accounts = index - record["n_learners"], record.get("accounts")
    # The radius that M learners and the pool would have if each of them had this share.
    if late >= 0:
        delta = late_share(delta, late) * (n_learners + 1) / (1 if accounts is None else accounts[index])
    elif weights is not None:
        delta = start_share(delta, weights, index) * (n_learners + 1)
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


def start_accounts(record: Mapping[str, Plain]) -> int:
    """The number of accounts that share delta: one for each learner of the start, unless the record states more."""
    accounts, n_learners = record.get("accounts"), int(record["n_learners"])
    return n_learners if accounts is None else int(sum(accounts[:n_learners]))


def total_delta(record: Mapping[str, Plain]) -> float:
    """What the statements about all learners spend, late ones included."""
    delta: float = record["delta"]
    return delta + sum(late_share(delta, j) for j in range(record.get("n_late", 0)))
