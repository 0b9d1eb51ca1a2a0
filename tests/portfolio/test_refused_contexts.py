"""A context that a learner refuses is not a failure of the learner: it sits the round out."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.bounds import Power
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features import Columns, Offers, OneHot
from equipoise.learners import OFUL, LinearThompson
from equipoise.portfolio import Event
from equipoise.portfolio.pool import FIRST_PAUSE, MAX_FAILURES
from equipoise.selectors import UCB1, BalancedElimination, RealizedBalancing
from tests.recorders import Recorder, saved

GOOD = np.full((2, 3), 0.5)
# Its last column is beyond the bound of the wide learner.
LONG = Offers([[0.5, 0.5, 9.0], [0.5, 0.5, 9.0]])


def narrow_and_wide() -> list[OFUL]:
    return [OFUL(2), OFUL(3)]


POOLS: dict[str, Callable[[], Portfolio]] = {
    "the default": lambda: Portfolio(narrow_and_wide(), seed=3),
    "shared data": lambda: Portfolio(narrow_and_wide(), RealizedBalancing(2), share_data=True),
    "own data": lambda: Portfolio(narrow_and_wide(), RealizedBalancing(2), share_data=False),
    "one draw": lambda: Portfolio(narrow_and_wide(), BalancedElimination([Power(1.0)] * 2)),
}


def with_events(name: str) -> tuple[Portfolio, list[Event]]:
    portfolio, events = POOLS[name](), list[Event]()
    portfolio.on_event(events.append)
    return portfolio, events


@pytest.mark.parametrize("name", POOLS)
def test_a_learner_that_refuses_sits_the_round_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    portfolio, events = with_events(name)
    portfolio.learn(portfolio.decide(GOOD), 0.5)
    caplog.clear()
    for _ in range(20 * MAX_FAILURES):
        decision = portfolio.decide(LONG)
        assert decision.learner == 0
        portfolio.learn(decision, 0.5)
    narrow, wide = portfolio.health()["learners"]
    assert (wide["state"], wide["failures"], wide["last_error"], wide["paused_until_round"]) == ("active", 0, "", None)
    assert wide["refused"] == wide["refused_in_a_row"] > 0 and "action_bound" in wide["last_refusal"]
    assert (narrow["refused"], narrow["last_refusal"]) == (0, "")
    assert {event.kind for event in events} == {"decided", "rewarded"} and not caplog.records
    assert portfolio.failed_updates == () and portfolio.health()["failed_updates"] == 0
    assert portfolio.certificate().rounds == len(events) // 2, "the plays count for the learners that were drawn"
    assert "It refused the last" in portfolio.explain("OFUL(d=3)")
    drawn = portfolio.decide(GOOD)
    portfolio.learn(drawn, 0.5)
    while portfolio.decide(GOOD).learner != 1:  # it plays as before
        pass
    assert portfolio.health()["learners"][1]["refused_in_a_row"] == 0


@pytest.mark.parametrize("name", POOLS)
def test_refusals_are_saved_and_folded(name: str) -> None:
    portfolio, events = with_events(name)
    folded = with_events(name)[0]
    for t in range(40):
        portfolio.learn(portfolio.decide(GOOD if t % 4 == 0 else LONG, id=f"d{t}"), 0.5)
    for event in events:
        folded.apply(event)
    refused = [row["refused"] for row in portfolio.health()["learners"]]
    assert refused[0] == 0 < refused[1]
    assert saved(folded) == saved(portfolio)
    restored = Portfolio.from_state(portfolio.state())
    assert [row["refused"] for row in restored.health()["learners"]] == refused
    assert saved(restored) == saved(portfolio)


def test_an_earlier_release_can_read_what_is_saved() -> None:
    """It sets every entry of a member's row as an attribute, and knows none about refusals."""
    portfolio, events = with_events("own data")
    for _ in range(10):
        portfolio.learn(portfolio.decide(LONG), 0.5)
    assert not [key for row in portfolio.state()["members"] for key in row if "refus" in key]
    decided = [event.data for event in events if event.kind == "decided"]
    assert all(data["failures"] == () for data in decided) and any("refused" in data for data in decided)


def test_events_without_refusals_are_as_before() -> None:
    portfolio, events = with_events("the default")
    portfolio.learn(portfolio.decide(GOOD), 0.5)
    assert "refused" not in events[0].data


@pytest.mark.parametrize("share_data", [True, False])
def test_an_unknown_id_is_refused_and_pauses_nobody(share_data: bool) -> None:
    """One learner does not read ids. The other one was paused, by ids that anybody may send."""
    known, unknown = Offers([[0.5], [0.5]], None, ["red", "blue"]), Offers([[0.5], [0.5]], None, ["gray", "white"])
    learners = [OFUL(1, name="features"), OFUL(features=OneHot(["red", "blue"]), name="ids")]
    portfolio, events = Portfolio(learners, RealizedBalancing(2), share_data=share_data, seed=1), list[Event]()
    portfolio.on_event(events.append)
    for t in range(20 * MAX_FAILURES):
        decision = portfolio.decide(unknown if t % 4 else known)
        assert t % 4 == 0 or decision.learner == 0
        portfolio.learn(decision, 0.5)
    row = portfolio.health()["learners"][1]
    assert (row["state"], row["failures"], row["last_error"], portfolio.failed_updates) == ("active", 0, "", ())
    assert row["refused"] > 0 and "'gray' is unknown" in row["last_refusal"]
    assert {event.kind for event in events} == {"decided", "rewarded"}


@pytest.mark.parametrize("explore", [0.0, 0.5])
def test_an_id_that_no_learner_knows_is_an_error_of_the_caller(explore: float) -> None:
    """It was `NoLearnerAvailable`, which a service answers with 503: send it again."""
    learners = [OFUL(features=OneHot(["red", "blue"]), scale=scale) for scale in (0.5, 1.0)]
    portfolio = Portfolio(learners, explore=explore, seed=1)
    portfolio.learn(portfolio.decide(Offers(None, None, ["red", "blue"])), 0.5)
    before = saved(portfolio)
    for _ in range(10):
        with pytest.raises(UnknownName, match="id of an offer 'gray' is unknown"):
            portfolio.decide(Offers(None, None, ["gray", "white"]))
    assert saved(portfolio) == before


def test_a_learner_that_shares_data_refuses_in_learn_alone() -> None:
    """The draw is for one learner; the other one is asked nothing, and refuses when it is to learn."""
    portfolio, events = with_events("shared data")
    for _ in range(20):
        portfolio.learn(portfolio.decide(LONG), 0.5)
    rewarded = [event.data for event in events if event.kind == "rewarded"]
    assert all(error.startswith("refused: OfferRefused") for data in rewarded for *_, error in data["failed"])
    assert any(data["failed"] for data in rewarded) and not portfolio.failed_updates
    assert portfolio.health()["learners"][1]["state"] == "active"


class Refusing(Recorder):
    """Refuses every context."""

    def decide(self, context: Any) -> Proposal:
        raise InvalidArgument("context is not for me")


def test_a_learner_that_refuses_every_context_is_seen() -> None:
    portfolio = Portfolio([Recorder(0), Refusing(1)], UCB1(2))
    for _ in range(60):
        portfolio.learn(portfolio.decide(None), 0.5)
    row = portfolio.health()["learners"][1]
    assert row["refused"] == row["refused_in_a_row"] == row["substituted"] > 20
    sentence = f"It refused the last {row['refused']} contexts (InvalidArgument: context is not for me)."
    assert sentence in portfolio.explain(portfolio.learner_names[1])


@pytest.mark.parametrize("selector", [None, BalancedElimination([Power(1.0)] * 2)], ids=["the default", "one draw"])
def test_the_floor_does_not_accept_what_all_learners_refuse(selector: Any) -> None:
    """With probability `explore` such a context was decided, and counted as a round that no learner played."""
    portfolio = Portfolio(narrow_and_wide(), selector, explore=0.5, seed=1)
    portfolio.learn(portfolio.decide(GOOD), 0.5)
    explored = 0
    for _ in range(40):
        before = saved(portfolio)
        with pytest.raises(InvalidArgument, match="action_bound"):
            portfolio.decide(np.full((2, 3), 9.0))
        assert saved(portfolio) == before
        decision = portfolio.decide(LONG)  # one learner accepts it
        explored += decision.learner is None
        portfolio.learn(decision, 0.5)
    assert 5 < explored < 35
    assert portfolio.health()["learners"][0]["refused"] == 0


HOSTILE: dict[str, Any] = {
    "too narrow": np.full((2, 1), 0.5),
    "too long": np.full((2, 3), 2.0),
    "huge": np.full((2, 3), 1e30),
    "not a number": np.full((2, 3), np.nan),
    "infinite": np.array([[0.5, 0.5, np.inf], [0.5, 0.5, 0.5]]),
    "a vector": np.full(3, 0.5),
    "no rows": np.zeros((0, 3)),
    "text": "abc",
    "nothing": None,
    "a dict": {"a": 1.0},
    "ids alone": Offers(None, None, ["a", "b"]),
}


@pytest.mark.parametrize("context", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("learner", [OFUL(3), OFUL(features=Columns([0, 2, 1])), LinearThompson(3)], ids=repr)
def test_linear_learners_refuse_what_they_cannot_use(learner: Any, context: Any) -> None:
    """By `InvalidArgument`, as any other error is a failure."""
    rng = np.random.default_rng(0)
    for ask in (lambda: learner.decide(context, rng), lambda: learner.learn(context, 0, 0.5)):
        with pytest.raises(InvalidArgument):
            ask()


class FailingUpdates(Recorder):
    """Fails in updates: a fault of its own."""

    def learn(self, *arguments: Any, **options: Any) -> None:
        raise RuntimeError("no memory")


def test_rewards_during_a_pause_make_few_events() -> None:
    """Pauses get longer and longer, and an update that is not tried makes no event."""
    portfolio, events = Portfolio([Recorder(0), FailingUpdates(1)], UCB1(2)), list[Event]()
    portfolio.on_event(events.append)
    rounds = 4_000
    for _ in range(rounds):
        portfolio.learn(portfolio.decide(None), 0.5)
    further = [event for event in events if event.kind not in ("decided", "rewarded")]
    assert {event.kind for event in further} == {"learner_suspended", "update_failed"}
    assert len(further) < 2 * sqrt(rounds / FIRST_PAUSE)
