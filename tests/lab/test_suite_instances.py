"""The instances of the suite are what they claim to be."""

import json

import numpy as np
import pytest

from equipoise.bounds import Observed
from equipoise.errors import InvalidArgument
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import HALVES, INSTANCES, Instance
from equipoise.learner import provides
from equipoise.learners import OFUL
from equipoise.problems import DisjointLinearBandit, LinearBandit
from equipoise.storage.registry import command_name

EVERY = pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES)


def test_halves_are_balanced() -> None:
    sizes = [sum(instance.half == half for instance in INSTANCES.values()) for half in HALVES]
    assert sum(sizes) == len(INSTANCES) >= 14
    assert sizes[0] == sizes[1]


def test_contenders_have_the_names_of_the_command_line() -> None:
    """Except where one class takes part with two kinds of bounds."""
    classes = [contender.selector for contender in CONTENDERS.values()]
    for label, contender in CONTENDERS.items():
        assert classes.count(contender.selector) > 1 or label == command_name(contender.selector)


@EVERY
def test_a_seed_is_fresh_objects_with_one_bound_per_learner(instance: Instance) -> None:
    setup, again = instance.set_up(3), instance.set_up(3)
    assert setup.problem is not again.problem
    assert not {id(learner) for learner in setup.learners} & {id(learner) for learner in again.learners}
    assert len({learner.name for learner in setup.learners}) == len(setup.learners) >= 2
    assert len(setup.scaled) == len(setup.observed) == len(setup.learners)
    assert not any(isinstance(bound, Observed) for bound in setup.scaled)
    reporting = [isinstance(bound, Observed) for bound in setup.observed]
    assert reporting == ["regret" in provides(learner) for learner in setup.learners]
    short = instance.set_up(3, rounds=50)
    assert [learner.name for learner in short.learners] == [learner.name for learner in setup.learners]
    assert setup.contexts == ("fixed" if instance.name in FIXED else "random")


FIXED = ("confidence-quiet", "confidence-noisy", "ucb-width-noisy", "ucb-width-quiet", "many-learners", "slow-start")


@EVERY
def test_settings_are_plain_data_that_say_how_long(instance: Instance) -> None:
    settings = instance.complete_settings(7)
    assert json.loads(json.dumps(settings)) == settings
    assert settings["rounds"] == 7
    assert instance.complete_settings()["rounds"] == instance.rounds


def test_sharing_needs_a_learner_that_gains_by_it() -> None:
    can = {name for name, instance in INSTANCES.items() if instance.set_up(0).can_share}
    without = {"ucb-width-noisy", "ucb-width-quiet", "many-learners", "slow-start", "linear-mdp"}
    assert can == set(INSTANCES) - without


def test_the_own_plays_of_the_best_learner_of_the_trap_look_poor() -> None:
    """Taught by 2,000 rounds of the best single action, whose mean is 0.7, it explores all others by itself, though the
    optimum of 0.85 is its own and nobody else's."""
    setup = INSTANCES["exploration-trap"].set_up(0)
    problem, looking, rng = setup.problem, setup.learners[-1], np.random.default_rng(0)
    for _ in range(2000):
        context = problem.observe(rng)
        looking.learn(context, 0, problem.respond(context, 0, rng))
    assert isinstance(problem, DisjointLinearBandit)
    earned, best = [], []
    for _ in range(100):
        context = problem.observe(rng)
        action, means = looking.decide(context).action, problem.means(context)
        looking.learn(context, action, problem.respond(context, action, rng))
        earned.append(means[action])
        best.append(means.max())
    assert np.mean(earned) < 0.45
    assert np.mean(best) == pytest.approx(0.85)
    assert isinstance(looking, OFUL)


@pytest.mark.parametrize("signal", [0.25, 1.0])
def test_signal_is_the_reach_of_expected_rewards(signal: float) -> None:
    problem = LinearBandit(6, 4, 3, signal=signal, seed=5)
    rng = np.random.default_rng(1)
    means = np.array([problem.means(problem.observe(rng)) for _ in range(3000)])
    assert 0.45 * signal < np.abs(means - 0.5).max() <= 0.5 * signal + 1e-12


def test_signal_leaves_the_instance_as_it_is_but_for_its_size() -> None:
    full, weak = LinearBandit(6, 4, 3, seed=5).params.theta, LinearBandit(6, 4, 3, signal=0.25, seed=5).params.theta
    np.testing.assert_allclose(weak, [full[0], *(0.25 * full[1:])])


@pytest.mark.parametrize("signal", [0.0, 1.5])
def test_impossible_signal_is_refused(signal: float) -> None:
    with pytest.raises(InvalidArgument, match=f"signal is {signal}, but must"):
        LinearBandit(signal=signal)
