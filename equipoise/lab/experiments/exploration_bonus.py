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

from equipoise.bounds import Bound, Observed, Power
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors
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
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in constants],
        "balanced-paper": [Power(constant * printed.coefficient) for constant in constants],
        "balanced-scaled": [Power(settings["bound_scale"] * largest_return * sqrt(dim)) for _ in constants],
    }
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
    defaults={
        "rounds": 50_000,
        "seeds": 10,
        "constants": [0.0001, 0.001, 0.01, 0.1, 1.0],
        "bound_scale": 3.0,
        "delta": 0.05,
    },
    selectors=("balanced-observed", "balanced-paper", "balanced-scaled", "realized"),
    build=build,
    instances=tuple(PROBLEMS),
    setting="""\
Two processes in which a learner that does not explore earns almost nothing; a round is an episode, its reward the
return:

- *river-swim*: 4 states in a row, 12 steps; drifting back pays 0.005 at the left end, where episodes start, swimming
  against the current pays 1 at the right end; returns lie in [0, 12], the optimum is worth 2.66;
- *combination-lock*: 5 digits of 3 values each; the first wrong one ends the episode with a reward of 0.1, all five
  right pay 1; returns lie in [0, 1], the optimum is worth 1.

Learner i is LSVI-UCB on one-hot features (d = 8 and d = 18) with bonus constant c = 1, which is of the order that the
proof needs, down to 1/10,000. Bounds: observed widths, which assume that the bonus is large enough
(`balanced-observed`); the paper's c_i H^2 sqrt(d^3 n) ln(d T / delta) (`balanced-paper`); and 3 w sqrt(d n) for all
alike, w the largest return (`balanced-scaled`). `realized` balances the regret that returns show, without bounds.""",
)
