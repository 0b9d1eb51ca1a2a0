"""Nested linear Markov decision processes: which of the first 2, 4, ..., d_max features matter?

Learner i is LSVI-UCB on the first d_i features; those with d_i below the hidden d* are misspecified. A round is an
episode, its reward the return in [0, H]. The selector is run with three candidate bounds: observed bounds, the paper's
H^2 sqrt(d_i^3 n) ln(d_max T / delta), and bound_scale H d_i sqrt(n): a small multiple of the rate in d of the best
known algorithm for linear processes, with neither the extra sqrt(d) of LSVI-UCB's proof nor logarithms.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Markov Decision Processes with Nested Model
Classes".
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.bounds import Power
from equipoise.lab.experiment import USUAL, Experiment, Setup, balancing_selectors, hidden, usual_bounds
from equipoise.lab.experiments.nested import nested_dims
from equipoise.learners import LSVI_UCB
from equipoise.learners.lsvi_ucb import paper_bound
from equipoise.problems import LinearMDP
from equipoise.types import Config, Plain

PROCESS: Config = {"n_states": 20, "n_actions": 4, "horizon": 5, "d_max": 16, "d_star": 8}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    horizon, episodes, d_max = settings["horizon"], settings["rounds"], settings["d_max"]
    problem = LinearMDP(*(settings[name] for name in PROCESS), seed=seed)
    dims = nested_dims(d_max)
    sizes = {"horizon": horizon, "episodes": episodes}
    learners = tuple(
        LSVI_UCB(problem.features, dim, **sizes, bonus=settings["bonus"], name=f"d = {dim}") for dim in dims
    )
    bounds = usual_bounds(
        [paper_bound(dim, **sizes, d_max=d_max) for dim in dims],
        [Power(settings["bound_scale"] * horizon * dim) for dim in dims],
    )
    shared_settings = {"delta": settings["delta"], "reward_range": problem.reward_range, "radius": settings["radius"]}
    selectors = balancing_selectors(bounds, **shared_settings)
    return Setup(problem, learners, selectors, **hidden("d*", dims, lambda: settings["d_star"]))


LINEAR_MDP = Experiment(
    name="linear-mdp",
    title="Nested linear decision processes: how many features matter?",
    section="Linear Markov Decision Processes with Nested Model Classes",
    claim=(
        "Without knowing d*, balancing over LSVI-UCB on the first 2, 4, ..., d_max features has regret of the order of "
        "LSVI-UCB on d* features, up to a factor sqrt(d*^3): learners with too few features are eliminated."
    ),
    defaults=dict(rounds=10_000, seeds=10, **PROCESS, bonus=0.015, bound_scale=0.7, delta=0.05, radius="mixture"),
    selectors=USUAL,
    build=build,
)
