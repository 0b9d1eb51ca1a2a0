"""Expected rewards that are nearly linear: how large is the error? A grid of assumed approximation errors.

Learner i is OFUL whose ellipsoid accounts for an error of eps_i = 2^(1-i) / sqrt(d), i = 1..M, M = ceil(1 + log2(T /
d^2) / 2). Assuming too large an error never stops exploring, assuming too small a one trusts a wrong model. The
selector is run with observed bounds, with the paper's C d sqrt(n) + C sqrt(d) eps_i n, and with smaller constants.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits and MDPs with Unknown Approximation
Error", for H = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2, sqrt

from equipoise.bounds import LinearSqrt
from equipoise.lab.experiment import USUAL, Experiment, Setup, balancing_selectors, hidden, usual_bounds
from equipoise.learners import OFUL
from equipoise.learners.oful import closed_form_constant
from equipoise.problems import MisspecifiedLinearBandit
from equipoise.types import Plain

INSTANCES = {"exactly linear": 0.0, "nearly linear": 0.05, "far from linear": 0.2}
NORM_BOUND = 1.0


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dim, sigma = settings["dim"], settings["noise_scale"]
    problem = MisspecifiedLinearBandit(dim, INSTANCES[settings["instance"]], noise_scale=sigma, seed=seed)
    errors = error_grid(settings["rounds"], dim)
    norm_bound = max(NORM_BOUND, problem.norm)
    learners = tuple(
        OFUL(dim, noise=sigma, norm_bound=norm_bound, misspecification=error, name=f"eps {error:.3g}")
        for error in errors
    )
    constant = closed_form_constant(settings["rounds"], noise=sigma, norm_bound=norm_bound)
    slope, coefficient = settings["slope_scale"], settings["bound_scale"]
    bounds = usual_bounds(
        [LinearSqrt(constant * sqrt(dim) * error, constant * dim) for error in errors],
        [LinearSqrt(slope * error, coefficient) for error in errors],
    )
    selectors = balancing_selectors(bounds, delta=settings["delta"], noise=sigma)
    return Setup(problem, learners, selectors, **hidden("eps*", errors, lambda: problem.misspecification))


def error_grid(rounds: int, dim: int) -> list[float]:
    """1/sqrt(d), half of it, ..., down to where the error costs no more than learning does.

    >>> error_grid(200_000, 4)[:3], len(error_grid(200_000, 4)), len(error_grid(10, 4))
    ([0.5, 0.25, 0.125], 8, 1)
    """
    n_learners = max(1, ceil(1 + log2(rounds / dim**2) / 2))
    return [2.0**-i / sqrt(dim) for i in range(n_learners)]


MISSPECIFICATION = Experiment(
    name="misspecification",
    title="Nearly linear rewards: how large is the error?",
    section="Linear Bandits and MDPs with Unknown Approximation Error",
    claim=(
        "Without knowing the approximation error eps*, balancing over a grid of assumed errors has regret of order "
        "d sqrt(T) + sqrt(d) eps* T + d^2, up to logarithms: the rate of OFUL with known eps*."
    ),
    defaults=dict(rounds=200_000, seeds=20, dim=4, noise_scale=0.1, bound_scale=1.0, slope_scale=0.5, delta=0.05),
    selectors=USUAL,
    build=build,
    instances=tuple(INSTANCES),
)
