"""The engine over a journal: a portfolio that is kept in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from equipoise.config import PortfolioConfig
from equipoise.errors import JournalBusy, StoreConflict
from equipoise.journal import LivePortfolio
from equipoise.journal import open as open_journal
from equipoise.journal.sqlite import connect_reader
from equipoise.portfolio import Event, Portfolio
from equipoise.portfolio.drifting import changed_settings
from equipoise.serve.engine import Engine
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Opener
from equipoise.serve.tokens import make_data_folder
from equipoise.storage.files import canonical_json
from equipoise.storage.parts import fingerprint
from equipoise.types import Config

T = TypeVar("T")
MAX_WAITING = 4_096  # requests that may wait for the disk
MAX_BATCH = 1_024  # requests of one transaction
TURNS = 8  # of the event loop between two transactions; takes tens of microseconds
SETTINGS = (
    "seed",
    "share_data",
    "deadline",
    "default_reward",
    "aggregate",
    "delays",
    "window",
    "explore",
    "availability",
)
PER_LEARNER = ("bounds", "n_learners", "teaching", "twins")  # settings that follow from the learners
EXISTS = "SELECT EXISTS (SELECT 1 FROM events WHERE subject = ?)"


class _Task(NamedTuple):
    operation: Callable[[Hosted], Any]
    future: asyncio.Future[Any]


class JournalEngine:
    """Runs operations on a portfolio that is kept in a journal.

    While one transaction is being written, operations wait; then all of them become the next one. So the price of a
    flush to disk, and of waking up the thread that writes, is shared by all that arrived meanwhile. Before they do, the
    answers of the last one go out, and clients that send the next request at once have it in the same transaction: half
    as many transactions, and less competition for the interpreter while one is written.
    """

    def __init__(self, live: LivePortfolio, max_waiting: int = MAX_WAITING) -> None:
        self._live, self._hosted = live, live.transact(self._host)
        self._reader = connect_reader(live.journal.path)
        self._max_waiting = max_waiting
        self._waiting: list[_Task] = []
        self._writing: asyncio.Task[None] | None = None

    def _host(self, portfolio: Portfolio, at: float) -> Hosted:
        return Hosted(portfolio, self._find, lambda kind: self._live.journal.latest(kind))

    @property
    def timeline_path(self) -> Path:
        """Where the dashboard may keep what it shows over time."""
        return self._live.journal.path.with_suffix(".timeline")

    @property
    def depth(self) -> int:
        return len(self._waiting)

    @property
    def failure(self) -> str | None:
        failure = self._live.failure
        return None if failure is None else str(failure)

    async def run(self, operation: Callable[[Hosted], T]) -> T:
        if len(self._waiting) >= self._max_waiting:
            raise JournalBusy(f"{self._max_waiting} requests wait for the journal, which is the maximum")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Task(operation, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await future

    async def _write(self) -> None:
        """Write transactions until nothing waits."""
        try:
            while self._waiting:
                tasks, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                try:
                    outcomes = await self._live.atransact(partial(self._run_all, tasks))
                except Exception as error:
                    outcomes = [(None, error)] * len(tasks)
                for (_, future), (result, failure) in zip(tasks, outcomes, strict=True):
                    if future.done():  # whoever asked has gone
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

    def _run_all(self, tasks: Sequence[_Task], portfolio: Portfolio, at: float) -> list[tuple[Any, Exception | None]]:
        self._hosted.time = at
        return [self._run(task.operation) for task in tasks]

    def _run(self, operation: Callable[[Hosted], Any]) -> tuple[Any, Exception | None]:
        try:
            return operation(self._hosted), None
        except Exception as error:
            return None, error

    def on_event(self, callback: Callable[[Event], None]) -> None:
        self._live.on_event(callback)

    def close(self) -> None:
        self._reader.close()  # first, so that the last connection to close is the one that may checkpoint
        self._live.close()

    def _find(self, id_: str) -> Sequence[Event]:
        # Most ids are new, and a connection that stays open says so in microseconds.
        (exists,) = self._reader.execute(EXISTS, (id_,)).fetchone()
        return self._live.journal.of_decision(id_) if exists else ()


def open_in(folder: Path) -> Opener:
    """Opens every portfolio in a journal of its own in a folder."""

    def open_(config: PortfolioConfig) -> Engine:
        make_data_folder(folder)
        path = folder / f"{config.name}.db"  # a name of the configuration, which was checked; never one of a request
        return JournalEngine(_open(path, config))

    return open_


def _open(path: Path, config: PortfolioConfig) -> LivePortfolio:
    """The portfolio of a journal, which must be that of the file, though learners may have joined in another order."""
    try:
        return open_journal(path, config.portfolio, name=config.name)
    except StoreConflict:
        live = open_journal(path)
        try:
            template = config.portfolio()
            said = not template._recommendation
            changed = live.transact(lambda portfolio, at: changed_settings(portfolio))
            now = live.transact(lambda portfolio, at: _essence(portfolio, said, changed))
            if now != _essence(template, said, changed):
                raise
        except BaseException:
            live.close()
            raise
        return live


def _essence(portfolio: Portfolio, with_selector: bool, changed: Collection[str]) -> Config:
    """What must agree between a journal and its file, whatever the order in which learners joined.

    A file that names no selector says nothing about it. Settings of the selector that restarts have `changed` do not
    count, but for the delta that they began with.
    """
    pairs = zip(portfolio.learner_names, portfolio.learners, strict=True)
    settings = {name: getattr(portfolio, name) for name in SETTINGS}
    learners = {name: canonical_json(fingerprint(learner)) for name, learner in pairs if learner is not None}
    if not with_selector:
        del settings["share_data"]
        return {"learners": learners, **settings}
    selector, left_out = fingerprint(portfolio.selector), {*PER_LEARNER, *changed}
    rules = {name: value for name, value in selector["config"].items() if name not in left_out}
    rules["delta"] = portfolio._drift.delta
    bounds = sorted(map(canonical_json, selector["config"].get("bounds") or ()))
    return {"selector": (selector["class"], canonical_json(rules), bounds), "learners": learners, **settings}
