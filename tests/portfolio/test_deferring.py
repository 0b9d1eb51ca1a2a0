"""Deferred decisions: they count once they are activated, and are withdrawn at their deadline otherwise."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.errors import DuplicateReward, InvalidArgument
from equipoise.features import Offers
from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.selectors import RealizedBalancing
from equipoise.storage.codec import encode
from tests.journal.golden import copy_of_killed


def make(aggregate: str = "first", **settings: Any) -> Portfolio:
    learners = [UCB(2), EpsilonGreedy(2, epsilon=0.2), UCB(2, scale=0.1, name="greedy")]
    chosen: dict[str, Any] = {"deadline": "1h", "default_reward": 0.0, "reward_range": (-1.0, 1.0), **settings}
    return Portfolio(learners, RealizedBalancing(3), aggregate=aggregate, **chosen)


def rounds_learned(portfolio: Portfolio) -> int:
    return sum(row.plays for row in portfolio.standing())


def test_a_reward_teaches_once_its_decision_is_activated() -> None:
    portfolio, events = make(), list[Any]()
    portfolio.on_event(events.append)
    decision = portfolio.decide(None, id="mail", deferred="mail", at=0.0)
    portfolio.learn("mail", 1.0, at=1.0)
    counts = [portfolio.history.n_rewards]
    with pytest.raises(DuplicateReward, match="already has a reward, which waits"):
        portfolio.learn(decision, 0.5, at=1.0)
    assert [portfolio.activate("mail", at=2.0) for _ in range(2)] == [1, 0]
    counts += [portfolio.history.n_rewards, portfolio.n_pending]
    assert counts == [0, 1, 0]
    assert [(event.kind, event.data.get("part")) for event in events] == [
        ("decided", None),
        ("rewarded", ""),
        ("activated", None),
        ("rewarded", None),
    ]


def test_without_activation_the_deadline_withdraws_it() -> None:
    """A twin, whose rounds are withdrawn by hand, is left in the same state."""
    deferred, twin = make(), make()
    for t in range(40):
        skipped = t % 3 == 0
        at = 60.0 * t
        made = deferred.decide(None, id=f"d{t}", deferred=f"d{t}" if skipped else "", at=at)
        same = twin.decide(None, id=f"d{t}", at=at)
        assert made == same
        if skipped:
            deferred.learn(made, 1.0, at=at)  # teaches nothing
        else:
            deferred.learn(made, float(made.action), at=at)
            twin.learn(same, float(same.action), at=at)
    waiting = list(twin.pending)
    assert list(deferred.pending) == waiting
    deferred.expire(at=40 * 60.0 + 3601.0)
    for id_ in waiting:
        twin.withdraw(id_)
    assert deferred.pending == () == twin.pending
    health = deferred.health()
    assert (health["expired"], health["withdrawn"]) == (0, len(waiting))
    assert encode([each.state() for each in deferred.learners]) == encode([each.state() for each in twin.learners])
    assert deferred.certificate() == twin.certificate()


@pytest.mark.parametrize("aggregate", ["sum", "last"])
def test_parts_before_the_activation_count_with_the_others(aggregate: str) -> None:
    portfolio = make(aggregate, clip=True)
    portfolio.decide(None, id="mail", deferred="mail", at=0.0)
    portfolio.learn("mail", 0.25, key="opened", at=1.0)
    portfolio.activate("mail", at=2.0)
    portfolio.learn("mail", 0.5, key="clicked", at=3.0)
    events: list[Any] = []
    portfolio.on_event(events.append)
    portfolio.expire(at=4000.0)
    (expired,) = events
    assert (expired.kind, expired.data["reward"]) == ("expired", {"sum": 0.75, "last": 0.5}[aggregate])


def test_a_name_activates_all_its_decisions_before_their_deadlines() -> None:
    portfolio = make()
    portfolio.decide(None, id="early", deferred="page", at=0.0)
    for k in range(3):
        portfolio.decide(None, id=f"slot {k}", deferred="page", at=3000.0)
    portfolio.decide(None, id="other", deferred="other", at=3000.0)
    assert portfolio.activate("page", at=3700.0) == 3, "the early one is past its deadline"
    portfolio.learn("early", 1.0, at=3700.0)  # too late
    portfolio.expire(at=10_000.0)
    health = portfolio.health()
    assert (health["expired"], health["withdrawn"], health["open"], health["ignored"]) == (3, 2, 0, 1)


def test_what_waits_is_kept_with_many_open_decisions(tmp_path: Path) -> None:
    portfolio = make()
    for t in range(600):  # more than are kept as objects
        portfolio.decide(None, id=f"d{t}", deferred="" if t % 2 else f"name {t % 7}", at=float(t))
    portfolio.learn("d4", 0.5, at=600.0)
    portfolio.save(tmp_path / "file.equipoise")
    loaded = Portfolio.load(tmp_path / "file.equipoise")
    for each in (portfolio, loaded):
        assert each.activate("name 4", at=700.0) == sum(t % 2 == 0 and t % 7 == 4 for t in range(600))
        assert "d4" not in each.pending
        each.expire(at=100_000.0)
        assert each.health()["expired"] + each.health()["withdrawn"] + 1 == 600
    assert digest(portfolio) == digest(loaded)


def arms() -> Portfolio:
    return make()


def parts() -> Portfolio:
    return make("sum", clip=True)


def features() -> Portfolio:
    """The default selector, whose learners share data and learn in order."""
    return Portfolio(
        [OFUL(2), OFUL(1, name="one")], deadline="1h", default_reward=0.0, explore=0.1, delays="any", seed=4
    )


@pytest.mark.parametrize("made", [arms, parts, features])
def test_a_journal_folds_to_the_same_state(made: Callable[[], Portfolio], tmp_path: Path) -> None:
    """Decisions, rewards, activations and deadlines in any order; the process is killed, and goes on."""
    path, killed = tmp_path / "journal.db", tmp_path / "killed.db"
    rng, key = np.random.default_rng(3), "k" if made is parts else None
    with equipoise.open(path, made) as live:
        for t in range(300):
            at = 1.7e9 + 60.0 * t
            matrix = rng.integers(-5, 6, (3, 2)) / 10
            context = Offers(matrix, ids=["a", "b", "c"]) if made is features else None
            live.decide(context, id=f"d{t}", deferred=f"page {t // 2}" if t % 4 < 2 else "", at=at, pmf=t % 3 == 0)
            if t % 5 and t > 10:
                chosen = f"d{t - int(rng.integers(0, 10))}"
                if chosen in live.pending:
                    with contextlib.suppress(DuplicateReward):
                        live.learn(chosen, float(rng.integers(0, 2)), at=at, key=key)
            if t % 6 == 5:
                live.activate(f"page {(t - int(rng.integers(0, 70))) // 2}", at=at)
        copy_of_killed(path, killed)
        kinds = {event.kind for event in live.journal.read(1)}
        live_digest, pending = digest(live.transact(lambda portfolio, at: portfolio.rehearsal())), live.pending
        health = live.transact(lambda portfolio, at: portfolio.health())
    assert {"activated", "withdrawn", "expired", "rewarded"} <= kinds and health["open"] == len(pending)
    journal = SQLiteJournal(killed, create=False)
    for way in (rebuild, recover):
        again = way(journal, made()).portfolio
        assert again.pending == pending and digest(again) == live_digest
    journal.close()
    with equipoise.open(killed, made) as live:
        name = next(f"page {k}" for k in range(149, 0, -1) if live.activate(f"page {k}", at=1.7e9 + 60.0 * 300))
        assert live.activate(name, at=1.7e9 + 60.0 * 300) == 0


@pytest.mark.parametrize("name", ["", 7, "x" * 300, "two\nlines"])
def test_a_name_must_be_an_id(name: Any) -> None:
    portfolio = make()
    if name != "":
        with pytest.raises(InvalidArgument, match="deferred is"):
            portfolio.decide(None, deferred=name)
    with pytest.raises(InvalidArgument, match="name is"):
        portfolio.activate(name)
    assert portfolio.n_pending == 0 and rounds_learned(portfolio) == 0
