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
from collections.abc import Iterable, Iterator
from math import isnan, nan
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from equipoise.errors import UnknownDecision
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposals
from equipoise.selectors._core.proposals import blank_proposals
from equipoise.types import State


class Entry:
    """One open play. `reward` is nan until it is credited, `regret` until it is known."""

    # Most plays have only what `__init__` sets, and a reward.
    regret = nan
    reward = nan
    proposals: Proposals | None = None  # of all learners, if they are stored
    withdrawn = False
    counted = False  # whether the balanced bound includes it, with the regret it has now
    left_out = False  # never counts as evidence
    queued = True  # whether it is beyond the prefix of its learner
    certified = False  # whether its round is in the sums that are kept in the order of rounds

    def __init__(self, learner: int, ticket: int, probability: float, round_: int, epoch: int) -> None:
        self.learner = learner
        self.ticket = ticket
        self.probability = probability
        self.round = round_  # when it was chosen
        self.epoch = epoch  # number of learners eliminated before it was chosen

    def __repr__(self) -> str:
        return f"Entry(learner {self.learner}, play {self.ticket}, round {self.round}, reward {self.reward:g})"


# What became complete: rounds in order, plays of one learner in order, both with those that are left out, and whether
# the balanced bound of the learner has to be reset to the prefix (nothing is pending, and one of these was never
# counted).
Resolved: TypeAlias = tuple[list[Entry], list[Entry], bool]

# What the balanced bounds do not include yet: learners to reset to their resolved prefix, then pending plays to count,
# each with its position beyond the prefix, from 1.
Uncounted: TypeAlias = tuple[list[int], list[tuple[int, Entry]]]


class Ledger:
    """The open plays of all learners. With `keeps_proposals` the proposals of a round are saved with it.

    `observed` are the learners with an observed bound.
    """

    def __init__(self, n_learners: int, keeps_proposals: bool = False, observed: Iterable[int] = ()) -> None:
        self._keeps_proposals = keeps_proposals
        self._observed = set(observed)
        self.window = 0  # age in rounds at which a play without a reward is left out; 0 for never
        self._young: deque[Entry] = deque()  # with a window: rounds that are not that old, in order
        self.waiting = [0] * n_learners  # for each learner, the rewards that wait for that of an earlier play
        self._queues: list[deque[Entry]] = [deque() for _ in range(n_learners)]  # plays beyond the resolved prefix
        self._rounds: deque[Entry] = deque()  # rounds beyond the resolved prefix of all rounds
        self.open_plays: dict[tuple[int, int], Entry] = {}  # plays without a reward
        self._last_tickets = [0] * n_learners
        self.stale: set[int] = set()  # learners with a pending play that their balanced bound does not include
        self._recount: set[int] = set()  # of those, the ones whose balanced bound must be rebuilt from the prefix

    def add_learner(self, observed: bool) -> None:
        if observed:
            self._observed.add(len(self._queues))
        self._queues.append(deque())
        self._last_tickets.append(0)
        self.waiting.append(0)

    def widen(self, blank: Proposals) -> None:
        """Add what is not known of new learners to the proposals of all rounds that are stored."""
        for entry in {id(entry): entry for entry in (*self._rounds, *self.open_plays.values())}.values():
            if entry.proposals is not None:
                entry.proposals = Proposals._make((*old, *new) for old, new in zip(entry.proposals, blank, strict=True))

    def open(self, learner: int, probability: float, round_: int, epoch: int = 0) -> int:
        """Record a play and return its ticket."""
        tickets = self._last_tickets
        tickets[learner] = ticket = tickets[learner] + 1
        entry = Entry(learner, ticket, probability, round_, epoch)
        self.open_plays[learner, ticket] = entry
        self._queues[learner].append(entry)
        self._rounds.append(entry)
        if self.window:
            self._young.append(entry)
        self.stale.add(learner)
        return ticket

    def expire(self, clock: int) -> set[int]:
        """Leave out plays that are `window` rounds old and have no reward; returns their learners, to be advanced."""
        learners = set()
        while self._young and self._young[0].round + self.window <= clock:
            entry = self._young.popleft()
            if isnan(entry.reward) and not entry.withdrawn:
                entry.left_out = True
                learners.add(entry.learner)
        return learners

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner with rewards that wait: the ticket of the play that they wait for, and how many they are."""
        blocked = {}
        for i, n_waiting in enumerate(self.waiting):
            if n_waiting:
                first = next(entry for entry in self._queues[i] if not entry.left_out)
                blocked[i] = first.ticket, n_waiting
        return blocked

    def arrived(self) -> Iterator[Entry]:
        """The plays whose rewards wait for that of an earlier play."""
        return (entry for queue in self._queues for entry in queue if not isnan(entry.reward))

    def next_ticket(self, learner: int) -> int:
        return self._last_tickets[learner] + 1

    def share_tickets(self, learner: int, others: Iterable[int]) -> None:
        """Continue the tickets of other accounts where those of this one stand, if they number the same plays."""
        for other in others:
            self._last_tickets[other] = self._last_tickets[learner]

    def entry(self, learner: int, ticket: int) -> Entry:
        try:
            return self.open_plays[learner, ticket]
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
            self._uncount(entry.learner)
        entry.regret = regret

    def credit(self, entry: Entry, reward: float, regret: float) -> Resolved:
        """Record the reward of an open play; returns what is complete now, to be credited at once."""
        learner = entry.learner
        if not isnan(regret):
            self.observe(entry, regret)
        entry.reward = reward
        del self.open_plays[learner, entry.ticket]
        rounds, queue = self._rounds, self._queues[learner]
        if len(rounds) == 1 == len(queue) and rounds[0] is entry is queue[0] and not entry.counted:
            # The usual case, in which nothing waits: the same as `advance` below, in less time.
            rounds.clear()
            queue.clear()
            entry.queued = False
            self.stale.discard(learner)
            self._recount.discard(learner)
            return [entry], [entry], True
        if entry.queued and not entry.left_out:
            self.waiting[learner] += 1
        return self.advance(learner)

    def withdraw(self, entry: Entry) -> Resolved:
        """Remove an open play, as if its round had not happened; returns what is complete now, to be credited at once.

        The newest ticket of a learner is used again. Withdrawing the newest of all rounds restores the previous state.
        """
        learner, ticket = entry.learner, entry.ticket
        if self._rounds and self._rounds[-1] is entry:
            self._rounds.pop()
        if self._young and self._young[-1] is entry:
            self._young.pop()
        del self.open_plays[learner, ticket]
        entry.withdrawn = True
        if entry.queued:
            self._queues[learner].remove(entry)
        if ticket == self._last_tickets[learner]:
            self._last_tickets[learner] -= 1
        self._uncount(learner)
        return self.advance(learner)

    def count(self) -> Uncounted:
        """Return what the balanced bounds do not include yet and mark it as counted; takes time for new plays only."""
        rewound, plays = list(self._recount), []
        for learner in self.stale:
            queue = self._queues[learner]
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

    def _uncount(self, learner: int) -> None:
        if learner not in self._recount:  # otherwise nothing has been counted since
            for entry in self._queues[learner]:
                entry.counted = False
            self.stale.add(learner)
            self._recount.add(learner)

    def advance(self, learner: int) -> Resolved:
        """What is complete of all rounds, and of the plays of a learner, to be credited at once."""
        rounds, queue, recount = self._rounds, self._queues[learner], False
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
            recount = recount or not entry.counted or (entry.left_out and learner in self._observed)
            if not entry.left_out:
                self.waiting[learner] -= 1
        if queue and recount:
            self._uncount(learner)
        elif recount:  # nothing is pending
            self.stale.discard(learner)
            self._recount.discard(learner)
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
            **(self._proposals_of(entries) if self._keeps_proposals else {}),
            **{
                name: np.array([getattr(entry, field) for entry in entries], t) for name, (field, t) in _COLUMNS.items()
            },
            "pooled": np.array([id(entry) in pooled for entry in entries], np.bool_),
            "last_tickets": np.array(self._last_tickets, np.int64),
        }

    def _proposals_of(self, entries: list[Entry]) -> State:
        n_learners = len(self._queues)
        kept = [blank_proposals(n_learners) if entry.proposals is None else entry.proposals for entry in entries]
        columns = {
            f"proposals.{name}": np.array([row[k] for row in kept], dtype).reshape(len(kept), n_learners)
            for k, (name, dtype) in enumerate(_PROPOSALS.items())
        }
        epochs = np.array([entry.epoch for entry in entries], np.int64)
        return {
            "epochs": epochs,
            "observed": np.array([entry.proposals is not None for entry in entries], np.bool_),
            **columns,
        }

    def check_state(self, state: State) -> None:
        """Raise if `state` cannot have returned this."""
        n_rounds = state["learners"].size if "learners" in state else 0
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_COLUMNS, "pooled"), (n_rounds,))
        if self._keeps_proposals:
            shapes |= dict.fromkeys(("epochs", "observed"), (n_rounds,))
            shapes |= {f"proposals.{name}": (n_rounds, len(self._queues)) for name in _PROPOSALS}
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
            if self._keeps_proposals:
                entry.epoch = int(state["epochs"][row])
                if state["observed"][row]:
                    entry.proposals = Proposals(
                        *(tuple(state[f"proposals.{name}"][row].tolist()) for name in _PROPOSALS)
                    )
            entries.append(entry)
            if not state["pooled"][row]:
                self._rounds.append(entry)
            if isnan(entry.reward) and not entry.withdrawn:
                self.open_plays[entry.learner, entry.ticket] = entry
                if self.window and not entry.left_out:
                    self._young.append(entry)
        for entry in sorted(entries, key=attrgetter("ticket")):  # those that are left out come last in the columns
            if entry.queued and not entry.withdrawn:
                self._queues[entry.learner].append(entry)
                self.waiting[entry.learner] += not isnan(entry.reward) and not entry.left_out
        self.stale = set(range(len(self._queues)))
        self._recount = set(self.stale)


_COLUMNS: dict[str, tuple[str, type[np.generic]]] = {  # column of the saved state: field of the entry, type
    "learners": ("learner", np.int64),
    "tickets": ("ticket", np.int64),
    "probabilities": ("probability", np.float64),
    "regrets": ("regret", np.float64),
    "rewards": ("reward", np.float64),
    "withdrawn": ("withdrawn", np.bool_),
    "rounds": ("round", np.int64),
    "left_out": ("left_out", np.bool_),
    "queued": ("queued", np.bool_),
}
_PROPOSALS: dict[str, type[np.generic]] = {
    name: np.int64 if name in ("actions", "greedy") else np.float64 for name in Proposals._fields
}
