"""The experiment on a ball: its regret is exact, and its anytime bounds have a guarantee that says something."""

from typing import Any

import numpy as np
import pytest

from equipoise.bounds import SqrtLog
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.experiments.ball import BallBandit
from equipoise.simulation.tapes import Tapes
from equipoise.theory.closed_forms import closed_form

BALL = EXPERIMENTS["ball"]


def test_regret_is_the_distance_to_the_best_of_many_vectors() -> None:
    """A slow reference: the best of random vectors of the ball is nearly as good as the stated optimum, none better."""
    problem, rng = BallBandit(3, 2, 0.1), np.random.default_rng(0)
    vectors = rng.standard_normal((20_000, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gaps = np.array([problem.gap(problem.ball, vector) for vector in vectors])
    assert 0.0 <= gaps.min() < 0.01
    assert problem.gap(problem.ball, problem.theta) == pytest.approx(0.0, abs=1e-12)
    rewards = [problem.respond(problem.ball, vectors[0], rng) for _ in range(4000)]
    assert np.mean(rewards) == pytest.approx(1.0 - gaps[0], abs=5 * 0.1 / 4000**0.5)


def test_learners_play_the_ball_within_their_features() -> None:
    setup, rng = BALL.set_up(BALL.defaults, 0), np.random.default_rng(1)
    for learner, dim in zip(setup.learners, (2, 4, 8), strict=True):
        any_learner: Any = learner
        action = any_learner.decide(setup.problem.observe(rng)).action
        assert np.linalg.norm(action) == pytest.approx(1.0) and not action[dim:].any()
    assert setup.well_specified is not None and setup.well_specified() == [False, True, True]


def test_anytime_bounds_do_not_depend_on_rounds_and_their_guarantee_is_informative() -> None:
    selectors: list[Any] = [
        BALL.set_up({**BALL.defaults, "rounds": rounds}, 0).selectors["balanced-anytime"] for rounds in (10, 20_000)
    ]
    for selector in selectors:
        assert selector.bounds == tuple(SqrtLog(dim / 8, 0.05) for dim in (2, 4, 8))
    promise = closed_form(selectors[0], [False, True, True], 20_000)
    assert promise is not None and promise < 2 * 20_000 / 10


def test_recorded_regret_of_the_small_learner_is_linear() -> None:
    """It cannot do better than the root of 1/2: it loses at least 1 - sqrt(1/2) in every round."""
    setup = BALL.set_up({**BALL.defaults, "rounds": 50}, 0)
    regret = Tapes(setup.problem, setup.learners[:1], np.array([50]), 0).curve(0)
    assert regret[-1] >= 50 * (1 - 0.5**0.5) - 1e-9
