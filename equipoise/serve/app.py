"""The application: routes, guard and lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from equipoise.config import PortfolioConfig
from equipoise.errors import EquipoiseError
from equipoise.serve.dashboard.sampler import watch
from equipoise.serve.failures import Refused
from equipoise.serve.guard import Guard, logger
from equipoise.serve.hosted import EXPIRED_AT_ONCE
from equipoise.serve.openapi import description
from equipoise.serve.paths import Paths
from equipoise.serve.routes import OPERATIONS, STATIC, endpoint, problem_response
from equipoise.serve.service import Opener, Service, Settings, open_in_memory
from equipoise.serve.tokens import Tokens

Respond = Callable[[Request], Awaitable[Response]]
EXPIRY_SECONDS = 1.0


def create_app(
    configs: Iterable[PortfolioConfig],
    *,
    tokens: Tokens | None = None,
    settings: Settings | None = None,
    open: Opener = open_in_memory,
) -> Guard:
    """The application as an ASGI callable; its `service` holds the portfolios.

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
    """
    service = Service(tokens or Tokens(), settings or Settings(), open)
    try:
        for config in configs:
            service.add(config)
    except BaseException:
        service.close()
        raise
    return application(service)


def application(service: Service) -> Guard:
    """The application of a service."""
    document = msgspec.json.encode(description())

    async def openapi(request: Request) -> Response:
        request.scope["operation"] = "openapi"
        return Response(document, media_type="application/json")

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
        by_path.setdefault(operation.path, {})[operation.method] = endpoint(service, operation)
    routes = [Route(path.replace("{id}", "{id:path}"), _Path(methods)) for path, methods in by_path.items()]
    return Guard(Paths(routes, redirect_slashes=False, default=_unknown_path, lifespan=lifespan), service)


class _Path:
    """All methods of a path. The router calls it directly, without the layers of an application, to save time."""

    def __init__(self, methods: dict[str, Respond]) -> None:
        self._methods = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._allowed = {"Allow": ", ".join(sorted(self._methods))}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request, respond = Request(scope, receive), self._methods.get(scope["method"])
        if respond is None:
            refusal = Refused(405, "unknown-method", "the path does not have this method", self._allowed)
            response = problem_response(refusal, request)
        else:
            response = await respond(request)
        await response(scope, receive, send)


async def _unknown_path(scope: Any, receive: Any, send: Any) -> None:
    response = problem_response(Refused(404, "unknown-path", "there is no such path"), Request(scope, receive))
    await response(scope, receive, send)


async def _expire(service: Service) -> None:
    """Give overdue decisions their default reward, also while nobody asks for decisions."""
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        for served in list(service.portfolios.values()):
            try:
                await served.engine.run(lambda hosted: hosted.expire(EXPIRED_AT_ONCE))
            except EquipoiseError as error:
                logger.warning("overdue decisions of %s could not be closed: %s", served.name, error)
