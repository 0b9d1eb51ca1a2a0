"""Which path leads where, remembered: reading a dict is quicker than matching patterns one after the other."""

from __future__ import annotations

from typing import Any

from starlette.routing import Match, Router

MAX_REMEMBERED = 1_024  # paths have names that a client chooses


class Paths(Router):
    """A router whose routes take every method of their paths."""

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
                if len(self._known) >= MAX_REMEMBERED:
                    self._known.clear()
                known = self._known[path] = found["endpoint"], found["path_params"]
                return known
        return self.default, {}
