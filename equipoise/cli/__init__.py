"""The command line, one file per subject.

Commands import what they need when they run, so that help is fast. Invalid input gives one line on stderr and exit code
2; a failed verification has exit code 1, an interruption 130.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.errors import EquipoiseError, MissingExtra, explain_missing

if TYPE_CHECKING:
    import typer

INTERRUPTED = 130  # the code that Typer uses too
RESUMED = ("run", "suite")  # commands that continue what was interrupted


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its exit code."""
    try:
        code = _run(arguments)
    except EquipoiseError as error:
        code = _print_error(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ModuleNotFoundError as error:
        missing = explain_missing(error)
        if missing is None:
            raise
        code = _print_error(str(missing))
    if code == INTERRUPTED:
        command = next(iter(sys.argv[1:] if arguments is None else arguments), "")
        kept = "; finished work is kept, and the same command continues from there" if command in RESUMED else ""
        _print_error(f"interrupted{kept}")
    sys.exit(code)


def application() -> typer.Typer:
    """The application with all its commands."""
    from equipoise.cli import journals, logs, research, service  # noqa: F401 - each adds its commands
    from equipoise.cli.app import app

    return app


def _run(arguments: Sequence[str] | None) -> int | None:
    try:
        import typer
    except ModuleNotFoundError:
        raise MissingExtra("the command line", "typer", "cli") from None
    try:
        code: int | None = application()(args=arguments, prog_name="equipoise", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        # A usage error. Its class is in another package in some versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        if error.format_message():  # empty if the help was shown instead
            _print_error(error.format_message())
        return 2
    return code


def _print_error(message: str) -> int:
    print(f"equipoise: {' '.join(message.split())}", file=sys.stderr)
    return 2
