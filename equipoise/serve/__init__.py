"""Decisions over HTTP: the service of `equipoise serve`, and its clients.

`create_app` makes the application without a server, for tests and for other servers; `Client` and
`AsyncClient` need the standard library only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise.errors import require

if TYPE_CHECKING:
    from equipoise.serve.app import create_app
    from equipoise.serve.client import AsyncClient, Client, Outcome, Round, ServiceError

__all__ = ["AsyncClient", "Client", "Outcome", "Round", "ServiceError", "create_app"]

_LAZY = dict.fromkeys(__all__, "equipoise.serve.client") | {"create_app": "equipoise.serve.app"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:  # the client must not need the packages of the service
        if name == "create_app":
            require("equipoise.serve", "msgspec", "starlette", "prometheus_client")
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'equipoise.serve' has no attribute {name!r}")
