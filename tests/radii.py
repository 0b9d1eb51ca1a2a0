"""The default radius, written out from the two boundaries that it is the smaller of, and the plays that it is about."""

import math
from collections.abc import Iterable


def resolved_prefix(plays: Iterable[list[float]]) -> list[float]:
    """The rewards of the plays before the first that is open. A play is a list of its reward, empty while open."""
    rewards = []
    for reward in plays:
        if not reward:
            break
        rewards.append(reward[0])
    return rewards


def stitched_radius(n: float, variance: float, alpha: float) -> float:
    """Howard et al. (2021), eq. (11), with V = n v and m = v."""
    total = n * variance
    return 1.7 * math.sqrt(total * (math.log(math.log(2 * total / variance)) + 0.72 * math.log(5.2 / alpha)))


def normal_mixture(n: float, variance: float, alpha: float, plays: float = 5_400.0) -> float:
    """The largest s at which the half-normal mixture of exp(lambda s - lambda^2 V/2), with its normal tail bounded by
    exp(-x^2/2)/2, has not reached 1/alpha; rho is where it is about narrowest at V = 5,400 v and 2 alpha two-sided."""
    total, logs = n * variance, 2 * math.log(1 / (2 * alpha))
    rho = plays * variance / (logs + math.log(1 + logs))
    # sqrt(rho/(V + rho)) (2 exp(x^2/2) - 1) >= 1/alpha with x = s/sqrt(V + rho), the 1 times sqrt((V + rho)/rho) >= 1.
    return math.sqrt((total + rho) * 2 * math.log(math.sqrt((total + rho) / rho) * (1 + alpha) / (2 * alpha)))


def mixture_radius(n: float, variance: float, alpha: float) -> float:
    return min(stitched_radius(n, variance, alpha / 2), normal_mixture(n, variance, alpha / 2))
