"""A connection that costs little, whatever its client does.

The protocol of uvicorn accepts headers of any length, keeps all requests that a client sends ahead, and waits as long
as the client pleases. Here a request is parsed only after the answer to the one before, and at most `MAX_HEADER_BYTES`
wait until then. Everything around bodies is counted: headers, the frames of chunks, and trailers. A request that does
not arrive, or an answer that is not read, ends the connection after some seconds, and at once if others need its place:
of the connections that wait for their clients, the one that has waited longest makes room for a new one. A request that
asks for another protocol (`Upgrade`) is answered as if it did not.

`HttpToolsProtocol` is not a public interface of uvicorn. `pyproject.toml` therefore has an upper bound for its version,
and `python -m tools.studies.uvicorn_versions` runs the tests of this module with each version up to there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from equipoise.serve.failures import MEDIA_TYPE, Kind, problem
from equipoise.serve.guard import HEADERS, new_request_id

MAX_HEADER_BYTES = 1 << 15  # of a request, and of what waits behind an answer: 32 MB for 1,000 connections
MAX_PIECE = 1 << 16  # bytes of a body that are parsed at once
MAX_CONNECTIONS = 1_000
HEADER_SECONDS = 10.0  # for the headers of a request
WAIT_SECONDS = 30.0  # for its body, or for a client that does not read
END_OF_HEADERS = re.compile(rb"\n\r?\n")
END_OF_LINE = re.compile(rb"\n")
UPGRADE = re.compile(rb"\n(?i:upgrade)(?=[ \t]*:)")
IGNORED = b"\nx-not-upgraded"  # the header is ignored; the parser would drop the body of such a request
LINE_ENDS = b"\r\n"
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n%b\r\n%b"


@dataclass
class Crowd:
    """The connections of a server that wait for their clients, and how many there may be in total."""

    max_connections: Callable[[], int] = lambda: MAX_CONNECTIONS
    waiting: dict[Connection, None] = field(default_factory=dict)  # the one that waits longest first
    ended: int = 0  # because others needed the place, since this was last read

    def make_room(self, n_connections: int, newcomer: Connection) -> None:
        if n_connections > self.max_connections():
            oldest = next((each for each in self.waiting if each is not newcomer), None)
            if oldest is not None:
                del self.waiting[oldest]
                self.ended += 1
                oldest.transport.abort()


class Connection(HttpToolsProtocol):
    """A connection with limits on headers, on requests ahead, and on how long a client may keep it waiting."""

    def __init__(self, *arguments: Any, crowd: Crowd, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._crowd = crowd
        self._held = bytearray()  # bytes that came in and are not parsed yet
        self._searched = 0  # of these, in which there is no end of headers
        self._in_body = False
        self._body_left: int | None = None  # bytes; None for a body in chunks
        self._chunk_left = 0  # bytes; 0 on the lines between two chunks
        self._line = b""  # the last piece; between two chunks it is a line
        self._overhead = 0  # bytes of this request that are not its body
        self._is_whole = False  # whether a request has ended in the piece that is parsed
        self._is_last = False  # whether the answer under way is the last one
        self._waits: tuple[Any, int] | None = None  # the last request, and bytes that the client did not read
        self._since = 0.0
        self.cycle: Any
        self.scope: Any

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._crowd.waiting[self] = None
        self._crowd.make_room(len(self.connections), self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._give_up()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self._crowd.waiting.pop(self, None)
        self._held.clear()
        self.scope = self.cycle = self._waits = None  # requests refer to their connection, so let go of them

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            self.flow.pause_reading()
        else:
            self._held += data
            self._parse()

    def _parse(self) -> None:
        """Parse what came in, up to the end of a request whose answer is under way; the rest waits, and is bounded."""
        while self._held and not self.transport.is_closing():
            if not self._in_body and self._is_answering():
                self.flow.pause_reading()
                if len(self._held) > MAX_HEADER_BYTES:
                    self._held.clear()
                    self._is_last, self.cycle.keep_alive = True, False
                return
            size = self._next_piece()
            if not size:
                return
            piece = bytes(self._held[:size])
            del self._held[:size]
            if not self._in_body:
                piece = UPGRADE.sub(IGNORED, piece)
            self._searched, self._is_whole = 0, False
            self._overhead += size
            self._line = piece
            super().data_received(piece)
            if self._overhead > MAX_HEADER_BYTES:
                self.send_400_response("The headers are too large.")
            if self._is_whole:
                self._overhead = 0

    def _next_piece(self) -> int:
        """Return how many bytes to parse, never past the end of a request; 0 if more have to come."""
        held = self._held
        if self._in_body and (left := self._chunk_left if self._body_left is None else self._body_left):
            return min(len(held), MAX_PIECE, left)
        if not self._in_body and not held[:1].isupper() and held[0] not in LINE_ENDS:  # not a method, says the parser
            return min(len(held), MAX_PIECE)
        end = (END_OF_LINE if self._in_body else END_OF_HEADERS).search(held, max(self._searched - 2, 0))
        self._searched = len(held)
        size = len(held) if end is None else end.end()
        if self._overhead + size > MAX_HEADER_BYTES:
            self.send_400_response("The headers are too large.")
            return 0
        return 0 if end is None else size

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_headers_complete(self) -> None:
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._body_left, self._chunk_left = int(lengths[0]) if lengths else None, 0
        self._crowd.waiting.pop(self, None)
        if len(self.connections) > self._crowd.max_connections():
            self.scope["overloaded"] = True  # the guard refuses it
        super().on_headers_complete()
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body)
        if self._body_left is None:
            self._chunk_left -= len(body)
        else:
            self._body_left -= len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        self._chunk_left = int(self._line.partition(b";")[0], 16)  # the parser has checked it

    def on_message_complete(self) -> None:
        self._in_body, self._is_whole = False, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is not None:
            self.cycle.body = bytearray()  # there is one if the request was refused before it was read
            self._crowd.waiting[self] = None
            self._parse()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._crowd.waiting[self] = None

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_answering():
            self._crowd.waiting.pop(self, None)

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        is_begun = cycle is not None and cycle.response_started and (self._in_body or not cycle.response_complete)
        if not (is_begun or self.transport.is_closing()):
            request_id = new_request_id()
            body = msgspec.json.encode(problem(Kind(400, "malformed-request"), msg, request_id.decode()))
            self.transport.write(BAD_REQUEST % (HEADERS % (MEDIA_TYPE.encode(), len(body), request_id), body))
        self._held.clear()
        self._give_up()
        self.transport.close()

    def _give_up(self) -> None:
        """Tell the request under way that nothing can be sent any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def drop_if_slow(self, now: float) -> None:
        """End the connection if the client has kept us waiting for too long."""
        cycle, unread = self.cycle, self.transport.get_write_buffer_size()
        is_answering = self._is_answering() and not cycle.more_body
        waits = None if is_answering and not unread else (cycle, unread)
        if waits is None or waits != self._waits:
            self._waits, self._since = waits, now
        elif now - self._since > (WAIT_SECONDS if unread or self._in_body else HEADER_SECONDS):
            self.transport.abort()
