"""The ledger of a selector: credits late, reordered or missing rewards in the order of plays.

Plays of a learner are numbered in the order they were made. The confidence radii are uniform over the number of plays,
so any *prefix* of a learner's plays with all rewards known may be tested, even if the delays depend on the rewards; any
other subset may be biased by them. Rewards beyond the prefix wait in the ledger. Balancing counts every play, including
pending ones. The pool of all rounds works the same way: its certificate uses the longest resolved prefix of rounds.

Some plays are left out for good: they never count as evidence, and no other play waits for them. They are those whose
context had a part in who plays, and, with a window, those whose reward has not arrived when they are `window` rounds
old. The second rule is valid only if delays are drawn independently of contexts, rewards and learners: which plays
count is then determined by the delays alone, and the counted plays of a learner, in play order, are as good as all of
its plays. A play is counted when every earlier play of its learner is counted or left out, which may be before it is
`window` rounds old: since the radii are uniform over the number of counted plays, it does not matter when it is
counted, only which plays are.

The ledger holds plain data: it returns what has become complete, and the selector credits it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from equipoise.errors import UnknownDecision
from equipoise.kernels.records import check_shapes
from equipoise.types import State


class Entry:
    """One open play of an account. `reward` is nan until it is credited, `regret` until it is known."""

    # Most plays have only what `__init__` sets, and a reward.
    regret = nan
    reward = nan
    details: Any = None  # what the selector keeps of the round, such as the proposals of all learners
    withdrawn = False
    counted = False  # whether the balanced bound includes it, with the regret it has now
    left_out = False  # never counts as evidence
    queued = True  # whether it is beyond the prefix of its learner
    certified = False  # whether its round is in the sums that are kept in the order of rounds

    def __init__(self, account: int, ticket: int, probability: float, round_: int, epoch: int) -> None:
        self.account = account
        self.ticket = ticket
        self.probability = probability
        self.round = round_  # when it was chosen
        self.epoch = epoch  # number of learners eliminated before it was chosen

    def __repr__(self) -> str:
        return f"Entry(account {self.account}, play {self.ticket}, round {self.round}, reward {self.reward:g})"


# What became complete: rounds in order, plays of one learner in order, both with those that are left out, and whether
# the balanced bound of the learner has to be reset to the prefix (nothing is pending, and one of these was never
# counted).
Resolved: TypeAlias = tuple[list[Entry], list[Entry], bool]

# What the balanced bounds do not include yet: learners to reset to their resolved prefix, then pending plays to count,
# each with its position beyond the prefix, from 1.
Uncounted: TypeAlias = tuple[list[int], list[tuple[int, Entry]]]


class Details(NamedTuple):
    """The form of the details that a selector keeps of every open round."""

    name: str  # of their columns in a saved state
    blank: Any  # a NamedTuple of tuples: the details of a round of which nothing is known

    def columns(self, kept: list[Any]) -> State:
        """Return the details of some rounds as arrays, one for each field."""
        return {
            f"{self.name}.{field}": np.array([getattr(row, field) for row in kept], np.array(blank).dtype).reshape(
                len(kept), len(blank)
            )
            for field, blank in self.blank._asdict().items()
        }

    def row(self, state: State, k: int) -> Any:
        """Return the details of the k-th round of a saved state."""
        return self.blank._make(tuple(state[f"{self.name}.{field}"][k].tolist()) for field in self.blank._fields)

    def widened(self, details: Any, more: Any) -> Any:
        """Return details with more entries in each field."""
        return self.blank._make((*old, *new) for old, new in zip(details, more, strict=True))


class Ledger:
    """The open plays of all accounts. With `details` the ledger keeps and saves what the selector knows of a round.

    `observed` are the accounts with an observed bound.
    """

    def __init__(self, n_accounts: int, details: Details | None = None, observed: Iterable[int] = ()) -> None:
        self._details = details
        self._observed = set(observed)
        self.window = 0  # age in rounds at which a play without a reward is left out; 0 for never
        self._young: deque[Entry] = deque()  # with a window: rounds that are not that old, in order
        self.waiting = [0] * n_accounts  # for each account, the rewards that wait for that of an earlier play
        self._queues: list[deque[Entry]] = [deque() for _ in range(n_accounts)]  # plays beyond the resolved prefix
        self._rounds: deque[Entry] = deque()  # rounds beyond the resolved prefix of all rounds
        self.open_plays: dict[tuple[int, int], Entry] = {}  # plays without a reward
        self._last_tickets = [0] * n_accounts
        self.stale: set[int] = set()  # learners with a pending play that their balanced bound does not include
        self._recount: set[int] = set()  # of those, the ones whose balanced bound must be rebuilt from the prefix

    def add_account(self, observed: bool) -> None:
        if observed:
            self._observed.add(len(self._queues))
        self._queues.append(deque())
        self._last_tickets.append(0)
        self.waiting.append(0)

    def widen(self, more: Any) -> None:
        """Add entries of new learners to the details of all rounds; they have the form of the details."""
        if self._details is None:
            return
        self._details = self._details._replace(blank=self._details.widened(self._details.blank, more))
        for entry in {id(entry): entry for entry in (*self._rounds, *self.open_plays.values())}.values():
            if entry.details is not None:
                entry.details = self._details.widened(entry.details, more)

    def open(self, account: int, probability: float, round_: int, epoch: int = 0) -> int:
        """Record a play and return its ticket."""
        tickets = self._last_tickets
        tickets[account] = ticket = tickets[account] + 1
        entry = Entry(account, ticket, probability, round_, epoch)
        self.open_plays[account, ticket] = entry
        self._queues[account].append(entry)
        self._rounds.append(entry)
        if self.window:
            self._young.append(entry)
        self.stale.add(account)
        return ticket

    def expire(self, clock: int) -> set[int]:
        """Leave out plays that are `window` rounds old and have no reward; returns their accounts, to be advanced."""
        accounts = set()
        while self._young and self._young[0].round + self.window <= clock:
            entry = self._young.popleft()
            if isnan(entry.reward) and not entry.withdrawn:
                entry.left_out = True
                accounts.add(entry.account)
        return accounts

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner with rewards that wait: the ticket of the play that they wait for, and how many they are."""
        blocked = {}
        for i, n_waiting in enumerate(self.waiting):
            if n_waiting:
                first = next(entry for entry in self._queues[i] if not entry.left_out)
                blocked[i] = first.ticket, n_waiting
        return blocked

    def next_ticket(self, account: int) -> int:
        return self._last_tickets[account] + 1

    def share_tickets(self, account: int, others: Iterable[int]) -> None:
        """Continue the tickets of other accounts where those of this one stand, if they number the same plays."""
        for other in others:
            self._last_tickets[other] = self._last_tickets[account]

    def entry(self, account: int, ticket: int, learner: int) -> Entry:
        """Return an open play of an account of this learner."""
        try:
            return self.open_plays[account, ticket]
        except KeyError:
            raise UnknownDecision(
                f"play {ticket} of learner {learner} is not open: never chosen, withdrawn, or already credited"
            ) from None

    def is_first(self, entry: Entry) -> bool:
        """Whether all earlier rounds are resolved."""
        return bool(self._rounds) and self._rounds[0] is entry

    def observe(self, entry: Entry, regret: float) -> None:
        """Record what an open play adds to the observed bound of its learner."""
        if not entry.queued:  # it was left out and passed over with the regret it had
            return
        if entry.counted and regret != entry.regret:
            self._uncount(entry.account)
        entry.regret = regret

    def credit(self, entry: Entry, reward: float, regret: float) -> Resolved:
        """Record the reward of an open play; returns what is complete now, to be credited at once."""
        account = entry.account
        if not isnan(regret):
            self.observe(entry, regret)
        entry.reward = reward
        del self.open_plays[account, entry.ticket]
        rounds, queue = self._rounds, self._queues[account]
        if len(rounds) == 1 == len(queue) and rounds[0] is entry is queue[0] and not entry.counted:
            # The usual case, in which nothing waits: the same as `advance` below, in less time.
            rounds.clear()
            queue.clear()
            entry.queued = False
            self.stale.discard(account)
            self._recount.discard(account)
            return [entry], [entry], True
        if entry.queued and not entry.left_out:
            self.waiting[account] += 1
        return self.advance(account)

    def withdraw(self, entry: Entry) -> Resolved:
        """Remove an open play, as if its round had not happened; returns what is complete now, to be credited at once.

        The newest ticket of a learner is used again. Withdrawing the newest of all rounds restores the previous state.
        """
        account, ticket = entry.account, entry.ticket
        if self._rounds and self._rounds[-1] is entry:
            self._rounds.pop()
        if self._young and self._young[-1] is entry:
            self._young.pop()
        del self.open_plays[account, ticket]
        entry.withdrawn = True
        if entry.queued:
            self._queues[account].remove(entry)
        if ticket == self._last_tickets[account]:
            self._last_tickets[account] -= 1
        self._uncount(account)
        return self.advance(account)

    def count(self) -> Uncounted:
        """Return what the balanced bounds do not include yet and mark it as counted; takes time for new plays only."""
        rewound, plays = list(self._recount), []
        for account in self.stale:
            queue = self._queues[account]
            first_new = len(queue)
            while first_new > 0 and not queue[first_new - 1].counted:
                first_new -= 1
            for position in range(first_new, len(queue)):
                entry = queue[position]
                entry.counted = True
                plays.append((position + 1, entry))
        self.stale.clear()
        self._recount.clear()
        return rewound, plays

    def _uncount(self, account: int) -> None:
        if account not in self._recount:  # otherwise nothing has been counted since
            for entry in self._queues[account]:
                entry.counted = False
            self.stale.add(account)
            self._recount.add(account)

    def advance(self, account: int) -> Resolved:
        """What is complete of all rounds, and of the plays of an account, to be credited at once."""
        rounds, queue, recount = self._rounds, self._queues[account], False
        closed: list[Entry] = []
        credited: list[Entry] = []
        while rounds and (not isnan(rounds[0].reward) or rounds[0].withdrawn or rounds[0].left_out):
            entry = rounds.popleft()
            if not entry.withdrawn:
                closed.append(entry)
        while queue and (not isnan(queue[0].reward) or queue[0].left_out):
            entry = queue.popleft()
            entry.queued = False
            credited.append(entry)
            # Complete before it was counted as pending: rebuild from the new prefix. What a play that is left out adds
            # to an observed bound is added in another order than before.
            recount = recount or not entry.counted or (entry.left_out and account in self._observed)
            if not entry.left_out:
                self.waiting[account] -= 1
        if queue and recount:
            self._uncount(account)
        elif recount:  # nothing is pending
            self.stale.discard(account)
            self._recount.discard(account)
        return closed, credited, recount and not queue

    def state(self) -> State:
        """The rounds beyond the pool's resolved prefix as arrays, in order, then open plays that are left out.

        The first include all other plays that are not credited yet, because such a play waits for its own reward or for
        an earlier round.
        """
        entries = list(self._rounds)
        pooled = {id(entry): entry for entry in self.open_plays.values()}
        for entry in entries:
            pooled.pop(id(entry), None)
        entries += sorted(pooled.values(), key=attrgetter("round"))
        return {
            **self._details_of(entries),
            **{
                name: np.array([getattr(entry, field) for entry in entries], t) for name, (field, t) in _COLUMNS.items()
            },
            "pooled": np.array([id(entry) in pooled for entry in entries], np.bool_),
            "last_tickets": np.array(self._last_tickets, np.int64),
        }

    def _details_of(self, entries: list[Entry]) -> State:
        details = self._details
        if details is None:
            return {}
        return {
            "epochs": np.array([entry.epoch for entry in entries], np.int64),
            "observed": np.array([entry.details is not None for entry in entries], np.bool_),
            **details.columns([details.blank if entry.details is None else entry.details for entry in entries]),
        }

    def check_state(self, state: State) -> None:
        """Raise if `state` cannot have returned this."""
        n_rounds = state["accounts"].size if "accounts" in state else 0
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_COLUMNS, "pooled"), (n_rounds,))
        if self._details is not None:
            shapes |= dict.fromkeys(("epochs", "observed"), (n_rounds,))
            name, blank = self._details
            shapes |= {f"{name}.{field}": (n_rounds, len(row)) for field, row in blank._asdict().items()}
        check_shapes(state, shapes | {"last_tickets": (len(self._queues),)})

    def restore(self, state: State) -> None:
        """Load what `state` returned."""
        self._rounds.clear()
        self.open_plays.clear()
        self._young.clear()
        for queue in self._queues:
            queue.clear()
        self.waiting = [0] * len(self._queues)
        self._last_tickets = [int(ticket) for ticket in state["last_tickets"]]
        fields = [field for field, _ in _COLUMNS.values()]
        entries = []
        for row, values in enumerate(zip(*(state[name].tolist() for name in _COLUMNS), strict=True)):
            entry = Entry(0, 0, 1.0, 0, 0)
            for field, value in zip(fields, values, strict=True):
                setattr(entry, field, value)
            if self._details is not None:
                entry.epoch = int(state["epochs"][row])
                entry.details = self._details.row(state, row) if state["observed"][row] else None
            entries.append(entry)
            if not state["pooled"][row]:
                self._rounds.append(entry)
            if isnan(entry.reward) and not entry.withdrawn:
                self.open_plays[entry.account, entry.ticket] = entry
                if self.window and not entry.left_out:
                    self._young.append(entry)
        for entry in sorted(entries, key=attrgetter("ticket")):  # those that are left out come last in the columns
            if entry.queued and not entry.withdrawn:
                self._queues[entry.account].append(entry)
                self.waiting[entry.account] += not isnan(entry.reward) and not entry.left_out
        self.stale = set(range(len(self._queues)))
        self._recount = set(self.stale)


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
