"""How much to explore? LSVI-UCB with bonus constants from far too small to theoretical, on two problems of exploration.

The theorem's constant explores for longer than anybody waits, a constant far too small never finds what pays; the best
lies orders of magnitude below the one and above the other, and differs between problems. This is to episodes what
tuning the confidence radius of OFUL is to bandits. The selector is run with three candidate bounds: what the learners
observe of themselves, the paper's formula times their constant (for small constants a claim that is false), and
bound_scale H sqrt(d n), the same for all, so that only returns tell them apart.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), sections "Confidence parameter tuning in OFUL" and "Linear
Markov Decision Processes with Nested Model Classes".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

from equipoise.bounds import Bound, Observed, Power
from equipoise.experiments.experiment import Experiment, Setup
from equipoise.learners import LSVI_UCB
from equipoise.learners.lsvi_ucb import paper_bound
from equipoise.problems import CombinationLock, RiverSwim
from equipoise.selectors import BalancedElimination
from equipoise.validation import one_of

PROBLEMS: dict[str, Callable[[int], Any]] = {
    "river-swim": lambda seed: RiverSwim(n_states=5, horizon=12),
    "combination-lock": lambda seed: CombinationLock(horizon=5, n_actions=3, slip=0.1, seed=seed),
}


def build(settings: Mapping[str, Any], seed: int) -> Setup:
    problem = PROBLEMS[one_of("problem", settings["problem"], tuple(PROBLEMS))](seed)
    horizon, episodes, constants = problem.horizon, settings["rounds"], settings["constants"]
    learners = tuple(
        LSVI_UCB(problem.features, horizon=horizon, episodes=episodes, bonus=constant, name=f"c = {constant:g}")
        for constant in constants
    )
    dim = learners[0].dim
    printed = paper_bound(dim, horizon=horizon, episodes=episodes, d_max=dim)
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in constants],
        "balanced-paper": [Power(constant * printed.coefficient) for constant in constants],
        "balanced-scaled": [Power(settings["bound_scale"] * horizon * sqrt(dim)) for _ in constants],
    }
    selectors = {
        # Episodes of both problems start in one state, so there is no luck of the context.
        label: BalancedElimination(
            candidates, delta=settings["delta"], reward_range=problem.reward_range, contexts="fixed"
        )
        for label, candidates in bounds.items()
    }
    return Setup(problem, learners, selectors)


EXPLORATION_BONUS = Experiment(
    name="exploration-bonus",
    title="Exploration bonus: how optimistic should LSVI-UCB be?",
    section="Confidence parameter tuning in OFUL",
    claim=(
        "Without knowing the right constant, balancing over a ladder of them keeps the regret within a factor of that "
        "of the best one, where the theorem's constant and a greedy one both lose nearly everything."
    ),
    defaults={
        "rounds": 50_000,
        "seeds": 10,
        "problem": "river-swim",
        "constants": [0.0001, 0.001, 0.01, 0.1, 1.0],
        "bound_scale": 0.8,
        "delta": 0.05,
    },
    selectors=("balanced-observed", "balanced-paper", "balanced-scaled"),
    build=build,
)
