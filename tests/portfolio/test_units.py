"""Units keep their decisions while these are sticky: no new round, nothing learned, and a bounded memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.features import Offers
from equipoise.journal import SQLiteJournal, digest, rebuild
from equipoise.learners import UCB, EpsilonGreedy
from equipoise.portfolio import Decision, Event
from equipoise.portfolio.units import MAX_LEAVING, Units, unit_key

HOUR = 3600.0
IDS = ["red", "blue", "green"]


def make(**settings: Any) -> Portfolio:
    given = {"sticky": "1h", "seed": 3, **settings}
    return Portfolio([UCB(3), EpsilonGreedy(3, epsilon=0.3)], **given)


def offers(*ids: str, mask: list[bool] | None = None) -> Offers:
    return Offers(None, ids=ids or IDS, mask=mask)


def test_a_unit_gets_its_decision_until_sticky_has_passed() -> None:
    portfolio = make()
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    assert portfolio.decide(offers(), unit="ann", at=HOUR - 1.0) == first
    portfolio.learn(first, 1.0, at=HOUR - 1.0)
    assert portfolio.decide(offers(), unit="ann", at=HOUR - 0.5) == first  # rewarded, and kept all the same
    assert portfolio.health()["rounds"] == 1
    second = portfolio.decide(offers(), unit="ann", at=HOUR)
    assert second.id != first.id and portfolio.health()["rounds"] == 2
    assert portfolio.decide(offers(), unit="ann", at=HOUR + 1.0) == second


def test_units_and_calls_without_a_unit_are_apart() -> None:
    portfolio = make()
    ids = {portfolio.decide(offers(), unit=unit, at=1.0).id for unit in ("ann", "bob", "ann", None, None)}
    assert len(ids) == 4


def test_without_sticky_every_call_is_a_round() -> None:
    portfolio = make(sticky=None)
    assert portfolio.decide(offers(), unit="ann").id != portfolio.decide(offers(), unit="ann").id
    assert portfolio.units_bytes == 0


def test_a_repeated_decision_teaches_nothing() -> None:
    """The certificate and the learners are as if the unit had been asked once."""
    portfolios = make(), make()
    for portfolio, repeats in zip(portfolios, (0, 5), strict=True):
        for t in range(40):
            decision = portfolio.decide(offers(), unit=f"user-{t}", at=float(t))
            portfolio.learn(decision, float(decision.action == 1), at=float(t))
            for _ in range(repeats):
                portfolio.decide(offers(), unit=f"user-{t}", at=float(t))
    one, many = (portfolio.to_json() for portfolio in portfolios)
    assert one == many
    assert np.array_equal(portfolios[0].learners[0].memory.plays, portfolios[1].learners[0].memory.plays)


def test_later_rewards_follow_the_aggregate() -> None:
    portfolio = make(aggregate="sum", deadline="2h", default_reward=0.0)
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    portfolio.learn(first, 0.25, key="click", at=1.0)
    again = portfolio.decide(offers(), unit="ann", at=2.0)
    portfolio.learn(again, 0.5, key="order", at=3.0)
    rewards = list[float]()
    portfolio.on_event(lambda event: rewards.append(event.data["reward"]) if event.kind == "expired" else None)
    portfolio.expire(at=3 * HOUR)
    assert rewards == [0.75]


CHANGED: dict[str, tuple[Any, dict[str, Any]]] = {
    "not offered": (offers("blue", "green"), {}),
    "masked": (offers(mask=[False, True, True]), {}),
    "without ids": (Offers(np.zeros((3, 0))), {}),
    "another learner": (offers(), {"available": ["EpsilonGreedy(0.3)"]}),
    "another id": (offers(), {"id": "mine"}),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_new_round_is_decided_if_the_decision_does_not_fit(case: str) -> None:
    portfolio, (context, options) = make(), CHANGED[case]
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    assert first.action_id == "red" and first.learner_name == "UCB"
    second = portfolio.decide(context, unit="ann", at=1.0, **options)
    assert second.id != first.id and portfolio.health()["rounds"] == 2
    context = offers() if case in ("another learner", "another id") else context
    assert portfolio.decide(context, unit="ann", at=2.0) == second  # which the unit keeps from now on
    portfolio.learn(first, 1.0, at=3.0)
    portfolio.learn(second, 1.0, at=3.0)


def test_an_action_keeps_its_id_where_offers_change_places() -> None:
    portfolio = make()
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    again = portfolio.decide(offers("green", "blue", "red"), unit="ann", at=1.0)
    assert (again.id, again.action_id, again.action) == (first.id, "red", 2)
    assert again.learner == 0
    portfolio.learn(again, 1.0, at=1.0)
    assert portfolio.standing()[0].plays == 1


def test_actions_without_ids_are_known_by_their_indices() -> None:
    portfolio = make()
    while (later := portfolio.decide(None, unit="bob", at=0.0)).action != 1:
        portfolio.learn(later, 0.0, at=0.0)
        portfolio.reconfigure(sticky=None)
        portfolio.reconfigure(sticky="1h")
    assert portfolio.decide(np.zeros((2, 1)), unit="bob", at=0.0) == later
    assert portfolio.decide(np.zeros((1, 1)), unit="bob", at=0.0).id != later.id


def test_a_withdrawn_decision_is_not_kept() -> None:
    portfolio = make()
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    portfolio.withdraw(first)
    second = portfolio.decide(offers(), unit="ann", at=0.0)
    assert second.id != first.id
    old = portfolio.decide(offers(), unit="bob", id="old", at=0.0)
    new = portfolio.decide(offers(), unit="bob", id="new", at=0.0)
    portfolio.withdraw(old)
    assert portfolio.decide(offers(), unit="bob", at=0.0) == new  # the newest one is the unit's


def test_an_id_comes_before_the_unit() -> None:
    portfolio = make()
    mine = portfolio.decide(offers(), id="mine", unit="ann", at=0.0)
    other = portfolio.decide(offers(), id="other", unit="ann", at=0.0)
    assert portfolio.decide(offers(), id="mine", unit="ann", at=0.0) == mine
    assert portfolio.decide(offers(), unit="ann", at=0.0) == other


@pytest.mark.parametrize("unit", ["", "x" * 201, "a\nb", 7, b"ann", "x" * 10_000, "\ud800"])
def test_a_wrong_unit_changes_nothing(unit: Any) -> None:
    portfolio = make()
    before = digest(portfolio)
    with pytest.raises(InvalidArgument, match=r"unit is .*, but must be a printable string of 1 to 200 characters"):
        portfolio.decide(offers(), unit=unit)
    assert digest(portfolio) == before


def test_sticky_can_change_and_end() -> None:
    portfolio = make()
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    portfolio.reconfigure(sticky="10s")
    assert portfolio.decide(offers(), unit="ann", at=5.0) == first
    second = portfolio.decide(offers(), unit="ann", at=10.0)
    assert second.id != first.id
    portfolio.reconfigure(sticky=None)
    assert portfolio.units_bytes == 0
    portfolio.reconfigure(sticky="1h")
    assert portfolio.decide(offers(), unit="ann", at=11.0).id != second.id


def test_the_clock_is_read_if_no_time_is_given() -> None:
    portfolio = make(sticky="1h")
    first = portfolio.decide(offers(), unit="ann")
    assert portfolio.decide(offers(), unit="ann") == first and portfolio.time > 1e9


def test_a_learner_that_left_changes_no_decision() -> None:
    portfolio = make()
    first = portfolio.decide(offers(), unit="ann", at=0.0)
    portfolio.remove_learner("UCB")
    assert portfolio.decide(offers(), unit="ann", at=1.0) == first
    assert portfolio.decide(offers(), unit="bob", at=1.0).learner_name == "EpsilonGreedy(0.3)"


def test_a_policy_is_kept_while_the_process_runs() -> None:
    def policy(state: int) -> int:
        return state

    class Acts:
        def decide(self, context: Any, rng: Any) -> Any:
            return policy

        def learn(self, context: Any, action: Any, reward: float) -> None: ...

    portfolio = Portfolio([Acts(), Acts()], sticky="1h")
    first = portfolio.decide(None, unit="ann", at=0.0)
    assert portfolio.decide(None, unit="ann", at=1.0).action is first.action is policy


def test_saved_portfolios_and_copies_keep_decisions(tmp_path: Path) -> None:
    portfolio = make()
    decisions = [portfolio.decide(offers(), unit=f"user-{k}", at=float(k)) for k in range(20)]
    portfolio.save(tmp_path / "saved")
    for copy in (Portfolio.load(tmp_path / "saved"), portfolio.rehearsal()):
        assert [copy.decide(offers(), unit=f"user-{k}", at=30.0) for k in range(20)] == decisions
        assert copy.units_bytes == portfolio.units_bytes
        copy.withdraw(decisions[3].id)
        assert copy.decide(offers(), unit="user-3", at=30.0).id != decisions[3].id
        assert digest(copy) != digest(portfolio)


def test_the_memory_of_units_is_bounded() -> None:
    """Old decisions leave as new ones come, in the order of their times, and the search for them stays short."""
    units, decision = Units(), Decision("a-1", 1, 0, "UCB", 0, 1.0, 1.0, 1.0, "red")
    for k in range(5_000):
        units.keep(unit_key(f"user-{k}"), decision._replace(id=f"a-{k}"), float(k), k - 100.0)
    assert len(units) == 100
    full = units.nbytes
    for k in range(5_000):
        units.keep(unit_key(f"user-{k % 50}"), decision, 5_000.0 + k, 4_900.0 + k)
    assert len(units) == 50 and units.nbytes < full
    for k in range(60):
        units.keep(unit_key("one"), decision, 1e6 + k, 1e6 - 1.0)
    assert len(units) == 1 and MAX_LEAVING == 2
    units.end(unit_key("one"), "another")
    assert len(units) == 1
    units.end(unit_key("one"), "a-1")
    assert (len(units), units.nbytes, repr(units)) == (0, 0, "Units(0 units)")


def test_events_name_the_unit_and_fold_to_the_same_state(tmp_path: Path) -> None:
    events: list[Event] = []
    portfolio, twin = make(deadline=30, default_reward=0.0), make(deadline=30, default_reward=0.0)
    portfolio.on_event(events.append)
    play(portfolio)
    for event in events:
        twin.apply(event)
    twin.end_id_epoch()
    assert digest(twin) == digest(portfolio)
    assert {event.data["unit"] for event in events if event.kind == "decided"} == {*(f"user-{k}" for k in range(7))}
    kept = [portfolio.kept_decision(offers(), f"user-{k}", at=400.0) for k in range(7)]
    assert [twin.kept_decision(offers(), f"user-{k}", at=400.0) for k in range(7)] == kept
    assert kept.count(None) < 4


def play(portfolio: Any) -> None:
    """Ask units again and again, some with slates; withdraw some decisions, and change `sticky` once."""
    rng = np.random.default_rng(4)
    for t in range(400):
        unit = f"user-{rng.integers(7)}"
        if t % 11 == 5:
            slots = portfolio.slate(offers(), 2, unit=unit, at=float(t))
            decision = slots[t % 2]
        else:
            decision = portfolio.decide(offers(), unit=unit, id=f"own {t}" if t % 13 == 0 else None, at=float(t))
        try:
            if t % 7 == 3:
                portfolio.withdraw(decision)
            elif t % 3:
                portfolio.learn(decision, float(rng.integers(2)), at=float(t))
        except UnknownDecision:
            pass  # the unit had it before, and it is closed
        if t == 200:
            portfolio.reconfigure(sticky="50s")


def test_a_journal_keeps_decisions(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, make) as live:
        play(live)
        asked = [live.decide(offers(), unit=f"user-{k}", at=401.0) for k in range(7)]
        state = digest(live.transact(lambda portfolio, at: portfolio))
    with equipoise.open(path) as live:
        assert [live.decide(offers(), unit=f"user-{k}", at=401.0) for k in range(7)] == asked
        assert live.kept_decision(offers(), "nobody", at=401.0) is None
        assert live.units_bytes > 0
    journal = SQLiteJournal(path, create=False)
    assert digest(rebuild(journal, make()).portfolio) == state


KILLED = """
import equipoise, sys
from tests.portfolio.test_units import make, offers
live = equipoise.open(sys.argv[1], make)
while True:
    for k in range(1_000_000):
        decision = live.decide(offers(), unit=f"user-{k % 50}", at=1e9 + k / 100)
        print(k % 50, decision.id, decision.action, flush=True)
"""


def test_a_kill_loses_no_decision_of_a_unit(tmp_path: Path) -> None:
    path, root = tmp_path / "shop.db", Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    told = dict[str, tuple[str, str]]()
    for _ in range(120):
        unit, id_, action = process.stdout.readline().split()
        assert told.setdefault(unit, (id_, action)) == (id_, action)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    process.stdout.close()
    with equipoise.open(path) as live:
        for unit, (id_, action) in told.items():
            decision = live.decide(offers(), unit=f"user-{unit}", at=1e9 + 60.0)
            assert (decision.id, str(decision.action)) == (id_, action)


def test_the_decisions_of_a_unit_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, make) as live:
        for t in range(6):
            decision = live.decide(offers(), unit="ann" if t % 2 else "bob", id=f"own {t}")
            live.learn(decision, 1.0)
        open_one = live.decide(offers(), unit="ann", id="open")
        with pytest.raises(InvalidArgument, match="id 'open' is open"):
            live.redact(unit="ann")
        live.learn(open_one, 0.0)
        assert live.redact(unit="ann") == 8  # four decisions and their rewards
        assert live.redact(unit="ann") == 0 and live.redact(unit="an") == 0
        for wrong in ({}, {"unit": "ann", "ids": ["own 1"]}, {"unit": "ann", "before": 1.0}):
            with pytest.raises(InvalidArgument, match="exactly one must be given"):
                live.redact(**wrong)
        with pytest.raises(InvalidArgument, match="unit is"):
            live.redact(unit="")
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("shop.db"))
    assert b"ann" not in data.replace(b"planned", b"") and b"bob" in data


@pytest.mark.parametrize(
    "change", [lambda live: live.reconfigure(sticky=None), lambda live: live.remove_learner("UCB")]
)
def test_changes_at_run_time_are_kept(change: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, make) as live:
        live.decide(offers(), unit="ann", at=0.0)
        change(live)
        state = digest(live.transact(lambda portfolio, at: portfolio))
        live.close(snapshot=False)
    with equipoise.open(path) as live:
        assert digest(live.transact(lambda portfolio, at: portfolio)) == state


def test_a_state_without_sticky_is_as_before() -> None:
    """Files and journals of earlier releases keep their digests."""
    state = make(sticky=None).state()
    assert "units" not in state and "sticky" not in state["settings"] and "sticky" not in state["declared"]
    assert make().state()["settings"]["sticky"] == "3600.0s"
