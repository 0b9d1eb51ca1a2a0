"""The simulator makes the decisions a portfolio makes: compiled or not, from tapes or jointly."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from equipoise import Portfolio
from equipoise.bounds import Custom, Observed, Power
from equipoise.kernels.marks import NATIVE
from equipoise.kernels.normals import fill_row, start_rows
from equipoise.kernels.streams import open_stream, seek
from equipoise.lab.rivals import (
    OSOM,
    RIVAL_LEARNERS,
    ALBDim,
    ALBNorm,
    MisspecificationAdaptive,
    ModCB,
    StochasticCorral,
)
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import (
    LEARNERS,
    OFUL,
    UCB,
    Constant,
    EpsilonGreedy,
    LinearThompson,
    LogisticThompson,
    LogisticUCB,
    Scheduled,
    SquareCB,
)
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.selectors import BalancedElimination
from equipoise.simulation.compiler import compiled
from equipoise.simulation.joint import run_jointly, run_portfolio
from equipoise.simulation.loops import alone, can_compile, native_memory
from equipoise.simulation.parts import open_run
from equipoise.simulation.tapes import Tapes, run_on_tapes, why_not_tapes
from tests.simulation.plain import Plain

ROUNDS = 10_000

# With three of the four signal columns the actions differ in norm. Were all norms equal, the first decision would be a
# tie that the last digit breaks, and that digit may differ between matrix products and loops.
KERNEL_LEARNERS: dict[str, Callable[[], Any]] = {
    "OFUL": partial(OFUL, 3, norm_bound=1.1),
    "OFUL, discounted": partial(OFUL, 3, norm_bound=1.1, discount=0.97),
    "UCB": partial(UCB, 5),
    "EpsilonGreedy": partial(EpsilonGreedy, 5, epsilon=0.1),
    "LinearThompson": partial(LinearThompson, 3, norm_bound=1.1),
    "LogisticUCB": partial(LogisticUCB, 3),
    "LogisticThompson": partial(LogisticThompson, 3, scale=0.5),
    "Constant": partial(Constant, 2),
    "Scheduled": partial(Scheduled, "power", 1.0, 0.5),
}

# Learners with regressions inside them are slow as plain Python and get fewer rounds. Settings are such that each of
# them changes its model within those.
SELECTING_ROUNDS = 2000
SELECTING_LEARNERS: dict[str, Callable[[], Any]] = {
    "SquareCB": partial(SquareCB, 3, norm_bound=1.1),
    "ModCB": partial(ModCB, [1, 3, 5], norm_bound=1.1, exploration=0.1, delta=0.5),
    "OSOM": partial(OSOM, 5, dim=3, norm_bound=1.1, noise=0.1, regularization=0.01),
    "ALBNorm": partial(ALBNorm, 3, first_epoch=50, norm_bound=4.0),
    "ALBDim": partial(ALBDim, 5, first_phase=36),
    "MisspecificationAdaptive": partial(MisspecificationAdaptive, 3, arms=5, rounds=SELECTING_ROUNDS),
}


def linear_problem(**settings: Any) -> LinearBandit:
    return LinearBandit(8, 4, 5, seed=1, **settings)


def test_every_kernel_learner_is_compared() -> None:
    compared = {**KERNEL_LEARNERS, **SELECTING_LEARNERS}
    assert {name.partition(",")[0] for name in compared} == {
        name for name, cls in {**LEARNERS, **RIVAL_LEARNERS}.items() if hasattr(cls, "kernels")
    }


@pytest.mark.compiled
def test_compiled_normal_numbers_are_numpys_bit_for_bit() -> None:
    stream, start, fill = open_stream(5), compiled(start_rows), compiled(fill_row)
    for round_ in range(300):
        interpreted, fast = np.zeros((4, 90)), np.zeros((4, 90))
        seeds, fast_seeds = np.zeros(3, np.uint64), np.zeros(3, np.uint64)
        seek(stream, 1, round_)
        start_rows(seeds, stream.generator)
        seek(stream, 1, round_)
        start(fast_seeds, stream.generator)
        for row in (3, 0, 2, 1):
            fill_row(interpreted, row, 90, seeds)
            fill(fast, row, 90, fast_seeds)
        assert np.array_equal(interpreted, fast)
    assert {start_rows, fill_row} <= set(NATIVE)


def test_a_row_is_the_same_however_far_and_whenever_it_is_drawn() -> None:
    whole, part, seeds = np.zeros((3, 30)), np.zeros((3, 30)), np.array([1, 2, 3], np.uint64)
    for row in range(3):
        fill_row(whole, row, 30, seeds)
    fill_row(part, 2, 7, seeds)
    assert np.array_equal(part[2, :7], whole[2, :7])
    assert not np.isin(whole[0], whole[1:]).any()


def test_the_columns_of_a_truncated_draw_are_those_of_the_whole() -> None:
    problem, whole = LinearBandit(32, 8, 10), LinearBandit(32, 8, 10).workspace()
    problem.kernels.draw(problem.params, whole, np.random.default_rng(1))
    for n_columns in (8, 16, 32):
        workspace = problem.workspace(n_columns)
        problem.kernels.draw(problem.params, workspace, np.random.default_rng(1))
        np.testing.assert_allclose(workspace.actions, whole.actions[:, :n_columns], rtol=1e-13)
        np.testing.assert_array_equal(workspace.means, whole.means)


@pytest.mark.compiled
@pytest.mark.parametrize("name", KERNEL_LEARNERS)
def test_a_compiled_tape_is_the_interpreted_one(name: str) -> None:
    """Rewards are decisions made visible: equal rewards and gaps over 10,000 plays mean equal decisions."""
    problem, marks = linear_problem(contexts="table"), log_rounds(ROUNDS)
    fast = Tapes(problem, [KERNEL_LEARNERS[name]()], marks, seed=2)
    slow = Tapes(problem, [Plain(KERNEL_LEARNERS[name]())], marks, seed=2)
    for tapes in (fast, slow):
        while tapes.recorded[0] < ROUNDS:
            tapes.extend(0)
    np.testing.assert_array_equal(fast.rows[0, :, 0], slow.rows[0, :, 0])
    np.testing.assert_allclose(fast.rows[0, :, 1:], slow.rows[0, :, 1:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.curve(0), slow.curve(0), rtol=1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize("name", SELECTING_LEARNERS)
def test_compiled_kernels_of_a_learner_that_selects_do_what_the_interpreted_ones_do(name: str) -> None:
    """Round by round on the same contexts, random numbers and rewards; at the end the states agree."""
    problem, stream = linear_problem(contexts="table"), open_stream(2)
    fast, slow = SELECTING_LEARNERS[name](), SELECTING_LEARNERS[name]()
    memory, begun = native_memory(fast.memory, problem.n_actions, problem.same_actions), fast.state()
    decide, learn = compiled(fast.kernels.decide), compiled(fast.kernels.learn)
    for t in range(SELECTING_ROUNDS):
        seek(stream, 1, t)
        context = problem.observe(stream.generator)
        seek(stream, 2, t)
        proposal = slow.decide(context, stream.generator)
        seek(stream, 2, t)
        seen = decide(fast.params, memory, context, stream.generator)
        assert seen.plan is proposal.plan is None
        np.testing.assert_allclose(seen[:-1], proposal[:-1], rtol=1e-9)
        reward = problem.respond(context, proposal.action, stream.generator)
        slow.learn(context, proposal.action, reward)
        learn(fast.params, memory, context, proposal.action, reward, 1.0)
    reached, expected = fast.state(), slow.state()
    for key, array in reached.items():
        np.testing.assert_allclose(array, expected[key], rtol=1e-9, atol=1e-9)
    model = {"ModCB": "current", "OSOM": "linear", "ALBNorm": "epoch", "ALBDim": "phase"}.get(name)
    assert model is None or (reached[model] > begun[model]).all()


@pytest.mark.compiled
def test_a_learner_with_regressions_inside_it_can_be_recorded() -> None:
    """Where all rounds offer the same actions a single regression is kept up to date in place; those inside are not."""
    problem, marks, made = linear_problem(contexts="fixed"), log_rounds(1000), SELECTING_LEARNERS["ALBDim"]
    fast, slow = (Tapes(problem, [learner], marks, seed=2) for learner in (made(), Plain(made())))
    np.testing.assert_allclose(fast.curve(0), slow.curve(0), rtol=1e-9)


@pytest.mark.compiled
def test_a_tape_extended_in_pieces_is_the_tape_recorded_at_once() -> None:
    marks = log_rounds(3 * 4096 + 5)
    pieces, whole = (Tapes(linear_problem(), [KERNEL_LEARNERS["OFUL"]()], marks, seed=3) for _ in range(2))
    pieces.extend(0)
    pieces.extend(0)
    np.testing.assert_array_equal(pieces.curve(0), whole.curve(0))


@pytest.mark.compiled
def test_a_driver_leaves_the_ownership_of_arrays_as_it_was() -> None:
    """Drivers do not count references; a count that went down would free arrays in use."""
    problem, learner = LinearBandit(8, 4), OFUL(4)
    arrays = [*problem.params[:1], *learner.memory[:4]]
    before = [sys.getrefcount(array) for array in arrays]
    tapes = Tapes(problem, [learner], log_rounds(500), 0)
    run_on_tapes(tapes, BalancedElimination([Power(1.0)]))
    tapes.curve(0)
    tapes = None  # type: ignore[assignment]
    gc.collect()
    assert [sys.getrefcount(array) for array in arrays] == before
    assert learner.memory.updates[0] == 500


@pytest.mark.compiled
def test_a_driver_gives_the_generator_back_at_every_call() -> None:
    """Each call takes a reference to it, which counting would give back; kept, it would keep every stream alive."""
    loop = alone(KArmedBandit([0.5, 0.7]), Constant(1), 0, np.empty((0, 3)))
    run = open_run(0, np.array([50]), 1)
    before = sys.getrefcount(run.stream.generator)
    for until in range(51):
        loop.advance(run, until)
    after = sys.getrefcount(run.stream.generator)
    assert (run.progress.done[0], after) == (50, before)


@pytest.mark.compiled
def test_equal_learners_have_different_tapes() -> None:
    tapes = Tapes(linear_problem(), [KERNEL_LEARNERS["OFUL"](), KERNEL_LEARNERS["OFUL"]()], log_rounds(2000), seed=4)
    tapes.extend(0)
    tapes.extend(1)
    assert (tapes.rows[0, :2000, 0] != tapes.rows[1, :2000, 0]).any()


@pytest.mark.compiled
@pytest.mark.parametrize("bounds", [[Power(0.5), Power(1.0), Power(2.0)], [Power(0.02), Observed(), Observed()]])
def test_a_compiled_selector_on_tapes_chooses_what_the_interpreted_one_chooses(bounds: list[Any]) -> None:
    """A narrowed radius lets learners be eliminated within the horizon, so eliminations are compared too."""
    learners = [OFUL(dim, norm_bound=1.1) for dim in (2, 4, 8)]
    tapes = Tapes(linear_problem(), learners, log_rounds(ROUNDS), seed=5)
    fast, slow = (BalancedElimination(bounds, radius_scale=0.05) for _ in range(2))
    fast_curves, _ = run_on_tapes(tapes, fast)
    slow_curves, _ = run_on_tapes(tapes, Plain(slow))
    np.testing.assert_array_equal(fast_curves.plays, slow_curves.plays)
    np.testing.assert_array_equal(fast_curves.regret, slow_curves.regret)
    np.testing.assert_array_equal(fast_curves.certified, slow_curves.certified)
    assert fast.eliminations == slow.eliminations
    assert len(fast.eliminations) > 0


@pytest.mark.compiled
def test_a_custom_bound_runs_interpreted() -> None:
    selector = BalancedElimination([Custom(lambda n: n**0.5, "root"), Power(1.0)])
    assert not can_compile(selector)
    learners = [OFUL(2), OFUL(4)]
    curves, _ = run_on_tapes(Tapes(linear_problem(), learners, log_rounds(200), seed=1), selector)
    twin, _ = run_on_tapes(Tapes(linear_problem(), [OFUL(2), OFUL(4)], log_rounds(200), seed=1), root_and_power())
    np.testing.assert_array_equal(curves.plays, twin.plays)


def root_and_power() -> BalancedElimination:
    return BalancedElimination([Power(1.0), Power(1.0)])


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("contexts", "share_data"),
    [("fresh", False), ("table", False), ("fixed", False), ("fresh", True), ("fixed", True)],
    ids=lambda given: given if isinstance(given, str) else ("own data", "shared data")[given],
)
def test_the_compiled_joint_run_makes_the_decisions_of_a_portfolio(contexts: str, share_data: bool) -> None:
    """With shared data all kernel learners at once, so that groups of different algorithms are exercised, of which some
    share and some do not; with own data two of one group, whose loop is compiled for another test too. Contexts from a
    table are drawn by the same function whether data are shared or not: they get no second loop. The dimensions cut
    through the blocks of equal norm: otherwise first actions tie, and rounding decides which one is played."""
    problem, marks = linear_problem(contexts=contexts), log_rounds(ROUNDS)

    def parts() -> tuple[list[Any], BalancedElimination]:
        everyone = [make() for make in KERNEL_LEARNERS.values()]
        learners = everyone if share_data else [KERNEL_LEARNERS["OFUL"](), OFUL(7, norm_bound=1.1)]
        bounds: list[Any] = [Observed(), *map(Power, (1.0, 2.0, 0.5, 2.0, 1.5, 1.0, 2.0, 0.5))]
        return learners, BalancedElimination(bounds[: len(learners)], radius_scale=0.3)

    learners, fast = parts()
    fast_curves, _ = run_jointly(problem, learners, fast, marks, 7, share_data=share_data)
    learners, slow = parts()
    portfolio = Portfolio(learners, slow, seed=7, share_data=share_data)
    slow_curves, _ = run_portfolio(problem, portfolio, marks)
    np.testing.assert_array_equal(fast_curves.plays, slow_curves.plays)
    np.testing.assert_allclose(fast_curves.regret, slow_curves.regret, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fast_curves.certified, slow_curves.certified, rtol=1e-9)
    assert [event.round for event in fast.eliminations] == [event.round for event in slow.eliminations]


@pytest.mark.compiled
def test_the_joint_run_works_without_features() -> None:
    problem, marks = KArmedBandit([0.2, 0.5, 0.8]), log_rounds(3000)
    runs = []
    for compile_it in (True, False):
        learners: list[Any] = [UCB(3, scale=0.1), EpsilonGreedy(3, epsilon=0.2)]
        selector = BalancedElimination([Power(1.0)] * 2)
        if compile_it:
            runs.append(run_jointly(problem, learners, selector, marks, 1)[0])
        else:
            runs.append(run_portfolio(problem, Portfolio(learners, selector, seed=1), marks)[0])
    np.testing.assert_array_equal(runs[0].plays, runs[1].plays)
    np.testing.assert_allclose(runs[0].regret, runs[1].regret, atol=1e-9)


@pytest.mark.compiled
@pytest.mark.statistical
def test_tapes_and_joint_runs_agree_in_distribution() -> None:
    """Final regrets of 300 runs each way; a rank test at level 1e-4 with fixed seeds.

    If the two laws were equal, a rejection would have probability 1e-4; the seeds are fixed, so it does not recur.
    """
    marks, samples = log_rounds(400), []
    for way in ("tapes", "joint"):
        finals = []
        for seed in range(300):
            learners = [OFUL(dim, norm_bound=1.1) for dim in (2, 4)]
            selector = BalancedElimination([Observed(), Observed()])
            if way == "tapes":
                curves, _ = run_on_tapes(Tapes(linear_problem(), learners, marks, seed), selector)
            else:
                curves, _ = run_jointly(linear_problem(), learners, selector, marks, 10_000 + seed)
            finals.append(curves.regret[-1])
        samples.append(finals)
    assert float(mannwhitneyu(np.array(samples[0]), np.array(samples[1])).pvalue) > 1e-4


@pytest.mark.compiled
@pytest.mark.statistical
def test_the_comparison_of_distributions_would_notice_another_law() -> None:
    """Negative control: the same rank test tells another exploration width apart."""
    marks, samples = log_rounds(400), []
    for scale in (1.0, 0.25):
        finals = []
        for seed in range(300):
            tapes = Tapes(linear_problem(), [OFUL(4, norm_bound=1.1, scale=scale)], marks, seed)
            finals.append(tapes.curve(0)[-1])
        samples.append(finals)
    assert float(mannwhitneyu(np.array(samples[0]), np.array(samples[1])).pvalue) < 1e-4


class Stubborn:
    """A user's own learner: five lines, no kernels."""

    def decide(self, context: Any) -> int:
        return 1

    def learn(self, context: Any, action: int, reward: float) -> None:
        pass


@pytest.mark.compiled
def test_a_learner_of_the_users_own_runs_beside_compiled_ones() -> None:
    problem, marks = KArmedBandit([0.1, 0.9]), log_rounds(500)
    selector = BalancedElimination([Power(1.0), Power(1.0)])
    tapes = Tapes(problem, [Stubborn(), UCB(2)], marks, seed=1)
    curves, _ = run_on_tapes(tapes, selector)
    assert curves.plays[-1].sum() == 500
    assert tapes.curve(0)[-1] == 0.0
    joint, _ = run_jointly(problem, [Stubborn(), UCB(2)], BalancedElimination([Power(1.0)] * 2), marks, 1)
    assert joint.plays[-1].sum() == 500


def test_tapes_are_refused_with_the_reason() -> None:
    problem, selector = linear_problem(), BalancedElimination([Power(1.0)])
    assert why_not_tapes(problem, selector, share_data=False) is None
    assert "share data" in str(why_not_tapes(problem, selector, share_data=True))

    class Drifting(LinearBandit):
        iid = False

    assert "not independent and identically distributed" in str(why_not_tapes(Drifting(4, 2, 3), selector, False))
    for need, reason in {"actions": "asks every learner", "weight": "importance-weighted"}.items():
        demanding = Plain(selector, needs=frozenset({need}))
        assert reason in str(why_not_tapes(problem, demanding, False))
    assert "earlier" in str(why_not_tapes(problem, StochasticCorral(2, rounds=9), False))


def test_only_columns_that_are_needed_are_drawn() -> None:
    problem = LinearBandit(32, 8, 10)
    assert [problem.columns_for(OFUL(dim)) for dim in (2, 8, 16, 32)] == [8, 8, 16, 32]
    assert problem.columns_for(UCB(2)) == 8
    assert problem.columns_for(SimpleNamespace(n_columns=None)) == 32
