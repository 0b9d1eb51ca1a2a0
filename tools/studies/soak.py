"""Whether the service stays as it is for an hour: `python -m tools.studies.soak [--seconds N] [--requests N] [--leak]`.

The load of `serve_load` on a durable service, with rewards in batches and a deadline, until the time is over or there
were as many requests as asked for. Printed every minute: requests, memory of the process, open decisions, size of the
journal. It fails if a request failed, if the service logged a warning, or if memory rose by more than a twentieth
between the first and the last quarter of the samples since all that is bounded is full. What fills at first are the
closed decisions that the service remembers (at most twice `MAX_SETTLED`); of the rest, the history of a portfolio
(5,000 numbers) and the timeline of the dashboard (5 times 180 samples) are below a megabyte.

With --leak the service forgets no closed decision: the control, which must fail after a few minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from math import nan
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from equipoise.serve.hosted import MAX_SETTLED
from tools.studies.serve_load import BATCH, CONFIG, ONE_THREAD, PORT, start_wrk, wait_until_ready, write_script

DEADLINE = '[reward]\nrange = [0, 1]\ndeadline = "60s"\ndefault = 0.0\n'
GROWTH = 1.05  # of memory, at most
LEAK = """
import runpy, sys
from equipoise.serve import hosted
hosted.MAX_SETTLED = 10**9
sys.argv[0] = "equipoise"
runpy.run_module("equipoise", run_name="__main__", alter_sys=True)
"""


class Sample(NamedTuple):
    """The service at a moment."""

    seconds: float
    decisions: int
    memory_megabytes: float
    open_decisions: int
    journal_megabytes: float

    @property
    def requests(self) -> int:
        return self.decisions + self.decisions // BATCH


def sample(pid: int, since: float, journal: Path) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]
    with urlopen(f"http://127.0.0.1:{PORT}/v1/portfolios/load", timeout=600) as answer:
        health = json.load(answer)["health"]
    size = sum(file.stat().st_size for file in journal.parent.iterdir())
    return Sample(time.monotonic() - since, health["rounds"], kilobytes / 1024, health["open"], size / 2**20)


def memory_ratio(samples: list[Sample]) -> float:
    """Mean memory of the last quarter over that of the first, once closed decisions are forgotten as fast as made.

    nan if there are too few samples to tell.
    """
    filled = [row.memory_megabytes for row in samples if row.decisions > 2 * MAX_SETTLED]
    quarter = len(filled) // 4
    return sum(filled[-quarter:]) / sum(filled[:quarter]) if quarter else nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--requests", type=int, default=10_000_000)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two samples")
    parser.add_argument("--leak", action="store_true", help="forget nothing: must be caught")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "load.toml").write_text(CONFIG.replace("[[learner]]", DEADLINE + "[[learner]]", 1))
        journal, log = folder / "data" / "load.db", folder / "log"
        module = ["-c", LEAK] if options.leak else ["-m", "equipoise"]
        serve = [*module, "serve", str(folder / "load.toml"), "--port", str(PORT)]
        with log.open("wb") as lines:
            command = [sys.executable, *serve, "--data", str(journal.parent)]
            server = subprocess.Popen(command, stderr=lines, env={**os.environ, **ONE_THREAD})
        wait_until_ready()
        since, samples = time.monotonic(), [Sample(0.0, 0, 0.0, 0, 0.0)]
        load = start_wrk(write_script(folder), options.seconds)
        try:
            while load.poll() is None and samples[-1].requests < options.requests:
                time.sleep(options.every)
                samples.append(sample(server.pid, since, journal))
                row = samples[-1]
                print(
                    f"{row.seconds:6.0f} s {row.requests:11,} requests {row.memory_megabytes:7.1f} MB "
                    f"{row.open_decisions:6,} open {row.journal_megabytes:8,.0f} MB journal",
                    flush=True,
                )
        finally:
            load.send_signal(signal.SIGINT)  # wrk then prints what it counted
            output, _ = load.communicate()
            server.terminate()
            server.wait()
        warnings = [line for line in log.read_text().splitlines() if json.loads(line)["level"] != "info"]
    failed = re.findall(r"Non-2xx.*|Socket errors.*", output)
    ratio = memory_ratio(samples)
    print(f"errors: {failed or 'none'}; warnings: {warnings[:3] or 'none'}; memory last over first {ratio:.3f}")
    sys.exit(bool(failed or warnings) or not ratio <= GROWTH)


if __name__ == "__main__":
    main()
