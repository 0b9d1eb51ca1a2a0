"""The instances of the suite are what they claim to be."""

import json

import numpy as np
import pytest

from equipoise.bounds import Observed
from equipoise.errors import InvalidArgument
from equipoise.kernels.streams import CONTEXTS, REWARDS, seek
from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS
from equipoise.lab.suite.cells import run_mode_of
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.late import LateLearner, LatePortfolio, run_late
from equipoise.lab.suite.setups import BANDITS, DRIFT, HALVES, LATE, POOR, QUIET, Instance, drawn_delays
from equipoise.learner import Proposal, provides
from equipoise.learners import OFUL
from equipoise.problems import DisjointLinearBandit, DriftingBandit, LinearBandit
from equipoise.selectors import UCB1
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import open_run
from equipoise.simulation.tapes import run_alone
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
    fixed = instance.name in FIXED or instance.group in (QUIET, POOR, DRIFT)
    assert setup.contexts == ("fixed" if fixed else "random")


FIXED = {"confidence-quiet", "confidence-noisy", "ucb-width-noisy", "ucb-width-quiet", "many-learners", "slow-start"}
FIXED |= {"ball", "hundred-learners"}


@EVERY
def test_settings_are_plain_data_that_say_how_long(instance: Instance) -> None:
    settings = instance.complete_settings(7)
    assert json.loads(json.dumps(settings)) == settings
    assert settings["rounds"] == 7
    assert instance.complete_settings()["rounds"] == instance.rounds


def test_sharing_needs_a_learner_that_gains_by_it() -> None:
    can = {name for name, instance in INSTANCES.items() if instance.set_up(0).can_share}
    without = {"ucb-width-noisy", "ucb-width-quiet", "many-learners", "hundred-learners", "slow-start", "linear-mdp"}
    without |= {name for name, instance in INSTANCES.items() if instance.group in (QUIET, POOR, DRIFT)}
    assert can == set(INSTANCES) - without


def test_agreement_is_not_asked_of_continuous_actions() -> None:
    assert run_mode_of("ball", 20, "counterfactual-balancing", False) is None
    assert run_mode_of("ball", 20, "counterfactual-balancing", True) is not None


def test_rivals_take_no_part_where_a_portfolio_is_needed() -> None:
    rounds = INSTANCES["late-rewards"].rounds
    for label, contender in CONTENDERS.items():
        if contender.selector in RIVAL_SELECTORS or contender.selector in RIVAL_LEARNERS:
            assert run_mode_of("late-rewards", rounds, label, False) is None
    assert run_mode_of("late-rewards", rounds, "ucb1", False) is not None


def test_the_leaderboard_is_over_the_bandits_of_the_earlier_suite() -> None:
    bandits = [name for name, instance in INSTANCES.items() if instance.group == BANDITS]
    assert len(bandits) == 17
    assert sum(INSTANCES[name].set_up(0).can_share for name in bandits) == 13


@pytest.mark.parametrize("k", [3, 10, 30, 100])
def test_a_poor_start_lasts_for_exactly_its_plays(k: int) -> None:
    setup = INSTANCES[f"poor-start-{k}"].set_up(0)
    problem, learner, rng = setup.problem, setup.learners[1], np.random.default_rng(0)
    gaps = []
    for _ in range(k + 50):
        context = problem.observe(rng)
        action = learner.decide(context).action
        gaps.append(problem.gap(context, action))
        learner.learn(context, action, problem.respond(context, action, rng))
    assert min(gaps[:k]) == max(gaps[:k]) == pytest.approx(0.9)
    assert max(gaps[k:]) == 0.0
    assert "greedy" not in provides(learner)  # a greedy expert would be good at once


def test_laws_change_when_the_instance_says() -> None:
    for name, rounds in (("drift-swap", 100), ("drift-fade", 100), ("drift-dormant", 100)):
        instance = INSTANCES[name]
        problem, means = instance.set_up(0, rounds).problem, []
        assert isinstance(problem, DriftingBandit)
        for _ in range(rounds):
            means.append(problem.means(None).tolist())
            problem.record(0, 0, 0.0)
        changed = [t for t in range(1, rounds) if means[t] != means[0]]
        assert changed[0] == instance.change(rounds)
        assert instance.change(rounds) in instance.marks(rounds)
        assert means[-1] == instance.settings["after"]
        assert len(changed) == (rounds - changed[0])
    assert INSTANCES["nested-full"].change(100) is None


@pytest.mark.compiled
def test_late_runs_deliver_each_reward_when_it_is_due() -> None:
    """A learner that writes down what it is taught: the reward of round t comes before round t + 1 + delay, or never;
    without delays a run has the curves of one in which rewards come at once."""
    setup, rounds, updates, now = INSTANCES["late-rewards"].set_up(3, 60), 60, [], [0]
    assert setup.delays is not None

    class Scribe:
        def decide(self, context: object, rng: object) -> Proposal:
            now[0] += 1
            return Proposal(0)

        def learn(self, context: object, action: int, reward: float) -> None:
            updates.append(now[0])

    delays = np.array([0.0, 5.0, np.inf, 2.0] * 15)
    marks = np.array([rounds])
    run_late(setup.problem, LateLearner(Scribe()), marks, 3, delays)  # type: ignore[arg-type]
    due = [t + 1 + delay for t, delay in enumerate(delays, 1) if t + 1 + delay <= rounds]
    assert updates == [int(t) - 1 for t in sorted(due)]

    prompt = [
        run_late(own.problem, LatePortfolio(own.learners, UCB1(4), 3, False), marks, 3, np.zeros(rounds))[0].regret
        if late
        else run_jointly(own.problem, own.learners, UCB1(4), marks, 3)[0].regret
        for late in (True, False)
        for own in [INSTANCES["late-rewards"].set_up(3, rounds)]
    ]
    np.testing.assert_allclose(prompt[0], prompt[1])


def test_delays_are_as_drawn() -> None:
    """Means of 20,000 draws lie within five standard errors: a false alarm has probability below 1e-6, seeds fixed."""
    delays = drawn_delays(200.0, 0.01, 20_000, seed=4)
    lost = np.isinf(delays)
    assert abs(lost.mean() - 0.01) < 5 * (0.01 / 20_000) ** 0.5
    assert abs(delays[~lost].mean() - 199.5) < 5 * 200 / 20_000**0.5
    assert {INSTANCES[name].group for name in INSTANCES if INSTANCES[name].set_up(0, 9).delays is not None} == {LATE}


@pytest.mark.compiled
def test_a_greedy_expert_alone_plays_what_its_learner_believes_best() -> None:
    """Compiled or not, and as in a plain loop."""
    setup, rounds = INSTANCES["ucb-width-noisy"].set_up(5, 200), 200
    marks = np.array([rounds])
    regret = run_alone(setup.problem, setup.learners[1], marks, 5, lane=1, greedy=True)[0].regret[-1]
    again = INSTANCES["ucb-width-noisy"].set_up(5, rounds)
    problem, learner, stream, total = again.problem, again.learners[1], open_run(5, marks, 1).stream, 0.0
    for n in range(rounds):
        seek(stream, CONTEXTS + 1, n)
        context = problem.observe(stream.generator)
        action = learner.decide(context, stream.generator).greedy
        seek(stream, REWARDS + 1, n)
        learner.learn(context, action, problem.respond(context, action, stream.generator))
        total += problem.gap(context, action)
    assert regret == pytest.approx(total)


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
