"""How the commands of this folder start: as those of the package do."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from equipoise.errors import EquipoiseError


def run_command(command: Callable[..., None]) -> None:
    """Run a function whose arguments are those of the command line; wrong input is one line and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app()
    except EquipoiseError as error:
        typer.echo(" ".join(str(error).split()), err=True)
        sys.exit(2)
