"""Adversarial contexts: comparing learners when an adversary chooses the rounds that each of them gets.

Learner i is OFUL on the first d_i features of a nested linear bandit whose contexts an adversary changes. There are
four adversaries, one per instance. Algorithm 1 compares the rewards of learners in different rounds; Algorithm 3
compares learners within each round. Algorithm 1 is run with one generous bound for all learners, which the
well-specified ones keep, and with observed bounds; Algorithm 3 with learners that learn from their own rounds, and from
all rounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Extension to Adversarial Contexts".
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.bounds import Observed, Power
from equipoise.lab.experiment import Experiment, Setup
from equipoise.lab.experiments.nested import NORM_BOUND, nested_dims
from equipoise.learners import OFUL
from equipoise.problems import AdversarialBandit, Hiding, Predicting, Punishing, Switching
from equipoise.problems.adversaries import Adversary
from equipoise.selector import Selector
from equipoise.selectors import AdversarialElimination, BalancedElimination
from equipoise.types import Config, Plain

SIZES: Config = {"d_max": 16, "d_star": 8, "n_actions": 10}
REWARDS: Config = {"noise": "uniform", "noise_scale": 0.2}
ADVERSARY: Config = {"poor_scale": 0.3, "period": 2}
INSTANCES = ("switching", "predicting", "punishing", "hiding")


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dims, d_star = nested_dims(settings["d_max"]), settings["d_star"]
    sizes, rewards = (settings[name] for name in SIZES), {name: settings[name] for name in REWARDS}
    problem = AdversarialBandit(*sizes, adversary=adversary_of(settings, dims), **rewards, seed=seed)
    # The largest deviation of uniform noise from its mean; half the range for other bounded rewards.
    bounded = settings["noise_scale"] / 2 if settings["noise"] == "uniform" else 0.5
    noise = bounded if problem.noise is None else problem.noise
    learners = tuple(
        OFUL(dim, noise=noise, norm_bound=NORM_BOUND, regularization=settings["regularization"]) for dim in dims
    )
    radius = {"delta": settings["delta"], "noise": noise}
    selectors: dict[str, Selector] = {
        "balanced-common": BalancedElimination([Power(settings["bound_scale"])] * len(dims), **radius),
        "balanced-observed": BalancedElimination([Observed()] * len(dims), **radius),
        "adversarial": AdversarialElimination.for_learners(learners, **radius),
        "adversarial-shared": AdversarialElimination.for_learners(learners, **radius),
    }
    shared, well_specified = frozenset({"adversarial-shared"}), [dim >= d_star for dim in dims]
    return Setup(problem, learners, selectors, shared, well_specified=lambda: well_specified)


def adversary_of(settings: Mapping[str, Plain], dims: list[int]) -> Adversary:
    scale = settings["poor_scale"]
    match settings["instance"]:
        case "switching":
            return Switching(settings["period"], (1.0, scale))
        case "predicting":
            return Predicting([i for i, dim in enumerate(dims) if dim >= settings["d_star"]], scale)
        case "punishing":
            return Punishing((1.0, scale))
        case _:
            return Hiding(dims)


ADVERSARIAL = Experiment(
    name="adversarial",
    title="Adversarial contexts: when rounds cannot be compared",
    section="Extension to Adversarial Contexts",
    claim=(
        "With adversarial contexts, rewards of different rounds cannot be compared, so elimination as under random "
        "contexts may eliminate well-specified learners. Comparing learners within each round avoids this: with high "
        "probability no well-specified learner is eliminated, and regret is of order (sqrt(B) d* + sqrt(B d*) S + "
        "sqrt(B) M)(d* + sqrt(d*) S) sqrt(T) with B misspecified learners of M."
    ),
    defaults=dict(
        rounds=60_000, seeds=20, **SIZES, **REWARDS, regularization=0.1, **ADVERSARY, bound_scale=4.0, delta=0.05
    ),
    selectors=("balanced-common", "balanced-observed", "adversarial", "adversarial-shared"),
    build=build,
    instances=INSTANCES,
)
