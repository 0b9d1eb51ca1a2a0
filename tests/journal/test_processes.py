"""What is promised when processes, disks and clocks misbehave: two processes, SIGSTOP, SIGKILL, full disks, jumps."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import equipoise
from equipoise.errors import EquipoiseError, JournalBusy, JournalFailed, JournalLocked
from equipoise.journal import LivePortfolio, SQLiteJournal, digest, recover
from equipoise.portfolio import Event
from tests.journal.shop import make, offers, play, reopened
from tools.studies.kill_journal import run

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import sys, time
from tests.journal.shop import offers, play, reopened, make
live = reopened(sys.argv[1], make)
print("ready", flush=True)
for t, line in enumerate(sys.stdin):
    play(live, 1, t)
    print(live.journal.last_seq, flush=True)
"""


class Holder:
    """Another process that has a journal open, and plays a round for each line it gets."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("play\n")
        self.process.stdin.flush()

    def play(self) -> int:
        self.send()
        return int(self._line())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_processes_and_a_stopped_one(tmp_path: Path) -> None:
    """The second process is refused, also while the first is stopped, and may read meanwhile; a kill frees the lock."""
    path = tmp_path / "shop.db"
    holder = Holder(path)
    try:
        seq = holder.play()
        with pytest.raises(JournalLocked, match=f"open in another process .{holder.process.pid}."):
            reopened(path, make)
        assert recover(SQLiteJournal(path, create=False)).seq == seq
        holder.process.send_signal(signal.SIGSTOP)
        holder.send()
        with pytest.raises(JournalLocked):
            reopened(path, make)
        assert recover(SQLiteJournal(path, create=False)).seq == seq
        holder.process.send_signal(signal.SIGCONT)
        assert int(holder._line()) > seq
        assert holder.play() > seq
    finally:
        holder.end()
    with reopened(path) as live:
        assert live.health()["rounds"] == 3
        with pytest.raises(JournalLocked, match="already open in this process"):
            reopened(path)


def test_a_fork_may_not_write(tmp_path: Path) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        lock = live.journal._lock
        assert lock is not None
        lock._pid -= 1  # as a forked process would see it
        with pytest.raises(JournalLocked, match="forked"):
            live.decide(offers(0.5))
        lock._pid += 1
        assert live.pending == ()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    """The short form of `make chaos`, with its control: answers before the commit are caught."""
    (tmp_path / "late").mkdir()
    found = run(tmp_path / "late", 3, seed=1, life_seconds=0.6)
    assert found.faults == ()
    assert found.acknowledged > 100
    (tmp_path / "early").mkdir()
    assert run(tmp_path / "early", 20, early=True, seed=1, life_seconds=0.3).faults


FULL = """
import resource, sys
from tests.journal.shop import make, offers, reopened
from equipoise.errors import JournalFailed
live = reopened(sys.argv[1], make)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
try:
    for t in range(10_000):
        live.decide(offers(0.5), id=f"round {t}")
        print(t, flush=True)
except JournalFailed as error:
    print("failed", flush=True)
for call in (live.describe, live.health, lambda: live.learn("round 0", 1.0), lambda: live.decide(offers(0.5))):
    try:
        call()
        print("answered", flush=True)
    except JournalFailed:
        pass
live.close()
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """The call that meets it fails, all later ones too, and after opening again all that was acknowledged is there."""
    path = tmp_path / "shop.db"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", FULL, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.returncode == 0, ended.stderr
    *acknowledged, last = ended.stdout.split()
    assert last == "failed"
    assert len(acknowledged) > 20
    with reopened(path) as live:
        assert set(live.pending) >= {f"round {t}" for t in acknowledged}
        assert len(live.pending) <= len(acknowledged) + 1
        live.learn("round 0", 1.0)


READ_ONLY = """
import os, sys
from tests.journal.shop import make, reopened
from equipoise.errors import EquipoiseError
reopened(sys.argv[2], make).close()  # imports everything
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
try:
    reopened(sys.argv[1], make)
except EquipoiseError as error:
    print(error)
"""


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "shop.db")
        with reopened(path, make) as live:
            play(live, 3)
        before = path.read_bytes()
        for name in Path(folder).iterdir():
            name.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", READ_ONLY, str(path), str(tmp_path / "other.db")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        Path(folder).chmod(0o755)
        assert "could not be" in ended.stdout, ended.stderr
        assert path.read_bytes() == before


def test_a_failed_append_leaves_nothing_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reopened(tmp_path / "shop.db", make) as live:
        play(live, 2)
        before = digest(live._portfolio)
        writer = live.journal._writer
        assert writer is not None

        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(writer, "_write", fail)
        for call in (
            lambda: live.decide(offers(0.1)),
            lambda: live.decide(offers(0.1)),
            live.certificate,
            live.describe,
        ):
            with pytest.raises(JournalFailed, match="No space left on device"):
                call()
        assert live.failure is not None
    with reopened(tmp_path / "shop.db") as again:
        assert digest(again._portfolio) == before


def test_too_many_waiting_calls_change_nothing(tmp_path: Path) -> None:
    live = equipoise.open(tmp_path / "shop.db", make, max_waiting=2)
    writer = live.journal._writer
    assert writer is not None
    with writer._changed:  # the writer cannot take anything
        for t in range(2):
            live._begin(None, live._portfolio.decide, offers(0.5), id=f"round {t}")
        with pytest.raises(JournalBusy, match="2 calls wait"):
            live.decide(offers(0.5))
    while live.journal.backlog:
        time.sleep(0.001)
    assert live.pending == ("round 0", "round 1")
    live.close()


def test_a_jumping_clock_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, only a steady clock counts. After a start with the clock set back, time goes on from the log's."""
    day, path = 86400.0, tmp_path / "shop.db"
    now, real = time.time(), time.time
    live = reopened(path, lambda: make(deadline="1h", default_reward=0.0))
    for jump in (day, -day, 0.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        live.decide(offers(0.5))
        assert live.expire() == 0
    live.close()
    monkeypatch.setattr(time, "time", lambda: real() - day)
    with reopened(path) as live:
        live.decide(offers(0.5))
        assert live.expire() == 0
    monkeypatch.setattr(time, "time", lambda: real() + day)
    with reopened(path) as live:  # a day has passed, as far as anybody can tell
        assert live.expire() == 4
    times = [event.time for event in SQLiteJournal(path).read()][1:]
    assert times == sorted(times)
    assert now <= times[0] <= times[3] <= now + 600.0


def test_threads_share_flushes_and_the_log_has_no_gaps(tmp_path: Path) -> None:
    seen: list[Event] = []
    with reopened(tmp_path / "shop.db", make) as live:
        live.on_event(seen.append)

        def work(k: int) -> None:
            for t in range(25):
                live.learn(live.decide(offers(0.5), id=f"{k} {t}"), 1.0)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        live.snapshot()
        for thread in threads:
            thread.join()
        logged = list(live.journal.read())
        assert [event.seq for event in logged] == list(range(1, len(logged) + 1))
        assert [(event.seq, event.kind) for event in seen] == [(event.seq, event.kind) for event in logged[1:]]
        assert live.health()["rounds"] == 200
        assert digest(recover(live.journal).portfolio) == digest(live._portfolio)


def test_asyncio_forms(tmp_path: Path) -> None:
    async def main(live: LivePortfolio) -> None:
        decisions = await asyncio.gather(*(live.adecide(offers(0.5), id=f"round {t}") for t in range(20)))
        assert live.journal.last_seq >= 21
        same = await live.adecide(offers(0.5), id="round 3")
        assert same == decisions[3]
        await live.alearn(decisions[0], 1.0)
        await live.awithdraw(decisions[1])
        results = await live.alearn_many([("round 2", 1.0), ("round 2", 1.0), ("round 3", 5.0), ("round 4", 0.0)])
        assert [type(result).__name__ for result in results] == [
            "NoneType",
            "DuplicateReward",
            "InvalidArgument",
            "NoneType",
        ]
        with pytest.raises(EquipoiseError, match="was used for a decision with another context"):
            await live.adecide(offers(0.1), id="round 3")
        assert await live.aexpire() == 0
        assert (await live.arun("certificate")).rounds == 19

    with reopened(tmp_path / "shop.db", make) as live:
        asyncio.run(main(live))
        assert len(live.pending) == 16
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY  # the limit was another process's
