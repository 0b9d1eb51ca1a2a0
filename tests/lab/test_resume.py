"""Runs do not depend on the number of processes, and a run that was killed goes on where it stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.slow

SETTINGS = ["--rounds", "200", "--seeds", "4", "--set", "d_max=8", "--set", "d_star=4"]
# Compiling would take longer than these few rounds; interpreted and compiled runs make the same decisions.
ENVIRONMENT = {**os.environ, "NUMBA_DISABLE_JIT": "1"}


def command(out: Path, jobs: int) -> list[str]:
    return [sys.executable, "-m", "equipoise", "run", "nested", *SETTINGS, "--jobs", str(jobs), "--out", str(out)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run(command(out, jobs=1), env=ENVIRONMENT, check=True, capture_output=True)
    return out


def assert_same_content(one: Path, other: Path) -> None:
    assert pl.read_parquet(one / "curves.parquet").equals(pl.read_parquet(other / "curves.parquet"))
    for name in ("eliminations.jsonl", "experiment.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_two_processes_write_what_one_writes(undisturbed: Path, tmp_path: Path) -> None:
    subprocess.run(command(tmp_path / "run", jobs=2), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_content(undisturbed, tmp_path / "run")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_goes_on_with_the_seeds_it_lacks(undisturbed: Path, tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(out, jobs),
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(out.glob("parts/*.json")):
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {part.name: part.stat().st_mtime_ns for part in out.glob("parts/*.json")}
    assert 0 < len(kept) < 4
    assert not (out / "summary.json").exists()
    subprocess.run(command(out, jobs), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_content(undisturbed, out)
    assert {name: (out / "parts" / name).stat().st_mtime_ns for name in kept} == kept


def test_a_part_cut_short_is_computed_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    part = sorted(out.glob("parts/*.json"))[1]
    part.write_bytes(part.read_bytes()[:-40])
    (out / "summary.json").unlink()
    subprocess.run(command(out, jobs=1), env=ENVIRONMENT, check=True, capture_output=True)
    assert_same_content(undisturbed, out)
