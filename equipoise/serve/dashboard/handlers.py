"""What the routes of the dashboard do."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from time import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from equipoise import __version__
from equipoise.errors import JournalFailed, UnknownName
from equipoise.serve import schemas
from equipoise.serve.dashboard import decisions
from equipoise.serve.dashboard.board import Board
from equipoise.serve.dashboard.files import DOCS, File, files
from equipoise.serve.dashboard.files import page as page_file
from equipoise.serve.dashboard.reading import Reading, about_learner
from equipoise.serve.dashboard.sampler import PERIOD_SECONDS, fresh
from equipoise.serve.dashboard.timeline import SPANS, columns, history_columns
from equipoise.serve.failures import Refused
from equipoise.serve.handlers import Call, stream
from equipoise.serve.hosted import Hosted
from equipoise.serve.schemas import plain
from equipoise.serve.service import Served
from equipoise.types import Config

MIN_COMPRESSED = 1_000  # bytes
WAIT_SECONDS = 5.0  # without a reading, a stream says that it is still there
encode = msgspec.json.Encoder().encode


def answer(value: Any, request: Request) -> Response:
    """An answer as JSON, compressed where that is worth it."""
    body = encode(value)
    headers = {"Vary": "Accept-Encoding"}
    if len(body) >= MIN_COMPRESSED and _accepts_gzip(request):
        body, headers["Content-Encoding"] = gzip.compress(body, 5, mtime=0), "gzip"
    return Response(body, media_type="application/json", headers=headers)


def _accepts_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


async def page(call: Call) -> Response:
    return _send(page_file(len(call.service.tokens) > 0), call.request)


async def docs(call: Call) -> Response:
    return _send(files()[DOCS], call.request)


async def static_file(call: Call) -> Response:
    file = files().get(call.request.path_params["file"])
    if file is None:
        raise Refused(404, "unknown-file", "there is no such file")
    return _send(file, call.request)


def _send(file: File, request: Request) -> Response:
    if _accepts_gzip(request):
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(file.compressed, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers={"Vary": "Accept-Encoding"})


async def overview(call: Call) -> Response:
    return answer(await _overview(call), call.request)


async def _overview(call: Call) -> schemas.Overview:
    service, token = call.service, call.token
    names, rows = list(filter(token.covers, service.names)), []
    for name in names:
        served = service.portfolios.get(name)
        if served is None:
            rows.append(Board().summary(name, service.failure_of(name)))
            continue
        failure = None
        try:
            await fresh(service, served, with_text=False)
        except JournalFailed as error:  # which concerns this row only
            failure = str(error)
        rows.append(plain(served.board.summary(name, failure or served.engine.failure)))
    admin = [name for name in names if token.allows("admin", name)]
    return schemas.Overview(__version__, time(), token.name, list(token.scopes), admin, rows)


async def view(call: Call) -> Response:
    return answer(await _view(call), call.request)


async def _view(call: Call) -> schemas.View:
    served = call.served
    board = await fresh(call.service, served, with_text=True)
    _check_read(board, served)
    return schemas.View(plain(board.view(served.name, served.engine.failure)))


def _check_read(board: Board, served: Served) -> Reading:
    if board.reading is None:
        raise Refused(503, "read-only", served.engine.failure or "the portfolio was not read yet", {"Retry-After": "5"})
    return board.reading


async def timeline(call: Call) -> Response:
    span, served = call.request.path_params["span"], call.served
    board = await fresh(call.service, served, with_text=False)
    if span not in (*SPANS, "all"):
        raise Refused(404, "unknown-span", f"there is no such span: only {', '.join(SPANS)} and all")
    reading = _check_read(board, served)
    row, names = reading.row, list(reading.names)
    if span == "all":
        samples = await served.engine.run(lambda hosted: hosted.portfolio.history.samples)
        return answer(schemas.Columns(span, names, history_columns(samples, row)), call.request)
    return answer(schemas.Columns(span, names, columns(board.timeline.rows(span, row))), call.request)


async def show_learner(call: Call) -> Response:
    name = call.request.path_params["learner"]

    def read(hosted: Hosted) -> tuple[Config, list[Config]]:
        return about_learner(hosted.portfolio, name), decisions.recent(hosted, name)

    try:
        about, recent = await call.served.engine.run(read)
    except UnknownName as error:
        raise Refused(404, "unknown-learner", str(error)) from error
    return answer(schemas.LearnerView(plain(about), plain(recent)), call.request)


async def show_decision(call: Call) -> Response:
    id_ = call.request.path_params["id"]
    told = await call.served.engine.run(lambda hosted: decisions.story(hosted, id_))
    return answer(schemas.DecisionView(plain(told)), call.request)


async def list_decisions(call: Call) -> Response:
    return answer(schemas.DecisionList(plain(await call.served.engine.run(decisions.recent))), call.request)


async def watch_overview(call: Call) -> Response:
    return stream(call, _messages(call, "overview", _overview, lambda: asyncio.sleep(PERIOD_SECONDS)))


async def watch_portfolio(call: Call) -> Response:
    board = call.served.board

    async def watched() -> AsyncGenerator[bytes]:
        board.watchers += 1
        try:
            async with aclosing(_messages(call, "view", _view, lambda: board.wait(WAIT_SECONDS))) as messages:
                async for message in messages:
                    yield message
        finally:
            board.watchers -= 1

    return stream(call, watched())


async def _messages(
    call: Call, kind: str, read: Callable[[Call], Awaitable[Any]], wait: Callable[[], Awaitable[None]]
) -> AsyncGenerator[bytes]:
    """What is read at each turn, as server-sent events, as long as the token is valid and the service runs."""
    while not call.service.stopping:
        call.check_reader()
        yield b"event: " + kind.encode() + b"\ndata: " + encode(await read(call)) + b"\n\n"
        await wait()
