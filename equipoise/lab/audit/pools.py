"""Pools of scheduled learners: the five families of candidate bounds, with and without a gap, with known regret.

Learner 0 is misspecified and claims f with the smallest coefficient. With a gap it loses the gap in every play; without
one its regret has the order of its bound and is twice as large (for n^(1/3) it is 3 n^(1/2), which no test on
rewards can detect). Learners 1 and 2 lose as much as they claim, the second three times as much as the first.
"""

from __future__ import annotations

from typing import NamedTuple

from equipoise.bounds import Bound
from equipoise.learners import Scheduled
from equipoise.problems import GapBandit
from equipoise.selectors import BalancedElimination

LOSS, GAP = 0.4, 0.8  # what a poor action costs, without and with a gap
SLOPE = 0.02  # eps of the family eps n + sqrt(n)
BOUND_DELTA = 0.05


class Family(NamedTuple):
    """f as the settings of `Scheduled`, and the regret of a misspecified learner without a gap."""

    kind: str
    coefficient: float
    shape: float
    erring: tuple[str, float, float]


FAMILIES = {
    "n^(1/3)": Family("power", 1.0, 1 / 3, ("power", 3.0, 1 / 2)),
    "n^(1/2)": Family("power", 1.0, 1 / 2, ("power", 2.0, 1 / 2)),
    "n^(2/3)": Family("power", 0.5, 2 / 3, ("power", 1.0, 2 / 3)),
    "sqrt(n ln n)": Family("sqrt-log", 0.5, BOUND_DELTA, ("sqrt-log", 1.0, BOUND_DELTA)),
    "eps n + sqrt(n)": Family("linear-sqrt", 1.0, SLOPE, ("linear-sqrt", 2.0, SLOPE)),
}


class Pool(NamedTuple):
    """One pool; fresh objects."""

    problem: GapBandit
    learners: tuple[Scheduled, ...]
    selector: BalancedElimination
    declared: tuple[bool, ...]
    gaps: tuple[float | None, ...] | None


def make_pool(family: str, *, gap: bool, radius_scale: float = 1.0, delta: float = 0.05) -> Pool:
    """A pool of a family."""
    kind, coefficient, shape, erring = FAMILIES[family]
    linear, loss = kind == "linear-sqrt", GAP if gap else LOSS
    claims = Scheduled(kind, coefficient, shape / 2 if linear else shape)
    first = Scheduled("power", GAP, 1.0, gap=GAP, name="misspecified") if gap else Scheduled(*erring, gap=LOSS)
    second = Scheduled(kind, coefficient, shape, gap=loss)
    # The coefficient of sqrt(n) is common to the bounds eps_i n + C sqrt(n): there only the slopes differ.
    third = Scheduled(kind, *((coefficient, 3 * shape) if linear else (3 * coefficient, shape)), gap=loss)
    bounds: list[Bound] = [claims.bound(), second.bound(), third.bound()]
    return Pool(
        GapBandit(gap=loss, poor=loss),
        (first, second, third),
        BalancedElimination(bounds, delta=delta, radius_scale=radius_scale),
        (False, True, True),
        (GAP, None, None) if gap and not linear else None,
    )
