"""A log that is larger than the memory it may take."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from equipoise.logs import Rounds, tables
from equipoise.logs.rounds import NO_ID

MAX_MEGABYTES = 320
ROUNDS, BATCH = 300_000, 2_500
PROGRAM = """
import re, sys
from pathlib import Path
from equipoise.logs import open_log, tables
from equipoise.logs.health import health

tables.BATCH_CELLS = 1 << 19  # smaller than usual, so that a smaller log shows it
log = open_log(sys.argv[1])
assert log.n_rounds == 300_000 and health(log).passed
# The peak of this program alone: getrusage would count that of the process that started it.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def generated() -> Iterator[Rounds]:
    for first in range(0, ROUNDS, BATCH):
        rows, nothing = np.arange(first, first + BATCH), np.full(BATCH, np.nan)
        offers = np.random.default_rng(first).random((BATCH, 10, 16))
        shares = np.full(BATCH, 0.1), np.full((BATCH, 10), np.nan)
        ones, no_ids = np.ones(BATCH), np.full(BATCH, NO_ID)
        n_offered, empty = np.full(BATCH, 10), np.empty((BATCH, 0))
        yield Rounds(rows + 1, empty, offers, n_offered, rows % 10, offers[:, 0, 0], *shares, ones, nothing, no_ids)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_log_may_be_larger_than_the_memory_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening and checking it, in one process with its libraries; who wrote it is another process."""
    monkeypatch.setattr(tables, "BATCH_CELLS", 1 << 19)
    path = tmp_path / "log.parquet"
    tables.write_parquet(generated(), path)
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < MAX_MEGABYTES < path.stat().st_size / 2**20
