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
from typing import TypeAlias

from equipoise.bounds import LinearSqrt
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors
from equipoise.learners import LSVI_UCB, Eleanor, eleanor, lsvi_ucb
from equipoise.problems import LinearMDP
from equipoise.settings.checks import count, one_of
from equipoise.types import Plain

INSTANCES = {"exactly linear": 0.0, "nearly linear": 0.1, "far from linear": 0.3}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dim, horizon = settings["dim"], settings["horizon"]
    error = INSTANCES[settings["instance"]]
    sizes = (settings["n_states"], settings["n_actions"], horizon, dim, dim)
    problem = LinearMDP(*sizes, misspecification=error, seed=seed)
    assumed = [2.0**-i / sqrt(dim) for i in range(count("n_learners", settings["n_learners"]))]
    kind = one_of("learner", settings["learner"], tuple(MAKERS))
    make_learner, make_bound = MAKERS[kind]
    learners = tuple(make_learner(problem, settings, error) for error in assumed)
    proven, scale = [make_bound(settings, error, assumed[0]) for error in assumed], settings["bound_scale"]
    scaled = [LinearSqrt(scale * bound.slope, scale * bound.coefficient) for bound in proven]
    known = {"delta": settings["delta"], "reward_range": problem.reward_range}
    selectors = balancing_selectors({"balanced-paper": proven, "balanced-scaled": scaled}, **known)
    true_error = problem.largest_error

    def facts() -> dict[str, float]:
        ratios = [learner.norm_ratio(0) for learner in learners if isinstance(learner, Eleanor)]
        return {"eps*": true_error, **({"greatest norm over its bound": max(ratios)} if ratios else {})}

    return Setup(
        problem,
        learners,
        selectors,
        facts=facts,
        well_specified=lambda: [error >= true_error for error in assumed],
    )


def make_lsvi_ucb(problem: LinearMDP, settings: Mapping[str, Plain], error: float) -> LSVI_UCB:
    return LSVI_UCB(
        problem.features,
        horizon=problem.horizon,
        episodes=settings["rounds"],
        bonus=settings["bonus"],
        misspecification=error,
        name=f"eps {error:.3g}",
    )


def lsvi_ucb_bound(settings: Mapping[str, Plain], error: float, largest: float) -> LinearSqrt:
    return lsvi_ucb.misspecified_bound(
        settings["dim"],
        horizon=settings["horizon"],
        episodes=settings["rounds"],
        misspecification=error,
        max_misspecification=largest,
        bonus=settings["bonus"],
    )


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


def eleanor_bound(settings: Mapping[str, Plain], error: float, largest: float) -> LinearSqrt:
    return eleanor.paper_bound(settings["dim"], horizon=settings["horizon"], misspecification=error)


# For each kind of learner, what makes a learner and its bound.
Makers: TypeAlias = tuple[
    Callable[[LinearMDP, Mapping[str, Plain], float], LSVI_UCB | Eleanor],
    Callable[[Mapping[str, Plain], float, float], LinearSqrt],
]
MAKERS: dict[str, Makers] = {
    "lsvi-ucb": (make_lsvi_ucb, lsvi_ucb_bound),
    "eleanor": (make_eleanor, eleanor_bound),
}

BELLMAN_ERROR = Experiment(
    name="bellman-error",
    title="Unknown approximation error: how far from linear?",
    section="Linear Bandits and MDPs with Unknown Approximation Error",
    claim=(
        "Balancing over a grid of assumed errors eps_i has, up to logarithms, the regret of the learner that knows the "
        "true error eps*: H d sqrt(T) + H sqrt(d) eps* T for ELEANOR, H^2 sqrt(d^3 T) + H^2 d eps* T for LSVI-UCB."
    ),
    defaults={
        "rounds": 100_000,
        "seeds": 10,
        "learner": "lsvi-ucb",
        "n_states": 10,
        "n_actions": 3,
        "horizon": 3,
        "dim": 4,
        "n_learners": 8,
        "bonus": 0.02,
        "bound_scale": 0.25,
        "delta": 0.05,
    },
    selectors=("balanced-paper", "balanced-scaled", "realized"),
    build=build,
    instances=tuple(INSTANCES),
    setting="""\
A decision process with 10 states, 3 actions and 3 steps, linear in d = 4 features up to an error: rewards and
transitions are mixtures with a random part that the features do not represent, of weight 0, 0.1 or 0.3. The error eps*
is the largest distance of rewards, and of transitions in total variation, from the linear process; the problem computes
it.

Learner i is LSVI-UCB with the bonus for processes that are linear up to eps_i = 1/2, 1/4, ..., 1/256, as many as in the
paper: 8 = ceil(1 + log2(T / d^2) / 2) for T = 100,000. In the figure, learners with eps_i < eps*, which are
misspecified, are dotted.

The paper's learner is ELEANOR, for which no efficient method is known; LSVI-UCB takes its place, and its own bound that
of ELEANOR: H^2 sqrt(d^3 n) + H^2 d eps_i n with the constants and logarithms of its observed bound (`balanced-paper`;
it holds if the exploration bonus makes values optimistic), and a quarter of it (`balanced-scaled`).
`--set learner="eleanor"` runs ELEANOR with a local solver, and the paper's H d sqrt(n) + H sqrt(d) eps_i n.""",
)
