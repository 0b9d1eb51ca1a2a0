"""The engine over a journal: a portfolio that is kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from equipoise.config import PortfolioConfig
from equipoise.journal import LivePortfolio
from equipoise.journal import open as open_journal
from equipoise.journal.sqlite import connect_reader
from equipoise.portfolio import Event, Portfolio
from equipoise.serve.engine import Engine
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Opener

T = TypeVar("T")
MAX_WAITING = 4_096  # requests that may wait for the disk
EXISTS = "SELECT EXISTS (SELECT 1 FROM events WHERE subject = ?)"


class JournalEngine:
    """Runs operations on a portfolio that is kept in a journal."""

    def __init__(self, live: LivePortfolio) -> None:
        self._live, self._hosted = live, live.transact(self._host)
        self._reader = connect_reader(live.journal.path)

    def _host(self, portfolio: Portfolio, at: float) -> Hosted:
        return Hosted(portfolio, self._find)

    @property
    def depth(self) -> int:
        return self._live.journal.backlog

    @property
    def failure(self) -> str | None:
        failure = self._live.failure
        return None if failure is None else str(failure)

    async def run(self, operation: Callable[[Hosted], T]) -> T:
        def run(portfolio: Portfolio, at: float) -> T:
            self._hosted.time = at
            return operation(self._hosted)

        return await self._live.atransact(run)

    def on_event(self, callback: Callable[[Event], None]) -> None:
        self._live.on_event(callback)

    def close(self) -> None:
        self._live.close()
        self._reader.close()

    def _find(self, id_: str) -> Sequence[Event]:
        # Most ids are new, and a connection that stays open says so in microseconds.
        (exists,) = self._reader.execute(EXISTS, (id_,)).fetchone()
        return self._live.journal.of_decision(id_) if exists else ()


def open_in(folder: Path) -> Opener:
    """Opens every portfolio in a journal of its own in a folder."""

    def open_(config: PortfolioConfig) -> Engine:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{config.name}.db"  # a name of the configuration, which was checked; never one of a request
        return JournalEngine(open_journal(path, config.portfolio, name=config.name, max_waiting=MAX_WAITING))

    return open_
