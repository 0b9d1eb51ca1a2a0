"""What a client cannot do with a connection: endless headers, endless waits; and what is not spoken."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httptools", reason="needs the extra serve")

import uvicorn
from uvicorn.server import ServerState

from equipoise.serve import server as server_module
from equipoise.serve.app import create_app
from equipoise.serve.server import MAX_HEADER_BYTES, WAIT_SECONDS, Connection
from tests.serve.served import ARMS, configs

START = b"POST /v1/portfolios/arms/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Transport(asyncio.Transport):
    """Keeps what is written; `unread` bytes were not read by the client."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 8000)})
        self.written, self.closed, self.aborted, self.unread = b"", False, False, 0
        self.writes = 0

    def write(self, data: Any) -> None:
        self.written += data
        self.writes += 1

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread


async def connect() -> tuple[Connection, Transport]:
    config = uvicorn.Config(create_app(configs(ARMS)), http=Connection, ws="none", lifespan="off", log_config=None)
    config.load()
    connection = Connection(config=config, server_state=ServerState(), app_state={})
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("piece", [b"a" * 4096, b"a: b\r\n" * 700])
def test_endless_headers_end_the_connection(piece: bytes) -> None:
    async def main() -> None:
        connection, transport = await connect()
        connection.data_received(START + b"X: ")
        sent = 0
        while not transport.closed and sent < 10 * MAX_HEADER_BYTES:
            connection.data_received(piece)
            sent += len(piece)
        assert transport.written.startswith(b"HTTP/1.1 400") and sent < MAX_HEADER_BYTES + 2 * len(piece)

    asyncio.run(main())


def test_clients_that_keep_us_waiting_are_dropped_and_others_are_not() -> None:
    async def main() -> None:
        silent, partial, answered = await connect(), await connect(), await connect()
        partial[0].data_received(START + b"Content-Length: 100\r\n\r\n{")
        answered[0].data_received(START + b"Content-Length: 2\r\n\r\n{}")
        await settle()
        assert answered[1].written.startswith(b"HTTP/1.1 200")
        unread = await connect()
        unread[0].data_received(START + b"Content-Length: 2\r\n\r\n{}")
        await settle()
        unread[1].unread = 1_000
        everyone = (silent, partial, answered, unread)
        for connection, _ in everyone:
            connection.drop_if_slow(0.0)
        for connection, _ in everyone:
            connection.drop_if_slow(WAIT_SECONDS)
        assert [transport.aborted for _, transport in everyone] == [False] * 4
        answered[0].data_received(START + b"Content-Length: 2\r\n\r\n{}")  # another request: it begins anew
        await settle()
        for connection, _ in everyone:
            connection.drop_if_slow(WAIT_SECONDS + 1.0)
        assert [transport.aborted for _, transport in everyone] == [True, True, False, True]

    asyncio.run(main())


def test_a_stream_is_not_a_slow_client() -> None:
    async def main() -> None:
        connection, transport = await connect()
        connection.data_received(b"GET /v1/portfolios/arms/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await settle()
        assert b": connected" in transport.written
        for now in (0.0, WAIT_SECONDS + 1.0, 10 * WAIT_SECONDS):
            connection.drop_if_slow(now)
        assert not transport.aborted
        connection.connection_lost(None)
        await settle()

    asyncio.run(main())


def test_all_connections_of_a_server_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        connection, transport = await connect()
        server = uvicorn.Server(connection.config)
        server.server_state = connection.server_state
        for now in (0.0, WAIT_SECONDS + 1.0):
            server_module.drop_slow(server, now)
        assert transport.aborted

    asyncio.run(main())


def test_an_answer_is_one_write_and_says_the_same_as_in_two() -> None:
    request = START + b'X-Request-Id: a\r\nContent-Length: 13\r\n%b\r\n{"id": "one"}'

    async def ask(extra: bytes) -> tuple[Transport, dict[bytes, bytes], bytes]:
        connection, transport = await connect()
        connection.data_received(request % extra)
        await settle()
        head, _, body = transport.written.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        assert status == b"HTTP/1.1 200 OK"
        return transport, dict(line.split(b": ", 1) for line in lines), body

    async def main() -> None:
        whole, headers, body = await ask(b"")
        parts, other_headers, other_body = await ask(b"Connection: close\r\n")  # one of the cases left to the server
        assert (whole.writes, whole.closed) == (1, False) and (parts.writes, parts.closed) == (2, True)
        assert other_headers.pop(b"connection") == b"close" and body == other_body
        assert headers == other_headers and headers[b"x-frame-options"] == b"DENY" and headers[b"x-request-id"] == b"a"
        assert int(headers[b"content-length"]) == len(body)

    asyncio.run(main())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        connection, transport = await connect()
        each = START + b"X-Request-Id: %d\r\nContent-Length: 2\r\n\r\n{}"
        connection.data_received(b"".join(each % k for k in range(3)))
        await settle()
        ids = [part.partition(b"\r\n")[0] for part in transport.written.split(b"x-request-id: ")[1:]]
        assert ids == [b"0", b"1", b"2"] and transport.writes == 3

    asyncio.run(main())


def test_requests_make_no_reference_cycles() -> None:
    """So that memory is free when a request is over, and the collector of cycles may be told to look rarely."""

    async def main() -> None:
        connection, transport = await connect()
        for counted in (False, True):
            gc.collect()
            for _ in range(20):
                connection.data_received(START + b"Content-Length: 2\r\n\r\n{}")
                await settle()
            assert not counted or gc.collect() == 0
        assert transport.writes == 40

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
