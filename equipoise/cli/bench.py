"""`equipoise bench`: measure speed. Needs a checkout, since the benchmarks are not installed with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from equipoise.cli.app import app
from equipoise.errors import InvalidArgument


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def bench(context: typer.Context) -> None:
    """Measure the time per round, compared with plain loops and other libraries. Needs a checkout."""
    if not Path("tools", "bench", "command.py").is_file():
        raise InvalidArgument("the benchmarks are not installed with equipoise: run this in the root of a checkout")
    raise typer.Exit(subprocess.run([sys.executable, "-m", "tools.bench", *context.args], check=False).returncode)
