"""Servers that fail as networks and proxies do, and both clients with methods that wait."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from equipoise.serve import AsyncClient, Client

Script = Callable[[int, dict[str, Any]], bytes | None]
DECIDED = {"action": 0, "action_id": None, "learner": "UCB", "drawn": "UCB"}
PROBABILITIES = {"learner_probability": 1.0, "action_probability": 1.0, "propensity": 1.0}


class WaitingClient:
    """An `AsyncClient` whose methods wait for the answer, so that one test can use either client."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._client = AsyncClient(*arguments, **settings)
        self._runner = asyncio.Runner()

    def __enter__(self) -> WaitingClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *arguments, **options: self._runner.run(method(*arguments, **options))


BOTH: tuple[Any, ...] = (Client, WaitingClient)


def answer(body: Any = None, status: int = 200, *headers: str) -> bytes:
    data = json.dumps({} if body is None else body).encode()
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def decided(request: dict[str, Any], *headers: str) -> bytes:
    return answer({"id": request["id"], **DECIDED, **PROBABILITIES}, 200, *headers)


class Scripted:
    """A server that sends the bytes of script(n, body) as answer n, and ends the connection if there are none.

    It keeps a connection open after an answer unless `ends` says so: without a word, as a server that restarts does.
    """

    def __init__(self, script: Script, *, ends: Callable[[int], bool] = lambda n: False) -> None:
        self.script, self.ends = script, ends
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.lock = threading.Lock()


@contextlib.contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing: clients end connections, which is the point."""

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def scripted(script: Script, *, ends: Callable[[int], bool] = lambda n: False) -> Iterator[tuple[str, Scripted]]:
    seen = Scripted(script, ends=ends)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with seen.lock:
                seen.connections += 1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])).splitlines()[0])
            with seen.lock:
                seen.requests.append(body)
                n = len(seen.requests)
            data = seen.script(n, body)
            if data is not None:
                self.wfile.write(data)
            if data is None or seen.ends(n):
                self.close_connection = True

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as server:
        yield f"http://127.0.0.1:{server.server_port}", seen


@contextlib.contextmanager
def dropping_answers(url: str, drops: Callable[[int], bool]) -> Iterator[tuple[str, list[int]]]:
    """A proxy in front of a service: it ends the connection instead of passing on answer n if `drops(n)`."""
    upstream, lock, statuses = urlsplit(url), threading.Lock(), list[int]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._pass(body)

        def do_GET(self) -> None:
            self._pass(None)

        def _pass(self, body: bytes | None) -> None:
            with contextlib.closing(http.client.HTTPConnection(str(upstream.hostname), upstream.port)) as connection:
                connection.request(self.command, self.path, body, {"Content-Type": self.headers["Content-Type"] or ""})
                response = connection.getresponse()
                data = response.read()
            with lock:
                statuses.append(response.status)
                dropped = drops(len(statuses))
            if dropped:
                self.close_connection = True
                return
            self.send_response(response.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as server:
        yield f"http://127.0.0.1:{server.server_port}", statuses


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
