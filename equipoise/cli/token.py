"""`equipoise token`: who may use the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app, print_error

tokens = typer.Typer(help="Add, list and remove tokens of the service.", no_args_is_help=True)
app.add_typer(tokens, name="token")

Data = Annotated[Path, typer.Option(help="Folder of the journals and tokens.")]
DEFAULT = Path("equipoise-data")


@tokens.command()
def add(
    name: Annotated[str, typer.Argument(help="What the token is called: a-z, 0-9, _ and -.")],
    scope: Annotated[list[str], typer.Option(help="decide, reward, read or admin; may be repeated.")],
    portfolio: Annotated[list[str] | None, typer.Option(help="Name of a portfolio; may be repeated.")] = None,
    data: Data = DEFAULT,
) -> None:
    """Add a token and print its secret, which is shown once and stored nowhere."""
    from equipoise.serve.tokens import ALL, FILE, add_token, make_data_folder

    make_data_folder(data)
    typer.echo(add_token(data / FILE, name, scope, portfolio or (ALL,)))
    print_error("keep this secret, it is not shown again; a running service takes it in on SIGHUP")


@tokens.command("list")
def list_(data: Data = DEFAULT) -> None:
    """List the tokens, without their secrets."""
    from equipoise.serve.tokens import FILE, read_tokens

    for token in read_tokens(data / FILE):
        typer.echo(f"{token.name}  {','.join(token.scopes)}  {','.join(token.portfolios)}")


@tokens.command()
def remove(
    name: Annotated[str, typer.Argument(help="What the token is called.")],
    data: Data = DEFAULT,
) -> None:
    """Remove a token; a running service forgets it on SIGHUP."""
    from equipoise.serve.tokens import FILE, remove_token

    remove_token(data / FILE, name)
