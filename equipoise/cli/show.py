"""`equipoise show`: show a saved portfolio or a run, in words and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app
from equipoise.cli.terminal import print_paths, print_results
from equipoise.errors import UnreadableFile, require


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A saved portfolio, or the folder of a run.")],
    out: Annotated[
        Path | None, typer.Option(help="Page to write, for a portfolio.", show_default="FILE with the ending .html")
    ] = None,
) -> None:
    """Describe a saved portfolio and write a page with its history; or show the results of a run."""
    require("equipoise show", "matplotlib")
    if path.is_dir():
        _show_run(path)
        return
    if not path.is_file():
        raise UnreadableFile(f"{str(path)!r} does not exist: give a file that Portfolio.save() wrote or a run's folder")
    from equipoise.portfolio import Portfolio
    from equipoise.portfolio.explaining import explain, rule_of

    portfolio = Portfolio.load(path)
    typer.echo(portfolio.describe())
    typer.echo(f"\n{rule_of(portfolio)}")
    for name in portfolio.learner_names:
        typer.echo(explain(portfolio, name, with_rule=False))
    page = out or path.with_name(f"{path.name}.html")
    portfolio.plot(page)
    print_paths([page])


def _show_run(folder: Path) -> None:
    require("equipoise show", "polars")
    from equipoise.lab.report.report import publish
    from equipoise.lab.runs.results import load_results

    results = load_results(folder)
    print_results(results, publish(results))
