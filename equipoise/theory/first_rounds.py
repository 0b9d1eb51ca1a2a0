"""Explicit regret bounds of other selectors, and from how many rounds on a bound says anything.

`first_rounds` finds the first T at which a proved bound is below w T, the regret that nothing exceeds. All bounds are
evaluated in one reference setting, so that selectors can be compared: five learners, rewards in [0, 1], delta = 0.05,
one learner whose regret is at most sqrt(n), four whose bounds are false. `RealizedBalancing` has the bound of corollary
A of docs/realized-balancing.md, and `CounterfactualBalancing` the same for all experts, each learner having a greedy
expert. `DynamicBalancing` with scales 1 and biases 0 has the bound of Algorithm 1: its proof uses that the learner
whose bound holds is never left out, that a learner plays only after it has passed the test, and balancing among those
that passed, but not that others are left out for good. No explicit constants are known to us for `ED2RB`, whose
publication states its bound up to constants.

docs/theory-notes.md has the proof of the bound of D3RB, which is for prompt rewards and has all constants.

Reference: docs/realized-balancing.md, corollary A. Pacchiano, Dann and Gentile (2023), "Data-driven online model
selection with regret guarantees" (D3RB).
Symbols of corollary A: M n_learners, T rounds, d coefficient, w width, kappa slack, rho floor, c TOLERANCE, B margin, b
the largest D(n)/(w sqrt(n)) over n <= T.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, sqrt

from equipoise.bounds import Power
from equipoise.confidence import radius_sum, stitched
from equipoise.errors import InvalidArgument
from equipoise.selectors import D3RB, BalancedElimination, CounterfactualBalancing
from equipoise.selectors._core.outlook import first_true
from equipoise.selectors.counterfactual_balancing import MARGIN
from equipoise.selectors.realized_balancing import NEGLECT, TOLERANCE, RealizedBalancing
from equipoise.settings.checks import count, non_negative
from equipoise.theory.guarantees import power_guarantee, rooted_radius

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
    radius = rooted_radius(selector.confidence.radius, rounds)
    return power_guarantee([COEFFICIENT] * N_LEARNERS, 0.5, well_specified, rounds=rounds, radius=radius)


def realized_balancing(rounds: int) -> float:
    """Corollary A of docs/realized-balancing.md at the default settings."""
    return balanced_regret(rounds, N_LEARNERS, COEFFICIENT)


def counterfactual_balancing(rounds: int) -> float:
    """The theorem of docs/counterfactual-balancing.md at the default settings; every learner has a greedy expert.

    It presumes the regret of a learner over the rounds drawn for it, and says nothing about greedy experts' own regret.
    """
    slack = CounterfactualBalancing(N_LEARNERS).slack
    return balanced_regret(rounds, 2 * N_LEARNERS, COEFFICIENT, slack=slack, margin=MARGIN)


def d3rb(rounds: int) -> float:
    """Return `doubling_regret` at the default settings."""
    return doubling_regret(rounds, N_LEARNERS, COEFFICIENT)


def balanced_regret(
    rounds: int,
    n_learners: int,
    coefficient: float,
    *,
    slack: float = 8.0,
    margin: float = NEGLECT,
) -> float:
    """Upper bound on the regret if one learner has regret at most d sqrt(n) after n plays, for all n: corollary A.

    Rewards lie in [0, 1], contexts are random, there are no candidate bounds, and all learners can be chosen in all
    rounds: none joins, is suspended or removed. Other settings are the default ones. Raises an error if d + b > c, for
    then a may exceed c at some number of plays, and corollary A does not apply.

    >>> round(balanced_regret(100_000, 5, 1.0) / 100_000, 2)
    0.58
    """
    n, m, d = count("rounds", rounds), count("n_learners", n_learners), non_negative("coefficient", coefficient)
    selector = RealizedBalancing(m)
    b = rooted_radius(selector.confidence.radius, n) / sqrt(n)
    if d + b > TOLERANCE:
        raise InvalidArgument(
            f"coefficient is {coefficient!r}, but must be at most {TOLERANCE - b:.3g} for {n_learners} learners "
            f"and {rounds} rounds"
        )
    assert TOLERANCE + b <= margin  # which the proof needs of D_lo <= D
    others = (m - 1) * (1.0 + slack * selector.floor * sqrt(n)) + (margin + TOLERANCE + b) * sqrt((m - 1) * n)
    return d * sqrt(n) + others


def doubling_regret(rounds: int, n_learners: int, coefficient: float, *, d_min: float = 1.0) -> float:
    """The bound of D3RB if one of its learners has regret at most `coefficient` sqrt(n); rewards in [0, 1].

    It holds with probability 0.95, the default of `D3RB`, for all rounds at once.

    >>> round(doubling_regret(10_000, 5, 1.0))
    7018
    """
    selector = D3RB(n_learners, d_min=d_min)
    radius = stitched(selector.confidence.radius.variance, selector.confidence.alpha / 2, 1.0)
    growth, root, others = radius_sum(radius, rounds) / sqrt(rounds), sqrt(rounds), n_learners - 1
    d = max(coefficient, d_min)
    balanced = d * root + others * 2 * sqrt(2) * d * root
    tested = sqrt(others) * root * (2 * growth + 2 * sqrt(2) * d / d_min * (d + 2 * growth))
    return balanced + tested + others * (1 + log2(4 * d * root / d_min))
