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
from equipoise.selectors import AdversarialElimination, BalancedElimination
from equipoise.types import Plain

INSTANCES = ("switching", "predicting", "punishing", "hiding")


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    dims, d_star = nested_dims(settings["d_max"]), settings["d_star"]
    problem = AdversarialBandit(
        settings["d_max"],
        d_star,
        settings["n_actions"],
        adversary=adversary_of(settings, dims),
        noise=settings["noise"],
        noise_scale=settings["noise_scale"],
        seed=seed,
    )
    # The largest deviation of uniform noise from its mean; half the range for other bounded rewards.
    bounded = settings["noise_scale"] / 2 if settings["noise"] == "uniform" else 0.5
    noise = bounded if problem.noise is None else problem.noise
    learners = tuple(
        OFUL(dim, noise=noise, norm_bound=NORM_BOUND, regularization=settings["regularization"]) for dim in dims
    )
    radius = {"delta": settings["delta"], "noise": noise}
    return Setup(
        problem,
        learners,
        {
            "balanced-common": BalancedElimination([Power(settings["bound_scale"])] * len(dims), **radius),
            "balanced-observed": BalancedElimination([Observed()] * len(dims), **radius),
            "adversarial": AdversarialElimination.for_learners(learners, **radius),
            "adversarial-shared": AdversarialElimination.for_learners(learners, **radius),
        },
        shared=frozenset({"adversarial-shared"}),
        well_specified=lambda: [dim >= d_star for dim in dims],
    )


def adversary_of(settings: Mapping[str, Plain], dims: list[int]) -> Adversary:
    """The adversary that gives the instance its name."""
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
    defaults={
        "rounds": 60_000,
        "seeds": 20,
        "d_max": 16,
        "d_star": 8,
        "n_actions": 10,
        "noise": "uniform",
        "noise_scale": 0.2,
        "regularization": 0.1,
        "poor_scale": 0.3,
        "period": 2,
        "bound_scale": 4.0,
        "delta": 0.05,
    },
    selectors=("balanced-common", "balanced-observed", "adversarial", "adversarial-shared"),
    build=build,
    instances=INSTANCES,
    setting="""\
The nested linear bandit with d* = 8 of 16 features, 10 actions a round and uniform noise of at most 0.1, whose contexts
an adversary changes. It may scale all actions of a round, and so all expected rewards, by 0.3 (a poor round), or hide
features; a well-specified model class stays well specified. Four adversaries:

- *switching*: two rich rounds, then two poor ones, and so on, whichever learner plays;
- *predicting*: it expects the learner whose last play was longest ago, and makes the round poor if that learner is well
  specified;
- *punishing*: rich rounds until a learner is eliminated, poor ones until the next elimination, and so on;
- *hiding*: it hides all features but the first from the learner played most often in recent rounds, if that learner
  lacks relevant features.

The learners are OFUL with 2, 4, 8 and 16 features and regularization 0.1; the last two are well specified on every
sequence. Algorithm 1 gets the generous bound 4 sqrt(n) for all of them (`balanced-common`), or the learners' own
observed bounds (`balanced-observed`). Algorithm 3 is run with learners that learn from the rounds they play
(`adversarial`) and from all rounds (`adversarial-shared`). Each learner alone is measured on the sequence that the
adversary generates against it.""",
)
