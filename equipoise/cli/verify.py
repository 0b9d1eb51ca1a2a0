"""`equipoise verify`: check eliminations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, complain

MAX_FAULTS = 20  # that are shown one by one


@app.command()
def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file of eliminations, or the folder of a run.")],
) -> None:
    """Recompute eliminations from their records and check that nothing was altered."""
    from equipoise.certificates.records import verify_file

    file = path / "eliminations.jsonl" if path.is_dir() else path
    n_records, faults = verify_file(file)
    for fault in faults[:MAX_FAULTS]:
        complain(f"{file}: {fault}")
    if faults:
        more = f", {len(faults) - MAX_FAULTS} more not shown" if len(faults) > MAX_FAULTS else ""
        complain(f"{file}: verification failed, {len(faults)} faults in {n_records} records{more}")
        raise typer.Exit(1)
    verdict = f"all {n_records} eliminations proved by their records" if n_records else "no eliminations to verify"
    typer.echo(f"{file}: {verdict}")
