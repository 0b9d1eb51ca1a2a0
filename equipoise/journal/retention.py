"""Retention: contexts of closed decisions leave the journal, and nothing that is certified changes.

The order makes every crash harmless: the event that says so, two snapshots from which everything after can be folded,
then the removal. The first snapshot is the base: a rebuild starts there, since events before it have lost data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from equipoise.errors import InvalidArgument
from equipoise.journal.protocol import Journal
from equipoise.settings.checks import real
from equipoise.types import Config

Ids = Collection[str] | None
Note = Callable[[Ids, float | None], tuple[Config, int, frozenset[str]]]


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
