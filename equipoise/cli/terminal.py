"""Terminal output of commands: a progress bar, tables and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

if TYPE_CHECKING:
    from equipoise.lab.runs.results import Results
    from equipoise.lab.suite.suite import Outcome


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yields a function that reports the current step and the share of the work done since its last call."""
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
    from equipoise.lab.report.tables import COLUMNS, facts, overview

    summary = results.summary
    seeds = "1 seed" if summary["seeds"] == 1 else f"{summary['seeds']} seeds"
    typer.echo(f"\n{results.experiment['title']} ({summary['rounds']:,} rounds, {seeds})")
    for instance in results.instances:
        typer.echo(f"\n{typer.style(instance, bold=True)}" if instance else "")
        learners, selectors = (
            [(row.name, *row.cells) for row in overview(summary, instance) if row.kind == kind]
            for kind in ("learner", "selector")
        )
        between = [()] if learners and selectors else []
        styles = [*("" for _ in (*learners, *between)), *("bold" for _ in selectors)]
        rows = [*learners, *between, *selectors]
        print_table(["", *COLUMNS], rows, styles=styles, caption=facts(summary, instance))
    print_paths(paths)


def print_suite(outcome: Outcome, paths: Sequence[Path]) -> None:
    from equipoise.lab.suite.report import describe_table
    from equipoise.lab.suite.tables import TITLES, leaders

    for name in outcome.scores:
        typer.echo(f"\n{typer.style(TITLES[name], bold=True)}\n{describe_table(outcome, name)}\n")
        (_, *head), *rows = leaders(outcome, name)
        print_table(["", *head], rows)
    print_paths(paths)


def print_paths(paths: Sequence[Path]) -> None:
    typer.echo("\nWritten:")
    for path in paths:
        typer.echo(f"  {path}")


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    styles: Sequence[str] = (),
    justify: Literal["left", "right"] = "right",
    caption: str = "",
) -> None:
    """Print a table without cutting cells, however narrow the terminal; `justify` is for columns after the first."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), caption=caption or None)
    table.caption_justify = "left"
    for i, column in enumerate(head):
        table.add_column(column, justify=justify if i else "left", no_wrap=True)
    for cells, style in zip_longest(rows, styles, fillvalue=""):
        table.add_row(*map(escape, cells), style=style)
    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=1000), table).maximum
    console.width = max(console.width, needed)
    console.print(table)
