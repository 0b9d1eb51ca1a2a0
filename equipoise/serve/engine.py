"""One thread per portfolio that runs everything that touches it, with one commit for all that waited.

`submit` queues an operation and returns a future. The thread takes what is in the queue, runs it, commits once, and
only then resolves the futures, so nothing is visible before it is durable, and the price of a commit is shared by all
requests that came meanwhile. The queue is bounded: what does not fit is refused, never dropped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar

from equipoise.portfolio import Event
from equipoise.serve.failures import Overloaded, Stopped
from equipoise.serve.hosted import Hosted

T = TypeVar("T")
logger = logging.getLogger("equipoise.serve")

CAPACITY = 4_096  # requests that may wait
BATCH = 1_024  # requests of one commit
TICK_SECONDS = 1.0  # between looks for overdue decisions
EXPIRED_PER_TICK = 1_000


class Store(Protocol):
    """What makes changes of a portfolio durable."""

    def commit(self) -> None:
        """Make everything durable that happened since the last call; an error means that nothing of it is."""
        ...

    def close(self) -> None: ...


class NoStore:
    """Keeps nothing: for tests and comparisons."""

    def commit(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Task(NamedTuple):
    run: Callable[[Hosted], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class _Outcome(NamedTuple):
    task: _Task
    result: Any
    error: BaseException | None


class Engine:
    """Runs operations on a portfolio.

    Parameters
    ----------
    hosted
        The portfolio.
    store
        What makes its changes durable. Default: nothing does.
    capacity
        How many operations may wait.
    publish
        Called, in the thread, with the events of every commit.
    """

    def __init__(
        self,
        hosted: Hosted,
        store: Store | None = None,
        *,
        capacity: int = CAPACITY,
        publish: Callable[[list[Event]], None] = lambda events: None,
    ) -> None:
        self._hosted, self._store, self._publish = hosted, store or NoStore(), publish
        self._capacity = capacity
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._closing = False
        self.failure: str | None = None  # why nothing can be written any more
        self._thread = threading.Thread(target=self._work, name="equipoise-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Number of operations that wait."""
        return self._queue.qsize()

    @property
    def ready(self) -> bool:
        return self._thread.is_alive() and not self._closing and self.failure is None

    def submit(self, operation: Callable[[Hosted], T]) -> asyncio.Future[T]:
        """Queue an operation; its future is resolved after the commit."""
        if self.failure is not None:
            raise Stopped(f"the journal cannot be written: {self.failure}")
        if self._closing:
            raise Stopped("the service is stopping")
        waiting = self._queue.qsize()
        if waiting >= self._capacity:
            raise Overloaded(waiting)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Task(operation, future, loop))
        return future

    def close(self) -> None:
        """Finish what waits, commit it, and end the thread."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        last, expired_at = False, monotonic()
        while not last:
            tasks, last = self._take()
            outcomes = [self._run(task) for task in tasks]
            if monotonic() - expired_at >= TICK_SECONDS:
                self._expire()
                expired_at = monotonic()
            outcomes = self._commit(outcomes)
            for loop in {task.loop for task in tasks}:
                try:
                    loop.call_soon_threadsafe(_resolve, [each for each in outcomes if each.task.loop is loop])
                except RuntimeError:  # the loop has ended, and with it whoever asked
                    logger.warning("%d answers have nobody to go to", len(outcomes))
        self._store.close()

    def _take(self) -> tuple[list[_Task], bool]:
        """What waits, at most one batch of it, and whether this is the end."""
        tasks: list[_Task] = []
        try:
            task = self._queue.get(timeout=TICK_SECONDS)
            while task is not None:
                tasks.append(task)
                if len(tasks) >= BATCH:
                    return tasks, False
                task = self._queue.get_nowait()
        except Empty:
            return tasks, False
        return tasks, True

    def _run(self, task: _Task) -> _Outcome:
        if self.failure is not None:
            return _Outcome(task, None, Stopped(f"the journal cannot be written: {self.failure}"))
        try:
            return _Outcome(task, task.run(self._hosted), None)
        except Exception as error:
            return _Outcome(task, None, error)

    def _expire(self) -> None:
        """Give overdue decisions their default reward; decisions do a few each while there are any."""
        if self.failure is None and self._hosted.portfolio.deadline is not None:
            try:
                self._hosted.portfolio.expire(EXPIRED_PER_TICK)
            except Exception:
                logger.exception("overdue decisions could not be closed")

    def _commit(self, outcomes: list[_Outcome]) -> list[_Outcome]:
        events = self._hosted.take_events()
        if not events or self.failure is not None:
            return outcomes
        try:
            self._store.commit()
        except Exception as error:
            # What is in memory may now be ahead of the journal, so nothing more is answered from it.
            self.failure = str(error)
            logger.critical("the journal cannot be written, so the portfolio stops: %s", error)
            stopped = Stopped(f"the journal cannot be written: {error}")
            return [_Outcome(each.task, None, stopped) for each in outcomes]
        self._publish(events)
        return outcomes


def _resolve(outcomes: list[_Outcome]) -> None:
    for task, result, error in outcomes:
        if task.future.done():  # whoever asked has gone
            continue
        if error is None:
            task.future.set_result(result)
        else:
            task.future.set_exception(error)
