"""The command line, one file per command.

Whatever a command needs beyond its arguments is imported when it runs, so that help comes fast. Wrong input gives one
line on stderr and exit code 2; a verification that fails exits with 1, an interruption with 130.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.errors import EquipoiseError, MissingExtra, explain_missing

if TYPE_CHECKING:
    import typer

INTERRUPTED = 130  # also what Typer makes of an interruption


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    try:
        code = _run(arguments)
    except EquipoiseError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ModuleNotFoundError as error:
        missing = explain_missing(error)
        if missing is None:
            raise
        code = _complain(str(missing))
    if code == INTERRUPTED:
        _complain("interrupted; what is finished is kept, and the same command goes on from there")
    sys.exit(code)


def application() -> typer.Typer:
    """The application with all its commands."""
    from equipoise.cli import audit, bench, list, run, suite, verify  # noqa: F401 - each adds its command
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
        # Wrong usage. Its class lives in another package in some versions of Typer, but always explains itself.
        if not hasattr(error, "format_message"):
            raise
        if error.format_message():  # empty where the help was shown instead
            _complain(error.format_message())
        return 2
    return code


def _complain(message: str) -> int:
    print(f"equipoise: {' '.join(message.split())}", file=sys.stderr)
    return 2
