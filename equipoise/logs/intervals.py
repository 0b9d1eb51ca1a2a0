"""Confidence intervals for means of bounded terms, one per round of a log.

`bernstein` holds at a fixed number of independent rounds, `time_uniform` at all numbers of rounds at once and for terms
whose expectation changes with the past, as those of a policy that learns: it is then an interval for the mean of the
conditional expectations. `bootstrap` is approximate and needs no range.

References: Maurer and Pontil (2009), "Empirical Bernstein bounds and sample variance penalization", theorem 4; Howard,
Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", theorem 4 with
the boundary of eq. (10); Efron and Tibshirani (1993), "An introduction to the bootstrap", section 13.3 (percentiles).
Departure: beyond `MAX_BLOCKS` rounds the bootstrap draws blocks of consecutive rounds, so that its cost stays level.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.confidence import Bernstein, deviation_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import stitched_level
from equipoise.settings.checks import count, interval, probability
from equipoise.types import Array

MAX_BLOCKS = 10_000
CHUNK = 50  # resamples that are drawn at once


class Interval(NamedTuple):
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


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
    """Percentile interval of a ratio of means over resampled rounds; the denominators of a plain mean are ones.

    `delta` is the probability outside of the interval, half on each side.
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
