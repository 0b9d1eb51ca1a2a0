"""Who takes part: every selector with the constants of its publication, the same on all instances.

Where a selector needs candidate bounds it gets the scaled ones of the instance, or those that learners observe of
themselves. All get the same failure probability, the range of the rewards and the law of the noise as far as they ask.
Learners that select a model inside themselves take part, in place of learners and selector, where they are made for
the question that the instance asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from equipoise.errors import IncompatibleLearner
from equipoise.lab.suite.instances import World
from equipoise.learner import Learner
from equipoise.learners import OFUL, OSOM, ALBDim, MisspecificationAdaptive, ModCB
from equipoise.problems import DisjointLinearBandit, LinearBandit, MisspecifiedLinearBandit
from equipoise.selector import Selector
from equipoise.selectors import SELECTORS
from equipoise.types import Config, Plain

DELTA = 0.05
ORACLE = "oracle"  # the best learner alone; not run, but read off the learners' own curves
Builder: TypeAlias = Callable[[World, int], Selector]  # of one seed of an instance and the rounds
LearnerBuilder: TypeAlias = Callable[[World, int], Learner]


@dataclass(frozen=True)
class Contender:
    """A selector, or a learner that takes the place of learners and selector; it has a builder of either kind."""

    label: str
    selector: str  # name in the registry of selectors, or of learners
    constants: str  # in words
    guaranteed: bool  # whether a regret bound is proved of it as it runs here; not so of what is only in a style
    build: Builder | None = None
    build_learner: LearnerBuilder | None = None
    can_share: bool = True  # whether it may run while learners learn from each other's rounds

    @property
    def whole(self) -> bool:
        """Whether it is a learner that needs no selector."""
        return self.build_learner is not None

    def selector_for(self, world: World, rounds: int) -> Selector:
        if self.build is None:
            raise IncompatibleLearner(f"{self.label} is no selector")
        return self.build(world, rounds)

    def learner_for(self, world: World, rounds: int) -> Learner:
        if self.build_learner is None:
            raise IncompatibleLearner(f"{self.label} is no learner")
        return self.build_learner(world, rounds)


def _settings(world: World) -> Config:
    problem = world.problem
    return {
        "delta": DELTA,
        "reward_range": problem.reward_range,
        "noise": problem.noise,
        "contexts": world.contexts,
    }


def _with_bounds(name: str, *, observed: bool = False) -> Builder:
    return lambda world, rounds: SELECTORS[name](world.observed if observed else world.scaled, **_settings(world))


def _without_bounds(name: str, **constants: Plain) -> Builder:
    return lambda world, rounds: SELECTORS[name](len(world.learners), **_settings(world), **constants)


def _told_the_horizon(name: str) -> Builder:
    return lambda world, rounds: SELECTORS[name](len(world.learners), horizon=rounds, **_settings(world))


def _in_range(world: World, name: str) -> Config:
    """The settings of a selector whose theory needs rewards that never leave their range."""
    settings = _settings(world)
    if settings.pop("noise") is not None:
        raise _made_for(name, "rewards in a range")
    return settings


def _weighing(name: str, **constants: Plain) -> Builder:
    return lambda world, rounds: SELECTORS[name](
        len(world.learners), horizon=rounds, **_in_range(world, name), **constants
    )


def _ucbc(world: World, rounds: int) -> Selector:
    selector: Selector = SELECTORS["UCBC"](world.scaled, horizon=rounds, **_in_range(world, "UCBC"))
    return selector


def _made_for(name: str, problem: str) -> IncompatibleLearner:
    return IncompatibleLearner(f"{name} is made for {problem}")


def _linear_learners(world: World, name: str) -> list[OFUL]:
    learners = [learner for learner in world.learners if isinstance(learner, OFUL)]
    if not learners:
        raise _made_for(name, "linear rewards")
    return learners


def _known(world: World, name: str) -> Config:
    """What a linear learner is told, as the learners of the instance are."""
    largest = _linear_learners(world, name)[-1]
    return {"norm_bound": largest.norm_bound, "noise": largest.noise, "delta": DELTA}


def _nested_dims(world: World, name: str) -> list[int]:
    dims = [learner.dim for learner in _linear_learners(world, name)]
    if not isinstance(world.problem, LinearBandit) or len(set(dims)) < len(world.learners):
        raise _made_for(name, "nested features")
    return dims


def _modcb(world: World, rounds: int) -> ModCB:
    return ModCB(_nested_dims(world, "ModCB"), **_known(world, "ModCB"))


def _alb_dim(world: World, rounds: int) -> ALBDim:
    return ALBDim(max(_nested_dims(world, "ALB-Dim")), **_known(world, "ALB-Dim"))


def _osom(world: World, rounds: int) -> OSOM:
    problem = world.problem
    if not isinstance(problem, DisjointLinearBandit):
        raise _made_for("OSOM", "attributes that may matter or not")
    return OSOM(problem.n_actions, dim=problem.n_columns, **_known(world, "OSOM"))


def _misspecification_adaptive(world: World, rounds: int) -> MisspecificationAdaptive:
    problem, name = world.problem, "MisspecificationAdaptive"
    if not isinstance(problem, MisspecifiedLinearBandit):
        raise _made_for(name, "nearly linear rewards")
    norm_bound = _known(world, name)["norm_bound"]
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
        _with_bounds("BalancedElimination", observed=True),
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
    Contender("modcb", "ModCB", "κ = 1/3", True, build_learner=_modcb, can_share=False),
    Contender(
        "alb-dim",
        "ALBDim",
        "ALB-Dim-style: first phase of 2,500 rounds",
        False,
        build_learner=_alb_dim,
        can_share=False,
    ),
    Contender("osom", "OSOM", "OSOM-style: threshold of our own", False, build_learner=_osom, can_share=False),
    Contender(
        "misspecification-adaptive",
        "MisspecificationAdaptive",
        "Foster-et-al.-style: rates of the publication's order",
        False,
        build_learner=_misspecification_adaptive,
        can_share=False,
    ),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
