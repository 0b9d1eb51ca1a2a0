"""Events: every change of a portfolio as a value, for callbacks, logging and journals, and how they are folded.

State = fold of events: folding the events of a portfolio over a new one with the same learners and settings gives the
same state. Decisions are taken from the event: the selector opens the logged play, and no learner is asked. Learners
learn in the order of the events; updates that failed are not repeated. Events that only report a consequence of the one
before them (an elimination, a learner suspended because it failed) are `derived`; a fold skips them.

| kind | meaning | derived |
|---|---|---|
| `decided` | a round was decided | |
| `rewarded` | a reward arrived | |
| `expired` | a decision reached its deadline | |
| `withdrawn` | a round did not happen | |
| `ignored` | a reward arrived after the deadline of its decision | |
| `update_failed` | a learner raised an error while learning | yes |
| `updates_retried` | failed updates were tried again | |
| `learner_added`, `learner_removed`, `learner_renamed` | the pool changed | |
| `learner_warmed` | a learner learned a log before it played | |
| `rounds_replayed` | this many rounds since the last such event were played from a log | |
| `learner_suspended`, `learner_resumed` | by request, or (derived) because of failures | |
| `eliminated` | the rewards of a learner contradict its bound | yes |
| `drift` | a null hypothesis about the rewards was refuted, and perhaps a new epoch began | yes |
| `config` | settings changed | |
| `blocked` | a missing reward holds up others | yes |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from equipoise.errors import InvalidArgument
from equipoise.portfolio.tickets import Tickets
from equipoise.types import Plain

logger = logging.getLogger("equipoise")

VERSION = 1
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
    "learner_warmed": logging.INFO,
    "update_failed": logging.INFO,  # a learner that keeps failing is suspended, which is a warning
}
BULKY = frozenset({"context", "learner", "outcome", "proposals", "state"})  # left out of log lines


class Event(NamedTuple):
    """One change of a portfolio.

    Attributes
    ----------
    kind
        The kind of change; see the table in `equipoise.portfolio.events`.
    data
        The particulars.
    time
        Seconds since 1970 at which it happened, as given by the caller or by the clock.
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
    version: int = VERSION
    portfolio: str = ""
    seq: int = 0
    key: str | None = None

    def check_foldable(self) -> None:
        """Raise an error if this release cannot fold the event."""
        if self.version != VERSION:
            raise InvalidArgument(f"event {self.kind!r} has version {self.version}, but this release folds {VERSION}")


Callback = Callable[[Event], None]


class Listeners:
    """Callbacks and the log. A callback that raises is logged and disturbs nothing."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self.logs = True

    def add(self, callback: Callback) -> None:
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be callable with an Event")
        self.callbacks.append(callback)

    def announce(self, event: Event) -> None:
        level = LEVELS.get(event.kind, logging.DEBUG)
        if self.logs and logger.isEnabledFor(level):
            facts = ", ".join(f"{key} {value}" for key, value in event.data.items() if key not in BULKY)
            logger.log(level, "%s: %s", event.kind, facts)
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception:
                logger.exception("a callback failed on the event %r", event.kind)


class Remembers(Protocol):
    """A history that keeps the events that happened to learners."""

    def mark(self, round_: int, kind: str, data: Mapping[str, Plain]) -> None: ...


class Events:
    """Announces the changes of a portfolio: to its history, its listeners and the log."""

    def __init__(self, tickets: Tickets, history: Remembers) -> None:
        self._tickets, self._history = tickets, history
        self.listeners = Listeners()
        self.on_elimination: list[Callable[[Any], None]] = []
        self._blocked: set[tuple[int, str]] = set()  # open rounds that hold up others, and that were announced

    def __getstate__(self) -> dict[str, object]:
        # A copy must not call the callbacks of the original.
        return {**self.__dict__, "listeners": Listeners(), "on_elimination": []}

    def emit(self, kind: str, data: Mapping[str, Plain], *, derived: bool = False, key: str | None = None) -> None:
        self._history.mark(self._tickets.round, kind, data)
        self.listeners.announce(Event(kind, data, self._tickets.time, derived, key=key))

    def announce_blocked(self, blocked: Iterable[tuple[int, Mapping[str, Plain]]]) -> None:
        """Announce decisions that hold up many others, once each for evidence and for updates."""
        for round_, data in blocked:
            if (round_, data["what"]) not in self._blocked:
                self._blocked.add((round_, data["what"]))
                self.emit("blocked", data, derived=True)
        still_open = {ticket.round for ticket in self._tickets.open.values()}
        self._blocked = {(round_, what) for round_, what in self._blocked if round_ in still_open}

    def announce_elimination(self, elimination: Any, data: Mapping[str, Plain]) -> None:
        self.emit("eliminated", data, derived=True)
        for callback in self.on_elimination:
            try:
                callback(elimination)
            except Exception:
                logger.exception("a callback failed on an elimination")
