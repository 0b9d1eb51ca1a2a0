"""Events: every change of a portfolio as a value, for callbacks, logging and journals.

Folding the events of a portfolio over a new one with the same learners and settings gives the same state: what was
decided is taken from the event, never decided again, and lessons are learned in the order of the events. Events that
only report what follows from the one before them (an elimination, a learner suspended because it failed) are
`derived`; a fold skips them.

| kind | what happened | derived |
|---|---|---|
| `decided` | a round was decided | |
| `rewarded` | a reward arrived | |
| `expired` | a decision reached its deadline | |
| `withdrawn` | a round did not happen | |
| `ignored` | a reward arrived after the deadline of its decision | |
| `lesson_failed` | a learner raised an error while learning | yes |
| `lessons_retried` | failed lessons were tried again | |
| `learner_added`, `learner_removed`, `learner_renamed` | the pool changed | |
| `learner_taught` | a learner was taught a log before it played | |
| `rounds_replayed` | so many rounds since the last such event were played from a log | |
| `learner_suspended`, `learner_resumed` | by request, or (derived) because of failures | |
| `eliminated` | the rewards of a learner contradict its bound | yes |
| `drift` | a null hypothesis about the rewards was refuted, and perhaps a new epoch began | yes |
| `config` | settings changed | |
| `blocked` | a missing reward holds up others | yes |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from equipoise.errors import InvalidArgument
from equipoise.types import Plain

logger = logging.getLogger("equipoise")

LEVELS = {  # everything else is logged at the level DEBUG
    "blocked": logging.WARNING,
    "config": logging.INFO,
    "drift": logging.WARNING,
    "eliminated": logging.INFO,
    "ignored": logging.INFO,
    "learner_added": logging.INFO,
    "learner_removed": logging.INFO,
    "learner_renamed": logging.INFO,
    "learner_resumed": logging.INFO,
    "learner_suspended": logging.WARNING,
    "learner_taught": logging.INFO,
    "lesson_failed": logging.INFO,  # a learner that keeps failing is suspended, which is a warning
}
BULKY = frozenset({"context", "learner", "outcome", "proposals", "state"})  # left out of log lines


class Event(NamedTuple):
    """One change of a portfolio.

    Attributes
    ----------
    kind
        What happened; see the table in `equipoise.portfolio.events`.
    data
        The particulars.
    time
        Seconds since 1970 at which it happened, as the portfolio was told or by the clock.
    derived
        Whether it follows from the event before it, so that a fold skips it.
    version
        Version of the form of `data`.
    portfolio
        Name of the portfolio, in a journal.
    seq
        Number of the event in a journal, without gaps.
    key
        The caller's id or key, if there is one.
    """

    kind: str
    data: Mapping[str, Plain]
    time: float
    derived: bool = False
    version: int = 1
    portfolio: str = ""
    seq: int = 0
    key: str | None = None


Callback = Callable[[Event], None]


class Listeners:
    """Callbacks and the log. A callback that raises is logged and disturbs nothing."""

    def __init__(self, *, logs: bool = True) -> None:
        self.callbacks: list[Callback] = []
        self._logs = logs

    @property
    def any(self) -> bool:
        """Whether anybody wants to know of ordinary events."""
        return bool(self.callbacks) or logger.isEnabledFor(logging.DEBUG)

    def add(self, callback: Callback) -> None:
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be callable with an Event")
        self.callbacks.append(callback)

    def announce(self, event: Event) -> None:
        level = LEVELS.get(event.kind, logging.DEBUG)
        if self._logs and logger.isEnabledFor(level):
            facts = ", ".join(f"{key} {value}" for key, value in event.data.items() if key not in BULKY)
            logger.log(level, "%s: %s", event.kind, facts)
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception:
                logger.exception("a callback failed on the event %r", event.kind)
