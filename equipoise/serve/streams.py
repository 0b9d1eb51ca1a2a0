"""Events of a portfolio as a stream of server-sent events.

A stream shows what happens from now on, without contexts. A reader that is too slow is disconnected and told so by the
end of the stream; it reads the standing and connects again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from equipoise.portfolio import Event
from equipoise.portfolio.events import BULKY
from equipoise.serve.encoding import plain
from equipoise.serve.engine import Engine

MAX_READERS = 100  # of a portfolio
MAX_WAITING = 1_000  # events that a reader may be behind
KEEPALIVE_SECONDS = 15.0
END: Any = object()


class Subscribers:
    """Those who read the events of a portfolio."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listens = False
        self._queues: dict[asyncio.Queue[Any], asyncio.AbstractEventLoop] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def _publish(self, event: Event) -> None:
        """Called with every durable event, in any thread."""
        for queue, loop in list(self._queues.items()):
            loop.call_soon_threadsafe(self._put, queue, event)

    def close(self) -> None:
        """End all streams."""
        for queue in list(self._queues):
            self._end(queue)

    async def stream(self) -> AsyncIterator[bytes]:
        if not self._listens:  # as long as nobody reads, events cost nothing
            self._engine.on_event(self._publish)
            self._listens = True
        queue: asyncio.Queue[Any] = asyncio.Queue(MAX_WAITING + 1)
        self._queues[queue] = asyncio.get_running_loop()
        try:
            yield b": connected\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), KEEPALIVE_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is END:
                    return
                yield encode(event)
        finally:
            self._queues.pop(queue, None)

    def _put(self, queue: asyncio.Queue[Any], event: Event) -> None:
        if queue in self._queues:
            if queue.qsize() >= MAX_WAITING:
                self._end(queue)
            else:
                queue.put_nowait(event)

    def _end(self, queue: asyncio.Queue[Any]) -> None:
        if self._queues.pop(queue, None) is not None:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(END)


def encode(event: Event) -> bytes:
    """An event in the form of the stream."""
    data = {key: value for key, value in event.data.items() if key not in BULKY}
    body = msgspec.json.encode(plain({"kind": event.kind, "time": event.time, "seq": event.seq, "data": data}))
    return b"event: " + event.kind.encode() + b"\ndata: " + body + b"\n\n"
