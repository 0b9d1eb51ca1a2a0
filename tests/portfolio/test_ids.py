"""Tickets are unique: over restarts, copies and processes, and for callers that retry."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.errors import DuplicateDecision, DuplicateReward, InvalidArgument, UnknownDecision
from equipoise.features import Offers
from equipoise.learners import UCB
from equipoise.portfolio import Decision, Event, tickets
from equipoise.selectors import EXP3, UCB1
from equipoise.storage.parts import pack
from tests.recorders import Recorder, nth, recorders, rewards_of, saved


def load(path: Path) -> Portfolio:
    return Portfolio.load(path, learners=[Recorder(0), Recorder(1)])


def test_after_a_crash_no_reward_reaches_a_wrong_ticket(tmp_path: Path) -> None:
    """The reported fault: ids repeated after a restart, so rewards of old users closed new users' tickets."""
    portfolio = recorders(2)
    for _ in range(10):
        portfolio.decide("saved")
    portfolio.save(tmp_path / "p")
    lost = [portfolio.decide("lost") for _ in range(10)]
    restarted = load(tmp_path / "p")
    new = [restarted.decide("new") for _ in range(10)]
    assert not {decision.id for decision in lost} & {decision.id for decision in new}
    for decision in lost:
        with pytest.raises(UnknownDecision, match="was never made, or was made before this portfolio was saved"):
            restarted.learn(decision, 1.0)
    assert rewards_of(restarted) == [[], []] and len(restarted.pending) == 20


def copies_of(portfolio: Portfolio, path: Path) -> list[Portfolio]:
    portfolio.save(path)
    return [load(path), load(path), copy.deepcopy(portfolio), pickle.loads(pickle.dumps(portfolio))]


def test_copies_and_processes_of_one_file_never_give_out_the_same_id(tmp_path: Path) -> None:
    portfolio = recorders(2)
    open_before = portfolio.decide("before")
    copies = copies_of(portfolio, tmp_path / "p")
    decisions = [each.decide(t) for each in (portfolio, *copies) for t in range(20)]
    assert len({decision.id for decision in decisions}) == 100
    for each in (portfolio, *copies):
        each.learn(open_before, 0.5)  # a decision of an earlier process, whose ticket every copy has
        with pytest.raises(DuplicateReward):
            each.learn(open_before, 0.5)
    for owner, each in enumerate((portfolio, *copies)):
        for k, decision in enumerate(decisions):
            if k // 20 == owner:
                each.learn(decision, 0.5)
            else:
                with pytest.raises(UnknownDecision):
                    each.learn(decision, 0.5)


def test_closed_is_told_from_unknown_without_remembering(tmp_path: Path) -> None:
    portfolio = recorders(2)
    decisions = [portfolio.decide(t) for t in range(30)]
    for decision in decisions:
        portfolio.learn(decision, 0.5)
    portfolio.save(tmp_path / "p")
    for each in (portfolio, load(tmp_path / "p")):
        for decision in decisions:
            with pytest.raises(DuplicateReward, match="already has its reward, was withdrawn or is past its deadline"):
                each.learn(decision, 0.5)
        for unknown in (nth(portfolio, 31), nth(portfolio, 0), "0123456789abcdef-1", "x", "-", ""):
            with pytest.raises(UnknownDecision) as caught:
                each.learn(unknown, 0.5)
            assert not isinstance(caught.value, DuplicateReward)


def test_what_is_saved_does_not_grow_with_closed_tickets() -> None:
    def size(rounds: int) -> int:
        portfolio = recorders(1, deadline=2, default_reward=0.0)
        portfolio.learners[0].learn = lambda *_: None  # so that the learner itself does not grow
        for _ in range(rounds):
            portfolio.decide(None)
        state = portfolio.state()
        del state["history"], state["drift"], state["tickets"]["held"]  # have bounds of their own
        return len(pack(state))

    assert abs(size(2000) - size(200)) < 40  # numbers have more digits


def test_a_decision_that_does_not_match_its_ticket_is_refused() -> None:
    portfolio = recorders(2)
    decision = portfolio.decide(None)
    before = saved(portfolio)
    for other in (decision._replace(action=5), decision._replace(learner=1), decision._replace(learner=None)):
        with pytest.raises(InvalidArgument, match="has another learner or action than the one that was made"):
            portfolio.learn(other, 0.5)
    assert saved(portfolio) == before
    portfolio.learn(decision._replace(propensity=0.25), 0.5)


def test_a_callers_id_makes_decide_idempotent(tmp_path: Path) -> None:
    portfolio = Portfolio([UCB(3), UCB(3, scale=0.5)])
    context = {"user": "a", "features": np.ones(2)}
    contexts: list[Any] = [None, None]
    first = portfolio.decide(contexts[0], id="request-1")
    assert first.id == "request-1"
    assert str(portfolio.decide(None, id="request-1")) == str(first)
    assert len(portfolio.pending) == 1
    with pytest.raises(DuplicateDecision, match=r"^id 'request-1' was used for a decision with another context"):
        portfolio.decide(np.zeros((3, 1)), id="request-1")
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p")
    assert str(loaded.decide(None, id="request-1")) == str(first)
    loaded.learn("request-1", 1.0)
    assert str(loaded.decide(None, id="request-1")) == str(first)  # closed, and still remembered
    with pytest.raises(DuplicateReward):
        loaded.learn("request-1", 1.0)
    assert context["user"] == "a"


def test_closed_ids_of_callers_are_remembered_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "MAX_CLOSED_IDS", 5)
    portfolio = recorders(2)
    for t in range(10):
        portfolio.learn(portfolio.decide(None, id=f"request-{t}"), 0.5)
    for t in range(10):
        with pytest.raises(UnknownDecision) as caught:
            portfolio.learn(f"request-{t}", 0.5)
        assert isinstance(caught.value, DuplicateReward) == (t >= 5)


@pytest.mark.parametrize("id_", ["", "a" * 201, 7, "line\nbreak", b"x"])
def test_ids_that_are_no_ids_are_refused(id_: Any) -> None:
    portfolio = recorders(2)
    before = saved(portfolio)
    with pytest.raises(InvalidArgument, match=r"^id is .*, but must be a printable string of 1 to 200 characters$"):
        portfolio.decide(None, id=id_)
    assert saved(portfolio) == before


def test_an_id_of_the_portfolio_is_not_a_callers_id() -> None:
    portfolio = recorders(2)
    own = portfolio.decide(None).id
    with pytest.raises(InvalidArgument, match="must not be one of the portfolio's own ids"):
        portfolio.decide(None, id=own)


def test_a_failed_decision_leaves_its_id_free() -> None:
    portfolio = recorders(1)
    portfolio.learners[0].failures["decide"] = 1
    with pytest.raises(Exception, match="no luck in decide"):
        portfolio.decide(None, id="x")
    assert portfolio.decide(7, id="x").id == "x"


def test_the_seed_decides_not_the_ids() -> None:
    one, other = (Portfolio([UCB(3), UCB(3)], UCB1(2), seed=5) for _ in range(2))
    for t in range(20):
        with_id, without = one.decide(None, id=f"{t}"), other.decide(None)
        assert str(with_id[1:]) == str(without[1:])
        one.learn(with_id, t % 2)
        other.learn(without, t % 2)


def test_an_event_has_the_whole_decision() -> None:
    """Folds, repeated requests and the dashboard read it from there."""
    portfolio = Portfolio([UCB(2), UCB(2)], EXP3(2), explore=0.5)
    events: list[Event] = []
    portfolio.on_event(events.append)
    offers = Offers(np.eye(2), ids=["red", "blue"])
    decisions = [portfolio.decide(offers, id=f"order {k}" if k % 2 else None) for k in range(20)]
    assert {decision.learner for decision in decisions} == {None, 0, 1}
    made = [Decision.of_event(event.data) for event in events if event.kind == "decided"]
    assert repr(made) == repr(decisions)  # nan is not equal to itself
