"""Retention: contexts go after a time or by id, old events move to an archive, and nothing else changes."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from equipoise.config import parse
from equipoise.errors import (
    DuplicateReward,
    EquipoiseError,
    FileUnavailable,
    InvalidArgument,
    StoreConflict,
    UnreadableFile,
)
from equipoise.journal import LivePortfolio, SQLiteJournal, archive, digest, rebuild, recover, retention, schema
from equipoise.journal.archive import Archive
from equipoise.journal.maintenance import backup, compare, restore
from equipoise.journal.scrub import verify
from equipoise.journal.sqlite import connect_reader
from equipoise.learners import Constant
from equipoise.logs import open_log
from equipoise.portfolio import Portfolio
from equipoise.portfolio.settings import Retention
from equipoise.types import Context
from tests.journal.shop import make, offers, play, reopened
from tools.studies.kill_journal import PROCESSES

SEGMENT, ROUNDS = 20, 60
ALL = Retention(events="1s", ids="1s")  # rounds are played at seconds of 1970, so everything is old


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    be_small(monkeypatch)


def be_small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(archive, "SEGMENT_EVENTS", SEGMENT)
    patch.setattr(retention, "LATEST_AMONG", 5)
    patch.setattr(retention, "MIN_PERIOD", 1e6)  # passes only by request


def retain(live: LivePortfolio, settings: Retention = ALL) -> None:
    """Take two snapshots at different events, and one pass."""
    live.retain(Retention(archive=settings.archive))
    live.snapshot()
    live.suspend(live.learner_names[0])
    live.resume(live.learner_names[0])
    live.snapshot()
    live._retainer._settings = settings
    if settings.contexts is not None:
        live.journal.index_unredacted()
    live._retainer.run_once()


def rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [seq for (seq,) in connection.execute("SELECT seq FROM events ORDER BY seq")]


def test_archived_events_leave_the_file_and_nothing_else_changes(tmp_path: Path) -> None:
    path, other = tmp_path / "shop.db", tmp_path / "other.db"
    with reopened(path, make) as live, reopened(other, make) as twin:
        for each in (live, twin):
            play(each, ROUNDS)
        retain(live)
        retain(twin, Retention())
        archived = live.journal.archived
        assert archived == live.health()["journal"]["archived"] == 100
        assert (twin.journal.archived, (tmp_path / "other.db.archive").exists()) == (0, False)
        for each in (live, twin):
            play(each, 20, ROUNDS)
        assert live.certificate() == twin.certificate()
        assert live.standing() == twin.standing()
        last, expected = live.journal.last_seq, digest(live._portfolio)
        unfinished = live.unfinished
    journal = SQLiteJournal(path, create=False)
    names = sorted(each.name for each in (tmp_path / "shop.db.archive").iterdir())
    assert names == [f"{first:012d}.db" for first in (1, 21, 41, 61, 81)]
    kept = [seq for seq in rows(path) if seq <= archived]
    assert kept[0] == 1
    assert {
        event.data["id"] for seq in kept[1:] for event in Archive(journal).read(seq) if event.seq == seq
    } <= unfinished
    assert [event.seq for event in Archive(journal).read()] == list(range(1, last + 1))
    assert [event.data["action"] for event in Archive(journal).read() if event.kind == "decided"] == [
        event.data["action"] for event in SQLiteJournal(other).read() if event.kind == "decided"
    ]
    with closing(connect_reader(journal.path)) as reader:
        assert verify(reader, journal.path) == last
    rebuilt = rebuild(journal)
    assert rebuilt.start > archived
    whole = rebuild(journal, read=Archive(journal).read)
    assert whole.start == 1
    assert digest(rebuilt.portfolio) == digest(whole.portfolio) == digest(recover(journal).portfolio) == expected
    assert compare(journal, archive=Archive(journal)).differences == ()
    assert open_log(path).n_rounds == open_log(other).n_rounds
    with reopened(path, make) as live:  # the first event is there, with which the learners of `make` are compared
        assert live.certificate().rounds == ROUNDS + 20


def test_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, 400)
        live.snapshot()
    before = path.stat().st_size
    with reopened(path, make) as live:
        for id_ in live.pending:
            live.withdraw(id_)
        retain(live)
    assert path.stat().st_size < before / 2
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_damage_is_told_from_archiving(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, ROUNDS)
        retain(live)
        archived = live.journal.archived
    journal, folder = SQLiteJournal(path, create=False), tmp_path / "shop.db.archive"
    with pytest.raises(UnreadableFile, match=rf"no event \d+: the events up to {archived} were archived"):
        list(journal.read(2))
    (folder / f"{21:012d}.db").rename(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile, match="does not have event 21"):
        list(Archive(journal).read())
    (tmp_path / "elsewhere").rename(folder / f"{21:012d}.db")
    with closing(sqlite3.connect(folder / f"{41:012d}.db")) as connection, connection:
        connection.execute("UPDATE events SET time = 5 WHERE seq = 50")
    with pytest.raises(UnreadableFile, match="damaged event 50"):
        list(Archive(journal).read())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM events WHERE seq = ?", (archived + 2,))
    with pytest.raises(UnreadableFile, match=f"no event {archived + 2}, though"):
        list(journal.read(archived + 1))


def test_another_journals_archive_is_not_overwritten(tmp_path: Path) -> None:
    settings = Retention(events="1s", ids="1s", archive="old")
    for name in ("one.db", "two.db"):
        with reopened(tmp_path / name, make) as live:
            play(live, 30)
            if name == "one.db":
                retain(live, settings)
                assert live.journal.archived == 40
                assert [event.seq for event in Archive(live.journal).read()][:50] == list(range(1, 51))
            else:
                with pytest.raises(StoreConflict, match="is of another journal"):
                    retain(live, settings)
                assert live.journal.archived == 0
    assert len(list((tmp_path / "old").glob("*.db"))) == 2


def test_events_of_open_decisions_and_remembered_ids_stay(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        first = live.decide(offers(0.5), id="order 1", at=0.0)
        live.decide(offers(0.5), id="order 2", at=0.0)
        play(live, ROUNDS, 1)
        now = live._now()
        live.learn("order 1", 1.0, at=now)
        retain(live, Retention(events="1h", ids="30m"))
        assert live.journal.archived == 100
        assert [event.kind for event in live.journal.of_decision("order 1")] == ["decided", "rewarded"]
        assert [event.kind for event in live.journal.of_decision("order 2")] == ["decided"]
        assert live.journal.of_decision("round 1") == []
        assert live.decide(offers(0.5), id="order 1") == first
        live.withdraw("order 2")
        live._retainer._now = lambda: now + 3600.0
        live._retainer.run_once()
        assert live.journal.of_decision("order 2") != []  # it was withdrawn within the 30 minutes
        live._retainer._now = lambda: now + 1e6
        live._retainer.run_once()
        assert [event.kind for event in live.journal.of_decision("order 2")] == ["withdrawn"]
        assert [event.data["id"] for event in Archive(live.journal).read() if event.kind == "decided"][:2] == [
            "order 1",
            "order 2",
        ]


@pytest.mark.parametrize("make_due", ["young", "one snapshot", "few events"])
def test_nothing_is_archived_before_its_time(tmp_path: Path, make_due: str) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        if make_due == "few events":
            play(live, 8)
        else:
            play(live, ROUNDS)
        if make_due == "one snapshot":
            live.snapshot()
            live._retainer._settings = ALL
            live._retainer.run_once()
        else:
            retain(live, Retention(events="100000d" if make_due == "young" else "1s", ids="1s"))
        assert live.journal.archived == 0
        assert not (tmp_path / "shop.db.archive").exists()


SECRET = "Rosalind Franklin"


class Quotes:
    """A learner whose errors quote the context."""

    name = "quotes"
    error: type[Exception] = ValueError

    def decide(self, context: Context) -> int:
        raise self.error(f"cannot decide for {context}")

    def learn(self, context: Context, action: Any, reward: float) -> None:
        raise ValueError(f"cannot learn from {context}")

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        pass


def of_people() -> Portfolio:
    return Portfolio([Constant(0), Constant(1)], seed=1)


def files_with(folder: Path, text: str) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path in files if text.encode() in path.read_bytes()}


def serve_people(path: Path, n: int = ROUNDS) -> LivePortfolio:
    live = reopened(path, of_people)
    for t in range(n):
        live.decide({"name": f"{SECRET} {t % 7}"}, id=f"round {t}", at=float(t))
        live.learn(f"round {t}", 1.0, at=float(t))
    return live


def test_forgotten_contexts_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journal, WAL, snapshots, archive, and what a crash left of them; with its controls."""
    path, mine = tmp_path / "shop.db", f"{SECRET} 3"
    ids = [f"round {t}" for t in range(3, ROUNDS, 7)]
    live = serve_people(path)
    live.decide({"name": mine}, id="open", at=100.0)
    live.snapshot()
    retain(live)
    leftover = tmp_path / "shop.db.archive" / ".000000000001.db.0123456789ab.tmp"
    leftover.write_bytes(mine.encode())
    found = files_with(tmp_path, mine)
    assert len([name for name in found if name.startswith("shop.db.archive")]) > 3
    assert {"shop.db", "shop.db-wal"} & found
    with pytest.raises(InvalidArgument, match="id 'open' is open"):
        live.redact([*ids, "open"])
    live.learn("open", 1.0, at=101.0)
    with monkeypatch.context() as control:
        control.setattr(Archive, "redact", lambda self, **arguments: 0)
        live.redact([*ids, "open"])
        assert {Path(name).parts[0] for name in files_with(tmp_path, mine)} == {"shop.db.archive"}
    certificate = live.certificate()
    n_archived = sum(id_ in ids for id_ in (f"round {t}" for t in range(live.journal.archived // 2)))
    assert live.redact([*ids, "open"]) >= 2 * n_archived - 2 > 4
    assert files_with(tmp_path, mine) == set()
    assert files_with(tmp_path, f"{SECRET} 4")
    assert live.redact([*ids, "open", "never made"]) == 0
    assert live.certificate() == certificate
    live.close()
    assert files_with(tmp_path, mine) == set()
    journal = SQLiteJournal(path, create=False)
    assert digest(recover(journal).portfolio) == digest(rebuild(journal).portfolio)
    with pytest.raises(UnreadableFile, match="has lost its context"):
        rebuild(journal, read=Archive(journal).read)


def test_new_settings_leave_a_segment_alone_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is read again took its unfinished segment from a pass, or from a request to forget, which got 500."""
    create, applied = schema.create, Thread(target=lambda: live.retain(ALL))

    def create_slowly(*arguments: Any) -> None:
        if not applied.ident:
            applied.start()
            applied.join(0.5)  # it ends only after the segment
        create(*arguments)

    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 40)
        monkeypatch.setattr(schema, "create", create_slowly)
        retain(live)
        applied.join()
        assert live.journal.archived == 60


def test_a_reader_that_keeps_the_wal_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.journal.sqlite.MAX_CHECKPOINTS", 2)
    live = serve_people(tmp_path / "shop.db", 10)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchall()
        with pytest.raises(EquipoiseError, match="its WAL still has them"):
            live.redact(["round 3"])
        live.decide({}, id="meanwhile", at=20.0)
    live.redact(["round 3"])
    assert files_with(tmp_path, f"{SECRET} 3") == set()
    live.close()


class Refuses(Quotes):
    """A learner that quotes the context it refuses."""

    error = InvalidArgument


@pytest.mark.parametrize(("learner", "key"), [(Quotes, "failures"), (Refuses, "refused")])
def test_messages_of_errors_go_with_the_context(tmp_path: Path, learner: type[Quotes], key: str) -> None:
    """Those about refused contexts stayed."""
    path = tmp_path / "shop.db"
    with reopened(path, lambda: Portfolio([learner(), Constant(0)], seed=1)) as live:
        for t in range(30):
            live.decide({"name": SECRET}, id=f"round {t}", at=float(t))
            live.withdraw(f"round {t}")
        assert any(SECRET in str(event.data.get(key)) for event in live.journal.read())
        live.redact(before=100.0)
        assert not any(SECRET in str(event.data.get(key)) for event in live.journal.read())
        assert any(learner.error.__name__ in str(event.data.get(key)) for event in live.journal.read())


@pytest.mark.parametrize("arguments", [{"before": 4e9}, {"ids": ["new"]}], ids=["time", "ids"])
def test_a_decision_made_during_a_removal_keeps_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    """It lost its context while it was open, and the journal could not be opened after a kill."""
    path, redact = tmp_path / "shop.db", Archive.redact

    def decide_first(archive: Archive, **options: Any) -> int:
        live.decide({"name": SECRET}, id="new")
        return redact(archive, **options)

    live = serve_people(path, 10)
    monkeypatch.setattr(Archive, "redact", decide_first)
    assert live.redact(**arguments) == (0 if "ids" in arguments else 20)
    expected = digest(live._portfolio)
    live.close(snapshot=False)
    journal = SQLiteJournal(path, create=False)
    assert digest(recover(journal).portfolio) == digest(rebuild(journal).portfolio) == expected
    with reopened(path, of_people) as live:
        assert live.pending == ("new",)


def test_contexts_go_after_their_time_in_journal_and_archive(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    live = serve_people(path)
    live.decide({"name": SECRET}, id="open", at=100.0)
    retain(live)
    retain(live, Retention(contexts="1h", events="1h", ids="1h"))
    left = [event.data["id"] for event in Archive(live.journal).read() if event.data.get("context") is not None]
    assert left == ["open"]
    noted = [event.kind for event in live.journal.read(live.journal.archived + 1)].count("redacted")
    live._retainer.run_once()
    assert [event.kind for event in live.journal.read(live.journal.archived + 1)].count("redacted") == noted == 1
    live.learn("open", 1.0)
    live._retainer.run_once()
    assert files_with(tmp_path, SECRET) == set()
    live.close()


def test_backup_and_restore_of_an_archived_journal(tmp_path: Path) -> None:
    path, copy, other = tmp_path / "shop.db", tmp_path / "copy.db", tmp_path / "other.db"
    with reopened(path, make) as live:
        play(live, ROUNDS)
        retain(live)
        expected = digest(live._portfolio)
        backup(path, copy)
    restore(copy, other)
    with reopened(other, make) as live:
        assert digest(live._portfolio) == expected
        play(live, 5, ROUNDS)
    whole = Archive(SQLiteJournal(other, create=False), tmp_path / "shop.db.archive")
    assert sum(1 for _ in whole.read()) == SQLiteJournal(other).last_seq


def test_the_journal_remembers_the_folder_of_its_archive(tmp_path: Path) -> None:
    """Settings without a folder, after others with one, had it look for older events in the default folder."""
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, ROUNDS)
        retain(live, Retention(events="1s", ids="1s", archive="old"))
        before = live.journal.archived
    with reopened(path, make) as live:
        play(live, 30, ROUNDS)
        retain(live)
        assert live.journal.archived > before
        assert [event.seq for event in Archive(live.journal).read()] == list(range(1, live.journal.last_seq + 1))
    assert not (tmp_path / "shop.db.archive").exists()


def test_the_snapshots_of_a_removal_are_the_newest_ones(tmp_path: Path) -> None:
    """Health and metrics said that there was none, and another one was stored at the same event."""
    live = serve_people(tmp_path / "shop.db", 10)
    live.redact(["round 3"])
    info = live.journal.snapshots()[0]
    health = live.journal_health()
    assert (health["snapshot"], health["state_bytes"]) == (info.seq, info.size) == (live.journal.last_seq, info.size)
    live.close()
    assert live.journal.snapshots()[0] == info


@pytest.mark.parametrize("change", ["moved", "another folder", "one file gone"])
def test_contexts_that_may_be_in_a_missing_archive_are_not_said_to_be_gone(tmp_path: Path, change: str) -> None:
    path, folder = tmp_path / "shop.db", tmp_path / "shop.db.archive"
    live = serve_people(path)
    retain(live)
    archived = live.journal.archived // 2
    if change == "moved":
        folder.rename(tmp_path / "elsewhere")
    elif change == "another folder":
        live.retain(Retention(archive="new"))
    else:
        (folder / "000000000021.db").rename(tmp_path / "away.db")
    events = live.journal.last_seq
    with pytest.raises(FileUnavailable, match="were archived, but"):
        live.redact(["round 11"])
    assert live.journal.last_seq == events
    assert live.redact([f"round {archived + 1}"]) == 2  # all its events are in the journal
    if change == "one file gone":
        (tmp_path / "away.db").rename(folder / "000000000021.db")
        assert live.redact(["round 11"]) == 2
    live.close()


def test_settings() -> None:
    content = {"version": 1, "name": "offers", "learner": [{"use": "UCB", "arms": 3}]}
    table = {"contexts": "30d", "events": "90d", "ids": "7d", "archive": "old"}
    assert parse({**content, "retention": table}).retention == Retention(
        contexts=30 * 86400.0, events=90 * 86400.0, ids=7 * 86400.0, archive="old"
    )
    assert parse(content).retention == Retention() == Retention.of(None)
    assert Retention.of("30d") == Retention(contexts="30d")
    for wrong, rule in (
        ({"events": "1d"}, "ids is 604800 s, but must be at most events, which is 86400 s"),
        ({"contexts": 5}, "contexts is 5, but must be a timedelta or a text such as '30d'"),
        ({"context": "5d"}, r"key of \[retention\] 'context' is unknown"),
        ({"archive": 5}, "archive is 5, but must be a nonempty string"),
    ):
        with pytest.raises(EquipoiseError, match=rule):
            parse({**content, "retention": wrong})


def test_the_thread_runs_when_retention_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MIN_PERIOD", 0.01)
    live = serve_people(tmp_path / "shop.db", 20)
    assert live._retainer._thread is None
    live.retain(Retention(contexts="1s"))
    thread = live._retainer._thread
    assert thread is not None
    for _ in range(1000):
        if not files_with(tmp_path, SECRET):
            break
        thread.join(0.01)
    assert files_with(tmp_path, SECRET) == set()
    live.close()
    assert not thread.is_alive()


# Crashes.

N_LIVES, ROUNDS_PER_LIFE = 8, 25


def played(portfolio: Any, first: int, rounds: int) -> Iterator[Any]:
    for t in range(first, first + rounds):
        decision = portfolio.decide(offers(t % 10 / 10), id=f"round {t}", at=float(t))
        if t % 4:
            with suppress(DuplicateReward):
                portfolio.learn(decision, float(t % 3 == 0), at=float(t))
        yield decision.action


def die_in_a_pass(path: str, life: int, at: int, step: str) -> None:
    """Play some rounds, and die at the n-th piece of work of a pass: before it, or while it is done."""
    patch = pytest.MonkeyPatch()
    be_small(patch)
    with_redaction = Retention(contexts="1s", events="1s", ids="1s")
    live = reopened(Path(path), make)
    first = live.health()["rounds"]
    list(played(live, max(first - 1, 0), ROUNDS_PER_LIFE))
    done = 0

    def die(*arguments: object) -> None:
        nonlocal done
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying_after(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            die()
            return result

        return call

    work = SQLiteJournal._work

    def dying_before(self: SQLiteJournal, given: Any) -> None:
        die()
        work(self, given)

    if step == "work":
        patch.setattr(SQLiteJournal, "_work", dying_before)
    elif step == "files":
        patch.setattr(archive, "flush", die)
    elif step == "redaction":
        patch.setattr(Archive, "redact", dying_after(Archive.redact))
    else:
        patch.setattr(SQLiteJournal, "note_archived", dying_after(SQLiteJournal.note_archived))
    retain(live, with_redaction if life % 2 else ALL)
    live.close(snapshot=False)


def crash_everywhere(path: Path, seed: int) -> int:
    """Lives that end in a pass, at random steps; returns how many were killed."""
    random, killed = Random(seed), 0
    for life in range(N_LIVES):
        step = ("work", "files", "redaction", "noting")[life % 4]
        arguments = str(path), life, random.randint(1, 30) if step == "work" else 1, step
        process = PROCESSES.Process(target=die_in_a_pass, args=arguments)
        process.start()
        process.join(120)
        assert process.exitcode in (0, -signal.SIGKILL)
        killed += process.exitcode != 0
    return killed


@pytest.mark.slow
def test_kills_during_archiving_and_redaction(tmp_path: Path) -> None:
    """After each kill it continues, and at the end all is as in a twin without journal."""
    path = tmp_path / "shop.db"
    assert crash_everywhere(path, 1) >= N_LIVES // 2
    with reopened(path, make) as live:
        twin, rounds = make(), live.health()["rounds"]
        actions = list(played(twin, 0, rounds))
        assert live.certificate() == twin.certificate()
        assert live.standing() == twin.standing()
        retain(live)
        journal = live.journal
        events = list(Archive(journal).read())
        assert [event.seq for event in events] == list(range(1, journal.last_seq + 1))
        assert [event.data["action"] for event in events if event.kind == "decided"] == actions
        assert digest(rebuild(journal).portfolio) == digest(live._portfolio)
        live.redact(before=1e9)
        assert not list((tmp_path / "shop.db.archive").glob(".*"))


def test_rows_removed_before_their_segment_is_durable_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the order matters, and reading says so."""
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, ROUNDS)
        monkeypatch.setattr(Archive, "write", lambda self, first, last: None)
        retain(live)
        with pytest.raises(UnreadableFile, match="does not have event 1"):
            list(Archive(live.journal).read())


def test_a_unit_is_forgotten_in_the_archive_too(tmp_path: Path) -> None:
    """Its name is nowhere afterwards; without a file of the archive, nothing is said to be removed."""
    path = tmp_path / "shop.db"
    with reopened(path, lambda: Portfolio([Constant(0), Constant(1)], sticky="1s")) as live:
        for t in range(ROUNDS):
            decision = live.decide(None, unit=("anna-maria", "bobby-lee")[t % 2], at=1.0 + 2.0 * t)
            live.learn(decision, 1.0, at=1.0 + 2.0 * t)
        retain(live)
        assert live.journal.archived == 100 and len(files_with(tmp_path, "anna-maria")) > 3
        gone = tmp_path / "shop.db.archive" / "000000000021.db"
        gone.rename(tmp_path / "elsewhere")
        with pytest.raises(FileUnavailable, match="does not have event 21"):
            live.redact(unit="anna-maria")
        (tmp_path / "elsewhere").rename(gone)
        assert live.redact(unit="anna-maria") == ROUNDS
        assert live.redact(unit="anna-maria") == 0
    assert files_with(tmp_path, "anna-maria") == set() and files_with(tmp_path, "bobby-lee") != set()
