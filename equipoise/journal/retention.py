"""Retention: contexts are removed after a time, and old events move to the archive, in the background.

*Redaction* removes contexts of closed decisions from journal, archive, snapshots and WAL, and changes nothing that is
certified. The order makes every crash harmless: the event of the redaction, two snapshots from which everything after
can be folded, then the removal. The first snapshot is the base: a rebuild starts there, since events before it have
lost data.

*Archiving* moves events out of the file, in the order: a snapshot after them becomes the base (another one is newer),
the segment of the archive is durable, the journal notes it, the rows are removed in small transactions between those of
events. A crash leaves events in both places, never in none. The first event stays, and so do the events of decisions
that are not finished or that requests may repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Event as Signal
from threading import Lock, Thread

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.journal import archive
from equipoise.journal.archive import Archive
from equipoise.journal.snapshots import Background
from equipoise.journal.sqlite import LATEST_AMONG, SQLiteJournal
from equipoise.portfolio.events import logger
from equipoise.portfolio.settings import Retention
from equipoise.portfolio.units import unit_key
from equipoise.settings.checks import real
from equipoise.types import Config

Ids = Collection[str] | None
Note = Callable[[Ids, float | None], tuple[Config, int, frozenset[str]]]
PASSES, MIN_PERIOD, MAX_PERIOD = 24, 1.0, 3600.0  # seconds between two passes: a part of the shortest age
PAUSE_SECONDS = 0.002  # after a transaction, for those of events


class Retainer:
    """Redaction and archiving of a journal, and the thread that does both once retention is set.

    `note` makes the event of a redaction durable; it returns the state and last event before it, and the decisions to
    leave alone.
    """

    def __init__(
        self,
        journal: SQLiteJournal,
        note: Note,
        now: Callable[[], float],
        unfinished: Callable[[], frozenset[str]],
        snapshots: Background,
    ) -> None:
        self._journal, self._note, self._now, self._unfinished = journal, note, now, unfinished
        self._snapshots, self._one_at_a_time = snapshots, Lock()
        self._settings = Retention()
        self._changed, self._closing = Signal(), Signal()
        self._thread: Thread | None = None
        self.error = ""  # of the last pass, if it failed

    def apply(self, settings: Retention) -> None:
        """Use these settings from now on."""
        self._settings = settings
        with self._one_at_a_time:  # a segment that is being written is not a leftover
            self._archive.clean()
        if settings.contexts is not None:
            self._journal.index_unredacted()
        if self._thread is None and (settings.contexts, settings.events) != (None, None):
            name = f"equipoise retention {self._journal.portfolio}"
            self._thread = Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._changed.set()

    def close(self) -> None:
        """Finish the present step, and begin no other."""
        self._closing.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def redact(self, ids: Ids, before: float | None, unit: str | None = None) -> int:
        """Remove contexts and outcomes of closed decisions; returns the number of events that lost data."""
        if [ids, before, unit].count(None) != 2:
            given = f"ids is {ids!r:.80}, before is {before!r} and unit is {unit!r:.80}"
            raise InvalidArgument(f"{given}, but exactly one must be given")
        if unit is not None:
            unit_key(unit)
            if self._journal.archived:
                self._archive.check_complete()
            ids = self._journal.of_unit(unit) | self._archive.of_unit(unit)
            if not ids:
                return 0
        if before is not None:
            before = real("before", before)
        if isinstance(ids, str):
            raise InvalidArgument(f"ids is {ids!r:.80}, but must be a list of ids")
        with self._one_at_a_time, self._snapshots.lock:
            self._archive.clean()
            if ids is not None and self._journal.has_archived(ids):
                self._archive.check_complete()
            state, seq, keep = self._note(ids, before)
            self._snapshots.put(seq, state, base=True)
            self._snapshots.put(seq + 1, state)  # the event of the redaction changes no state
            removed = self._archive.redact(ids=ids, before=before, keep=keep)
            return removed + self._journal.redact(ids=ids, before=before, keep=keep, last=seq)

    def run_once(self) -> None:
        """Remove and archive what is due."""
        settings, now = self._settings, self._now()
        if settings.contexts is not None and self._has_contexts(now - settings.contexts):
            self.redact(None, now - settings.contexts)
        if settings.events is not None:
            while not self._closing.is_set() and self._archive_next(now - settings.events):
                self._remove_archived(now - settings.ids)
            self._remove_archived(now - settings.ids)

    @property
    def _archive(self) -> Archive:
        return Archive(self._journal, self._settings.archive)

    def _has_contexts(self, before: float) -> bool:
        """Whether closed decisions before a time have their contexts."""
        keep = self._unfinished()
        return bool(self._journal.unredacted(None, before, keep)) or self._archive.unredacted(before, keep)

    def _archive_next(self, before: float) -> bool:
        """Archive the next segment, if all its events are from before a time."""
        with self._one_at_a_time:
            journal, first = self._journal, self._journal.archived + 1
            last = first + archive.SEGMENT_EVENTS - 1
            time = journal.time_of(last)
            if time is None or time >= before or last > journal.last_seq - LATEST_AMONG:
                return False
            with self._snapshots.lock:
                later = [snapshot for snapshot in journal.snapshots() if snapshot.seq >= last]
                if len(later) < 2:  # one could be damaged, and then the events would be needed
                    return False
                if not any(snapshot.is_base for snapshot in later):
                    journal.make_base(later[-1].seq)
            self._archive.write(first, last)
            journal.note_archived(last, self._settings.archive or journal.archive_folder)
        logger.info("%s: events up to %d were archived", journal.portfolio, last)
        return True

    def _remove_archived(self, since: float) -> None:
        removed = False
        for _ in self._journal.remove_archived(self._unfinished(), since):
            removed = True
            if self._closing.wait(PAUSE_SECONDS):
                return
        for _ in self._journal.shrink() if removed else ():
            if self._closing.wait(PAUSE_SECONDS):
                return

    def _run(self) -> None:
        while not self._closing.is_set() and self._journal.failure is None:
            self._changed.clear()
            try:
                self.run_once()
                self.error = ""
            except Exception as error:  # of a learner that cannot be saved, too
                self.error = str(error) or type(error).__name__
                expected = isinstance(error, EquipoiseError | OSError)
                name = self._journal.portfolio
                logger.warning("%s: retention failed and is tried again: %s", name, error, exc_info=not expected)
            ages = [age for age in (self._settings.contexts, self._settings.events) if age is not None]
            shortest = min(ages, default=MAX_PERIOD * PASSES)
            self._changed.wait(min(max(shortest / PASSES, MIN_PERIOD), MAX_PERIOD))
