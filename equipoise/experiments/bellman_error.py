"""Unknown approximation error: how far from linear is the process?

Learner i presumes an error of eps_i = 2^(1 - i) / sqrt(d) and explores accordingly: too large a value explores for
ever, too small a one may settle on what a false model calls best. The process is linear up to an error that nobody is
told. Learners are LSVI-UCB with the bonus for misspecified processes, which is tractable, or ELEANOR with a local
solver, which takes tens of milliseconds per episode: use few rounds. The selector is run with the paper's
C H d sqrt(n) + C H sqrt(d) eps_i n for C = 1, and with that form scaled down.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits and MDPs with Unknown Approximation
Error".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from equipoise.bounds import Bound
from equipoise.experiments.experiment import Experiment, Setup
from equipoise.learners import LSVI_UCB, Eleanor
from equipoise.learners.eleanor import paper_bound
from equipoise.problems import LinearMDP
from equipoise.selectors import BalancedElimination
from equipoise.validation import count, one_of


def build(settings: Mapping[str, Any], seed: int) -> Setup:
    dim, horizon = settings["dim"], settings["horizon"]
    problem = LinearMDP(
        settings["n_states"],
        settings["n_actions"],
        horizon,
        dim,
        dim,
        misspecification=settings["misspecification"],
        seed=seed,
    )
    errors = [2.0**-i / sqrt(dim) for i in range(count("n_learners", settings["n_learners"]))]
    kind = one_of("learner", settings["learner"], ("lsvi-ucb", "eleanor"))
    learners = tuple(
        LSVI_UCB(
            problem.features,
            horizon=horizon,
            episodes=settings["rounds"],
            bonus=settings["bonus"],
            misspecification=error,
            name=f"eps = {error:.3g}",
        )
        if kind == "lsvi-ucb"
        else Eleanor(
            problem.features,
            horizon=horizon,
            misspecification=error,
            scale=settings["bonus"],
            n_starts=0,
            finest_step=0.1,  # a coarse search: thousands of episodes have to be planned
            name=f"eps = {error:.3g}",
        )
        for error in errors
    )

    def bounds(constant: float) -> list[Bound]:
        return [paper_bound(dim, horizon=horizon, misspecification=error, constant=constant) for error in errors]

    selectors = {
        label: BalancedElimination(bounds(constant), delta=settings["delta"], reward_range=problem.reward_range)
        for label, constant in (("balanced-paper", 1.0), ("balanced-scaled", settings["bound_scale"]))
    }
    return Setup(problem, learners, selectors)


BELLMAN_ERROR = Experiment(
    name="bellman-error",
    title="Unknown approximation error: how far from linear?",
    section="Linear Bandits and MDPs with Unknown Approximation Error",
    claim=(
        "Balancing over a ladder of presumed errors eps_i has regret of order H d sqrt(T) + H sqrt(d) eps T for the "
        "true error eps, without knowing it."
    ),
    defaults={
        "rounds": 10_000,
        "seeds": 10,
        "learner": "lsvi-ucb",
        "n_states": 10,
        "n_actions": 3,
        "horizon": 3,
        "dim": 4,
        "misspecification": 0.1,
        "n_learners": 6,
        "bonus": 0.02,
        "bound_scale": 0.25,
        "delta": 0.05,
    },
    selectors=("balanced-paper", "balanced-scaled"),
    build=build,
)
