"""Nested model classes: which of the first 2, 4, ..., d_max features matter?

Learner i is OFUL on the first d_i features. Those with d_i below the hidden d* are misspecified and have linear regret;
the largest is safe and slow. The selector is run with three candidate bounds: observed bounds, the paper's d_i C
sqrt(n) with its printed constant, and the same form scaled down to d_i sqrt(n) / 4.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits with Nested Model Classes".
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.bounds import Power
from equipoise.lab.experiment import USUAL, Experiment, Setup, balancing_selectors, usual_bounds
from equipoise.learners import OFUL
from equipoise.learners.oful import closed_form_constant
from equipoise.problems import LinearBandit
from equipoise.types import Config, Plain

NORM_BOUND = 1.1  # of theta in LinearBandit
SIZES: Config = {"d_max": 32, "d_star": 8, "n_actions": 10}
REWARDS: Config = {"contexts": "fresh", "table_size": 200, "noise": "bernoulli", "noise_scale": 0.1, "signal": 1.0}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    rewards = {name: settings[name] for name in REWARDS}
    problem = LinearBandit(*(settings[name] for name in SIZES), **rewards, seed=seed)
    dims = nested_dims(settings["d_max"])
    factor = 0.5 if problem.noise is None else problem.noise
    learners = tuple(OFUL(dim, noise=factor, norm_bound=NORM_BOUND) for dim in dims)
    constant = closed_form_constant(settings["rounds"], noise=factor, norm_bound=NORM_BOUND)
    bounds = usual_bounds(*([Power(dim * scale) for dim in dims] for scale in (constant, settings["bound_scale"])))
    contexts = "fixed" if settings["contexts"] == "fixed" else "random"
    known = {"delta": settings["delta"], "noise": problem.noise, "contexts": contexts, "radius": settings["radius"]}
    selectors = balancing_selectors(bounds, **known)
    return Setup(problem, learners, selectors, frozenset(selectors) if settings["share_data"] else frozenset())


def nested_dims(d_max: int) -> list[int]:
    """2, 4, 8, ... below d_max, and d_max."""
    dims = [2]
    while dims[-1] * 2 < d_max:
        dims.append(dims[-1] * 2)
    return [*dims, d_max] if d_max > 2 else dims


NESTED = Experiment(
    name="nested",
    title="Nested linear models: how many features matter?",
    section="Linear Bandits with Nested Model Classes",
    claim=(
        "Without knowing d*, balancing over OFUL on the first 2, 4, ..., d_max features has regret of order "
        "d*^2 sqrt(T): learners with too few features are eliminated, and the rest share the rounds so that their "
        "regret bounds stay level."
    ),
    defaults=dict(
        rounds=100_000, seeds=20, **SIZES, **REWARDS, bound_scale=0.25, delta=0.05, radius="mixture", share_data=False
    ),
    selectors=USUAL,
    build=build,
)
