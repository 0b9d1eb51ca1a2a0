"""A selector that fails, a copy to try changes on, and recovery: whoever gets an error finds everything as it was."""

import copy
import logging
from threading import Thread
from typing import Any

import pytest

from equipoise import Portfolio
from equipoise.learners import UCB
from tests.outside.own_selector import TurnsThenBest
from tests.recorders import Recorder, saved


class Broken(TurnsThenBest):
    """Fails in one method while `fails` names it."""

    fails = ""

    def observe(self, choice: Any, proposals: Any) -> None:
        if self.fails == "observe":
            raise RuntimeError("selector bug")
        super().observe(choice, proposals)

    def credit(self, choice: Any, reward: float, regret: float | None = None) -> tuple[()]:
        if self.fails == "credit":
            raise RuntimeError("selector bug")
        return super().credit(choice, reward, regret)


def test_a_selector_that_fails_in_observe_is_not_blamed_on_learners() -> None:
    selector = Broken(2)
    portfolio = Portfolio([UCB(2), UCB(2, name="other")], selector, fallback=1)
    selector.fails = "observe"
    for _ in range(4):
        with pytest.raises(RuntimeError, match="selector bug"):
            portfolio.decide(None)
    assert [row["failures"] for row in portfolio.health()["learners"]] == [0, 0]
    selector.fails = ""
    assert portfolio.decide(None).learner is not None


def test_a_selector_that_fails_in_credit_leaves_the_round_as_it_was() -> None:
    selector, learners = Broken(2), [Recorder(0), Recorder(1)]
    portfolio = Portfolio(learners, selector)
    decision = portfolio.decide(None)
    selector.fails = "credit"
    for _ in range(3):
        with pytest.raises(RuntimeError, match="selector bug"):
            portfolio.learn(decision, 0.5)
    assert portfolio.pending == (decision.id,) and portfolio.failed_updates == ()
    portfolio.withdraw(decision)  # no learner has learned from it


def test_a_rehearsal_keeps_a_function_and_tells_nobody(caplog: pytest.LogCaptureFixture) -> None:
    portfolio = Portfolio([UCB(2)], fallback=lambda context: 1)
    seen: list[Any] = []
    portfolio.on_event(seen.append)
    before = saved(portfolio)
    with caplog.at_level(logging.DEBUG, "equipoise"):
        copied = portfolio.rehearsal()
        copied.suspend("UCB")
        assert copied.decide(None).action == 1
    assert saved(portfolio) == before and not seen and not caplog.messages


def test_folding_is_not_news(caplog: pytest.LogCaptureFixture) -> None:
    portfolio, again = Portfolio([UCB(2)]), Portfolio([UCB(2)])
    events: list[Any] = []
    portfolio.on_event(events.append)
    portfolio.suspend("UCB")
    caplog.clear()
    for event in events:
        again.apply(event)
    assert saved(again) == saved(portfolio) and not caplog.messages


def test_a_copy_while_other_threads_decide_is_whole() -> None:
    portfolio, going = Portfolio([UCB(3), UCB(3, scale=0.1)]), [True]

    def play() -> None:
        while going[0]:
            portfolio.learn(portfolio.decide(None), 0.5)

    thread = Thread(target=play)
    thread.start()
    try:
        copies = [copy.deepcopy(portfolio) for _ in range(20)]
    finally:
        going[0] = False
        thread.join()
    for each in copies:
        each.learn(each.decide(None), 0.5)
        assert sum(row.plays for row in each.standing()) == each.health()["rounds"]
