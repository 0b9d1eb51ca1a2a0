"""What a portfolio counts beside its rounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Numbers of rounds and rewards that went another way than from a learner's play to its reward."""

    unplayed: int = 0  # rounds that no learner played: fallback, exploration floor
    fallbacks: int = 0  # of these, the ones of the fallback
    withdrawn: int = 0  # rounds that did not happen
    expired: int = 0  # decisions that reached their deadline
    ignored: int = 0  # rewards that arrived after it
    replayed: int = 0  # rounds that were played from a log, by rejection
    clipped: int = 0  # rewards that were outside of the range and count as its nearer end
