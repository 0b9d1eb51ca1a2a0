"""`equipoise audit`: check theorems by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import ExecutorOption, app, check_folder, print_error
from equipoise.cli.terminal import print_table, progress_bar
from equipoise.errors import require

COLUMNS = ("claim", "", "subjects", "violated", "largest share", "result")


@app.command()
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Only a few short runs.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Number of parallel processes.", show_default="one per core")] = None,
    executor: ExecutorOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/audit"),
) -> None:
    """Check the theorems in simulations whose true regret is known. Exits with code 1 if one is violated."""
    require("equipoise audit", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.audit.command import run as run_audit
    from equipoise.lab.audit.report import describe_controls, describe_outcome, publish, summary_rows
    from equipoise.lab.clusters import open_executor

    check_folder("--out", out)
    with open_executor(executor) as cluster, progress_bar() as progress:
        result = run_audit(quick=quick, jobs=jobs, executor=cluster, progress=progress)
    rows = list(summary_rows(result))
    styles = ["" if row[-1] == "holds" else "bold red" for row in rows]
    print_table(COLUMNS, rows, styles=styles, justify="left")
    for row in result.broken:
        low, high = row.interval
        print_error(f"{row.subject}: {row.claim}: {row.violations} of {row.runs} runs, [{low:.3f}, {high:.3f}]")
    typer.echo("\nNegative controls, each of which must be detected:")
    for line in describe_controls(result):
        typer.echo(f"  {line}")
    typer.echo(f"\n{describe_outcome(result)}\n\nWritten:")
    for path in publish(result, out):
        typer.echo(f"  {path}")
    if not result.passed:
        raise typer.Exit(1)
