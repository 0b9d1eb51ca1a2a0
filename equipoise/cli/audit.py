"""`equipoise audit`: theory against simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, complain
from equipoise.cli.terminal import print_table, progress_bar
from equipoise.errors import require

COLUMNS = ("claim", "", "subjects", "violated", "largest share", "verdict")


@app.command()
def audit(
    quick: Annotated[bool, typer.Option("--quick", help="Few runs of few subjects, in seconds.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("results/audit"),
) -> None:
    """Check what theory promises against simulation, where the truth is known; exits with 1 if a claim fails."""
    require("equipoise audit", "numba", "scipy", "polars", "matplotlib")
    from equipoise.lab.audit.command import run as run_audit
    from equipoise.lab.audit.report import control_words, publish, summary_rows, verdict_words

    with progress_bar() as progress:
        found = run_audit(quick=quick, jobs=jobs, progress=progress)
    rows = list(summary_rows(found))
    styles = ["" if row[-1] == "holds" else "bold red" for row in rows]
    print_table(COLUMNS, rows, styles=styles, justify="left")
    for row in found.broken:
        low, high = row.interval
        complain(f"{row.subject}: {row.claim}: {row.violations} of {row.runs} runs, [{low:.3f}, {high:.3f}]")
    typer.echo("\nControls, each of which must be caught:")
    for words in control_words(found):
        typer.echo(f"  {words}")
    typer.echo(f"\n{verdict_words(found)}\n\nWritten:")
    for path in publish(found, out):
        typer.echo(f"  {path}")
    if not found.passed:
        raise typer.Exit(1)
