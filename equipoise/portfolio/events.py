"""Events: every change of a portfolio as a value, for callbacks, logging and journals, and how they are folded.

State = fold of events: folding the events of a portfolio over a new one with the same learners and settings gives the
same state. Decisions are taken from the event: the selector opens the logged play, and no learner is asked. Learners
learn in the order of the events; updates that failed are not repeated. Events that only report a consequence of the one
before them (an elimination, a learner suspended because it failed) are `derived`; a fold skips them.

`KINDS` is the one table of all kinds; levels of the log, marks of the history and the words for them derive from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from equipoise.errors import InvalidArgument
from equipoise.portfolio.tickets import Tickets
from equipoise.types import Plain

logger = logging.getLogger("equipoise")

VERSION = 1
BLOCKED_EVERY = 3600.0  # seconds
BULKY = frozenset({"context", "learner", "outcome", "pmf", "proposals", "state", "unit"})  # left out of log lines


class Kind(NamedTuple):
    """A kind of event."""

    meaning: str
    level: int = logging.DEBUG  # at which it is logged
    derived: bool = False  # always; a suspension is only if failures caused it
    word: str = ""  # for the mark in the history; empty if there is none


KINDS = {
    "decided": Kind("a round was decided"),
    "rewarded": Kind("a reward arrived"),
    "expired": Kind("a decision reached its deadline"),
    "deadlines_extended": Kind("time that does not count toward the deadlines of open decisions", logging.INFO),
    "withdrawn": Kind("a round did not happen"),
    "activated": Kind("a deferred decision counts from now on"),
    "ignored": Kind("a reward arrived after the deadline of its decision", logging.INFO),
    # At INFO: a learner that keeps failing is suspended, which is a warning.
    "update_failed": Kind("a learner raised an error while learning", logging.INFO, derived=True),
    "updates_retried": Kind("failed updates were tried again"),
    "learner_added": Kind("a learner joined", logging.INFO, word="added"),
    "learner_removed": Kind("a learner left", logging.INFO, word="removed"),
    "learner_renamed": Kind("a learner has another name", logging.INFO, word="renamed"),
    "learner_warmed": Kind("a learner learned a log before it played", logging.INFO, word="warmed up"),
    "learner_suspended": Kind("by request, or (derived) because of failures", logging.WARNING, word="suspended"),
    "learner_resumed": Kind("a learner may play again", logging.INFO, word="resumed"),
    "rounds_replayed": Kind("this many rounds since the last such event were played from a log"),
    "eliminated": Kind("rewards of a learner contradict its bound", logging.INFO, derived=True, word="eliminated"),
    "drift": Kind(
        "a null hypothesis about the rewards was refuted, and perhaps a new epoch began",
        logging.WARNING,
        derived=True,
        word="drift alarm",
    ),
    "config": Kind("settings changed", logging.INFO),
    "scaled": Kind("the ranges of numbers were learned, and are fixed from now on", logging.INFO),
    "rule": Kind("the selector's rule has another version than before", logging.INFO),
    "law_changed": Kind("no round so far counts any more", logging.INFO, derived=True, word="new deadline"),
    "blocked": Kind("a missing reward holds up others", logging.WARNING, derived=True),
}


class Event(NamedTuple):
    """One change of a portfolio.

    Attributes
    ----------
    kind
        The kind of change: one of `equipoise.portfolio.events.KINDS`, or one of a journal.
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
T = TypeVar("T")


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
        level = KINDS[event.kind].level if event.kind in KINDS else logging.DEBUG  # a journal has its own kinds
        if self.logs and logger.isEnabledFor(level):
            facts = ", ".join(f"{key} {value}" for key, value in event.data.items() if key not in BULKY)
            logger.log(level, "%s", event.data.get("sentence") or f"{event.kind}: {facts}")
        _call(self.callbacks, event)


class Remembers(Protocol):
    """A history that keeps the events that happened to learners."""

    def mark(self, round_: int, kind: str, data: Mapping[str, Plain]) -> None: ...


class Events:
    """Announces the changes of a portfolio: to its history, its listeners and the log."""

    def __init__(self, tickets: Tickets, history: Remembers) -> None:
        self._tickets, self._history = tickets, history
        self.listeners = Listeners()
        self.on_elimination: list[Callable[[Any], None]] = []
        self.blocked_at: float | None = None  # time of the last announcement that a reward holds up others

    def __getstate__(self) -> dict[str, object]:
        # A copy must not call the callbacks of the original.
        return {**self.__dict__, "listeners": Listeners(), "on_elimination": []}

    def emit(self, kind: str, data: Mapping[str, Plain], *, derived: bool = False, key: str | None = None) -> None:
        about = KINDS[kind]
        if about.word:
            self._history.mark(self._tickets.round, kind, data)
        self.listeners.announce(Event(kind, data, self._tickets.time, derived or about.derived, key=key))

    def announce_blocked(self, find: Callable[[], Mapping[str, Plain] | None]) -> None:
        """Announce a decision that holds up others, if `find` returns one; at most once in `BLOCKED_EVERY` seconds."""
        now = self._tickets.now()
        if self.blocked_at is None or now - self.blocked_at >= BLOCKED_EVERY:
            data = find()
            if data is not None:
                self.blocked_at = now
                self.emit("blocked", data)

    def note(self, derived: Event) -> None:
        """Note an event of a log that a fold skips."""
        if derived.kind == "blocked":
            self.blocked_at = derived.time

    def add_on_elimination(self, callback: Callable[[Any], None]) -> None:
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be callable with an Elimination")
        self.on_elimination.append(callback)

    def announce_elimination(self, elimination: Any, data: Mapping[str, Plain]) -> None:
        self.emit("eliminated", data)
        _call(self.on_elimination, elimination)


def _call(callbacks: Iterable[Callable[[T], None]], happened: T) -> None:
    for callback in callbacks:
        try:
            callback(happened)
        except Exception:
            what = f"the event {happened.kind!r}" if isinstance(happened, Event) else "an elimination"
            logger.exception("a callback failed on %s", what)
