"""`python -m tools.bench`, in the root of a checkout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import print_error
from equipoise.cli.terminal import print_paths, print_table
from equipoise.errors import InvalidArgument
from tools.bench import machine
from tools.bench.samples import Benchmark


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; the times mean nothing.")] = False,
    yardstick: Annotated[
        Path | None, typer.Option(help="A bare loop to time as well: measure(dim, arms, rounds, repeats).")
    ] = None,
    peers: Annotated[Path, typer.Option(help="Python of the environment of other libraries.")] = Path(
        ".venv-bench/bin/python"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="docs; none if quick")
    ] = None,
) -> None:
    """Measure the time per round beside plain loops and other libraries."""
    if not machine.has_one_thread():
        words = ["--quick"] * quick + ["--peers", str(peers)]
        words += ["--yardstick", str(yardstick)] if yardstick else []
        words += ["--out", str(out)] if out else []
        machine.start_over_with_one_thread(words)
    from rich.console import Console

    from tools.bench import report
    from tools.bench.run import run as run_benchmark
    from tools.bench.scale import FULL, QUICK

    if yardstick is not None and not yardstick.is_file():
        raise InvalidArgument(f"--yardstick is {str(yardstick)!r}, but must be a Python file")
    python = peers.absolute()  # not resolved: the link is what tells Python its environment
    try:
        with Console(stderr=True).status("starting") as status:
            data = run_benchmark(QUICK if quick else FULL, yardstick=yardstick, python=python, progress=status.update)
    except KeyboardInterrupt:
        print_error("interrupted; nothing was written")
        raise typer.Exit(130) from None
    folder = Path("docs") if out is None and not quick else out
    print_benchmark(data, [] if folder is None else report.write(data, folder))


def print_benchmark(data: Benchmark, paths: Sequence[Path]) -> None:
    from tools.bench import report

    typer.echo(report.machine_line(data))
    tables = {
        "One round of LinUCB: decide and learn": report.contest_table(data),
        report.SELECTION_TITLE: report.selection_table(data),
        **report.figure_tables(data),
    }
    for title, table in tables.items():
        typer.echo(f"\n{title}\n")
        print_table(table)
    for line in report.left_out(data):
        typer.echo(f"left out: {line}")
    if paths:
        print_paths(paths)
