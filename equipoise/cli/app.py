"""The application, and what its commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from equipoise import __version__
from equipoise.errors import InvalidArgument
from equipoise.types import Config, Plain

Function = TypeVar("Function", bound=Callable[..., Plain])

# The commands as `--help` lists them.
GROUPS = {
    "Run and watch": ("serve", "check", "token", "personalizer", "show", "rebuild", "backup", "restore", "redact"),
    "Logs": ("replay",),
    "Research": ("run", "suite", "audit", "verify", "list"),
}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


class InGroups(TyperGroup):
    """Lists commands in the order of GROUPS, whichever module adds them first."""

    def list_commands(self, ctx: Any) -> list[str]:  # its class is in another package in some versions of Typer
        return list(GROUP_OF)


app = typer.Typer(
    name="equipoise",
    cls=InGroups,
    help="Online model selection for contextual bandits and reinforcement learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command(name: str) -> Callable[[Function], Function]:
    """Make a function the command of this name, in its group of the help."""
    return app.command(name, rich_help_panel=GROUP_OF[name])


def print_error(message: str) -> None:
    typer.echo(f"equipoise: {' '.join(message.split())}", err=True)


def check_folder(name: str, path: Path) -> None:
    """Raise an error if a folder for results cannot be one, before the work that they take."""
    if path.exists() and not path.is_dir():
        raise InvalidArgument(f"{name} is {str(path)!r}, but must be a folder")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


Version = typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")


@app.callback()
def _options(version: Annotated[bool, Version] = False) -> None:
    pass


def split_names(text: str | None) -> list[str] | None:
    """Names that are separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_settings(arguments: Sequence[str]) -> Config:
    """Settings from KEY=VALUE; a value that is not valid JSON is a string.

    >>> parse_settings(["d_star=8", "noise=gaussian", "share_data=true"])
    {'d_star': 8, 'noise': 'gaussian', 'share_data': True}
    """
    settings: Config = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"--set is {argument!r}, but must have the form KEY=VALUE")
        if key in settings:
            raise InvalidArgument(f"--set gives {key!r} twice, but must give it once")
        try:
            settings[key] = json.loads(value, parse_constant=_refuse_constant)
        except ValueError:
            settings[key] = value
    return settings


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are not JSON
