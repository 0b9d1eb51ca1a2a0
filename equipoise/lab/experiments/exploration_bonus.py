"""How much to explore? LSVI-UCB with bonus constants from far too small to theoretical, on two exploration problems.

A large constant explores for too long, a small one never finds the rewarding states, and the best constant differs
between problems. This is the episodic counterpart of tuning the confidence radius of OFUL. The selector is run with
three candidate bounds: observed bounds, the paper's formula times the constant (neither needs to hold for small
constants), and bound_scale w sqrt(d n), w the largest return, the same for all, so that only returns distinguish the
learners. `realized` balances the regret that returns show, without bounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), sections "Confidence parameter tuning in OFUL" and "Linear
Markov Decision Processes with Nested Model Classes".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from equipoise.bounds import Power
from equipoise.lab.experiment import USUAL, Experiment, Setup, balancing_selectors, usual_bounds
from equipoise.learners import LSVI_UCB
from equipoise.learners.lsvi_ucb import paper_bound
from equipoise.problems import CombinationLock, RiverSwim
from equipoise.types import Plain

PROBLEMS: dict[str, Callable[[int], RiverSwim | CombinationLock]] = {
    "river-swim": lambda seed: RiverSwim(n_states=4, horizon=12),
    "combination-lock": lambda seed: CombinationLock(horizon=5, n_actions=3, seed=seed),
}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    problem = PROBLEMS[settings["instance"]](seed)
    horizon, episodes, constants = problem.horizon, settings["rounds"], settings["constants"]
    learners = tuple(
        LSVI_UCB(problem.features, horizon=horizon, episodes=episodes, bonus=constant, name=f"c = {constant:g}")
        for constant in constants
    )
    dim, largest_return = learners[0].dim, problem.reward_range[1]
    printed = paper_bound(dim, horizon=horizon, episodes=episodes, d_max=dim)
    bounds = usual_bounds(
        [Power(constant * printed.coefficient) for constant in constants],
        [Power(settings["bound_scale"] * largest_return * sqrt(dim)) for _ in constants],
    )
    # Episodes of both problems always start in the same state.
    shared_settings = {"delta": settings["delta"], "reward_range": problem.reward_range, "contexts": "fixed"}
    return Setup(problem, learners, balancing_selectors(bounds, **shared_settings))


EXPLORATION_BONUS = Experiment(
    name="exploration-bonus",
    title="Exploration bonus: how optimistic should LSVI-UCB be?",
    section="Confidence parameter tuning in OFUL",
    claim=(
        "Without knowing the right constant, balancing over a grid of constants keeps the regret within a factor of "
        "that of the best one, where the theorem's constant and a nearly greedy one both fail."
    ),
    defaults=dict(rounds=50_000, seeds=10, constants=[0.0001, 0.001, 0.01, 0.1, 1.0], bound_scale=3.0, delta=0.05),
    selectors=USUAL,
    build=build,
    instances=tuple(PROBLEMS),
)
