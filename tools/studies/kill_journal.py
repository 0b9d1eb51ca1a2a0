"""Whether anything acknowledged is lost: `python -m tools.studies.kill_journal [--kills N] [--events N] [--early]`.

A process decides and rewards under load, 32 tasks at once, and writes a line for every answer it got. It is killed
(SIGKILL) at a random moment, again and again. After each kill the journal must hold every acknowledged decision with
its action and every acknowledged reward, each exactly once, and recovery from the newest and from the second-newest
snapshot must give the same state; at thirty of the kills, so must a rebuild from the first event. The next process goes
on where the last one was, and repeats what was not acknowledged, as a client does. It goes on until there were as many
kills and as many events as asked for; with --folder, a study that was interrupted goes on where it was.

With --early the process answers before the commit: the control, which must be caught. Its disk is made a slow one, as
between an answer and a commit of a quick one there is hardly time for a kill. A kill leaves what the system has in
memory, so this shows order and recovery, not that a disk keeps what it was told to keep.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.errors import DuplicateReward
from equipoise.journal import LivePortfolio, SQLiteJournal, digest, rebuild
from equipoise.journal.recovery import Recovered, fold, recover
from equipoise.journal.writer import Row, Work
from equipoise.learners import OFUL, UCB
from equipoise.types import Array

TASKS = 32
SNAPSHOT_EVERY = 2_000
REBUILDS = 30
SLOW_SECONDS = 0.05  # of a flush, as busy disks have; a shorter one is missed by many kills on a busy machine
PROCESSES = multiprocessing.get_context("forkserver")  # to start Python and import NumPy would take longer than a life
PROCESSES.set_forkserver_preload(["equipoise.journal", "equipoise.learners", "equipoise.selectors"])
CLOSING = ("rewarded", "withdrawn", "expired")
ANSWERED = {b"r": "rewarded", b"w": "withdrawn"}
T = TypeVar("T")
P = ParamSpec("P")


def make() -> Portfolio:
    return Portfolio([UCB(3, scale=0.1), UCB(3), OFUL(4)], seed=1)


def offers(task: int, number: int) -> Array:
    return ((task + 1) * np.arange(1.0, 13.0) * (number % 97 + 1) % 1.0 + 0.25 / (number % 7 + 1)).reshape(3, 4) / 2.0


def reward_of(task: int, number: int) -> float:
    return float((task + number) % 3 == 0)


class Early(LivePortfolio):
    """Answers before the commit: the control."""

    @classmethod
    def make(cls, live: LivePortfolio) -> None:
        """Let a portfolio answer before the commit, on a slow disk."""
        live.__class__ = cls
        writer = live.journal._leased()
        write = writer._write

        def write_late(rows: Sequence[Row], work: Work | None) -> None:
            time.sleep(SLOW_SECONDS)
            write(rows, work)

        writer._write = write_late  # type: ignore[method-assign]

    async def _acall(self, operation: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        _, result, error = self._begin(asyncio.get_running_loop(), operation, *arguments, **options)
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


async def client(live: LivePortfolio, task: int, first: int) -> None:
    """Decide and reward without end, from the first round that was not acknowledged as a whole."""
    number = first
    while True:
        decision = await live.adecide(offers(task, number), id=f"{task}-{number}")
        os.write(1, b"d %d %d %d\n" % (task, number, decision.action))
        try:
            await live.alearn(decision.id, reward_of(task, number))
        except DuplicateReward:  # the answer to the first try was lost
            if number != first:
                raise
        os.write(1, b"r %d %d\n" % (task, number))
        number += 1


async def serve(path: str, firsts: list[int], early: bool) -> None:
    live = equipoise.open(path, make, snapshot_every=SNAPSHOT_EVERY)
    if early:
        Early.make(live)
    os.write(1, b"ready\n")
    await asyncio.gather(*(client(live, task, first) for task, first in enumerate(firsts)))


def be_served(answers: Connection, path: str, firsts: list[int], early: bool) -> None:
    os.dup2(answers.fileno(), 1)
    asyncio.run(serve(path, firsts, early))


class Found(NamedTuple):
    """What happened so far: kills, durable events, acknowledged answers, rebuilds, what was wrong, longest start."""

    kills: int = 0
    events: int = 0
    acknowledged: int = 0
    rebuilds: int = 0
    faults: tuple[str, ...] = ()
    start_seconds: float = 0.0

    def __str__(self) -> str:
        counts = f"{self.kills} kills, {self.events:,} events, {self.acknowledged:,} acknowledged"
        return f"{counts}, {self.rebuilds} rebuilds, longest start {self.start_seconds:.1f} s"


class Life(NamedTuple):
    """What a process acknowledged before it was killed, as lines, and how long it took to start."""

    lines: list[bytes]
    start_seconds: float


class InProcess:
    """Lives of a process with a portfolio and its clients, which writes a line for every answer."""

    def __init__(self, path: Path, *, early: bool) -> None:
        self.path, self._early = path, early

    def live(self, firsts: list[int], seconds: float) -> Life:
        """Start the process and kill it after this time."""
        lines: list[bytes] = []
        given, sink = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=be_served, args=(sink, str(self.path), firsts, self._early))
        since = time.perf_counter()
        process.start()
        sink.close()
        with os.fdopen(os.dup(given.fileno()), "rb") as answers:
            given.close()
            if answers.readline() != b"ready\n":
                raise RuntimeError("the process did not start")
            start_seconds = time.perf_counter() - since
            reader = Thread(target=lambda: lines.extend(answers))
            reader.start()
            time.sleep(seconds)
            process.kill()
            process.join()
            reader.join()
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return Life(lines, start_seconds)


class Lives(Protocol):
    """Where lives come from: processes that are killed, and the journal that all of them continue."""

    path: Path

    def live(self, firsts: list[int], seconds: float) -> Life: ...


class Study:
    """Kills a process again and again, and compares what it acknowledged with its journal."""

    def __init__(self, lives: Lives, *, seed: int, life_seconds: float) -> None:
        self._lives, self._path, self._life_seconds = lives, lives.path, life_seconds
        self._random = random.Random(seed)
        self._firsts = [0] * TASKS  # the first round of each task that was not acknowledged as a whole
        self._actions: dict[str, int] = {}  # in the journal
        self._closed: dict[str, str] = {}  # how each decision was closed, by the journal
        self._seq = 0
        self.acknowledged, self.start_seconds = 0, 0.0
        self.faults: list[str] = []

    def life(self) -> None:
        """Start a process, kill it, and check what it said."""
        lines, seconds = self._lives.live(self._firsts, self._random.uniform(0.05, self._life_seconds))
        self.start_seconds = max(self.start_seconds, seconds)
        self.check_events()
        self._check_lines(lines)
        self.acknowledged += len(lines)

    def resume(self) -> None:
        """Go on with a journal of an earlier study."""
        self.check_events()
        for id_ in self._closed:
            task, number = map(int, id_.split("-"))
            self._firsts[task] = max(self._firsts[task], number + 1)

    def check_events(self) -> None:
        """Each decision is in the journal once, and closed at most once."""
        for event in SQLiteJournal(self._path, create=False).read(self._seq + 1):
            self._seq = event.seq
            id_, kind = event.data.get("id", ""), event.kind
            if kind == "decided":
                if id_ in self._actions:
                    self.faults.append(f"{id_} was decided twice")
                self._actions[id_] = event.data["action"]
            elif kind in CLOSING:
                if id_ in self._closed:
                    self.faults.append(f"{id_} was {self._closed[id_]}, and then {kind}")
                if kind == "rewarded" and event.data["reward"] != reward_of(*map(int, id_.split("-"))):
                    self.faults.append(f"{id_} has another reward than it was given")
                self._closed[id_] = kind

    def _check_lines(self, lines: list[bytes]) -> None:
        """Every answer is in the journal as it was given."""
        for line in lines:
            kind, *numbers = line.split()
            task, number, *action = map(int, numbers)
            id_ = f"{task}-{number}"
            if kind == b"d":
                if self._actions.get(id_) != action[0]:
                    self.faults.append(f"decision {id_} was acknowledged with action {action[0]} and is lost")
            elif self._closed.get(id_) != ANSWERED[kind]:
                self.faults.append(f"{id_} was acknowledged as {ANSWERED[kind]}, but is {self._closed.get(id_)}")
            else:
                self._firsts[task] = max(self._firsts[task], number + 1)

    def check_recovery(self, *, whole: bool) -> None:
        """All ways to recover give the same state."""
        journal = SQLiteJournal(self._path, create=False)
        ways: list[Callable[[], Recovered]] = [lambda: recover(journal)]
        if len(snapshots := journal.snapshots()) > 1:
            ways.append(lambda: fold(journal, journal.get_snapshot(snapshots[1].seq), snapshots[1].seq, None))
        if whole:
            ways.append(lambda: rebuild(journal))
        digests = {digest(way().portfolio) for way in ways}
        if len(digests) > 1:
            self.faults.append(f"{len(ways)} ways to recover event {self._seq} gave {len(digests)} states")

    @property
    def events(self) -> int:
        return self._seq


def run(
    folder: Path, kills: int, events: int = 0, *, early: bool = False, seed: int = 0, life_seconds: float = 1.0
) -> Found:
    """Kill at least so many times and until there are so many events, or with `early` until something is lost."""
    lives = InProcess(folder / "shop.db", early=early)
    return run_lives(lives, kills, events, early=early, seed=seed, life_seconds=life_seconds)


def run_lives(
    lives: Lives, kills: int, events: int, *, early: bool = False, seed: int = 0, life_seconds: float = 1.0
) -> Found:
    """Do the same for lives of any kind."""
    notes = lives.path.with_name("study.json")
    before = Found(**json.loads(notes.read_text())) if notes.exists() else Found()
    study = Study(lives, seed=seed + before.kills, life_seconds=life_seconds)
    if before.kills:
        study.resume()
    found = before._replace(faults=tuple(before.faults))
    while not found.faults and (found.kills < kills or found.events < events):
        study.life()
        killed = found.kills + 1
        whole = not early and found.rebuilds < min(REBUILDS, killed * REBUILDS // kills)
        if not early and not study.faults:
            study.check_recovery(whole=whole)
        seconds = max(before.start_seconds, study.start_seconds)
        counts = killed, study.events, before.acknowledged + study.acknowledged, found.rebuilds + whole
        found = Found(*counts, tuple(study.faults), seconds)
        if not early:
            notes.write_text(json.dumps(found._asdict()))
        if killed % 20 == 0:
            print(found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=210)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--life-seconds", type=float, default=5.0, help="longest life of a process")
    parser.add_argument("--folder", type=Path, help="where the journal is kept, to go on after an interruption")
    parser.add_argument("--early", action="store_true", help="answer before the commit: must be caught")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lost = run(Path(name), 60, early=True, seed=options.seed, life_seconds=0.5)
        print(f"control, answers before the commit: caught at kill {lost.kills}: {lost.faults[:1]}", flush=True)
        if options.early:
            sys.exit(not lost.faults)
        folder = options.folder or Path(name, "durable")
        folder.mkdir(parents=True, exist_ok=True)
        found = run(folder, options.kills, options.events, seed=options.seed, life_seconds=options.life_seconds)
    print(f"{found}; faults: {found.faults[:5] or 'none'}")
    sys.exit(bool(found.faults) or not lost.faults)


if __name__ == "__main__":
    main()
