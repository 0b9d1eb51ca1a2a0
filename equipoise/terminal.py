"""What commands show on the terminal: a bar while they work, tables and paths at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.experiments.results import Results
    from equipoise.suite.suite import Outcome
    from equipoise.types import Plain


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A function that tells what is going on and the share of the whole finished since it was last called."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[what]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, what="starting")
        yield lambda what, share: bar.update(task, advance=share, what=what)


def print_results(results: Results, paths: Sequence[Path]) -> None:
    summary = results.summary
    seeds = "1 seed" if summary["seeds"] == 1 else f"{summary['seeds']} seeds"
    typer.echo(f"\n{results.experiment['title']} ({summary['rounds']:,} rounds, {seeds})")
    for instance in results.instances:
        typer.echo(f"\n{typer.style(instance, bold=True)}" if instance else "")
        print_whole(_table(summary, instance))
    print_paths(paths)


def print_suite(outcome: Outcome, paths: Sequence[Path]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from equipoise.suite.report import in_short
    from equipoise.suite.tables import TITLES, leaders

    for name in outcome.scores:
        (_, *head), *rows = leaders(outcome, name)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("", no_wrap=True)
        for column in head:
            table.add_column(column, justify="right", no_wrap=True)
        for cells in rows:
            table.add_row(*map(escape, cells))
        typer.echo(f"\n{typer.style(TITLES[name], bold=True)}\n{in_short(outcome, name)}\n")
        print_whole(table)
    print_paths(paths)


def print_paths(paths: Sequence[Path]) -> None:
    typer.echo("\nWritten:")
    for path in paths:
        typer.echo(f"  {path}")


def print_whole(table: Table) -> None:
    """No cell is cut, however narrow the terminal or wherever the output goes."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=1000), table).maximum
    console.width = max(console.width, needed)
    console.print(table)


def _table(summary: Mapping[str, Plain], instance: str) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from equipoise.experiments.tables import COLUMNS, facts, overview

    rows = overview(summary, instance)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), caption=facts(summary, instance) or None)
    table.caption_justify = "left"
    table.add_column("", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for i, row in enumerate(rows):
        if row.kind == "selector" and rows[i - 1].kind == "learner":
            table.add_row()
        table.add_row(*map(escape, (row.name, *row.cells)), style="bold" if row.kind == "selector" else None)
    return table


def summary_table(rows: Sequence[Sequence[str]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("claim", "", "subjects", "violated", "largest share", "verdict"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row), style=None if row[-1] == "holds" else "bold red")
    return table
