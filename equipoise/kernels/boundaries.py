"""The boundaries that confidence radii are made of, and the spread of rewards that some of them are measured in.

Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
sequences", eq. (11); Pacchiano, Dann, Gentile and Bartlett (2020) for the printed form. What they bound is
said in `equipoise.confidence`.
"""

from __future__ import annotations

from math import e, log, sqrt

from equipoise.kernels.marks import kernel

# The stitched boundary of eq. (11) is FACTOR sqrt(V (ln ln(2 V/m) + WEIGHT ln(RATIO / alpha))).
STITCHED_FACTOR = 1.7
STITCHED_WEIGHT = 0.72
STITCHED_RATIO = 5.2


@kernel
def stitched_level(alpha: float) -> float:
    return log(STITCHED_RATIO / alpha)


@kernel
def stitched_bracket(n: float, level: float) -> float:
    """The factor of the variance under the root of the stitched boundary."""
    return log(log(2.0 * n)) + STITCHED_WEIGHT * level


@kernel
def stitched_sum(scale: float, variance: float, level: float, n: float) -> float:
    return scale * STITCHED_FACTOR * sqrt(variance * n * stitched_bracket(n, level))


@kernel
def paper_sum(scale: float, variance: float, level: float, n: float) -> float:
    return scale * sqrt(variance * n * (log(log(e * n)) + level))


@kernel
def add_spread(spread: float, n: int, rewards: float, middle: float, reward: float) -> float:
    """The spread V after one more reward: adds its squared distance from the mean of the n rewards before it, or from
    the middle of the range if it is the first."""
    distance = reward - (rewards / n if n > 0 else middle)
    return spread + distance * distance
