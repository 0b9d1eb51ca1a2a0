"""All vectors of a ball as actions: how many features matter, with bounds that hold at all times?

Every round offers the unit ball. Learner i is OFUL on the first d_i features, which plays vectors that are zero beyond
them. Those with d_i below the hidden d* cannot play the best vector. The selector is run with observed bounds and with
d_i c sqrt(n ln(n / delta)), which does not depend on the number of rounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits with Nested Model Classes" (infinite
action sets, and its remark on anytime bounds, with the theorem thm:sqrt_reg).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from equipoise.bounds import Bound, Observed, SqrtLog
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors, hidden
from equipoise.lab.experiments.nested import nested_dims
from equipoise.learners import OFUL, Ball
from equipoise.types import Action, Config, Context, Plain

BOUND_DELTA = 0.05  # in the logarithm of the anytime bound


class BallBandit:
    """The unit ball in every round; the expected reward of a vector is its product with theta*, a unit vector whose
    first `d_star` entries are equal and whose others are 0. Rewards have Gaussian noise."""

    name = "Ball bandit"
    reward_range = (-1.0, 1.0)
    iid = True
    optimum = 1.0

    def __init__(self, dim: int, d_star: int, noise: float) -> None:
        self.noise, self.ball, self.d_star = noise, Ball(dim), d_star
        self.theta = np.zeros(dim)
        self.theta[:d_star] = 1 / sqrt(d_star)

    def observe(self, rng: np.random.Generator) -> Context:
        return self.ball

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        return float(self.theta @ action) + self.noise * float(rng.standard_normal())

    def gap(self, context: Context, action: Action) -> float:
        return max(0.0, self.optimum - float(self.theta @ action))

    def config(self) -> Config:
        return {"dim": self.ball.dim, "d_star": self.d_star, "noise": self.noise}


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    noise, dims = settings["noise"], nested_dims(settings["d_max"])
    problem = BallBandit(settings["d_max"], settings["d_star"], noise)
    learners = tuple(OFUL(dim, noise=noise, norm_bound=1.0, reward_range=problem.reward_range) for dim in dims)
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in dims],
        "balanced-anytime": [SqrtLog(dim * settings["bound_scale"], BOUND_DELTA) for dim in dims],
    }
    known = {"delta": settings["delta"], "noise": noise, "contexts": "fixed", "reward_range": problem.reward_range}
    return Setup(problem, learners, balancing_selectors(bounds, **known), **hidden("d*", dims, lambda: problem.d_star))


BALL = Experiment(
    name="ball",
    title="A ball of actions: how many features matter?",
    section="Linear Bandits with Nested Model Classes",
    claim=(
        "The regret bounds of OFUL, and of balancing over it, hold for infinite action sets; with bounds of order "
        "d_i sqrt(n ln n) the number of rounds need not be known."
    ),
    defaults=dict(rounds=20_000, seeds=10, d_max=8, d_star=4, noise=0.1, bound_scale=0.125, delta=0.05),
    selectors=("balanced-observed", "balanced-anytime", "realized"),
    build=build,
)
