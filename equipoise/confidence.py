"""Time-uniform radii: how far the summed rewards of a learner can stray, at every number of plays at once.

For a learner with n plays, reward sum U, pseudo-regret Reg and the optimum mu* of the expected reward, the difference
n mu* - U - Reg is one martingale (condition on the past, then on the context). Its increments have sub-Gaussian factor
v = w_c^2/4 + v_r, where w_c is the range of the best expected reward over contexts (0 if contexts are fixed) and v_r is
w^2/4 for rewards in an interval of width w, sigma^2 for sub-Gaussian noise. A radius D(n) bounds the absolute value for
all n >= 1 simultaneously, with probability 1 - 2 alpha. A radius here is always that of a *sum*; divide by n to compare
it with a mean.

Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
sequences", eq. (10) and (11).
Departures from the selection paper: it leaves its constant c open, sums two martingales where one suffices, and its
ln ln n is undefined at n = 1; with V = n v and m = v the stitched boundary is defined and valid from the first play.
"""

from __future__ import annotations

from math import e, log, sqrt
from typing import NamedTuple

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel

RADII = ("stitched", "paper")
STITCHED, PAPER = 0, 1

# c of the printed form c w sqrt(n ln(M ln(e n)/delta)): the smallest two-digit constant for which it is nowhere below
# the stitched radius at alpha = delta / (2 (M + 1)), by the size of M / delta.
PAPER_CONSTANTS = ((1000.0, 1.22), (100.0, 1.29), (10.0, 1.48), (2.0, 2.20))


class Radius(NamedTuple):
    """A radius as plain numbers, so that compiled code can evaluate it."""

    kind: int
    variance: float  # sub-Gaussian factor of one play
    log_term: float  # 0.72 ln(5.2 / alpha) if stitched, ln(M / delta) if paper
    scale: float  # multiplies the radius; below 1 it voids every certificate


def make_radius(
    name: str, *, n_learners: int, delta: float, width: float, noise: float | None, contexts: str, scale: float
) -> Radius:
    """The radius that M learners and the pool of all rounds use together, at total failure probability delta."""
    if name not in RADII:
        raise InvalidArgument(f"radius is {name!r}, but must be one of {', '.join(RADII)}")
    context_part = 0.0 if contexts == "fixed" else width**2 / 4
    variance = context_part + (width**2 / 4 if noise is None else noise**2)
    if name == "stitched":
        return stitched(variance, radius_alpha(n_learners, delta), scale)
    constant = paper_constant(n_learners, delta)
    return Radius(PAPER, 2 * variance * constant**2, log(n_learners / delta), scale)


def noise_radius(*, alpha: float, width: float, noise: float | None, scale: float) -> Radius:
    """How far rewards stray from their expectations given context and action, whatever the contexts: one side alpha."""
    return stitched(width**2 / 4 if noise is None else noise**2, alpha, scale)


def stitched(variance: float, alpha: float, scale: float) -> Radius:
    return Radius(STITCHED, variance, 0.72 * log(5.2 / alpha), scale)


def radius_alpha(n_learners: int, delta: float) -> float:
    """The share of delta of one side of one radius: two sides for each learner and for the pool of all rounds."""
    return delta / (2 * (n_learners + 1))


def epoch_alpha(n_epochs: int, delta: float) -> float:
    """The share of delta of one event in one epoch; the proof has four: noise above and below, potential, plays."""
    return delta / (4 * n_epochs)


def paper_constant(n_learners: int, delta: float) -> float:
    """The constant c that makes the paper's printed radius valid."""
    for least, constant in PAPER_CONSTANTS:
        if n_learners / delta >= least:
            return constant
    raise InvalidArgument(
        f"delta is {delta!r} with {n_learners} learners, but radius 'paper' needs n_learners / delta >= 2: "
        "no constant makes the printed form valid below"
    )


@kernel
def radius_sum(radius: Radius, n: float) -> float:
    """D(n), the radius of a sum over n >= 1 plays, or of a weighted sum whose squared weights add up to n."""
    if radius.kind == STITCHED:
        return radius.scale * 1.7 * sqrt(radius.variance * n * (log(log(2.0 * n)) + radius.log_term))
    return radius.scale * sqrt(radius.variance * n * (log(log(e * n)) + radius.log_term))
