"""What adversaries do to contexts, by hand; that they spoil no class; and sequences of one's own."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.problems import (
    AdversarialBandit,
    Hiding,
    LinearBandit,
    Predicting,
    Punishing,
    SequenceBandit,
    Switching,
)
from equipoise.problems.adversaries import from_json, to_json


def bandit(adversary: Any, d_star: int = 4) -> AdversarialBandit:
    return AdversarialBandit(8, d_star, 5, adversary=adversary, seed=1)


def scale(problem: AdversarialBandit) -> float:
    """By how much the next round is scaled: the first entry of every action is 1/sqrt(2) to begin with."""
    context = problem.observe(np.random.default_rng(0))
    return round(float(context[0, 0] * np.sqrt(2)), 6)


def scales_along(problem: AdversarialBandit, learners: list[int]) -> list[float]:
    """The scale of every round in which these learners are played, one after the other."""
    seen = []
    for learner in learners:
        seen.append(scale(problem))
        problem.record(learner, 0, 0.5)
    return seen


def test_switching_goes_through_its_scales_block_by_block() -> None:
    problem = bandit(Switching(2, (1.0, 0.5, 0.0)))
    assert scales_along(problem, [0] * 8) == [1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 1.0, 1.0]


def test_predicting_gives_whom_it_is_against_the_poor_rounds_once_it_knows_the_order() -> None:
    """Learners 0, 1, 2 in turn: from the second time round, every round of learner 1 is poor and no other."""
    problem = bandit(Predicting([1], 0.25))
    assert scales_along(problem, [0, 1, 2])[0] == 1.0
    assert scales_along(problem, [0, 1, 2] * 4) == [1.0, 0.25, 1.0] * 4


def test_predicting_forgets_learners_that_are_gone() -> None:
    problem = bandit(Predicting([2], 0.25, patience=5))
    scales_along(problem, [0, 2, 1])
    assert scales_along(problem, [0, 1] * 4) == [1.0, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0]


def test_punishing_moves_on_each_time_a_learner_is_gone() -> None:
    problem = bandit(Punishing((1.0, 0.5), patience=3))
    assert scales_along(problem, [0, 1, 1, 1, 1, 2, 2, 2, 2]) == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 1.0]


def test_hiding_takes_the_features_of_the_learner_played_most_of_late() -> None:
    problem = bandit(Hiding([2, 3, 8], window=10), d_star=6)

    def hidden() -> int:
        context = problem.observe(np.random.default_rng(0))
        zero = ~context.any(axis=0)
        return int(zero.sum())

    assert hidden() == 0
    problem.record(0, 0, 0.5)
    assert hidden() == 1, "learner 0 looks at features 1 and 2, and the first is never hidden"
    for _ in range(2):
        problem.record(1, 0, 0.5)
    assert hidden() == 2
    for _ in range(9):
        problem.record(2, 0, 0.5)
    assert hidden() == 0, "learner 2 looks at all features that matter: nothing can be hidden from it alone"


def test_a_blinded_learner_sees_equal_actions_of_unequal_worth() -> None:
    problem = bandit(Hiding([2]))
    problem.record(0, 0, 0.5)
    context = problem.observe(np.random.default_rng(3))
    assert (context[:, :2] == context[0, :2]).all()
    assert max(problem.gap(context, action) for action in range(5)) > 0.05


@given(
    st.sampled_from(
        [Switching(3, (0.9, 0.0, 0.4)), Predicting([0, 2], 0.1, 4), Punishing((1.0, 0.2), 4), Hiding([2, 4, 8], 6)]
    ),
    st.lists(st.integers(0, 70), max_size=30),
    st.integers(2, 8),
)
def test_no_adversary_makes_a_true_class_false(adversary: Any, played: list[int], d_star: int) -> None:
    """Expected rewards stay linear in the first d* features, in [0, 1], with actions of norm at most 1; and each round
    is a function of who was played before, so that two equal problems agree. The 65th learner leaves no trace."""
    problem, twin = bandit(adversary, d_star), bandit(adversary, d_star)
    theta = problem.params.theta
    assert not theta[d_star:].any()
    for t, learner in enumerate(played):
        context = problem.observe(np.random.default_rng(t))
        np.testing.assert_array_equal(context, twin.observe(np.random.default_rng(t)))
        _, means = problem.kernels.draw(problem.params, problem.workspace(), np.random.default_rng(t))
        np.testing.assert_allclose(means, context @ theta, atol=1e-12)
        assert means.min() >= -1e-9 and means.max() <= 1 + 1e-9
        assert np.linalg.norm(context, axis=1).max() <= 1 + 1e-9
        for either in (problem, twin):
            either.record(learner, 0, 0.5)


def test_without_an_adversary_s_doing_contexts_are_those_of_the_linear_bandit() -> None:
    """Same seed, same instance; a block of scale 1 changes nothing."""
    problem, plain = bandit(Switching(10, (1.0, 0.5))), LinearBandit(8, 4, 5, seed=1)
    rngs = np.random.default_rng(4), np.random.default_rng(4)
    np.testing.assert_array_equal(problem.observe(rngs[0]), plain.observe(rngs[1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bandit(Switching(0)), "period is 0, but must be a whole number at least 1"),
        (lambda: bandit(Switching(1, (1.0,))), "scales is (1.0,), but must be a list of 2 to"),
        (lambda: bandit(Switching(1, (1.0, 2.0))), "scales[1] is 2.0, but must lie in [0, 1]"),
        (lambda: bandit(Predicting([])), "against is [], but must be a list of 1 to 64 numbers"),
        (lambda: bandit(Predicting([64])), "against is 64, but must be a whole number from 0 to 63"),
        (
            lambda: bandit(Hiding(24)),  # type: ignore[arg-type]
            "dims is 24, but must be a list of 1 to 64 numbers",
        ),
        (lambda: bandit(Hiding([2, 0])), "dims[1] is 0, but must be a whole number at least 1"),
        (lambda: bandit("Switching"), "adversary is 'Switching', but must be one of Switching, Predicting"),
        (lambda: bandit({"adversary": "Hiding", "size": 3}), "but must have those of its class"),
        (lambda: bandit(Switching()).record(-1, 0, 0.5), "learner is -1, but must be a whole number at least 0"),
    ],
)
def test_what_makes_no_adversary_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert message in str(refusal.value)


def test_an_unknown_adversary_is_named() -> None:
    with pytest.raises(UnknownName, match="adversary 'Swiching' is unknown; did you mean Switching"):
        bandit({"adversary": "Swiching"})


@pytest.mark.parametrize("adversary", [Switching(3, (0.1, 0.2)), Predicting((1, 2)), Punishing(), Hiding((2, 4))])
def test_an_adversary_survives_a_trip_through_plain_data(adversary: Any) -> None:
    assert from_json(to_json(adversary)) == adversary
    assert from_json(adversary) is adversary


def test_a_sequence_of_one_s_own_is_offered_in_order_and_from_the_start_again() -> None:
    sets = np.arange(12).reshape(3, 2, 2) / 20
    problem = SequenceBandit(sets, [0.5, 0.5])
    for t in range(7):
        np.testing.assert_array_equal(problem.observe(np.random.default_rng(0)), sets[t % 3])
        problem.record(0, 0, 0.5)
    assert not problem.iid
