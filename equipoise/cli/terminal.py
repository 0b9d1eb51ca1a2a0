"""Terminal output of commands: a progress bar, tables and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from equipoise.lab.report.kit import Table
    from equipoise.lab.runs.results import Results
    from equipoise.lab.suite.suite import Outcome

STYLES = {"": "", "selector": "bold", "bad": "bold red"}  # of marked rows


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields a function that reports the current step and the share of the work done since its last call."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    columns = progress.BarColumn(), progress.TaskProgressColumn(), *times, progress.TextColumn("{task.fields[what]}")
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, what="starting")
        yield lambda what, share: bar.update(task, advance=share, what=what)


def print_results(results: Results, paths: Sequence[Path]) -> None:
    from equipoise.lab.report.run_report import overview
    from equipoise.lab.runs.summary import facts

    summary = results.summary
    seeds = "1 seed" if summary["seeds"] == 1 else f"{summary['seeds']} seeds"
    typer.echo(f"\n{results.experiment['title']} ({summary['rounds']:,} rounds, {seeds})")
    for instance in results.instances:
        typer.echo(f"\n{typer.style(instance, bold=True)}" if instance else "")
        print_table(overview(summary, instance))
        if unknown := facts(summary, instance):
            typer.echo(f"Unknown to the learners: {unknown}")
    print_paths(paths)


def print_suite(outcome: Outcome, paths: Sequence[Path]) -> None:
    from equipoise.lab.suite.report import describe_table
    from equipoise.lab.suite.tables import TITLES, leaders

    for name in outcome.scores:
        typer.echo(f"\n{typer.style(TITLES[name], bold=True)}\n{describe_table(outcome, name)}\n")
        print_table(leaders(outcome, name))
    print_paths(paths)


def print_paths(paths: Sequence[Path]) -> None:
    typer.echo("\nWritten:")
    for path in paths:
        typer.echo(f"  {path}")


def print_table(table: Table) -> None:
    """Print a table without cutting cells, however narrow the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(table.head):
        grid.add_column(column, justify="left" if i in table.left else "right", no_wrap=True)
    for i, cells in enumerate(table.rows):
        mark = table.marks.get(i, "")
        if mark == "selector" and i and i - 1 not in table.marks:
            grid.add_row()  # between learners and selectors
        grid.add_row(*map(escape, cells), style=STYLES[mark])
    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=1000), grid).maximum
    console.width = max(console.width, needed)
    console.print(grid)
