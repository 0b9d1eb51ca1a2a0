"""`equipoise serve`: decisions over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.app import app
from equipoise.errors import InvalidArgument, require


@app.command()
def serve(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file portfolio.toml, or a folder of such files.")],
    data: Annotated[Path, typer.Option(help="Folder of the journals and tokens.")] = Path("equipoise-data"),
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name under which the service is addressed, such as that of a proxy.")
    ] = None,
    max_open: Annotated[
        int, typer.Option(min=1, help="Most decisions of a portfolio that wait for rewards; more get 503.")
    ] = 100_000,
    memory: Annotated[bool, typer.Option("--memory", help="Keep nothing: for trials only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log every request.")] = False,
) -> None:
    """Serve portfolios over HTTP; every answer is durable. SIGHUP takes in changed files, SIGTERM drains and ends."""
    require("equipoise serve", "starlette", "uvicorn", "msgspec", "prometheus_client")
    from equipoise.serve.durable import open_in
    from equipoise.serve.server import serve
    from equipoise.serve.service import open_in_memory
    from equipoise.serve.tokens import FILE

    if not path.exists():
        raise InvalidArgument(f"PATH is {str(path)!r}, but there is no such file or folder")
    opener = open_in_memory if memory else open_in(data)
    serve(
        path,
        opener,
        host=host,
        port=port,
        token_file=data / FILE,
        extra_hosts=allow_host or (),
        max_open=max_open,
        debug=debug,
    )
