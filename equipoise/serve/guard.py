"""The outermost layer: checks that every request passes, headers that every answer has, counting and logging.

- Without tokens, only clients on this machine are served, under its own names, and nothing that came through a proxy:
  behind one, every client would look like this machine. A proxy is known by its headers, or by HTTP/1.0, which nginx
  speaks unless it is told otherwise.
- `Host` must be a known name, so that a page of another site cannot reach the service by a name of its own (DNS
  rebinding); only `PROBES`, which tell nothing, answer to every name. `Origin`, if a browser sends it, must be the
  service itself. A request without `Origin` that a browser sends for a page of another site (an image, say) is
  refused, unless it opens a page of its own.
- An answer that is there as a whole is sent in one system call (`write_whole`), not in two as ASGI has it.
- Every request has an id: the caller's `X-Request-Id` if it is short and plain, else a new one. Log lines have it, and
  the ids of a W3C trace context.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Any

import msgspec
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from equipoise.serve.failures import MEDIA_TYPE, Refused, problem_of
from equipoise.serve.service import Service

logger = logging.getLogger("equipoise.serve")

WHOLE = "equipoise.response"  # type of a message with all of an answer
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
SECURITY_HEADERS = [
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; "
        b"trusted-types 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
HEADERS = b"".join(  # the same as lines
    (
        b"content-type: %b\r\ncontent-length: %d\r\n",
        *(b"%b: %b\r\n" % pair for pair in SECURITY_HEADERS),
        b"x-request-id: %b\r\n",
    )
)
KEY_HEADER = b"ocp-apim-subscription-key"  # the secret of a token, as clients of Azure Personalizer send it
UNIQUE = frozenset(
    {b"host", b"origin", b"authorization", KEY_HEADER, b"content-type", b"content-length"}
)  # never twice
PROXY_HEADERS = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
OVERLOADED = {"Retry-After": "5", "Connection": "close"}
CHECKED = (
    UNIQUE
    | PROXY_HEADERS
    | {
        b"x-request-id",
        b"x-ms-client-request-id",
        b"traceparent",
        b"content-encoding",
        b"sec-fetch-site",
        b"sec-fetch-mode",
    }
)
OTHER_SITES = frozenset({b"cross-site", b"same-site"})
PROCESS, NUMBERS = token_hex(6).encode(), count(1)  # ids of requests: unique, and cheap as no system call is made
PROBES = frozenset({"/healthz", "/readyz"})  # kubelet and balancers ask for them by address, also under overload
PROBE_OF_PORTFOLIO = re.compile(r"/readyz/[a-z0-9_-]{1,64}")
QUIET_OPERATIONS = frozenset(
    {"decide", "rewards", "evaluate", "evaluate_all", "health", "ready", "portfolio_ready"}
)  # logged at DEBUG if all went well


class Guard:
    def __init__(self, app: Any, service: Service) -> None:
        self._app, self.service = app, service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the checks below are those of HTTP, so nothing else gets in
            raise RuntimeError(f"the service does not speak {scope['type']}")
        since, status = perf_counter(), 500
        pairs = [pair for pair in scope["headers"] if pair[0] in CHECKED]
        headers = scope["checked_headers"] = dict(pairs)
        given = headers.get(b"x-request-id", b"")
        request_id = given if given and REQUEST_ID.fullmatch(given) else new_request_id()
        scope["request_id"] = request_id.decode()

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            kind = message["type"]
            if kind == WHOLE:
                status = message["status"]
                await _send_whole(message, request_id, send)
                return
            if kind == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *SECURITY_HEADERS, (b"x-request-id", request_id)]
            await send(message)

        try:
            try:
                if len(headers) < len(pairs):
                    _check_unique(pairs)
                self._check(scope, headers)
            except Refused as refusal:
                scope["problem"] = refusal.slug
                body = msgspec.json.encode(problem_of(refusal, scope["request_id"]))
                response = Response(body, refusal.status, refusal.headers, MEDIA_TYPE)
                await response(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        finally:
            seconds = perf_counter() - since
            operation = scope.get("operation", "none")
            self.service.metrics.count(operation, status, seconds)
            went_well = status < 400 and "problem" not in scope
            is_quiet = operation in QUIET_OPERATIONS or operation.startswith("personalizer_")
            level = logging.DEBUG if went_well and is_quiet else logging.INFO
            if logger.isEnabledFor(level):
                stranger = None if "token" in scope else scope.get("problem", operation)
                facts = _facts(scope, headers, status, seconds)
                logger.log(level, "request", extra={"facts": facts, "limited": stranger})

    def _check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        service = self.service
        if not len(service.tokens):
            client = scope.get("client")
            if client is not None and not is_loopback(client[0]):
                raise Refused(403, "loopback-only", "without tokens only clients on the same machine are served")
            if not PROXY_HEADERS.isdisjoint(headers) or scope.get("http_version") == "1.0":
                raise Refused(403, "loopback-only", "without tokens nothing is served through a proxy")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if scope["path"] not in PROBES and not PROBE_OF_PORTFOLIO.fullmatch(scope["path"]):
            name, hosts = host_name(host), service.settings.hosts
            if (name not in hosts and "*" not in hosts) or not (len(service.tokens) or is_local(name)):
                raise Refused(421, "unknown-host", "Host is not a name of this service")
            if "overloaded" in scope:
                raise Refused(503, "too-many-connections", "too many connections are open", OVERLOADED)
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
            raise Refused(403, "foreign-origin", "Origin is another site")
        if headers.get(b"sec-fetch-site") in OTHER_SITES and headers.get(b"sec-fetch-mode") != b"navigate":
            raise Refused(403, "foreign-origin", "the request comes from a page of another site")


def new_request_id() -> bytes:
    return b"%s-%x" % (PROCESS, next(NUMBERS))


def _check_unique(pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise an error if a header is repeated that two readers of the request might read differently."""
    names = [name for name, _ in pairs if name in UNIQUE]
    if len(set(names)) < len(names):
        raise Refused(400, "repeated-header", "duplicate header")


@lru_cache(64)
def host_name(host: str) -> str:
    """A host without its port.

    >>> [host_name(host) for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "::1")]
    ['localhost', '127.0.0.1', '::1', '::1']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def is_local(name: str) -> bool:
    """Whether a name or an address is only ever this machine's."""
    return name == "localhost" or is_loopback(name)


@lru_cache(1024)
def is_loopback(address: str) -> bool:
    return is_address(address) and ipaddress.ip_address(address).is_loopback


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def _send_whole(message: Any, request_id: bytes, send: Any) -> None:
    """Send an answer that is there as a whole, in one piece if the server can."""
    status, media_type, body = message["status"], message["media_type"], message["body"]
    if not write_whole(send, status, HEADERS % (media_type, len(body), request_id), body):
        headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]
        headers += [*SECURITY_HEADERS, (b"x-request-id", request_id)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _facts(scope: Any, headers: dict[bytes, bytes], status: int, seconds: float) -> dict[str, Any]:
    """Return the facts of a log line; never the path, the query, tokens or bodies."""
    client = scope.get("client")
    facts = {
        "request_id": scope["request_id"],
        "client": None if client is None else client[0],
        "method": scope["method"],
        "operation": scope.get("operation", "none"),
        "route": scope.get("route"),
        "status": status,
        "milliseconds": round(seconds * 1e3, 3),
    }
    for key in ("problem", "portfolio", "token"):
        if key in scope:
            facts[key] = scope[key]
    forwarded = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip().decode("latin-1")
    if is_address(forwarded):  # what the proxy says; only logged
        facts["forwarded_for"] = forwarded
    trace = TRACE.fullmatch(headers.get(b"traceparent", b""))
    if trace is not None:
        facts["trace_id"], facts["parent_id"] = trace[1].decode(), trace[2].decode()
    return facts


def write_whole(send: Any, status: int, headers: bytes, body: bytes) -> bool:
    """Send an answer in one piece; False, and nothing was sent, if it has to go the usual way.

    `headers` are lines, one of which has the length, and nothing in them is unchecked.
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
