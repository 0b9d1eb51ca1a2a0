"""Experiments of a user's own: run in any number of processes, or told in one line why not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from equipoise.errors import InvalidArgument
from equipoise.lab.experiments import Setup
from equipoise.lab.runs.results import CURVES, ELIMINATIONS, EXPERIMENT
from equipoise.lab.runs.runner import run
from tests.own_experiment import OWN, Coins, Habit, InTurn, build


@pytest.mark.slow
def test_an_experiment_outside_the_package_runs_in_any_number_of_processes(tmp_path: Path) -> None:
    for jobs in (1, 2):
        run(OWN, out=tmp_path / str(jobs), jobs=jobs)
    for name in (CURVES, ELIMINATIONS, EXPERIMENT):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    curves = pl.read_parquet(tmp_path / "2" / CURVES)
    assert curves["seed"].unique().sort().to_list() == [0, 1, 2]


def test_an_executor_may_be_given(tmp_path: Path) -> None:
    run(OWN, out=tmp_path / "one", jobs=1)
    with ThreadPoolExecutor(2) as threads:
        run(OWN, out=tmp_path / "threads", jobs=threads)
    assert (tmp_path / "one" / CURVES).read_bytes() == (tmp_path / "threads" / CURVES).read_bytes()


def test_an_experiment_that_cannot_be_sent_is_one_line(tmp_path: Path) -> None:
    built_here = replace(OWN, build=lambda settings, seed: build(settings, seed))
    with pytest.raises(InvalidArgument, match=r"^experiment 'own' cannot be sent to another process \(.*use one job$"):
        run(built_here, out=tmp_path, jobs=2)
    run(built_here, out=tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ((Coins, (Habit(0),), {"s": InTurn(1, False)}), "problem is the class Coins"),
        ((Coins(True), (Habit,), {"s": InTurn(1, False)}), "learner 0 is the class Habit"),
        ((Coins(True), (Habit(0),), {"s": InTurn}), "selector 's' is the class InTurn"),
    ],
)
def test_a_class_in_place_of_an_object_is_one_line(parts: tuple[Any, ...], what: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{what}, but must be an instance: write {what.split()[-1]}\(...\)$"):
        Setup(*parts)


def test_a_name_in_place_of_an_experiment_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^experiment is 'nested', but must be an Experiment$"):
        run("nested", out=tmp_path)  # type: ignore[arg-type]
