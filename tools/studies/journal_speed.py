"""What durability costs: `python -m tools.studies.journal_speed [--events N]`.

Three OFUL learners over 8 offers with 16 features, 32 tasks at once, each decision rewarded. Printed are events per
second, CPU microseconds per event beside those of a portfolio without a journal, bytes per event, how long the
portfolio waited for the last snapshot, and seconds (wall and CPU) to rebuild from the first event, to recover from a
snapshot and its tail, and to open right after a snapshot. Other processes change wall times by factors; compare CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.journal import LivePortfolio, SQLiteJournal, rebuild, recover
from equipoise.learners import OFUL

TASKS = 32
CONTEXTS = np.random.default_rng(0).normal(size=(64, 8, 16)) * 0.1


def make() -> Portfolio:
    return Portfolio([OFUL(4), OFUL(8), OFUL(16)], seed=1)


async def client(live: LivePortfolio, task: int, rounds: int) -> None:
    for t in range(rounds):
        decision = await live.adecide(CONTEXTS[(task + t) % 64])
        await live.alearn(decision, float((task + t) % 3 == 0))


async def load(live: LivePortfolio, rounds: int) -> None:
    await asyncio.gather(*(client(live, task, rounds // TASKS) for task in range(TASKS)))


def play(portfolio: Portfolio, rounds: int) -> None:
    for t in range(rounds):
        portfolio.learn(portfolio.decide(CONTEXTS[t % 64]), float(t % 3 == 0))


def measure(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    n_events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shop.db")
        live = equipoise.open(path, make)
        wall, cpu = measure(lambda: asyncio.run(load(live, n_events // 2)))
        n_events, pause_seconds = live.journal.last_seq, live.health()["journal"]["snapshot_seconds"]
        live.close(snapshot=False)
        _, plain_cpu = measure(lambda: play(make(), 5_000))
        print(f"{n_events:,} events: {n_events / wall:,.0f} per second, {1e6 * cpu / n_events:.0f} us CPU per event")
        print(f"without a journal, one caller: {1e6 * plain_cpu / 10_000:.0f} us CPU per event")
        print(f"{path.stat().st_size / n_events:.0f} bytes per event; paused {pause_seconds:.4f} s for a snapshot")
        journal = SQLiteJournal(path, create=False)
        snapshots = journal.snapshots()
        tail = journal.last_seq - (snapshots[0].seq if snapshots else 1)
        for what, action in (
            (f"rebuild of {n_events:,} events", lambda: rebuild(journal)),
            (f"recovery from a snapshot and {tail:,} events", lambda: recover(journal)),
            ("open and close, which stores a snapshot", lambda: equipoise.open(path).close()),
            ("open after a snapshot, and close", lambda: equipoise.open(path).close(snapshot=False)),
        ):
            wall, cpu = measure(action)
            print(f"{what}: {wall:.2f} s, {cpu:.2f} s CPU")


if __name__ == "__main__":
    main()
