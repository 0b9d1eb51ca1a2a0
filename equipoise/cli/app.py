"""The application that all commands belong to, and what they share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from equipoise import __version__
from equipoise.errors import InvalidArgument
from equipoise.types import Config

app = typer.Typer(
    name="equipoise",
    help="Online model selection for contextual bandits and reinforcement learning.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def complain(message: str) -> None:
    typer.echo(f"equipoise: {' '.join(message.split())}", err=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def parts_of(words: str | None) -> list[str] | None:
    return None if words is None else [part.strip() for part in words.split(",")]


def parse_settings(words: Sequence[str]) -> Config:
    """Settings from KEY=VALUE; a value is JSON if it reads as such, else text.

    >>> parse_settings(["d_star=8", "noise=gaussian", "share_data=true"])
    {'d_star': 8, 'noise': 'gaussian', 'share_data': True}
    """
    parsed: Config = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"--set is {word!r}, but must have the form KEY=VALUE")
        if key in parsed:
            raise InvalidArgument(f"--set gives {key!r} twice, but must give it once")
        try:
            parsed[key] = json.loads(value, parse_constant=_refuse_constant)
        except ValueError:
            parsed[key] = value
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are no JSON
