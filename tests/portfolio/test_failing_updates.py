"""A learner whose `learn` fails is paused with growing pauses, and neither log, history nor journal fill up."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.learner import Proposal
from equipoise.learners import UCB, EpsilonGreedy
from equipoise.portfolio.pool import FIRST_PAUSE, MAX_FAILURES, MAX_PAUSE
from equipoise.portfolio.updates import MAX_FAILED_UPDATES, NOT_TRIED
from equipoise.selectors import BalancedElimination, CounterfactualBalancing, RealizedBalancing
from equipoise.types import State

FAILING = "Failing"


class Failing:
    """Fails to learn in the rounds in which it is told to; it notes its updates, which tell the order of them."""

    name = FAILING
    accepts = frozenset({"off_policy"})
    provides = frozenset({"greedy", "regret"})

    def __init__(self) -> None:
        self.fails = True
        self.tries, self.learned = 0, [0.0]

    def decide(self, context: Any) -> Proposal:
        return Proposal(0, regret=0.5, greedy=0)

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.tries += 1
        if self.fails:
            raise RuntimeError("cannot learn")
        self.learned.append(reward)

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> State:
        return {"learned": np.array(self.learned)}

    def restore(self, state: State) -> None:
        self.learned = state["learned"].tolist()


def make_shared() -> Portfolio:
    learners: list[Any] = [UCB(2, scale=0.1), Failing()]
    return Portfolio(learners, CounterfactualBalancing.for_learners(learners, share_data=True), seed=3)


def make_realized() -> Portfolio:
    return Portfolio([UCB(2), Failing()], RealizedBalancing(2), share_data=True)


def make_in_order(**settings: Any) -> Portfolio:
    """The failing learner learns in the order of its plays."""
    return Portfolio([UCB(2), Failing()], BalancedElimination([Power(1.0), Observed()]), seed=3, **settings)


def play(portfolio: Any, rounds: int, first: int = 0, late: int = 0) -> None:
    """Play rounds with rewards from their number; each comes `late` rounds later."""
    for t in range(first, first + rounds):
        portfolio.decide(None, id=f"round {t}", at=float(t))
        if t - late >= first:
            portfolio.learn(f"round {t - late}", (t - late) % 7 / 7, at=float(t))


def test_a_learner_that_fails_ten_thousand_times_floods_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, each of the 10,000 updates was tried, and made two events, a line and a warning."""
    caplog.set_level(logging.INFO, logger="equipoise")
    rounds, path = 10_000, tmp_path / "failing.db"
    with equipoise.open(path, make_realized, snapshot_every=10**9) as live:
        live.transact(lambda portfolio, at: play(portfolio, rounds))
        health, history = live.health(), live.history
        live.close(snapshot=False)
    failing = health["learners"][1]
    kinds = Counter(event.kind for event in SQLiteJournal(path, create=False).read(1))
    # Pauses of 8, 16, ..., 1024 rounds, then of 1024 rounds, with one try after each.
    pauses = [FIRST_PAUSE * 2**k for k in range(8)]
    n_pauses = len(pauses) + (rounds - sum(pauses)) // MAX_PAUSE
    assert abs(kinds["learner_suspended"] - n_pauses) <= 1
    assert failing["failures"] == kinds["learner_suspended"] + MAX_FAILURES - 1
    assert kinds["update_failed"] <= rounds / MAX_PAUSE + 1
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    lines = [record for record in caplog.records if record.module == "events"]  # not those of the construction
    assert len(warnings) == kinds["learner_suspended"] and len(lines) == len(warnings) + kinds["update_failed"]
    assert len(history.marks) == kinds["learner_suspended"]
    assert health["failed_updates"] == MAX_FAILED_UPDATES
    assert health["failed_updates"] + health["forgotten_updates"] == rounds
    sound = tmp_path / "sound.db"
    with equipoise.open(sound, make_realized, snapshot_every=10**9) as live:
        live._portfolio.learners[1].fails = False
        live.transact(lambda portfolio, at: play(portfolio, 2_000))
        live.close(snapshot=False)
    assert path.stat().st_size / rounds < 1.2 * sound.stat().st_size / 2_000


@pytest.mark.parametrize("make", [make_shared, make_in_order])
@pytest.mark.parametrize("late", [0, 5])
def test_a_learner_that_recovers_learns_again_and_a_journal_repeats_it_exactly(
    make: Any, late: int, tmp_path: Path
) -> None:
    path = tmp_path / "failing.db"
    live = equipoise.open(path, make, snapshot_every=10**9)
    failing = live._portfolio.learners[1]
    live.transact(lambda portfolio, at: play(portfolio, 60, late=late))
    if make is make_shared or late:  # otherwise it has nothing to learn while it is paused
        assert NOT_TRIED in {update.error for update in live.failed_updates}
    before = failing.tries
    assert before < 10
    live.snapshot()
    failing.fails = False
    live.transact(lambda portfolio, at: play(portfolio, 200, first=100, late=late))
    assert failing.tries > before + 5
    assert not live.health()["learners"][1]["paused_until_round"]
    n_failed, n_learned = len(live.failed_updates), len(failing.learned)
    assert live.retry_updates() == n_failed == len(failing.learned) - n_learned
    live.transact(lambda portfolio, at: play(portfolio, 20, first=400, late=late))
    assert not live.failed_updates
    expected = digest(live._portfolio)
    live.close(snapshot=False)
    for way in (recover, rebuild):
        template = make()
        template.learners[1].fails = False
        recovered = way(SQLiteJournal(path, create=False), template).portfolio
        assert digest(recovered) == expected
        assert recovered.learners[1].learned == failing.learned
        assert recovered.health()["folded_differently"] == 0


def test_saved_and_loaded_in_a_pause_it_continues_alike(tmp_path: Path) -> None:
    portfolio = make_shared()
    play(portfolio, 30)
    portfolio.save(tmp_path / "paused")
    loaded = Portfolio.load(tmp_path / "paused", learners=[UCB(2, scale=0.1), Failing()])
    for each in (portfolio, loaded):
        play(each, 100, first=100)
    assert digest(portfolio) == digest(loaded)
    assert loaded.learners[1].tries < 5


def test_rewards_that_come_at_once_try_a_failing_learner_once_after_a_pause() -> None:
    """Many updates of one call count one by one: three in a row begin one pause, not a hundred."""
    portfolio, suspended = make_in_order(), []
    portfolio.on_event(lambda event: suspended.append(event) if event.kind == "learner_suspended" else None)
    failing = portfolio.learners[1]
    decisions = [portfolio.decide(None) for _ in range(200)]
    own = [decision for decision in decisions if decision.learner == 1]
    for decision in own[:0:-1]:  # all wait for the first
        portfolio.learn(decision, 0.5)
    portfolio.learn(own[0], 0.5)
    assert len(own) > 20 and failing.tries == MAX_FAILURES and len(suspended) == 1
    assert len(portfolio.failed_updates) == len(own)
    assert portfolio.retry_updates() == 0
    assert failing.tries == MAX_FAILURES + len(own) and len(suspended) == 1  # asked for, so tried; still one pause
    failing.fails = False
    assert portfolio.retry_updates() == len(own)


def test_the_only_learners_are_tried_in_their_pause_and_pauses_are_announced_once() -> None:
    """Nothing else can play, so learners are asked although they are paused; that does not extend the pauses."""
    portfolio, suspended = Portfolio([Failing(), Failing()], RealizedBalancing(2)), []
    portfolio.on_event(lambda event: suspended.append(event) if event.kind == "learner_suspended" else None)
    for _ in range(300):
        portfolio.learn(portfolio.decide(None), 0.5)
    assert len(suspended) <= 2 * 6
    assert portfolio.health()["rounds"] == 300


# The line about rewards that hold up others.

HOUR = 3600.0


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "later rewards wait" in record.getMessage()]


def blocked(portfolio: Portfolio, rounds: int, seconds: float, *, first: int, missing: int = 1, delay: int = 0) -> None:
    """Play rounds; the first ones get no reward, the others after `delay` rounds."""
    for t in range(first, first + rounds):
        portfolio.decide(None, id=f"round {t}", at=seconds * t)
        if t - delay >= missing:
            portfolio.learn(f"round {t - delay}", 0.5, at=seconds * t)


def make_blocked(**settings: Any) -> Portfolio:
    return Portfolio([EpsilonGreedy(2, epsilon=0.1)], RealizedBalancing(1), **settings)


def test_a_missing_reward_is_reported_once_an_hour_in_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    portfolio, events = make_blocked(), []
    portfolio.on_event(lambda event: events.append(event) if event.kind == "blocked" else None)
    blocked(portfolio, 5_000, 0.7, first=0, missing=3)  # 3,500 seconds
    assert len(lines(caplog)) == len(events) == 1
    assert lines(caplog)[0] == (
        "decision round 0 of learner 'EpsilonGreedy(0.1)' has no reward after 1,023 rounds, later than 99 % of rewards"
        ", and 1,020 later rewards wait for it: learn its reward, withdraw it, or set a deadline"
    )
    assert events[0].derived and events[0].data["holds_up"] == 1_020
    blocked(portfolio, 5_000, 0.7, first=5_000, missing=3)
    assert len(lines(caplog)) == 2
    assert events[1].time - events[0].time >= HOUR
    for t in range(3):
        portfolio.withdraw(f"round {t}")
    blocked(portfolio, 6_000, 0.7, first=10_000)
    assert len(lines(caplog)) == 2


def test_usual_delays_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Rewards come 3,000 rounds late, so thousands wait all the time; only a decision that is older is reported.

    Every seventh comes after 2,000 rounds and waits for earlier ones.
    """
    portfolio = make_blocked()
    for t in range(12_000):
        portfolio.decide(None, id=f"round {t}", at=float(t))
        if t >= 2_000 and (t - 2_000) % 7 == 0:
            portfolio.learn(f"round {t - 2_000}", 0.5, at=float(t))
        if t >= 3_000 and (t - 3_000) % 7 and t != 3_001 + 5_000:
            portfolio.learn(f"round {t - 3_000}", 0.5, at=float(t))
        if t == 7_900:
            assert not lines(caplog) and portfolio.health()["blocking"][0]["holds_up"] > 100
    assert [line.split(" has no reward")[0] for line in lines(caplog)] == [
        "decision round 5001 of learner 'EpsilonGreedy(0.1)'"
    ]


def test_with_a_deadline_only_decisions_past_it_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Clicks come at once, and all others get the default reward at the deadline: nothing is missing before.

    The learner with an observed bound learns in order, so its updates wait for the missing rewards.
    """
    portfolio = make_in_order(deadline="2h", default_reward=0.0, share_data=True)
    portfolio.learners[1].fails = False
    for t in range(3_000):
        portfolio.decide(None, id=f"round {t}", at=float(t))
        if t % 3:
            portfolio.learn(f"round {t}", 1.0, at=float(t))
    (blocking,) = portfolio.health()["blocking"]
    assert blocking["what"] == "updates" and blocking["holds_up"] > 500 and not lines(caplog)
    # All decisions are overdue at once, more than one call closes: now they are late.
    portfolio.decide(None, at=1e6)
    state = portfolio._state
    state.events.announce_blocked(state.reporter.blocked)
    assert len(lines(caplog)) == 1 and "past its deadline" in lines(caplog)[0]


def test_a_recovered_portfolio_knows_when_it_has_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "blocked.db"
    for k in range(4):
        with equipoise.open(path, make_blocked, snapshot_every=10**9) as live:
            live.transact(lambda portfolio, at, k=k: blocked(portfolio, 1_100, 0.7, first=1_100 * k))
            if k == 1:
                expected = digest(live._portfolio)
                live.close(snapshot=False)
                assert digest(rebuild(SQLiteJournal(path, create=False)).portfolio) == expected
                break
    for k in range(2, 4):
        with equipoise.open(path, make_blocked, snapshot_every=10**9) as live:
            live.transact(lambda portfolio, at, k=k: blocked(portfolio, 1_100, 0.7, first=1_100 * k))
    assert len(lines(caplog)) == 1
