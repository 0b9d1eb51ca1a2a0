"""Unknown approximation error: how far from linear is the process?

Learner i assumes an error of eps_i = 2^(1 - i) / sqrt(d) and explores accordingly: too large a value never stops
exploring, too small a one may settle on a suboptimal policy. The process is linear up to an error that is unknown to
the learners. Learners are LSVI-UCB with the bonus for misspecified processes, which is tractable, or ELEANOR with a
local solver, which is slow: use few rounds. The selector is run with the bound of the learner that runs, and with the
same scaled down: for LSVI-UCB the closed form of its observed bound, H^2 sqrt(d^3 n) + H^2 d eps_i n with constants and
logarithms; for ELEANOR the paper's C H d sqrt(n) + C H sqrt(d) eps_i n for C = 1.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits and MDPs with Unknown Approximation
Error".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any, TypeAlias

from equipoise.bounds import LinearSqrt
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors
from equipoise.learners import LSVI_UCB, Eleanor
from equipoise.problems import LinearMDP
from equipoise.settings.checks import count, one_of
from equipoise.types import Config, Plain

PROCESS: Config = {"n_states": 10, "n_actions": 3, "horizon": 3, "dim": 4}
INSTANCES = {"exactly linear": 0.0, "nearly linear": 0.1, "far from linear": 0.3}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dim, error = settings["dim"], INSTANCES[settings["instance"]]
    sizes = (settings["n_states"], settings["n_actions"], settings["horizon"], dim, dim)
    problem = LinearMDP(*sizes, misspecification=error, seed=seed)
    assumed = [2.0**-i / sqrt(dim) for i in range(count("n_learners", settings["n_learners"]))]
    kind = one_of("learner", settings["learner"], tuple(MAKERS))
    make_learner, make_bound = MAKERS[kind]
    learners = tuple(make_learner(problem, settings, error) for error in assumed)
    proven, scale = [make_bound(learner, assumed[0]) for learner in learners], settings["bound_scale"]
    scaled = [LinearSqrt(scale * bound.slope, scale * bound.coefficient) for bound in proven]
    known = {"delta": settings["delta"], "reward_range": problem.reward_range}
    selectors = balancing_selectors({"balanced-paper": proven, "balanced-scaled": scaled}, **known)
    true_error = problem.largest_error

    def facts() -> dict[str, float]:
        ratios = [learner.norm_ratio(0) for learner in learners if isinstance(learner, Eleanor)]
        return {"eps*": true_error, **({"greatest norm over its bound": max(ratios)} if ratios else {})}

    return Setup(
        problem, learners, selectors, facts=facts, well_specified=lambda: [error >= true_error for error in assumed]
    )


def make_lsvi_ucb(problem: LinearMDP, settings: Mapping[str, Plain], error: float) -> LSVI_UCB:
    known = {"horizon": problem.horizon, "episodes": settings["rounds"], "bonus": settings["bonus"]}
    return LSVI_UCB(problem.features, **known, misspecification=error, name=f"eps {error:.3g}")


def make_eleanor(problem: LinearMDP, settings: Mapping[str, Plain], error: float) -> Eleanor:
    return Eleanor(
        problem.features,
        horizon=problem.horizon,
        misspecification=error,
        scale=settings["bonus"],
        n_starts=0,
        finest_step=0.1,  # a coarse search: hundreds of episodes have to be planned
        name=f"eps {error:.3g}",
    )


# For each kind of learner, what makes a learner and its bound.
Makers: TypeAlias = tuple[
    Callable[[LinearMDP, Mapping[str, Plain], float], LSVI_UCB | Eleanor], Callable[[Any, float], LinearSqrt]
]
MAKERS: dict[str, Makers] = {
    "lsvi-ucb": (make_lsvi_ucb, LSVI_UCB.misspecified_bound),
    "eleanor": (make_eleanor, lambda learner, largest: learner.paper_bound()),
}

BELLMAN_ERROR = Experiment(
    name="bellman-error",
    title="Unknown approximation error: how far from linear?",
    section="Linear Bandits and MDPs with Unknown Approximation Error",
    claim=(
        "Balancing over a grid of assumed errors eps_i has, up to logarithms, the regret of the learner that knows the "
        "true error eps*: H d sqrt(T) + H sqrt(d) eps* T for ELEANOR, H^2 sqrt(d^3 T) + H^2 d eps* T for LSVI-UCB."
    ),
    defaults=dict(
        rounds=100_000, seeds=10, learner="lsvi-ucb", **PROCESS, n_learners=8, bonus=0.02, bound_scale=0.25, delta=0.05
    ),
    selectors=("balanced-paper", "balanced-scaled", "realized"),
    build=build,
    instances=tuple(INSTANCES),
)
