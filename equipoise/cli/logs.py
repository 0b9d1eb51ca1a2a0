"""`equipoise replay`: evaluate learners on a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import check_folder, command, print_error
from equipoise.cli.terminal import print_paths, print_table, progress_bar
from equipoise.errors import require


@command("replay")
def replay(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log: dsjson, VW text, CSV, Parquet or a journal.")],
    config: Annotated[Path, typer.Option(help="The portfolio, as portfolio.toml.")],
    format: Annotated[str, typer.Option(help="auto, dsjson, vw, csv, parquet or journal.")] = "auto",
    method: Annotated[str, typer.Option(help="How learners are judged: progressive or rejection.")] = "progressive",
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/replay"),
    skip_bad_rows: Annotated[int, typer.Option(help="Number of faulty rows to skip; the report counts them.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of learners and thinning.")] = 0,
) -> None:
    """Replay a log: its health, every learner against the policy that logged it, the portfolio, suggested bounds.

    Exits with code 1 if the log fails its health check.
    """
    require("equipoise replay", "polars", "msgspec", "matplotlib", "numba")
    from equipoise import config as configuration
    from equipoise.logs import InvalidLog, open_log
    from equipoise.logs.replay import METHODS
    from equipoise.logs.report import bound_lines, interval_lines, learner_table, portfolio_line, publish, run
    from equipoise.settings.checks import one_of

    one_of("--method", method, METHODS)
    check_folder("--out", out)
    portfolio = configuration.read(config)
    with progress_bar() as progress:
        progress("reading", 0.0)
        try:
            opened = open_log(log, format, skip_bad_rows=skip_bad_rows, schema=portfolio.settings.schema)
        except InvalidLog as error:  # with one line for each fault
            typer.echo(f"equipoise: {error}", err=True)
            raise typer.Exit(2) from None
        result = run(opened, portfolio, method=method, seed=seed, progress=progress)
        progress("drawing", 0.0)
        paths = publish(result, out)
    typer.echo(f"{opened.name}: {opened.n_rounds:,} rounds, {opened.n_actions} actions")
    if opened.n_skipped:
        typer.echo(f"{opened.n_skipped:,} faulty rows skipped")
    typer.echo(f"\n{result.health.describe()}\n")
    print_table(learner_table(result))
    for name, text in interval_lines(result):
        typer.echo(f"  {name}: {text}")
    typer.echo(f"\n{portfolio_line(result)}")
    typer.echo("\nSuggested bounds:")
    for line in bound_lines(result.replay):
        typer.echo(f"  {line}")
    print_paths(paths)
    if not result.health.passed:
        print_error(f"{opened.name} fails its health check")
        raise typer.Exit(1)
