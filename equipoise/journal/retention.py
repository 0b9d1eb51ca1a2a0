"""Retention: contexts of closed decisions leave the journal, and nothing that is certified changes.

The order makes every crash harmless: the event that says so, two snapshots from which everything after can be folded,
then the removal. The first snapshot is the base: a rebuild starts there, since events before it have lost data.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import real

if TYPE_CHECKING:
    from equipoise.journal.live import LivePortfolio


def redact(live: LivePortfolio, ids: Collection[str] | None, before: float | None) -> int:
    """Remove contexts and outcomes of closed decisions; returns the number of events that lost data."""
    if (ids is None) == (before is None):
        raise InvalidArgument(f"ids is {ids!r:.80} and before is {before!r}, but exactly one must be given")
    if before is not None:
        before = real("before", before)
    if isinstance(ids, str):
        raise InvalidArgument(f"ids is {ids!r:.80}, but must be a list of ids")
    journal = live.journal
    state, seq, keep = live._note_redaction(ids, before)
    journal.put_snapshot(seq, state, base=True)
    journal.put_snapshot(seq + 1, state)  # the event of the redaction changes no state
    journal.drop_snapshots_before(seq)
    removed = journal.redact(ids=ids, before=before, keep=keep)
    journal.checkpoint()  # so that the WAL does not hold it either
    return removed
