"""`equipoise run`: run an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import app, parse_settings, parts_of
from equipoise.cli.terminal import print_results, progress_bar
from equipoise.errors import UnknownName, require
from equipoise.types import Plain

if TYPE_CHECKING:
    from equipoise.lab.experiment import Experiment
    from equipoise.lab.runs.results import Results


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of the experiment; see `equipoise list experiments`.")],
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.", show_default="the experiment's")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="the experiment's")] = None,
    selectors: Annotated[
        str | None, typer.Option(help="Selectors, separated by commas.", show_default="all of the experiment")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="results/NAME")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
) -> None:
    """Run an experiment, or go on with one, and write results, figure and report."""
    require("equipoise run", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.experiments import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    arguments = {
        "rounds": rounds,
        "seeds": seeds,
        "selectors": parts_of(selectors),
        "jobs": jobs,
        "out": out or Path("results") / name,
        "overrides": parse_settings(settings or []),
    }
    results, paths = run_with_progress(EXPERIMENTS[name], arguments)
    print_results(results, paths)


def run_with_progress(experiment: Experiment, arguments: Mapping[str, Plain]) -> tuple[Results, list[Path]]:
    from equipoise.lab.report.report import publish
    from equipoise.lab.runs.runner import run as run_experiment

    with progress_bar() as progress:
        results = run_experiment(experiment, progress=progress, **arguments)
        progress("drawing", 0.0)
        return results, publish(results)
