"""The instances of the suite as data: what is hard about selecting, one difficulty each.

The first ones are small settings of the experiments of the selection paper. `BEYOND_PAPER` has settings in which
selectors that are good on average have failed. Runs that no compiled loop can do are short. An instance belongs to one
half: selectors may be tuned on the tuning half, with other seeds than the suite has. It also belongs to a group: the
leaderboard is over `BANDITS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from equipoise.bounds import Power
from equipoise.lab.experiments.ball import BallBandit
from equipoise.lab.experiments.context_or_not import CONTEXT_OR_NOT
from equipoise.lab.experiments.linear_mdp import LINEAR_MDP
from equipoise.lab.experiments.misspecification import MISSPECIFICATION
from equipoise.lab.experiments.nested import NESTED, NORM_BOUND, nested_dims
from equipoise.lab.experiments.ucb_width import UCB_WIDTH
from equipoise.lab.suite import setups
from equipoise.lab.suite.setups import FURTHER, Instance, InstanceSetup, from_experiment
from equipoise.learners import OFUL, UCB, Constant, Scheduled
from equipoise.problems import DisjointLinearBandit, DriftingBandit, KArmedBandit, LinearBandit
from equipoise.types import Config, Plain

# Compiled drivers depend on the algorithms and on how many learners there are of each, so all instances with OFUL alone
# have four of them and run on one.
SMALL: Config = {"d_max": 16, "n_actions": 5}
QUIET_ROUNDS = POOR_ROUNDS = 30_000
DRIFT_ROUNDS, MANY_ROUNDS = 10_000, 20_000
LATE_ROUNDS, BALL_ROUNDS = 4_000, 2_000
CONSTANT_EXPONENT = 1e-6  # n^s with this s stays below 1.0001 in all runs


class PoorStart(Scheduled):
    """A learner whose first plays are poor and which does not tell its greedy action: it has no greedy expert."""

    provides = Scheduled.provides - {"greedy"}


def _quiet(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """The status quo next to a learner that must first try all actions, most of them poor."""
    n_actions, noise = settings["n_actions"], settings["noise"]
    means = [settings["status_quo"], *[settings["other"]] * (n_actions - 2), settings["best"]]
    problem = KArmedBandit(means, noise="gaussian", noise_scale=noise)
    learners = Constant(0, name="status quo"), UCB(n_actions, name="UCB")
    return InstanceSetup(problem, learners, (Power(1.0), Power(2 * sqrt(n_actions))), "fixed")


def _poor_start(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """A rule that is fair from the start, and a learner that is poor in its first k plays and then the best."""
    k, (best, poor, fair) = settings["k"], settings["means"]
    problem = KArmedBandit([best, poor, fair], noise="uniform", noise_scale=settings["noise_scale"])
    gap = best - poor
    late = PoorStart("power", gap * (k + 0.5), CONSTANT_EXPONENT, gap=gap, name=f"poor in {k} plays")
    return InstanceSetup(problem, (Constant(2, name="fair rule"), late), (Power(1.0), Power(gap * sqrt(k))), "fixed")


def _drift(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """Three fixed rules; the expected rewards change from `before` to `after`, at once or over a number of rounds."""
    rounds, before, after = settings["rounds"], settings["before"], settings["after"]
    first = max(1, int(settings["change"] * rounds))
    last = first + max(1, int(settings["lasts"] * rounds))
    problem = DriftingBandit([before, after], knots=(first, last))
    rules = tuple(Constant(action) for action in range(len(before)))
    return InstanceSetup(problem, rules, tuple(Power(1.0) for _ in rules), "fixed")


def _ball(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    dims, noise = nested_dims(settings["d_max"]), settings["noise"]
    problem = BallBandit(settings["d_max"], settings["d_star"], noise)
    learners = tuple(OFUL(dim, noise=noise, reward_range=problem.reward_range) for dim in dims)
    return InstanceSetup(problem, learners, tuple(Power(dim / 4) for dim in dims), "fixed", continuous=True)


def rules_and_ucb(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """Fixed rules for all actions but the best one, and a learner that can find it."""
    n_actions, width = settings["n_learners"], settings["ucb_width"]
    means = np.append(np.linspace(settings["worst"], settings["second"], n_actions - 1), settings["best"])
    rules = tuple(Constant(action) for action in range(n_actions - 1))
    learners = (*rules, UCB(n_actions, scale=width, name="UCB"))
    scaled = (*(Power(1.0) for _ in rules), Power(2 * width * sqrt(n_actions)))
    return InstanceSetup(KArmedBandit(means), learners, scaled, "fixed")


def _quiet_instance(n_actions: int, noise: float) -> Instance:
    settings = {"n_actions": n_actions, "noise": noise, "status_quo": 0.5, "other": 0.1, "best": 0.9}
    tests = f"A status quo of 0.5 beside UCB, which must try {n_actions - 2} poor actions first; noise {noise:g}."
    return Instance(f"quiet-{n_actions}-arms-{noise:g}", tests, "tuning", _quiet, settings, QUIET_ROUNDS, setups.QUIET)


def _poor_instance(k: int) -> Instance:
    settings = {"k": k, "means": [0.95, 0.05, 0.5], "noise_scale": 0.02}
    tests = f"The best learner is the worst in its first {k} plays; rewards vary little."
    return Instance(f"poor-start-{k}", tests, "tuning", _poor_start, settings, POOR_ROUNDS, setups.POOR)


def _drift_instance(name: str, tests: str, before: list[float], after: list[float], **when: float) -> Instance:
    settings = {"before": before, "after": after, "change": 0.5, "lasts": 0.0, **when}
    return Instance(name, tests, "report", _drift, settings, DRIFT_ROUNDS, setups.DRIFT)


def _nested(name: str, tests: str, half: str, **changes: Plain) -> Instance:
    return from_experiment(NESTED, name, tests, half, **SMALL, **changes)


def _late_instance(name: str, tests: str, **what: float) -> Instance:
    settings = {"d_star": 4, "delay": 0.0, "lost": 0.0, **what}
    return _nested(name, tests, "report", rounds=LATE_ROUNDS, group=setups.LATE, **settings)


def _rules_instance(name: str, n_learners: int, half: str, **where: Plain) -> Instance:
    settings = {"n_learners": n_learners, "worst": 0.3, "second": 0.5, "best": 0.7, "ucb_width": 0.25}
    tests = f"One good learner among {n_learners}, and it starts like the others."
    return Instance(name, tests, half, rules_and_ucb, settings, **where)


def _confidence_instance(name: str, tests: str, half: str, noise_scale: float) -> Instance:
    settings = {"dim": 8, "n_actions": 20, "kappas": [1.0, 0.25, 0.0625, 0.015625], "noise_scale": noise_scale}
    return Instance(name, tests, half, _confidence, settings)


BEYOND_PAPER = (
    *(_quiet_instance(n_actions, noise) for n_actions in (10, 30) for noise in (0.02, 0.1)),
    *(_poor_instance(k) for k in (3, 10, 30, 100)),
    _drift_instance(
        "drift-swap", "At half-time the best and the worst rule change places.", [0.9, 0.5, 0.1], [0.1, 0.5, 0.9]
    ),
    _drift_instance(
        "drift-fade",
        "The best rule fades slowly until it is the worst.",
        [0.9, 0.6, 0.3],
        [0.1, 0.6, 0.3],
        change=0.25,
        lasts=0.5,
    ),
    _drift_instance(
        "drift-dormant",
        "The worst rule becomes the best at half-time; the others stay as they are.",
        [0.7, 0.5, 0.1],
        [0.7, 0.5, 0.9],
    ),
    _late_instance("late-rewards", "Rewards come 200 rounds late on average.", delay=200.0),
    _late_instance("lost-rewards", "One reward in a hundred never comes, and there is no deadline.", lost=0.01),
    Instance(
        "ball",
        "Every vector of a ball is an action, so that learners hardly ever agree.",
        "report",
        _ball,
        {"d_max": 8, "d_star": 4, "noise": 0.1},
        BALL_ROUNDS,
        FURTHER,
    ),
    _nested(
        "heavy-tails",
        "Rewards with heavy tails, cut off at the end of their range.",
        "report",
        d_star=4,
        noise="pareto",
        group=FURTHER,
    ),
    _rules_instance("hundred-learners", 100, "report", rounds=MANY_ROUNDS, group=FURTHER),
)


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


# The rounds determine the length of the grid.
_EVERY_OTHER: Config = {"learners": [1, 3, 5, 7], "built_for": setups.ROUNDS}

_ALL = (
    _nested(
        "nested-small",
        "Few features matter: all learners are well specified, and playing several means learning several times.",
        "tuning",
        d_star=2,
        signal=0.1,
    ),
    _nested("nested-middle", "Half of the learners lack features that matter.", "report", d_star=8),
    _nested("nested-full", "All features matter: only the largest learner is right.", "tuning", d_star=16),
    _nested("nested-small-gap", "Learners with too few features lose little a round.", "report", d_star=8, signal=0.25),
    _nested(
        "heavy-noise",
        "Noise as large as the whole range of expected rewards.",
        "report",
        d_star=4,
        noise="gaussian",
        noise_scale=1.0,
    ),
    _nested(
        "almost-no-noise",
        "One play of an action nearly tells its expected reward.",
        "tuning",
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
    _confidence_instance(
        "confidence-quiet", "Noise a tenth of what is assumed: narrow ellipsoids are best.", "report", 0.05
    ),
    _confidence_instance(
        "confidence-noisy", "Noise three fifths of what is assumed: narrow ellipsoids may fail.", "tuning", 0.3
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
    _rules_instance("many-learners", 32, "tuning"),
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
        dict(n_actions=8, n_attributes=3, bias=0.7, other=0.15, effect=0.15, oful_scale=0.5, bound_scale=5.5),
    ),
    from_experiment(
        LINEAR_MDP,
        "linear-mdp",
        "A round is an episode of a decision process; half of the learners lack features.",
        "report",
        rounds=setups.EPISODES,
        group=setups.EPISODIC,
    ),
)
INSTANCES = {instance.name: instance for instance in (*_ALL, *BEYOND_PAPER)}
