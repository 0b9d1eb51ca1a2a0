"""What retention costs and saves: `python -m tools.studies.retention_cost [--events N] [--folder DIR]`.

A portfolio decides and rewards, 16 rounds in a transaction, as if over 100 days, once without retention and once with
contexts kept for 10 days, events for 20 and ids for 2, by passes every two seconds. Printed are the sizes of the files,
the bytes per event, the time that a transaction took (median, 99 %, 99.9 %, longest) and the processor's time. Pauses
of both runs depend on the disk, so compare them with each other. The control: statements of both are equal.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from time import perf_counter, sleep, time
from typing import Any, NamedTuple

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.certificates import Certificate
from equipoise.errors import EquipoiseError
from equipoise.journal import LivePortfolio, retention
from equipoise.learners import OFUL, UCB
from equipoise.portfolio.settings import Retention

ROUNDS, DAYS, DAY = 16, 100, 86400.0
KEPT = Retention(contexts="10d", events="20d", ids="2d")
BYTES, PASS_SECONDS = 1e6, 2.0
SHARES = 50, 99, 99.9, 100


class Found(NamedTuple):
    """Megabytes of the journal and of its archive, seconds per transaction, processor's time, and what was stated."""

    events: int
    journal: float
    largest: float
    archive: float
    seconds: tuple[float, ...]
    cpu: float
    certificate: Certificate

    def __str__(self) -> str:
        pauses = ", ".join(f"{1e3 * each:.1f}" for each in self.seconds)
        per_event = BYTES * (self.journal + self.archive) / self.events, 1e6 * self.cpu / self.events
        return (
            f"{self.events:,} events: journal {self.journal:.1f} MB (largest {self.largest:.1f}), archive "
            f"{self.archive:.1f} MB; {per_event[0]:.0f} bytes and {per_event[1]:.0f} us of the processor per event; "
            f"transactions (ms), median, 99 %, 99.9 %, longest: {pauses}"
        )


def make() -> Portfolio:
    return Portfolio([UCB(3, scale=0.1), UCB(3), OFUL(4)], seed=1)


def play(portfolio: Portfolio, _: float, first: int, at: float) -> None:
    for t in range(first, first + ROUNDS):
        context = (np.arange(1.0, 13.0) * (t % 97 + 1) % 1.0).reshape(3, 4) / 2.0
        decision = portfolio.decide(context, id=f"order {t:09d}", at=at)
        portfolio.learn(decision, float(t % 3 == 0), at=at)


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def retain(live: LivePortfolio, ended: Signal) -> None:
    while not ended.wait(PASS_SECONDS):
        with suppress(EquipoiseError):
            live._retainer.run_once()


def measure(folder: Path, n_events: int, kept: Retention) -> Found:
    folder.mkdir(parents=True)
    path, ended = folder / "shop.db", Signal()
    retention.MIN_PERIOD = retention.MAX_PERIOD  # passes only by the thread of this study
    begin, step = time() - DAYS * DAY, DAYS * DAY / n_events
    since, seconds, largest = cpu(), [], 0.0
    now = [begin]
    live: Any = equipoise.open(path, make)
    live._retainer._now = lambda: now[0]
    live.retain(kept)
    thread = Thread(target=retain, args=(live, ended))
    thread.start()
    for first in range(0, n_events // 2, ROUNDS):
        now[0] = begin + 2 * first * step
        before = perf_counter()
        live.transact(play, first, now[0])
        seconds.append(perf_counter() - before)
        if first % (64 * ROUNDS) == 0:
            largest = max(largest, path.stat().st_size / BYTES)
    ended.set()
    thread.join()
    for _ in range(2):  # what was due at the end
        live._retainer.run_once()
        sleep(0.1)
    live.close()
    spent = cpu() - since
    sizes = [each.stat().st_size / BYTES for each in folder.glob("*.archive/*.db")]
    shares = tuple(float(each) for each in np.percentile(seconds, SHARES))
    size = path.stat().st_size / BYTES
    with equipoise.open(path, make) as again:
        return Found(n_events, size, max(largest, size), sum(sizes), shares, spent, again.certificate())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = []
        for name, kept in (("without retention", Retention()), ("with retention", KEPT)):
            found.append(measure(Path(folder, name), given.events, kept))
            print(f"{name}: {found[-1]}", flush=True)
    if found[0].certificate != found[1].certificate:
        raise SystemExit("the certificates differ")


if __name__ == "__main__":
    main()
