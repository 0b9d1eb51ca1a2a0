"""Plays that wait: as objects, as rows of numbers, in queues, and as the columns of a saved state."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from equipoise.kernels.places import Field, Layout, Rows
from equipoise.types import AnyArray, State

MIN_DROPPED = 1024  # places at the front of a line that are passed before it becomes shorter
# Marks of rows: its reward is known, its round did not happen, it never counts; the play is open; it has details.
REWARDED, WITHDRAWN, LEFT_OUT, OPEN, DETAILED = 1, 2, 4, 8, 16
RESOLVED = REWARDED | WITHDRAWN | LEFT_OUT


@dataclass(slots=True, repr=False, eq=False)
class Entry:
    """One open play of an account. `reward` is nan until it is credited, `regret` until it is known."""

    place: int
    account: int
    ticket: int
    probability: float
    round: int  # when it was chosen
    epoch: int  # number of learners eliminated before it was chosen
    regret: float = nan
    reward: float = nan
    details: Any = None  # what the selector keeps of the round, such as the proposals of all learners
    withdrawn: bool = False
    left_out: bool = False  # never counts as evidence
    queued: bool = True  # whether it is beyond the prefix of its learner
    certified: bool = False  # whether its round is in the sums that are kept in the order of rounds
    observed: bool = False  # whether proposals are known
    drawable: tuple[int, ...] | None = None  # the learners that could be drawn, until proposals are known; None for all

    def __repr__(self) -> str:
        return f"Entry(account {self.account}, play {self.ticket}, round {self.round}, reward {self.reward:g})"

    @property
    def mark(self) -> int:
        known = OPEN if isnan(self.reward) and not self.withdrawn else REWARDED * (not isnan(self.reward))
        marks = known | WITHDRAWN * self.withdrawn | LEFT_OUT * self.left_out
        return marks if self.details is None else marks | DETAILED


class Details:
    """The form of the details that a selector keeps of every open round.

    Parameters
    ----------
    name
        Of their columns in a saved state.
    blank
        A NamedTuple of tuples: the details of a round of which nothing is known.
    codes
        Of the numbers in each field, as in the module `struct`.
    waiting
        The fields that are still needed when the reward is known.
    """

    def __init__(self, name: str, blank: Any, codes: str, waiting: Collection[str]) -> None:
        self.name, self.blank, self.codes, self.waiting = name, blank, codes, waiting
        self._later = tuple(k for k, field in enumerate(blank._fields) if field in waiting)
        self._now = tuple(k for k, field in enumerate(blank._fields) if field not in waiting)
        self.later, self.now = self._layout(self._later), self._layout(self._now)

    def _layout(self, positions: Iterable[int]) -> list[Field]:
        return [(self.blank._fields[k], self.codes[k], len(self.blank[k])) for k in positions]

    def numbers_for_later(self, details: Any) -> list[Any]:
        """Return the numbers that are needed when the reward is known; with None, those of a blank round."""
        known = self.blank if details is None else details
        return list(chain.from_iterable([known[k] for k in self._later]))

    def numbers_for_now(self, details: Any) -> list[Any]:
        """Return the other numbers."""
        known = self.blank if details is None else details
        return list(chain.from_iterable([known[k] for k in self._now]))

    def of(self, later: Sequence[Any], now: Sequence[Any] | None) -> Any:
        """Return the details with these numbers; without the latter, their fields are blank."""
        fields = list(self.blank)
        for positions, numbers in ((self._later, later), (() if now is None else self._now, now or ())):
            start = 0
            for k in positions:
                end = start + len(fields[k])
                fields[k], start = tuple(numbers[start:end]), end
        return self.blank._make(fields)

    def widened(self, more: Any) -> Details:
        """Return the form of details with more entries in each field."""
        return Details(self.name, self.extended(self.blank, more), self.codes, self.waiting)

    def extended(self, details: Any, more: Any) -> Any:
        """Return details with more entries in each field."""
        return self.blank._make((*old, *new) for old, new in zip(details, more, strict=True))


FIELDS: tuple[Field, ...] = (
    ("mark", "B"),
    ("account", "i"),
    ("ticket", "q"),
    ("round", "q"),
    ("probability", "d"),
    ("regret", "d"),
    ("reward", "d"),
    ("epoch", "i"),
)


class Line:
    """A queue of places in ascending order: those in `places` from `head` on."""

    __slots__ = ("append", "head", "places")

    def __init__(self, places: Iterable[int] = ()) -> None:
        self.places, self.head = array("q", places), 0
        self.append = self.places.append

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.places[self.head :],)

    def __len__(self) -> int:
        return len(self.places) - self.head

    def __repr__(self) -> str:
        return f"Line({len(self)} places)"

    @property
    def first(self) -> int:
        """The first place of a line that is not empty."""
        return self.places[self.head]

    def popleft(self) -> int:
        place = self.places[self.head]
        self.head += 1
        if self.head >= MIN_DROPPED and 2 * self.head >= len(self.places):
            del self.places[: self.head]
            self.head = 0
        return place

    def clear(self) -> None:
        del self.places[:]
        self.head = 0

    def remove(self, place: int) -> None:
        del self.places[bisect_left(self.places, place, self.head)]

    def array(self) -> AnyArray:
        """Return a copy of the places."""
        return np.frombuffer(self.places[self.head :].tobytes(), np.int64)


class Cut(NamedTuple):
    """What a ledger has at one moment. Nothing of it changes."""

    first: int
    end: int
    rows: Rows
    details: Details | None
    others_layout: Layout
    entries: list[Entry]
    open_plays: list[Entry | tuple[int, bytes]]
    queues: list[AnyArray]
    last_tickets: tuple[int, ...]

    def columns(self) -> State:
        """Return the columns of a saved state."""
        first, details = self.first, self.details
        table = self.rows.table(first, self.end)
        pooled = [entry for entry in self.entries if entry.place < first]
        objects = [entry for entry in self.entries if entry.place >= first] + pooled
        size = len(table) + len(pooled)
        rows = np.array([entry.place - first for entry in objects], np.intp)
        rows[len(rows) - len(pooled) :] = np.arange(len(table), size)
        marks = np.zeros(size, np.uint8)
        marks[: len(table)], marks[rows] = table["mark"], [entry.mark for entry in objects]
        queued = marks & WITHDRAWN > 0
        for queue in self.queues:
            queued[queue[queue >= first] - first] = True
        known: State = {name: table[name] for name, *_ in self.rows.layout.fields}
        known |= {"withdrawn": marks & WITHDRAWN > 0, "left_out": marks & LEFT_OUT > 0, "queued": queued}

        def column(field: str, kind: type[np.generic]) -> AnyArray:
            values = np.zeros(size, kind)
            values[: len(known[field])] = known[field]
            values[rows] = [getattr(entry, field) for entry in objects]
            return values

        columns = {name: column(field, kind) for name, (field, kind) in COLUMNS.items()}
        columns |= {"pooled": np.arange(size) >= len(table), "last_tickets": np.array(self.last_tickets, np.int64)}
        if details is None:
            return columns
        columns |= {"epochs": column("epoch", np.int64), "observed": marks & DETAILED > 0}
        others: State = {}
        parked = [play for play in self.open_plays if isinstance(play, tuple)]
        if parked and self.others_layout.width:
            packed = self.others_layout.table(b"".join([data for _, data in parked]))
            others = {name: packed[name] for name, *_ in self.others_layout.fields}
        of_others = np.array([place for place, _ in parked], np.intp) - first
        seen = [details.blank if entry.details is None else entry.details for entry in objects]
        for field, blank in details.blank._asdict().items():
            values = np.tile(np.array(blank), (size, 1))
            if field in known:
                values[: len(table)] = known[field]
            elif field in others:
                values[of_others] = others[field]
            if seen:
                values[rows] = [getattr(each, field) for each in seen]
            columns[f"{details.name}.{field}"] = values
        return columns


def column_of(columns: Callable[[], State], name: str) -> AnyArray:
    return columns()[name]


COLUMNS: dict[str, tuple[str, type[np.generic]]] = {  # column of the saved state: field of the entry, type
    "accounts": ("account", np.int64),
    "tickets": ("ticket", np.int64),
    "probabilities": ("probability", np.float64),
    "regrets": ("regret", np.float64),
    "rewards": ("reward", np.float64),
    "withdrawn": ("withdrawn", np.bool_),
    "rounds": ("round", np.int64),
    "left_out": ("left_out", np.bool_),
    "queued": ("queued", np.bool_),
}


def entry_of(place: int, row: Sequence[Any], details: Details | None, others: Sequence[Any] | None) -> Entry:
    """Return the play of a row; `others` are the numbers that it does not have, None if nothing needs them."""
    mark, account, ticket, round_, probability, regret, reward, epoch, *later = row
    entry = Entry(place, account, ticket, probability, round_, epoch, regret, reward)
    entry.withdrawn, entry.left_out = bool(mark & WITHDRAWN), bool(mark & LEFT_OUT)
    if mark & DETAILED:
        assert details is not None
        entry.details = details.of(later, others)
    return entry


def shapes(details: Details | None, n_rounds: int, n_accounts: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the columns of a saved state."""
    of_state: dict[str, tuple[int, ...]] = {}
    if details is not None:
        of_state |= dict.fromkeys(("epochs", "observed"), (n_rounds,))
        of_state |= {f"{details.name}.{field}": (n_rounds, len(row)) for field, row in details.blank._asdict().items()}
    return of_state | dict.fromkeys((*COLUMNS, "pooled"), (n_rounds,)) | {"last_tickets": (n_accounts,)}


def tables(state: State, details: Details | None, layout: Layout, others_layout: Layout) -> tuple[AnyArray, State, int]:
    """Return the rows of a saved state, what else is known of their plays, and how many are before the first round.

    The rows of open plays that were left out come last in a state, but have the first places.
    """
    pooled = state["pooled"].astype(np.bool_)
    order = np.r_[np.flatnonzero(pooled), np.flatnonzero(~pooled)]
    table, packed = np.zeros(len(order), layout.dtype), np.zeros(len(order), others_layout.dtype)
    for name, (field, _) in COLUMNS.items():
        if field in layout.names:
            table[field] = state[name][order]
    known, withdrawn = ~np.isnan(table["reward"]), state["withdrawn"][order].astype(np.bool_)
    table["mark"] = REWARDED * known + WITHDRAWN * withdrawn + OPEN * (~known & ~withdrawn)
    table["mark"] += LEFT_OUT * state["left_out"][order].astype(np.uint8)
    if details is not None:
        table["epoch"] = state["epochs"][order]
        table["mark"] += DETAILED * state["observed"][order].astype(np.uint8)
        for field in details.blank._fields:
            (table if field in layout.names else packed)[field] = state[f"{details.name}.{field}"][order]
    return table, {"packed": packed, "queued": state["queued"][order].astype(np.bool_) & ~withdrawn}, int(pooled.sum())
