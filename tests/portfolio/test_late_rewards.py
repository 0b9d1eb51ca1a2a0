"""Rewards that come late, in parts, or never: deadlines, aggregates, and what waits for what."""

import logging
import pickle
from copy import deepcopy
from datetime import timedelta
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import DuplicateReward, InvalidArgument
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio import Event
from equipoise.portfolio.state import REPORTED_EVERY
from equipoise.portfolio.statements import MIN_REPORTED
from equipoise.selectors import EXP3, UCB1, BalancedElimination, RealizedBalancing
from equipoise.selectors._core.state import DELAYS
from tests.recorders import Recorder, numbers, recorders, rewards_of, saved


def test_a_deadline_in_seconds_goes_by_the_times_that_are_told() -> None:
    portfolio = recorders(1, deadline="10s", default_reward=0.25)
    first = portfolio.decide("first", at=100.0)
    second = portfolio.decide("second", at=105.0)
    portfolio.learn(first, 1.0, at=110.0)  # not overdue: just at its deadline
    assert portfolio.expire(at=115.0) == 0
    assert portfolio.expire(at=115.1) == 1
    assert rewards_of(portfolio) == [[1.0, 0.25]]
    portfolio.learn(second, 1.0, at=116.0)
    assert rewards_of(portfolio) == [[1.0, 0.25]] and portfolio.health()["ignored"] == 1


def test_time_never_goes_backwards() -> None:
    portfolio = recorders(1, deadline=timedelta(seconds=10), default_reward=0.0)
    portfolio.decide(None, at=1000.0)
    late = portfolio.decide(None, at=5.0)  # a clock that was set back: the decision is as old as the one before it
    assert portfolio.expire(at=1009.0) == 0
    portfolio.learn(late, 1.0, at=1009.5)
    assert portfolio.expire(at=1011.0) == 1


def test_a_clock_that_jumps_ahead_and_back_does_not_stop_deadlines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither in the process that saw the jump, nor in the next one, which has only the times that were saved."""
    passed, ahead = [0.0], [0.0]
    monkeypatch.setattr("time.time", lambda: 1e9 + passed[0] + ahead[0])
    monkeypatch.setattr("equipoise.portfolio.clock.steady", lambda: passed[0])
    portfolio = Portfolio([UCB(2)], deadline="1h", default_reward=0.0)
    for ahead[0] in (0.0, 86400.0, 0.0):
        portfolio.decide(None)
    passed[0] = 1800.0
    assert portfolio.expire() == 0
    passed[0] = 3601.0
    assert portfolio.expire() == 3

    ahead[0] = 86400.0
    portfolio = Portfolio([UCB(2)], deadline="1h", default_reward=0.0)
    portfolio.decide(None)
    portfolio.save(tmp_path / "portfolio")
    ahead[0] = 0.0
    for reloaded in (
        Portfolio.load(tmp_path / "portfolio"),
        pickle.loads(pickle.dumps(portfolio)),
        deepcopy(portfolio),
    ):
        passed[0] = 5000.0
        assert reloaded.expire() == 0
        passed[0] = 5000.0 + 3601.0
        assert reloaded.expire() == 1


def test_a_reward_after_its_deadline_is_ignored_even_if_nothing_expired_yet() -> None:
    """The credited reward of a decision must not depend on how busy the portfolio is."""
    portfolio = recorders(1, deadline="1m", default_reward=0.0)
    decision = portfolio.decide(None, at=0.0)
    portfolio.learn(decision, 1.0, at=61.0)
    assert rewards_of(portfolio) == [[0.0]]
    assert portfolio.health()["expired"] == portfolio.health()["ignored"] == 1


def test_each_call_closes_a_few_overdue_decisions_and_expire_closes_all() -> None:
    portfolio = recorders(1, deadline="1s", default_reward=0.0)
    for t in range(100):
        portfolio.decide(None, at=t / 1000)
    portfolio.decide(None, at=10.0)
    assert 90 < len(portfolio.pending) < 100 and portfolio.health()["overdue"] == len(portfolio.pending) - 1
    assert portfolio.expire(5, at=10.0) == 5
    assert portfolio.expire(at=10.0) == len(rewards_of(portfolio)[0]) - 13 and len(portfolio.pending) == 1
    assert portfolio.expire(at=10.5) == 0


BAD_DEADLINES: list[tuple[Any, str]] = [
    (1.5, "deadline is 1.5, but must be a whole number at least 1"),
    ("soon", "deadline is 'soon', but a text must be a number and a unit, such as '24h'"),
    ("0s", "deadline is '0s', but must be positive and at most 1e+10 seconds"),
    (timedelta(seconds=-1), "must be positive and at most 1e+10 seconds"),
]


@pytest.mark.parametrize(("deadline", "message"), BAD_DEADLINES)
def test_deadlines_that_are_none_are_refused(deadline: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        recorders(1, deadline=deadline, default_reward=0.0)
    assert message in str(caught.value)


def test_a_fold_takes_the_reward_of_a_deadline_from_the_log() -> None:
    """The reported fault: it was computed again, by the rules of the portfolio that folds."""
    portfolio = recorders(1, deadline=1, default_reward=0.25)
    events: list[Event] = []
    portfolio.on_event(events.append)
    for _ in range(4):
        portfolio.decide(None)
    expired = [event for event in events if event.kind == "expired"]
    assert [event.data["reward"] for event in expired] == [0.25, 0.25]
    folded = recorders(1, deadline=1, default_reward=0.75)
    for event in events:
        if event.kind == "expired":
            event = event._replace(data={**event.data, "regret": 0.5, "clipped": True})
        folded.apply(event)
    assert rewards_of(folded) == rewards_of(portfolio) == [[0.25, 0.25]]
    assert folded.standing()[0].mean_reward == 0.25
    health = folded.health()
    assert (health["expired"], health["clipped"], health["open"]) == (2, 2, 2)


def test_several_rewards_make_one(tmp_path: Path) -> None:
    """Click, then purchase, then refund; a retried report is not a second purchase."""
    learners: list[Any] = [Recorder(0)]
    selector = BalancedElimination([Power(1.0)], reward_range=(-1.0, 1.0))
    portfolio = Portfolio(learners, selector, aggregate="sum", deadline=2, default_reward=0.0)
    decision, silent = portfolio.decide("buyer"), portfolio.decide("nobody")
    portfolio.learn(decision, 0.25, key="click")
    portfolio.learn(decision, 0.75, key="purchase")
    before = saved(portfolio)
    for key, message in (("click", "already has the reward with key 'click'"), (None, "needs a nonempty string")):
        with pytest.raises((DuplicateReward, InvalidArgument), match=message):
            portfolio.learn(decision, 0.25, key=key)
    assert saved(portfolio) == before
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p", learners=[Recorder(0)])
    loaded.learn(decision, -0.5, key="refund")
    for _ in range(3):
        loaded.decide(None)
    assert loaded.learners[0].rewards == [0.5, 0.0]
    assert loaded.standing()[0].mean_reward == 0.25
    assert silent.id not in loaded.pending


def test_the_last_of_several_rewards_counts_and_sums_stay_in_the_range() -> None:
    for aggregate, expected in (("last", 0.5), ("sum", 1.0)):
        portfolio = recorders(1, aggregate=aggregate, deadline=1, default_reward=0.0, clip=True)
        decision = portfolio.decide(None)
        for key, reward in (("a", 0.75), ("b", 0.5)):
            portfolio.learn(decision, reward, key=key)
        for _ in range(2):
            portfolio.decide(None)
        assert rewards_of(portfolio) == [[expected]]
        assert "clipped to [0, 1]" in portfolio.describe()
    with pytest.raises(InvalidArgument, match=r"^aggregate is 'sum' without a deadline"):
        recorders(1, aggregate="sum")
    with pytest.raises(InvalidArgument, match=r"^aggregate is 'mean', but must be one of first, sum, last$"):
        recorders(1, aggregate="mean")


@pytest.mark.parametrize(
    ("aggregate", "beyond", "message"),
    [
        ("last", 1.5, r"^reward is 1\.5, but must lie in reward_range \(0, 1\)$"),
        ("sum", 0.5, r"^the sum of the rewards of decision \S+ is 1\.25, but must lie in reward_range \(0, 1\)$"),
    ],
)
def test_aggregates_are_clipped_only_if_asked(aggregate: str, beyond: float, message: str) -> None:
    """Else a part that would lead out of the range is refused, and the parts before it count."""
    portfolio = recorders(1, aggregate=aggregate, deadline=1, default_reward=0.0)
    decision = portfolio.decide(None)
    portfolio.learn(decision, 0.75, key="a")
    before = saved(portfolio)
    with pytest.raises(InvalidArgument, match=message):
        portfolio.learn(decision, beyond, key="b")
    assert saved(portfolio) == before
    for _ in range(2):
        portfolio.decide(None)
    assert rewards_of(portfolio) == [[0.75]]
    assert portfolio.health()["clipped"] == 0 and "clipped" not in portfolio.describe()


def test_health_and_log_name_the_ticket_that_holds_up_others(caplog: pytest.LogCaptureFixture) -> None:
    """The reported fault: one lost reward stopped all learning with observed bounds and shared data, silently."""
    portfolio = Portfolio([OFUL(2), OFUL(3)], BalancedElimination([Observed()] * 2), share_data=True)
    context = np.full((3, 3), 0.5)
    lost = portfolio.decide(context)
    for _ in range(REPORTED_EVERY - 1):
        portfolio.learn(portfolio.decide(context), 0.5)
    blocking = portfolio.health()["blocking"]
    assert {(row["id"], row["what"]) for row in blocking} == {(lost.id, "evidence"), (lost.id, "updates")}
    assert {row["learner"] for row in blocking if row["what"] == "updates"} == set(portfolio.learner_names)
    assert min(row["holds_up"] for row in blocking) >= MIN_REPORTED
    assert all(row["age_rounds"] == REPORTED_EVERY - 1 for row in blocking)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and lost.id in warnings[0]
    assert "with a reward that does not count yet" in portfolio.describe()
    portfolio.learn(lost, 0.5)
    assert portfolio.health()["blocking"] == []
    assert "does not count yet" not in portfolio.describe()


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [RealizedBalancing, UCB1, EXP3, lambda n: BalancedElimination([Power(1.0)] * n)],
    ids=["RealizedBalancing", "UCB1", "EXP3", "BalancedElimination"],
)
def test_lost_rewards_do_not_blind_the_choice(make: Any) -> None:
    """Means .1, .2, .7; 1 % of rewards never come; no deadline. Balanced bounds need exogenous delays and a window."""
    exogenous = make(3).name == "Balanced elimination"
    settings: dict[str, Any] = {"delays": "exogenous", "window": 200} if exogenous else {}
    portfolio = Portfolio([Constant(i) for i in range(3)], make(3), **settings)
    rng, rounds = np.random.default_rng(0), 20_000
    for _ in range(rounds):
        decision = portfolio.decide(None)
        if rng.random() < 0.99:
            portfolio.learn(decision, float(rng.random() < (0.1, 0.2, 0.7)[decision.action]))
    assert portfolio.standing()[2].plays >= 0.95 * rounds


def test_delays_must_be_declared_whole() -> None:
    with pytest.raises(InvalidArgument, match=r"^window is None with delays 'exogenous'"):
        recorders(2, delays="exogenous")
    with pytest.raises(InvalidArgument, match=r"^window is 5 with delays 'any', but needs delays 'exogenous'$"):
        recorders(2, window=5)
    portfolio = Portfolio([UCB(2), UCB(2)], delays="exogenous", window=50)
    assert portfolio.selector.state()["delays"].tolist() == [DELAYS.index("exogenous"), 50]


def test_a_lost_reward_of_unknown_regret_does_not_block_with_a_deadline() -> None:
    learners = [Recorder(0, regret=nan), Recorder(1)]
    portfolio = Portfolio(learners, BalancedElimination([Observed()] * 2), deadline=3, default_reward=0.0)
    for _ in range(20):
        portfolio.decide(None)
    assert numbers(portfolio.pending) == (17, 18, 19, 20)
    assert portfolio.standing()[0].mean_bound == 1.0
