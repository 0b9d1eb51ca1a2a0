"""What is proved of `RealizedBalancing` under its default rule: a bound on its regret.

Reference: docs/realized-balancing.md, corollary A. Symbols: M n_learners, T rounds, d coefficient, w width, kappa
slack, rho floor, c TOLERANCE, B margin, b and b_lo the radii D and D_lo in units of w sqrt(n).
"""

from __future__ import annotations

from math import sqrt

from equipoise.confidence import lower_sum, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.selectors.realized_balancing import NEGLECT, TOLERANCE, RealizedBalancing
from equipoise.settings.checks import count, non_negative, positive


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
