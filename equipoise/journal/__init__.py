"""A portfolio kept in a durable log of its events: state = fold of events."""

from equipoise.journal.live import LivePortfolio
from equipoise.journal.opening import open
from equipoise.journal.protocol import Journal, SnapshotInfo
from equipoise.journal.recovery import Recovered, digest, rebuild, recover
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.journal.writer import Commit

__all__ = [
    "Commit",
    "Journal",
    "LivePortfolio",
    "Recovered",
    "SQLiteJournal",
    "SnapshotInfo",
    "digest",
    "open",
    "rebuild",
    "recover",
]
