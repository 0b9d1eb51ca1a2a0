"""What stays and what goes over the years: migration, retention, backup, restore, and the commands for them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import equipoise
from equipoise.bounds import Power
from equipoise.cli import main
from equipoise.errors import EquipoiseError, InvalidArgument, JournalLocked, StoreConflict, UnreadableFile
from equipoise.journal import SQLiteJournal, digest, rebuild, recover, schema
from equipoise.journal.maintenance import backup, compare, differences, restore
from equipoise.learners import OFUL, Constant, LinearClass
from equipoise.portfolio import Portfolio
from equipoise.selector import Selector
from equipoise.selectors import (
    ED2RB,
    EXP3,
    UCB1,
    BalancedElimination,
    Corral,
    DynamicBalancing,
    EpochBalancing,
    RealizedBalancing,
)
from tests.journal.shop import Flaky, make, offers, play, reopened


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    code = exit_.value.code
    return (code if isinstance(code, int) else 0), out, err


def test_older_versions_are_migrated_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, 20)
        events = live.health()["journal"]["events"]

    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE meta ADD COLUMN note TEXT")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE events")
        raise sqlite3.OperationalError("no such thing")

    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setattr(schema, "STEPS", {1: add_column, 2: fail})
    with pytest.raises(UnreadableFile, match="no such thing"):
        SQLiteJournal(path).lease()
    with closing(sqlite3.connect(path)) as connection:  # the first step stays, the second left no trace
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (events,)
        assert connection.execute("SELECT note FROM meta WHERE key = 'id'").fetchone() == (None,)


def test_newer_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    reopened(path, make).close()
    monkeypatch.setattr(schema, "VERSION", 0)
    with pytest.raises(UnreadableFile, match="version 1, but this release reads versions up to 0"):
        equipoise.open(path)


def test_retention_keeps_what_is_certified(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    secret = 0.123456789
    with reopened(path, make) as live:
        play(live, 20)
        live.learn(live.decide(offers(secret), id="customer 7", at=50.0), 1.0, at=50.0)
        live.decide(offers(0.5), id="customer 8", at=51.0)
        live.snapshot()
        before, certificate = digest(live._portfolio), live.certificate()
        with pytest.raises(InvalidArgument, match="is open, or waits"):
            live.redact(["customer 8"])
        with pytest.raises(InvalidArgument, match="exactly one"):
            live.redact()
        assert live.redact(["customer 7"]) == 2
        assert (digest(live._portfolio), live.certificate()) == (before, certificate)
        contexts = {event.data["id"]: event.data["context"] for event in live.journal.read() if event.kind == "decided"}
        assert contexts["customer 7"] is None
        assert contexts["customer 8"] is not None
        assert live.redact(before=45.0) == 2 * 15  # 5 of the 20 rounds have no reward yet
        play(live, 3, 60)
        assert live.redact(before=0.0) == 0
        expected = digest(live._portfolio)
    for name in tmp_path.iterdir():
        assert offers(secret).tobytes() not in name.read_bytes()
    rebuilt = rebuild(SQLiteJournal(path))
    assert rebuilt.start > 1
    assert digest(rebuilt.portfolio) == expected
    assert compare(SQLiteJournal(path)).differences == ()
    kinds = [event.kind for event in SQLiteJournal(path).read()]
    assert kinds.count("redacted") == 3


def test_a_damaged_snapshot_after_retention_falls_back_to_the_base(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, 8)
        live.redact(before=1e9)
        expected = digest(live._portfolio)
        live.close(snapshot=False)
    snapshots = SQLiteJournal(path).snapshots()
    assert [snapshot.is_base for snapshot in snapshots] == [False, True]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE snapshot_parts SET data = x'01' WHERE seq = ?", (snapshots[0].seq,))
    assert digest(recover(SQLiteJournal(path)).portfolio) == expected
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE snapshot_parts SET data = x'01'")
    with pytest.raises(UnreadableFile, match="no good snapshot"):
        reopened(path)


def test_retention_runs_by_itself(tmp_path: Path) -> None:
    with equipoise.open(tmp_path / "shop.db", make, snapshot_every=10, retention="1s") as live:
        for _ in range(12):
            live.learn(live.decide(offers(0.5), at=1.0), 1.0, at=1.0)
        live._retainer.run_once()
        dropped = [
            event.seq for event in live.journal.read() if event.kind == "decided" and event.data["context"] is None
        ]
        assert len(dropped) == 12
    with pytest.raises(InvalidArgument, match="retention is 5"):
        equipoise.open(tmp_path / "shop.db", retention=5)  # type: ignore[arg-type]


def test_backup_of_a_journal_in_use_and_restore(tmp_path: Path) -> None:
    path, copy, other = tmp_path / "shop.db", tmp_path / "copy.db", tmp_path / "other.db"
    with reopened(path, make) as live:
        play(live, 10)
        expected = digest(live._portfolio)
        live.backup(copy)
        play(live, 10, 10)
        with pytest.raises(StoreConflict, match="a backup replaces nothing"):
            live.backup(copy)
        with pytest.raises(StoreConflict, match="exists"):
            restore(copy, path)
        with pytest.raises(JournalLocked):
            restore(copy, path, replace=True)
    assert restore(copy, other) == restore(copy, path, replace=True)
    for restored in (path, other):
        with reopened(restored, make) as live:
            assert digest(live._portfolio) == expected
            play(live, 5, 10)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE events SET time = time + 1 WHERE seq = 5")
    with pytest.raises(UnreadableFile, match="damaged event 5"):
        restore(copy, other, replace=True)
    with pytest.raises(EquipoiseError):
        backup(tmp_path / "none.db", tmp_path / "new.db")
    assert not [name for name in tmp_path.iterdir() if name.name.endswith(".tmp")]


def test_a_backup_under_load_has_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    with reopened(tmp_path / "shop.db", make) as live:
        ended = threading.Event()

        def work(k: int) -> None:
            t = 0
            while not ended.is_set():
                acknowledged.append(live.decide(offers(0.5), id=f"{k} {t}").id)
                t += 1

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        try:
            for n in range(4):
                while len(acknowledged) < 50 * (n + 1):
                    ended.wait(0.001)
                before = set(acknowledged)
                live.backup(tmp_path / f"copy {n}.db")
                copied = {event.key for event in SQLiteJournal(tmp_path / f"copy {n}.db").read(2)}
                assert copied >= before
        finally:
            ended.set()
            for thread in threads:
                thread.join()


@pytest.mark.slow
def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, copy = tmp_path / "shop.db", tmp_path / "copy.db"
    with reopened(path, make) as live:
        play(live, 10)
        code, out, _ = run(capsys, "show", path)  # in use
        assert (code, live.describe() in out) == (0, True)
        assert "3 open, 0 overdue" in out
    assert run(capsys, "rebuild", path)[:2] == (
        0,
        f"{path}: events 1 to 18 give the same state as the start from event 18\n",
    )
    assert run(capsys, "backup", path, copy)[:2] == (0, f"{copy}: 18 events\n")
    assert run(capsys, "restore", copy, path)[0] == 2
    assert run(capsys, "restore", "--replace", copy, path)[:2] == (0, f"{path}: 18 events\n")
    saved = tmp_path / "saved.equipoise"
    make().save(saved)
    assert run(capsys, "show", saved)[1].startswith(make().describe())
    code, _, err = run(capsys, "rebuild", tmp_path / "none.db")
    assert (code, "does not exist" in err, err.count("\n")) == (2, True, 1)


def test_rebuild_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A snapshot with a good digest that the events do not give."""
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, 10)
        state = live.state()
        state["counts"]["ignored"] = 5
        live.journal.put_snapshot(live.journal.last_seq, state)
        live.close(snapshot=False)
    code, _, err = run(capsys, "rebuild", path)
    assert (code, "counts.ignored: 5 and 0" in err, "1 differences" in err) == (1, True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_selector",
    [
        lambda: RealizedBalancing(3),
        lambda: BalancedElimination([Power(2.0)] * 3),
        lambda: UCB1(3),
        lambda: EXP3(3),
        lambda: Corral(3, rounds=100),
        lambda: DynamicBalancing([Power(2.0)] * 3),
        lambda: ED2RB(3),
        lambda: EpochBalancing([LinearClass("one", 1), LinearClass("two", 2)]),
    ],
)
def test_every_kind_of_round_folds_alike(make_selector: Callable[[], Selector]) -> None:
    """Substitutes for failing learners are no evidence, live and in a fold; an expiry of nothing is no change."""

    def of(selector: Selector) -> Portfolio:
        learners: list[Any] = [Constant(0), Constant(1) if "weight" in selector.needs else Flaky(), Constant(1)]
        if "lower" in selector.needs:
            learners = [OFUL(1), OFUL(2)]
        return Portfolio(learners, selector, seed=2, deadline="20s", default_reward=0.25)

    portfolio, twin = of(make_selector()), of(make_selector())
    portfolio.on_event(twin.apply)
    for t in range(80):
        available = portfolio.learner_names[: 1 + t % 2] if t % 5 == 0 else None
        context = offers(t % 10 / 10) / (2 if "lower" in portfolio.selector.needs else 1)
        decision = portfolio.decide(context, id=f"round {t}", at=float(t), available=available)
        if t % 3:
            portfolio.learn(decision, float(t % 4 == 0), at=float(t))
        portfolio.expire(at=float(t) + 0.5)
        assert list(differences(portfolio.state(), twin.state(), "")) == []
