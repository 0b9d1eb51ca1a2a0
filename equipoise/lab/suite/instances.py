"""The instances of the suite as data: what is hard about selecting, one difficulty each.

Most are settings of the experiments of the selection paper, made small enough that all selectors can be run on all of
them. An instance belongs to one half: selectors may be tuned on the tuning half, with other seeds than the suite has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Bound, Observed, Power
from equipoise.lab.experiment import Experiment
from equipoise.lab.experiments.context_or_not import CONTEXT_OR_NOT
from equipoise.lab.experiments.linear_mdp import LINEAR_MDP
from equipoise.lab.experiments.misspecification import MISSPECIFICATION
from equipoise.lab.experiments.nested import NESTED, NORM_BOUND
from equipoise.lab.experiments.ucb_width import UCB_WIDTH
from equipoise.learner import Learner, accepts, provides
from equipoise.learners import OFUL, UCB, Constant
from equipoise.problem import FullProblem
from equipoise.problems import DisjointLinearBandit, KArmedBandit, LinearBandit
from equipoise.selectors import BalancedElimination
from equipoise.types import Config, Plain

ROUNDS = 100_000
EPISODES = 5_000  # an episode of the decision process stands for several rounds, and takes as long
HALVES = ("tuning", "report")


class InstanceSetup(NamedTuple):
    """One seed of an instance: fresh objects, ready to run."""

    problem: FullProblem
    learners: tuple[Learner, ...]
    scaled: tuple[Bound, ...]  # candidate bounds in the learner's plays, with practical constants
    contexts: str = "random"  # or "fixed", where every round offers the same actions

    @property
    def observed(self) -> tuple[Bound, ...]:
        """Observed bounds, and scaled ones for learners that provide none."""
        pairs = zip(self.learners, self.scaled, strict=True)
        return tuple(Observed() if "regret" in provides(learner) else bound for learner, bound in pairs)

    @property
    def can_share(self) -> bool:
        """Whether some learner can learn from rounds it did not play; fixed rules do not learn."""
        learning = (learner for learner in self.learners if not isinstance(learner, Constant))
        return any("off_policy" in accepts(learner) for learner in learning)

    @property
    def width(self) -> float:
        low, high = self.problem.reward_range
        return float(high - low)


@dataclass(frozen=True)
class Instance:
    """A named instance; `build` makes one seed from `settings`, which are plain data and have "rounds"."""

    name: str
    tests: str  # what is hard about it, in one sentence
    half: str
    build: Callable[[Mapping[str, Plain], int], InstanceSetup]
    settings: Mapping[str, Plain] = field(default_factory=dict)
    rounds: int = ROUNDS

    def set_up(self, seed: int, rounds: int | None = None) -> InstanceSetup:
        """One seed, by default with the instance's own number of rounds."""
        return self.build(self.complete_settings(rounds), seed)

    def complete_settings(self, rounds: int | None = None) -> Config:
        """All that the instance depends on besides the seed, as plain data."""
        return {**self.settings, "rounds": self.rounds if rounds is None else rounds}


def _as_experiment(experiment: Experiment, settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    setup = experiment.build({**settings, "rounds": settings.get("built_for", settings["rounds"])}, seed)
    scaled = setup.selectors["balanced-scaled"]
    assert isinstance(scaled, BalancedElimination) and scaled.bounds is not None
    kept = settings.get("learners", range(len(setup.learners)))
    learners, bounds = tuple(setup.learners[i] for i in kept), tuple(scaled.bounds[i] for i in kept)
    return InstanceSetup(setup.problem, learners, bounds, scaled.contexts)


def _from_experiment(
    experiment: Experiment, name: str, tests: str, half: str, *, rounds: int = ROUNDS, **changes: Plain
) -> Instance:
    settings = {**experiment.defaults, **changes}
    return Instance(name, tests, half, partial(_as_experiment, experiment), settings, rounds)


def _confidence(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    dim, kappas, n_actions = settings["dim"], settings["kappas"], settings["n_actions"]
    noise = {"noise": "gaussian", "noise_scale": settings["noise_scale"]}
    # One fixed set of actions. As a table of one it runs on the drivers that are compiled for changing ones.
    problem = LinearBandit(dim, dim, n_actions, contexts="table", table_size=1, **noise, seed=seed)
    learners = tuple(
        OFUL(dim, norm_bound=NORM_BOUND, regularization=0.01, scale=kappa, name=f"kappa {kappa:g}") for kappa in kappas
    )
    return InstanceSetup(problem, learners, tuple(Power(kappa * dim) for kappa in kappas), "fixed")


def _many_learners(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """Fixed rules for all actions but the best one, and a learner that can find it."""
    n_actions, width = settings["n_learners"], settings["ucb_width"]
    means = np.append(np.linspace(settings["worst"], settings["second"], n_actions - 1), settings["best"])
    rules = tuple(Constant(action) for action in range(n_actions - 1))
    learners = (*rules, UCB(n_actions, scale=width, name="UCB"))
    scaled = (*(Power(1.0) for _ in rules), Power(2 * width * sqrt(n_actions)))
    return InstanceSetup(KArmedBandit(means), learners, scaled, "fixed")


def _slow_start(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """A safe rule that is good from the start, and learners that are poor until they have tried every action."""
    n_actions, widths = settings["n_actions"], settings["widths"]
    means = np.full(n_actions, settings["other"])
    means[0], means[-1] = settings["safe"], settings["best"]
    slow = tuple(UCB(n_actions, scale=width, name=f"UCB, width {width:g}") for width in widths)
    scaled = (Power(1.0), *(Power(2 * width * sqrt(n_actions)) for width in widths))
    return InstanceSetup(KArmedBandit(means), (Constant(0, name="safe rule"), *slow), scaled, "fixed")


def _exploration_trap(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """The best learner uses attributes and must itself explore many poor actions."""
    n_actions, n_attributes = settings["n_actions"], settings["n_attributes"]
    biases = np.full(n_actions, settings["other"])
    biases[:2] = settings["bias"]
    weights = np.zeros((n_actions, n_attributes))
    weights[:2, -1] = settings["effect"], -settings["effect"]
    problem = DisjointLinearBandit(biases, weights)
    n_seen = [0, 1, n_attributes]
    known = {"norm_bound": problem.norm, "scale": settings["oful_scale"]}
    learners = (
        UCB(n_actions, name="UCB, no context"),
        *(
            OFUL(n_actions * (1 + n), **known, name=f"OFUL, {n} attributes" if n > 1 else "OFUL, 1 attribute")
            for n in n_seen[1:]
        ),
    )
    return InstanceSetup(problem, learners, tuple(Power(settings["bound_scale"] * sqrt(1 + n)) for n in n_seen))


# Compiled drivers depend on the algorithms and on how many learners there are of each, so all instances with OFUL alone
# have four of them and run on one.
_SMALL = {"d_max": 16, "n_actions": 5}
_CONFIDENCE = {"dim": 8, "n_actions": 20, "kappas": [1.0, 0.25, 0.0625, 0.015625]}
_EVERY_OTHER: Config = {"learners": [1, 3, 5, 7], "built_for": ROUNDS}  # the rounds determine the length of the grid

_ALL = (
    _from_experiment(
        NESTED,
        "nested-small",
        "Few features matter: all learners are well specified, and playing several means learning several times.",
        "tuning",
        **_SMALL,
        d_star=2,
        signal=0.1,
    ),
    _from_experiment(
        NESTED, "nested-middle", "Half of the learners lack features that matter.", "report", **_SMALL, d_star=8
    ),
    _from_experiment(
        NESTED, "nested-full", "All features matter: only the largest learner is right.", "tuning", **_SMALL, d_star=16
    ),
    _from_experiment(
        NESTED,
        "nested-small-gap",
        "Learners with too few features lose little a round.",
        "report",
        **_SMALL,
        d_star=8,
        signal=0.25,
    ),
    _from_experiment(
        NESTED,
        "heavy-noise",
        "Noise as large as the whole range of expected rewards.",
        "report",
        **_SMALL,
        d_star=4,
        noise="gaussian",
        noise_scale=1.0,
    ),
    _from_experiment(
        NESTED,
        "almost-no-noise",
        "One play of an action nearly tells its expected reward.",
        "tuning",
        **_SMALL,
        d_star=8,
        noise="gaussian",
        noise_scale=0.01,
    ),
    _from_experiment(
        MISSPECIFICATION,
        "misspecified-not",
        "Exactly linear rewards: the least doubt is best.",
        "tuning",
        instance="exactly linear",
        **_EVERY_OTHER,
    ),
    _from_experiment(
        MISSPECIFICATION,
        "misspecified-far",
        "Rewards far from linear: a learner that assumes too small an error keeps losing.",
        "report",
        instance="far from linear",
        **_EVERY_OTHER,
    ),
    Instance(
        "confidence-quiet",
        "Noise a tenth of what is assumed: narrow ellipsoids are best.",
        "report",
        _confidence,
        {**_CONFIDENCE, "noise_scale": 0.05},
    ),
    Instance(
        "confidence-noisy",
        "Noise three fifths of what is assumed: narrow ellipsoids may fail.",
        "tuning",
        _confidence,
        {**_CONFIDENCE, "noise_scale": 0.3},
    ),
    _from_experiment(
        UCB_WIDTH,
        "ucb-width-noisy",
        "Narrow intervals fail in some seeds and cost nothing in others.",
        "tuning",
        instance="noisy rewards",
    ),
    _from_experiment(
        UCB_WIDTH,
        "ucb-width-quiet",
        "The narrowest intervals are best, the proven ones worst.",
        "report",
        instance="quiet rewards",
    ),
    _from_experiment(
        CONTEXT_OR_NOT,
        "context-useless",
        "The learner that ignores the context is best.",
        "report",
        instance="no attribute matters",
    ),
    _from_experiment(
        CONTEXT_OR_NOT,
        "context-needed",
        "Only the slowest learner looks at the attribute that matters.",
        "tuning",
        instance="the last attribute matters",
    ),
    Instance(
        "many-learners",
        "One good learner among 32, and it starts like the others.",
        "tuning",
        _many_learners,
        {"n_learners": 32, "worst": 0.3, "second": 0.5, "best": 0.7, "ucb_width": 0.25},
    ),
    Instance(
        "slow-start",
        "The learners that end best are poor at first, and a safe rule looks better for long.",
        "tuning",
        _slow_start,
        {"n_actions": 30, "safe": 0.6, "other": 0.4, "best": 0.8, "widths": [1.0, 0.5]},
    ),
    Instance(
        "exploration-trap",
        "Others teach the best learner all but what it explores, so that its own plays look poor.",
        "report",
        _exploration_trap,
        {
            "n_actions": 8,
            "n_attributes": 3,
            "bias": 0.7,
            "other": 0.15,
            "effect": 0.15,
            "oful_scale": 0.5,
            "bound_scale": 5.5,
        },
    ),
    _from_experiment(
        LINEAR_MDP,
        "linear-mdp",
        "A round is an episode of a decision process; half of the learners lack features.",
        "report",
        rounds=EPISODES,
    ),
)
INSTANCES = {instance.name: instance for instance in _ALL}
