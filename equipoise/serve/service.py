"""The portfolios of a process, their tokens, limits and measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from equipoise.config import PortfolioConfig, check_served
from equipoise.journal import open as open_journal
from equipoise.serve.contexts import ContextReader
from equipoise.serve.dashboard.board import Board
from equipoise.serve.engine import Engine, JournalEngine, MemoryEngine
from equipoise.serve.hosted import BYTES_PER_OPEN, MAX_OPEN, MAX_SHARE, Limits
from equipoise.serve.metrics import Metrics
from equipoise.serve.streams import Readers, Subscribers
from equipoise.serve.tokens import ALL, SCOPES, Token, Tokens, make_data_folder
from equipoise.settings.sizes import MIB, arrays_of_at_most

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
ANYONE = Token("anyone", "", SCOPES, (ALL,))  # on this machine, where there are no tokens


@dataclass(frozen=True)
class Settings:
    """Limits of a service."""

    hosts: tuple[str, ...] = LOOPBACK_HOSTS  # names under which it may be addressed, without ports; "*" is any
    max_body_bytes: int = 1 << 16  # of a request, and of a line of a batch
    max_batch_bytes: int = 1 << 20
    max_lines: int = 1_000  # of a batch
    max_open: int = MAX_OPEN  # decisions of a portfolio that wait for their rewards; more would fill the memory
    max_open_bytes: int | None = None  # that they take; by default `BYTES_PER_OPEN` for each
    max_state_bytes: int = 64 * MIB  # of the largest array of a learner

    @property
    def open_bytes(self) -> int:
        return self.max_open * BYTES_PER_OPEN if self.max_open_bytes is None else self.max_open_bytes


Opener = Callable[[PortfolioConfig], Engine]


def open_in_memory(config: PortfolioConfig) -> Engine:
    """A portfolio that is forgotten when the process ends."""
    return MemoryEngine(config.portfolio())


def open_in(folder: Path) -> Opener:
    """Opens every portfolio in a journal of its own in a folder."""

    def open_(config: PortfolioConfig) -> Engine:
        make_data_folder(folder)
        path = folder / f"{config.name}.db"  # a name of the configuration, which was checked; never one of a request
        engine = JournalEngine(open_journal(path, config.portfolio, name=config.name))
        engine.retain(config.retention)
        return engine

    return open_


@dataclass
class Served:
    name: str
    config: PortfolioConfig
    reader: ContextReader
    engine: Engine
    subscribers: Subscribers
    board: Board


@dataclass
class Service:
    """Everything that handlers of requests need."""

    tokens: Tokens  # without any, requests of this machine may do everything, and others nothing
    settings: Settings
    open: Opener
    metrics: Metrics = field(default_factory=Metrics)
    portfolios: dict[str, Served] = field(default_factory=dict)
    readers: Readers = field(default_factory=Readers)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.metrics.levels["streams"] = self.readers.__len__

    def add(self, config: PortfolioConfig) -> None:
        check_served(config, self.portfolios)
        with arrays_of_at_most(self.settings.max_state_bytes):
            engine = self.open(config)
        parts = ContextReader(config), engine, Subscribers(engine), Board(engine.timeline_path)
        self.portfolios[config.name] = Served(config.name, config, *parts)

    def limits(self, portfolio: str) -> Limits:
        """Return how much may wait for rewards in a portfolio."""
        share = MAX_SHARE if self.tokens.n_deciding(portfolio) > 1 else 1.0
        return Limits(self.settings.max_open, self.settings.open_bytes, share)

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
