"""Instances beyond the selection paper: settings in which selectors that are good on average have failed.

Quiet rewards beside a status quo, learners whose first plays are poor, laws that change, rewards that come late or
never, infinitely many actions, heavy tails, many learners. Runs that no compiled loop can do, those with late rewards
and on a ball of actions, are short.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from equipoise.bounds import Power
from equipoise.lab.experiments.ball import BallBandit
from equipoise.lab.experiments.nested import NESTED, nested_dims
from equipoise.lab.suite.setups import DRIFT, FURTHER, LATE, POOR, QUIET, Instance, InstanceSetup, from_experiment
from equipoise.learners import OFUL, UCB, Constant, Scheduled
from equipoise.problems import DriftingBandit, KArmedBandit
from equipoise.types import Config, Plain

# All instances with OFUL alone have four of them, and run on one compiled driver.
SMALL: Config = {"d_max": 16, "n_actions": 5}
QUIET_ROUNDS = POOR_ROUNDS = 30_000
DRIFT_ROUNDS, MANY_ROUNDS = 10_000, 20_000
LATE_ROUNDS, BALL_ROUNDS = 4_000, 2_000
CONSTANT_EXPONENT = 1e-6  # n^s with this s stays below 1.0001 in all runs


class PoorStart(Scheduled):
    """A learner whose first plays are poor and which does not tell what it believes best, so that it has no twin."""

    provides = Scheduled.provides - {"greedy"}


def _quiet(settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    """The status quo beside a learner that must first try all actions, most of them poor."""
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
    return Instance(f"quiet-{n_actions}-arms-{noise:g}", tests, "tuning", _quiet, settings, QUIET_ROUNDS, QUIET)


def _poor_instance(k: int) -> Instance:
    settings = {"k": k, "means": [0.95, 0.05, 0.5], "noise_scale": 0.02}
    tests = f"The best learner is the worst in its first {k} plays; rewards vary little."
    return Instance(f"poor-start-{k}", tests, "tuning", _poor_start, settings, POOR_ROUNDS, POOR)


def _drift_instance(name: str, tests: str, before: list[float], after: list[float], **when: float) -> Instance:
    settings = {"before": before, "after": after, "change": 0.5, "lasts": 0.0, **when}
    return Instance(name, tests, "report", _drift, settings, DRIFT_ROUNDS, DRIFT)


def _late_instance(name: str, tests: str, **what: float) -> Instance:
    settings = {**SMALL, "d_star": 4, "delay": 0.0, "lost": 0.0, **what}
    return from_experiment(NESTED, name, tests, "report", rounds=LATE_ROUNDS, group=LATE, **settings)


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
    from_experiment(
        NESTED,
        "heavy-tails",
        "Rewards with heavy tails, cut off at the end of their range.",
        "report",
        **SMALL,
        d_star=4,
        noise="pareto",
        group=FURTHER,
    ),
    Instance(
        "hundred-learners",
        "One good learner among 100, and it starts like the others.",
        "report",
        rules_and_ucb,
        {"n_learners": 100, "worst": 0.3, "second": 0.5, "best": 0.7, "ucb_width": 0.25},
        MANY_ROUNDS,
        FURTHER,
    ),
)
