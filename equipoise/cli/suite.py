"""`equipoise suite`: compare all selectors on the same problem instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import ExecutorOption, app, split_names
from equipoise.cli.terminal import print_suite, progress_bar
from equipoise.errors import require


@app.command()
def suite(
    selectors: Annotated[
        str | None, typer.Option(help="Names of selectors, separated by commas.", show_default="all")
    ] = None,
    instances: Annotated[
        str | None, typer.Option(help="Names of problem instances, separated by commas.", show_default="all")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="20, or 2 with --quick")] = None,
    first_seed: Annotated[
        int | None, typer.Option(help="The first seed.", show_default="2000, or 0 with --quick")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of parallel processes.", show_default="one per core")] = None,
    executor: ExecutorOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs, to see that everything works; the results mean nothing.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for recorded data and results.", show_default="results/suite[-quick]")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the leaderboard page.", show_default="docs, if all was run")
    ] = None,
) -> None:
    """Run all selectors on the same problem instances, or continue after an interruption, and write the leaderboard."""
    require("equipoise suite", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.clusters import open_executor
    from equipoise.lab.suite.report import publish
    from equipoise.lab.suite.suite import run_suite

    folder = out or Path("results") / ("suite-quick" if quick else "suite")
    with open_executor(executor) as cluster, progress_bar() as progress:
        outcome = run_suite(
            out=folder,
            instances=split_names(instances),
            selectors=split_names(selectors),
            seeds=seeds,
            first_seed=first_seed,
            jobs=jobs,
            executor=cluster,
            quick=quick,
            progress=progress,
        )
        progress("drawing", 0.0)
        paths = publish(outcome, folder, docs or (Path("docs") if outcome.is_whole else None))
    print_suite(outcome, paths)
