"""The rounds of a selector: the ledger of its plays, and how rewards get to the kernels in the order of plays.

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

The *ledger* holds plain data: it returns what has become complete, and `Rounds` passes that to the *kernels*, small
functions over arrays that see plays in order; the simulator compiles and calls them directly. The *accounts* say which
account a choice belongs to. An account is active if its learner can be chosen. During a choice among some of the
learners, the accounts of all others are marked as inactive, so kernels need one mark only. Learners keep their index: a
learner that is removed keeps its row and what it has proved about the optimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cache, partial
from math import isnan, nan
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import numpy as np

from equipoise.bounds import Bound, Custom, Observed
from equipoise.errors import NoLearnerAvailable, UnknownDecision
from equipoise.kernels.places import Layout, Rows
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposal
from equipoise.selector import Choice
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Kernels, is_active
from equipoise.selectors._core.plays import (
    FIELDS,
    LEFT_OUT,
    OPEN,
    RESOLVED,
    REWARDED,
    WITHDRAWN,
    Cut,
    Details,
    Entry,
    Line,
    column_of,
    entry_of,
    shapes,
    tables,
)
from equipoise.selectors._core.radii import Radii
from equipoise.settings.checks import count, non_negative
from equipoise.types import Later, State

RECENT = 256  # open plays that are kept as objects
BYTES_OF_PLACE = 8  # in a queue

# What became complete: rounds in order, plays of one learner in order, the latter with those that are left out, and
# whether the balanced bound of the learner has to be reset to the prefix (nothing is pending, and one of these was
# never counted).
Resolved: TypeAlias = tuple[list[Entry], list[Entry], bool]

# What the balanced bounds do not include yet: learners to reset to their resolved prefix, then pending plays to count:
# the account of each, its position beyond the prefix, from 1, and its regret.
Uncounted: TypeAlias = tuple[list[int], list[tuple[int, int, float]]]

Substitutes: TypeAlias = Mapping[int, int | None]


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
        self._others = Layout(() if details is None else details.now)  # of open plays only

    def _clear(self, n_accounts: int) -> None:
        self._queues = [Line() for _ in range(n_accounts)]  # plays beyond the resolved prefix
        self._first, self._end = 0, 0  # places of the rounds beyond the resolved prefix of all rounds
        self.open_plays: dict[tuple[int, int], Entry | tuple[int, bytes]] = {}  # bytes if the rows have the rest
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
        """The memory of the closed plays that wait."""
        n_waiting = self._end - self._first - len(self.open_plays)
        return max(n_waiting, 0) * (self._rows.layout.width + BYTES_OF_PLACE)

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
        return entry_of(place, self._rows.read(place), self._details, others)

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
                queue = self._queues[i]
                first = next(place for place in queue.places[queue.head :] if not self._mark(place) & LEFT_OUT)
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
            queue = self._queues[account]
            places, head = queue.places, queue.head
            for position in range(bisect_left(places, self._counted[account], head), len(places)):
                entry = entries.get(places[position])
                regret = self._rows.read(places[position])[5] if entry is None else entry.regret
                plays.append((account, position - head + 1, regret))
            self._counted[account] = places[-1] + 1 if len(places) > head else 0
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

    def frozen(self) -> dict[str, Later]:
        """The rounds beyond the pool's resolved prefix as arrays, in order, then open plays that are left out.

        The first include all other plays that are not credited yet, because such a play waits for its own reward or for
        an earlier round. Of a round whose reward is known, details that are not needed any more are blank.
        """
        cut = Cut(
            self._first,
            self._end,
            self._rows.frozen(),
            self._details,
            self._others,
            sorted([copy(entry) for entry in self._entries.values()], key=attrgetter("place")),
            list(self.open_plays.values()),
            [queue.array() for queue in self._queues],
            tuple(self._last_tickets),
        )
        columns = cache(cut.columns)
        return {name: Later(partial(column_of, columns, name)) for name in shapes(self._details, 0, 0)}

    def check_state(self, state: State) -> None:
        """Raise if `state` cannot be that of a ledger like this one."""
        n_rounds = state["accounts"].size if "accounts" in state else 0
        check_shapes(state, shapes(self._details, n_rounds, len(self._queues)))

    def restore(self, state: State) -> None:
        """Load the columns of a saved state."""
        n_accounts = len(self._queues)
        self._arrange(self._details)
        self._clear(n_accounts)
        self._last_tickets = [int(ticket) for ticket in state["last_tickets"]]
        table, others, self._first = tables(state, self._details, self._rows.layout, self._others)
        self._end = len(table)
        self._rows.load(0, table)
        marks = table["mark"]
        for account in range(n_accounts):
            own = others["queued"] & (table["account"] == account)
            self._queues[account] = Line(np.flatnonzero(own).tolist())
            self.waiting[account] = int((own & (marks & (REWARDED | LEFT_OUT) == REWARDED)).sum())
        is_open, data, width = marks & OPEN > 0, others["packed"].tobytes(), self._others.width
        accounts, tickets = table["account"][is_open].tolist(), table["ticket"][is_open].tolist()
        for place, account, ticket in zip(np.flatnonzero(is_open).tolist(), accounts, tickets, strict=True):
            self.open_plays[account, ticket] = place, data[place * width : (place + 1) * width]
        for place in np.flatnonzero(is_open & (marks & LEFT_OUT > 0)).tolist():
            self._open_at(place).queued = bool(others["queued"][place])
        if self.window:
            young = np.flatnonzero(is_open & (marks & LEFT_OUT == 0))
            self._young.update(zip(young.tolist(), table["round"][young].tolist(), strict=True))
        self.stale = set(range(n_accounts))
        self._recount = set(self.stale)


COUNTED_EVERY = 1_024  # draws, at the latest; selectors that balance count the pending plays before every draw


class Accounts(Protocol):
    """Which accounts learners have, how a choice opens a play, and what is kept of its round.

    `LearnerAccounts` has one account for each learner. A selector that draws other things than learners plugs in its
    own.
    """

    _rounds: Rounds
    n_learners: int  # those included that were added later or removed
    details: Details | None  # the form of what is kept of a round; None if the selector asks only the chosen learner
    mode_fields: tuple[str, ...]  # of the mode in which a learner that is added later plays; empty if there is one mode

    @property
    def size(self) -> int: ...  # number of accounts

    def attach(self, rounds: Rounds) -> None:
        """Called once, when the rounds exist."""
        self._rounds = rounds

    def of(self, learner: int) -> Sequence[int]: ...  # its accounts, the one of its own proposals first

    def learner_of(self, account: int) -> int: ...

    def choose(self, rng: np.random.Generator | None) -> Choice: ...  # among the active accounts; opens a play

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        """Open a play with logged `odds`, if it has any; return whether the present rule has other ones."""
        ...

    def entry(self, choice: Choice) -> Entry: ...  # an open play

    def seen(self, choice: Choice) -> Entry: ...  # an open play whose proposals are known, if they are needed

    # Returns the details to keep. `substitutes` has the learner that acts for each one that cannot; None: the fallback.
    def gather(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> Any: ...

    def arrive(self, entry: Entry, reward: float) -> None: ...  # a reward, in order of arrival, evidence or not

    def close_round(self, entry: Entry) -> None: ...  # a resolved round, in the order of rounds

    def n_accounts_of(self, mode: Any) -> int: ...  # of a learner that is added in this mode

    def add(self, mode: Any) -> Any: ...  # a learner; returns the blank details of its accounts

    def mode_of(self, row: Sequence[int]) -> Any:
        """Return a mode from its saved fields."""
        return None

    def check_saved(self, ledger: State) -> None:
        """Raise an error if saved details are impossible."""
        return

    def withdrawn(self, entry: Entry) -> None:
        """Take back what opening a play has changed."""
        return

    def clear(self) -> None:
        """Forget the round that kernels worked on last, which is not part of the state."""
        return


class Rounds:
    """The rounds so far: those that are open, and those that kernels know."""

    def __init__(
        self,
        kernels: Kernels,
        radii: Radii[Any],
        state: Any,
        sums: evidence.State,
        bounds: Sequence[Bound],
        accounts: Accounts,
        *,
        across_epochs: bool,
    ) -> None:
        self.kernels, self.radii, self.state, self.evidence, self.accounts = kernels, radii, state, sums, accounts
        self.bounds = list(bounds)  # candidate bounds of all learners; empty if there are none
        self.observed = tuple(i for i, bound in enumerate(bounds) if isinstance(bound, Observed))
        self._custom = {i: bound for i, bound in enumerate(bounds) if isinstance(bound, Custom)}
        self._asks_all, self._across_epochs = accounts.details is not None, across_epochs
        self._has_plain_marks = kernels.is_active in (evidence.is_active, is_active)
        self._uses_arrivals = kernels.arrive is not evidence.ignore_arrival
        self.ledger = Ledger(accounts.size, accounts.details, self.observed)
        self.draws = 0  # choices made
        self.clock = 0  # rounds so far, those that no learner played included
        self.unplayed = 0  # rounds that no learner played
        self.eliminated: list[int] = []  # in order
        self.unreported: list[int] = []  # of these, the ones that no call has returned yet
        accounts.attach(self)

    @property
    def compilable(self) -> bool:
        """Whether compiled kernels can run: no bound is a Python function, and all radii are equal."""
        return not self._custom and not self.radii.unequal

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that can be chosen."""
        accounts, rows = self.accounts, self.evidence.accounts
        if self._has_plain_marks:
            return tuple([i for i in range(accounts.n_learners) if rows[accounts.of(i)[0]].active])
        admits, params, state = self.kernels.is_active, self.radii.params, self.state
        return tuple([i for i in range(accounts.n_learners) if admits(params, state, accounts.of(i)[0])])

    def mask_unavailable(self, available: Collection[int]) -> tuple[Account, ...]:
        """Mark all accounts as inactive whose learner is not available; return the accounts that were changed."""
        allowed = self.check_available(available)
        if allowed.isdisjoint(self.active):
            raise NoLearnerAvailable(f"available is {sorted(allowed)}, but only {list(self.active)} are active")
        learner_of = self.accounts.learner_of
        masked = [a for e, a in enumerate(self.evidence.accounts) if a.active and learner_of(e) not in allowed]
        for account in masked:
            account.active = False
        return tuple(masked)

    def unmask(self, masked: tuple[Account, ...]) -> None:
        """Mark accounts as active again."""
        for account in masked:
            account.active = True

    def check_available(self, available: Collection[int]) -> set[int]:
        allowed = set(available)
        for i in allowed:
            count("every entry of available", i, minimum=0, maximum=self.accounts.n_learners - 1)
        return allowed

    def open(self, account: int, chance: float) -> int:
        """Open a play of an account and return its number."""
        if account in self._custom:  # a user's function may raise: evaluate it before the play is opened
            self._custom[account].raw(self.evidence.accounts[account].plays + 1)
        if not self.draws % COUNTED_EVERY and self.ledger.stale:  # so that a snapshot finds few to count
            self.count_pending()
        self.draws += 1
        self.clock = clock = self.clock + 1
        accounts, pool = self.evidence
        accounts[account].plays += 1
        return self.ledger.open(account, chance, clock, pool[0].eliminated)

    def add_account(self, bound: Bound | None, width: float) -> None:
        """Open an account for a learner that is added."""
        self.evidence.accounts.append(evidence.open_state([] if bound is None else [bound], 1, width).accounts[0])
        self.ledger.add_account(isinstance(bound, Observed))

    def add_bound(self, bound: Bound, learner: int) -> None:
        """Add the candidate bound of a new learner."""
        self.bounds.append(bound)
        if isinstance(bound, Observed):
            self.observed = (*self.observed, learner)

    def tick(self, rounds: int) -> None:
        """Count rounds that no learner played."""
        self.unplayed += rounds
        self.clock += max(rounds, 0)
        self.expire()

    def expire(self) -> None:
        """With a window: leave out plays of that age without a reward, and credit what waited for them."""
        if self.ledger.window:
            for account in sorted(self.ledger.expire(self.clock)):
                self.unreported += self._settle(account, self.ledger.advance(account))

    def report(self, new: tuple[int, ...]) -> tuple[int, ...]:
        """Return new eliminations, after those that no call has returned yet."""
        if not self.unreported:
            return new
        reported = (*self.unreported, *new)
        self.unreported.clear()
        return reported

    def in_epoch(self, entry: Entry) -> bool:
        """Whether no learner was eliminated since the round was chosen, if the test of proposals depends on it."""
        return self._across_epochs or entry.epoch == self.evidence.pool[0].eliminated

    def observe(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> None:
        """Record the proposals of a round."""
        account = entry.account
        details = self.accounts.gather(entry, proposals, substitutes) if self._asks_all else None
        if account in self.observed:
            self.ledger.observe(entry, check_regret(proposals[account].regret))
        if self._asks_all:
            entry.details = details
        entry.observed = True

    def leave_out(self, entry: Entry) -> None:
        """Leave an open play out of evidence for good."""
        entry.left_out = True
        self.unreported += self._settle(entry.account, self.ledger.advance(entry.account))

    def credit(self, entry: Entry, reward: float, regret: float) -> tuple[int, ...]:
        """Record the reward of an open play; return the accounts that are eliminated."""
        if self._uses_arrivals:
            self.accounts.arrive(entry, reward)
        new = self._settle(entry.account, self.ledger.credit(entry, reward, regret))
        return self.report(new) if self.unreported else new

    def withdraw(self, entry: Entry, width: float) -> tuple[int, ...]:
        """Remove an open play, as if its round had not happened; return the accounts that are eliminated."""
        self.accounts.withdrawn(entry)
        account = self.evidence.accounts[entry.account]
        if entry.round == self.clock:  # the newest round
            self.draws -= 1  # the next choice uses the same random numbers
            self.clock -= 1
        account.plays -= 1
        if not entry.queued:  # it was passed over, and its learner does not wait for it
            account.skipped -= 1
            if entry.account in self.observed:
                account.skipped_bound -= width if isnan(entry.regret) else min(entry.regret, width)
        new = self._settle(entry.account, self.ledger.withdraw(entry))
        self.ledger.share_tickets(entry.account, self.accounts.of(self.accounts.learner_of(entry.account)))
        return self.report(new)

    def _settle(self, e: int, resolved: Resolved) -> tuple[int, ...]:
        """Pass resolved rounds and plays of account e to the kernels; return the accounts that are eliminated."""
        kernels, params, state, sums = self.kernels, self.radii.params, self.state, self.evidence
        rounds, plays, rewind = resolved
        custom, own = self._custom, self.radii.has_own(e)
        if own:
            params = self.radii.params_of(e)
        for entry in plays:
            if entry.left_out:
                self._skip(entry)
                continue
            regret = entry.regret
            if custom:
                regret = self._increment(e, self._position(e) + 1, regret)
            kernels.credit(params, state, e, entry.reward, regret, entry.probability)
        if own:
            account = sums.accounts[e]
            account.extra_radius = self.radii.extra(e, account.booked_plays)
        if rewind:
            evidence.rewind(params, sums, e)
        for entry in rounds:
            if entry.left_out:
                continue
            evidence.pool(params, sums, entry.reward)
            if self._asks_all and self.in_epoch(entry):
                self.accounts.close_round(entry)
        if sums.pool[0].eliminated == len(self.eliminated):
            return ()
        return self.record_eliminations()

    def record_eliminations(self) -> tuple[int, ...]:
        """Record the accounts that kernels have eliminated, in order; return the new ones."""
        rounds = {e: account.eliminated_at for e, account in enumerate(self.evidence.accounts)}
        new = sorted((e for e in rounds if rounds[e] > 0 and e not in self.eliminated), key=rounds.__getitem__)
        for e in new:  # kernels do not know rounds that no learner played
            self.evidence.accounts[e].eliminated_at += self.unplayed
        self.eliminated += new
        return tuple(new)

    def _position(self, e: int) -> int:
        """Return the number of plays of account e that are counted or left out for good."""
        account = self.evidence.accounts[e]
        return account.booked_plays + account.skipped

    def _skip(self, entry: Entry) -> None:
        """Pass over a play that is left out."""
        e = entry.account
        increment = self._increment(e, self._position(e) + 1, nan)
        limits, sums = self.kernels.evidence_of(self.radii.params, self.state)
        evidence.skip(limits, sums, e, increment, entry.regret)

    def count_pending(self) -> None:
        """Include the pending plays in the balanced bounds."""
        limits, sums = self.kernels.evidence_of(self.radii.params, self.state)
        rewound, plays = self.ledger.count()
        for e in rewound:
            evidence.rewind(limits, sums, e)
        for e, offset, regret in plays:
            position = self._position(e) + offset
            evidence.play(limits, sums, e, position, self._increment(e, position, regret))

    def _increment(self, e: int, position: int, regret: float) -> float:
        """Return what play number `position` adds to a bound; kernels cannot evaluate a `Custom` bound."""
        custom = self._custom.get(e)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)


def check_regret(regret: float) -> float:
    # nan, which means unknown, is the only value that differs from itself.
    return nan if regret != regret else non_negative("regret", regret)
