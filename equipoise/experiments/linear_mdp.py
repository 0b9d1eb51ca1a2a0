"""Nested linear Markov decision processes: which of the first 2, 4, ..., d_max features matter?

Learner i is LSVI-UCB on the first d_i features; those with d_i below the hidden d* are misspecified. A round is an
episode, its reward the return in [0, H]. The selector is run with three candidate bounds: what the learners observe of
themselves, the paper's H^2 sqrt(d_i^3 n) ln(d_max T / delta), and bound_scale H d_i sqrt(n): a small multiple of
what the best known algorithm for linear processes attains in d, with neither the extra sqrt(d) of LSVI-UCB's proof nor
logarithms.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Markov Decision Processes with Nested Model
Classes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.bounds import Bound, Observed, Power
from equipoise.experiments.experiment import Experiment, Setup
from equipoise.experiments.nested import nested_dims
from equipoise.learners import LSVI_UCB
from equipoise.learners.lsvi_ucb import paper_bound
from equipoise.problems import LinearMDP
from equipoise.selectors import BalancedElimination


def build(settings: Mapping[str, Any], seed: int) -> Setup:
    horizon, episodes, d_max = settings["horizon"], settings["rounds"], settings["d_max"]
    problem = LinearMDP(settings["n_states"], settings["n_actions"], horizon, d_max, settings["d_star"], seed=seed)
    dims = nested_dims(d_max)
    learners = tuple(
        LSVI_UCB(problem.features, dim, horizon=horizon, episodes=episodes, bonus=settings["bonus"]) for dim in dims
    )
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in dims],
        "balanced-paper": [paper_bound(dim, horizon=horizon, episodes=episodes, d_max=d_max) for dim in dims],
        "balanced-scaled": [Power(settings["bound_scale"] * horizon * dim) for dim in dims],
    }
    selectors = {
        label: BalancedElimination(
            candidates, delta=settings["delta"], reward_range=problem.reward_range, radius=settings["radius"]
        )
        for label, candidates in bounds.items()
    }
    return Setup(problem, learners, selectors)


LINEAR_MDP = Experiment(
    name="linear-mdp",
    title="Nested linear decision processes: how many features matter?",
    section="Linear Markov Decision Processes with Nested Model Classes",
    claim=(
        "Without knowing d*, balancing over LSVI-UCB on the first 2, 4, ..., d_max features has regret of the order of "
        "LSVI-UCB on d* features, up to a factor sqrt(d*^3): learners with too few features are eliminated."
    ),
    defaults={
        "rounds": 10_000,
        "seeds": 10,
        "n_states": 20,
        "n_actions": 4,
        "horizon": 5,
        "d_max": 16,
        "d_star": 8,
        "bonus": 0.01,
        "bound_scale": 0.5,
        "delta": 0.05,
        "radius": "stitched",
    },
    selectors=("balanced-observed", "balanced-paper", "balanced-scaled"),
    build=build,
)
