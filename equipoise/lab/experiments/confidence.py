"""How optimistic should OFUL be? A grid of confidence scalings kappa, where the noise is smaller than assumed.

Learner i is OFUL with its ellipsoids scaled by kappa_i = 2^(1-i), i = 1..M, M = 1 + log2(1 / kappa_min). A small kappa
explores less, and fails once its ellipsoid no longer contains theta*. kappa* is the smallest of the grid whose own
run keeps ||theta - theta*|| <= kappa beta after every play, which only a simulation can know. The selector is run with
observed bounds, with the paper's kappa_i d C sqrt(n), with a smaller constant, and with observed
bounds and data shared among all learners.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Confidence parameter tuning in OFUL".
Departures: kappa* as printed has Sigma^{-1} for Sigma in its norm and is a ratio where the text means the smallest
kappa whose ratio is at most kappa; it is taken over the prefixes of one run in place of all subsets of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log2

from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument
from equipoise.lab.experiment import SHARED, WITH_SHARED, Experiment, Setup, balancing_selectors, hidden, usual_bounds
from equipoise.lab.experiments.nested import NORM_BOUND
from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.learners.oful import closed_form_constant
from equipoise.problems import LinearBandit
from equipoise.settings.checks import real
from equipoise.types import Config, Plain

SIZES: Config = {"dim": 16, "n_actions": 40}
ASSUMED: Config = {"assumed_noise": 0.5, "regularization": 0.01}
INSTANCES = {"noise 1/10 of what is assumed": 0.05, "noise 3/5 of what is assumed": 0.3}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dim, kappas, assumed = settings["dim"], kappa_grid(settings["kappa_min"]), settings["assumed_noise"]
    n_actions, scale = settings["n_actions"], INSTANCES[settings["instance"]]
    problem = LinearBandit(dim, dim, n_actions, contexts="fixed", noise="gaussian", noise_scale=scale, seed=seed)
    assumptions = {"noise": assumed, "norm_bound": NORM_BOUND, "regularization": settings["regularization"]}
    learners = tuple(
        TrackedOFUL(problem.params.theta, scale=kappa, name=f"kappa {kappa:g}", **assumptions) for kappa in kappas
    )
    constant = closed_form_constant(settings["rounds"], **assumptions)
    scales = (constant, settings["bound_scale"])
    bounds = usual_bounds(*([Power(kappa * dim * scale) for kappa in kappas] for scale in scales))
    bounds["balanced-shared"] = [Observed() for _ in kappas]
    shared_settings = {"delta": settings["delta"], "noise": assumed, "contexts": "fixed"}
    selectors = balancing_selectors(bounds, ("realized", "realized-shared"), **shared_settings)

    def kappa_star() -> float:
        return smallest_valid(kappas, [learner.largest_ratio for learner in learners])

    return Setup(problem, learners, selectors, SHARED, **hidden("kappa*", kappas, kappa_star))


def kappa_grid(kappa_min: float) -> list[float]:
    """1, 1/2, 1/4, ... down to kappa_min or just below.

    >>> kappa_grid(0.2)
    [1.0, 0.5, 0.25, 0.125]
    """
    least = real("kappa_min", kappa_min)
    if not 1e-6 <= least <= 1.0:
        raise InvalidArgument(f"kappa_min is {kappa_min!r}, but must lie in [1e-06, 1]")
    return [2.0**-i for i in range(1 + ceil(log2(1 / least)))]


def smallest_valid(kappas: Sequence[float], ratios: Sequence[float]) -> float:
    """The smallest kappa whose ratio is at most kappa; where there is none, the ratio that the largest one needed."""
    valid = [kappa for kappa, ratio in zip(kappas, ratios, strict=True) if ratio <= kappa]
    return min(valid, default=ratios[0])


CONFIDENCE = Experiment(
    name="confidence",
    title="Confidence scaling of OFUL: how much optimism is needed?",
    section="Confidence parameter tuning in OFUL",
    claim=(
        "Where the noise is smaller than assumed, ellipsoids scaled by kappa* < 1 still contain the truth. Without "
        "knowing kappa*, balancing over kappa = 1, 1/2, ..., kappa_min has regret of order (kappa*/kappa_min + M) "
        "kappa* d ln(T) sqrt(T), up to logarithms: less than OFUL as prescribed if kappa* is small enough."
    ),
    defaults=dict(rounds=100_000, seeds=20, **SIZES, **ASSUMED, kappa_min=0.03125, bound_scale=1.0, delta=0.05),
    selectors=WITH_SHARED,
    build=build,
    instances=tuple(INSTANCES),
)
