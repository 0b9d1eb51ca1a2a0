"""The ledger of the plays of a selector: which rewards are complete, in the order of plays, and which wait.

Plays of a learner are numbered in the order they were made. The confidence radii are uniform over the number of plays,
so any *prefix* of a learner's plays with all rewards known may be tested, even if the delays depend on the rewards; any
other subset may be biased by them. Rewards beyond the prefix wait in the ledger. Balancing counts every play, including
pending ones. The pool of all rounds works the same way: its certificate uses the longest resolved prefix of rounds.

With a window, plays whose reward has not arrived when they are `window` rounds old are left out for good: they never
count as evidence, and no other play waits for them. The rule is valid only if delays are drawn independently of
contexts, rewards and learners: which plays count is then determined by the delays alone, and the counted plays of a
learner, in play order, are as good as all of its plays. A play is counted when every earlier play of its learner is
counted or left out, which may be before it is `window` rounds old: since the radii are uniform over the number of
counted plays, it does not matter when it is counted, only which plays are.

A reward may wait behind a missing one for as long as the deadline, and with it all later rewards. Therefore a round
that waits is a row of numbers with what the certificate needs, about a hundred bytes, and no object. So is an open play
with more than `RECENT` later ones. Each round has a *place*, in order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cache, partial
from itertools import chain
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from equipoise.errors import UnknownDecision
from equipoise.kernels.places import Field, Layout, Line, Rows
from equipoise.kernels.records import check_shapes
from equipoise.types import AnyArray, Later, State

RECENT = 256  # open plays that are kept as objects
# Marks of rows: its reward is known, its round did not happen, it never counts; the play is open; it has details.
REWARDED, WITHDRAWN, LEFT_OUT, OPEN, DETAILED = 1, 2, 4, 8, 16
RESOLVED = REWARDED | WITHDRAWN | LEFT_OUT


class Entry:
    """One open play of an account. `reward` is nan until it is credited, `regret` until it is known."""

    # Most plays have only what `__init__` sets, and a reward.
    regret = nan
    reward = nan
    details: Any = None  # what the selector keeps of the round, such as the proposals of all learners
    withdrawn = False
    left_out = False  # never counts as evidence
    queued = True  # whether it is beyond the prefix of its learner
    certified = False  # whether its round is in the sums that are kept in the order of rounds
    observed = False  # whether proposals are known
    drawable: tuple[int, ...] | None = None  # the learners that could be drawn, until proposals are known; None for all

    def __init__(self, place: int, account: int, ticket: int, probability: float, round_: int, epoch: int) -> None:
        self.place = place
        self.account = account
        self.ticket = ticket
        self.probability = probability
        self.round = round_  # when it was chosen
        self.epoch = epoch  # number of learners eliminated before it was chosen

    def __repr__(self) -> str:
        return f"Entry(account {self.account}, play {self.ticket}, round {self.round}, reward {self.reward:g})"

    @property
    def is_resolved(self) -> bool:
        """Whether nothing waits for it."""
        return self.reward == self.reward or self.left_out

    @property
    def mark(self) -> int:
        known = OPEN if isnan(self.reward) and not self.withdrawn else REWARDED * (not isnan(self.reward))
        marks = known | WITHDRAWN * self.withdrawn | LEFT_OUT * self.left_out
        return marks if self.details is None else marks | DETAILED


# What became complete: rounds in order, plays of one learner in order, the latter with those that are left out, and
# whether the balanced bound of the learner has to be reset to the prefix (nothing is pending, and one of these was
# never counted).
Resolved: TypeAlias = tuple[list[Entry], list[Entry], bool]

# What the balanced bounds do not include yet: learners to reset to their resolved prefix, then pending plays to count:
# the account of each, its position beyond the prefix, from 1, and its regret.
Uncounted: TypeAlias = tuple[list[int], list[tuple[int, int, float]]]

Substitutes: TypeAlias = Mapping[int, int | None]


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
        for positions, numbers in ((self._later, later), (self._now, now)):
            start = 0
            for k in positions if numbers is not None else ():
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


class Ledger:
    """The open plays of all accounts. With `details` the ledger keeps and saves what the selector knows of a round.

    `observed` are the accounts with an observed bound.
    """

    def __init__(self, n_accounts: int, details: Details | None = None, observed: Iterable[int] = ()) -> None:
        self._observed = set(observed)
        self.window = 0  # age in rounds at which a play without a reward is left out; 0 for never
        self.waiting = [0] * n_accounts  # for each account, the rewards that wait for that of an earlier play
        self._last_tickets = [0] * n_accounts
        self._arrange(details)
        self._clear(n_accounts)

    def _arrange(self, details: Details | None) -> None:
        """Make rows for these details."""
        self._details = details
        self._rows = Rows(Layout((*FIELDS, *(() if details is None else details.later))))
        # Of an open play, the details that are not needed later.
        self._others = Layout(() if details is None else details.now)

    def _clear(self, n_accounts: int) -> None:
        self._queues = [Line() for _ in range(n_accounts)]  # plays beyond the resolved prefix
        self._first, self._end = 0, 0  # places of the rounds beyond the resolved prefix of all rounds
        # Plays without a reward; as bytes if the rows have the rest.
        self.open_plays: dict[tuple[int, int], Entry | tuple[int, bytes]] = {}
        self._entries: dict[int, Entry] = {}  # those that are objects, by place
        self._recent: deque[int] = deque()  # their places, in the order in which they became objects
        self._young: OrderedDict[int, int] = OrderedDict()  # with a window: places and rounds of plays not that old
        self.stale: set[int] = set()  # learners with a pending play that their balanced bound does not include
        self._recount: set[int] = set()  # of those, the ones whose balanced bound must be rebuilt from the prefix
        self._counted = [0] * n_accounts  # for each account, the place after the last play that its bound includes

    def add_account(self, observed: bool) -> None:
        if observed:
            self._observed.add(len(self._queues))
        self._queues.append(Line())
        self._last_tickets.append(0)
        self._counted.append(0)
        self.waiting.append(0)

    def widen(self, more: Any) -> None:
        """Add entries of new learners to the details of all rounds; they have the form of the details."""
        if self._details is None:
            return
        lowest, details = self._lowest, self._details.widened(more)
        table, others, new = self._rows.table(lowest, self._end), self._others, more._asdict()
        self._arrange(details)
        self._rows.load(lowest, self._rows.layout.widened(table, new))
        for key, play in self.open_plays.items():
            if isinstance(play, tuple) and others.width:
                place, data = play
                self.open_plays[key] = place, self._others.widened(others.table(data), new).tobytes()
        for entry in self._entries.values():
            if entry.details is not None:
                entry.details = details.extended(entry.details, more)

    @property
    def _lowest(self) -> int:
        """The first place that any queue still has."""
        return min([self._first, *[queue.first for queue in self._queues if queue]])

    @property
    def nbytes(self) -> int:
        """The memory of rows and queues."""
        return self._rows.nbytes + sum(queue.nbytes for queue in self._queues)

    def open(self, account: int, probability: float, round_: int, epoch: int = 0) -> int:
        """Record a play and return its ticket."""
        tickets, place = self._last_tickets, self._end
        tickets[account] = ticket = tickets[account] + 1
        entry = Entry(place, account, ticket, probability, round_, epoch)
        self.open_plays[account, ticket] = self._entries[place] = entry
        self._end = place + 1
        self._queues[account].append(place)
        recent = self._recent
        recent.append(place)
        while len(recent) > RECENT:
            self._pack_open(recent.popleft())
        if self.window:
            self._young[place] = round_
        self.stale.add(account)
        return ticket

    # Objects and rows

    def _pack_open(self, place: int) -> None:
        """Keep an open play as numbers, unless it is closed or may still change in other ways than by its reward."""
        entry = self._entries.get(place)
        if entry is None or entry.left_out or (entry.drawable is not None and not entry.observed):
            return
        others = () if self._details is None else self._details.numbers_for_now(entry.details)
        self._write(entry)
        self.open_plays[entry.account, entry.ticket] = place, self._others.pack(*others)
        del self._entries[place]

    def _write(self, entry: Entry) -> None:
        """Write the row of a play."""
        later = () if self._details is None else self._details.numbers_for_later(entry.details)
        of_play = entry.account, entry.ticket, entry.round, entry.probability, entry.regret, entry.reward, entry.epoch
        self._rows.write(entry.place, entry.mark, *of_play, *later)

    def _read(self, place: int, others: Sequence[Any] | None = None) -> Entry:
        """Return the play of a row; `others` are the numbers that it does not have, None if nothing needs them."""
        mark, account, ticket, round_, probability, regret, reward, epoch, *later = self._rows.read(place)
        entry = Entry(place, account, ticket, probability, round_, epoch)
        entry.regret, entry.reward = regret, reward
        entry.withdrawn, entry.left_out = bool(mark & WITHDRAWN), bool(mark & LEFT_OUT)
        if mark & DETAILED:
            assert self._details is not None
            entry.details = self._details.of(later, others)
        return entry

    def _unpacked(self, place: int, data: bytes) -> Entry:
        """Make an open play an object again."""
        entry = self._read(place, self._others.unpack_from(data))
        entry.observed = True
        self._rows.clear(place)
        self.open_plays[entry.account, entry.ticket] = self._entries[place] = entry
        self._recent.append(place)
        return entry

    def _forget(self, entry: Entry) -> None:
        """Keep a play that is not open any more as numbers if it waits."""
        if entry.place >= self._first or (entry.queued and not entry.withdrawn):
            self._write(entry)
        del self._entries[entry.place]

    def _mark(self, place: int) -> int:
        """Return whether a play beyond a prefix is resolved, and how."""
        entry = self._entries.get(place)
        return self._rows.mark(place) if entry is None else entry.mark

    def entry(self, account: int, ticket: int, learner: int) -> Entry:
        """Return an open play of an account of this learner."""
        try:
            play = self.open_plays[account, ticket]
        except KeyError:
            raise UnknownDecision(
                f"play {ticket} of learner {learner} is not open: never chosen, withdrawn, or already credited"
            ) from None
        return self._unpacked(*play) if isinstance(play, tuple) else play

    # Rounds

    def expire(self, clock: int) -> set[int]:
        """Leave out plays that are `window` rounds old and have no reward; returns their accounts, to be advanced."""
        accounts, young = set(), self._young
        while young and next(iter(young.values())) + self.window <= clock:
            place, _ = young.popitem(last=False)
            entry = self._open_at(place)
            entry.left_out = True
            accounts.add(entry.account)
        return accounts

    def _open_at(self, place: int) -> Entry:
        """Return the open play at a place."""
        entry = self._entries.get(place)
        if entry is None:
            _, account, ticket, *_ = self._rows.read(place)
            entry = self.entry(account, ticket, account)
        return entry

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner with rewards that wait: the ticket of the play that they wait for, and how many they are."""
        blocked = {}
        for i, n_waiting in enumerate(self.waiting):
            if n_waiting:
                first = next(place for place in self._queues[i] if not self._mark(place) & LEFT_OUT)
                entry = self._entries.get(first)
                blocked[i] = (self._rows.read(first)[2] if entry is None else entry.ticket), n_waiting
        return blocked

    def next_ticket(self, account: int) -> int:
        return self._last_tickets[account] + 1

    def share_tickets(self, account: int, others: Iterable[int]) -> None:
        """Continue the tickets of other accounts where those of this one stand, if they number the same plays."""
        for other in others:
            self._last_tickets[other] = self._last_tickets[account]

    def is_first(self, entry: Entry) -> bool:
        """Whether all earlier rounds are resolved."""
        return entry.place == self._first

    def observe(self, entry: Entry, regret: float) -> None:
        """Record what an open play adds to the observed bound of its learner."""
        if not entry.queued:  # it was left out and passed over with the regret it had
            return
        if regret != entry.regret and entry.place < self._counted[entry.account]:
            self._uncount(entry.account)
        entry.regret = regret

    def credit(self, entry: Entry, reward: float, regret: float) -> Resolved:
        """Record the reward of an open play; returns what is complete now, to be credited at once."""
        account, place = entry.account, entry.place
        if not isnan(regret):
            self.observe(entry, regret)
        entry.reward = reward
        del self.open_plays[account, entry.ticket]
        queue = self._queues[account]
        if place == self._first == self._end - 1 and len(queue) == 1 and self._counted[account] <= place:
            # The usual case, in which nothing waits: the same as `advance` below, in less time.
            self._first = self._end
            queue.clear()
            entry.queued = False
            del self._entries[place]
            self._young.pop(place, None)
            self.stale.discard(account)
            self._recount.discard(account)
            return [entry], [entry], True
        if entry.queued and not entry.left_out:
            self.waiting[account] += 1
        return self._close(entry)

    def withdraw(self, entry: Entry) -> Resolved:
        """Remove an open play, as if its round had not happened; returns what is complete now, to be credited at once.

        The newest ticket of a learner is used again. Withdrawing the newest of all rounds restores the previous state.
        """
        account, ticket, place = entry.account, entry.ticket, entry.place
        del self.open_plays[account, ticket]
        entry.withdrawn = True
        if entry.queued:
            self._queues[account].remove(place)
        if ticket == self._last_tickets[account]:
            self._last_tickets[account] -= 1
        self._uncount(account)
        return self._close(entry)

    def _close(self, entry: Entry) -> Resolved:
        """Advance after a play that is not open any more."""
        self._young.pop(entry.place, None)
        if entry.withdrawn and self._first <= entry.place == self._end - 1:
            self._end -= 1
            del self._entries[entry.place]
            return self.advance(entry.account)
        resolved = self.advance(entry.account)
        self._forget(entry)
        return resolved

    def count(self) -> Uncounted:
        """Return what the balanced bounds do not include yet and mark it as counted; takes time for new plays only."""
        rewound, plays, entries = list(self._recount), [], self._entries
        for account in self.stale:
            for position, place in self._queues[account].since(self._counted[account]):
                entry = entries.get(place)
                regret = self._rows.read(place)[5] if entry is None else entry.regret
                plays.append((account, position + 1, regret))
                self._counted[account] = place + 1
        self.stale.clear()
        self._recount.clear()
        return rewound, plays

    def _uncount(self, account: int) -> None:
        if account not in self._recount:  # otherwise nothing has been counted since
            self._counted[account] = 0
            self.stale.add(account)
            self._recount.add(account)

    def advance(self, account: int) -> Resolved:
        """What is complete of all rounds, and of the plays of an account, to be credited at once."""
        queue, entries, recount = self._queues[account], self._entries, False
        closed: list[Entry] = []
        credited: list[Entry] = []
        while self._first < self._end and (mark := self._mark(self._first)) & RESOLVED:
            place = self._first
            self._first += 1
            if not mark & (WITHDRAWN | LEFT_OUT):
                closed.append(entries.get(place) or self._read(place))
        while queue and self._mark(queue.first) & (REWARDED | LEFT_OUT):
            place = queue.popleft()
            entry = entries.get(place) or self._read(place)
            entry.queued = False
            credited.append(entry)
            # Complete before it was counted as pending: rebuild from the new prefix. What a play that is left out adds
            # to an observed bound is added in another order than before.
            recount = recount or place >= self._counted[account] or (entry.left_out and account in self._observed)
            if not entry.left_out:
                self.waiting[account] -= 1
        if closed or credited:
            self._rows.drop_before(self._lowest)
        if queue and recount:
            self._uncount(account)
        elif recount:  # nothing is pending
            self.stale.discard(account)
            self._recount.discard(account)
        return closed, credited, recount and not queue

    # State

    def frozen(self) -> dict[str, Later]:
        """The rounds beyond the pool's resolved prefix as arrays, in order, then open plays that are left out.

        The first include all other plays that are not credited yet, because such a play waits for its own reward or for
        an earlier round. Of a round whose reward is known, details that are not needed any more are blank.
        """
        cut = _Cut(
            self._first,
            self._end,
            self._rows.frozen(),
            self._details,
            self._others,
            sorted([copy(entry) for entry in self._entries.values()], key=attrgetter("place")),
            [play for play in self.open_plays.values() if type(play) is tuple],
            [queue.array() for queue in self._queues],
            tuple(self._last_tickets),
        )
        columns = cache(cut.columns)
        return {name: Later(partial(_column_of, columns, name)) for name in self._shapes(0)}

    def _shapes(self, n_rounds: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the columns of a saved state."""
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_COLUMNS, "pooled"), (n_rounds,))
        details = self._details
        if details is not None:
            shapes |= dict.fromkeys(("epochs", "observed"), (n_rounds,))
            shapes |= {
                f"{details.name}.{field}": (n_rounds, len(row)) for field, row in details.blank._asdict().items()
            }
        return shapes | {"last_tickets": (len(self._queues),)}

    def check_state(self, state: State) -> None:
        """Raise if `state` cannot be that of a ledger like this one."""
        check_shapes(state, self._shapes(state["accounts"].size if "accounts" in state else 0))

    def restore(self, state: State) -> None:
        """Load the columns of a saved state."""
        n_accounts, details = len(self._queues), self._details
        self._arrange(details)
        self._clear(n_accounts)
        self._last_tickets = [int(ticket) for ticket in state["last_tickets"]]
        pooled = state["pooled"].astype(np.bool_)  # the last rows, with the first places
        self._first, self._end = int(pooled.sum()), len(pooled)
        order = np.r_[np.flatnonzero(pooled), np.flatnonzero(~pooled)]
        table = np.zeros(len(order), self._rows.layout.dtype)
        for name, (field, _) in _COLUMNS.items():
            if field in table.dtype.fields:
                table[field] = state[name][order]
        known, withdrawn = ~np.isnan(table["reward"]), state["withdrawn"][order]
        left_out, is_open = state["left_out"][order], ~known & ~withdrawn
        marks = REWARDED * known + WITHDRAWN * withdrawn + LEFT_OUT * left_out + OPEN * is_open
        others = np.zeros(len(order), self._others.dtype)
        if details is not None:
            table["epoch"] = state["epochs"][order]
            marks = marks + DETAILED * state["observed"][order].astype(np.bool_)
            for field in details.blank._fields:
                (table if field in table.dtype.fields else others)[field] = state[f"{details.name}.{field}"][order]
        table["mark"] = marks
        self._rows.load(0, table)
        queued = state["queued"][order] & ~withdrawn
        for account in range(n_accounts):
            own = queued & (table["account"] == account)
            self._queues[account] = Line(np.flatnonzero(own).tolist())
            self.waiting[account] = int((own & known & ~left_out).sum())
        data, width = others.tobytes(), self._others.width
        places, opened = np.flatnonzero(is_open), table[is_open]
        for place, *key in zip(places.tolist(), opened["account"].tolist(), opened["ticket"].tolist(), strict=True):
            self.open_plays[key[0], key[1]] = place, data[place * width : (place + 1) * width]
        for place in places[left_out[places]].tolist():
            self._open_at(place).queued = bool(queued[place])
        if self.window:
            young = places[~left_out[places]]
            self._young.update(zip(young.tolist(), table["round"][young].tolist(), strict=True))
        self.stale = set(range(n_accounts))
        self._recount = set(self.stale)


class _Cut(NamedTuple):
    """What a ledger has at one moment. Nothing of it changes."""

    first: int
    end: int
    rows: Rows
    details: Details | None
    others_layout: Layout
    entries: list[Entry]
    parked: list[tuple[int, bytes]]
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

        columns = {name: column(field, kind) for name, (field, kind) in _COLUMNS.items()}
        columns |= {"pooled": np.arange(size) >= len(table), "last_tickets": np.array(self.last_tickets, np.int64)}
        if details is None:
            return columns
        columns |= {"epochs": column("epoch", np.int64), "observed": marks & DETAILED > 0}
        others: State = {}
        if self.parked and self.others_layout.width:
            packed = self.others_layout.table(b"".join([data for _, data in self.parked]))
            others = {name: packed[name] for name, *_ in self.others_layout.fields}
        of_others = np.array([place for place, _ in self.parked], np.intp) - first
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


def _column_of(columns: Callable[[], State], name: str) -> AnyArray:
    return columns()[name]


_COLUMNS: dict[str, tuple[str, type[np.generic]]] = {  # column of the saved state: field of the entry, type
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
