"""Engines: they run what touches a portfolio, one operation at a time, and answer when it is durable.

Operations run in the event loop, so nothing waits for a thread; the journal's one writer thread makes everything
durable that came meanwhile in one transaction, and only then the futures are resolved. Nothing is visible before that,
reads and refusals included. How many operations may wait is bounded: what does not fit is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from equipoise.portfolio import Event, Portfolio
from equipoise.portfolio.clock import Clock
from equipoise.serve.hosted import Hosted

T = TypeVar("T")


class Engine(Protocol):
    """Runs operations on a portfolio."""

    @property
    def depth(self) -> int:
        """Number of operations that wait."""
        ...

    @property
    def failure(self) -> str | None:
        """Why nothing more is accepted, if so."""
        ...

    async def run(self, operation: Callable[[Hosted], T]) -> T:
        """Run an operation, and return its result or raise its error once what it did is durable."""
        ...

    def on_event(self, callback: Callable[[Event], None]) -> None:
        """Call `callback` with every event that is durable from now on, in any thread."""
        ...

    def close(self) -> None:
        """Finish what waits; nothing is accepted afterwards."""
        ...


class MemoryEngine:
    """Keeps a portfolio in memory only: for tests, trials and comparisons."""

    depth = 0
    failure: str | None = None

    def __init__(self, portfolio: Portfolio) -> None:
        self._portfolio, self._hosted = portfolio, Hosted(portfolio)
        self._clock = Clock()

    async def run(self, operation: Callable[[Hosted], T]) -> T:
        self._hosted.time = self._clock.now(self._portfolio._time)
        return operation(self._hosted)

    def on_event(self, callback: Callable[[Event], None]) -> None:
        self._portfolio.on_event(callback)

    def close(self) -> None:
        self.failure = "the portfolio is closed"
