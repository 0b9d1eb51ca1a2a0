"""Streams of events and of the dashboard: who may read them for how long, how many there are, and what they hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import JournalFailed
from equipoise.portfolio import Event
from equipoise.serve import streams
from equipoise.serve.app import create_app
from equipoise.serve.guard import Guard
from equipoise.serve.tokens import Tokens, add_token, read_tokens
from tests.serve.served import ARMS, configs

EVENTS, LIVE, OVERVIEW = "/v1/portfolios/arms/events", "/v1/portfolios/arms/live", "/v1/overview/live"
PATHS = (EVENTS, LIVE, OVERVIEW)
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Reader:
    """A client that reads a stream until it disconnects."""

    def __init__(self) -> None:
        self.status, self.text, self.ended = 0, "", False
        self._gone = asyncio.Event()
        self._asked = False

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.text += message["body"].decode()
            self.ended = not message.get("more_body", False)

    def leave(self) -> None:
        self._gone.set()


def start(app: Guard, path: str, **headers: str) -> tuple[Reader, asyncio.Task[None]]:
    reader = Reader()
    pairs = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        **{"type": "http", "method": "GET", "path": path, "query_string": b"", "client": ("127.0.0.1", 1)},
        "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }
    return reader, asyncio.create_task(app(scope, reader.receive, reader.send))


@asynccontextmanager
async def opened(tokens: Tokens | None = None) -> AsyncIterator[Guard]:
    app = create_app(configs(ARMS), tokens=tokens)
    try:
        yield app
    finally:
        app.service.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def all_answered(started: list[tuple[Reader, asyncio.Task[None]]]) -> bool:
    return all(reader.status for reader, _ in started)


async def decide(app: Guard) -> str:
    served = app.service.portfolios["arms"]
    decision = await served.engine.run(lambda hosted: hosted.decide(None, None))
    served.board.wake()  # as the next reading does
    return decision.id


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_sent_under_a_token_that_was_removed(anyio_backend: str, tmp_path: Path, path: str) -> None:
    file = tmp_path / "tokens.json"
    secret, _ = add_token(file, "one", ["read"]), add_token(file, "two", ["read"])
    async with opened(read_tokens(file)) as app:
        reader, task = start(app, path, authorization=f"Bearer {secret}")
        await until(lambda: reader.text)
        app.service.tokens = Tokens(list(read_tokens(file))[1:])
        before = reader.text
        id_ = await decide(app)
        await asyncio.wait_for(task, 5)
        assert id_ not in reader.text
        kind, data = reader.text.removeprefix(before).strip().splitlines()[:2]
        assert kind == "event: refused" and json.loads(data.removeprefix("data: "))["status"] == 401


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_from_before_the_first_token_ends(anyio_backend: str, tmp_path: Path, path: str) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "one", ["read"])
    async with opened() as app:
        reader, task = start(app, path)
        await until(lambda: reader.text)
        app.service.tokens = read_tokens(file)
        await decide(app)
        await asyncio.wait_for(task, 5)
        assert "event: refused" in reader.text


@pytest.mark.parametrize("path", PATHS)
async def test_streams_are_bounded_and_places_come_back(
    anyio_backend: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ask at once, and whether or not a client stays until its stream begins."""
    monkeypatch.setattr(streams, "MAX_READERS", 3)
    async with opened() as app:
        for _ in range(2):
            started = [start(app, path) for _ in range(8)]
            await until(partial(all_answered, started))
            assert sorted(reader.status for reader, _ in started) == [200] * 3 + [503] * 5
            for reader, _ in started:
                reader.leave()
            await asyncio.wait_for(asyncio.gather(*(task for _, task in started)), 5)
        reader, task = start(app, path)
        reader.leave()  # at once
        await asyncio.wait_for(task, 5)
        assert len(app.service.readers) == 0


async def test_all_streams_together_are_bounded(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections must remain for decisions."""
    monkeypatch.setattr(streams, "MAX_READERS", 3)
    monkeypatch.setattr(streams, "MAX_STREAMS", 4)
    async with opened() as app:
        started = [start(app, path) for path in (EVENTS, LIVE, OVERVIEW, OVERVIEW, OVERVIEW)]
        await until(partial(all_answered, started))
        assert sorted(reader.status for reader, _ in started) == [200] * 4 + [503]
        for reader, _ in started:
            reader.leave()
        await asyncio.wait_for(asyncio.gather(*(task for _, task in started)), 5)


async def test_a_stream_of_a_failed_journal_says_so(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as app:
        overview, watching = start(app, OVERVIEW)
        reader, task = start(app, LIVE)
        await until(lambda: "event: overview" in overview.text and "event: view" in reader.text)

        async def fail(operation: object) -> None:
            raise JournalFailed("the disk is full")

        served = app.service.portfolios["arms"]
        monkeypatch.setattr(served.engine, "run", fail)
        served.board.read_at = served.board.described_at = 0.0
        served.board.wake()
        await asyncio.wait_for(task, 5)
        assert reader.ended and '"status":503' in reader.text and "accepted until it is reopened" in reader.text
        await until(lambda: '"failure":"the disk is full"' in overview.text)
        assert not overview.ended  # the other portfolios are there still
        watching.cancel()


async def test_what_waits_for_a_slow_reader_is_small(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events wait as they are sent, without contexts, and are dropped when the reader is given up."""
    monkeypatch.setattr(streams, "MAX_WAITING", 5)
    async with opened() as app:
        served = app.service.portfolios["arms"]
        stream = served.subscribers.stream()
        await anext(stream)
        (queue,) = served.subscribers._queues
        await decide(app)
        await asyncio.sleep(0)
        assert isinstance(queue.get_nowait(), bytes)
        for _ in range(9):
            await decide(app)
        await asyncio.sleep(0)
        assert queue.qsize() == 1 and [part async for part in stream] == []


@pytest.mark.parametrize("text", ["x\n\nevent: decided\ndata: {}", "a\rb", "\u2028<script>", "\ud800"])
async def test_no_text_begins_an_event_of_its_own(anyio_backend: str, text: str) -> None:
    event = Event("update_failed", {"name": text, "error": text}, 0.0)
    sent = streams.encode(event)
    assert sent.count(b"\n") == 3 and sent.endswith(b"\n\n") and b"\r" not in sent
    sent.decode("utf-8")


@pytest.mark.parametrize("path", [*PATHS, "/v1/portfolios"])
async def test_pages_of_other_sites_cannot_open_streams(anyio_backend: str, path: str) -> None:
    """A request that needs no answer, such as that of an image, has no `Origin`, but says from where it comes."""
    async with opened() as app:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            reader, task = start(app, path, sec_fetch_site=site, sec_fetch_mode="no-cors")
            await until(partial(all_answered, [(reader, task)]))
            assert reader.status == status, site
            reader.leave()
            await asyncio.wait_for(task, 5)
        reader, task = start(app, "/", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
        await asyncio.wait_for(task, 5)
        assert reader.status == 200, "a link may lead to the dashboard"
