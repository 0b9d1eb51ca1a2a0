"""`equipoise.simulate`: parts of the package and of a user's own, in one process and in several."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio, simulate
from equipoise.bounds import Observed, Power
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features import Columns
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.selectors import BalancedElimination, Corral
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import log_rounds
from equipoise.simulation.tapes import Tapes, run_on_tapes
from tests.outside.own_learner import First, RunningMeans
from tests.outside.own_problem import Coins, KnownCoins
from tests.outside.own_selector import TurnsThenBest

PROBLEM = KArmedBandit([0.2, 0.5, 0.8])


def pool() -> list[Any]:
    return [UCB(3), EpsilonGreedy(3, epsilon=0.3)]


def problem_of(seed: int) -> LinearBandit:
    return LinearBandit(4, 2, 3, seed=seed)


def learners_of(seed: int) -> list[Any]:
    return [OFUL(2), OFUL(4)]


def balanced() -> BalancedElimination:
    return BalancedElimination([Power(1.0), Power(0.5)])


@pytest.mark.compiled
@pytest.mark.parametrize("joint", [False, True])
def test_runs_are_those_of_the_simulator(joint: bool) -> None:
    result = simulate(PROBLEM, pool(), balanced(), rounds=300, seeds=[3, 5], joint=joint)
    for row, seed in enumerate((3, 5)):
        selector = balanced()
        if joint:
            curves, _ = run_jointly(PROBLEM, pool(), selector, log_rounds(300), seed)
        else:
            curves, _ = run_on_tapes(Tapes(PROBLEM, pool(), log_rounds(300), seed), selector)
        for name, values in curves._asdict().items():
            np.testing.assert_array_equal(getattr(result, name)[row], values)
        assert result.selectors[row].standing() == selector.standing()
        assert result.eliminations[row] == tuple(selector.eliminations)
    assert result.seeds == (3, 5) and result.learner_names == ("UCB", "EpsilonGreedy(0.3)")
    assert repr(result) == "SimulationResult(2 seeds, 300 rounds, 2 learners)"


@pytest.mark.slow
@pytest.mark.parametrize("problem", [Coins(), KnownCoins()], ids=["joint", "tapes"])
def test_parts_of_ones_own_run_in_one_process_and_in_two(problem: Coins) -> None:
    own: list[Any] = [RunningMeans(3), First(), UCB(3)]
    one, two = (simulate(problem, own, TurnsThenBest(3), rounds=200, seeds=3, jobs=jobs) for jobs in (1, 2))
    for name in ("regret", "certified", "reward", "plays"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert [selector.standing() for selector in one.selectors] == [selector.standing() for selector in two.selectors]
    assert (one.plays[:, -1].sum(axis=1) == 200).all() and (one.plays[:, -1] > 0).all()
    assert np.isnan(one.regret).all() == (not isinstance(problem, KnownCoins))
    assert (one.reward[:, -1] > 0).all()
    assert own[0].counts.sum() == 0, "every seed works on copies"


@pytest.mark.compiled
def test_parts_made_for_a_seed_run_in_one_process_and_in_two() -> None:
    def run(jobs: int) -> equipoise.simulation.api.SimulationResult:
        selector = BalancedElimination([Observed(), Observed()])
        return simulate(problem_of, learners_of, selector, rounds=100, seeds=2, jobs=jobs, marks=[10])

    one, two = run(1), run(2)
    assert one.marks.tolist() == [10, 100]
    np.testing.assert_array_equal(one.regret, two.regret)
    assert one.regret[0, -1] != one.regret[1, -1]


@pytest.mark.compiled
def test_shared_data_runs_jointly() -> None:
    """On a problem of one's own, so that nothing is compiled: compiled runs with shared data are in test_rounds."""
    learners = [OFUL(3), OFUL(3, scale=0.1)]
    shared = simulate(KnownCoins(), learners, balanced(), rounds=200, share_data=True)
    alone = simulate(KnownCoins(), learners, balanced(), rounds=200, joint=True)
    assert (shared.plays == alone.plays).all() and (shared.regret != alone.regret).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 2.5}, "rounds is 2.5"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": []}, r"seeds is \(\), but must have at least one seed"),
        ({"seeds": [1, 1]}, r"seeds is \(1, 1\), but must have at least one seed and none twice"),
        ({"seeds": [-1]}, "seed is -1"),
        ({"seeds": "3"}, "seeds is '3'"),
        ({"jobs": 0}, "jobs is 0"),
        ({"marks": [200]}, "mark is 200"),
        ({"share_data": 1}, "share_data is 1, but must be True or False"),
        ({"joint": None}, "joint is None, but must be True or False"),
        ({"learners": []}, r"learners is \[\], but must be a list of learners"),
        ({"learners": [3]}, r"learner is 3, but must have decide\(\)"),
        ({"learners": [UCB]}, "learner is the class UCB, but must be an object"),
        ({"learners": lambda seed: [None, None]}, r"learner is None, but must have decide\(\)"),
        ({"learners": [UCB(3)]}, "learners has 1 entries, but Balanced elimination was created for 2"),
        ({"problem": "coins"}, r"problem is 'coins', but must have observe\(\)"),
        ({"problem": lambda seed: seed}, r"problem of seed 0 is 0, but must have observe\(\)"),
        ({"selector": BalancedElimination}, "selector is the class BalancedElimination, but must be an object"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    given = {"problem": PROBLEM, "learners": pool(), "selector": balanced(), "rounds": 100}
    with pytest.raises(InvalidArgument, match=message):
        simulate(**{**given, **changes})


class KeepsNoList(TurnsThenBest):
    """Returns what it eliminates from `credit` and does not keep it: another selector finds it out, in a field."""

    def __init__(self) -> None:
        super().__init__(2)
        self.tests = BalancedElimination([Power(0.05)] * 2)

    @property
    def active(self) -> tuple[int, ...]:
        return self.tests.active

    def choose(self, rng: Any = None) -> Any:
        return self.tests.choose(rng)

    def observe(self, choice: Any, proposals: Any) -> None:
        self.tests.observe(choice, proposals)

    def credit(self, choice: Any, reward: float, regret: float | None = None) -> Any:
        return self.tests.credit(choice, reward, regret)

    def withdraw(self, choice: Any) -> Any:
        return self.tests.withdraw(choice)


@pytest.mark.parametrize("joint", [False, True], ids=["tapes", "joint"])
def test_eliminations_that_a_selector_returns_but_does_not_keep_are_in_the_result(joint: bool) -> None:
    pair = [Constant(0), Constant(2)]
    result = simulate(KnownCoins((0.1, 0.5, 0.9)), pair, KeepsNoList(), rounds=400, seeds=2, joint=joint)
    for selector, eliminations in zip(result.selectors, result.eliminations, strict=True):
        assert isinstance(selector, KeepsNoList)
        assert [elimination.learner.index for elimination in eliminations] == [0]
        assert eliminations == tuple(selector.tests.eliminations)


def test_learners_that_lack_what_the_selector_needs_are_refused() -> None:
    with pytest.raises(
        IncompatibleLearner, match="Corral needs learners that accept importance weights, but 'First' does not"
    ):
        simulate(PROBLEM, [First(), UCB(3)], Corral(2, rounds=100), rounds=100)


def test_what_cannot_be_sent_to_another_process_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="simulation cannot be sent to another process"):
        simulate(lambda seed: PROBLEM, pool(), balanced(), rounds=10, seeds=2, jobs=2)


@pytest.mark.compiled
def test_a_portfolio_decides_as_the_joint_simulation() -> None:
    result = simulate(PROBLEM, pool(), balanced(), rounds=200, joint=True)
    portfolio = Portfolio(pool(), balanced(), seed=0)
    from equipoise.simulation.joint import run_portfolio

    curves, _ = run_portfolio(PROBLEM, portfolio, log_rounds(200))
    np.testing.assert_array_equal(result.plays[0], curves.plays)


@pytest.mark.slow
def test_importing_the_package_does_not_import_the_compiler() -> None:
    program = "import sys, equipoise; assert 'numba' not in sys.modules; equipoise.simulate"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.compiled
def test_learners_with_feature_maps_run_interpreted_like_those_on_the_same_columns() -> None:
    mapped = [OFUL(features=Columns([0, 1])), OFUL(features=Columns([0, 1, 2, 3]))]
    interpreted = simulate(problem_of(0), mapped, balanced(), rounds=50, joint=True)
    compiled = simulate(problem_of(0), learners_of(0), balanced(), rounds=50, joint=True)
    np.testing.assert_allclose(interpreted.regret, compiled.regret, rtol=1e-9)
