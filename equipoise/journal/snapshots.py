"""Snapshots in the background: the portfolio waits only while its state is frozen, not while it is written.

A frozen state refers to what never changes (bytes of open decisions, blocks of rows that are copied before they change)
and is made into bytes some at a time, so the pause hardly grows with the state.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Signal
from threading import Lock, Thread

from equipoise.errors import EquipoiseError
from equipoise.journal.protocol import Journal
from equipoise.portfolio.events import logger
from equipoise.types import Config


class Background:
    """The thread that stores snapshots every so many events.

    `take` returns the state, the number of the last event in it, and for how many seconds it held the portfolio.
    Others hold `lock` while they replace snapshots.
    """

    def __init__(self, journal: Journal, every: int, take: Callable[[], tuple[Config, int, float]]) -> None:
        self._journal, self._every, self._take = journal, every, take
        snapshots = journal.snapshots()
        self.last = snapshots[0].seq if snapshots else 0  # number of the last event in the newest snapshot
        self.next = self.last + every  # number of the event at which a snapshot is due
        self._due, self.lock = Signal(), Lock()
        self._closing = False
        self.pause_seconds = 0.0  # for which the portfolio waited at the last snapshot
        self.bytes = snapshots[0].size if snapshots else 0  # of the last snapshot
        self.error = ""  # of the last snapshot, if it failed
        self._thread = Thread(target=self._run, name=f"equipoise snapshots {journal.portfolio}", daemon=True)
        self._thread.start()
        if journal.last_seq >= self.next:
            self.wake()

    def wake(self) -> None:
        self._due.set()

    def close(self) -> None:
        """Finish the snapshot that is being stored, and start no other."""
        self._closing = True
        self._due.set()
        self._thread.join()

    def snapshot(self) -> int:
        """Store a snapshot; returns the number of the last event in it."""
        with self.lock:
            state, seq, self.pause_seconds = self._take()
            if seq != self.last:
                self.put(seq, state)
            return seq

    def put(self, seq: int, state: Config, *, base: bool = False) -> None:
        """Store the state at an event; the caller holds `lock`."""
        self.bytes = self._journal.put_snapshot(seq, state, base=base)
        self.last, self.next = seq, seq + self._every

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closing:
                return
            try:
                self.snapshot()
                self.error = ""
            except Exception as error:  # of a learner too: the events are there, and the next snapshot may succeed
                self.error = str(error) or type(error).__name__
                expected = isinstance(error, EquipoiseError)
                logger.warning("no snapshot was stored: %s", error, exc_info=not expected)
                self.next = self._journal.last_seq + self._every
