"""Time-uniform confidence radii of the summed rewards of a learner, valid for all numbers of plays at once.

For a learner with n plays, reward sum U, pseudo-regret Reg and the optimum mu* of the expected reward, the difference
n mu* - U - Reg is one martingale (condition on the past, then on the context). Its increments have sub-Gaussian factor
v = w_c^2/4 + v_r, where w_c is the range of the best expected reward over contexts (0 if contexts are fixed) and v_r is
w^2/4 for rewards in an interval of width w, sigma^2 for sub-Gaussian noise. A radius D(n) bounds the absolute value for
all n >= 1 simultaneously, with probability 1 - 2 alpha. A radius here is always that of a *sum*; divide by n to compare
it with a mean.

One side alone needs less, since E[r | past] <= mu* in every play. *Below*, U - n mu* is at most the deviation of the
rewards from these expectations, without a context term: `lower_sum`. *Above*, n mu* - U is that deviation plus the
expected regrets, which a bound R on the regret itself bounds: `upper_sum`. The "bernstein" radius measures the
deviation by the spread V of the rewards around their running mean, and is narrow if rewards vary little. It needs
bounded rewards. Every one-sided event that a radius uses takes a share of delta: `radius_shares`.

"mixture", the default, is the smaller of two boundaries with half of alpha each: the stitched one, which is narrower
for few plays, and Robbins' normal mixture, which is narrower from some hundred plays on.

Reference: Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
sequences", eq. (10) and (11) (stitched), section 3.2 (normal mixture), theorem 4 (empirical Bernstein), c = w. The
proofs of the mixture and of the Bernstein boundary as they are used here are in docs/theory-notes.md.
Departures from that article: the one-sided normal mixture has a closed form of our own; the Bernstein boundary adds
c times the logarithm to the sub-Gaussian boundary, where eq. (10) has more.
Departures from the selection paper: it leaves its constant c open, sums two martingales where one suffices, and its
ln ln n is undefined at n = 1; with V = n v and m = v the stitched boundary is defined and valid from the first play.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple, TypeAlias, TypedDict, Unpack

from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import (
    STITCHED_FACTOR,
    STITCHED_RATIO,
    STITCHED_WEIGHT,
    paper_sum,
    stitched_bracket,
    stitched_level,
    stitched_sum,
)
from equipoise.kernels.marks import dispatched, kernel

RADII = ("mixture", "stitched", "paper", "bernstein")

LOG_CONSTANT = log(STITCHED_RATIO)
MIXTURE_PLAYS = 5_400.0  # number of plays at which the normal mixture is narrowest
MAX_EXPONENTS = 32

# c of the printed form c w sqrt(n ln(M ln(e n)/delta)): the smallest two-digit constant for which it is nowhere below
# the stitched radius at alpha = delta / (2 (M + 1)), by the size of M / delta.
PAPER_CONSTANTS = ((1000.0, 1.22), (100.0, 1.29), (10.0, 1.48), (2.0, 2.20))


class Stitched(NamedTuple):
    """Eq. (11). `scale` multiplies the radius; below 1, certificates are invalid."""

    variance: float  # sub-Gaussian factor of one play
    lower_variance: float  # the factor below the mean; smaller if that side has a separate radius
    level: float  # ln(5.2 / alpha)
    scale: float

    def radius_sum(self, n: float) -> float:
        return stitched_sum(self.scale, self.variance, self.level, n)

    def both_sums(self, n: float, spread: float, regret_bound: float) -> tuple[float, float]:
        lower = stitched_sum(self.scale, self.lower_variance, self.level, n)
        return lower, stitched_sum(self.scale, self.variance, self.level, n)


class Mixture(NamedTuple):
    """The smaller of the stitched boundary and Robbins' normal mixture, each with half of alpha."""

    variance: float  # as in `Stitched`
    lower_variance: float
    level: float  # ln(5.2 / (alpha/2))
    prior_plays: float  # r = rho/v: the variance 1/rho of the mixing law, in plays
    mixture_level: float  # 2 ln((1 + a) / (2 a)), a = alpha/2
    scale: float

    def radius_sum(self, n: float) -> float:
        return self.scale * sqrt(self.variance * mixture_bracket(self, n))

    def both_sums(self, n: float, spread: float, regret_bound: float) -> tuple[float, float]:
        factor = mixture_bracket(self, n)
        return self.scale * sqrt(self.lower_variance * factor), self.scale * sqrt(self.variance * factor)


class Paper(NamedTuple):
    """The form printed in the selection paper, for both sides, with a constant that makes it valid."""

    variance: float  # 2 v c^2
    level: float  # ln(M / delta)
    scale: float

    def radius_sum(self, n: float) -> float:
        return paper_sum(self.scale, self.variance, self.level, n)

    def both_sums(self, n: float, spread: float, regret_bound: float) -> tuple[float, float]:
        radius = paper_sum(self.scale, self.variance, self.level, n)
        return radius, radius


class Bernstein(NamedTuple):
    """Theorem 4: depends on the spread of the rewards, and is never above the stitched radius with the same alpha."""

    variance: float
    level: float
    scale: float
    width: float  # of the rewards
    split: bool  # whether the upper side has a separate term for expected regrets: if contexts are random

    def radius_sum(self, n: float) -> float:
        return stitched_sum(self.scale, self.variance, self.level, n)

    def both_sums(self, n: float, spread: float, regret_bound: float) -> tuple[float, float]:
        two_sided, deviation = stitched_sum(self.scale, self.variance, self.level, n), deviation_sum(self, spread)
        below = min(two_sided, deviation)
        if self.split:
            deviation += self.scale * (expected_regret_sum(self, regret_bound) - regret_bound)
        return below, min(two_sided, deviation)


Radius: TypeAlias = Mixture | Stitched | Paper | Bernstein


class Confidence(NamedTuple):
    name: str  # one of RADII
    radius: Radius
    alpha: float  # the failure probability of one side of one radius
    shares: int  # number of one-sided events for each learner and for the pool of all rounds
    noise: float | None  # sub-Gaussian factor of the rewards; None if they are bounded
    valid: bool  # False if `radius_scale` is below 1


class Conditions(TypedDict):
    """What the width of a radius depends on besides its share of delta."""

    width: float
    noise: float | None
    contexts: str
    scale: float


class RadiusSettings(Conditions):
    """What a radius depends on: the arguments of `make_radius`."""

    n_learners: int
    delta: float


def make_confidence(
    name: str,
    *,
    n_learners: int,
    delta: float,
    separate_lower: bool = False,
    extra_events: int = 0,
    **conditions: Unpack[Conditions],
) -> Confidence:
    """The radius that M learners and the pool of all rounds use together, at total failure probability delta.

    `separate_lower` gives the lower side of "mixture" and "stitched" a narrower radius, at the cost of one more share
    of delta. `extra_events` is the number of shares left to other events for each learner.
    """
    shares = radius_shares(name, conditions["contexts"], separate_lower) + extra_events
    alpha = radius_alpha(n_learners, delta, shares)
    if name != "paper":
        radius = radius_at(name, alpha, separate_lower=separate_lower, **conditions)
    elif extra_events:
        raise InvalidArgument("radius is 'paper', but its printed form leaves no share of delta to another test")
    else:
        radius = _paper(paper_constant(n_learners, delta), n_learners / delta, **conditions)
    return Confidence(name, radius, alpha, shares, conditions["noise"], conditions["scale"] >= 1.0)


def make_radius(
    name: str, *, separate_lower: bool = False, extra_events: int = 0, **settings: Unpack[RadiusSettings]
) -> Radius:
    """The radius of `make_confidence`."""
    return make_confidence(name, separate_lower=separate_lower, extra_events=extra_events, **settings).radius


def radius_at(name: str, alpha: float, *, separate_lower: bool = False, **conditions: Unpack[Conditions]) -> Radius:
    """The radius of which every one-sided event fails with probability at most alpha.

    As in `make_confidence` otherwise. "paper" is that of one learner with all of delta = 4 alpha.

    >>> radius = radius_at("mixture", 0.01, width=1.0, noise=None, contexts="random", scale=1.0)
    >>> round(radius_sum(radius, 10_000) / 10_000, 4)
    0.0254
    """
    if name not in RADII:
        raise InvalidArgument(f"radius is {name!r}, but must be one of {', '.join(RADII)}")
    width, noise = conditions["width"], conditions["noise"]
    contexts, scale = conditions["contexts"], conditions["scale"]
    if name == "bernstein" and noise is not None:
        raise InvalidArgument(
            f"radius is 'bernstein' with noise {noise!r}, but must have bounded rewards: noise None. "
            "Its theorem is about rewards in an interval"
        )
    if name == "paper":
        return _paper(paper_constant(1, 4 * alpha), 1 / (4 * alpha), **conditions)
    variance = _variance(**conditions)
    if name == "bernstein":
        return Bernstein(variance, stitched_level(alpha), scale, width, contexts != "fixed")
    # The range of the expected rewards covers contexts and Bernoulli noise together: w^2/4 for both.
    apart = separate_lower and noise is None and contexts != "fixed"
    lower_variance = width**2 / 4 if apart else variance
    if name == "mixture":
        return mixture(variance, alpha, scale)._replace(lower_variance=lower_variance)
    return Stitched(variance, lower_variance, stitched_level(alpha), scale)


def _variance(width: float, noise: float | None, contexts: str, scale: float) -> float:
    """The sub-Gaussian factor of one play, on both sides."""
    context_part = 0.0 if contexts == "fixed" else width**2 / 4
    return context_part + noise_variance(width, noise)


def _paper(constant: float, ratio: float, **conditions: Unpack[Conditions]) -> Paper:
    return Paper(2 * _variance(**conditions) * constant**2, log(ratio), conditions["scale"])


def noise_radius(*, alpha: float, width: float, noise: float | None, scale: float) -> Stitched:
    """How far rewards deviate from their expectations given context and action, on one side, with probability alpha."""
    return stitched(noise_variance(width, noise), alpha, scale)


def noise_variance(width: float, noise: float | None) -> float:
    """The sub-Gaussian factor of one reward given context and action."""
    return width**2 / 4 if noise is None else noise**2


def mixture(variance: float, alpha: float, scale: float) -> Mixture:
    """The mixture radius. Its rho makes the normal mixture nearly as narrow as any can be at MIXTURE_PLAYS plays.

    The boundary sqrt((V + rho) (ln(1 + V/rho) + L)) has its minimum over rho where V/rho = L + ln(1 + V/rho), which is
    about L + ln(1 + L). Only the ratio r = rho/v counts, so the rule is the same for all variances.
    """
    half = alpha / 2
    prior_plays = MIXTURE_PLAYS / (2 * log(1 / alpha) + log(1 + 2 * log(1 / alpha)))
    level = 2 * log((1 + half) / (2 * half))
    return Mixture(variance, variance, stitched_level(half), prior_plays, level, scale)


def stitched(variance: float, alpha: float, scale: float) -> Stitched:
    return Stitched(variance, variance, stitched_level(alpha), scale)


def radius_shares(name: str, contexts: str, separate_lower: bool) -> int:
    """Number of one-sided events for each learner: k in alpha = delta / (k (M + 1)).

    2 for the two sides of the radius, 1 more if the lower side has a separate radius; for "bernstein" 2 more for its
    deviation, and 1 for the expected regrets unless contexts are fixed.
    """
    if name == "bernstein":
        return 4 if contexts == "fixed" else 5
    # With fixed contexts a separate lower side gains nothing; the printed form bounds the two-sided radius.
    return 3 if separate_lower and name in ("mixture", "stitched") and contexts != "fixed" else 2


def radius_alpha(n_learners: int, delta: float, shares: int = 2) -> float:
    """The share of delta of one event: `shares` of them for each learner and for the pool of all rounds."""
    return delta / (shares * (n_learners + 1))


def epoch_alpha(n_epochs: int, delta: float) -> float:
    """The share of delta of one event in one epoch; the proof has four: noise above, noise below, potential, plays."""
    return delta / (4 * n_epochs)


def paper_constant(n_learners: int, delta: float) -> float:
    """The constant c that makes the paper's printed radius valid."""
    for least, constant in PAPER_CONSTANTS:
        if n_learners / delta >= least:
            return constant
    raise InvalidArgument(
        f"delta is {delta!r} with {n_learners} learners, but must be at most {n_learners / 2:g} for radius 'paper': "
        "above, no constant makes the printed form valid"
    )


@kernel
def mixture_bracket(radius: Mixture, n: float) -> float:
    """The factor of the variance under the root of the mixture radius."""
    prior = radius.prior_plays
    by_mixture = (n + prior) * (log(1.0 + n / prior) + radius.mixture_level)
    by_stitching = STITCHED_FACTOR * STITCHED_FACTOR * n * stitched_bracket(n, radius.level)
    return by_mixture if by_mixture < by_stitching else by_stitching


@dispatched
def radius_sum(radius: Radius, n: float) -> float:
    """D(n), the two-sided radius of a sum over n >= 1 plays, or of a weighted sum with squared weights of sum n."""
    return radius.radius_sum(n)


@dispatched
def both_sums(radius: Radius, n: float, spread: float, regret_bound: float) -> tuple[float, float]:
    """`lower_sum` and `upper_sum`, with what they have in common computed once."""
    return radius.both_sums(n, spread, regret_bound)


def lower_sum(radius: Radius, n: float, spread: float) -> float:
    """By how much the rewards of n >= 1 plays with this spread may exceed n mu*; never above D(n)."""
    return both_sums(radius, n, spread, 0.0)[0]


def upper_sum(radius: Radius, n: float, spread: float, regret_bound: float) -> float:
    """By how much n mu* may exceed the rewards of n >= 1 plays plus a bound on their regret; never above D(n)."""
    return both_sums(radius, n, spread, regret_bound)[1]


@kernel
def deviation_sum(radius: Bernstein, spread: float) -> float:
    """D_eb: how far rewards deviate from their expectations given the past, on either side; V is at least w^2."""
    width = radius.width
    squared_width = width * width
    variance = max(squared_width, spread)
    iterated = log(log(2.0 * variance / squared_width))
    return radius.scale * (
        STITCHED_FACTOR * sqrt(variance * (iterated + STITCHED_WEIGHT * radius.level))
        + width * (1.4 * iterated + radius.level)
    )


@kernel
def expected_regret_sum(radius: Bernstein, regret: float) -> float:
    """Upper bound on the sum of the expected regrets given the past, if the regrets, all in [0, w], sum to `regret`.

    exp(sum of (1 - exp(-x)) E[regret | past] / w - x regret / w) is a supermartingale for every x > 0. This is the
    minimum over x = 2^-j, j = 0, 1, ..., where the j-th has the share 1 / ((j + 1) (j + 2)) of alpha; the search stops
    at the first j that does not improve.
    """
    least, x, j = inf, 1.0, 0
    log_share = radius.level - LOG_CONSTANT  # ln(1 / alpha)
    while j < MAX_EXPONENTS:
        total = (x * regret + radius.width * (log_share + log((j + 1.0) * (j + 2.0)))) / (1.0 - exp(-x))
        if total >= least:
            break
        least, x, j = total, x / 2, j + 1
    return least
