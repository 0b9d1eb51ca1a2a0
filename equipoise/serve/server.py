"""The process: files, journals, signals and the HTTP server.

What a client may do with a connection is limited in `connection`; bodies are limited where they are read (`app`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from equipoise.config import check_served, read
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.serve.app import application
from equipoise.serve.connection import MAX_CONNECTIONS, Connection, Crowd
from equipoise.serve.created import Created
from equipoise.serve.dashboard.files import files
from equipoise.serve.guard import is_local
from equipoise.serve.logs import log_as_json
from equipoise.serve.reloading import apply_files, files_of, here
from equipoise.serve.service import LOOPBACK_HOSTS, Opener, Service, Settings
from equipoise.serve.tokens import Tokens, tokens_to_serve

try:
    import resource
except ModuleNotFoundError:  # pragma: no cover - other systems
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("equipoise.serve")
DRAIN_SECONDS = 30
NEW_OBJECTS = 50_000  # between two searches for cycles; tens of megabytes at most
BACKLOG = 256  # connections that the system accepts before the service sees them
OTHER_FILES = BACKLOG + 64  # of the process: logs, static files, backups, connections that have just come in
FILES_PER_PORTFOLIO = 6  # journal, log, shared memory and lock, readers, and one that is written for a moment
MIN_CONNECTIONS = 16
UNLIMITED_FILES = 10_240  # what is asked for where there is no limit; macOS gives no more
MAX_CAUSES = 5  # that the message names if no portfolio can be served
TICKS = 10  # of the server, which are tenths of a second, between two checks


def check_names(host: str, extra_hosts: Iterable[str], tokens: Tokens) -> None:
    """Raise an error if the service would be open to others without tokens."""
    options = [("--host", host), *(("--allow-host", name) for name in extra_hosts)]
    for option, name in options if not len(tokens) else ():
        if not is_local(name.lower()):
            raise InvalidArgument(
                f"{option} is {name!r}, but without tokens only names of this machine are served: add a token with "
                "`equipoise token add`"
            )


class Server(uvicorn.Server):
    """A server that becomes unready and ends streams before it waits for requests."""

    def __init__(self, config: uvicorn.Config, service: Service, crowd: Crowd) -> None:
        super().__init__(config)
        self._service, self._crowd = service, crowd

    def handle_exit(self, sig: int, frame: Any) -> None:
        asyncio.get_running_loop().call_soon_threadsafe(self._service.stop)
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.drop_if_slow(now)
            if self._crowd.ended:
                logger.warning("%d connections that waited for their clients made room for others", self._crowd.ended)
                self._crowd.ended = 0
        return await super().on_tick(counter)


def serve(
    path: Path,
    open_portfolio: Opener,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path,
    data: Path | None = None,
    extra_hosts: Sequence[str] = (),
    max_open: int = Settings.max_open,
    require_tokens: bool = False,
    max_open_bytes: int | None = None,
    max_state_bytes: int = Settings.max_state_bytes,
    debug: bool = False,
) -> None:
    """Serve until a signal ends it; then answer what came in, and close the journals.

    It starts if at least one portfolio can be served; the others answer 503 until their files or journals are mended.

    `path` is a file `portfolio.toml` or a folder of such files. `token_file` need not exist. The service is also
    addressed by the names in `extra_hosts`, such as the name of a reverse proxy. Tokens are required with
    `require_tokens`, and in a data folder that has had some. Portfolios that are created over HTTP are kept in the
    folder `data`, or forgotten without one. With `debug`, every request is logged.
    """
    signals = Signals()  # before any file is read, so that a later change of it is not missed
    os.umask(0o077)  # journals hold contexts of users
    tokens = tokens_to_serve(token_file, require_tokens)
    check_names(host, extra_hosts, tokens)
    created = Created(data)
    created.finish()
    service = Service(tokens, Settings(), open_portfolio, created)
    paths = files_of(service, path)
    if len(paths) == 1:  # a fault is said at once, in a line
        check_served(read(paths[0]), ())
    n_files = file_limit(len(paths))
    files()  # of the dashboard: read them before other files take all descriptors
    listener = bind(host, port)
    log_as_json(debug=debug)
    limits = {"max_open": max_open, "max_open_bytes": max_open_bytes, "max_state_bytes": max_state_bytes}
    limits["max_portfolios"] = (n_files - OTHER_FILES - MIN_CONNECTIONS) // FILES_PER_PORTFOLIO
    service.settings = Settings(hosts=hosts_for(host, extra_hosts, LOOPBACK_HOSTS), **limits)  # type: ignore[arg-type]
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            with signals.at_start():
                runner.run(apply_files(service, path, here))
            check_any(service)
            tune_garbage_collector()
            runner.run(_serve(service, path, listener, token_file, signals))
    except Stopped:
        pass
    finally:
        listener.close()
        service.close()
        logger.info("stopped")


class Stopped(BaseException):
    """A signal ended the start."""


class Signals:
    """The signals that come while the service starts, before the server handles them."""

    def __init__(self) -> None:
        self.ended = self.reload = False  # whether such a signal came
        self._starting = False
        signal.signal(signal.SIGTERM, self._end)  # raised again after the server has ended, which is success
        signal.signal(signal.SIGHUP, self._note_reload)

    @contextmanager
    def at_start(self) -> Iterator[None]:
        """Give up at once what is being opened when a signal ends the start; its journal stays as it is."""
        self._starting, before = True, signal.signal(signal.SIGINT, self._end)
        try:
            if self.ended:
                raise Stopped
            yield
        finally:
            self._starting = False
            signal.signal(signal.SIGINT, before)

    def _end(self, *_: Any) -> None:
        self.ended = True
        if self._starting:
            self._starting = False  # a second signal must not disturb the end
            raise Stopped

    def _note_reload(self, *_: Any) -> None:
        self.reload = True


def check_any(service: Service) -> None:
    """Raise an error if no portfolio can be served."""
    if not service.portfolios:
        causes = [failed.cause for failed in service.failed.values()]
        more = f"; and {len(causes) - MAX_CAUSES} more" if len(causes) > MAX_CAUSES else ""
        what = "" if len(causes) == 1 else "no portfolio can be served: "
        raise InvalidArgument(f"{what}{'; '.join(causes[:MAX_CAUSES])}{more}")


def tune_garbage_collector() -> None:
    """Set up the garbage collector for a process that only answers requests from now on.

    Requests make no reference cycles (a test checks that), so a run of the collector finds nothing and may stop
    everything for tens of milliseconds. It never visits the present objects again, and new ones only when there are
    many, which bounds the memory in cycles of rare events, such as errors.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def bind(host: str, port: int) -> socket.socket:
    """The socket to listen on; raises an error if the address is taken or not this machine's."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise InvalidArgument(f"--host is {host!r} and --port is {port}, but: {error.strerror}") from error
    return listener


async def _serve(service: Service, path: Path, listener: socket.socket, token_file: Path, signals: Signals) -> None:
    n_files = file_limit(len(service.portfolios))
    crowd = Crowd(lambda: connection_limit(n_files, len(service.portfolios)))
    config = uvicorn.Config(
        application(service),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # who a client is must not be a matter of what it says
        timeout_graceful_shutdown=DRAIN_SECONDS,
        http=partial(Connection, crowd=crowd),
        ws="none",
        backlog=BACKLOG,
    )
    server = Server(config, service, crowd)
    service.metrics.levels["connections"] = lambda: len(server.server_state.connections)
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload() -> None:
        task = loop.create_task(reload_files(service, path, token_file))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    if signals.reload:
        reload()
    host, port, *_ = listener.getsockname()
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    facts: dict[str, Any] = {"portfolios": len(service.portfolios), "tokens": len(service.tokens), "address": address}
    facts |= {"files": n_files, "connections": crowd.max_connections(), "failed": service.n_failed()}
    logger.info("serving" if len(service.tokens) else "serving this machine only: no tokens", extra={"facts": facts})
    server.should_exit = signals.ended
    await server.serve(sockets=[listener])


def file_limit(n_portfolios: int) -> int:
    """Let this process open as many files as it may, and return their number; an error if portfolios need more."""
    files = UNLIMITED_FILES
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft
        wanted = max(files, UNLIMITED_FILES) if hard == resource.RLIM_INFINITY else hard
        if files < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            files = wanted
    if connection_limit(files, n_portfolios) < MIN_CONNECTIONS:
        needed = MIN_CONNECTIONS + OTHER_FILES + FILES_PER_PORTFOLIO * n_portfolios
        raise InvalidArgument(f"the limit of open files is {files}, but {n_portfolios} portfolios need {needed}")
    return files


def connection_limit(files: int, n_portfolios: int) -> int:
    """Return how many connections may be open: at most `MAX_CONNECTIONS`, and what journals leave of the files."""
    return min(MAX_CONNECTIONS, files - OTHER_FILES - FILES_PER_PORTFOLIO * n_portfolios)


async def reload_files(service: Service, path: Path, token_file: Path) -> None:
    """Read all files again; a file that is rejected is logged, and changes nothing that is served."""
    try:
        service.tokens = tokens_to_serve(token_file, required=len(service.tokens) > 0)
        await apply_files(service, path)
    except EquipoiseError as error:
        logger.error("tokens or files could not be read again: %s", error)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ModuleNotFoundError:  # not on every system
        return None
    return uvloop.new_event_loop


def hosts_for(host: str, extra: Iterable[str], loopback: Iterable[str]) -> tuple[str, ...]:
    """The names under which a service that listens on `host` may be addressed."""
    own = () if host in ("0.0.0.0", "::", "") else (host.lower(),)
    return tuple(dict.fromkeys((*loopback, *own, *(name.lower() for name in extra))))
