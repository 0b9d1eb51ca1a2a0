"""Damage anywhere in a file is found: by a backup, at a start, and by the slow check while it is in use."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest

import equipoise
from equipoise.errors import FileUnavailable, StoreConflict, UnreadableFile
from equipoise.journal import SQLiteJournal, maintenance, scrub, sqlite
from equipoise.journal.maintenance import backup, restore
from equipoise.journal.scrub import Scrub, Scrubber, verify
from tests.journal.damage import DAMAGES, statements
from tests.journal.shop import image, make, memory_folder, play, reopened

ROUNDS = 150


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    with TemporaryDirectory(dir=memory_folder()) as folder:
        path = Path(folder, "shop.db")
        with reopened(path, make) as live:
            play(live, ROUNDS)
        yield path


@pytest.fixture
def journal(made: Path, tmp_path: Path) -> Path:
    """A closed journal with an older part that a start does not read."""
    for end in ("", ".lock"):
        shutil.copy(f"{made}{end}", tmp_path)
    return tmp_path / made.name


def leftovers(folder: Path) -> list[str]:
    """Files of a copy that was not finished."""
    return [path.name for path in folder.iterdir() if ".tmp" in path.name]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_backup_of_a_damaged_journal_is_refused(journal: Path, damage: str) -> None:
    copy, before = journal.with_name("copy.db"), backup(journal, journal.with_name("good.db"))
    DAMAGES[damage](journal)
    with pytest.raises(UnreadableFile, match=r"there is no copy at .*shop\.db"):
        backup(journal, copy)
    assert not copy.exists() and not leftovers(journal.parent)
    restore(journal.with_name("good.db"), journal, replace=True)
    assert backup(journal, copy) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_backup_is_not_restored(journal: Path, damage: str) -> None:
    copy, target = journal.with_name("copy.db"), journal.with_name("other.db")
    backup(journal, copy)
    DAMAGES[damage](copy)
    content = journal.read_bytes()
    for path in (target, journal):
        with pytest.raises(UnreadableFile, match=r"there is no copy at .*copy\.db"):
            restore(copy, path, replace=True)
    assert not target.exists() and journal.read_bytes() == content and not leftovers(journal.parent)


def test_without_the_check_damage_is_copied(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    statements("UPDATE events SET time = time + 1 WHERE seq = 7")(journal)
    monkeypatch.setattr(maintenance, "verify", lambda connection, path: 1_000)
    assert backup(journal, journal.with_name("copy.db")) == 1_000


def test_a_backup_of_a_journal_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 5)
        crash = image(live.journal.path, tmp_path / "crash")
    log = crash.with_name("shop.db-wal")
    log.write_bytes(log.read_bytes()[:-5000])
    with pytest.raises(UnreadableFile, match="its end is lost"):
        backup(crash, tmp_path / "copy.db")
    crash.with_name("shop.db.lock").unlink()  # the loss is accepted
    assert backup(crash, tmp_path / "copy.db") > 0


def test_what_is_not_a_journal_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    statements("CREATE TABLE t (x)")(tmp_path / "other.db")
    for name in ("empty.db", "other.db"):
        with pytest.raises(UnreadableFile):
            backup(tmp_path / name, tmp_path / "copy.db")
    with pytest.raises(StoreConflict, match="replaces nothing"):
        backup(tmp_path / "other.db", tmp_path / "empty.db")


@pytest.mark.parametrize("damage", ["page of events", "page of the index"])
def test_a_start_says_that_pages_are_damaged_and_serves(
    journal: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest snapshot is good, so the state is; to refuse would lose all that no backup has."""
    DAMAGES[damage](journal)
    with caplog.at_level(logging.ERROR, "equipoise"), reopened(journal) as live:
        assert live.journal_health()["damage"]
        assert live.health()["rounds"] == ROUNDS
        live.decide([[0.5, 0.5], [0.1, 0.2]])
    (line,) = [record.message for record in caplog.records if "damaged" in record.message]
    assert "restore a backup" in line and str(journal.parent) not in line


def test_the_slow_check_does_what_a_start_has_no_time_for(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DAMAGES["page of events"](journal)
    monkeypatch.setattr(sqlite, "CHECK_BYTES", journal.stat().st_size - 1)
    with reopened(journal) as live:
        assert live.journal_health()["damage"] == ""
    assert whole(journal).damaged > 0


def whole(path: Path) -> Scrub:
    """Return a scrub after a check of all of a file, or of all that can be read."""
    checked = Scrub(path, "shop")
    while checked.due < monotonic() + scrub.PERIOD_SECONDS / 2:
        checked.step()
    return checked


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_slow_check_finds_it(journal: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    last = SQLiteJournal(journal).last_seq
    with caplog.at_level(logging.ERROR, "equipoise"):
        good = whole(journal)
        assert (good.checked, good.damaged, good.error) == (last, 0, "")
        assert not caplog.records
        DAMAGES[damage](journal)
        found = whole(journal)
    assert found.damaged >= 1 and found.error
    assert found.checked >= last - 2 * found.damaged  # what is good is checked all the same
    assert len(caplog.records) == 1


def test_the_slow_check_looks_in_slices(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "SLICE_SECONDS", -1.0)
    checked = Scrub(journal, "shop")
    for n in range(1, 10):
        checked.step()
        assert checked.checked == n
    monkeypatch.setattr(scrub, "SLICE_SECONDS", 60.0)
    monkeypatch.setattr(scrub, "MAX_ROWS", 7)
    checked.step()
    assert checked.checked == 16


def test_archived_and_new_events_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise.journal import archive
    from equipoise.portfolio.settings import Retention

    monkeypatch.setattr(archive, "SEGMENT_EVENTS", 20)
    monkeypatch.setattr("equipoise.journal.retention.LATEST_AMONG", 10)
    path = tmp_path / "shop.db"
    with equipoise.open(path, make, snapshot_every=10**9) as live:
        play(live, 60)
        live.snapshot()
        play(live, 60, 60)
        live.snapshot()
        live._retainer._settings = Retention(events="1s", ids="1s")
        live._retainer.run_once()
        assert live.journal.archived >= 40
        assert whole(path).damaged == 0
        with closing(sqlite.connect_reader(path)) as connection:
            assert verify(connection, path) == live.journal.last_seq


def test_what_cannot_be_read_now_is_no_damage(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file descriptors are left, say."""
    checked = Scrub(journal, "shop")

    def refuse(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{path}/none?mode=ro", uri=True).execute("SELECT 1").connection  # cannot be opened

    with monkeypatch.context() as patched:
        for module in (scrub, sqlite):
            patched.setattr(module, "connect_reader", refuse)
        checked.step()
        with pytest.raises(FileUnavailable):
            SQLiteJournal(journal).snapshots()
        with pytest.raises(FileUnavailable):  # and no older snapshot is taken for it
            reopened(journal)
    assert checked.damaged == 0 and not checked.error and checked.due > 0.0
    checked.step()
    assert checked.checked > 0


def test_one_thread_checks_all_journals_and_ends(journal: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    backup(journal, other)
    DAMAGES["checksum"](other)
    scrubber, done = Scrubber(), threading.Event()

    def count() -> int:
        return sum(thread.name == "equipoise scrub" for thread in threading.enumerate())

    before = count()
    scrubs = [scrubber.add(path, path.stem) for path in (journal, other)]
    for _ in range(2_000):
        if all(each.passes for each in scrubs) or done.wait(0.005):
            break
    assert [each.damaged for each in scrubs] == [0, 1]
    assert count() == before + 1
    for each in scrubs:
        scrubber.remove(each)
    for _ in range(2_000):
        if count() == before:
            break
        done.wait(0.005)
    assert count() == before


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scrub, "MAX_SHARE", 1.0)
    yield
