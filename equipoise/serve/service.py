"""The portfolios of a process, who may use them, and what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from equipoise.config import PortfolioConfig, check_served
from equipoise.serve.contexts import ContextReader
from equipoise.serve.dashboard.board import Board
from equipoise.serve.engine import Engine, MemoryEngine
from equipoise.serve.failures import Refused
from equipoise.serve.hosted import MAX_OPEN
from equipoise.serve.metrics import Metrics
from equipoise.serve.streams import Readers, Subscribers
from equipoise.serve.tokens import ALL, SCOPES, Token, Tokens

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
ANYONE = Token("anyone", "", SCOPES, (ALL,))  # on this machine, where there are no tokens
BEARER = {"WWW-Authenticate": 'Bearer realm="equipoise"'}


@dataclass(frozen=True)
class Settings:
    """Limits of a service.

    Parameters
    ----------
    hosts
        Names under which it may be addressed, without ports; "*" is any.
    max_body_bytes
        Largest body of a request, and longest line of a batch.
    max_batch_bytes
        Largest body of a batch.
    max_lines
        Most lines of a batch.
    max_open
        Most decisions of a portfolio that wait for their rewards; without a limit they would fill the memory.
    """

    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    max_body_bytes: int = 1 << 16
    max_batch_bytes: int = 1 << 20
    max_lines: int = 1_000
    max_open: int = MAX_OPEN


Opener = Callable[[PortfolioConfig], Engine]


def open_in_memory(config: PortfolioConfig) -> Engine:
    """A portfolio that is forgotten when the process ends."""
    return MemoryEngine(config.portfolio())


@dataclass
class Served:
    """A portfolio in the service."""

    name: str
    config: PortfolioConfig
    reader: ContextReader
    engine: Engine
    subscribers: Subscribers
    board: Board


@dataclass
class Service:
    """Everything that handlers of requests need.

    Parameters
    ----------
    tokens
        Who may do what; without any, requests of this machine may do everything, and others nothing.
    settings
        Limits.
    open
        How portfolios are opened.
    """

    tokens: Tokens
    settings: Settings
    open: Opener
    metrics: Metrics = field(default_factory=Metrics)
    portfolios: dict[str, Served] = field(default_factory=dict)
    readers: Readers = field(default_factory=Readers)
    stopping: bool = False

    def add(self, config: PortfolioConfig) -> None:
        """Open a portfolio and serve it."""
        check_served(config, self.portfolios)
        engine = self.open(config)
        parts = ContextReader(config), engine, Subscribers(engine), Board(getattr(engine, "timeline_path", None))
        self.portfolios[config.name] = Served(config.name, config, *parts)

    def stop(self) -> None:
        """Be unready, and end streams; requests are still answered."""
        self.stopping = True
        for served in self.portfolios.values():
            served.subscribers.close()
            served.board.wake()

    def close(self) -> None:
        """Finish what waits and close the journals."""
        self.stop()
        for served in self.portfolios.values():
            served.board.store()
            served.engine.close()

    @property
    def ready(self) -> bool:
        return not self.stopping and all(served.engine.failure is None for served in self.portfolios.values())

    def authenticate(self, authorization: str) -> Token:
        """The token of a request."""
        if not len(self.tokens):
            return ANYONE
        kind, _, secret = authorization.partition(" ")
        token = self.tokens.find(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise Refused(401, "unauthenticated", "the request needs a valid token: Authorization: Bearer ...", BEARER)
        return token

    def authorize(self, token: Token, scope: str, portfolio: str | None) -> None:
        """Raise an error if the token does not allow this."""
        if not token.allows(scope, portfolio):
            raise Refused(403, "forbidden", f"the token does not have the scope {scope!r} for this portfolio")

    def find(self, name: str) -> Served:
        served = self.portfolios.get(name)
        if served is None:
            raise Refused(404, "unknown-portfolio", "there is no portfolio of this name")
        return served
