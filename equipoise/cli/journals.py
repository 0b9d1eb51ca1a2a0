"""`equipoise rebuild`, `backup` and `restore`: what is done with a journal from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, print_error

MAX_DIFFERENCES = 20  # printed one by one

JournalPath = Annotated[Path, typer.Argument(metavar="JOURNAL", help="File of a journal, such as shop.db.")]


@app.command()
def rebuild(path: JournalPath) -> None:
    """Fold a journal from its first event, and say what differs from what a start would give.

    Exits with code 1 if anything does. Nothing is changed, and the journal may be in use meanwhile.
    """
    from equipoise.journal import SQLiteJournal
    from equipoise.journal.maintenance import compare

    rebuilt, recovered, differences = compare(SQLiteJournal(path, create=False))
    if rebuilt.start > 1:
        typer.echo(f"{path}: events up to {rebuilt.start:,} have lost data, so the rebuild starts at their snapshot")
    for difference in differences[:MAX_DIFFERENCES]:
        print_error(f"{path}: {difference}")
    if differences:
        print_error(f"{path}: {len(differences)} differences between rebuild and recovery")
        raise typer.Exit(1)
    typer.echo(
        f"{path}: events {rebuilt.start:,} to {rebuilt.seq:,} give the same state as the start from event "
        f"{recovered.start:,}"
    )


@app.command()
def backup(
    path: JournalPath,
    target: Annotated[Path, typer.Argument(metavar="COPY", help="File to write; must not exist.")],
) -> None:
    """Write a complete copy of a journal, which may be in use meanwhile."""
    from equipoise.journal.maintenance import backup as write_backup

    n_events = write_backup(path, target)
    typer.echo(f"{target}: {n_events:,} events")


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="File that `equipoise backup` wrote.")],
    path: JournalPath,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing journal.")] = False,
) -> None:
    """Make a journal from a backup after checking all of it. A journal that is open in a process is left alone."""
    from equipoise.journal.maintenance import restore as restore_backup

    n_events = restore_backup(copy, path, replace=replace)
    typer.echo(f"{path}: {n_events:,} events")
