"""Wrong choices in several units of rewards, and regret with two origins: `python -m tools.studies.reward_units`.

    python -m tools.studies.reward_units [--rounds 800] [--seeds 5]

First the data sets of `public_data` with rewards at the two ends of a range: a learner should make equally many wrong
choices in all ranges. Then linear learners that measure rewards in (0, 1) from 0 or from 1/2, on random features with
and without a constant (8 actions with 6 features, norm at most 1, rewards 0 or 1, 2,000 rounds) and on the data sets,
whose rows have a constant: they are told a range of width 1 that begins at the origin. Figures are means over
seeds with standard errors; docs/guide/rewards.md has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.adapters import VW, Epsilon, Exploring, Sklearn
from equipoise.learners import OFUL, LinearThompson
from tools.main import run_command
from tools.studies.public_data import SGD, Problem, mean_with_error, play_live, problems

Range = tuple[float, float]
RANGES = ((0.0, 1.0), (0.0, 120.0), (0.0, 0.01), (100.0, 220.0))
LEARNERS: dict[str, Callable[[Problem], Any]] = {
    "OFUL": lambda problem: OFUL(problem.dim, scale=0.1, action_bound=1.5),
    "Thompson sampling": lambda problem: LinearThompson(problem.dim, scale=0.1, action_bound=1.5),
    "SGD, epsilon 0.1": lambda problem: Exploring(Sklearn(SGD, dim=problem.dim), Epsilon(0.1)),
    "VW --squarecb": lambda problem: VW("--squarecb --gamma_scale 30", dim=problem.dim),
    "VW --regcbopt": lambda problem: VW("--regcbopt --mellowness 0.01", dim=problem.dim),
    "VW --epsilon 0.1": lambda problem: VW("--epsilon 0.1", dim=problem.dim),
    "VW --softmax": lambda problem: VW("--softmax --lambda 10", dim=problem.dim),
}
LINEAR: dict[str, Callable[..., Any]] = {"OFUL": OFUL, "LinearThompson": LinearThompson}


def wrong_choices(
    name: str, problem: Problem, reward_range: Range, rounds: int, seeds: int, *, stated: Range | None = None
) -> list[float]:
    """Return the number of wrong choices with each seed; the learner is told the range, or another one."""
    counts = []
    for seed in range(seeds):
        learner = LEARNERS[name](problem)
        learner.configure(reward_range=stated or reward_range)
        counts.append(rounds - float(play_live(learner, problem, rounds, seed, reward_range).sum()))
    return counts


def regret_from(origin: float, make: Callable[..., Any], seed: int, *, constant: bool, rounds: int = 2_000) -> float:
    """Return the regret of a linear learner that subtracts `origin` from rewards of 0 or 1.

    The learner is told a range that begins there. Its decisions use the width of the range and the origin only.
    """
    rng = np.random.default_rng([seed, 7])
    theta = 2.0 * rng.dirichlet(np.ones(6))
    learner = make(6 + constant, scale=0.1, norm_bound=2.0, action_bound=1.5, reward_range=(origin, origin + 1.0))
    regret = 0.0
    for t in range(rounds):
        features = rng.random((8, 6))
        features /= np.linalg.norm(features, axis=1).max()
        means = np.clip(features @ theta, 0.0, 1.0)
        context = np.hstack([features, np.ones((8, 1))]) if constant else features
        action = learner.decide(context, np.random.default_rng([seed, t])).action
        learner.learn(context, action, float(rng.random() < means[action]))
        regret += float(means.max() - means[action])
    return regret


def run(rounds: int = 800, seeds: int = 5) -> None:
    """Print both tables."""
    print(f"\n### Wrong choices of {rounds:,} with rewards in a range, {seeds} seeds\n")
    print("| data | learner | " + " | ".join(f"({low:g}, {high:g})" for low, high in RANGES) + " |")
    print("|---|---|" + "---|" * len(RANGES))
    for problem in problems().values():
        for name in LEARNERS:
            counts = [wrong_choices(name, problem, limits, rounds, seeds) for limits in RANGES]
            columns = [f"{np.mean(each):.1f} ± {np.std(each, ddof=1) / np.sqrt(seeds):.1f}" for each in counts]
            print(f"| {problem.name} | {name} | {' | '.join(columns)} |", flush=True)
    print_origins(rounds, seeds)


def print_origins(rounds: int, seeds: int) -> None:
    """Print regret and wrong choices of linear learners with the origin at the low end and in the middle of (0, 1)."""
    print("\n### Origin at the low end and in the middle\n")
    print("| learner | what | low end | middle |\n|---|---|---|---|")
    for name, make in LINEAR.items():
        for constant in (False, True):
            pair = [
                [regret_from(origin, make, seed, constant=constant) for seed in range(seeds)] for origin in (0.0, 0.5)
            ]
            low, middle = (mean_with_error(np.array(each)) for each in pair)
            print(f"| {name} | regret, {'with' if constant else 'without'} a constant | {low} | {middle} |", flush=True)
    for problem in problems().values():
        for name in ("OFUL", "Thompson sampling"):
            told = ((origin, origin + 1.0) for origin in (0.0, 0.5))
            counts = [wrong_choices(name, problem, RANGES[0], rounds, seeds, stated=stated) for stated in told]
            low, middle = (mean_with_error(np.array(each)) for each in counts)
            print(f"| {name} | wrong choices, {problem.name} | {low} | {middle} |", flush=True)


if __name__ == "__main__":
    run_command(run)
