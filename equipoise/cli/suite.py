"""`equipoise suite`: every selector on the same instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, parts_of
from equipoise.cli.terminal import print_suite, progress_bar
from equipoise.errors import require


@app.command()
def suite(
    selectors: Annotated[
        str | None, typer.Option(help="Selectors to run, separated by commas.", show_default="all")
    ] = None,
    instances: Annotated[str | None, typer.Option(help="Instances, separated by commas.", show_default="all")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", show_default="20; 2 if quick")] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; the prices mean nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tapes and results.", show_default="results/suite[-quick]")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the page.", show_default="docs; none if something was left out")
    ] = None,
) -> None:
    """Run every selector on the same instances, or go on with that, and write the leaderboard."""
    require("equipoise suite", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.suite.report import publish
    from equipoise.lab.suite.suite import run_suite

    folder = out or Path("results") / ("suite-quick" if quick else "suite")
    wanted = {"instances": parts_of(instances), "selectors": parts_of(selectors)}
    with progress_bar() as progress:
        outcome = run_suite(out=folder, **wanted, seeds=seeds, jobs=jobs, quick=quick, progress=progress)
        progress("drawing", 0.0)
        paths = publish(outcome, folder, docs or (Path("docs") if outcome.is_whole else None))
    print_suite(outcome, paths)
