"""Experiments of a user's own: run in any number of processes, or told in one line why not."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from equipoise.experiments.results import CURVES, ELIMINATIONS, EXPERIMENT
from equipoise.experiments.runner import run
from tests.own_experiment import OWN


def test_an_experiment_outside_the_package_runs_in_any_number_of_processes(tmp_path: Path) -> None:
    for jobs in (1, 2):
        run(OWN, out=tmp_path / str(jobs), jobs=jobs)
    for name in (CURVES, ELIMINATIONS, EXPERIMENT):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    curves = pl.read_parquet(tmp_path / "2" / CURVES)
    assert curves["seed"].unique().sort().to_list() == [0, 1, 2]
