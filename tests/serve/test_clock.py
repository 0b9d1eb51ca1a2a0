"""A clock that is ahead: time that cannot have been served does not end decisions, unless an operator says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.portfolio import clock
from equipoise.serve.engine import JournalEngine
from tests.journal.shop import image
from tests.serve.served import ARMS, client, samples, service_of

PATH = "/v1/portfolios/arms"
HOURLY = ARMS + '[reward]\ndeadline = "1h"\ndefault = 0.0\n'
HOUR, MONTH, OPEN = 3600.0, 30 * 86400.0, 20
Move = Callable[[float, float], None]


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Move:
    """Set the clock of the system, and the steady one, ahead by so many seconds."""
    wall, steady = time.time, clock.steady

    def set_ahead(by: float, steady_by: float = 0.0) -> None:
        monkeypatch.setattr(time, "time", lambda: wall() + by)
        monkeypatch.setattr(clock, "steady", lambda: steady() + steady_by)

    return set_ahead


def decide(service: TestClient, *ids: str) -> None:
    for id_ in ids:
        assert service.post(f"{PATH}/decide", json={"id": id_}).status_code == 200


def reward(service: TestClient, id_: str) -> int:
    return service.post(f"{PATH}/rewards", json={"id": id_, "reward": 1.0}).status_code


def tick(service: TestClient) -> None:
    """Do what the service does every second."""

    async def expire() -> None:
        from equipoise.serve.hosted import Hosted

        await service_of(service).portfolios["arms"].engine.run(Hosted.expire, 1_000)

    assert service.portal is not None
    service.portal.call(expire)


def health(service: TestClient) -> Any:
    return service.get(PATH).json()["health"]


@pytest.fixture
def crash(tmp_path: Path) -> Path:
    """The folder that a kill leaves, with some open decisions."""
    with client(HOURLY, data=tmp_path / "first") as service:
        decide(service, *(f"a{k}" for k in range(OPEN)))
        image(tmp_path / "first" / "arms.db", tmp_path / "crash")
    return tmp_path / "crash"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_clock_ahead_at_a_start_ends_nothing(crash: Path, move: Move, caplog: pytest.LogCaptureFixture) -> None:
    move(MONTH, 0.0)
    with client(HOURLY, data=crash) as service:
        (line,) = lines(caplog)
        assert "arms: by the clock, 2592" in line and f"the {OPEN} open decisions" in line
        tick(service)
        assert (health(service)["open"], health(service)["expired"], health(service)["extended"]) == (OPEN, 0, OPEN)
        assert samples(service)["equipoise_extended_decisions", "arms"] == OPEN
        assert reward(service, "a3") == 200
        decide(service, "new")
        move(MONTH, 1.01 * HOUR)  # what is served counts
        tick(service)
        assert (health(service)["open"], health(service)["expired"], health(service)["extended"]) == (0, OPEN, 0)
        assert reward(service, "new") == 409
    assert len(lines(caplog)) == 1


def test_without_the_rule_all_of_them_end(crash: Path, move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(JournalEngine, "_extend_deadlines", lambda *arguments: None)
    move(MONTH, 0.0)
    with client(HOURLY, data=crash) as service:
        tick(service)
        assert health(service)["expired"] == OPEN


def test_a_yes_ends_what_was_open_at_the_start_and_nothing_else(crash: Path, move: Move) -> None:
    """A weekend without service, say."""
    move(2 * 86400.0, 0.0)
    with client(HOURLY, data=crash) as service:
        decide(service, "new")
        assert reward(service, "a0") == 200
        assert service.post(f"{PATH}/expire").json() == {"expired": OPEN - 1}
        assert service.post(f"{PATH}/expire").json() == {"expired": 0}
        assert (health(service)["open"], health(service)["extended"]) == (1, 0)
        assert (reward(service, "a1"), reward(service, "new")) == (409, 200)


@pytest.mark.parametrize("passed", [0.0, 0.9 * HOUR])
def test_a_usual_restart_extends_nothing(
    crash: Path, move: Move, passed: float, caplog: pytest.LogCaptureFixture
) -> None:
    move(passed, 0.0)
    with client(HOURLY, data=crash) as service:
        move(passed, 0.2 * HOUR)
        tick(service)
        assert health(service)["extended"] == 0
        assert health(service)["expired"] == (OPEN if passed else 0)  # the time between counts
    assert not lines(caplog)


def test_it_outlives_restarts_and_is_part_of_the_log(crash: Path, move: Move, tmp_path: Path) -> None:
    move(MONTH, 0.0)
    with client(HOURLY, data=crash) as service:
        decide(service, "new")
        image(crash / "arms.db", tmp_path / "again")
    for folder in (crash, tmp_path / "again"):  # stopped, and killed
        journal = SQLiteJournal(folder / "arms.db")
        assert [event.kind for event in journal.read()].count("deadlines_extended") == 1
        assert digest(rebuild(journal).portfolio) == digest(recover(journal).portfolio)
        with client(HOURLY, data=folder) as service:
            tick(service)
            assert (health(service)["open"], health(service)["extended"]) == (OPEN + 1, OPEN)
    kinds = [event.kind for event in SQLiteJournal(crash / "arms.db").read()]
    assert kinds.count("deadlines_extended") == 1


def test_a_clock_that_is_right_again_changes_no_deadline(crash: Path, move: Move) -> None:
    """Times of events stay ahead until the clock gets there; deadlines take as long as ever."""
    move(MONTH, 0.0)
    with client(HOURLY, data=crash) as service:
        decide(service, "ahead")
    move(0.0, 0.0)
    with client(HOURLY, data=crash) as service:
        decide(service, "after")
        tick(service)
        assert health(service)["expired"] == 0
        move(0.0, 1.01 * HOUR)
        tick(service)
        assert health(service)["expired"] == OPEN + 2
    times = [event.time for event in SQLiteJournal(crash / "arms.db").read()]
    assert times == sorted(times)


def test_a_clock_that_jumps_while_it_serves_changes_nothing(crash: Path, move: Move) -> None:
    with client(HOURLY, data=crash) as service:
        for ahead in (MONTH, -MONTH):
            move(ahead, 0.0)
            tick(service)
            decide(service, f"at {ahead}")
        assert (health(service)["expired"], health(service)["extended"]) == (0, 0)


def test_deadlines_in_rounds_have_no_clock(tmp_path: Path, move: Move, caplog: pytest.LogCaptureFixture) -> None:
    text = ARMS + "[reward]\ndeadline = 50\ndefault = 0.0\n"
    with client(text, data=tmp_path) as service:
        decide(service, "a", "b")
    move(MONTH, 0.0)
    with client(text, data=tmp_path) as service:
        assert (health(service)["open"], health(service)["extended"]) == (2, 0)
        assert service.post(f"{PATH}/expire").json() == {"expired": 0}
    assert not lines(caplog)


def test_rewards_that_are_held_stay_held(crash: Path, move: Move) -> None:
    """A reward counts when its play has reached the common age, of which the leap is no part."""
    with client(HOURLY, data=crash) as service:
        assert reward(service, "a5") == 200
        held = health(service)["held_rewards"]
        assert held > 0
    move(MONTH, 0.0)
    with client(HOURLY, data=crash) as service:
        decide(service, "new")
        tick(service)
        assert health(service)["held_rewards"] == held
