"""Snapshots and retention, in the background.

The portfolio waits only while its state is copied, not while it is written.

Retention removes contexts of closed decisions from the journal and changes nothing that is certified. The order makes
every crash harmless: the event of the redaction, two snapshots from which everything after can be folded, then the
removal. The first snapshot is the base: a rebuild starts there, since events before it have lost data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Event as Signal
from threading import Lock, Thread
from time import perf_counter

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.journal.protocol import Journal
from equipoise.portfolio.events import logger
from equipoise.settings.checks import real
from equipoise.types import Config

Ids = Collection[str] | None
Note = Callable[[Ids, float | None], tuple[Config, int, frozenset[str]]]


class Background:
    """The thread that stores snapshots every so many events, and then calls `afterwards`.

    `take` returns the state and the number of the last event in it.
    """

    def __init__(
        self, journal: Journal, every: int, take: Callable[[], tuple[Config, int]], afterwards: Callable[[], object]
    ) -> None:
        self._journal, self._every, self._take, self._afterwards = journal, every, take, afterwards
        snapshots = journal.snapshots()
        self.last = snapshots[0].seq if snapshots else 0  # number of the last event in the newest snapshot
        self.next = self.last + every  # number of the event at which a snapshot is due
        self._due, self._one_at_a_time = Signal(), Lock()
        self._closing = False
        self.pause_seconds = 0.0  # for which the portfolio waited at the last snapshot
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
        with self._one_at_a_time:
            since = perf_counter()
            state, seq = self._take()
            self.pause_seconds = perf_counter() - since
            if seq != self.last:
                self._journal.put_snapshot(seq, state)
                self.last, self.next = seq, seq + self._every
            return seq

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closing:
                return
            try:
                self.snapshot()
                self._afterwards()
                self.error = ""
            except EquipoiseError as error:
                self.error = str(error)
                logger.warning("no snapshot was stored: %s", error)
                self.next = self._journal.last_seq + self._every


def redact(journal: Journal, note: Note, ids: Ids, before: float | None) -> int:
    """Remove contexts and outcomes of closed decisions; returns the number of events that lost data.

    `note` makes the event durable; it returns the state and last event before it, and the decisions to leave alone.
    """
    if (ids is None) == (before is None):
        raise InvalidArgument(f"ids is {ids!r:.80} and before is {before!r}, but exactly one must be given")
    if before is not None:
        before = real("before", before)
    if isinstance(ids, str):
        raise InvalidArgument(f"ids is {ids!r:.80}, but must be a list of ids")
    state, seq, keep = note(ids, before)
    journal.put_snapshot(seq, state, base=True)
    journal.put_snapshot(seq + 1, state)  # the event of the redaction changes no state
    return journal.redact(ids=ids, before=before, keep=keep)
