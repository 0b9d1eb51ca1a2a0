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
    guaranteed: bool  # whether a regret bound is proved for learners as in the suite
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


def _with_bounds(name: str, kind: str) -> Builder:
    return lambda world, rounds: SELECTORS[name](getattr(world, kind), **_settings(world))


_ALL = (
    Contender(
        "balanced-scaled",
        "BalancedElimination",
        "scaled bounds, stitched radius, δ = 0.05",
        True,
        _with_bounds("BalancedElimination", "scaled"),
    ),
    Contender(
        "balanced-observed",
        "BalancedElimination",
        "observed bounds, stitched radius, δ = 0.05",
        True,
        _with_bounds("BalancedElimination", "observed"),
    ),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
