"""Episodes through a portfolio on one sequence of rounds: joint runs of episodic problems."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Bound, Custom, Observed, Power
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import LSVI_UCB, QLearning
from equipoise.learners._core.trajectory import Trajectory
from equipoise.problems import CombinationLock, LinearMDP
from equipoise.selectors import BalancedElimination
from equipoise.simulation.joint import run_jointly, run_portfolio
from equipoise.simulation.tapes import Tapes, run_on_tapes

ROUNDS = 150


def lock_and_learners() -> tuple[Any, list[Any]]:
    """A process without chance: nothing slips and nothing pays but the last digit."""
    problem = CombinationLock(3, 2, consolation=0.0, seed=1)
    sizes: dict[str, Any] = {"horizon": 3, "episodes": ROUNDS}
    return problem, [LSVI_UCB(problem.features, **sizes, bonus=0.02), QLearning(4, 2, **sizes, bonus=0.05)]


def test_a_joint_run_is_the_run_from_tapes_where_nothing_is_random() -> None:
    """Both through public methods: a problem without kernels, and a bound that cannot be compiled."""
    marks, runs = log_rounds(ROUNDS), []
    for jointly in (True, False):
        problem, learners = lock_and_learners()
        bounds: list[Bound] = [Observed(), Custom(lambda n: 2.0 * n**0.5, "2 sqrt(n)")]
        selector = BalancedElimination(bounds, reward_range=problem.reward_range)
        methods = {name: getattr(problem, name) for name in ("observe", "respond", "play", "gap")}
        plain: Any = SimpleNamespace(**methods)
        if jointly:
            runs.append(run_jointly(plain, learners, selector, marks, 0)[0])
        else:
            runs.append(run_on_tapes(Tapes(plain, learners, marks, 0), selector)[0])
    one, other = runs
    assert np.array_equal(one.plays, other.plays) and one.plays[-1].min() > 0
    assert one.regret == pytest.approx(other.regret) and one.regret[-1] > 0
    assert one.certified == pytest.approx(other.certified)


def test_learners_learn_their_own_episodes_and_are_judged_by_what_they_observe() -> None:
    problem = LinearMDP(5, 2, 3, 4, 3, seed=1)
    sizes: dict[str, Any] = {"horizon": 3, "episodes": ROUNDS, "bonus": 0.05}
    learners = [LSVI_UCB(problem.features, dim, **sizes) for dim in (2, 4)]
    portfolio = Portfolio(learners, BalancedElimination([Observed()] * 2, reward_range=problem.reward_range))
    curves, _ = run_portfolio(problem, portfolio, log_rounds(ROUNDS))
    assert [int(learner.memory.episodes[0]) for learner in learners] == curves.plays[-1].tolist()
    assert curves.plays[-1].sum() == ROUNDS and portfolio.pending == ()
    assert (curves.certified >= curves.regret).all()


def test_episodes_can_be_shared() -> None:
    """Learners that accept rounds they did not play get every trajectory."""

    class Watcher:
        accepts = frozenset({"off_policy"})

        def __init__(self, action: int) -> None:
            self.action, self.seen = action, 0

        def decide(self, context):
            return np.full((3, 5), self.action)

        def learn(self, context, action, reward):
            assert isinstance(action, Trajectory) and action.total_reward == reward
            self.seen += 1

    problem, learners = LinearMDP(5, 2, 3, 4, 3, seed=1), [Watcher(0), Watcher(1)]
    selector = BalancedElimination([Power(1.0)] * 2, reward_range=problem.reward_range)
    run_jointly(problem, learners, selector, log_rounds(20), 0, share_data=True)
    assert [learner.seen for learner in learners] == [20, 20]
