"""Who wrote each event and each snapshot: the release, and the version of the rule that decided."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import equipoise
from equipoise import Portfolio, __version__
from equipoise.errors import UnreadableFile
from equipoise.journal import SQLiteJournal, rebuild, recover, schema
from equipoise.journal.protocol import WrittenBy
from equipoise.learners import UCB
from equipoise.portfolio import events
from equipoise.selectors import RealizedBalancing
from tests.journal.golden import journal_of

EARLIER = WrittenBy()
RULE = RealizedBalancing.rule_version
NAME = "Realized balancing"


def make() -> Portfolio:
    return Portfolio([UCB(2), UCB(2, scale=0.1)], seed=3)


def play(path: Path, rounds: int = 1, **options: Any) -> None:
    with equipoise.open(path, make, **options) as live:
        for _ in range(rounds):
            live.learn(live.decide(None), 0.5)


def as_release(release: str, rule: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write as another release, whose rule has another version."""
    monkeypatch.setattr("equipoise.journal.sqlite.__version__", release)
    monkeypatch.setattr(RealizedBalancing, "rule_version", rule)


def play_as_before_leases(path: Path) -> None:
    """Take the lease, append an event and store a snapshot, by the statements of releases that know no leases."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")
        (last,) = connection.execute("SELECT max(seq) FROM events").fetchone()
        columns = "kind, key, subject, time, derived, version, redacted, data, crc"
        connection.execute(f"INSERT INTO events SELECT ?, {columns} FROM events WHERE seq = ?", (last + 1, last))
        connection.execute(
            "INSERT INTO snapshots SELECT ?, base, time, parts, digest FROM snapshots LIMIT 1", (last + 1,)
        )


def test_every_event_and_snapshot_has_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    play(path)  # created, decided, rewarded
    with monkeypatch.context() as patch:
        as_release("9.9.0", RULE, patch)
        for _ in range(3):
            play(path, 0)  # writes nothing
        play(path)
    play_as_before_leases(path)
    journal = SQLiteJournal(path, create=False)
    now, other = WrittenBy(__version__, NAME, RULE), WrittenBy("9.9.0", NAME, RULE)
    assert journal.writers() == [(1, now), (4, other), (6, EARLIER)]
    assert [journal.writer_of(seq) for seq in range(1, 7)] == [now, now, now, other, other, EARLIER]
    snapshots = [info.seq for info in journal.snapshots()]
    assert {seq: journal.writer_of_snapshot(seq) for seq in snapshots} == {3: now, 5: other, 6: EARLIER}
    assert [str(writer) for _, writer in journal.writers()] == [
        f"equipoise {__version__} with rule {RULE} of {NAME}",
        f"equipoise 9.9.0 with rule {RULE} of {NAME}",
        "an earlier release of equipoise",
    ]


def test_a_process_that_is_killed_has_named_itself_before_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that ends before it knows its rule has written no event."""
    path = tmp_path / "shop.db"
    play(path)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteJournal, "note_rule", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            play(path)
        with pytest.raises(ZeroDivisionError):
            play(tmp_path / "new.db")
    assert SQLiteJournal(tmp_path / "new.db", create=False).last_seq == 0
    assert SQLiteJournal(path, create=False).writers() == [(1, WrittenBy(__version__, NAME, RULE))]


def level_of(path: Path) -> tuple[int, int | None, set[str]]:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        level = connection.execute("SELECT value FROM meta WHERE key = 'level'").fetchone()
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master") if "sqlite_" not in name}
        return version, level and level[0], names


def test_a_journal_of_an_earlier_release_gets_the_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them or none; the version stays, so that the earlier release can continue the journal."""
    path = tmp_path / "rules.db"
    path.write_bytes(journal_of("rules").read_bytes())
    before = level_of(path)
    assert before[:2] == (1, None)
    journal = SQLiteJournal(path, create=False)
    last = journal.last_seq
    assert journal.writers() == [] and journal.writer_of(last) == journal.writer_of_snapshot(last) == EARLIER
    with monkeypatch.context() as patch:
        patch.setattr(schema, "ADDITIONS", {1: (*schema.WRITERS, "a crash")})
        with pytest.raises(UnreadableFile, match="syntax error"):
            equipoise.open(path)
    assert level_of(path) == before
    for _ in range(2):
        with equipoise.open(path) as live:
            live.learn(live.decide(None), 0.5)
    added = {"leases", "lease", "snapshot_leases", "snapshot_stored", "snapshot_removed"}
    assert level_of(path) == (1, schema.LEVEL, before[2] | added)
    new = tmp_path / "new.db"
    play(new)
    assert level_of(new) == level_of(path)
    assert journal.writer_of(last) == EARLIER and journal.writer_of(last + 1).release == __version__


def test_additions_of_a_later_release_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "LEVEL", 3)
        patch.setattr(schema, "ADDITIONS", {**schema.ADDITIONS, 2: ("CREATE TABLE more (entry)",)})
        play(path)
    play(path)
    version, level, names = level_of(path)
    assert (version, level) == (1, 3) and "more" in names


# A journal of a later release.


def test_an_event_of_a_later_release_is_refused_by_the_name_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.db"
    play(path)
    with monkeypatch.context() as patch:
        as_release("9.9.0", RULE, patch)
        with equipoise.open(path, make) as live:
            time = live.time
            live._events.append(events.Event("learner_cloned", {}, time, version=2))
            live.transact(lambda portfolio, at: None)
            live.close(snapshot=False)
    message = (
        r"event 4 \(learner_cloned\) could not be folded: event 'learner_cloned' has version 2, but this release folds "
        rf"1; equipoise 9.9.0 with rule {RULE} of {NAME} wrote it, and this is equipoise {__version__}: use that "
        "release, or restore a backup"
    )
    for read in (recover, rebuild):
        with pytest.raises(UnreadableFile, match=message):
            read(SQLiteJournal(path, create=False))


def test_a_state_of_a_later_release_is_refused_by_the_name_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.db"
    play(path)
    state = SQLiteJournal.put_snapshot

    def put(self: SQLiteJournal, seq: int, given: Any, **options: Any) -> None:
        state(self, seq, {key: value for key, value in given.items() if key != "drift"}, **options)

    with monkeypatch.context() as patch:
        as_release("9.9.0", RULE, patch)
        patch.setattr(SQLiteJournal, "put_snapshot", put)
        play(path)
    with pytest.raises(
        UnreadableFile, match=r"state at event 5 could not be restored: 'drift'; equipoise 9\.9\.0 with"
    ):
        recover(SQLiteJournal(path, create=False))


def test_a_later_rule_is_named_and_an_earlier_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.db"
    assert RULE is not None
    with monkeypatch.context() as patch:
        as_release("9.9.0", RULE + 1, patch)
        play(path)
    play(path)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning == (
        f"shop: equipoise 9.9.0 with rule {RULE + 1} of {NAME} wrote up to event 3, and this is equipoise "
        f"{__version__} with rule {RULE}, which continues with the logged odds"
    )
    writers = SQLiteJournal(path, create=False).writers()
    assert [writer.rule for _, writer in writers] == [RULE + 1, RULE]
    caplog.clear()
    play(path)
    assert not caplog.records


def test_a_file_of_a_later_version_is_refused_by_the_name_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.db"
    with monkeypatch.context() as patch:
        as_release("9.9.0", RULE, patch)
        play(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    message = (
        "is a journal of version 7, but this release reads versions up to 1: equipoise 9.9.0 wrote it, and this is"
    )
    with pytest.raises(UnreadableFile, match=message):
        equipoise.open(path, make)
