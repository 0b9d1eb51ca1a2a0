"""The table of routes: what each needs and answers. Routing, checks of tokens and OpenAPI follow from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from equipoise.serve import handlers, schemas
from equipoise.serve.dashboard import handlers as dashboard
from equipoise.serve.dashboard import schemas as dashboard_schemas
from equipoise.serve.failures import MEDIA_TYPE, Refused, headers_of, kind_of, problem_of
from equipoise.serve.guard import logger
from equipoise.serve.handlers import NDJSON, Call
from equipoise.serve.service import Service
from equipoise.serve.tokens import Token

PORTFOLIO = "/v1/portfolios/{name}"
LEARNER = PORTFOLIO + "/learners/{learner}"
JSON = "application/json"
BATCH_TYPES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


class Operation(NamedTuple):
    """A method on a path."""

    id: str
    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    scope: str | None  # None: no token is needed
    summary: str
    request: type[Any] | None = None
    response: Any = None
    statuses: tuple[int, ...] = ()  # of problems, beside those that every operation may have
    success: int = 200
    media_type: str = JSON
    batch: bool = False  # whether the body may be lines of JSON


OPERATIONS = (
    Operation(
        *("decide", "POST", PORTFOLIO + "/decide", handlers.decide, "decide", "Decide a round"),
        *(schemas.DecideRequest, schemas.Decided, (409,)),
    ),
    Operation(
        *("rewards", "POST", PORTFOLIO + "/rewards", handlers.reward, "reward", "Learn rewards, one or a batch"),
        *(schemas.Reward, schemas.Rewarded, (409,)),
        batch=True,
    ),
    Operation(
        *("withdraw", "POST", PORTFOLIO + "/withdraw", handlers.withdraw, "reward", "Withdraw a decision"),
        *(schemas.WithdrawRequest, schemas.Withdrawn, (409,)),
    ),
    Operation(
        *("portfolios", "GET", "/v1/portfolios", handlers.list_portfolios, "read", "List the portfolios", None),
        schemas.PortfolioList,
    ),
    Operation(
        *("portfolio", "GET", PORTFOLIO, handlers.show_portfolio, "read", "Standing, certificate and health", None),
        schemas.PortfolioStatus,
    ),
    Operation(
        *("eliminations", "GET", PORTFOLIO + "/eliminations", handlers.list_eliminations, "read"),
        *("Proofs of eliminations", None, schemas.EliminationList),
    ),
    Operation(
        *("events", "GET", PORTFOLIO + "/events", handlers.stream_events, "read", "Events from now on", None, str),
        media_type="text/event-stream",
    ),
    Operation(
        *("add_learner", "POST", LEARNER, handlers.add_learner, "admin", "Add a learner"),
        *(schemas.LearnerTable, schemas.LearnerStatus, (409,), 201),
    ),
    Operation(
        *("change_learner", "PATCH", LEARNER, handlers.change_learner, "admin", "Suspend or resume a learner"),
        *(schemas.LearnerChange, schemas.LearnerStatus),
    ),
    Operation(
        *("remove_learner", "DELETE", LEARNER, handlers.remove_learner, "admin", "Remove a learner", None),
        schemas.LearnerStatus,
    ),
    Operation(
        *(
            "evaluate",
            "POST",
            "/ofrep/v1/evaluate/flags/{name}",
            handlers.evaluate,
            "decide",
            "Evaluate a flag (OFREP)",
        ),
        *(schemas.EvaluationRequest, schemas.Evaluation),
    ),
    Operation(
        *("metrics", "GET", "/metrics", handlers.expose_metrics, "read", "Measurements for Prometheus", None, str),
        media_type="text/plain",
    ),
    Operation("health", "GET", "/healthz", handlers.health, None, "Whether the process works", None, schemas.Health),
    Operation("ready", "GET", "/readyz", handlers.ready, None, "Whether it takes requests", None, schemas.Health),
    Operation("page", "GET", "/", dashboard.page, None, "The dashboard", None, str, media_type="text/html"),
    Operation(
        *("overview", "GET", "/v1/overview", dashboard.overview, "read", "All portfolios at a glance", None),
        *(dashboard_schemas.Overview, (503,)),
    ),
    Operation(
        *("watch_overview", "GET", "/v1/overview/live", dashboard.watch_overview, "read"),
        *("All portfolios at a glance, from now on", None, str, (503,)),
        media_type="text/event-stream",
    ),
    Operation(
        *("view", "GET", PORTFOLIO + "/view", dashboard.view, "read", "What the dashboard says of a portfolio"),
        *(None, dashboard_schemas.View),
    ),
    Operation(
        *("watch_portfolio", "GET", PORTFOLIO + "/live", dashboard.watch_portfolio, "read"),
        *("What the dashboard says of a portfolio, from now on", None, str),
        media_type="text/event-stream",
    ),
    Operation(
        *("timeline", "GET", PORTFOLIO + "/timeline/{span}", dashboard.timeline, "read", "Samples over time", None),
        dashboard_schemas.Columns,
    ),
    Operation(
        *("learner", "GET", LEARNER, dashboard.show_learner, "read", "Why a learner plays as it does", None),
        dashboard_schemas.LearnerView,
    ),
    Operation(
        *("decisions", "GET", PORTFOLIO + "/decisions", dashboard.list_decisions, "read", "The newest decisions", None),
        dashboard_schemas.DecisionList,
    ),
    Operation(
        *("decision", "GET", PORTFOLIO + "/decisions/{id}", dashboard.show_decision, "read", "One decision", None),
        dashboard_schemas.DecisionView,
    ),
)
STATIC = Operation("static", "GET", "/static/{file:path}", dashboard.static_file, None, "Files of the dashboard")


def endpoint(service: Service, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """The function that answers the requests of an operation."""
    decode = None if operation.request is None else msgspec.json.Decoder(operation.request).decode
    fail = evaluation_failure if operation.id == "evaluate" else problem_response

    async def respond(request: Request) -> Response:
        scope = request.scope
        scope["operation"] = operation.id
        try:
            name = scope["path_params"].get("name")
            token, served = None, None
            if operation.scope is not None:
                token = service.authenticate(scope["checked_headers"].get(b"authorization", b"").decode("latin-1"))
                scope["token"] = token.name
                service.authorize(token, operation.scope, name)
                if name is not None:
                    served = service.find(name)
                    scope["portfolio"] = name
            call = Call(service, request, token or NOBODY, served)
            if decode is not None:
                await _read(call, operation, decode)
            return await operation.handler(call)
        except Exception as error:
            if kind_of(error) is None:
                logger.exception("unexpected error", extra={"facts": {"request_id": scope["request_id"]}})
            return fail(error, request)

    return respond


NOBODY = Token("nobody", "", (), ())  # where no token is needed


async def _read(call: Call, operation: Operation, decode: Callable[[bytes], Any]) -> None:
    """Read the body of a request, within limits."""
    settings = call.service.settings
    given = call.request.scope["checked_headers"].get(b"content-type", b"")
    kind = given.partition(b";")[0].strip().lower().decode("latin-1")
    is_batch = operation.batch and kind in BATCH_TYPES
    if kind != JSON and not is_batch:
        allowed = f"{JSON} or {NDJSON}" if operation.batch else JSON
        raise Refused(415, "unsupported-media-type", f"Content-Type must be {allowed}")
    body = await _body(call.request, settings.max_batch_bytes if is_batch else settings.max_body_bytes)
    if not is_batch:
        call.body = decode(body)
        return
    call.lines = [line for line in body.split(b"\n") if line.strip()]
    if not 0 < len(call.lines) <= settings.max_lines:
        detail = f"the batch has {len(call.lines)} lines, but must have 1 to {settings.max_lines}"
        raise Refused(413 if call.lines else 400, "too-large" if call.lines else "malformed-json", detail)


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
    return Response(msgspec.json.encode(document), document.status, headers_of(error), MEDIA_TYPE)


OFREP_CODES = {400: "PARSE_ERROR", 404: "FLAG_NOT_FOUND", 413: "INVALID_CONTEXT", 422: "INVALID_CONTEXT"}


def evaluation_failure(error: BaseException, request: Request) -> Response:
    """A failure in the form of OFREP, which knows the status 400 and not 422."""
    document = problem_of(error)
    code = (
        error.slug
        if isinstance(error, Refused) and error.slug.isupper()
        else OFREP_CODES.get(document.status, "GENERAL")
    )
    status = 400 if document.status == 422 else document.status
    body = schemas.EvaluationFailure(request.path_params.get("name", ""), code, document.detail)
    return Response(msgspec.json.encode(body), status, headers_of(error), JSON)
