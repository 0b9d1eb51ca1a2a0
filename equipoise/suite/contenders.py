"""Who takes part: every selector with the constants of its publication, the same on all instances.

Where a selector needs candidate bounds it gets the scaled ones of the instance, or those that learners observe of
themselves. All get the same failure probability, the range of the rewards and the law of the noise as far as they ask.
Learners that select a model inside themselves take part, in place of learners and selector, where they are made for
the question that the instance asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from equipoise.errors import NotEntitled
from equipoise.learners import OSOM, ALBDim, MisspecificationAdaptive, ModCB
from equipoise.problems import DisjointLinearBandit, LinearBandit, MisspecifiedLinearBandit
from equipoise.selectors import SELECTORS
from equipoise.suite.instances import World

DELTA = 0.05
ORACLE = "oracle"  # the best learner alone; not run, but read off the learners' own curves
Builder = Callable[[World, int], Any]  # (one seed of an instance, rounds) -> selector, or learner in its place


@dataclass(frozen=True)
class Contender:
    label: str
    selector: str  # name in the registry of selectors, or of learners
    constants: str  # in words
    guaranteed: bool  # whether a regret bound is proved of it as it runs here; not so of what is only in a style
    build: Builder
    can_share: bool = True  # whether it may run while learners learn from each other's rounds
    whole: bool = False  # whether it is no selector but a learner that needs none


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


def _in_range(world: World, name: str) -> dict[str, Any]:
    """The settings of a selector whose theory needs rewards that never leave their range."""
    settings = _settings(world)
    _demand(settings.pop("noise") is None, name, "rewards in a range")
    return settings


def _weighing(name: str, **constants: Any) -> Builder:
    return lambda world, rounds: SELECTORS[name](
        len(world.learners), horizon=rounds, **_in_range(world, name), **constants
    )


def _ucbc(world: World, rounds: int) -> Any:
    return SELECTORS["UCBC"](world.scaled, horizon=rounds, **_in_range(world, "UCBC"))


def _known(world: World) -> dict[str, Any]:
    """What a linear learner is told, as the learners of the instance are."""
    largest = world.learners[-1]
    return {"norm_bound": largest.norm_bound, "noise": largest.noise, "delta": DELTA}


def _demand(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise NotEntitled(f"{name} is made for {problem}")


def _modcb(world: World, rounds: int) -> Any:
    dims = [getattr(learner, "dim", 0) for learner in world.learners]
    _demand(isinstance(world.problem, LinearBandit) and len(set(dims)) == len(dims), "ModCB", "nested features")
    return ModCB(dims, **_known(world))


def _alb_dim(world: World, rounds: int) -> Any:
    dims = [getattr(learner, "dim", 0) for learner in world.learners]
    _demand(isinstance(world.problem, LinearBandit) and len(set(dims)) == len(dims), "ALB-Dim", "nested features")
    return ALBDim(max(dims), **_known(world))


def _osom(world: World, rounds: int) -> Any:
    problem = world.problem
    _demand(isinstance(problem, DisjointLinearBandit), "OSOM", "attributes that may matter or not")
    return OSOM(problem.n_actions, dim=problem.n_columns, **_known(world))


def _misspecification_adaptive(world: World, rounds: int) -> Any:
    problem = world.problem
    _demand(isinstance(problem, MisspecifiedLinearBandit), "MisspecificationAdaptive", "nearly linear rewards")
    norm_bound = _known(world)["norm_bound"]
    return MisspecificationAdaptive(problem.n_columns, arms=problem.n_actions, rounds=rounds, norm_bound=norm_bound)


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
        False,
        _with_bounds("ExploreCommitExploit"),
    ),
    Contender(
        "rate-adaptive",
        "RateAdaptive",
        "Bibaut-style: explores with probability t^(-1/3), a schedule of our own",
        False,
        _without_bounds("RateAdaptive"),
    ),
    Contender("corral", "Corral", "η = √(M / T)", True, _weighing("Corral"), can_share=False),
    Contender(
        "stochastic-corral",
        "StochasticCorral",
        "in the style of the publication: CORRAL over smoothed learners, η = √(M / turns)",
        False,
        _weighing("StochasticCorral"),
        can_share=False,
    ),
    Contender(
        "stochastic-exp3p",
        "StochasticEXP3P",
        "in the style of the publication: EXP3.P over smoothed learners, floor for unknown c",
        False,
        _weighing("StochasticEXP3P"),
        can_share=False,
    ),
    Contender(
        "tsallis-corral",
        "TsallisCorral",
        "in the style of the authors' code: η = βᵏ / √t, β = exp(1 / ln T)",
        False,
        _weighing("TsallisCorral"),
        can_share=False,
    ),
    Contender("ucbc", "UCBC", "UCB-C-style: scaled bounds, R(n)/n + w √(ln T / (2 n)), one copy", False, _ucbc),
    Contender("ucb1", "UCB1", "mean + w √(ln t / (2 n))", False, _without_bounds("UCB1")),
    Contender("exp3", "EXP3", "η = √(2 ln M / (M T))", False, _told_the_horizon("EXP3")),
    Contender("greedy-mean", "GreedyMean", "highest mean reward so far", False, _without_bounds("GreedyMean")),
    Contender("uniform", "Uniform", "any learner, equally likely", False, _without_bounds("Uniform")),
    Contender("modcb", "ModCB", "κ = 1/3", True, _modcb, can_share=False, whole=True),
    Contender("alb-dim", "ALBDim", "ALB-Dim-style: first phase of 2,500 rounds", False, _alb_dim, False, True),
    Contender("osom", "OSOM", "OSOM-style: threshold of our own", False, _osom, can_share=False, whole=True),
    Contender(
        "misspecification-adaptive",
        "MisspecificationAdaptive",
        "Foster-et-al.-style: rates of the publication's order",
        False,
        _misspecification_adaptive,
        can_share=False,
        whole=True,
    ),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
