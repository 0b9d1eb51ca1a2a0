"""Engines: they run the operations on a portfolio one at a time, and answer when the changes are durable.

Operations run in the event loop, so nothing waits for a thread. The journal's one writer thread makes all waiting
operations durable in one transaction, and only then are the futures resolved. Nothing is visible before that, reads and
refusals included. As many operations wait as there are connections; when one has waited for too long, more are refused,
never dropped.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from equipoise.errors import JournalBusy
from equipoise.features import Schema
from equipoise.journal import LivePortfolio
from equipoise.journal.opening import began
from equipoise.journal.scrub import SCRUBBER
from equipoise.journal.sqlite import connect_reader, reading
from equipoise.portfolio import Event, Portfolio
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.settings import Retention
from equipoise.serve.hosted import Hosted
from equipoise.types import Config

logger = logging.getLogger("equipoise.serve")
P = ParamSpec("P")
T = TypeVar("T")
MAX_WAIT_SECONDS = 5.0  # for the disk; while a request has waited for longer, others are refused
MAX_BATCH = 1_024  # requests of one transaction
TURNS = 8  # of the event loop between two transactions; takes tens of microseconds
EXISTS = "SELECT EXISTS (SELECT 1 FROM events WHERE subject = ?)"


class Engine(Protocol):
    """Runs operations on a portfolio."""

    @property
    def depth(self) -> int:
        """Number of operations that wait."""

    @property
    def timeline_path(self) -> Path | None:
        """The file in which the dashboard may keep its timeline, if any."""

    @property
    def failure(self) -> str | None:
        """Why nothing more is accepted, if so."""

    def began(self) -> Config | None:
        """Return the state in which the portfolio began; None if it cannot be read any more."""

    def schema(self) -> Schema | None:
        """Return the schema of the portfolio, with the scales learned so far."""

    def journal_health(self) -> Config | None:
        """The numbers of the journal, also after a failure, without waiting; None if there is no journal."""

    async def run(self, operation: Callable[Concatenate[Hosted, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run an operation with the portfolio and `arguments`; return its result, or raise its error, when durable."""

    async def forget(self, ids: Sequence[str] | None, unit: str | None = None) -> int:
        """Remove contexts and outcomes of these closed decisions, or of a unit's; return how many events lost data."""

    def retain(self, retention: Retention) -> None:
        """Remove contexts and archive events after these times from now on."""

    def on_event(self, callback: Callable[[Event], None]) -> None:
        """Call `callback` with every event that is durable from now on, in any thread."""

    def close(self) -> None:
        """Finish what waits; nothing is accepted afterwards."""


class MemoryEngine:
    """Keeps a portfolio in memory only: for tests, trials and comparisons."""

    depth, timeline_path = 0, None
    failure: str | None = None

    def __init__(self, portfolio: Portfolio) -> None:
        self._portfolio, self._hosted = portfolio, Hosted(portfolio)
        self._clock, self._began = Clock(), portfolio.state()

    def began(self) -> Config:
        return self._began

    def schema(self) -> Schema | None:
        return self._portfolio.schema

    async def run(self, operation: Callable[Concatenate[Hosted, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        self._hosted.time = self._clock.now()
        return operation(self._hosted, *arguments, **options)

    async def forget(self, ids: Sequence[str] | None, unit: str | None = None) -> int:
        self._portfolio.check_finished(ids or ())
        return 0  # only open decisions have contexts

    def retain(self, retention: Retention) -> None:
        pass

    def on_event(self, callback: Callable[[Event], None]) -> None:
        self._portfolio.on_event(callback)

    def journal_health(self) -> None:
        return None

    def close(self) -> None:
        self.failure = "the portfolio is closed"


class _Task(NamedTuple):
    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    future: asyncio.Future[Any]
    since: float


class JournalEngine:
    """Runs operations on a portfolio that is kept in a journal.

    While one transaction is being written, operations wait; then all of them become the next one, so one flush to disk
    serves all that arrived meanwhile. The answers of the last one go out before, so that clients that send the next
    request at once have it in the same transaction.
    """

    def __init__(self, live: LivePortfolio) -> None:
        self._live = live
        try:
            self._hosted = live.transact(self._host)
            with reading(live.journal.path):
                self._reader = connect_reader(live.journal.path)
        except BaseException:
            live.close(snapshot=False)
            raise
        self._scrub = SCRUBBER.add(live.journal.path, live.name)
        self._waiting: list[_Task] = []
        self._writing: asyncio.Task[None] | None = None

    @property
    def _files(self) -> tuple[Path, Path]:
        path = self._live.journal.path
        return path, path.with_name(f"{path.name}-wal")

    def _host(self, portfolio: Portfolio, at: float) -> Hosted:
        self._extend_deadlines(portfolio, at)
        return Hosted(portfolio, self._find, lambda kind: self._live.journal.latest(kind))

    def _extend_deadlines(self, portfolio: Portfolio, at: float) -> None:
        """Let the time before the start not count toward deadlines if it would end all that is open.

        Nobody could report a reward then, or the clock of the machine is ahead.
        """
        deadline, passed = portfolio.settings.deadline, at - portfolio.time
        if isinstance(deadline, float) and passed > deadline and portfolio.n_pending:
            portfolio.extend_deadlines(passed, at=at)
            logger.error(
                "%s: by the clock, %.0f s have passed since the last event, more than the deadline. They do not count "
                "for the %d open decisions; if the clock is right, `POST .../expire` closes these now",
                *(self._live.name, passed, portfolio.n_pending),
            )

    @property
    def timeline_path(self) -> Path:
        """The file next to the journal in which the dashboard keeps its timeline."""
        return self._live.journal.path.with_suffix(".timeline")

    @property
    def depth(self) -> int:
        return len(self._waiting)

    @property
    def failure(self) -> str | None:
        failure = self._live.failure
        return None if failure is None else self._without_folder(str(failure))

    def began(self) -> Config | None:
        return began(self._live.journal)

    def schema(self) -> Schema | None:
        return self._hosted.portfolio.schema

    def journal_health(self) -> Config:
        numbers, scrub = self._live.journal_health(), self._scrub
        numbers |= {
            "failed": self.failure is not None,
            "bytes": sum(map(_size, self._files)),
            "checked": scrub.checked,
            "damaged": scrub.damaged or int(numbers["damage"] != ""),
            "damage": numbers["damage"] or scrub.error,
        }
        shown = self._without_folder
        return {key: shown(value) if isinstance(value, str) else value for key, value in numbers.items()}

    def _without_folder(self, text: str) -> str:
        """Return what an error says about a file, without where the file is."""
        return text.replace(f"{self._live.journal.path.parent}{os.sep}", "")

    async def run(self, operation: Callable[Concatenate[Hosted, P], T], *arguments: P.args, **options: P.kwargs) -> T:
        now = monotonic()
        if self._waiting and now - self._waiting[0].since > MAX_WAIT_SECONDS:
            raise JournalBusy(f"a request has waited for the journal for more than {MAX_WAIT_SECONDS:g} seconds")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Task(operation, arguments, options, future, now))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await future

    async def _write(self) -> None:
        try:
            while self._waiting:
                tasks, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                try:
                    outcomes = await self._live.atransact(self._run_all, tasks)
                except Exception as error:
                    outcomes = [(None, error)] * len(tasks)
                for (*_, future, _), (result, failure) in zip(tasks, outcomes, strict=True):
                    if future.done():  # the request was canceled
                        continue
                    if failure is None:
                        future.set_result(result)
                    else:
                        future.set_exception(failure)
                if len(tasks) > 1:
                    for _ in range(TURNS):
                        await asyncio.sleep(0)
        finally:
            self._writing = None

    def _run_all(self, portfolio: Portfolio, at: float, tasks: Sequence[_Task]) -> list[tuple[Any, Exception | None]]:
        self._hosted.time = at
        outcomes: list[tuple[Any, Exception | None]] = []
        for operation, arguments, options, *_ in tasks:
            try:
                outcomes.append((operation(self._hosted, *arguments, **options), None))
            except Exception as error:
                outcomes.append((None, error))
        return outcomes

    async def forget(self, ids: Sequence[str] | None, unit: str | None = None) -> int:
        return await asyncio.to_thread(self._live.redact, ids, unit=unit)

    def retain(self, retention: Retention) -> None:
        self._live.retain(retention)

    def on_event(self, callback: Callable[[Event], None]) -> None:
        self._live.on_event(callback)

    def close(self) -> None:
        SCRUBBER.remove(self._scrub)
        self._reader.close()  # before the journal, so that the last connection to close is the one that may checkpoint
        self._live.close()

    def _find(self, id_: str) -> Sequence[Event]:
        # Most ids are new, and a connection that stays open says so in microseconds.
        with reading(self._live.journal.path):
            (exists,) = self._reader.execute(EXISTS, (id_,)).fetchone()
        return self._live.journal.of_decision(id_) if exists else ()


def _size(file: Path) -> int:
    """Return the size of a file in bytes, 0 if it is not there."""
    with suppress(OSError):
        return file.stat().st_size
    return 0
