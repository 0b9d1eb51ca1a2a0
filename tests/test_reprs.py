"""Everything that a user meets says what it is when it is printed."""

import importlib
import inspect
from typing import Any

import pytest

from equipoise import Portfolio
from equipoise.features import Offers, Prefix
from equipoise.learner import AdaptedLearner
from equipoise.learners import UCB, Constant
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.drift import DriftMonitor
from equipoise.portfolio.events import Events, Listeners
from equipoise.portfolio.pool import Pool, Selection
from equipoise.portfolio.rounds import Rounds
from equipoise.portfolio.statements import Reporter
from equipoise.portfolio.tickets import CallerIds, OwnIds, Tickets
from equipoise.portfolio.updates import LearnerUpdates
from equipoise.problem import AdaptedProblem
from equipoise.problems import GapBandit
from equipoise.selectors import Uniform

PACKAGES = (
    "equipoise",
    "equipoise.bounds",
    "equipoise.certificates",
    "equipoise.confidence",
    "equipoise.features",
    "equipoise.lab.runs.results",
    "equipoise.learners",
    "equipoise.portfolio",
    "equipoise.portfolio.tickets",
    "equipoise.portfolio.events",
    "equipoise.portfolio.statements",
    "equipoise.problems",
    "equipoise.rl",
    "equipoise.selectors",
    "equipoise.settings",
)
# Parts that no caller gets.
NOT_SHOWN = (
    *(CallerIds, Clock, DriftMonitor, Events, LearnerUpdates, Listeners),
    *(OwnIds, Pool, Reporter, Rounds, Selection, Tickets),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_is_printed_as_an_address(package: str) -> None:
    module = importlib.import_module(package)
    classes = [each for name, each in vars(module).items() if inspect.isclass(each) and not name.startswith("_")]
    ours = [each for each in classes if each.__module__.startswith("equipoise")]
    silent = [
        each.__name__
        for each in ours
        if each.__repr__ is object.__repr__
        and not issubclass(each, BaseException)
        and not getattr(each, "_is_protocol", False)
        and each not in NOT_SHOWN
    ]
    assert silent == []


def test_objects_say_what_they_are() -> None:
    portfolio = Portfolio([UCB(3), Constant(1)], Uniform(2))
    decision = portfolio.decide(None)
    offers = Offers([[1.0, 2.0]])
    shown: dict[str, Any] = {
        "Portfolio([UCB(3), Constant(1)], Uniform(2))": portfolio,
        "AdaptedLearner(UCB(3))": AdaptedLearner(UCB(3)),
        "Rows(1 rows of 2 features)": offers.mapped(Prefix(2)),
        "History(1 samples up to round 1, 0 marks)": portfolio.history,
    }
    assert [repr(part) for part in shown.values()] == list(shown)
    assert repr(portfolio._state.tickets.open[decision.id]).startswith(f"Ticket({decision.id}, round 1, learner ")
    assert repr(AdaptedProblem(GapBandit())).startswith("AdaptedProblem(GapBandit(")
