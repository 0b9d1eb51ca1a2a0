"""Expected rewards that are nearly linear: by how much may they err? A ladder of presumed approximation errors.

Learner i is OFUL whose ellipsoid accounts for an error of eps_i = 2^(1-i) / sqrt(d), i = 1..M, M = ceil(1 + log2(T /
d^2) / 2). Presuming too much explores for ever, presuming too little trusts a model that is wrong. The selector is run
with what learners observe of themselves, with the paper's C d sqrt(n) + C sqrt(d) eps_i n, and with smaller constants.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits and MDPs with Unknown Approximation
Error", for H = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2, sqrt

from equipoise.bounds import Bound, LinearSqrt, Observed
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors
from equipoise.learners import OFUL
from equipoise.learners.oful import closed_form_constant
from equipoise.problems import MisspecifiedLinearBandit
from equipoise.types import Plain

INSTANCES = {"exactly linear": 0.0, "nearly linear": 0.05, "far from linear": 0.2}
NORM_BOUND = 1.0


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dim, sigma = settings["dim"], settings["noise_scale"]
    problem = MisspecifiedLinearBandit(dim, INSTANCES[settings["instance"]], noise_scale=sigma, seed=seed)
    errors = ladder(settings["rounds"], dim)
    norm_bound = max(NORM_BOUND, problem.norm)
    learners = tuple(
        OFUL(dim, noise=sigma, norm_bound=norm_bound, misspecification=error, name=f"eps {error:.3g}")
        for error in errors
    )
    constant = closed_form_constant(settings["rounds"], noise=sigma, norm_bound=norm_bound)
    slope, coefficient = settings["slope_scale"], settings["bound_scale"]
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in errors],
        "balanced-paper": [LinearSqrt(constant * sqrt(dim) * error, constant * dim) for error in errors],
        "balanced-scaled": [LinearSqrt(slope * error, coefficient) for error in errors],
    }
    selectors = balancing_selectors(bounds, delta=settings["delta"], noise=sigma)
    true_error = problem.misspecification
    return Setup(
        problem,
        learners,
        selectors,
        facts=lambda: {"eps*": true_error},
        well_specified=lambda: [error >= true_error for error in errors],
    )


def ladder(rounds: int, dim: int) -> list[float]:
    """1/sqrt(d), half of it, ..., down to where the error costs no more than learning does.

    >>> ladder(200_000, 4)[:3], len(ladder(200_000, 4)), len(ladder(10, 4))
    ([0.5, 0.25, 0.125], 8, 1)
    """
    n_learners = max(1, ceil(1 + log2(rounds / dim**2) / 2))
    return [2.0**-i / sqrt(dim) for i in range(n_learners)]


MISSPECIFICATION = Experiment(
    name="misspecification",
    title="Nearly linear rewards: how large is the error?",
    section="Linear Bandits and MDPs with Unknown Approximation Error",
    claim=(
        "Without knowing the approximation error eps*, balancing over a ladder of presumed errors has regret of order "
        "d sqrt(T) + sqrt(d) eps* T + d^2, up to logarithms: what OFUL would have that is told eps*."
    ),
    defaults={
        "rounds": 200_000,
        "seeds": 20,
        "dim": 4,
        "noise_scale": 0.1,
        "bound_scale": 1.0,
        "slope_scale": 0.5,
        "delta": 0.05,
    },
    selectors=("balanced-observed", "balanced-paper", "balanced-scaled", "realized"),
    build=build,
    instances=tuple(INSTANCES),
    setting="""\
A bandit in d = 4 dimensions with Gaussian noise of standard deviation 0.1, whose expected rewards are within eps* of
linear, and no closer; eps* is computed by the problem. Each round offers a menu of six near actions or of six far ones.
The error makes the far menu steeper and the near one flatter than the linear model, for eps* = 0.2 even sloping the
other way, so that whoever fits the far menu plays the worst of the near one.

Learner i is OFUL whose ellipsoid accounts for an error of eps_i = 1/2, 1/4, ..., 1/256 (M = 8 for 200,000 rounds). In
the figure, learners with eps_i < eps*, which presume too little, are dotted.

Bounds: observed widths; the paper's C d sqrt(n) + C sqrt(d) eps_i n with the printed C; and sqrt(n) + eps_i n / 2
(`balanced-scaled`). `realized` balances the regret that learners have visibly run up and needs no bounds.""",
    remarks="""\
With eps* = 0 the smallest presumed error is best and every doubling costs more exploration. With eps* = 0.05 the small
ones are wrong and lose on the near menu what the others lose by exploring, so little depends on the choice. With
eps* = 0.2 the order is reversed: the small ones lose 0.18 a round for ever, and the best is the smallest presumed error
above eps*. The selector with scaled bounds ends far below the median learner in the first and the last, and below it in
the second: it leans to small errors and drops them one by one once their rewards disprove them. Without bounds
`realized` comes within a tenth of the best learner in the second and the last, and pays 3.7 times a regret of order
sqrt(T) in the first.

Two honest limits. With the printed constants all bounds exceed the number of plays at this horizon, so
`balanced-paper` plays the learners in turn. And for eps* > 0 regret is linear for every learner and every selector, as
the claim says: the guarantee contains sqrt(d) eps* T.""",
)
