"""What rounds behind a few missing rewards cost: `python -m tools.studies.waiting_rounds [--rounds N]`.

Three linear learners in a portfolio with a journal, with the default selector and with realized balancing, without a
deadline and with one of 24 hours. Either every decision gets its reward at once, or all but the first ten do, so that
no round counts as evidence. Each case runs in processes of its own, in turn with its comparison; printed are medians of
the resident memory, the CPU time of a round, the longest time for which the portfolio waited for a snapshot, and the
size of the snapshot; then the ratios. It fails if memory is more than 1.3 times, or CPU time more than 1.1 times, that
without missing rewards, or if a pause is above 20 ms.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.learners import OFUL
from equipoise.selectors import RealizedBalancing
from tools.studies.open_memory import resident
from tools.studies.serve_load import ONE_THREAD

MISSING = 10
MEMORY, CPU, PAUSE = 1.3, 1.1, 0.020  # ratios and seconds, at most
CASES = tuple((selector, deadline) for selector in ("default", "balancing") for deadline in (None, "24h"))


def run(selector: str, deadline: str | None, missing: int, rounds: int, folder: Path) -> dict[str, float]:
    """Play rounds in this process; return the measurements."""
    logging.disable(logging.WARNING)
    settings: dict[str, Any] = {} if deadline is None else {"deadline": deadline, "default_reward": 0.0}
    learners = [OFUL(dim) for dim in (2, 3, 4)]
    given = None if selector == "default" else RealizedBalancing(3)
    made = Portfolio(learners, given, seed=1, reward_range=(0.0, 1.0), **settings)
    rng, weights = np.random.default_rng(0), np.array([0.3, 0.2, 0.3, 0.2])
    pauses = []
    with equipoise.open(folder / "p.db", made, snapshot_every=max(1_000, rounds // 5)) as live:
        since = time.process_time()
        for t in range(rounds):
            context = rng.random((3, 4)) * 0.5
            decision = live.decide(context)
            if t >= missing:
                live.learn(decision, float(rng.random() < context[decision.action] @ weights + 0.2))
            if t % 1_000 == 999:
                pauses.append(live.journal_health()["snapshot_seconds"])
        cpu = (time.process_time() - since) / rounds
        memory, waiting = resident(), live.health()["waiting_rounds"]
        live.snapshot()
        health = live.journal_health()
    return {
        "memory": memory / 2**20,
        "cpu": cpu * 1e6,
        "pause": max([*pauses, health["snapshot_seconds"]]),
        "snapshot": health["state_bytes"] / 1e6,
        "waiting": waiting,
    }


def in_process(*case: Any) -> dict[str, float]:
    """Run a case in a process of its own, with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--case", json.dumps([*case, folder])]
        done = subprocess.run(command, check=True, capture_output=True, env={**os.environ, **ONE_THREAD})
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3, help="processes of each case")
    parser.add_argument("--case", help="only this one, in this process")
    options = parser.parse_args()
    if options.case is not None:
        selector, deadline, missing, rounds, folder = json.loads(options.case)
        print(json.dumps(run(selector, deadline, missing, rounds, Path(folder))))
        return
    failed = False
    for selector, deadline in CASES:
        found: dict[int, list[dict[str, float]]] = {0: [], MISSING: []}
        for _ in range(options.times):
            for missing, runs in found.items():
                runs.append(in_process(selector, deadline, missing, options.rounds))
        rows = {
            missing: {name: median(each[name] for each in runs) for name in runs[0]} for missing, runs in found.items()
        }
        for missing, row in rows.items():
            case = f"{selector:9} {deadline or 'none':4} {missing:2} missing"
            costs = f"{row['memory']:6.1f} MB {row['cpu']:5.0f} µs a round"
            snapshot = f"pause {row['pause'] * 1e3:5.1f} ms snapshot {row['snapshot']:6.2f} MB"
            print(f"{case}: {costs} {snapshot} {row['waiting']:9,.0f} waiting")
        memory, cpu = (rows[MISSING][name] / rows[0][name] for name in ("memory", "cpu"))
        failed |= memory > MEMORY or cpu > CPU or max(row["pause"] for row in rows.values()) > PAUSE
        print(f"{'':14} ratios: memory {memory:.2f}, CPU {cpu:.2f}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
