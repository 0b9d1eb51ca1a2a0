"""Selectors with demands run compiled as they run in a portfolio: same choices, odds and updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equipoise.errors import IncompatibleLearner
from equipoise.lab.rivals import TsallisCorral
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import OFUL, UCB, EpsilonGreedy, SquareCB
from equipoise.learners._core.linear import learn
from equipoise.learners._core.ridge import new_scratch
from equipoise.problems import KArmedBandit
from equipoise.selectors import Corral, CounterfactualBalancing
from equipoise.simulation.compiler import compiled
from equipoise.simulation.joint import run_jointly, run_portfolio
from equipoise.simulation.loops import arrays, grouped, pack
from tests.recorders import simulated
from tests.simulation.plain import assert_same_states

ROUNDS = 300


def greedy() -> tuple[Any, list[Any]]:
    # The algorithm that compiles fastest: what is compared is what the driver does with it.
    return KArmedBandit([0.2, 0.5, 0.7]), [EpsilonGreedy(3, epsilon=0.2, name=str(i)) for i in range(4)]


class SharingUCB(UCB):
    """Without contexts, means of arms are right whichever learner played them."""

    accepts = UCB.accepts | {"off_policy"}


def optimistic() -> tuple[Any, list[Any]]:
    own, agreed = UCB(3, scale=0.3, name="0.3"), UCB(3, name="1.0")
    return KArmedBandit([0.2, 0.5, 0.7]), [SharingUCB(3, scale=0.05, name="0.05"), own, agreed]


CASES: dict[str, Any] = {
    "corral": (greedy, lambda: Corral(4, rounds=ROUNDS)),
    "tsallis": (greedy, lambda: TsallisCorral(4, rounds=ROUNDS)),
    "counterfactual": (
        optimistic,
        # The second one is paced: next to a greedy expert of shared data, its warm-up is spread over the rounds.
        lambda: CounterfactualBalancing(3, contexts="fixed", learning=["all", "own", "agreed"], greedy_experts=[0, 2]),
    ),
}


@pytest.mark.compiled
@pytest.mark.parametrize("case", CASES)
def test_compiled_runs_are_those_of_a_portfolio(case: str) -> None:
    environment, make = CASES[case]
    marks = log_rounds(ROUNDS)
    problem, learners = environment()
    selector = make()
    fast, _ = run_jointly(problem, learners, selector, marks, 6)
    problem, others = environment()
    plain = make()
    interpreted, _ = run_portfolio(problem, simulated(others, plain, seed=6), marks)
    np.testing.assert_array_equal(fast.plays, interpreted.plays)
    np.testing.assert_allclose(fast.regret, interpreted.regret, rtol=1e-9)
    np.testing.assert_allclose(fast.certified, interpreted.certified, rtol=1e-9)
    assert len(set(fast.plays[-1])) > 1
    assert_same_states(learners, others, selector, plain)


@pytest.mark.compiled
def test_a_weighted_row_is_the_same_compiled_and_not() -> None:
    rng = np.random.default_rng(1)
    learners = [OFUL(3, reward_range=(-2.0, 3.0)) for _ in range(2)]
    fast = compiled(learn)
    memory = learners[0].memory._replace(scratch=new_scratch(3, 4))
    for weight in (1.0, 30.0, 0.0, 2.5):
        actions, reward = rng.uniform(0.0, 0.5, (4, 3)), float(rng.random())
        fast(learners[0].params, memory, actions, 2, reward, weight)
        learners[1].learn(actions, 2, reward, weight)
    for name, array in learners[1].state().items():
        np.testing.assert_allclose(learners[0].state()[name], array, rtol=1e-12, err_msg=name)


def test_a_joint_run_refuses_what_a_portfolio_refuses() -> None:
    with pytest.raises(
        IncompatibleLearner, match=r"Corral needs learners that accept importance weights, but 'SquareCB"
    ):
        run_jointly(KArmedBandit([0.2, 0.5]), [OFUL(2), SquareCB(2)], Corral(2, rounds=9), log_rounds(9), 0)


def test_learners_of_one_algorithm_are_grouped_apart_if_their_arrays_are_laid_out_differently() -> None:
    """A matrix of one entry is another type to the compiler than a larger one in the order of columns."""
    small, large, larger = OFUL(1), OFUL(2), OFUL(3)
    assert grouped([large, small, larger, UCB(2)])[:2] == [[large, larger], [small]]


def test_packed_memories_are_equal_and_lie_in_their_rows() -> None:
    learners = [OFUL(3), UCB(4)]
    learners[0].learn(np.eye(3), 1, 0.5)
    learners[1].learn(None, 1, 0.5)
    packed, room = pack([learner.memory for learner in learners])
    for learner, memory in zip(learners, packed, strict=True):
        assert type(memory) is type(learner.memory)
        for own, other in zip(arrays(learner.memory), arrays(memory), strict=True):
            np.testing.assert_array_equal(own, other)
            assert (own.dtype, own.flags.f_contiguous) == (other.dtype, other.flags.f_contiguous)
    copied = room.copy()
    packed[0].theta[:] = 7.0
    assert (room[0] != copied[0]).any() and (room[1] == copied[1]).all()
    room[...] = copied
    np.testing.assert_array_equal(packed[0].theta, learners[0].state()["theta"])
