"""Who is best: what selection costs over all instances, with intervals over seeds.

On one instance, with means over seeds:

    ratio       = regret of the selector / least regret of a learner alone
    excess      = (regret of the selector - least regret of a learner alone) / (w sqrt(T))
    reward lost = (regret of the selector - least regret of a learner alone) / reward of that learner

w is the width of the rewards and T the number of rounds. The strict ratio is max(ratio, 1), so that a gain on one
instance does not pay for a loss on another. Selectors are ranked by the geometric mean of their ratios over instances.
Intervals come from drawing seeds with replacement, the same draws for every selector and instance, so that two
selectors are compared by pairs. A selector that is not compatible with all instances is ranked by its ratio to the
leader on those that it is compatible with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.suite.contenders import BEST_GREEDY, ORACLE, REFERENCES

Array = NDArray[np.float64]
N_DRAWS = 4000
LEVEL = 0.95
# Of ratios in logarithms, for very short runs in which the selector or the best learner has lost nothing.
MIN_RATIO, MAX_RATIO = 1e-3, 1e6


class Scores(NamedTuple):
    """Regrets by seed, of one table."""

    learners: Mapping[str, Array]  # by instance: (seeds, learners), each alone
    rewards: Mapping[str, Array]  # likewise, what they earned
    selectors: Mapping[str, Mapping[str, Array]]  # by label, then by instance: (seeds,)
    units: Mapping[str, float]  # by instance: w sqrt(T)


class Cost(NamedTuple):
    """What a selector loses on one instance, beside its best learner alone."""

    best: float  # mean regret of the best learner alone
    regret: float  # of the selector
    unit: float  # w sqrt(T)
    reward: float  # of the best learner alone

    @property
    def ratio(self) -> float:
        """The regret over that of the best learner; infinite if only that one has lost nothing."""
        if self.best > 0:
            return self.regret / self.best
        return inf if self.regret > 0 else 1.0

    @property
    def strict(self) -> float:
        return max(1.0, self.ratio)

    @property
    def excess(self) -> float:
        return (self.regret - self.best) / self.unit

    @property
    def reward_lost(self) -> float:
        """As a share of the best learner's reward; nan if that is not positive."""
        return (self.regret - self.best) / self.reward if self.reward > 0 else nan


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Worst:
    """The largest value over instances, and where it is."""

    value: float
    instance: str


@dataclass(frozen=True)
class Place:
    """A selector's place on the leaderboard."""

    label: str
    n_instances: int
    best: float  # mean over its instances of the regret of the best learner alone
    regret: float  # of the selector
    ratio: Interval  # geometric mean over its instances
    strict: float  # geometric mean of its strict ratios
    to_leader: Interval  # its ratio over the leader's, on the instances of both; nan where there are none
    reward_lost: float  # mean over its instances
    worst_ratio: Worst
    worst_seed: Worst  # of its ratios in a single seed
    worst_excess: Worst
    worst_reward_lost: Worst


def cost(scores: Scores, label: str, name: str) -> Cost:
    """What a selector loses on an instance."""
    means = scores.learners[name].mean(axis=0)
    best = int(means.argmin())
    regret = float(scores.selectors[label][name].mean())
    return Cost(float(means[best]), regret, scores.units[name], float(scores.rewards[name][:, best].mean()))


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
        {name: scores.rewards[name] for name in kept},
        {
            label: part
            for label, by_instance in scores.selectors.items()
            if (part := {name: by_instance[name] for name in kept if name in by_instance})
        },
        {name: scores.units[name] for name in kept},
    )


def leaderboard(scores: Scores) -> list[Place]:
    """All selectors, the best first; references are listed but do not lead."""
    n_seeds = len(next(iter(scores.learners.values())))
    draws = np.random.default_rng(0).integers(n_seeds, size=(N_DRAWS, n_seeds))
    draws = np.vstack([np.arange(n_seeds), draws])  # the first is the sample itself
    logs = {label: _log_ratios(scores, label, draws) for label in scores.selectors}
    rivals = [label for label in logs if label not in REFERENCES] or list(logs)
    most = max(len(logs[label]) for label in rivals)
    leader = min(
        (label for label in rivals if len(logs[label]) == most), key=lambda label: _mean(logs[label], logs[label])[0]
    )
    places = [_place(scores, label, logs, leader) for label in logs]
    return sorted(places, key=lambda place: (isnan(place.to_leader.value), place.to_leader.value))


def _log_ratios(scores: Scores, label: str, draws: NDArray[np.int64]) -> dict[str, Array]:
    logs = {}
    for name, regrets in scores.selectors[label].items():
        best = scores.learners[name][draws].mean(axis=1).min(axis=1)
        ratios = regrets[draws].mean(axis=1) / np.maximum(best, np.finfo(float).tiny)
        logs[name] = np.log(np.clip(ratios, MIN_RATIO, MAX_RATIO))
    return logs


def _mean(logs: Mapping[str, Array], over: Iterable[str]) -> Array:
    mean: Array = np.mean([logs[name] for name in over], axis=0)
    return mean


def _place(scores: Scores, label: str, logs: Mapping[str, Mapping[str, Array]], leader: str) -> Place:
    own = logs[label]
    common = [name for name in own if name in logs[leader]]
    ratio = _mean(own, common) - _mean(logs[leader], common) if common else np.full(1 + N_DRAWS, nan)
    costs = {name: cost(scores, label, name) for name in own}
    lost = {name: each.reward_lost for name, each in costs.items() if not isnan(each.reward_lost)}
    return Place(
        label,
        len(own),
        best=float(np.mean([each.best for each in costs.values()])),
        regret=float(np.mean([each.regret for each in costs.values()])),
        ratio=_interval(_mean(own, own)),
        strict=float(np.exp(np.mean([max(0.0, values[0]) for values in own.values()]))),
        to_leader=_interval(ratio),
        reward_lost=float(np.mean(list(lost.values()))) if lost else nan,
        worst_ratio=_worst({name: each.ratio for name, each in costs.items()}),
        worst_seed=_worst({name: worst_seed_ratio(scores, label, name) for name in own}),
        worst_excess=_worst({name: each.excess for name, each in costs.items()}),
        worst_reward_lost=_worst(lost),
    )


def _worst(values: Mapping[str, float]) -> Worst:
    name = max(values, key=lambda name: values[name], default="")
    return Worst(values.get(name, nan), name)


def worst_seed_ratio(scores: Scores, label: str, name: str) -> float:
    """The highest ratio of a selector in one seed of an instance, over the best learner's mean regret."""
    worst = float(scores.selectors[label][name].max())
    return cost(scores, label, name)._replace(regret=worst).ratio


def _interval(logs: Array) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(logs[1:], [tail, 1 - tail])
    return Interval(float(np.exp(logs[0])), float(np.exp(low)), float(np.exp(high)))
