"""The portfolios of a process, their tokens, limits and measurements."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.config import SERVED_NAME, PortfolioConfig, check_served
from equipoise.errors import EquipoiseError
from equipoise.journal import open as open_journal
from equipoise.serve.contexts import ContextReader
from equipoise.serve.created import Created
from equipoise.serve.dashboard.board import Board
from equipoise.serve.engine import Engine, JournalEngine, MemoryEngine
from equipoise.serve.hosted import BYTES_PER_OPEN, MAX_OPEN, MAX_SHARE, Limits
from equipoise.serve.metrics import Metrics
from equipoise.serve.streams import Readers, Subscribers
from equipoise.serve.tokens import ALL, SCOPES, Token, Tokens, make_data_folder
from equipoise.settings.sizes import MIB, arrays_of_at_most

logger = logging.getLogger("equipoise.serve")
FOLDERS = re.compile(r"(?<=')/(?:[^'/]+/)*")  # of paths in messages, which clients need not know
REMEDY = "fix the file or its journal, then send SIGHUP, or POST /v1/portfolios/{name}/reopen"
MAX_CAUSE = 300  # characters of a reason
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
    max_portfolios: int = 100  # after which no more are created over HTTP

    @property
    def open_bytes(self) -> int:
        return self.max_open * BYTES_PER_OPEN if self.max_open_bytes is None else self.max_open_bytes


Opener = Callable[[PortfolioConfig], Engine]
Run = Callable[..., Awaitable[Any]]  # runs a function, in a thread unless nothing is served yet


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
    file: Path | None = None
    rejected: str = ""  # why the last reload of the file changed nothing, if so

    def end_streams(self) -> None:
        self.subscribers.close()
        self.board.wake()

    def close(self) -> None:
        """Finish what waits and close the journal; takes as long as a snapshot does."""
        self.end_streams()
        self.board.store()
        try:
            self.engine.close()
        except Exception as error:  # a full disk, or a learner; the next start folds what the snapshot lacks
            expected = isinstance(error, EquipoiseError)
            logger.warning("%s was closed without a snapshot: %s", self.name, error, exc_info=not expected)


class Failed(NamedTuple):
    """A portfolio that is not served: the cause, and for clients a reason that names file, cause and remedy."""

    cause: str
    reason: str
    file: Path | None
    config: PortfolioConfig | None  # None if the file could not be read


@dataclass
class Service:
    """Everything that handlers of requests need.

    A portfolio whose file or journal is refused does not hold up the others: it is in `failed` under its name, and
    answers 503. A file that does not tell its name is there under the name of the file, which has a dot.
    """

    tokens: Tokens  # without any, requests of this machine may do everything, and others nothing
    settings: Settings
    open: Opener
    created: Created = field(default_factory=Created)
    metrics: Metrics = field(default_factory=Metrics)
    portfolios: dict[str, Served] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    readers: Readers = field(default_factory=Readers)
    stopping: bool = False
    changes: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while portfolios are opened, changed or closed

    def __post_init__(self) -> None:
        self.metrics.levels["streams"] = self.readers.__len__
        self.metrics.levels["failed_portfolios"] = self.n_failed

    def add(self, config: PortfolioConfig, file: Path | None = None) -> None:
        """Open a portfolio and serve it from now on."""
        check_served(config, self.portfolios)
        self._serve(self._opened(config, file))

    async def reopen(self, config: PortfolioConfig, file: Path | None, run: Run) -> None:
        """Serve a portfolio that is new, or was not served, or whose journal failed; `run` does what takes long."""
        check_served(config, ())
        try:
            if config.name in self.portfolios:
                await run(self.portfolios[config.name].close)
            served = await run(self._opened, config, file)
        except BaseException:
            self.portfolios.pop(config.name, None)  # it is closed
            raise
        if self.stopping:  # meanwhile: all others are closed
            await run(served.close)
            return
        self._serve(served)

    async def remove(self, name: str, run: Run) -> None:
        """Serve a portfolio no more; its journal is closed and kept."""
        self.failed.pop(name, None)
        self.metrics.statuses.pop(name, None)
        served = self.portfolios.pop(name, None)
        if served is not None:
            with suppress(EquipoiseError):
                await served.engine.run(lambda hosted: None)  # after the requests that came before
            await run(served.close)

    def refuse(
        self, name: str, error: BaseException, file: Path | None = None, config: PortfolioConfig | None = None
    ) -> None:
        """Note that a portfolio, which is not open, is not served, and log it."""
        cause, where = describe(error), f"portfolio {name!r}" if file is None else str(file)
        logger.error(
            "%s is not served: %s", where, cause, exc_info=None if isinstance(error, EquipoiseError) else error
        )
        file_name = "" if file is None else f"{file.name}: "
        short = FOLDERS.sub("", cause.removeprefix(f"{file}: "))[:MAX_CAUSE]
        reason = f"the portfolio is not served: {file_name}{short}; {REMEDY.format(name=name)}"
        self.failed[name] = Failed(cause, reason, file, config)

    def _opened(self, config: PortfolioConfig, file: Path | None) -> Served:
        with arrays_of_at_most(self.settings.max_state_bytes):
            engine = self.open(config)
        parts = ContextReader(config, engine.schema), engine, Subscribers(engine), Board(engine.timeline_path)
        return Served(config.name, config, *parts, file)

    def _serve(self, served: Served) -> None:
        self.failed.pop(served.name, None)
        self.portfolios[served.name] = served

    def failure_of(self, name: str) -> str | None:
        """Why a portfolio answers no requests, if so."""
        served = self.portfolios.get(name)
        if served is not None:
            return served.engine.failure
        return self.failed[name].reason if name in self.failed else None

    @property
    def names(self) -> list[str]:
        """The names of all portfolios, failed ones included, in order."""
        return sorted(self.portfolios.keys() | filter(SERVED_NAME.fullmatch, self.failed))

    def n_failed(self) -> int:
        """Return the number of portfolios, and of files without a name, that answer no requests."""
        return len(self.failed) + sum(served.engine.failure is not None for served in self.portfolios.values())

    def limits(self, portfolio: str) -> Limits:
        """Return how much may wait for rewards in a portfolio."""
        share = MAX_SHARE if self.tokens.n_deciding(portfolio) > 1 else 1.0
        return Limits(self.settings.max_open, self.settings.open_bytes, share)

    def stop(self) -> None:
        """Be unready, and end streams; requests are still answered."""
        self.stopping = True
        for served in self.portfolios.values():
            served.end_streams()

    def close(self) -> None:
        """Finish what waits and close the journals."""
        self.stop()
        for served in self.portfolios.values():
            served.close()

    @property
    def ready(self) -> bool:
        """Whether requests are answered, for at least one portfolio if there are any."""
        known = len(self.portfolios) + len(self.failed)
        return not self.stopping and (known == 0 or self.n_failed() < known)

    def is_ready(self, name: str) -> bool:
        """Whether requests to a portfolio are answered."""
        return not self.stopping and name in self.portfolios and self.failure_of(name) is None


def describe(error: BaseException) -> str:
    """Return what is wrong, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, EquipoiseError) else f"{type(error).__name__}: {text}"
