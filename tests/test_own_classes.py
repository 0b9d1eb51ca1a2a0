"""Classes written from the published contracts alone pass the contract suites and work in a portfolio."""

from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.learners import OFUL, UCB
from equipoise.selectors import UCB1, BalancedElimination
from equipoise.testing import check_learner, check_problem, check_selector
from tests.outside.own_learner import First, RunningMeans
from tests.outside.own_problem import Coins, KnownCoins
from tests.outside.own_selector import TurnsThenBest

minimal: Any = First  # has less than a full learner


def coins(problem, _):
    return range(len(problem.chances))


def test_a_selector_from_the_protocol_alone_passes_its_suite() -> None:
    proved = check_selector(lambda: TurnsThenBest(3))
    assert "replaying its choices gives the same state" in proved
    assert "state survives a round trip in mid run" in proved
    assert "the certificate is well formed or refused with a reason" in proved


@pytest.mark.slow
def test_learners_from_the_protocol_alone_pass_their_suite() -> None:
    assert "state survives a round trip in mid run" in check_learner(lambda: RunningMeans(6))
    assert "decides before any learning" in check_learner(minimal)


def test_problems_from_the_protocol_alone_pass_their_suite() -> None:
    assert "rewards are finite and keep to the range" in check_problem(Coins, coins)
    assert "mean rewards differ by the gaps and lie in the range" in check_problem(KnownCoins, coins)


def test_they_work_in_a_portfolio_and_are_saved(tmp_path) -> None:
    def learners():
        return [RunningMeans(3), UCB(3)]

    portfolio = Portfolio(learners(), TurnsThenBest(2))
    rng, problem = np.random.default_rng(0), Coins()
    waiting = []
    for t in range(300):
        context = problem.observe(rng)
        decision = portfolio.decide(context)
        waiting.append((decision, problem.respond(context, decision.action, rng)))
        if t % 3:
            portfolio.learn(*waiting.pop(0))
    rows = portfolio.standing()
    assert sum(row.plays for row in rows) == 300
    assert sum(row.pending for row in rows) == len(waiting) == 100
    assert portfolio.certificate().rounds == 300
    assert "running means" in portfolio.describe()
    portfolio.save(tmp_path / "own.eqp")
    loaded = Portfolio.load(tmp_path / "own.eqp", learners(), TurnsThenBest(2))
    for decision, reward in waiting:
        portfolio.learn(decision, reward)
        loaded.learn(decision, reward)
    for _ in range(50):
        context = problem.observe(rng)
        one, other = portfolio.decide(context), loaded.decide(context)
        assert one[1:] == other[1:]  # ids of decisions are random
        reward = problem.respond(context, one.action, rng)
        portfolio.learn(one, reward)
        loaded.learn(other, reward)


build: Any = Portfolio  # takes what it should not


def make(cls: Any, *arguments: Any, **settings: Any) -> Any:
    return cls(*arguments, **settings)


class Chooser:
    """A selector that lacks most of what it must have."""

    needs: frozenset[str] = frozenset()
    active = (0,)

    def choose(self, rng=None): ...


class Silent:
    """A learner that cannot learn."""

    def decide(self, context): ...


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: build([UCB(2)], Chooser()),
            "selector is a Chooser without replay, observe, credit, withdraw, standing, certificate, but must have all "
            "members of equipoise.Selector",
        ),
        (
            lambda: build([UCB(2)], UCB1),
            "selector is the class UCB1, but must be an instance: write UCB1(...)",
        ),
        (
            lambda: build([UCB(2)], [UCB1(1)]),
            "selector is a list without needs, active, choose, replay, observe, credit, withdraw, standing, "
            "certificate, but must have all members of equipoise.Selector",
        ),
        (
            lambda: build([UCB(2), OFUL], UCB1(2)),
            "learners has the class OFUL, but must have instances: write OFUL(...)",
        ),
        (
            lambda: build([Silent()], UCB1(1)),
            "learner 'Silent' has no learn(), but must have one: see equipoise.Learner",
        ),
        (lambda: build(UCB(2), UCB1(1)), "learners is UCB(2), but must be a list of learners"),
        (lambda: build([]), "learners is empty, but must have at least one learner"),
        (lambda: make(OFUL, 2, noize=0.5), "setting of OFUL 'noize' is unknown; did you mean noise?"),
        (
            lambda: make(BalancedElimination, [Power(1.0)], delt=0.1),
            "setting of BalancedElimination 'delt' is unknown; did you mean delta?",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(make, message) -> None:
    with pytest.raises((InvalidArgument, UnknownSetting)) as refusal:
        make()
    assert str(refusal.value) == message


def test_one_selector_serves_one_portfolio() -> None:
    selector = UCB1(1)
    portfolio = Portfolio([UCB(2)], selector)
    with pytest.raises(InvalidArgument, match=r"^selector is a UCB1 of another portfolio, but every"):
        Portfolio([UCB(2)], selector)
    del portfolio
    assert Portfolio([UCB(2)], selector).selector is selector
