"""The protocol of a journal: a durable log of the events of one portfolio, with snapshots of its state.

State = fold of events, so the log is the truth and a snapshot only saves time, except for a base snapshot: events
before it have lost data (see `snapshots`), so it is kept until a newer one replaces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from equipoise.journal.writer import Commit
from equipoise.portfolio.events import Event
from equipoise.types import Config


class SnapshotInfo(NamedTuple):
    """A snapshot: the last event in it, whether events before it lost data, when it was taken, and its size."""

    seq: int
    is_base: bool
    time: float
    size: int = 0  # in bytes


class WrittenBy(NamedTuple):
    """Who wrote some events or a snapshot: a release of equipoise, and the selector whose rule decided.

    All are None if a release wrote them that did not say so yet.
    """

    release: str | None = None
    selector: str | None = None
    rule: int | None = None  # version of the rule, if the selector states one

    def __str__(self) -> str:
        if self.release is None:
            return "an earlier release of equipoise"
        rule = "" if self.rule is None else f" with rule {self.rule} of {self.selector}"
        return f"equipoise {self.release}{rule}"


class Journal(Protocol):
    """A durable log of the events of one portfolio. One process at a time may write."""

    @property
    def portfolio(self) -> str:
        """Name of the portfolio."""

    @property
    def backlog(self) -> int:
        """Number of batches that wait to be written; the caller of `append` keeps it bounded."""

    @property
    def last_seq(self) -> int:
        """Number of the last durable event; 0 if there is none."""

    @property
    def archived(self) -> int:
        """Number of the last event that left for an archive; 0 if none did. The first event never leaves."""

    def lease(self) -> int:
        """Take the right to write and return its epoch, which grows with every lease.

        Raises `JournalLocked` if another process has it. An append under an old epoch fails.
        """

    def note_rule(self, selector: str, version: int | None) -> None:
        """Note, before the first event under a lease, which rule decides."""

    def writer_of(self, seq: int) -> WrittenBy:
        """Who wrote an event."""

    def writers(self) -> list[tuple[int, WrittenBy]]:
        """Who wrote the events: the number of the first one of each writer, and the writer."""

    def writer_of_snapshot(self, seq: int) -> WrittenBy:
        """Who wrote a snapshot."""

    def check_writable(self) -> None:
        """Raise the error that an append would raise: not leased, forked, or failed before."""

    def append(self, events: Sequence[Event], commit: Commit) -> None:
        """Queue a batch, numbered without gaps; `commit` finishes when all before it and itself are durable.

        An empty batch waits for those before it. Raises `JournalFailed` if an earlier batch failed.
        """

    def read(self, from_seq: int = 1) -> Iterator[Event]:
        """The durable events from a number on; raises `UnreadableFile` at one that is damaged, missing or archived."""

    def snapshots(self) -> list[SnapshotInfo]:
        """The complete snapshots, the newest first."""

    def get_snapshot(self, seq: int) -> Config:
        """The state at an event; raises `UnreadableFile` if the snapshot is damaged."""

    def put_snapshot(self, seq: int, state: Config, *, base: bool = False) -> int:
        """Store the state at an event, once that event is durable; appends continue meanwhile. Returns its size.

        The state may have entries that are made later (`Portfolio.frozen`). Two snapshots are kept, and the newest
        base.
        """

    def redact(self, *, ids: Collection[str] | None, before: float | None, keep: Collection[str], last: int) -> int:
        """Remove contexts and outcomes from the log, of these decisions or of those made before a time.

        Those in `keep` are left alone, and so are events after `last`. Snapshots before the newest base go too. Returns
        the number of events that lost data.
        """

    def close(self) -> None:
        """Finish what is queued and give the lease back."""
