"""A log that is larger than the memory it may take."""

import subprocess
import sys
from pathlib import Path

import pytest

MAX_MEGABYTES = 320
PROGRAM = """
import resource, sys
import numpy as np
from equipoise.logs import open_log, tables, writing
from equipoise.logs.health import health
from equipoise.logs.rounds import NO_ID, Rounds

tables.BATCH_CELLS = writing.BATCH_CELLS = 1 << 19  # smaller than usual, so that a smaller log shows it

def generated(n_batches):
    for k in range(n_batches):
        n, rows = 2_500, np.arange(2_500) + 2_500 * k
        offers, nothing = np.random.default_rng(k).random((n, 10, 16)), np.full(n, np.nan)
        yield Rounds(rows + 1, np.empty((n, 0)), offers, np.full(n, 10), rows % 10, offers[:, 0, 0], np.full(n, 0.1),
                     np.full((n, 10), np.nan), np.ones(n), nothing, np.full(n, NO_ID))

writing.write_parquet(generated(120), sys.argv[1])
log = open_log(sys.argv[1])
assert log.n_rounds == 300_000 and health(log).passed
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_a_log_may_be_larger_than_the_memory_it_takes(tmp_path: Path) -> None:
    """Writing, opening and checking it, all in one process with its libraries."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log.parquet")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < MAX_MEGABYTES < (tmp_path / "log.parquet").stat().st_size / 2**20
