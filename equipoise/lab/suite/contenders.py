"""The contenders: every selector with the constants of its publication, the same on all instances.

Where a selector needs candidate bounds it gets the scaled ones of the instance, or observed bounds. All get the same
failure probability, the range of the rewards and the noise level where they take them. Learners that select a model
internally take part in place of learners and selector, on the instances that they are designed for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from equipoise.errors import IncompatibleLearner
from equipoise.lab.suite.setups import InstanceSetup
from equipoise.learner import Learner
from equipoise.learners import OFUL, OSOM, ALBDim, MisspecificationAdaptive, ModCB
from equipoise.problems import DisjointLinearBandit, LinearBandit, MisspecifiedLinearBandit
from equipoise.selector import Selector
from equipoise.selectors import SELECTORS, CounterfactualBalancing
from equipoise.theory.first_rounds import (
    balanced_elimination,
    counterfactual_balancing,
    d3rb,
    first_rounds,
    realized_balancing,
)
from equipoise.types import Config, Plain

DELTA = 0.05
# References, taken from the learners' own curves: the best learner alone, and the best greedy twin alone.
ORACLE, BEST_TWIN = "oracle", "best-twin"
REFERENCES = (ORACLE, BEST_TWIN)
Builder: TypeAlias = Callable[[InstanceSetup, int], Selector]  # of one seed of an instance and the rounds
LearnerBuilder: TypeAlias = Callable[[InstanceSetup, int], Learner]


@dataclass(frozen=True)
class Contender:
    """A selector, or a learner that takes the place of learners and selector; it has a builder of either kind."""

    label: str
    selector: str  # name in the registry of selectors, or of learners
    constants: str  # description
    proof: str  # of what a regret bound is proved as it runs here; empty if of nothing
    build: Builder | None = None
    build_learner: LearnerBuilder | None = None
    can_share: bool = True  # whether it may run while learners learn from each other's rounds
    build_shared: Builder | None = None  # where learners share data, if the selector itself decides who learns
    bound: Callable[[int], float] | None = None  # that bound in the reference setting, if its constants are known

    @property
    def guaranteed(self) -> bool:
        """Whether a regret bound is proved for it as it runs here."""
        return self.proof != ""

    @property
    def informative_from(self) -> int | None:
        """The first number of rounds at which its bound is below the regret that nobody exceeds; None if unknown."""
        return None if self.bound is None else first_rounds(self.bound)

    @property
    def whole(self) -> bool:
        """Whether it is a learner that needs no selector."""
        return self.build_learner is not None

    def selector_for(self, setup: InstanceSetup, rounds: int, shared: bool = False) -> Selector:
        build = self.build_shared if shared and self.build_shared is not None else self.build
        if build is None:
            raise IncompatibleLearner(f"{self.label} is not a selector")
        return build(setup, rounds)

    def learner_for(self, setup: InstanceSetup, rounds: int) -> Learner:
        if self.build_learner is None:
            raise IncompatibleLearner(f"{self.label} is not a learner")
        return self.build_learner(setup, rounds)


def _settings(setup: InstanceSetup) -> Config:
    problem = setup.problem
    return {
        "delta": DELTA,
        "reward_range": problem.reward_range,
        "noise": problem.noise,
        "contexts": setup.contexts,
    }


def _with_bounds(name: str, *, observed: bool = False) -> Builder:
    return lambda setup, rounds: SELECTORS[name](setup.observed if observed else setup.scaled, **_settings(setup))


def _without_bounds(name: str, **constants: Plain) -> Builder:
    return lambda setup, rounds: SELECTORS[name](len(setup.learners), **_settings(setup), **constants)


def _with_rounds(name: str) -> Builder:
    return lambda setup, rounds: SELECTORS[name](len(setup.learners), rounds=rounds, **_settings(setup))


def _in_range(setup: InstanceSetup, name: str) -> Config:
    """The settings of a selector whose theory needs bounded rewards."""
    settings = _settings(setup)
    if settings.pop("noise") is not None:
        raise _designed_for(name, "rewards in a range")
    return settings


def _with_weights(name: str, **constants: Plain) -> Builder:
    return lambda setup, rounds: SELECTORS[name](
        len(setup.learners), rounds=rounds, **_in_range(setup, name), **constants
    )


def _ucbc(setup: InstanceSetup, rounds: int) -> Selector:
    selector: Selector = SELECTORS["UCBC"](setup.scaled, rounds=rounds, **_in_range(setup, "UCBC"))
    return selector


def _counterfactual(share_data: bool) -> Builder:
    def build(setup: InstanceSetup, rounds: int) -> Selector:
        settings = _settings(setup)
        if setup.continuous and not share_data:
            raise _designed_for("CounterfactualBalancing without shared data", "finite sets, where proposals can agree")
        return CounterfactualBalancing.for_learners(setup.learners, share_data=share_data, **settings)

    return build


def _designed_for(name: str, problem: str) -> IncompatibleLearner:
    return IncompatibleLearner(f"{name} is designed for {problem}")


def _linear_learners(setup: InstanceSetup, name: str) -> list[OFUL]:
    learners = [learner for learner in setup.learners if isinstance(learner, OFUL)]
    if not learners:
        raise _designed_for(name, "linear rewards")
    return learners


def _known(setup: InstanceSetup, name: str) -> Config:
    """The settings of a linear learner, as those of the instance's learners."""
    largest = _linear_learners(setup, name)[-1]
    return {"norm_bound": largest.norm_bound, "noise": largest.noise, "delta": DELTA}


def _nested_dims(setup: InstanceSetup, name: str) -> list[int]:
    dims = [learner.dim for learner in _linear_learners(setup, name)]
    if not isinstance(setup.problem, LinearBandit) or len(set(dims)) < len(setup.learners):
        raise _designed_for(name, "nested features")
    return dims


def _modcb(setup: InstanceSetup, rounds: int) -> ModCB:
    return ModCB(_nested_dims(setup, "ModCB"), **_known(setup, "ModCB"))


def _alb_dim(setup: InstanceSetup, rounds: int) -> ALBDim:
    return ALBDim(max(_nested_dims(setup, "ALB-Dim")), **_known(setup, "ALB-Dim"))


def _osom(setup: InstanceSetup, rounds: int) -> OSOM:
    problem = setup.problem
    if not isinstance(problem, DisjointLinearBandit):
        raise _designed_for("OSOM", "attributes that may matter or not")
    return OSOM(problem.n_actions, dim=problem.n_columns, **_known(setup, "OSOM"))


def _misspecification_adaptive(setup: InstanceSetup, rounds: int) -> MisspecificationAdaptive:
    problem, name = setup.problem, "MisspecificationAdaptive"
    if not isinstance(problem, MisspecifiedLinearBandit):
        raise _designed_for(name, "nearly linear rewards")
    norm_bound = _known(setup, name)["norm_bound"]
    return MisspecificationAdaptive(problem.n_columns, arms=problem.n_actions, rounds=rounds, norm_bound=norm_bound)


# Of what a regret bound is proved. CORRAL's theorem needs learners that are stable under importance weights, which is
# proved of none of these, and another learning rate; ModCB's is about the limit of many rounds; Regret Balancing's is
# about one common bound.
NOTHING = ""
ANY = "the regret of any learner"
SCALED = "if a scaled bound is true"
OBSERVED = "if a learner's confidence sets hold"

_ALL = (
    Contender(
        "realized-balancing",
        "RealizedBalancing",
        "no bounds, all settings by default",
        ANY,
        _without_bounds("RealizedBalancing"),
        bound=realized_balancing,
    ),
    Contender(
        "counterfactual-balancing",
        "CounterfactualBalancing",
        "agreed teaching where it is sound, greedy twins, all settings by default",
        ANY,
        _counterfactual(False),
        build_shared=_counterfactual(True),
        bound=counterfactual_balancing,
    ),
    Contender(
        "balanced-scaled",
        "BalancedElimination",
        "scaled bounds, mixture radius",
        SCALED,
        _with_bounds("BalancedElimination"),
        bound=balanced_elimination,
    ),
    Contender(
        "balanced-observed",
        "BalancedElimination",
        "observed bounds, mixture radius",
        OBSERVED,
        _with_bounds("BalancedElimination", observed=True),
    ),
    Contender("regret-balancing", "RegretBalancing", "scaled bounds", NOTHING, _with_bounds("RegretBalancing")),
    Contender(
        "dynamic-balancing",
        "DynamicBalancing",
        "scaled bounds, v = 1, b = 0, mixture radius",
        SCALED,
        _with_bounds("DynamicBalancing"),
        bound=balanced_elimination,
    ),
    Contender("d3rb", "D3RB", "d_min = 1, mixture radius", ANY, _without_bounds("D3RB"), bound=d3rb),
    Contender("ed2rb", "ED2RB", "d_min = 1, mixture radius", ANY, _without_bounds("ED2RB")),
    Contender(
        "explore-commit-exploit",
        "ExploreCommitExploit",
        "ECE-style: scaled bounds, explores with probability t^(-1/3), a schedule of our own",
        NOTHING,
        _with_bounds("ExploreCommitExploit"),
    ),
    Contender(
        "rate-adaptive",
        "RateAdaptive",
        "Bibaut-style: explores with probability t^(-1/3), a schedule of our own",
        NOTHING,
        _without_bounds("RateAdaptive"),
    ),
    Contender("corral", "Corral", "η = √(M / T)", NOTHING, _with_weights("Corral"), can_share=False),
    Contender(
        "stochastic-corral",
        "StochasticCorral",
        "in the style of the publication: CORRAL over smoothed learners, η = √(M / turns)",
        NOTHING,
        _with_weights("StochasticCorral"),
        can_share=False,
    ),
    Contender(
        "stochastic-exp3p",
        "StochasticEXP3P",
        "in the style of the publication: EXP3.P over smoothed learners, floor for unknown c",
        NOTHING,
        _with_weights("StochasticEXP3P"),
        can_share=False,
    ),
    Contender(
        "tsallis-corral",
        "TsallisCorral",
        "in the style of the authors' code: η = βᵏ / √t, β = exp(1 / ln T)",
        NOTHING,
        _with_weights("TsallisCorral"),
        can_share=False,
    ),
    Contender("ucbc", "UCBC", "UCB-C-style: scaled bounds, R(n)/n + w √(ln T / (2 n)), one copy", NOTHING, _ucbc),
    Contender("ucb1", "UCB1", "mean + w √(ln t / (2 n))", NOTHING, _without_bounds("UCB1")),
    Contender("exp3", "EXP3", "η = √(2 ln M / (M T))", NOTHING, _with_rounds("EXP3")),
    Contender("greedy-mean", "GreedyMean", "highest mean reward so far", NOTHING, _without_bounds("GreedyMean")),
    Contender("uniform", "Uniform", "any learner, equally likely", NOTHING, _without_bounds("Uniform")),
    Contender("mod-cb", "ModCB", "κ = 1/3", NOTHING, build_learner=_modcb, can_share=False),
    Contender(
        "alb-dim",
        "ALBDim",
        "ALB-Dim-style: first phase of 2,500 rounds",
        NOTHING,
        build_learner=_alb_dim,
        can_share=False,
    ),
    Contender("osom", "OSOM", "OSOM-style: threshold of our own", NOTHING, build_learner=_osom, can_share=False),
    Contender(
        "misspecification-adaptive",
        "MisspecificationAdaptive",
        "Foster-et-al.-style: rates of the publication's order",
        NOTHING,
        build_learner=_misspecification_adaptive,
        can_share=False,
    ),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
