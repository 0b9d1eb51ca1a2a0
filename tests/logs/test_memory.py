"""A log that is larger than the memory it may take."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from equipoise.logs import open_log
from equipoise.logs.health import health
from equipoise.logs.rounds import NO_ID, Rounds
from equipoise.logs.writing import write_parquet

def generated(n_batches):
    for k in range(n_batches):
        offers, rows = np.random.default_rng(k).random((10_000, 10, 16)), np.arange(10_000) + 10_000 * k
        actions, nothing = rows % 10, np.full(10_000, np.nan)
        yield Rounds(rows + 1, np.empty((10_000, 0)), offers, np.full(10_000, 10), actions, offers[:, 0, 0],
                     np.full(10_000, 0.1), np.full((10_000, 10), np.nan), np.ones(10_000), nothing,
                     np.full(10_000, NO_ID))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

path = sys.argv[1]
write_parquet(generated(1), path)
assert health(open_log(path)).passed
before = peak()
write_parquet(generated(30), path)
log = open_log(path)
assert log.n_rounds == 300_000 and health(log).passed
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Writing, opening and checking 384 MB of features takes at most 256 MB more than a thirtieth of it."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "log.parquet")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "log.parquet").stat().st_size > 300 * 2**20
    assert float(run.stdout) < 256.0, run.stdout
