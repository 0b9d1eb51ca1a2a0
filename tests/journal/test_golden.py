"""The recorded journals and files of version 1 open, now and in every later release."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import equipoise
from equipoise import Portfolio
from equipoise.journal import SQLiteJournal, rebuild, recover
from equipoise.journal.recovery import OF_JOURNAL, digest
from equipoise.portfolio.events import KINDS, Event
from tests.journal.golden import GOLDEN, facts_of, file_of, journal_of, record


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copy(journal_of(name), tmp_path / "journal.db"))


def events_of(name: str, tmp_path: Path) -> list[Event]:
    return list(SQLiteJournal(copied(name, tmp_path), create=False).read(1))


def test_the_recorded_journals_have_events_of_all_kinds(tmp_path: Path) -> None:
    kinds = {event.kind for name in GOLDEN for event in events_of(name, tmp_path)}
    assert kinds == set(KINDS) | OF_JOURNAL


def test_the_recorded_journals_have_every_form_of_a_round(tmp_path: Path) -> None:
    events = events_of("contexts", tmp_path)
    decided: list[Any] = [event.data for event in events if event.kind == "decided"]
    rewarded: list[Any] = [event.data for event in events if event.kind == "rewarded"]
    closed: list[Any] = [event.data for event in events if event.kind == "expired"]
    assert {type(data["context"]).__name__ for data in decided} == {"NoneType", "ndarray", "Offers"}  # None: redacted
    assert {data["choice"][3] for data in decided} == {True, False}  # greedy experts play, and learners
    assert any(data["learners_to_update"] for data in decided)
    assert {data["part"] for data in rewarded} == {"click", "order"}
    assert {data["clipped"] for data in closed} == {True, False}
    journal = SQLiteJournal(copied("contexts", tmp_path), create=False)
    assert [snapshot.is_base for snapshot in journal.snapshots()].count(True) == 1

    rules = events_of("rules", tmp_path)
    (drift,) = [event for event in rules if event.kind == "drift"]
    assert drift.data["restart"] and drift.data["epoch"] == 1
    assert {event.kind for event in rules if event.seq > drift.seq} >= {"decided", "rewarded", "eliminated", "blocked"}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_journal_folds_to_the_recorded_state(name: str, tmp_path: Path) -> None:
    journal, recorded = SQLiteJournal(copied(name, tmp_path), create=False), facts_of(name)
    for way in (rebuild, recover):
        portfolio = way(journal, GOLDEN[name].make()).portfolio
        assert digest(portfolio) == recorded["digest"]
        assert list(portfolio.pending) == recorded["pending"]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_journal_continues(name: str, tmp_path: Path) -> None:
    events, pending = events_of(name, tmp_path), facts_of(name)["pending"]
    made: list[Any] = [event.data for event in events if event.kind == "decided"]
    with equipoise.open(copied(name, tmp_path), GOLDEN[name].make, accept_changes=True) as live:
        before = live.certificate().rounds
        live.learn(pending[-1], 1.0, key="last" if name == "contexts" else None)
        live.learn(live.decide(made[-1]["context"]), 0.25, key="first" if name == "contexts" else None)
        assert live.certificate().rounds == before + 1
        if name == "arms":
            assert live.learner_names == ("UCB", "flaky", "EpsilonGreedy(0.1)", "newest")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_file_loads_to_the_recorded_state(name: str) -> None:
    portfolio = Portfolio.load(file_of(name), learners=GOLDEN[name].learners())
    assert digest(portfolio) == facts_of(name)["digest"]


def test_the_same_code_records_the_same_files(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        record(folder)
    assert [path.name for path in sorted(folders[0].iterdir())] == [
        "golden-1.json",
        *(journal_of(name).name for name in GOLDEN),
        *(file_of(name).name for name in GOLDEN),
    ]
    for path in sorted(folders[0].iterdir()):
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
