"""From how many rounds on a proved regret bound says anything: the first T at which it is below w T, the regret that
nobody exceeds.

All bounds are evaluated in one reference setting, so that selectors can be compared: five learners, rewards in [0, 1],
delta = 0.05, one learner whose regret is at most sqrt(n), four whose bounds are false. The bound of `RealizedBalancing`
is corollary A of docs/realized-balancing.md; that of `CounterfactualBalancing` is the same for all experts, each
learner having a twin. That of `D3RB` is proved in `doubling`. `DynamicBalancing` with scales 1 and biases 0 has the
bound of Algorithm 1: its proof uses that the learner whose bound holds is never left out, that a learner plays only
after it has passed the test, and balancing among those that passed, but not that others are left out for good. No
explicit constants are known to us for `ED2RB`, whose publication states its bound up to constants.
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.bounds import Power
from equipoise.confidence import radius_sum
from equipoise.selectors import BalancedElimination, CounterfactualBalancing
from equipoise.selectors._core.outlook import first_true
from equipoise.selectors.counterfactual_balancing import MARGIN
from equipoise.theory.doubling import doubling_regret
from equipoise.theory.guarantees import power_guarantee
from equipoise.theory.realized import balanced_regret

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
    """Corollary A of docs/realized-balancing.md at the default settings."""
    return balanced_regret(rounds, N_LEARNERS, COEFFICIENT)


def counterfactual_balancing(rounds: int) -> float:
    """The theorem of docs/counterfactual-balancing.md at the default settings, with a twin of every learner."""
    slack = CounterfactualBalancing(N_LEARNERS).slack
    return balanced_regret(rounds, 2 * N_LEARNERS, COEFFICIENT, slack=slack, margin=MARGIN)


def d3rb(rounds: int) -> float:
    """The bound of `doubling` at the default settings."""
    return doubling_regret(rounds, N_LEARNERS, COEFFICIENT)
