"""`equipoise show`, `rebuild`, `backup`, `restore` and `redact`: look at and keep saved portfolios and journals."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import command, print_error
from equipoise.cli.terminal import print_paths, print_results
from equipoise.errors import JournalLocked, UnreadableFile, require

if TYPE_CHECKING:
    from equipoise.portfolio import Portfolio

SQLITE = b"SQLite format 3\x00"
MAX_DIFFERENCES = 20  # printed one by one

JournalPath = Annotated[Path, typer.Argument(metavar="JOURNAL", help="File of a journal, such as shop.db.")]


@command("show")
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A saved portfolio, a journal, or the folder of a run.")],
    out: Annotated[
        Path | None, typer.Option(help="Page to write, for a portfolio.", show_default="FILE with the ending .html")
    ] = None,
) -> None:
    """Show what a portfolio has proved, how its learners are doing and why, and write a page with its history.

    A journal may be in use meanwhile. Of a run, its results are shown.
    """
    if path.is_dir():
        require("equipoise show", "matplotlib", "polars")
        from equipoise.lab.report.run_report import publish
        from equipoise.lab.runs.results import load_results

        results = load_results(path)
        print_results(results, publish(results))
        return
    if not path.is_file():
        raise UnreadableFile(
            f"{str(path)!r} does not exist: give a file that Portfolio.save() wrote, a journal or a run's folder"
        )
    portfolio = _open(path)
    _print_portfolio(portfolio)
    if find_spec("matplotlib") is None:
        typer.echo("For a page with pictures: pip install 'equipoise[lab]'")
        return
    page = out or path.with_name(f"{path.name}.html")
    portfolio.plot(page)
    print_paths([page])


def _open(path: Path) -> Portfolio:
    with path.open("rb") as file:
        is_journal = file.read(len(SQLITE)) == SQLITE
    if not is_journal:
        from equipoise.portfolio import Portfolio

        return Portfolio.load(path)
    from equipoise.journal import SQLiteJournal, recover

    journal = SQLiteJournal(path, create=False)
    recovered = recover(journal)
    typer.echo(f"{journal.portfolio}: {recovered.seq:,} events, recovered from event {recovered.start:,}")
    for first, writer in journal.writers():
        typer.echo(f"From event {first:,}: written by {writer}")
    for seq in recovered.damaged:
        print_error(f"{path}: the snapshot at event {seq:,} is damaged and was not used")
    return recovered.portfolio


def _print_portfolio(portfolio: Portfolio) -> None:
    from equipoise.portfolio import text

    health = portfolio.health()
    typer.echo(portfolio.describe())
    typer.echo(
        f"Decisions: {health['open']:,} open, {health['overdue']:,} overdue, {health['expired']:,} expired, "
        f"{health['withdrawn']:,} withdrawn; {health['ignored']:,} rewards came too late."
    )
    for row in health["blocking"]:
        typer.echo(f"Decision {row['id']} of {row['learner']} holds up {row['holds_up']:,} rewards ({row['what']}).")
    for row in health["learners"]:
        if row["failures"]:
            typer.echo(f"{row['name']} failed {row['failures']:,} times, last with {row['last_error']}.")
    typer.echo(f"\n{text.rule(portfolio.statements())}")
    for name, learner in zip(portfolio.learner_names, portfolio.learners, strict=True):
        if learner is not None:
            typer.echo(portfolio.explain(name, with_rule=False))


@command("rebuild")
def rebuild(
    path: JournalPath,
    archive: Annotated[
        Path | None,
        typer.Option(help="Folder of the archive, to begin at the first event; only if no contexts were removed."),
    ] = None,
) -> None:
    """Rebuild the state of a journal from its first event, and list differences from a normal start.

    If older events have lost data or were archived, it begins at the base snapshot. Exits with code 1 if there are
    differences. Nothing is changed, and the journal may be in use meanwhile.
    """
    from equipoise.journal import SQLiteJournal
    from equipoise.journal.archive import Archive
    from equipoise.journal.maintenance import compare
    from equipoise.journal.recovery import describe_changed_rule

    journal = SQLiteJournal(path, create=False)
    whole = None if archive is None else Archive(journal, archive.absolute())
    rebuilt, recovered, differences = compare(journal, archive=whole)
    if rebuilt.start > 1:
        typer.echo(
            f"{path}: events up to {rebuilt.start:,} have lost data or were archived, so the rebuild starts at their "
            "snapshot"
        )
    if changed := describe_changed_rule(rebuilt.portfolio):
        typer.echo(f"{path}: {changed}")
    for difference in differences[:MAX_DIFFERENCES]:
        print_error(f"{path}: {difference}")
    if differences:
        print_error(f"{path}: {len(differences)} differences between rebuild and recovery")
        raise typer.Exit(1)
    typer.echo(
        f"{path}: events {rebuilt.start:,} to {rebuilt.seq:,} give the same state as the start from event "
        f"{recovered.start:,}"
    )


@command("backup")
def backup(
    path: JournalPath, target: Annotated[Path, typer.Argument(metavar="COPY", help="File to write; must not exist.")]
) -> None:
    """Write a complete copy of a journal, which may be in use meanwhile."""
    from equipoise.journal.maintenance import backup as write_backup

    n_events = write_backup(path, target)
    typer.echo(f"{target}: {n_events:,} events")


@command("restore")
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="File that `equipoise backup` wrote.")],
    path: JournalPath,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing journal.")] = False,
) -> None:
    """Make a journal from a backup after checking all of it. A journal that is open in a process is left alone."""
    from equipoise.journal.maintenance import restore as restore_backup

    n_events = restore_backup(copy, path, replace=replace)
    typer.echo(f"{path}: {n_events:,} events")


@command("redact")
def redact(
    path: JournalPath,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="Id of a closed decision; several are possible.")
    ] = None,
    before: Annotated[
        datetime | None, typer.Option(help="Instead of ids: all closed decisions before this date, in UTC.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Instead of ids: all decisions of this unit, which must be closed.")
    ] = None,
    archive: Annotated[Path | None, typer.Option(help="Folder of the archive, if it was moved.")] = None,
) -> None:
    """Remove contexts and outcomes of closed decisions from a journal that is not in use, and from its archive.

    Decisions, rewards and certificates stay. Backups that were made before still have what is removed.
    """
    from equipoise.journal import open as open_journal
    from equipoise.portfolio.settings import Retention

    retention = Retention(archive=None if archive is None else str(archive.absolute()))
    try:
        live = open_journal(path, retention=retention)
    except JournalLocked as error:
        raise JournalLocked(f"{error}: ask the service instead, by POST /v1/portfolios/{path.stem}/forget") from None
    with live:
        time = None if before is None else before.replace(tzinfo=UTC).timestamp()
        n_events = live.redact(ids or None, before=time, unit=unit)
    typer.echo(f"{path}: {n_events:,} events lost their context or outcome")
