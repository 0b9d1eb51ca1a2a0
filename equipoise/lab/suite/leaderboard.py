"""Who is best: prices of selection over all instances, with intervals over seeds.

The price is that of `runs.summary`; the strict price is max(price, 1), so that a gain on one instance does not pay for
a loss on another. Selectors are ranked by the geometric mean over instances. Intervals come from drawing seeds with
replacement, the same draws for every selector and instance, so that ratios of two selectors are paired. A selector that
is not compatible with all instances is ranked by its ratio to the leader on those that it is compatible with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.suite.contenders import BEST_GREEDY, ORACLE, REFERENCES

Array = NDArray[np.float64]
N_DRAWS = 4000
LEVEL = 0.95
MIN_PRICE = 0.01  # for logarithms, where a very short run has lost nothing


class Scores(NamedTuple):
    """Regrets by seed, of one table."""

    learners: Mapping[str, Array]  # by instance: (seeds, learners), each alone
    selectors: Mapping[str, Mapping[str, Array]]  # by label, then by instance: (seeds,)
    floors: Mapping[str, float]  # by instance: the least that the best learner counts as


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Place:
    """A selector's place on the leaderboard."""

    label: str
    price: Interval  # geometric mean over its instances
    strict: float  # geometric mean of its strict prices
    ratio: Interval  # of its price to the leader's, on the instances of both; nan where there are none
    n_instances: int
    worst_instance: str  # where its price is largest
    worst_price: float
    worst_seed_instance: str  # where its price in a single seed is largest
    worst_seed_price: float


def price(regrets: Array, learners: Array, min_regret: float) -> float:
    """Of one selector on one instance, from its regrets and those of the learners alone, one row per seed."""
    return float(regrets.mean()) / _denominator(learners, min_regret)


def _denominator(learners: Array, min_regret: float) -> float:
    return max(float(learners.mean(axis=0).min()), min_regret)


def with_references(scores: Scores, greedy: Mapping[str, Array]) -> Scores:
    """The scores with rows for those who know which learner, or which greedy expert, is best on average.

    `greedy` has the regrets of all greedy experts alone by instance, nan for a learner without one.
    """

    def best(regrets: Array) -> Array:
        return regrets[:, np.nanargmin(regrets.mean(axis=0))]

    known = {name: best(regrets) for name, regrets in scores.learners.items()}
    best_greedy = {name: best(greedy[name]) for name in scores.learners if name in greedy}
    rows = {ORACLE: known, **({BEST_GREEDY: best_greedy} if best_greedy else {})}
    return scores._replace(selectors={**rows, **scores.selectors})


def restricted(scores: Scores, instances: Iterable[str]) -> Scores:
    """The scores on some instances only."""
    kept = [name for name in scores.learners if name in set(instances)]
    return Scores(
        {name: scores.learners[name] for name in kept},
        {
            label: part
            for label, by_instance in scores.selectors.items()
            if (part := {name: by_instance[name] for name in kept if name in by_instance})
        },
        {name: scores.floors[name] for name in kept},
    )


def leaderboard(scores: Scores) -> list[Place]:
    """All selectors, the best first; references are listed but do not lead."""
    n_seeds = len(next(iter(scores.learners.values())))
    draws = np.random.default_rng(0).integers(n_seeds, size=(N_DRAWS, n_seeds))
    draws = np.vstack([np.arange(n_seeds), draws])  # the first is the sample itself
    logs = {label: _log_prices(scores, label, draws) for label in scores.selectors}
    rivals = [label for label in logs if label not in REFERENCES] or list(logs)
    most = max(len(logs[label]) for label in rivals)
    leader = min(
        (label for label in rivals if len(logs[label]) == most), key=lambda label: _mean(logs[label], logs[label])[0]
    )
    places = [_place(scores, label, logs, leader) for label in logs]
    return sorted(places, key=lambda place: (isnan(place.ratio.value), place.ratio.value))


def _log_prices(scores: Scores, label: str, draws: NDArray[np.int64]) -> dict[str, Array]:
    logs = {}
    for name, regrets in scores.selectors[label].items():
        best = scores.learners[name][draws].mean(axis=1).min(axis=1)
        prices = regrets[draws].mean(axis=1) / np.maximum(best, scores.floors[name])
        logs[name] = np.log(np.maximum(prices, MIN_PRICE))
    return logs


def _mean(logs: Mapping[str, Array], over: Iterable[str]) -> Array:
    mean: Array = np.mean([logs[name] for name in over], axis=0)
    return mean


def _place(scores: Scores, label: str, logs: Mapping[str, Mapping[str, Array]], leader: str) -> Place:
    own = logs[label]
    common = [name for name in own if name in logs[leader]]
    ratio = _mean(own, common) - _mean(logs[leader], common) if common else np.full(1 + N_DRAWS, nan)
    prices = {name: float(np.exp(values[0])) for name, values in own.items()}
    seeds = {name: worst_seed_price(scores, label, name) for name in own}
    strict = float(np.exp(np.mean([max(0.0, values[0]) for values in own.values()])))
    worst, worst_seed = (max(found.items(), key=lambda item: item[1]) for found in (prices, seeds))
    return Place(label, _interval(_mean(own, own)), strict, _interval(ratio), len(own), *worst, *worst_seed)


def worst_seed_price(scores: Scores, label: str, name: str) -> float:
    """The highest price of a selector in one seed of an instance."""
    return float(scores.selectors[label][name].max()) / _denominator(scores.learners[name], scores.floors[name])


def _interval(logs: Array) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(logs[1:], [tail, 1 - tail])
    return Interval(float(np.exp(logs[0])), float(np.exp(low)), float(np.exp(high)))
