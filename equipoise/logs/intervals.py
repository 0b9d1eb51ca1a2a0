"""Confidence intervals for the mean of terms, one per round of a log.

| interval | holds | needs of its terms |
|---|---|---|
| `betting` | at all numbers of rounds at once, if the expectation given the past is the same in every round | a sign |
| `time_uniform` | at all numbers of rounds at once, for the mean of the expectations given the past | a range |
| `bernstein` | at a fixed number of independent rounds | a range |
| `bootstrap` | states no coverage: the middle of resampled values | – |

*Betting*. Let X_t >= 0 have the expectation v > 0 given the past, in every round t, and let c lie in (0, 1). The factor
1 - c + c X_t / v is positive and has expectation 1 given the past, so its product over the rounds is a nonnegative
martingale that begins at 1, and so is the mean W_t(v) of these products over a grid of c. By Ville's inequality W_t(v)
reaches 1/alpha at any time with probability at most alpha. W_t falls in v, so the largest root of W_t(v) = 1/alpha is a
lower confidence bound at all times at once, also at a time that depends on the rewards. X needs no upper bound: large
weights widen the interval instead. With E[X_t | past] <= v the argument holds as well: W_t(v) is a supermartingale.

For rewards in [low, high] and the importance weights w of a fixed policy with value V, X = w (r - low) has expectation
at most V - low, and X = w (high - r) at most high - V, with equality if the log can take all actions of the policy, as
then E w = 1. Both bounds together, each with half of delta, are the interval. If the log lacks actions of the policy,
the interval covers V as well: it only gets wider. Smaller values of X give smaller bounds, so rounding X down keeps
the guarantee.

References: Karampatziakis, Mineiro and Ramdas (2021), "Off-policy confidence sequences"; Waudby-Smith, Wu, Ramdas,
Karampatziakis and Mineiro (2022), "Anytime-valid off-policy inference for contextual bandits", departure: a mean over a
fixed grid in place of bets that follow the past; Maurer and Pontil (2009), "Empirical Bernstein bounds and sample
variance penalization", theorem 4; Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric,
nonasymptotic confidence sequences", theorem 4 with the boundary of eq. (10); Efron and Tibshirani (1993), "An
introduction to the bootstrap", section 13.3 (percentiles). Departure: beyond `MAX_BLOCKS` rounds the bootstrap draws
blocks of consecutive rounds, so its cost stays level.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.confidence import Bernstein, deviation_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import stitched_level
from equipoise.settings.checks import count, interval, probability
from equipoise.types import Array, Integers

BETS = 0.5 ** np.arange(1, 15)  # c: from one half to the size that a million rounds with weights of 500 ask for
MAX_VALUES = 10_000  # of a term that bets are computed with; with more, they are rounded down
ROUNDING_BITS = 40  # of the 52 of a number, dropped then: at most 1 part in 4,096
MAX_HALVINGS = 50  # of the mean, until a lower bound counts as 0
ROOT_STEPS = 30
MAX_BLOCKS = 10_000
CHUNK = 50  # resamples that are drawn at once


class Interval(NamedTuple):
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def betting(above: Array, below: Array, bounds: tuple[float, float], delta: float = 0.05) -> Interval:
    """Two-sided interval of a confidence sequence that ever misses the mean with probability `delta`.

    If its low end is above the high one, the data refute the conditions: E w = 1, say, with wrong propensities.

    Parameters
    ----------
    above
        One term per round, nonnegative, with an expectation of at most the mean minus the lower bound.
    below
        The same with the upper bound minus the mean.
    bounds
        The lower and the upper bound of the mean.
    delta
        Probability of a miss at any time.

    Examples
    --------
    >>> rewards, weights = np.tile([0.0, 1.0], 500), np.tile([0.0, 0.0, 2.0, 2.0], 250)
    >>> betting(weights * rewards, weights * (1.0 - rewards), (0.0, 1.0))
    Interval(low=0.40..., high=0.59...)
    """
    low, high = interval("bounds", bounds)
    alpha = probability("delta", delta) / 2.0
    for name, terms in (("above", above), ("below", below)):
        if not len(terms) or not (terms.min() >= 0.0 and np.isfinite(terms.max())):
            raise InvalidArgument(f"{name} must have at least one entry, and all must be nonnegative and finite")
    return Interval(
        low=min(low + lower_bound(above, alpha), high),
        high=max(high - lower_bound(below, alpha), low),
    )


def lower_bound(terms: Array, alpha: float) -> float:
    """Lower confidence bound, by betting, for the mean of nonnegative terms; it ever misses with probability alpha."""
    terms = np.asarray(terms, np.float64)
    mean = float(terms.mean())
    if mean == 0.0:
        return 0.0
    values, counts = np.unique(terms, return_counts=True)
    if len(values) > MAX_VALUES:
        rounded = (terms.view(np.int64) >> ROUNDING_BITS << ROUNDING_BITS).view(np.float64)
        values, counts = np.unique(rounded, return_counts=True)
    level, above = log(1.0 / alpha), mean  # by Jensen's inequality W(mean) is at most 1
    for _ in range(MAX_HALVINGS):
        below = above / 2.0
        if log_wealth(below, values, counts) >= level:
            break
        above = below
    else:
        return 0.0
    for _ in range(ROOT_STEPS):
        middle = (below + above) / 2.0
        if log_wealth(middle, values, counts) >= level:
            below = middle
        else:
            above = middle
    return below


def log_wealth(mean: float, values: Array, counts: Integers) -> float:
    """ln W(mean): the mean over `BETS` of the product of 1 - c + c X / mean, for values of X with their counts."""
    logs: Array = np.log1p(BETS[:, None] * (values / mean - 1.0)) @ counts
    largest = float(logs.max())
    return largest + log(float(np.exp(logs - largest).mean()))


def bernstein(terms: Array, bounds: tuple[float, float], delta: float = 0.05) -> Interval:
    """Two-sided empirical Bernstein interval of independent terms, which misses their mean with probability `delta`.

    `bounds`, known beforehand, contains every term.

    Examples
    --------
    >>> import numpy as np
    >>> bernstein(np.tile([0.0, 1.0], 5_000), (0.0, 1.0), delta=0.05)
    Interval(low=0.484..., high=0.515...)
    """
    low, high = _check(terms, bounds)
    n, level = len(terms), log(4.0 / probability("delta", delta))
    if n < 2:
        return Interval(low, high)
    mean, variance = float(terms.mean()), float(terms.var(ddof=1))
    radius = sqrt(2.0 * variance * level / n) + 7.0 * (high - low) * level / (3.0 * (n - 1))
    return Interval(max(low, mean - radius), min(high, mean + radius))


def time_uniform(terms: Array, bounds: tuple[float, float], delta: float = 0.05) -> Interval:
    """The interval after the last term of a confidence sequence that holds at all times at once.

    With probability `delta` the sequence ever misses the mean of the conditional expectations. Terms are in the order
    of the rounds; `bounds` is as in `bernstein`.
    """
    low, high = _check(terms, bounds)
    n, alpha = len(terms), probability("delta", delta) / 2.0
    sums = np.cumsum(terms)
    before = np.empty(n)  # the mean of the terms before each one; the middle of the range for the first
    before[0] = (low + high) / 2.0
    before[1:] = sums[:-1] / np.arange(1, n)
    spread = float(((terms - before) ** 2).sum())
    width = high - low
    radius = deviation_sum(Bernstein(width**2 / 4.0, stitched_level(alpha), 1.0, width, False), spread) / n
    mean = float(sums[-1]) / n
    return Interval(max(low, mean - radius), min(high, mean + radius))


def bootstrap(
    numerators: Array, denominators: Array, delta: float = 0.05, *, resamples: int = 1_000, seed: int = 0
) -> Interval:
    """Middle 1 - delta of the ratios of means over resampled rounds; the denominators of a plain mean are ones.

    It shows how much the value depends on single rounds. It states no coverage: with rare actions or rare rewards it
    misses the expectation far more often than `delta`.
    """
    level, n_resamples = probability("delta", delta), count("resamples", resamples)
    tops, bottoms = _blocks(numerators), _blocks(denominators)
    n, rng = len(tops), np.random.default_rng(seed)
    ratios = np.empty(n_resamples)
    for first in range(0, n_resamples, CHUNK):
        size = min(CHUNK, n_resamples - first)
        drawn = rng.integers(n, size=(size, n), dtype=np.int32)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios[first : first + size] = tops[drawn].sum(axis=1) / bottoms[drawn].sum(axis=1)
    low, high = np.nanquantile(ratios, [level / 2, 1 - level / 2])
    return Interval(float(low), float(high))


def _blocks(values: Array) -> Array:
    """Sums over blocks of consecutive rounds of nearly equal size."""
    if len(values) <= MAX_BLOCKS:
        return values
    edges = np.linspace(0, len(values), MAX_BLOCKS + 1).astype(np.int64)[:-1]
    return np.add.reduceat(values, edges)


def _check(terms: Array, bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = interval("bounds", bounds)
    if not len(terms):
        raise InvalidArgument("terms is empty, but must have at least one entry")
    slack = 1e-9 * (high - low)
    if not (terms.min() >= low - slack and terms.max() <= high + slack):
        raise InvalidArgument(
            f"terms has entries from {terms.min():g} to {terms.max():g}, but they must lie in {low:g} to {high:g}"
        )
    return low, high
