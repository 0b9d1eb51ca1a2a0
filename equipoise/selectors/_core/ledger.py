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

The *ledger* holds plain data: it returns what has become complete, and `Rounds` passes that to the *kernels*, small
functions over arrays that see plays in order; the simulator compiles and calls them directly. The *accounts* say which
account a choice belongs to. An account is active if its learner can be chosen. During a choice among some of the
learners, the accounts of all others are marked as inactive, so kernels need one mark only. Learners keep their index: a
learner that is removed keeps its row and what it has proved about the optimum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from equipoise.bounds import Bound, Custom, Observed
from equipoise.errors import NoLearnerAvailable, UnknownDecision
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposal
from equipoise.selector import Choice
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Kernels, is_active
from equipoise.selectors._core.radii import Radii
from equipoise.settings.checks import count, non_negative
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
    drawable: tuple[int, ...] | None = None  # the learners that could be drawn, until proposals are known; None for all

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

Substitutes: TypeAlias = Mapping[int, int | None]


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
        for offset, entry in plays:
            e = entry.account
            position = self._position(e) + offset
            evidence.play(limits, sums, e, position, self._increment(e, position, entry.regret))

    def _increment(self, e: int, position: int, regret: float) -> float:
        """Return what play number `position` adds to a bound; kernels cannot evaluate a `Custom` bound."""
        custom = self._custom.get(e)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)


def check_regret(regret: float) -> float:
    # nan, which means unknown, is the only value that differs from itself.
    return nan if regret != regret else non_negative("regret", regret)


class Late(NamedTuple):
    """A learner that was added later."""

    round: int  # number of rounds before it was added
    delta: float  # its share
    mode: Any = None  # how it plays and learns, if the selector has several modes


class Changes:
    """How the pool of a selector has changed since the start."""

    def __init__(self) -> None:
        self.late: dict[int, Late] = {}  # learners that were added
        self.removed: dict[int, int] = {}  # learners that were removed, with the number of rounds before

    def __bool__(self) -> bool:
        return bool(self.late or self.removed)

    @property
    def since(self) -> int:
        """The number of rounds before the last change."""
        return max([late.round for late in self.late.values()] + list(self.removed.values()))

    @property
    def delta(self) -> float:
        """What the statements about the learners that were added spend, in addition to delta."""
        return sum(late.delta for late in self.late.values())
