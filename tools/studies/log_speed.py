"""How fast logs are read and replayed, and how much memory that takes.

python -m tools.studies.log_speed [--rounds 1000000] [--folder build/logs]
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from equipoise.learners import OFUL
from equipoise.logs import LoggedRounds, Rounds, from_arrays, open_log
from equipoise.logs.dsjson import DsjsonSource
from equipoise.logs.replay import replay
from equipoise.logs.rounds import NO_ID, Faults
from equipoise.logs.tables import write_parquet
from tools.dsjson import write_dsjson
from tools.main import run_command

BATCH = 10_000
DSJSON_ROUNDS = 20_000


def generated(rounds: int, n_actions: int, dim: int, seed: int = 0) -> Iterator[Rounds]:
    """Rounds of a linear problem, logged uniformly, batch by batch."""
    rng = np.random.default_rng(seed)
    theta = np.ones(dim) / np.sqrt(dim)
    for first in range(0, rounds, BATCH):
        n = min(BATCH, rounds - first)
        offers = rng.normal(size=(n, n_actions, dim))
        offers /= np.linalg.norm(offers, axis=2, keepdims=True) * (1 + 1e-9)
        actions = rng.integers(n_actions, size=n)
        means = 0.5 + 0.45 * offers[np.arange(n), actions] @ theta
        yield Rounds(
            np.arange(first + 1, first + n + 1),
            np.empty((n, 0)),
            offers,
            np.full(n, n_actions),
            actions,
            (rng.random(n) < means).astype(float),
            np.full(n, 1 / n_actions),
            np.full((n, n_actions), np.nan),
            np.ones(n),
            np.arange(first, first + n, dtype=np.float64),
            np.full(n, NO_ID),
        )


def run(rounds: int = 1_000_000, folder: Path = Path("build/logs")) -> None:
    """Measure; files are written to the folder and stay there."""
    folder.mkdir(parents=True, exist_ok=True)
    read_parquet(rounds, folder / "shared.parquet")
    read_dsjson(folder / "log.dsjson")
    replay_oful(rounds, folder / "offers.parquet")


def read_parquet(rounds: int, path: Path) -> None:
    """Eight features of the context, action, reward and propensity."""
    rng = np.random.default_rng(0)
    shared, actions, rewards = rng.random((rounds, 8)), rng.integers(10, size=rounds), rng.random(rounds)
    write_parquet(from_arrays(shared, actions, rewards, np.full(rounds, 0.1)), path)
    start = perf_counter()
    log = open_log(path)
    opened = perf_counter()
    n = sum(batch.n_rounds for batch in log)
    again = perf_counter()
    print(f"Parquet: {n / (opened - start):,.0f} events/s with all checks, {n / (again - opened):,.0f} again")


def read_dsjson(path: Path) -> None:
    """Ten offers of eight features; CPU time, against json.loads of each line."""
    write_dsjson(generated(DSJSON_ROUNDS, 10, 8), path)
    for _ in range(3):
        lines = path.read_bytes().splitlines()
        start = process_time()
        for line in lines:
            json.loads(line)
        plain = process_time() - start
        start = process_time()
        n = sum(batch.n_rounds for batch in DsjsonSource(path).read(Faults()))
        own = process_time() - start
        print(f"dsjson: {own / n * 1e6:.1f} µs an event, {own / plain:.2f} of the time of json.loads")


def replay_oful(rounds: int, path: Path) -> None:
    """Progressive replay of OFUL with d = 32 and 10 actions."""
    if not path.exists():
        write_parquet(generated(rounds, 10, 32), path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replay(from_arrays(*small()), [OFUL(32)])  # compile
    start = process_time()
    log: LoggedRounds = open_log(path)
    opened = process_time()
    result = replay(log, [OFUL(32)])
    end = process_time()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size, value = path.stat().st_size / 2**20, result.learners[0].estimate("progressive").value
    print(f"OFUL, {log.n_rounds:,} rounds, CPU time: check {opened - start:.1f} s, replay {end - opened:.1f} s")
    print(f"value {value:.4f}")
    print(f"largest memory {before / 1024:,.0f} MB before, {after / 1024:,.0f} MB after; the file has {size:,.0f} MB")


def small() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    (batch,) = generated(100, 10, 32)
    return batch.offers, batch.actions, batch.rewards, batch.propensities


if __name__ == "__main__":
    run_command(run)
