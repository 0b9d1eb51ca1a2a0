"""The contenders: every selector with the constants of its publication, the same on all instances.

Where a selector needs candidate bounds it gets the scaled ones of the instance, or observed bounds. All get the same
failure probability, the range of the rewards and the noise level where they take them. Learners that select a model
internally take part in place of learners and selector, on the instances that they are designed for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from equipoise.errors import IncompatibleLearner
from equipoise.lab.rivals import OSOM, RIVAL_SELECTORS, ALBDim, MisspecificationAdaptive, ModCB
from equipoise.lab.suite.setups import InstanceSetup
from equipoise.learner import Learner
from equipoise.learners import OFUL
from equipoise.problems import DisjointLinearBandit, LinearBandit, MisspecifiedLinearBandit
from equipoise.selector import Selector
from equipoise.selectors import SELECTORS, CounterfactualBalancing
from equipoise.storage.registry import command_name
from equipoise.theory import first_rounds
from equipoise.types import Config

DELTA = 0.05
CLASSES: dict[str, Callable[..., Selector]] = {**SELECTORS, **RIVAL_SELECTORS}
# References, taken from the learners' own curves: the best learner alone, and the best greedy expert alone.
ORACLE, BEST_GREEDY = "oracle", "best-greedy"
REFERENCES = (ORACLE, BEST_GREEDY)
# Of the name of a class, one seed of an instance and the rounds.
Builder: TypeAlias = Callable[[str, InstanceSetup, int], Selector]
LearnerBuilder: TypeAlias = Callable[[InstanceSetup, int], Learner]

# Of what a regret bound is proved. CORRAL's theorem needs learners that are stable under importance weights, which is
# proved of none of these, and another learning rate; ModCB's is about the limit of many rounds; Regret Balancing's is
# about one common bound.
ANY = "the regret of any learner"
SCALED = "if a scaled bound is true"
OBSERVED = "if a learner's confidence sets hold"


@dataclass(frozen=True)
class Contender:
    """A selector, or a learner that takes the place of learners and selector; it has a builder of either kind."""

    selector: str  # name in the registry of selectors, or of learners
    constants: str  # description
    build: Builder | None = None
    proof: str = ""  # of what a regret bound is proved as it runs here; empty if of nothing
    build_learner: LearnerBuilder | None = None
    build_shared: Builder | None = None  # where learners share data, if the selector itself decides who learns
    bound: Callable[[int], float] | None = None  # that bound in the reference setting, if its constants are known
    variant: str = ""  # its label, where a selector takes part more than once

    @property
    def label(self) -> str:
        return self.variant or command_name(self.selector)

    @property
    def can_share(self) -> bool:
        """Whether it may run while learners learn from each other's rounds."""
        return not self.whole and self.build is not _with_weights

    @property
    def informative_from(self) -> int | None:
        """The first number of rounds at which its bound is below the regret that nobody exceeds; None if unknown."""
        return None if self.bound is None else first_rounds.first_rounds(self.bound)

    @property
    def whole(self) -> bool:
        """Whether it is a learner that needs no selector."""
        return self.build_learner is not None

    def selector_for(self, setup: InstanceSetup, rounds: int, shared: bool = False) -> Selector:
        build = self.build_shared if shared and self.build_shared is not None else self.build
        if build is None:
            raise IncompatibleLearner(f"{self.label} is not a selector")
        return build(self.selector, setup, rounds)

    def learner_for(self, setup: InstanceSetup, rounds: int) -> Learner:
        if self.build_learner is None:
            raise IncompatibleLearner(f"{self.label} is not a learner")
        return self.build_learner(setup, rounds)


def _settings(setup: InstanceSetup) -> Config:
    problem = setup.problem
    return {"delta": DELTA, "reward_range": problem.reward_range, "noise": problem.noise, "contexts": setup.contexts}


def _built(
    name: str, setup: InstanceSetup, rounds: int, *, bounds: str = "", timed: bool = False, in_range: bool = False
) -> Selector:
    """The selector with bounds of the instance, or with none; `in_range` if its theory needs bounded rewards."""
    settings = _settings(setup)
    if in_range and settings.pop("noise") is not None:
        raise _designed_for(name, "rewards in a range")
    candidates = {"": len(setup.learners), "scaled": setup.scaled, "observed": setup.observed}[bounds]
    return CLASSES[name](candidates, **settings, **({"rounds": rounds} if timed else {}))


_without_bounds = _built
_with_bounds, _with_observed = partial(_built, bounds="scaled"), partial(_built, bounds="observed")
_with_rounds, _with_weights = partial(_built, timed=True), partial(_built, timed=True, in_range=True)
_ucbc = partial(_built, bounds="scaled", timed=True, in_range=True)


def _counterfactual(name: str, setup: InstanceSetup, rounds: int, *, share_data: bool = False) -> Selector:
    if setup.continuous and not share_data:
        raise _designed_for(f"{name} without shared data", "finite sets, where proposals can agree")
    return CounterfactualBalancing.for_learners(setup.learners, share_data=share_data, **_settings(setup))


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


_ALL = (
    Contender(
        "RealizedBalancing",
        "no bounds, all settings by default",
        _without_bounds,
        ANY,
        bound=first_rounds.realized_balancing,
    ),
    Contender(
        "CounterfactualBalancing",
        "agreed teaching where it is sound, greedy experts, all settings by default",
        _counterfactual,
        ANY,
        build_shared=partial(_counterfactual, share_data=True),
        bound=first_rounds.counterfactual_balancing,
    ),
    Contender(
        "BalancedElimination",
        "scaled bounds, mixture radius",
        _with_bounds,
        SCALED,
        bound=first_rounds.balanced_elimination,
        variant="balanced-scaled",
    ),
    Contender(
        "BalancedElimination", "observed bounds, mixture radius", _with_observed, OBSERVED, variant="balanced-observed"
    ),
    Contender("RegretBalancing", "scaled bounds", _with_bounds),
    Contender(
        "DynamicBalancing",
        "scaled bounds, v = 1, b = 0, mixture radius",
        _with_bounds,
        SCALED,
        bound=first_rounds.balanced_elimination,
    ),
    Contender("D3RB", "d_min = 1, mixture radius", _without_bounds, ANY, bound=first_rounds.d3rb),
    Contender("ED2RB", "d_min = 1, mixture radius", _without_bounds, ANY),
    Contender(
        "ExploreCommitExploit",
        "ECE-style: scaled bounds, explores with probability t^(-1/3), a schedule of our own",
        _with_bounds,
    ),
    Contender(
        "RateAdaptive", "Bibaut-style: explores with probability t^(-1/3), a schedule of our own", _without_bounds
    ),
    Contender("Corral", "η = √(M / T)", _with_weights),
    Contender(
        "StochasticCorral",
        "in the style of the publication: CORRAL over smoothed learners, η = √(M / turns)",
        _with_weights,
    ),
    Contender(
        "StochasticEXP3P",
        "in the style of the publication: EXP3.P over smoothed learners, floor for unknown c",
        _with_weights,
    ),
    Contender("TsallisCorral", "in the style of the authors' code: η = βᵏ / √t, β = exp(1 / ln T)", _with_weights),
    Contender("UCBC", "UCB-C-style: scaled bounds, R(n)/n + w √(ln T / (2 n)), one copy", _ucbc),
    Contender("UCB1", "mean + w √(ln t / (2 n))", _without_bounds),
    Contender("EXP3", "η = √(2 ln M / (M T))", _with_rounds),
    Contender("GreedyMean", "highest mean reward so far", _without_bounds),
    Contender("Uniform", "any learner, equally likely", _without_bounds),
    Contender("ModCB", "κ = 1/3", build_learner=_modcb),
    Contender("ALBDim", "ALB-Dim-style: first phase of 2,500 rounds", build_learner=_alb_dim),
    Contender("OSOM", "OSOM-style: threshold of our own", build_learner=_osom),
    Contender(
        "MisspecificationAdaptive",
        "Foster-et-al.-style: rates of the publication's order",
        build_learner=_misspecification_adaptive,
    ),
)
CONTENDERS = {contender.label: contender for contender in _ALL}
