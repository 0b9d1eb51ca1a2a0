"""Connections that cost little, whatever a client does: limits on headers, and on how long one may keep us waiting.

A parser of HTTP takes headers as long as they come, and a server waits for a request as long as the client pleases;
both would let a few clients use up memory, time and connections. Bodies are limited where they are read (`routes`).

A server of ASGI sends the head of an answer and its body in two system calls, each of which may wake up the client. An
answer that is there as a whole is sent in one (`write_whole`).
"""

from __future__ import annotations

from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

MAX_HEADER_BYTES = 1 << 16
MAX_CONNECTIONS = 1_000  # one more gets 503
WAIT_SECONDS = 30.0  # for a whole request, or for a client that does not read
WHOLE = "equipoise.response"  # type of a message with all of an answer, which the guard takes
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


def write_whole(send: Any, status: int, headers: bytes, body: bytes) -> bool:
    """Send an answer in one piece; False, and nothing was sent, if it has to go the usual way.

    Parameters
    ----------
    send
        What the server gave to send messages with.
    status, headers, body
        The answer; the headers are lines, one of which has the length, and nothing in them is unchecked.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle):  # another server, or something in between
        return False
    is_usual = cycle.keep_alive and not cycle.default_headers and cycle.scope["method"] != "HEAD"
    if not is_usual or cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
        return False
    cycle.waiting_for_100_continue, cycle.response_started, cycle.response_complete = False, True, True
    cycle.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[status], headers, body))
    cycle.message_event.set()
    cycle.on_response()
    return True
