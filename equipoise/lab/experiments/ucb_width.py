"""The first example of the paper's introduction: how wide should the confidence intervals of UCB be?

Learner i is UCB with its proven widths times width_i, from 1 down to far too small. On noisy rewards a narrow learner
may give up the best action after a few unlucky plays and never try it again; with hardly any noise it wastes nothing.
The selector is run with three candidate bounds: observed bounds, the bound that follows from the widths with its proven
constant, and the same form with a smaller one.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Introduction".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt

import numpy as np

from equipoise.bounds import Power
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, stitched_bracket
from equipoise.lab.experiment import USUAL, Experiment, Setup, balancing_selectors, usual_bounds
from equipoise.learners import UCB
from equipoise.problems import KArmedBandit
from equipoise.types import Plain

NOISE, DELTA = 0.5, 0.01  # of the learners: all that is known of the rewards is that they lie in [0, 1]
PROBLEMS = {
    "noisy rewards": lambda: KArmedBandit([0.7, 0.5, 0.5, 0.5, 0.5]),
    "quiet rewards": lambda: KArmedBandit(np.linspace(0.5, 0.6, 30), noise="uniform", noise_scale=0.1),
}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    problem, widths = PROBLEMS[settings["instance"]](), settings["widths"]
    n_actions = problem.n_actions
    learners = tuple(UCB(n_actions, noise=NOISE, delta=DELTA, scale=width, name=f"width {width:g}") for width in widths)
    proven = closed_form_constant(settings["rounds"], n_actions)
    bounds = usual_bounds(
        [Power(width * proven) for width in widths],
        [Power(width * settings["bound_scale"] * sqrt(n_actions)) for width in widths],
    )
    return Setup(problem, learners, balancing_selectors(bounds, delta=settings["delta"], contexts="fixed"))


def closed_form_constant(rounds: int, n_actions: int) -> float:
    """C of the bound C sqrt(n) on the regret of UCB with its proven widths.

    A play loses at most twice the width of its action, 1.7 sigma sqrt(L / m) after m plays of it, with L the bracket of
    the radius at n = `rounds`; the sum over m is at most 2 sqrt(m), and over the actions at most 2 sqrt(K n).
    """
    bracket = stitched_bracket(rounds, log(STITCHED_RATIO * 2 * n_actions / DELTA))
    return 2 * STITCHED_FACTOR * NOISE * sqrt(bracket) * 2 * sqrt(n_actions)


UCB_WIDTH = Experiment(
    name="ucb-width",
    title="Confidence widths of UCB: theory, or smaller?",
    section="Introduction",
    claim=(
        "Confidence intervals narrower than theory prescribes often do much better in practice, but too narrow ones "
        "can have linear regret. Model selection finds a good width online."
    ),
    defaults=dict(
        rounds=100_000, seeds=20, widths=[1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125], bound_scale=2.0, delta=0.05
    ),
    selectors=USUAL,
    build=build,
    instances=tuple(PROBLEMS),
)
