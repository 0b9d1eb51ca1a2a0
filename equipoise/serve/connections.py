"""Connections that cost little, whatever a client does: limits on headers, and on how long one may keep us waiting.

A parser of HTTP takes headers as long as they come, and a server waits for a request as long as the client pleases;
both would let a few clients use up memory, time and connections. Bodies are limited where they are read (`routes`).
"""

from __future__ import annotations

from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 1 << 16
MAX_CONNECTIONS = 1_000  # one more gets 503
WAIT_SECONDS = 30.0  # for a whole request, or for a client that does not read
TICKS = 10  # of the server, which are tenths of a second, between two looks


class Connection(HttpToolsProtocol):
    """A connection with these limits."""

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
    """Look at all connections of a server."""
    for connection in list(server.server_state.connections):
        if isinstance(connection, Connection):
            connection.drop_if_slow(now)
