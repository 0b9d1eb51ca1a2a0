"""What `equipoise bench` shows while it measures and afterwards."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.bench import report
from equipoise.bench.run import run
from equipoise.bench.scale import FULL, QUICK
from equipoise.errors import InvalidArgument


def measure_and_print(quick: bool, yardstick: Path | None, python: Path, out: Path | None) -> None:
    """Measure, print tables and, if `out` is given, write them there."""
    if yardstick is not None and not yardstick.is_file():
        raise InvalidArgument(f"--yardstick is {str(yardstick)!r}, but must be a Python file")
    python = python.absolute()  # not resolved: the link is what tells Python its environment
    try:
        with Console(stderr=True).status("starting") as status:
            data = run(QUICK if quick else FULL, yardstick=yardstick, python=python, progress=status.update)
    except KeyboardInterrupt:
        typer.echo("equipoise: interrupted; nothing was written", err=True)
        raise SystemExit(130) from None
    paths = [] if out is None else report.write(data, out)
    typer.echo(report.machine_line(data))
    _print("One round of LinUCB: decide and learn", report.contest_table(data))
    _print(report.SELECTION_TITLE, report.selection_table(data))
    for line in report.left_out(data):
        typer.echo(f"left out: {line}")
    for group, table in report.figure_tables(data).items():
        _print(group, table)
    if paths:
        typer.echo("\nWritten:")
    for path in paths:
        typer.echo(f"  {path}")


def _print(title: str, rows: report.Table) -> None:
    header, *lines = rows
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for cells in lines:
        table.add_row(*map(escape, cells))
    typer.echo(f"\n{title}\n")
    width = None if Console().is_terminal else 200  # a table in a file is not cut
    Console(highlight=False, width=width).print(table)
