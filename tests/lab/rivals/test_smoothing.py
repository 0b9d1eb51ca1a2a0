"""Selectors over smoothed learners: a loop over their methods says what second rounds play, and who learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.kernels.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, open_stream, seek
from equipoise.lab.rivals import StochasticCorral, StochasticEXP3P
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.selector import Choice
from equipoise.selectors._core.evidence import KEEP, REPLAY
from equipoise.simulation.joint import run_jointly
from tests.lab.rivals.tasks import Task, task_of
from tests.simulation.plain import Plain, assert_same_states

ROUNDS = 300
RIVALS = {"corral": StochasticCorral, "exp3p": StochasticEXP3P}


class Round(NamedTuple):
    choice: Choice
    task: Task
    context: Any
    action: Any
    gap: float


def rounds_of(problem: Any, learners: list[Any], selector: Any, seed: int, withdraws: bool = False) -> Iterator[Round]:
    """Play in plain Python, one round at a time; with `withdraws`, every choice is first made and taken back."""
    stream, kept = open_stream(seed), dict[int, Any]()
    for t in range(1, ROUNDS + 1):
        seek(stream, CONTEXTS, t)
        context = problem.observe(stream.generator)
        for again in (True, False) if withdraws else (False,):
            seek(stream, SELECTOR, t)
            choice = selector.choose(stream.generator)
            if again:
                selector.withdraw(choice)
        task, i = task_of(selector, choice), choice.learner
        learner, own = learners[i], learners[i].state()
        if task.kind == KEEP:
            kept[i] = own
        if task.kind == REPLAY:
            learner.restore(kept[i])
        seek(stream, LEARNERS + i, t)
        proposal = learner.decide(context, stream.generator)
        learner.restore(own)
        selector.observe(choice, {i: proposal})
        seek(stream, REWARDS, t)
        reward = problem.respond(context, proposal.action, stream.generator)
        yield Round(choice, task, context, proposal.action, problem.gap(context, proposal.action))
        selector.credit(choice, reward)
        if task.kind != REPLAY:
            learner.learn(context, proposal.action, reward)


@pytest.mark.compiled
@pytest.mark.parametrize("rival", RIVALS)
def test_compiled_runs_are_those_of_the_methods(rival: str) -> None:
    problem, marks = KArmedBandit([0.2, 0.5, 0.7]), log_rounds(ROUNDS)
    # The algorithm that compiles fastest: what is compared is what the driver does with it.
    learners, others = ([EpsilonGreedy(3, epsilon=0.2, name=str(i)) for i in range(4)] for _ in range(2))
    selector, plain = (RIVALS[rival](4, rounds=ROUNDS) for _ in range(2))
    fast, _ = run_jointly(problem, learners, selector, marks, 6)
    played = list(rounds_of(problem, others, plain, 6))
    assert fast.plays[-1].tolist() == np.bincount([each.choice.learner for each in played], minlength=4).tolist()
    np.testing.assert_allclose(fast.regret, np.cumsum([each.gap for each in played])[marks - 1], rtol=1e-9)
    assert len(set(fast.plays[-1])) > 1
    assert_same_states(learners, others, selector, plain)


@pytest.mark.parametrize("withdraws", [False, True])
@pytest.mark.parametrize("rival", RIVALS)
def test_second_rounds_name_a_policy_of_a_first_round(rival: str, withdraws: bool) -> None:
    """Against a store of all policies: the number names the policy that plays, whatever was taken back."""
    learners: list[Any] = [OFUL(2), OFUL(5), OFUL(4)]
    policies: list[list[Any]] = [[], [], []]
    replayed = 0
    selector = RIVALS[rival](3, rounds=ROUNDS)
    for choice, task, context, action, _ in rounds_of(LinearBandit(6, 3, 4), learners, selector, 9, withdraws):
        i = choice.learner
        if task.kind != REPLAY:
            policies[i].append(learners[i].state())
            assert task.policy == len(policies[i])
            continue
        twin = OFUL(learners[i].dim)
        twin.restore(policies[i][task.policy - 1])
        assert twin.decide(context).action == action
        replayed += task.policy < len(policies[i])
    assert replayed > 30


def test_learners_that_cannot_be_compiled_are_refused() -> None:
    learners = [Plain(UCB(2)), Plain(UCB(2))]
    with pytest.raises(InvalidArgument, match="StochasticCorral, but must not store policies unless problem"):
        run_jointly(KArmedBandit([0.2, 0.5]), learners, StochasticCorral(2, rounds=9), log_rounds(9), 0)
