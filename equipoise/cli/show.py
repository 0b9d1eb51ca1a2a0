"""`equipoise show`: show a saved portfolio, a journal or a run, in words and as a page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import app, print_error
from equipoise.cli.terminal import print_paths, print_results
from equipoise.errors import UnreadableFile, require

if TYPE_CHECKING:
    from equipoise.portfolio import Portfolio

SQLITE = b"SQLite format 3\x00"


@app.command()
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
        _show_run(path)
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
    for seq in recovered.damaged:
        print_error(f"{path}: the snapshot at event {seq:,} is damaged and was not used")
    return recovered.portfolio


def _print_portfolio(portfolio: Portfolio) -> None:
    from equipoise.portfolio.explaining import explain, rule_of

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
    typer.echo(f"\n{rule_of(portfolio)}")
    for name, learner in zip(portfolio.learner_names, portfolio.learners, strict=True):
        if learner is not None:
            typer.echo(explain(portfolio, name, with_rule=False))


def _show_run(folder: Path) -> None:
    require("equipoise show", "matplotlib", "polars")
    from equipoise.lab.report.report import publish
    from equipoise.lab.runs.results import load_results

    results = load_results(folder)
    print_results(results, publish(results))
