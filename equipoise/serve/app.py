"""The application: routes, guard and lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from equipoise.config import PortfolioConfig
from equipoise.errors import EquipoiseError
from equipoise.serve.failures import Refused
from equipoise.serve.guard import Guard, logger
from equipoise.serve.openapi import description
from equipoise.serve.routes import OPERATIONS, endpoint, problem_response
from equipoise.serve.service import Opener, Service, Settings, open_in_memory
from equipoise.serve.tokens import Tokens

EXPIRY_SECONDS = 1.0
EXPIRED_AT_ONCE = 1_000


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
        expiry = asyncio.create_task(_expire(service))
        try:
            yield
        finally:
            expiry.cancel()
            service.close()

    routes = [Route(each.path, endpoint(service, each), methods=[each.method]) for each in OPERATIONS]
    routes.append(Route("/openapi.json", openapi, methods=["GET"]))
    app = Starlette(routes=_by_path(routes), exception_handlers={HTTPException: _refuse}, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Guard(app, service)


async def _expire(service: Service) -> None:
    """Give overdue decisions their default reward, also while nobody asks for decisions."""
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        for served in list(service.portfolios.values()):
            try:
                await served.engine.run(lambda hosted: hosted.expire(EXPIRED_AT_ONCE))
            except EquipoiseError as error:
                logger.warning("overdue decisions of %s could not be closed: %s", served.name, error)


def _by_path(routes: list[Route]) -> list[Route]:
    """The routes, those of one path merged, so that a wrong method is answered with all that are right."""
    methods: dict[str, set[str]] = {}
    for route in routes:
        methods.setdefault(route.path, set()).update(route.methods or ())
    endpoints = {(route.path, method): route.endpoint for route in routes for method in route.methods or ()}
    merged = []
    for path, known in methods.items():

        async def respond(request: Request, path: str = path) -> Response:
            answer: Response = await endpoints[path, request.method](request)
            return answer

        merged.append(Route(path, respond, methods=sorted(known)))
    return merged


async def _refuse(request: Request, error: Exception) -> Response:
    """What Starlette refuses itself: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    slug = {404: "unknown-path", 405: "unknown-method"}.get(error.status_code, "refused")
    return problem_response(Refused(error.status_code, slug, str(error.detail), headers), request)
