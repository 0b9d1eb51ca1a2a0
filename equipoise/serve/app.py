"""The application: from a request to its handler, and the lifetime of the service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router

from equipoise.config import PortfolioConfig, check_served
from equipoise.errors import EquipoiseError, JournalFailed
from equipoise.serve import personalizer
from equipoise.serve.bodies import decoder
from equipoise.serve.created import Created
from equipoise.serve.dashboard.sampler import watch
from equipoise.serve.failures import MEDIA_TYPE, Refused, headers_of, log_fault, printable, problem_of
from equipoise.serve.guard import Guard, logger
from equipoise.serve.handlers import NDJSON, Call, not_evaluated
from equipoise.serve.hosted import MAX_EXPIRED, Hosted
from equipoise.serve.openapi import Documents
from equipoise.serve.routes import JSON, OPERATIONS, STATIC, Operation
from equipoise.serve.schemas import BulkFailure, EvaluationFailure, Problem
from equipoise.serve.service import Opener, Service, Settings, open_in_memory
from equipoise.serve.tokens import Token, Tokens

Respond = Callable[[Request], Awaitable[Response]]
EXPIRY_SECONDS = 1.0
ANY_TEXT = re.compile(r"{(id|event)}")  # parameters that may have slashes
MAX_PATHS = 1_024  # that are remembered: paths have names that a client chooses
BATCH_TYPES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


def create_app(
    configs: Iterable[PortfolioConfig],
    *,
    tokens: Tokens | None = None,
    settings: Settings | None = None,
    open: Opener = open_in_memory,
    data: Path | None = None,
) -> Guard:
    """The application as an ASGI callable; its `service` holds the portfolios.

    A portfolio that cannot be opened answers 503, unless it is the only one: then its error is raised.

    Parameters
    ----------
    configs
        The portfolios, each with a name of its own.
    tokens
        Who may do what. Without any, only clients on this machine are served.
    settings
        Limits of the service.
    open
        How portfolios are opened. Default: in memory, forgotten at the end.
    data
        Folder in which portfolios are kept that are created over HTTP. Default: none, they are forgotten.
    """
    service, refused = Service(tokens or Tokens(), settings or Settings(), open, Created(data)), None
    try:
        for config in configs:
            check_served(config, service.names)
            try:
                service.add(config)
            except EquipoiseError as error:
                service.refuse(config.name, error, config=config)
                refused = refused or error
        if refused is not None and not service.portfolios:
            raise refused
    except BaseException:
        service.close()
        raise
    return application(service)


def application(service: Service) -> Guard:
    documents = Documents()

    async def openapi(request: Request) -> Response:
        request.scope["operation"], request.scope["route"] = "openapi", request.url.path
        call = Call(service, request, NO_TOKEN)
        with suppress(Refused):  # who may not see portfolios gets a description without them
            call.authenticate()
        visible = {name: each.config for name, each in service.portfolios.items() if call.token.covers(name)}
        return Response(await documents.of(visible), media_type="application/json")

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_expire(service)), asyncio.create_task(watch(service))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            service.close()

    by_path: dict[str, dict[str, Respond]] = {"/openapi.json": {"GET": openapi}}
    for operation in (*OPERATIONS, STATIC):
        by_path.setdefault(operation.path, {})[operation.method] = Endpoint(service, operation)
    routes = [Route(ANY_TEXT.sub(r"{\1:path}", path), _Path(methods)) for path, methods in by_path.items()]
    return Guard(Paths(routes, redirect_slashes=False, default=_unknown_path, lifespan=lifespan), service)


class Paths(Router):
    """A router whose routes take every method of their paths, and that remembers where a path leads.

    Reading a dict is quicker than matching patterns one after the other.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        path = scope["path"]
        endpoint, parameters = self._known.get(path) or self._find(path, scope)
        scope["path_params"] = parameters
        await endpoint(scope, receive, send)

    def _find(self, path: str, scope: Any) -> tuple[Any, dict[str, Any]]:
        for route in self.routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                if "event" in found["path_params"]:  # there are as many as requests
                    return found["endpoint"], found["path_params"]
                if len(self._known) >= MAX_PATHS:
                    self._known.clear()
                known = self._known[path] = found["endpoint"], found["path_params"]
                return known
        return self.default, {}


class _Path:
    """All methods of a path. The router calls it directly, without the layers of an application, to save time."""

    def __init__(self, methods: dict[str, Respond]) -> None:
        self._methods = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._allowed = {"Allow": ", ".join(sorted(self._methods))}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request, respond = Request(scope, receive), self._methods.get(scope["method"])
        if respond is None:
            response = _unknown(
                Refused(405, "unknown-method", "the path does not have this method", self._allowed), request
            )
        else:
            response = await respond(request)
        await response(scope, receive, send)


class Endpoint:
    """Answers the requests to one operation."""

    def __init__(self, service: Service, operation: Operation) -> None:
        self._service, self._operation = service, operation
        self._decode = None if operation.request is None else decoder(operation.request)
        self._fail = FORMS[operation.form]

    async def __call__(self, request: Request) -> Response:
        scope, operation = request.scope, self._operation
        scope["operation"], scope["route"] = operation.id, operation.path
        call = Call(self._service, request, NO_TOKEN, accepts_key=operation.form == "personalizer")
        try:
            if operation.scope is not None:
                call.authorize(operation.scope, scope["path_params"].get("name"), failed=operation.failed)
            if self._decode is not None:
                await self._read(call, self._decode)
            return await operation.handler(call)
        except Exception as error:
            log_fault(error, scope["request_id"])
            return self._fail(error, request)

    async def _read(self, call: Call, decode: Callable[[bytes], Any]) -> None:
        operation, settings = self._operation, self._service.settings
        headers = call.request.scope["checked_headers"]
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            detail = "the body must not be compressed: Content-Encoding must be identity"
            raise Refused(415, "unsupported-media-type", detail, {"Accept-Encoding": "identity"})
        given = headers.get(b"content-type", b"")
        kind = given.partition(b";")[0].strip().lower().decode("latin-1")
        is_batch = operation.batch and kind in BATCH_TYPES
        if kind != JSON and not is_batch:
            allowed = f"{JSON} or {NDJSON}" if operation.batch else JSON
            raise Refused(415, "unsupported-media-type", f"Content-Type must be {allowed}")
        body = await _body(call.request, settings.max_batch_bytes if is_batch else settings.max_body_bytes)
        if not is_batch:
            call.body, call.raw = decode(body), body
            return
        call.lines = [line for line in body.split(b"\n") if line.strip()]
        if not 0 < len(call.lines) <= settings.max_lines:
            detail = f"the batch has {len(call.lines)} lines, but must have 1 to {settings.max_lines}"
            raise Refused(413 if call.lines else 400, "too-large" if call.lines else "malformed-json", detail)


NO_TOKEN = Token("none", "", (), ())  # where no token is needed


async def _body(request: Request, max_bytes: int) -> bytes:
    chunks, size, more = [], 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "cut-request", "the connection ended before the body did")
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            raise Refused(413, "too-large", f"the body must have at most {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks) if len(chunks) > 1 else chunks[0]


def problem_response(error: BaseException, request: Request) -> Response:
    document = problem_of(error, request.scope.get("request_id", ""))
    _note(document, request)
    return Response(msgspec.json.encode(document), document.status, headers_of(error), MEDIA_TYPE)


def _note(document: Problem, request: Request) -> None:
    """Keep the kind of a problem for the log line of its request."""
    request.scope["problem"] = document.type.rpartition(":")[2]


def evaluation_failure(error: BaseException, request: Request) -> Response:
    """A failure in the form of OFREP, which knows the status 400 and not 422."""
    failure = not_evaluated(error, request.path_params.get("name", ""))
    return _ofrep_failure(error, request, failure)


def bulk_failure(error: BaseException, request: Request) -> Response:
    """A failure of all flags in the form of OFREP, which names no flag."""
    failure = not_evaluated(error, "")
    return _ofrep_failure(error, request, BulkFailure(failure.errorCode, failure.errorDetails))


def _ofrep_failure(error: BaseException, request: Request, body: EvaluationFailure | BulkFailure) -> Response:
    document = problem_of(error)
    _note(document, request)
    status = 400 if document.status == 422 else document.status
    return Response(msgspec.json.encode(body), status, headers_of(error), JSON)


FORMS = {
    "problem": problem_response,
    "evaluation": evaluation_failure,
    "evaluations": bulk_failure,
    "personalizer": personalizer.failure,
}


def _unknown(refusal: Refused, request: Request) -> Response:
    """Refuse what is not served, in the form of the errors of paths like this one."""
    return FORMS["personalizer" if "/personalizer/" in request.scope["path"] else "problem"](refusal, request)


async def _unknown_path(scope: Any, receive: Any, send: Any) -> None:
    response = _unknown(Refused(404, "unknown-path", "there is no such path"), Request(scope, receive))
    await response(scope, receive, send)


async def _expire(service: Service) -> None:
    """Give overdue decisions their default reward, also while there are no requests."""
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        for served in list(service.portfolios.values()):
            if served.engine.failure is not None:  # it was logged
                continue
            try:
                await served.engine.run(Hosted.expire, MAX_EXPIRED)
            except JournalFailed:
                pass
            except Exception as error:  # of one portfolio, and not of the others
                text = "overdue decisions of %s could not be closed: %s"
                logger.warning(text, served.name, printable(str(error)), extra={"limited": "expire"})
