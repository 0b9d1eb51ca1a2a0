"""`equipoise verify`: verify recorded eliminations and comparisons of learners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, print_error
from equipoise.errors import UnreadableFile

FILE = "eliminations.jsonl"
MAX_FAULTS = 20  # printed one by one


@app.command()
def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of a run, or a file of records (JSON lines).")],
) -> None:
    """Verify every elimination or comparison in a file: recompute it from its record, and check its digest.

    Exits with code 1 if a record was changed or proves nothing.
    """
    from equipoise.certificates.records import verify_file

    file = path / FILE if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise UnreadableFile(f"{str(path)!r} has no {FILE}, so it is not the folder of a finished run")
    n_records, faults = verify_file(file)
    for fault in faults[:MAX_FAULTS]:
        print_error(f"{file}: {fault}")
    if faults:
        more = f", {len(faults) - MAX_FAULTS} more not shown" if len(faults) > MAX_FAULTS else ""
        print_error(f"{file}: verification failed, {len(faults)} faults in {n_records} records{more}")
        raise typer.Exit(1)
    typer.echo(f"{file}: {_summary(n_records)}")


def _summary(n_records: int) -> str:
    if n_records == 0:
        return "no learner was eliminated, so there is nothing to verify"
    subject = "1 record" if n_records == 1 else f"all {n_records} records"
    return f"verified {subject}: digests match, and the recomputed inequalities hold"
