"""The instances of the suite as data: what is hard about selecting, one difficulty each.

Most of those here are settings of the experiments of the selection paper, made small enough that all selectors can be
run on all of them; `equipoise.lab.suite.beyond_paper` has the others. An instance belongs to one half: selectors may be
tuned on the tuning half, with other seeds than the suite has. It also belongs to a group: the leaderboard is over
`BANDITS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from equipoise.bounds import Power
from equipoise.lab.experiments.context_or_not import CONTEXT_OR_NOT
from equipoise.lab.experiments.linear_mdp import LINEAR_MDP
from equipoise.lab.experiments.misspecification import MISSPECIFICATION
from equipoise.lab.experiments.nested import NESTED, NORM_BOUND
from equipoise.lab.experiments.ucb_width import UCB_WIDTH
from equipoise.lab.suite.beyond_paper import BEYOND_PAPER, SMALL, rules_and_ucb
from equipoise.lab.suite.setups import EPISODES, EPISODIC, ROUNDS, Instance, InstanceSetup, from_experiment
from equipoise.learners import OFUL, UCB, Constant
from equipoise.problems import DisjointLinearBandit, KArmedBandit, LinearBandit
from equipoise.types import Config, Plain


def _confidence(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    dim, kappas, n_actions = settings["dim"], settings["kappas"], settings["n_actions"]
    noise = {"noise": "gaussian", "noise_scale": settings["noise_scale"]}
    # One fixed set of actions. As a table of one it runs on the drivers that are compiled for changing ones.
    problem = LinearBandit(dim, dim, n_actions, contexts="table", table_size=1, **noise, seed=seed)
    learners = tuple(
        OFUL(dim, norm_bound=NORM_BOUND, regularization=0.01, scale=kappa, name=f"kappa {kappa:g}") for kappa in kappas
    )
    return InstanceSetup(problem, learners, tuple(Power(kappa * dim) for kappa in kappas), "fixed")


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
_CONFIDENCE = {"dim": 8, "n_actions": 20, "kappas": [1.0, 0.25, 0.0625, 0.015625]}
_EVERY_OTHER: Config = {"learners": [1, 3, 5, 7], "built_for": ROUNDS}  # the rounds determine the length of the grid

_ALL = (
    from_experiment(
        NESTED,
        "nested-small",
        "Few features matter: all learners are well specified, and playing several means learning several times.",
        "tuning",
        **SMALL,
        d_star=2,
        signal=0.1,
    ),
    from_experiment(
        NESTED, "nested-middle", "Half of the learners lack features that matter.", "report", **SMALL, d_star=8
    ),
    from_experiment(
        NESTED, "nested-full", "All features matter: only the largest learner is right.", "tuning", **SMALL, d_star=16
    ),
    from_experiment(
        NESTED,
        "nested-small-gap",
        "Learners with too few features lose little a round.",
        "report",
        **SMALL,
        d_star=8,
        signal=0.25,
    ),
    from_experiment(
        NESTED,
        "heavy-noise",
        "Noise as large as the whole range of expected rewards.",
        "report",
        **SMALL,
        d_star=4,
        noise="gaussian",
        noise_scale=1.0,
    ),
    from_experiment(
        NESTED,
        "almost-no-noise",
        "One play of an action nearly tells its expected reward.",
        "tuning",
        **SMALL,
        d_star=8,
        noise="gaussian",
        noise_scale=0.01,
    ),
    from_experiment(
        MISSPECIFICATION,
        "misspecified-not",
        "Exactly linear rewards: the least doubt is best.",
        "tuning",
        instance="exactly linear",
        **_EVERY_OTHER,
    ),
    from_experiment(
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
    from_experiment(
        UCB_WIDTH,
        "ucb-width-noisy",
        "Narrow intervals fail in some seeds and cost nothing in others.",
        "tuning",
        instance="noisy rewards",
    ),
    from_experiment(
        UCB_WIDTH,
        "ucb-width-quiet",
        "The narrowest intervals are best, the proven ones worst.",
        "report",
        instance="quiet rewards",
    ),
    from_experiment(
        CONTEXT_OR_NOT,
        "context-useless",
        "The learner that ignores the context is best.",
        "report",
        instance="no attribute matters",
    ),
    from_experiment(
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
        rules_and_ucb,
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
    from_experiment(
        LINEAR_MDP,
        "linear-mdp",
        "A round is an episode of a decision process; half of the learners lack features.",
        "report",
        rounds=EPISODES,
        group=EPISODIC,
    ),
)
INSTANCES = {instance.name: instance for instance in (*_ALL, *BEYOND_PAPER)}
