"""Copies of learners and problems in the middle of a run are independent and go on identically."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.lab.rivals import OSOM
from equipoise.learners import OFUL, UCB, SquareCB
from equipoise.problems import LinearBandit
from equipoise.rl import FeatureLSVI, LinearMDP
from equipoise.testing.learners import random_actions
from tests.episodes import HORIZON, N_ACTIONS, N_STATES, random_trajectory, start_state
from tests.learners import subjects as learner_subjects
from tests.problems import subjects as problem_subjects

COPIERS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": deepcopy,
    "pickle": lambda part: pickle.loads(pickle.dumps(part)),
}


def action_itself(context: Any, action: Any, rng: np.random.Generator) -> Any:
    return action


def entry(state: int, action: int) -> np.ndarray:
    return np.eye(N_STATES * N_ACTIONS)[state * N_ACTIONS + action]


LEARNERS = [
    *((cls, settings, contexts, action_itself) for cls, settings, contexts in learner_subjects.SUBJECTS),
    *((cls, settings, start_state, random_trajectory) for cls, settings in learner_subjects.EPISODIC),
    (TrackedOFUL, {"truth": [0.5, 0.2, 0.1]}, random_actions, action_itself),
]
SIZES: dict[str, Any] = {"dim": N_STATES * N_ACTIONS, "n_actions": N_ACTIONS, "horizon": HORIZON, "episodes": 90}


def decisions(learner: Any, contexts: Any, outcomes: Any, rounds: range) -> list[str]:
    """What a learner proposes while it learns, drawing from its own stream where it draws."""
    seen = []
    for t in rounds:
        context = contexts(np.random.default_rng([t, 0]))
        proposal = learner.decide(context)
        reward = float(np.random.default_rng([t, 1]).random())
        learner.learn(context, outcomes(context, proposal.action, np.random.default_rng([t, 2])), reward)
        seen.append(repr(proposal))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize(("cls", "settings", "contexts", "outcomes"), LEARNERS)
def test_a_copy_of_a_learner_goes_on_identically(
    cls: type[Any], settings: dict[str, Any], contexts: Any, outcomes: Any, copier: str
) -> None:
    learner = cls(**settings)
    decisions(learner, contexts, outcomes, range(20))
    copy = COPIERS[copier](learner)
    assert copy == learner
    expected = decisions(learner, contexts, outcomes, range(20, 40))
    assert decisions(copy, contexts, outcomes, range(20, 40)) == expected
    assert copy == learner
    clone = learner.clone()
    assert clone == cls(**settings) == cls.from_config(learner.config())


@pytest.mark.parametrize("copier", COPIERS)
def test_a_copy_of_a_learner_with_a_feature_map_goes_on_identically(copier: str) -> None:
    learner = FeatureLSVI(entry, **SIZES)
    for t in range(10):
        rng = np.random.default_rng(t)
        state = start_state(rng)
        policy = np.array([[learner.decide(state).action(h, s) for s in range(N_STATES)] for h in range(HORIZON)])
        learner.learn(state, random_trajectory(state, policy, rng), 0.5)
    copy = COPIERS[copier](learner)
    assert copy == learner
    assert copy.decide(0).action(0, 0) == learner.decide(0).action(0, 0)
    learner.learn(state, random_trajectory(state, policy, rng), 0.5)
    assert copy != learner


PROBLEMS = [*problem_subjects.SUBJECTS, *problem_subjects.EPISODIC, (LinearMDP, {"seed": 3})]


def rounds_of(problem: Any, rounds: range) -> list[str]:
    """Contexts, rewards and gaps; who plays is told to problems that want to know."""
    seen = []
    for t in rounds:
        rng = np.random.default_rng(t)
        context = problem.observe(rng)
        action = problem.optimal_policy if hasattr(problem, "optimal_policy") else t % problem.n_actions
        reward, gap = problem.respond(context, action, rng), problem.gap(context, action)
        if hasattr(problem, "record"):
            problem.record(t % 2, action, reward)
        seen.append(repr((context, reward, gap)))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize(("cls", "settings"), PROBLEMS)
def test_a_copy_of_a_problem_goes_on_identically(cls: type[Any], settings: dict[str, Any], copier: str) -> None:
    problem = cls(**settings)
    rounds_of(problem, range(7))
    copy = COPIERS[copier](problem)
    assert copy == problem
    expected = rounds_of(problem, range(7, 20))
    assert rounds_of(copy, range(7, 20)) == expected
    assert rounds_of(problem.clone(), range(20)) == rounds_of(cls(**settings), range(20))
    assert cls.from_config(problem.config()).config() == problem.config()


def test_nobody_has_settings_that_only_a_base_class_wants() -> None:
    for learner, missing in ((SquareCB(2), "noise"), (UCB(2), "seed"), (OFUL(2), "seed"), (OSOM(2, dim=2), "scale")):
        with pytest.raises(AttributeError):
            getattr(learner, missing)


def test_reprs_show_what_was_set() -> None:
    assert repr(OFUL(4, noise=0.1)) == "OFUL(4, noise=0.1)"
    assert repr(OSOM(3, dim=2, name="mine")) == "OSOM(3, name='mine', dim=2)"
    assert repr(LinearBandit(8, 4, noise="gaussian")) == "LinearBandit(8, 4, 10, noise='gaussian')"
