"""`equipoise run`: run an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import ExecutorOption, app, parse_settings, split_names
from equipoise.cli.terminal import print_results, progress_bar
from equipoise.errors import UnknownName, require
from equipoise.types import Plain

if TYPE_CHECKING:
    from equipoise.lab.experiment import Experiment
    from equipoise.lab.runs.results import Results


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of the experiment, as in `equipoise list experiments`.")],
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.", show_default="as in the experiment")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="as in the experiment")] = None,
    selectors: Annotated[
        str | None, typer.Option(help="Names of selectors, separated by commas.", show_default="all of the experiment")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of parallel processes.", show_default="one per core")] = None,
    executor: ExecutorOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="results/NAME")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the experiment. May be repeated."),
    ] = None,
) -> None:
    """Run an experiment, or continue one that was interrupted, and write its results, figure and report."""
    require("equipoise run", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.experiments import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    arguments = {
        "rounds": rounds,
        "seeds": seeds,
        "selectors": split_names(selectors),
        "jobs": jobs,
        "executor": executor,
        "out": out or Path("results") / name,
        "overrides": parse_settings(settings or []),
    }
    results, paths = run_with_progress(EXPERIMENTS[name], arguments)
    print_results(results, paths)


def run_with_progress(experiment: Experiment, arguments: Mapping[str, Plain]) -> tuple[Results, list[Path]]:
    from equipoise.lab.clusters import open_executor
    from equipoise.lab.report.report import publish
    from equipoise.lab.runs.runner import run as run_experiment

    with open_executor(arguments["executor"]) as cluster, progress_bar() as progress:
        results = run_experiment(experiment, progress=progress, **{**arguments, "executor": cluster})
        progress("drawing", 0.0)
        return results, publish(results)
