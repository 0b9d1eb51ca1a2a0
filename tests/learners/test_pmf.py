"""Probabilities of actions: against formulas written out anew, and where they are unknown."""

from math import isnan, log, nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import ModCB
from equipoise.learner import AdaptedLearner, Proposal
from equipoise.learners import (
    OFUL,
    UCB,
    Ball,
    Constant,
    EpsilonGreedy,
    LinearThompson,
    LogisticThompson,
    QLearning,
    SquareCB,
)
from equipoise.testing.learners import random_actions
from tests.learners.subjects import SUBJECTS

WITH_PMF = [(cls, settings) for cls, settings, contexts in SUBJECTS if contexts is random_actions]


@given(subject=st.sampled_from(WITH_PMF), seed=st.integers(0, 1000), rounds=st.integers(0, 30))
def test_pmf_sums_to_1_and_agrees_with_the_proposal(subject: tuple[Any, Any], seed: int, rounds: int) -> None:
    cls, settings = subject
    learner, rng = cls(**settings), np.random.default_rng(seed)
    for _ in range(rounds):
        context = random_actions(rng)
        learner.learn(context, int(rng.integers(len(context))), float(rng.random()))
    context = random_actions(rng)
    probabilities, proposal = learner.pmf(context), learner.decide(context, rng)
    assert probabilities.shape == (len(context),)
    assert probabilities.min() >= 0.0 and probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    if cls in (LinearThompson, LogisticThompson):  # their proposals leave it to `pmf`
        assert probabilities[proposal.action] > 0.0 and isnan(proposal.probability)
    else:
        assert probabilities[proposal.action] == proposal.probability


def test_pmf_of_epsilon_greedy_is_that_of_the_paper() -> None:
    learner = EpsilonGreedy(4, epsilon=0.2)
    for arm, reward in enumerate((0.1, 0.9, 0.2, 1.0)):
        learner.learn(None, arm, reward)
    assert learner.pmf(None) == pytest.approx([0.05, 0.05, 0.05, 0.85])
    assert learner.pmf(np.zeros((2, 3))) == pytest.approx([0.1, 0.9])


def test_pmf_of_square_cb_is_inverse_gap_weighting_by_hand() -> None:
    learner = SquareCB(2, scale=2.0, delta=0.1)
    learner.learn([[1.0, 0.0], [0.0, 1.0]], 0, 1.0)
    # One row (1, 0) of reward 1 with penalty 1: theta = (1/2, 0), det Sigma = 2.
    rate = 2.0 * sqrt(3 * 2 / (1.0 + log(2 / 0.1) + log(2.0)))
    other, third = 1 / (3 + rate * 0.5), 1 / (3 + rate * 0.25)
    expected = [1 - other - third, other, third]
    assert learner.pmf([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]) == pytest.approx(expected, rel=1e-12)


def test_pmf_of_a_learner_that_explores_in_some_rounds_is_uniform_there_and_certain_elsewhere() -> None:
    learner, kinds = ModCB([1, 2], exploration=0.5), set()
    for _ in range(20):
        context = [[1.0, 0.0], [0.0, 1.0]]
        proposal = learner.decide(context)
        kinds.add(tuple(sorted(learner.pmf(context))))
        learner.learn(context, proposal.action, 0.5)
    assert kinds == {(0.5, 0.5), (0.0, 1.0)}


def test_pmf_that_is_unknown_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"Q-learning\(c=1\) has no pmf"):
        QLearning(2, 2, horizon=3, episodes=10).pmf(0)
    with pytest.raises(InvalidArgument, match="must offer finitely many actions"):
        OFUL(2).pmf(Ball(2))


def test_constant_is_certain_without_a_context_too() -> None:
    assert Constant(2).pmf(None).tolist() == [0.0, 0.0, 1.0]
    assert UCB(3).pmf(None).tolist() == [1.0, 0.0, 0.0]


class Own:
    """A user's learner; `decide` returns what it is given."""

    def __init__(self, answer: Any, **members: Any) -> None:
        self.answer = answer
        vars(self).update(members)

    def decide(self, context):
        return self.answer

    def learn(self, context, action, reward, weight=1.0, **more):
        self.update = (context, action, reward, weight, more)


def test_bare_action_is_certain_only_if_the_learner_says_so() -> None:
    assert isnan(AdaptedLearner(Own(1)).decide(None).probability)
    assert AdaptedLearner(Own(1, randomized=False)).decide(None).probability == 1.0
    assert AdaptedLearner(Own(Proposal(1, probability=0.3))).decide(None).probability == 0.3


def test_pmf_of_own_learners_is_filled_in_where_it_is_certain() -> None:
    matrix = np.zeros((3, 2))
    assert AdaptedLearner(Own(1)).pmf(matrix) is None
    assert AdaptedLearner(Own(np.array([0.5, 0.5]), randomized=False)).pmf(matrix) is None
    certain = AdaptedLearner(Own(1, randomized=False))
    answers = certain.pmf(matrix), certain.pmf({"any": "thing"})
    assert [answer.tolist() for answer in answers if answer is not None] == [[0.0, 1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("wrong", [[0.5, 0.4], [1.5, -0.5], [[1.0]], [], "no", [nan, 1.0]])
def test_impossible_pmf_is_refused(wrong: Any) -> None:
    learner = AdaptedLearner(Own(0, pmf=lambda context: wrong, provides=frozenset({"pmf"})))
    with pytest.raises(InvalidArgument, match="pmf of 'Own' "):
        learner.pmf(None)


def test_probability_reaches_only_learners_that_accept_it() -> None:
    one, other = Own(0), Own(0, accepts=frozenset({"probability", "weight"}))
    for learner in (one, other):
        AdaptedLearner(learner).learn("x", 0, 0.5, probability=0.25)
    assert one.update == ("x", 0, 0.5, 1.0, {}) and other.update == ("x", 0, 0.5, 1.0, {"probability": 0.25})
    AdaptedLearner(other).learn("x", 0, 0.5, 4.0, 0.25)
    assert other.update == ("x", 0, 0.5, 4.0, {"probability": 0.25})
