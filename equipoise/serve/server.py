"""The process: files, journals, signals and the HTTP server.

Connections cost little, whatever a client does. A parser of HTTP accepts headers of any length, and a server waits for
a request as long as the client pleases; both would let a few clients use up memory, time and connections, so both are
limited here. Bodies are limited where they are read (`app`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from equipoise.config import PortfolioConfig, check_served, config_files, read
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.serve.app import application
from equipoise.serve.guard import is_loopback
from equipoise.serve.logs import log_as_json
from equipoise.serve.reloading import apply_file
from equipoise.serve.service import LOOPBACK_HOSTS, Opener, Service, Settings
from equipoise.serve.tokens import Tokens, read_tokens

logger = logging.getLogger("equipoise.serve")
DRAIN_SECONDS = 30
NEW_OBJECTS = 50_000  # between two searches for cycles; tens of megabytes at most
MAX_HEADER_BYTES = 1 << 16
MAX_CONNECTIONS = 1_000  # one more gets 503
WAIT_SECONDS = 30.0  # for a whole request, or for a client that does not read
TICKS = 10  # of the server, which are tenths of a second, between two checks


def check_address(host: str, tokens: Tokens) -> None:
    """Raise an error if the service would be open to others without tokens."""
    if host != "localhost" and not is_loopback(host) and not len(tokens):
        raise InvalidArgument(
            f"--host is {host!r}, but without tokens only this machine is served: add one with `equipoise token add`"
        )


class Connection(HttpToolsProtocol):
    """A connection with limits on headers, and on how long a client may keep it waiting."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_bytes = 0
        self._waits: tuple[Any, int] | None = None  # the last request, and bytes that the client did not read
        self._since = 0.0

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # the headers of a request are complete
            self._header_bytes = 0
        elif before is None or before.response_complete:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")

    def drop_if_slow(self, now: float) -> None:
        """End the connection if the client has kept us waiting for too long."""
        cycle, unread = self.cycle, self.transport.get_write_buffer_size()
        is_answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        waits = None if is_answering and not unread else (cycle, unread)
        if waits is None or waits != self._waits:
            self._waits, self._since = waits, now
        elif now - self._since > WAIT_SECONDS:
            self.transport.abort()


def drop_slow(server: uvicorn.Server, now: float) -> None:
    for connection in list(server.server_state.connections):
        if isinstance(connection, Connection):
            connection.drop_if_slow(now)


class Server(uvicorn.Server):
    """A server that becomes unready and ends streams before it waits for requests."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        asyncio.get_running_loop().call_soon_threadsafe(self._service.stop)
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            drop_slow(self, asyncio.get_running_loop().time())
        return await super().on_tick(counter)


def serve(
    path: Path,
    open_portfolio: Opener,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path,
    extra_hosts: Sequence[str] = (),
    max_open: int = Settings.max_open,
    debug: bool = False,
) -> None:
    """Serve until a signal ends it; then answer what came in, and close the journals.

    `path` is a file `portfolio.toml` or a folder of such files. `token_file` need not exist. The service is also
    addressed by the names in `extra_hosts`, such as the name of a reverse proxy. With `debug`, every request is logged.
    """
    os.umask(0o077)  # journals hold contexts of users
    tokens = read_tokens(token_file)
    check_address(host, tokens)
    configs = [read(file) for file in config_files(path)]
    listener = bind(host, port)
    log_as_json(debug=debug)
    settings = Settings(hosts=hosts_for(host, extra_hosts, LOOPBACK_HOSTS), max_open=max_open)
    service = Service(tokens, settings, open_portfolio)
    signal.signal(signal.SIGTERM, lambda *_: None)  # raised again after the server has ended, which is success
    try:
        for config in configs:
            service.add(config)
            if not config.has_deadline:
                logger.warning("%s has no deadline: a reward that never comes keeps its decision open", config.name)
        tune_garbage_collector()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(service, path, listener, token_file))
    finally:
        listener.close()
        service.close()
        logger.info("stopped")


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


async def _serve(service: Service, path: Path, listener: socket.socket, token_file: Path) -> None:
    config = uvicorn.Config(
        application(service),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # who a client is must not be a matter of what it says
        timeout_graceful_shutdown=DRAIN_SECONDS,
        http=Connection,
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
    )
    server = Server(config, service)
    service.metrics.levels["connections"] = lambda: len(server.server_state.connections)
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload() -> None:
        task = loop.create_task(reload_files(service, path, token_file))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    host, port, *_ = listener.getsockname()
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    facts = {"portfolios": len(service.portfolios), "tokens": len(service.tokens), "address": address}
    logger.info("serving" if len(service.tokens) else "serving this machine only: no tokens", extra={"facts": facts})
    await server.serve(sockets=[listener])


async def reload_files(service: Service, path: Path, token_file: Path) -> None:
    """Read all files again; a file that is rejected is logged and changes nothing."""
    try:
        tokens = read_tokens(token_file)
        if len(service.tokens) and not len(tokens):
            raise InvalidArgument("the file of tokens is empty, but was not when the service started")
        service.tokens = tokens
        files = config_files(path)
    except EquipoiseError as error:
        logger.error("tokens or files could not be read again: %s", error)
        return
    names: list[str] = []
    for file in files:
        try:
            config: PortfolioConfig = read(file)
            check_served(config, names)  # a second file of a name would change what the first one says
            names.append(config.name)
            if await apply_file(service, config):
                logger.info("%s: reload applied", file)
        except EquipoiseError as error:
            logger.error("%s: reload rejected: %s", file, error)


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
