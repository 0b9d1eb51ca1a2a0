"""Who takes part: every selector with the constants of its publication, the same on all instances.

Where a selector needs candidate bounds it gets the scaled ones of the instance, or those that learners observe of
themselves. All get the same failure probability, the range of the rewards and the law of the noise as far as they ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equipoise.selectors import SELECTORS
from equipoise.suite.instances import World

DELTA = 0.05
ORACLE = "oracle"  # the best learner alone; not run, but read off the learners' own curves
Builder = Callable[[World, int], Any]  # (one seed of an instance, rounds) -> selector


@dataclass(frozen=True)
class Contender:
    label: str
    selector: str  # name in the registry
    constants: str  # in words
    guaranteed: bool  # whether its publication proves a regret bound for learners as in the suite
    build: Builder
    can_share: bool = True  # whether it may run while learners learn from each other's rounds


def _settings(world: World) -> dict[str, Any]:
    problem = world.problem
    return {
        "delta": DELTA,
        "reward_range": problem.reward_range,
        "noise": getattr(problem, "noise", None),
        "contexts": world.contexts,
    }


def _with_bounds(name: str, kind: str = "scaled") -> Builder:
    return lambda world, rounds: SELECTORS[name](getattr(world, kind), **_settings(world))


def _without_bounds(name: str, **constants: Any) -> Builder:
    return lambda world, rounds: SELECTORS[name](len(world.learners), **_settings(world), **constants)


def _told_the_horizon(name: str) -> Builder:
    return lambda world, rounds: SELECTORS[name](len(world.learners), horizon=rounds, **_settings(world))


_ALL = (
    Contender(
        "realized-balancing",
        "RealizedBalancing",
        "no bounds, all settings by default",
        True,
        _without_bounds("RealizedBalancing"),
    ),
    Contender(
        "balanced-scaled",
        "BalancedElimination",
        "scaled bounds, stitched radius",
        True,
        _with_bounds("BalancedElimination"),
    ),
    Contender(
        "balanced-observed",
        "BalancedElimination",
        "observed bounds, stitched radius",
        True,
        _with_bounds("BalancedElimination", "observed"),
    ),
    Contender("regret-balancing", "RegretBalancing", "scaled bounds", True, _with_bounds("RegretBalancing")),
    Contender(
        "dynamic-balancing",
        "DynamicBalancing",
        "scaled bounds, v = 1, b = 0, stitched radius",
        True,
        _with_bounds("DynamicBalancing"),
    ),
    Contender("d3rb", "D3RB", "d_min = 1, stitched radius", True, _without_bounds("D3RB")),
    Contender("ed2rb", "ED2RB", "d_min = 1, stitched radius", True, _without_bounds("ED2RB")),
    Contender(
        "explore-commit-exploit",
        "ExploreCommitExploit",
        "ECE-style: scaled bounds, explores with probability t^(-1/3), a schedule of our own",
        True,
        _with_bounds("ExploreCommitExploit"),
    ),
    Contender(
        "rate-adaptive",
        "RateAdaptive",
        "Bibaut-style: explores with probability t^(-1/3), a schedule of our own",
        True,
        _without_bounds("RateAdaptive"),
    ),
    Contender("ucb1", "UCB1", "mean + w √(ln t / (2 n))", False, _without_bounds("UCB1")),
    Contender("exp3", "EXP3", "η = √(2 ln M / (M T))", False, _told_the_horizon("EXP3")),
    Contender("greedy-mean", "GreedyMean", "highest mean reward so far", False, _without_bounds("GreedyMean")),
    Contender("uniform", "Uniform", "any learner, equally likely", False, _without_bounds("Uniform")),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
