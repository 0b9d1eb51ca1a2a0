"""Streams of server-sent events: how many may be open, and that of the events of a portfolio.

A stream of events shows what happens from now on, without contexts. A reader that is too slow is disconnected and told
so by the end of the stream; it reads the standing and connects again. A stream keeps its connection, so there may be
fewer of them than connections: some remain for decisions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from equipoise.portfolio import Event
from equipoise.portfolio.events import BULKY
from equipoise.serve.engine import Engine
from equipoise.serve.failures import Refused
from equipoise.serve.schemas import plain

MAX_READERS = 100  # of a portfolio, and of the overview
MAX_STREAMS = 300  # in all; connections are 1,000
MAX_WAITING = 1_000  # events that a reader may be behind
KEEPALIVE_SECONDS = 15.0
END = b""


class Readers:
    """Counts the open streams of the portfolios, and under "" those of the overview."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def enter(self, portfolio: str) -> None:
        """Count one more stream, or refuse it."""
        if self._counts[portfolio] >= MAX_READERS or len(self) >= MAX_STREAMS:
            counts = f"{self._counts[portfolio]} of this kind (maximum {MAX_READERS}), {len(self)} in all"
            detail = f"streams are open: {counts} (maximum {MAX_STREAMS})"
            raise Refused(503, "too-many-readers", detail, {"Retry-After": "5"})
        self._counts[portfolio] += 1

    def leave(self, portfolio: str) -> None:
        self._counts[portfolio] -= 1


class EventStream(StreamingResponse):
    """An answer without end; refused if too many are open. It counts until it is over, begun or not."""

    def __init__(self, messages: AsyncIterator[bytes], readers: Readers, portfolio: str) -> None:
        super().__init__(messages, media_type="text/event-stream")
        self._readers, self._portfolio = readers, portfolio
        readers.enter(portfolio)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.leave(self._portfolio)


class Subscribers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listens = False
        self._queues: dict[asyncio.Queue[bytes], asyncio.AbstractEventLoop] = {}

    def _publish(self, event: Event) -> None:
        """Called with every durable event, in any thread. What waits is what is sent, so that no context does."""
        queues = list(self._queues.items())
        message = encode(event) if queues else END
        for queue, loop in queues:
            loop.call_soon_threadsafe(self._put, queue, message)

    def close(self) -> None:
        for queue in list(self._queues):
            self._end(queue)

    async def stream(self) -> AsyncGenerator[bytes]:
        """The events from now on."""
        if not self._listens:  # without readers, events cost nothing
            self._engine.on_event(self._publish)
            self._listens = True
        queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING + 1)
        self._queues[queue] = asyncio.get_running_loop()
        try:
            yield b": connected\n\n"
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), KEEPALIVE_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if message == END:
                    return
                yield message
        finally:
            self._queues.pop(queue, None)

    def _put(self, queue: asyncio.Queue[bytes], message: bytes) -> None:
        if queue in self._queues:
            if queue.qsize() >= MAX_WAITING:
                self._end(queue)
            else:
                queue.put_nowait(message)

    def _end(self, queue: asyncio.Queue[bytes]) -> None:
        if self._queues.pop(queue, None) is not None:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(END)


def encode(event: Event) -> bytes:
    data = {key: value for key, value in event.data.items() if key not in BULKY}
    body = msgspec.json.encode(plain({"kind": event.kind, "time": event.time, "seq": event.seq, "data": data}))
    return b"event: " + event.kind.encode() + b"\ndata: " + body + b"\n\n"
