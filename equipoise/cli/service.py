"""`equipoise serve`, `check`, `token` and `personalizer`: the service, its files and who may use it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import GROUP_OF, app, command, print_error
from equipoise.errors import InvalidArgument, require
from equipoise.settings.sizes import MIB, arrays_of_at_most

if TYPE_CHECKING:
    from equipoise.config import PortfolioConfig
    from equipoise.serve.service import Settings
    from equipoise.serve.trial import Trial

ConfigPath = Annotated[Path, typer.Argument(metavar="PATH", help="A file portfolio.toml, or a folder of such files.")]
DataFolder = Annotated[Path, typer.Option(help="Folder of the journals and tokens.")]
DATA = Path("equipoise-data")
MAX_OPEN, MAX_STATE_BYTES = 100_000, 64 * MIB
MaxOpenBytes = Annotated[
    int | None,
    typer.Option(
        min=1, help="Most bytes of these and of the rewards behind them. Default: 10 KiB for each of --max-open."
    ),
]
MaxStateBytes = Annotated[int, typer.Option(min=1, help="Most bytes of an array of a learner's state.")]

tokens = typer.Typer(help="Add, list and remove tokens of the service.", no_args_is_help=True)
app.add_typer(tokens, name="token", rich_help_panel=GROUP_OF["token"])


@command("serve")
def serve(
    path: ConfigPath,
    data: DataFolder = DATA,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond this machine only with tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which clients address the service, as a proxy's; needs tokens.")
    ] = None,
    require_tokens: Annotated[bool, typer.Option("--require-tokens", help="Do not start without tokens.")] = False,
    max_open: Annotated[
        int, typer.Option(min=1, help="Most decisions of a portfolio that wait for rewards; more get 503.")
    ] = MAX_OPEN,
    max_open_bytes: MaxOpenBytes = None,
    max_state_bytes: MaxStateBytes = MAX_STATE_BYTES,
    memory: Annotated[bool, typer.Option("--memory", help="Keep nothing: for trials only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log every request.")] = False,
) -> None:
    """Serve portfolios over HTTP; every answer is durable. SIGHUP applies changed files, SIGTERM drains and ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it would end the process; the imports below take a second
    require("equipoise serve", "starlette", "uvicorn", "msgspec", "prometheus_client")
    from equipoise.serve.server import serve
    from equipoise.serve.service import open_in, open_in_memory
    from equipoise.serve.tokens import FILE

    if not path.exists():
        raise InvalidArgument(f"PATH is {str(path)!r}, but there is no such file or folder")
    with arrays_of_at_most(max_state_bytes):  # also for files that are read again later
        serve(
            path,
            open_in_memory if memory else open_in(data),
            host=host,
            port=port,
            token_file=data / FILE,
            data=None if memory else data,
            extra_hosts=allow_host or (),
            max_open=max_open,
            max_open_bytes=max_open_bytes,
            max_state_bytes=max_state_bytes,
            require_tokens=require_tokens,
            debug=debug,
        )


@command("check")
def check(
    path: ConfigPath,
    rate: Annotated[
        float | None, typer.Option(min=0.0, help="Decisions per second: print how many wait for rewards at most.")
    ] = None,
    max_open: Annotated[int, typer.Option(min=1, help="As for `equipoise serve`.")] = MAX_OPEN,
    max_open_bytes: MaxOpenBytes = None,
    max_state_bytes: MaxStateBytes = MAX_STATE_BYTES,
) -> None:
    """Build the portfolio of each file, print which learners fit the selector, and serve a dry round to each."""
    require("equipoise check", "starlette", "uvicorn", "msgspec", "prometheus_client")
    from equipoise.config import check_served, config_files, read
    from equipoise.serve.service import Settings

    names: list[str] = []
    limits, fits = Settings(max_open=max_open, max_open_bytes=max_open_bytes), True
    for file in config_files(path):
        with arrays_of_at_most(max_state_bytes):
            config = read(file)
            check_served(config, names)
            names.append(config.name)
            trial = _check(config)
        if rate is not None:
            fits &= _check_open(config, rate, trial.open_bytes, limits)
    if not fits:
        raise typer.Exit(1)


def _check_open(config: PortfolioConfig, rate: float, size: int, limits: Settings) -> bool:
    """Print how many decisions of this size wait for rewards at most; return whether the limits allow it.

    `rate` is the number of decisions in a second.
    """
    deadline = config.settings.deadline
    if deadline is None:
        typer.echo(f"{config.name} has no deadline: missing rewards decide how many decisions wait")
        return True
    waiting = rate * deadline if isinstance(deadline, float) else deadline
    typer.echo(
        f"at {rate:g} decisions a second, at most {waiting:,.0f} wait for rewards; contexts of the dry round take "
        f"{waiting * size / 1e6:,.1f} MB"
    )
    fits = True
    for option, needed, limit in (
        ("--max-open", waiting, limits.max_open),
        ("--max-open-bytes", waiting * size, limits.open_bytes),
    ):
        if needed > limit:
            fits = False
            typer.echo(f"{option} is {limit:,}, but must be at least {needed:,.0f}, or some decisions get 503")
    return fits


def _check(config: PortfolioConfig) -> Trial:
    from equipoise.cli.terminal import print_table
    from equipoise.compatibility import NEEDS, provided_by
    from equipoise.lab.report.kit import text_table
    from equipoise.selector import needs_of
    from equipoise.serve.trial import try_out

    portfolio = config.portfolio()
    selector = portfolio.selector
    typer.echo(f"{config.name}: {selector!r}")
    needed = [need for need in NEEDS if need in needs_of(selector)]
    rows = []
    for name, learner in zip(portfolio.learner_names, portfolio.learners, strict=True):
        words = provided_by(learner)
        lacking = [NEEDS[need].heading for need in needed if not NEEDS[need].met_by(learner)]
        rows.append((name, ", ".join(sorted(words)) or "-", f"lacks {', '.join(lacking)}" if lacking else "yes"))
    print_table(text_table(("learner", "accepts and provides", "compatible"), rows))
    if needed:
        typer.echo(f"needs: {'; '.join(NEEDS[need].meaning for need in needed)}")
    trial = try_out(config)
    flags = "a flag evaluation too" if trial.flags else "flags have no offers, so they cannot be evaluated"
    typer.echo(
        f"dry round on {json.dumps(trial.request):.200}: every learner acted and learned; {flags}; nothing is kept"
    )
    if not config.has_deadline:
        typer.echo("no deadline: a reward that never comes keeps its decision open; see [reward] deadline")
    return trial


@command("personalizer")
def personalizer(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The service configuration as JSON.")],
    name: Annotated[str, typer.Option(help="Name of the portfolio.")] = "personalizer",
) -> None:
    """Print the file of a portfolio for the configuration of an Azure Personalizer resource."""
    from equipoise.serve.azure import portfolio_file
    from equipoise.storage.files import read_bytes

    typer.echo(portfolio_file(read_bytes(path), name), nl=False)


@tokens.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What the token is called: a-z, 0-9, _ and -.")],
    scope: Annotated[list[str], typer.Option(help="decide, reward, read or admin; may be repeated.")],
    portfolio: Annotated[list[str] | None, typer.Option(help="Name of a portfolio; may be repeated.")] = None,
    data: DataFolder = DATA,
) -> None:
    """Add a token and print its secret, which is shown once and stored nowhere."""
    from equipoise.serve.tokens import ALL, FILE, add_token, make_data_folder

    make_data_folder(data)
    typer.echo(add_token(data / FILE, name, scope, portfolio or (ALL,)))
    print_error("keep this secret, it is not shown again; a running service reads it on SIGHUP")


@tokens.command("list")
def list_tokens(data: DataFolder = DATA) -> None:
    """List the tokens, without their secrets."""
    from equipoise.serve.tokens import FILE, read_tokens

    for token in read_tokens(data / FILE):
        typer.echo(f"{token.name}  {','.join(token.scopes)}  {','.join(token.portfolios)}")


@tokens.command("remove")
def remove(name: Annotated[str, typer.Argument(help="What the token is called.")], data: DataFolder = DATA) -> None:
    """Remove a token; a running service forgets it on SIGHUP."""
    from equipoise.serve.tokens import FILE, remove_token

    remove_token(data / FILE, name)
