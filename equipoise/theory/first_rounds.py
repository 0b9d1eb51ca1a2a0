"""From how many rounds on a proved regret bound says anything: the first T at which it is below w T, the regret that
nobody exceeds.

All bounds are evaluated in one reference setting, so that selectors can be compared: five learners, rewards in [0, 1],
delta = 0.05, one learner whose regret is at most sqrt(n), four whose bounds are false. The bound of `RealizedBalancing`
is that of docs/realized-balancing.md, with rewards that vary like fair coins (u = w).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from equipoise.bounds import Power
from equipoise.confidence import radius_sum
from equipoise.selectors import BalancedElimination, RealizedBalancing
from equipoise.selectors._core.outlook import first_true
from equipoise.theory.guarantees import power_guarantee

N_LEARNERS, COEFFICIENT = 5, 1.0
MAX_ROUNDS = 10**15


def first_rounds(bound: Callable[[int], float], width: float = 1.0) -> int | None:
    """The smallest T from which on bound(T) < w T, for a bound that grows more slowly than T; None above MAX_ROUNDS.

    >>> first_rounds(lambda rounds: 10 * rounds**0.5)
    101
    """
    return first_true(lambda rounds: bound(rounds) < width * rounds, MAX_ROUNDS)


def balanced_elimination(rounds: int) -> float:
    """The closed form of Algorithm 1."""
    selector = BalancedElimination([Power(COEFFICIENT)] * N_LEARNERS)
    well_specified = [False] * (N_LEARNERS - 1) + [True]
    radius = radius_sum(selector.confidence.radius, rounds)
    return power_guarantee([COEFFICIENT] * N_LEARNERS, 0.5, well_specified, rounds=rounds, radius=radius)


def realized_balancing(rounds: int) -> float:
    """The corollary of docs/realized-balancing.md at the default settings, w = u = 1."""
    selector = RealizedBalancing(N_LEARNERS)
    b = radius_sum(selector.confidence.radius, rounds) / sqrt(rounds)
    a, others = COEFFICIENT + b, N_LEARNERS - 1
    m = max(1.0, a / selector.floor)
    admitted = others * (1 + selector.slack * max(selector.floor, a) * sqrt(rounds))
    return COEFFICIENT * sqrt(rounds) + admitted + ((a + b) * selector.slack * m + b) * sqrt(others * rounds)
