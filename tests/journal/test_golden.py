"""The recorded journals and files open, now and in every later release."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import equipoise
from equipoise import Portfolio
from equipoise.journal import SQLiteJournal, rebuild, recover
from equipoise.journal.protocol import WrittenBy
from equipoise.journal.recovery import OF_JOURNAL, digest
from equipoise.portfolio.events import KINDS, Event
from equipoise.storage import codec
from tests.journal.golden import (
    GOLDEN,
    NEWEST,
    RECORDED,
    facts_of,
    file_of,
    journal_of,
    record,
    recorded_journals,
)


def copied(name: str, tmp_path: Path, number: int = NEWEST, *, killed: bool = False) -> Path:
    return Path(shutil.copy(journal_of(name, RECORDED, number, killed=killed), tmp_path / "journal.db"))


def events_of(name: str, tmp_path: Path, number: int = NEWEST) -> list[Event]:
    return list(SQLiteJournal(copied(name, tmp_path, number), create=False).read(1))


def decided(path: Path) -> list[Any]:
    """Return the decisions in a journal, as they were logged."""
    events = [event for event in SQLiteJournal(path, create=False).read(1) if event.kind == "decided"]
    return [(event.data["id"], event.data["action"], event.data["choice"]) for event in events]


def digest_of(portfolio: Portfolio, number: int) -> str:
    """The digest of a state in the form that a set was recorded in: before set 3, features were lists of names."""
    if number == NEWEST:
        return digest(portfolio)
    state = portfolio.state()
    inputs: Any = state.pop("inputs", None)
    for name in ("settings", "declared"):
        given = dict(state[name])
        schema: Any = given.pop("schema") or {}
        sides = {"action_features": schema.get("actions"), "context_features": schema.get("context")}
        state[name] = {**given, **{key: None if not names else tuple(names) for key, names in sides.items()}}
        assert schema == {} or inputs["context"]["columns"] == list(schema["context"])
    return codec.digest(state)


EVERY = pytest.mark.parametrize(("number", "name", "killed"), recorded_journals())


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


def test_there_is_a_journal_of_every_set_and_end() -> None:
    found = {(number, killed) for number, _, killed in recorded_journals()}
    assert found == {(number, killed) for number in range(NEWEST + 1) for killed in (False, True)}


@EVERY
def test_a_recorded_journal_folds_to_the_recorded_state(number: int, name: str, killed: bool, tmp_path: Path) -> None:
    """Set 0 folds to the same decisions only: it is from before rewards were held until they are old enough."""
    journal = SQLiteJournal(copied(name, tmp_path, number, killed=killed), create=False)
    recorded = facts_of(name, number=number)
    for way in (rebuild, recover):
        portfolio = way(journal, GOLDEN[name].make()).portfolio
        assert list(portfolio.pending) == recorded["pending"]
        if number:
            assert digest_of(portfolio, number) == recorded["digest"]


@EVERY
def test_a_recorded_journal_continues(number: int, name: str, killed: bool, tmp_path: Path) -> None:
    """With its first declaration, or with that left out; what was decided stays as it was."""
    path, pending = copied(name, tmp_path, number, killed=killed), facts_of(name, number=number)["pending"]
    before, made = (
        decided(path),
        [event for event in events_of(name, tmp_path / "..", number) if event.kind == "decided"],
    )
    with equipoise.open(path, GOLDEN[name].make, accept_changes=True) as live:
        counted = live.certificate().rounds
        live.learn(pending[-1], 0.25, key="last" if name == "contexts" else None)
        live.learn(live.decide(made[-1].data["context"]), 0.25, key="first" if name == "contexts" else None)
        assert live.certificate().rounds in (counted, counted + 1)  # of set 0, whose last reward waits until it is old
        if name == "arms":
            assert live.learner_names == ("UCB", "flaky", "EpsilonGreedy(0.1)", "newest")
    journal = SQLiteJournal(path, create=False)
    assert decided(path)[:-1] == before
    assert str(journal.writer_of(1)).startswith("equipoise" if number >= 2 else "an earlier release")
    assert journal.writer_of(journal.last_seq) == journal.writer_of_snapshot(journal.last_seq) != WrittenBy()
    if not killed and number:
        with equipoise.open(path, GOLDEN[name].make) as live:  # what was added, removed or renamed at run time stays
            assert live.learner_names == ("UCB", "flaky", "EpsilonGreedy(0.1)", "newest") or name != "arms"


@pytest.mark.parametrize("number", [1, NEWEST])
@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_file_loads_to_the_recorded_state(name: str, number: int) -> None:
    if not file_of(name, number=number).exists():
        pytest.skip("this set has no such file")
    portfolio = Portfolio.load(file_of(name, number=number), learners=GOLDEN[name].learners())
    assert digest_of(portfolio, number) == facts_of(name, number=number)["digest"]


def test_the_same_code_records_the_same_files(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        record(folder)
    assert [path.name for path in sorted(folders[0].iterdir())] == [
        f"golden-{NEWEST}.json",
        *sorted(journal_of(name, number=NEWEST, killed=killed).name for name in GOLDEN for killed in (False, True)),
        *(file_of(name, number=NEWEST).name for name in GOLDEN),
    ]
    for path in sorted(folders[0].iterdir()):
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
