"""State = fold of events: whatever happened before a crash, what was acknowledged is there, exactly once."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import equipoise
from equipoise import Portfolio
from equipoise.errors import EquipoiseError, JournalFailed, StoreConflict, UnreadableFile
from equipoise.features import Offers
from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.journal.maintenance import compare, differences, restore
from equipoise.journal.sqlite import MARK_LENGTH
from equipoise.journal.writer import MAX_AT_ONCE, Commit
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio import Event
from equipoise.types import Action, Context, State
from tests.journal.shop import Flaky, image, make, make_flaky, memory_folder, offers, play, reopened, wait_until

numbers = st.floats(0.0, 1.0, allow_nan=False, width=32)
operations = st.one_of(
    st.tuples(st.just("decide"), st.integers(0, 20), numbers),
    st.tuples(st.just("learn"), st.integers(0, 20), st.floats(-0.5, 1.5, width=32)),
    st.tuples(st.just("withdraw"), st.integers(0, 20)),
    st.tuples(st.just("expire"), numbers),
    st.tuples(st.sampled_from(["suspend", "resume", "remove"]), st.sampled_from(["UCB", "flaky", "late", "nobody"])),
    st.tuples(st.just("rename"), st.sampled_from(["UCB", "late"]), st.sampled_from(["late", "other"])),
    st.tuples(st.sampled_from(["add", "add unregistered", "retry", "reconfigure", "snapshot", "crash"])),
)


def perform(portfolio: Any, operation: tuple[Any, ...], clock: float) -> object:
    """Do something; the result, or the kind of error."""
    try:
        match operation:
            case "decide", number, where:
                return portfolio.decide(offers(where), id=f"d{number}", at=clock)
            case "learn", number, reward:
                return portfolio.learn(f"d{number}", reward, at=clock)
            case "withdraw", number:
                return portfolio.withdraw(f"d{number}")
            case "expire", share:
                return portfolio.expire(at=clock + 150.0 * share)
            case "suspend", name:
                return portfolio.suspend(name)
            case "resume", name:
                return portfolio.resume(name)
            case "remove", name:
                return portfolio.remove_learner(name)
            case "rename", name, new:
                return portfolio.rename_learner(name, new)
            case ("add",):
                return portfolio.add_learner(UCB(2, scale=0.5))
            case ("add unregistered",):
                return portfolio.add_learner(Flaky())
            case ("retry",):
                return portfolio.retry_updates()
            case ("reconfigure",):
                return portfolio.reconfigure(deadline="50s", explore=0.25)
    except EquipoiseError as error:
        return type(error)
    return None


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, min_size=5, max_size=40))
def test_a_crash_at_any_moment_changes_nothing(steps: list[tuple[Any, ...]]) -> None:
    """The twin is a plain portfolio that does the same and never crashes."""
    twin = make_flaky()
    with TemporaryDirectory(dir=memory_folder()) as folder:
        path = Path(folder, "shop.db")
        live = reopened(path, make_flaky)
        used = [live]
        for k, step in enumerate([*steps, ("crash",)]):
            if step == ("crash",):
                path = image(path, Path(folder, str(k)))
                live = reopened(path, make_flaky)
                used.append(live)
            elif step == ("snapshot",):
                live.snapshot()
            else:
                # By their text, since a propensity may be nan.
                assert repr(perform(live, step, float(k))) == repr(perform(twin, step, float(k)))
            assert list(differences(live.state(), twin.state(), "")) == []
        assert compare(live.journal, make_flaky()).differences == ()
        for portfolio in used:
            portfolio.close(snapshot=False)


def test_a_snapshot_of_an_earlier_release_is_no_difference(tmp_path: Path) -> None:
    """Rolled back and forward again, a journal has a snapshot that counts no refused contexts."""
    path = tmp_path / "linear.db"
    live = reopened(path, lambda: Portfolio([OFUL(2), OFUL(3)], seed=3))
    for _ in range(20):
        live.learn(live.decide(np.full((2, 3), 0.5)), 0.5)
        live.learn(live.decide(Offers([[0.5, 0.5, 9.0]])), 0.5)
    state = live.state()
    assert state["refusals"][1][0] > 0
    live.journal.put_snapshot(live.journal.last_seq, {key: state[key] for key in state if key != "refusals"})
    live.close(snapshot=False)
    journal = SQLiteJournal(path, create=False)
    assert "refusals" not in recover(journal).portfolio.state()
    assert rebuild(journal).portfolio.state()["refusals"] == state["refusals"]
    assert compare(journal).differences == ()


@pytest.mark.parametrize("n", [1, MAX_AT_ONCE, MAX_AT_ONCE + 1, 3 * MAX_AT_ONCE + 5])
def test_a_batch_is_there_as_a_whole_or_not_at_all(tmp_path: Path, n: int) -> None:
    events = [Event("ignored", {"id": str(k)}, 1.0, seq=k) for k in range(1, n + 1)]
    journal = SQLiteJournal(tmp_path / "shop.db")
    journal.lease()
    journal.append(events, written := Commit())
    written.wait()
    journal.append([*(event._replace(seq=event.seq + n) for event in events), events[0]], failed := Commit())
    with pytest.raises(JournalFailed, match="UNIQUE"):
        failed.wait()
    journal.close()
    assert list(SQLiteJournal(tmp_path / "shop.db").read()) == [event._replace(portfolio="shop") for event in events]


def test_own_ids_do_not_repeat_after_a_crash(tmp_path: Path) -> None:
    """Two processes may start from one backup."""
    with reopened(tmp_path / "shop.db", make) as live:
        first = live.decide(offers(0.5))
        with (
            reopened(image(live.journal.path, tmp_path / "crash")) as one,
            reopened(image(live.journal.path, tmp_path / "copy")) as other,
        ):
            assert one.pending == other.pending == (first.id,)
            assert len({first.id, one.decide(offers(0.5)).id, other.decide(offers(0.5)).id}) == 3
            one.learn(first, 1.0)
            with pytest.raises(EquipoiseError, match="already has its reward"):
                one.learn(first, 1.0)


def test_a_snapshot_saves_time_and_nothing_else(tmp_path: Path) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        seen = []
        for k in range(4):
            play(live, 20, 20 * k)
            seen.append(live.snapshot())
            live.health()
        play(live, 5, 80)
        expected = digest(live._portfolio)
    journal = SQLiteJournal(tmp_path / "shop.db", create=False)
    assert [snapshot.seq for snapshot in journal.snapshots()] == [journal.last_seq, seen[-1]]
    recovered = recover(journal)
    assert (recovered.start, digest(recovered.portfolio)) == (journal.last_seq, expected)
    rebuilt = rebuild(journal)
    assert (rebuilt.start, rebuilt.seq, digest(rebuilt.portfolio)) == (1, journal.last_seq, expected)


def damage(path: Path, statement: str, *arguments: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, arguments).rowcount > 0


def test_a_snapshot_is_of_a_frozen_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making the whole state while the portfolio waits takes seconds with many open decisions."""
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 20)
        monkeypatch.setattr(Portfolio, "state", lambda portfolio: pytest.fail("it made the whole state"))
        assert live.snapshot() == live.journal.last_seq
        assert live.redact(["round 1"]) == 2


class Lent:
    """A learner that is not registered, lends its own array as its state, and sometimes has none."""

    name, busy = "lent", False

    def __init__(self) -> None:
        self.updates = np.zeros(1)

    def decide(self, context: Context) -> Action:
        return int(self.updates[0]) % 2

    def learn(self, context: Context, action: Action, reward: float) -> None:
        self.updates += 1.0

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> State:
        if self.busy:
            raise RuntimeError("the model is being trained")
        return {"updates": self.updates}

    def restore(self, state: State) -> None:
        self.updates[:] = state["updates"]


def test_a_snapshot_is_the_state_at_its_event_whatever_a_learner_lends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, put = tmp_path / "shop.db", SQLiteJournal.put_snapshot
    live = reopened(path, lambda: Portfolio([Lent(), UCB(2)], seed=1))
    play(live, 20)

    def put_slowly(*arguments: Any, **options: Any) -> int:
        play(live, 20, 20)
        return put(*arguments, **options)

    monkeypatch.setattr(SQLiteJournal, "put_snapshot", put_slowly)
    live.snapshot()
    expected = digest(live._portfolio)
    live.close(snapshot=False)
    assert digest(recover(SQLiteJournal(path), Portfolio([Lent(), UCB(2)], seed=1)).portfolio) == expected


def test_a_learner_that_cannot_be_saved_now_ends_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the mend, no snapshot was stored until the next start, and nothing said so."""

    def of_lent() -> Portfolio:
        return Portfolio([Lent(), UCB(2)], seed=1)

    with equipoise.open(tmp_path / "shop.db", of_lent, snapshot_every=20) as live:
        monkeypatch.setattr(Lent, "busy", True)
        play(live, 15)
        wait_until(lambda: live.journal_health()["snapshot_error"] == "the model is being trained")
        assert live.journal_health()["snapshot"] == 0
        monkeypatch.setattr(Lent, "busy", False)
        play(live, 15, 15)
        wait_until(lambda: live.journal_health()["snapshot"] > 0)
        assert live.journal_health()["snapshot_error"] == ""


@pytest.fixture
def closed(tmp_path: Path) -> tuple[Path, str]:
    """A journal with two snapshots and a tail, and the digest of its state."""
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 20)
        live.snapshot()
        play(live, 20, 20)
        live.snapshot()
        play(live, 10, 40)
        expected = digest(live._portfolio)
        live.close(snapshot=False)
    return tmp_path / "shop.db", expected


CUT = "UPDATE snapshot_parts SET data = substr(data, 1, length(data) - 1) WHERE seq = ?"
OF_ANOTHER_TYPE = (
    "UPDATE snapshot_parts SET data = 'text' WHERE seq = ?",
    "UPDATE snapshot_parts SET data = 5 WHERE seq = ?",
    "UPDATE snapshots SET digest = 5 WHERE seq = ?",
    "UPDATE snapshots SET digest = x'00' WHERE seq = ?",
)
FLIPPED = "UPDATE snapshot_parts SET data = data || x'00' WHERE seq = ?"


@pytest.mark.slow
@pytest.mark.parametrize("how", [CUT, FLIPPED, "DELETE FROM snapshot_parts WHERE seq = ?", *OF_ANOTHER_TYPE])
@pytest.mark.parametrize("n_damaged", [1, 2])
def test_a_damaged_snapshot_is_skipped(closed: tuple[Path, str], how: str, n_damaged: int) -> None:
    path, expected = closed
    snapshots = SQLiteJournal(path).snapshots()
    for snapshot in snapshots[:n_damaged]:
        damage(path, how, snapshot.seq)
    recovered = recover(SQLiteJournal(path))
    assert recovered.start == (snapshots[1].seq if n_damaged == 1 else 1)
    assert recovered.damaged == tuple(snapshot.seq for snapshot in snapshots[:n_damaged])
    assert digest(recovered.portfolio) == expected


def test_nothing_good_to_start_from_is_refused(closed: tuple[Path, str]) -> None:
    path, _ = closed
    damage(path, "UPDATE snapshot_parts SET data = x'00'")
    damage(path, "UPDATE events SET data = data || x'00' WHERE seq = 1")
    with pytest.raises(UnreadableFile, match=r"damaged event 1|no good"):
        equipoise.open(path, make)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET data = data || x'00' WHERE seq = (SELECT max(seq) - 3 FROM events)",
        "UPDATE events SET time = time + 1 WHERE seq = (SELECT max(seq) FROM events)",
        "UPDATE events SET kind = 'expired' WHERE seq = (SELECT max(seq) FROM events)",
        "UPDATE events SET crc = crc + 1 WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM events WHERE seq = (SELECT max(seq) - 3 FROM events)",
        "DELETE FROM events WHERE seq > (SELECT max(seq) - 3 FROM events)",
    ],
)
def test_a_damaged_tail_is_refused(closed: tuple[Path, str], statement: str) -> None:
    """The last case: a log that ends before what was committed, which the lock file tells."""
    path, _ = closed
    damage(path, statement)
    with pytest.raises(UnreadableFile):
        reopened(path)


@pytest.mark.slow
def test_200_cut_or_flipped_wals_give_a_committed_prefix_or_a_refusal(tmp_path: Path) -> None:
    """The WAL holds all events; without the lock file's mark a cut one may lose its end, and never more."""
    rng = random.Random(7)
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 12)
        crash = image(live.journal.path, tmp_path / "crash")
    portfolio = make()
    states = {1: digest(portfolio)}  # by the number of the last event
    for event in SQLiteJournal(tmp_path / "shop.db").read(2):
        portfolio.apply(event)
        states[event.seq] = digest(portfolio)
    database, log = crash.read_bytes(), crash.with_name("shop.db-wal").read_bytes()
    ends, refused = set(), 0
    for case in range(200):
        folder = tmp_path / f"case {case}"
        folder.mkdir()
        where = rng.randrange(len(log))
        hurt = (
            log[:where] if case % 2 else log[:where] + bytes([log[where] ^ (1 << rng.randrange(8))]) + log[where + 1 :]
        )
        (folder / "shop.db").write_bytes(database)
        (folder / "shop.db-wal").write_bytes(hurt)
        journal = SQLiteJournal(folder / "shop.db", create=False)
        try:
            recovered = recover(journal)
        except UnreadableFile:
            refused += 1
            continue
        assert digest(recovered.portfolio) == states[recovered.seq]
        ends.add(recovered.seq)
    assert len(ends) > 10
    assert refused < 100


def test_200_flips_in_the_file_are_found_or_harmless(tmp_path: Path) -> None:
    """Without a snapshot, each state comes from the log: it is the one that was, or the file is refused."""
    rng = random.Random(8)
    path = tmp_path / "shop.db"
    live = reopened(path, make)
    play(live, 8)
    before = digest(live._portfolio)
    live.close(snapshot=False)
    content, refused = path.read_bytes(), 0
    for case in range(200):
        where, hurt = rng.randrange(len(content)), tmp_path / f"{case}.db"
        flipped = bytes([content[where] ^ (1 << rng.randrange(8))])
        hurt.write_bytes(content[:where] + flipped + content[where + 1 :])
        try:
            assert digest(recover(SQLiteJournal(hurt, create=False)).portfolio) == before
        except UnreadableFile:
            refused += 1
        hurt.unlink()
    assert 20 < refused < 180


def test_a_log_that_lost_its_end_is_refused_where_the_lock_file_is_there(tmp_path: Path) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 5)
        crash = image(live.journal.path, tmp_path / "crash")
    log = crash.with_name("shop.db-wal")
    log.write_bytes(log.read_bytes()[:-5000])
    with pytest.raises(UnreadableFile, match=r"were committed: its end is lost"):
        reopened(crash)
    crash.with_name("shop.db.lock").unlink()  # as the message says
    reopened(crash).close()


@pytest.mark.parametrize("lost", ["shop.db", "shop.db-wal"])
def test_a_log_that_lost_all_is_not_begun_again(tmp_path: Path, lost: str) -> None:
    """SQLite takes a file of no bytes for a new one, and so does it one whose tables were in a WAL that is gone."""
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 5)
        crash = image(live.journal.path, tmp_path / "crash")
    crash.with_name("shop.db-wal").write_bytes(b"")
    crash.with_name(lost).write_bytes(b"")
    with pytest.raises(UnreadableFile, match=r"ends at event 0, but \d+ were committed: its end is lost"):
        reopened(crash, make)
    crash.with_name("shop.db.lock").unlink()  # as the message says
    with reopened(crash, make) as live:
        assert live.certificate().rounds == 0


def without(crash: Path, *ends: str) -> None:
    for end in ends:
        crash.with_name(crash.name + end).unlink()


def small_journal(crash: Path) -> None:
    """Another journal with fewer events takes the place of this one."""
    without(crash, "", "-wal")
    equipoise.open(crash.with_name("other.db"), make).close()
    crash.with_name("other.db").rename(crash)


def empty(crash: Path) -> None:
    without(crash, "-wal")
    crash.write_bytes(b"")


LOSSES: dict[str, Callable[[Path], None]] = {
    "file and log gone": lambda crash: without(crash, "", "-wal"),
    "file gone": lambda crash: without(crash, ""),
    "log gone": lambda crash: without(crash, "-wal"),
    "empty file": empty,
    "another journal": small_journal,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_it_does_not_start_empty_where_the_lock_file_knows_better(tmp_path: Path, loss: str) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 5)
        last = live.journal.last_seq
        crash = image(live.journal.path, tmp_path / "crash")
    lock = crash.with_name("shop.db.lock")
    mark = lock.read_bytes()[:MARK_LENGTH]
    LOSSES[loss](crash)
    for _ in range(2):  # the first refusal keeps the mark
        with pytest.raises(UnreadableFile, match=rf"but {last} were committed: .*Restore a backup, or remove 'shop"):
            reopened(crash, make)
        assert lock.read_bytes()[:MARK_LENGTH] == mark
    lock.unlink()  # as the message says
    with reopened(crash, make) as live:
        assert live.certificate().rounds == 0


def test_a_backup_takes_the_place_of_a_lost_journal(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        play(live, 5)
        live.backup(tmp_path / "copy.db")
        play(live, 5, 5)
    path.unlink()
    restore(tmp_path / "copy.db", path)
    with reopened(path) as live:
        assert live.health()["rounds"] == 5


def test_without_the_check_it_starts_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 5)
        crash = image(live.journal.path, tmp_path / "crash")
    without(crash, "", "-wal")
    monkeypatch.setattr(SQLiteJournal, "_check_end", lambda self, lock: None)
    with reopened(crash, make) as live:
        assert live.health()["rounds"] == 0


def test_a_damaged_first_event_is_no_matter_with_a_good_snapshot(closed: tuple[Path, str]) -> None:
    path, expected = closed
    damage(path, "UPDATE events SET crc = crc + 1 WHERE seq = 1")
    with reopened(path, make) as live:
        assert digest(live._portfolio) == expected
        with pytest.raises(UnreadableFile, match="damaged event 1"):
            rebuild(live.journal)


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE orders (id)")
    text = tmp_path / "text.db"
    text.write_text("not a database, but longer than the header of one, which has a hundred bytes. " * 3)
    for path in (other, text):
        before = path.read_bytes()
        with pytest.raises(UnreadableFile):
            equipoise.open(path, make)
        assert path.read_bytes() == before
    with pytest.raises(UnreadableFile, match="does not exist"):
        equipoise.open(tmp_path / "none.db")


def test_what_is_in_the_journal_holds(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with reopened(path, make) as live:
        live.add_learner(UCB(2, scale=0.3))
        live.reconfigure(explore=0.5)
    with reopened(path, make) as live:  # as it began
        assert len(live.learner_names) == 4
    with pytest.raises(StoreConflict, match="seed"):
        reopened(path, lambda: Portfolio([UCB(2)], seed=6))
    with equipoise.open(path, lambda: Portfolio([UCB(2)], seed=6), accept_changes=True) as live:
        assert live.health()["learners"][3]["name"] == live.learner_names[3]


def test_learners_without_a_state_are_refused(tmp_path: Path) -> None:
    class Stateless:
        def decide(self, context: object) -> int:
            return 0

        def learn(self, context: object, action: int, reward: float) -> None:
            pass

    with pytest.raises(StoreConflict, match="no state"):
        reopened(tmp_path / "shop.db", lambda: Portfolio([Stateless(), Constant(1)]))
    with reopened(tmp_path / "other.db", make) as live:
        with pytest.raises(EquipoiseError, match="no state"):
            live.add_learner(Stateless())
        with pytest.raises(EquipoiseError, match="fallback is a function"):
            live.reconfigure(fallback=lambda context: 0)
        live.decide(offers(0.5))
    with pytest.raises(JournalFailed, match="closed"):
        live.decide(offers(0.5))


def test_a_learner_that_only_the_journal_has_leaves_unless_it_joined_at_run_time(tmp_path: Path) -> None:
    """Before, such a declaration was refused at a start, and taken in on a reload of the service."""
    path = tmp_path / "arms.db"
    with reopened(path, lambda: Portfolio([UCB(2), UCB(2, scale=0.1), Constant(0)])) as live:
        live.add_learner(Constant(1))
    for _ in range(2):
        with reopened(path, lambda: Portfolio([UCB(2), UCB(2, scale=0.1)])) as live:
            assert [row["state"] for row in live.health()["learners"]] == ["active", "active", "removed", "active"]
    assert [event.kind for event in SQLiteJournal(path, create=False).read(1)].count("learner_removed") == 1
