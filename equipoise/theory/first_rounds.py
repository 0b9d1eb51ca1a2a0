"""Explicit regret bounds of other selectors, and from how many rounds on a bound says anything.

`first_rounds` finds the first T at which a proved bound is below w T, the regret that nothing exceeds. All bounds are
evaluated in one reference setting, so that selectors can be compared: five learners, rewards in [0, 1], delta = 0.05,
one learner whose regret is at most sqrt(n), four whose bounds are false. `RealizedBalancing` has the bound of corollary
A of docs/realized-balancing.md, and `CounterfactualBalancing` the same for all experts, each learner having a greedy
expert. `DynamicBalancing` with scales 1 and biases 0 has the bound of Algorithm 1: its proof uses that the learner
whose bound holds is never left out, that a learner plays only after it has passed the test, and balancing among those
that passed, but not that others are left out for good. No explicit constants are known to us for `ED2RB`, whose
publication states its bound up to constants.

The bound of D3RB is for prompt rewards, in the style of its publication but with all constants.
Contexts and rewards have one law, the learner is chosen before the context is seen, and every learner can be chosen in
every round. Rewards have width w; d, d_min and c_i are in units of rewards, so that c_i starts at d_min (w times the
setting). Let * be a learner with Reg_*(n) <= d sqrt(n) for all n, d >= d_min, and let the event of the radius D hold:
for all learners and n, |n mu* - U - Reg| <= D(n). Let c_i be the presumed coefficient of learner i.

1. c_* <= 2 d. It is doubled only if U_* + c_* sqrt(n) + D(n) is below n times the lower mean of some learner, hence
   below n mu* <= U_* + d sqrt(n) + D(n); so c_* was below d.
2. All learners are played in the first M rounds. Let i be another learner, and m >= 2 its plays up to the last one
   after which its coefficient was not doubled. When that play was chosen, c_i sqrt(m - 1) <= c_* sqrt(n_*) <= 2 d
   sqrt(n_*). With m <= 2 (m - 1), c_i sqrt(m) <= 2 sqrt(2) d sqrt(n_*) and sqrt(m/n_*) <= 2 sqrt(2) d/d_min.
3. It passed the test, so U_i + c_i sqrt(m) + D(m) >= (m/n_*)(U_* - D(n_*)), and on the event
     Reg_i(m) <= c_i sqrt(m) + 2 D(m) + (m/n_*)(d sqrt(n_*) + 2 D(n_*)).
   With D(n) <= g sqrt(n) for n <= T this is at most 2 sqrt(2) d sqrt(T) + sqrt(m) (2 g + 2 sqrt(2) (d/d_min)(d + 2 g)).
4. Its other plays are the first one and those that doubled c_i, which is at most 4 d sqrt(T) in the end: at most
   log2(4 d sqrt(T)/d_min) plays. The sum of sqrt(m) over M - 1 learners is at most sqrt((M - 1) T). So

  Reg(T) <= d sqrt(T) + (M - 1) 2 sqrt(2) d sqrt(T) + sqrt((M - 1) T) (2 g + 2 sqrt(2) (d/d_min)(d + 2 g))
            + (M - 1) w (1 + log2(4 d sqrt(T)/d_min)).

For g we take that of the stitched boundary with half of alpha, which is nowhere below the default radius and, divided
by sqrt(n), grows with n.

Reference: docs/realized-balancing.md, corollary A. Pacchiano, Dann and Gentile (2023), "Data-driven online model
selection with regret guarantees" (D3RB).
Symbols of corollary A: M n_learners, T rounds, d coefficient, w width, kappa slack, rho floor, c TOLERANCE, B margin, b
and b_lo the radii D and D_lo in units of w sqrt(n).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, sqrt

from equipoise.bounds import Power
from equipoise.confidence import lower_sum, radius_sum, stitched
from equipoise.errors import InvalidArgument
from equipoise.selectors import D3RB, BalancedElimination, CounterfactualBalancing
from equipoise.selectors._core.outlook import first_true
from equipoise.selectors.counterfactual_balancing import MARGIN
from equipoise.selectors.realized_balancing import NEGLECT, TOLERANCE, RealizedBalancing
from equipoise.settings.checks import count, non_negative, positive
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
    """Corollary A of docs/realized-balancing.md at the default settings."""
    return balanced_regret(rounds, N_LEARNERS, COEFFICIENT)


def counterfactual_balancing(rounds: int) -> float:
    """The theorem of docs/counterfactual-balancing.md at the default settings, with a twin of every learner."""
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
    delta: float = 0.05,
    width: float = 1.0,
    slack: float = 8.0,
    floor: float = 0.25,
    margin: float = NEGLECT,
) -> float:
    """Upper bound on the regret if one learner has regret at most d w sqrt(n) after n plays, for all n: corollary A.

    Rewards are bounded, contexts random and there are no candidate bounds; the radius is the default one. Raises an
    error if d + b > c, for then corollary A does not apply.

    >>> round(balanced_regret(100_000, 5, 1.0) / 100_000, 2)
    0.58
    """
    n, m, d = count("rounds", rounds), count("n_learners", n_learners), non_negative("coefficient", coefficient)
    radius = RealizedBalancing(m, delta=delta).confidence.radius
    b, b_lo = radius_sum(radius, n) / sqrt(n), lower_sum(radius, n, 0.0) / sqrt(n)
    if d + b > TOLERANCE:
        raise InvalidArgument(
            f"coefficient is {coefficient!r}, but must be at most {TOLERANCE - b:.3g} for {n_learners} learners "
            f"and {rounds} rounds"
        )
    assert TOLERANCE + b_lo <= margin  # which the proof needs
    others = (m - 1) * (1.0 + slack * floor * sqrt(n)) + (margin + TOLERANCE + b) * sqrt((m - 1) * n)
    return positive("width", width) * (d * sqrt(n) + others)


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
