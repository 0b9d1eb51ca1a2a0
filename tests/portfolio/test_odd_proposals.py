"""Propensities where learners propose what others do not know, and who is asked where silent learners are."""

from math import isnan
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.features import Offers
from equipoise.learners import OFUL, UCB, Constant
from equipoise.selectors import EXP3, Corral, RealizedBalancing, Uniform
from tests.recorders import RoundRobin


class Named:
    """Proposes a text, which is no index."""

    randomized = False

    def decide(self, context: Any) -> Any:
        return "blue"

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


class Even:
    """Draws one of some actions, whatever is offered."""

    provides = frozenset({"pmf"})

    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions

    def pmf(self, context: Any) -> Any:
        return np.full(self.n_actions, 1.0 / self.n_actions)

    def decide(self, context: Any, rng: Any) -> Proposal:
        return Proposal(int(rng.integers(self.n_actions)), probability=1.0 / self.n_actions)

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


class Asked:
    """Counts how often it is asked."""

    randomized = False

    def __init__(self, action: int | None, silent: bool = False) -> None:
        self.action, self.silent, self.asked = action, silent, 0
        self.accepts = frozenset() if silent else frozenset({"off_policy"})

    def decide(self, context: Any) -> int:
        self.asked += 1
        if self.action is None:
            raise RuntimeError("cannot decide")
        return self.action

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


def test_the_floor_adds_nothing_to_an_action_that_it_never_draws() -> None:
    """The floor draws from the two arms of UCB; action 3 and a text come from learners only, each with 1/3."""
    portfolio = Portfolio([Constant(3), UCB(2), Named()], Uniform(3), explore=0.3)
    found: dict[Any, set[float]] = {}
    for _ in range(60):
        decision = portfolio.decide(None)
        found.setdefault(decision.action, set()).add(round(decision.propensity, 12))
        portfolio.withdraw(decision)
    assert found == {3: {round(0.7 / 3, 12)}, "blue": {round(0.7 / 3, 12)}, 0: {round(0.15 + 0.7 / 3, 12)}, 1: {0.15}}


def test_an_action_that_is_no_index_has_no_probability_by_pmf() -> None:
    portfolio = Portfolio([Named(), Even(2)], Uniform(2))
    found = set()
    for _ in range(30):
        decision = portfolio.decide(None, propensity=True)
        found.add((decision.action, decision.propensity))
    assert found == {("blue", 0.5), (0, 0.25), (1, 0.25)}


@pytest.mark.parametrize("selector", [RealizedBalancing(2), Uniform(2)])
def test_a_learner_that_draws_an_invalid_proposal_makes_the_propensity_unknown(selector: Any) -> None:
    """It fails with probability 1/2, so the substitute's action has 3/4, not 1."""
    portfolio = Portfolio([Even(4), Constant(0)], selector)
    context, substituted = Offers(np.eye(4), mask=[True, True, False, False]), []
    for _ in range(12):
        decision = portfolio.decide(context, propensity=True)
        if decision.drawn == 0 and decision.learner == 1:
            substituted.append(decision.propensity)
        portfolio.withdraw(decision)
    assert substituted and all(map(isnan, substituted))
    (reason,) = portfolio.health()["unknown_propensities"]
    assert reason.startswith("Even: ")


def test_the_fallback_has_no_known_propensity_after_an_invalid_draw() -> None:
    portfolio = Portfolio([Even(4)], RealizedBalancing(1), fallback=0)
    context = Offers(np.eye(4), mask=[True, False, False, False])
    decisions = [portfolio.decide(context) for _ in range(8)]
    fell_back = [decision.propensity for decision in decisions if decision.learner is None and decision.drawn == 0]
    assert fell_back and all(map(isnan, fell_back))


@pytest.mark.parametrize("selector", [None, Uniform(4)])
def test_a_silent_learner_is_asked_only_in_rounds_that_it_plays(selector: Any) -> None:
    """Others fail, so that a silent learner acts for them; another one is drawn and acts itself in many rounds."""
    learners: list[Any] = [Asked(None), Asked(None), Asked(0, silent=True), Asked(1, silent=True)]
    portfolio = Portfolio(learners, selector)
    acted = [0, 0, 0, 0]
    for _ in range(60):
        decision = portfolio.decide(np.eye(2), propensity=True)
        assert decision.learner is not None
        acted[decision.learner] += 1
        portfolio.learn(decision, float(decision.action))
    assert [learner.asked for learner in learners[2:]] == acted[2:] and min(acted[2:]) > 0


@pytest.mark.parametrize("explore", [0.0, 0.25])
@pytest.mark.parametrize("make", [EXP3, RealizedBalancing, lambda n: Corral(n, rounds=100)])
def test_the_fallback_acts_when_no_learner_can_be_drawn(make: Any, explore: float) -> None:
    portfolio = Portfolio([OFUL(2, name="a"), OFUL(2, name="b")], make(2), fallback=1, explore=explore)
    for name in portfolio.learner_names:
        portfolio.suspend(name)
    for _ in range(10):
        decision = portfolio.decide(np.eye(2), propensity=True)
        assert decision.propensity == (1.0 - explore / 2.0 if decision.action == 1 else explore / 2.0)
        assert decision.drawn is None
    assert "is suspended" in portfolio.explain("a")


class Turns(RoundRobin):
    """Cannot leave learners out, and tells its probabilities."""

    def choice_probabilities(self) -> Any:
        learner = sum(self.plays) % len(self.plays)
        return [float(i == learner) for i in range(len(self.plays))]


def test_a_selector_that_cannot_leave_learners_out_has_a_fallback_and_propensities() -> None:
    portfolio = Portfolio([Constant(0, name="a"), Constant(0, name="b")], Turns(2), fallback=1, explore=0.25)
    context = np.eye(2)
    assert {portfolio.decide(context, propensity=True).propensity for _ in range(10)} <= {0.875, 0.125}
    portfolio.suspend("b")
    for _ in range(10):
        decision = portfolio.decide(context, propensity=True)
        assert decision.propensity == (0.875 if decision.action == 1 else 0.125)
