"""The ledger of a selector: credits late, reordered or missing rewards in the order of plays.

Plays of a learner are numbered in the order they were made. The confidence radii are uniform over the number of plays,
so any *prefix* of a learner's plays with all rewards known may be tested, even if the delays depend on the rewards; any
other subset may be biased by them. Rewards beyond the prefix wait in the ledger. Balancing counts every play, including
pending ones. The pool of all rounds works the same way: its certificate uses the longest resolved prefix of rounds.

The ledger holds plain data: it returns what has become complete, and the selector credits it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan
from typing import TypeAlias

import numpy as np

from equipoise.errors import UnknownDecision
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposals
from equipoise.selectors._core.proposals import blank_proposals
from equipoise.types import State


@dataclass(slots=True, eq=False)
class Entry:
    """One open play. `reward` is nan until it is credited, `regret` until it is known."""

    learner: int
    ticket: int
    probability: float
    epoch: int = 0  # number of learners eliminated before it was chosen
    regret: float = nan
    reward: float = nan
    proposals: Proposals | None = None  # of all learners, if they are stored
    withdrawn: bool = False
    counted: bool = False  # whether the balanced bound includes it, with the regret it has now


# What became complete: rounds in order, plays of one learner in order, and whether the balanced bound of the learner
# has to be reset to the resolved prefix (no play is pending, and one of these was never counted).
Resolved: TypeAlias = tuple[list[Entry], list[Entry], bool]

# What the balanced bounds do not include yet: learners to reset to their resolved prefix, then pending plays to count,
# each with its position beyond the prefix, from 1.
Uncounted: TypeAlias = tuple[list[int], list[tuple[int, Entry]]]


class Ledger:
    """The open plays of all learners. With `keeps_proposals` the proposals of a round are saved with it."""

    def __init__(self, n_learners: int, keeps_proposals: bool = False) -> None:
        self._keeps_proposals = keeps_proposals
        self._queues: list[deque[Entry]] = [deque() for _ in range(n_learners)]  # plays beyond the resolved prefix
        self._rounds: deque[Entry] = deque()  # rounds beyond the resolved prefix of all rounds
        self._open: dict[tuple[int, int], Entry] = {}  # plays without a reward
        self._last_tickets = [0] * n_learners
        self.stale: set[int] = set()  # learners with a pending play that their balanced bound does not include
        self._recount: set[int] = set()  # of those, the ones whose balanced bound must be rebuilt from the prefix

    def open(self, learner: int, probability: float, epoch: int = 0) -> int:
        """Record a play and return its ticket."""
        ticket = self._last_tickets[learner] = self._last_tickets[learner] + 1
        entry = Entry(learner, ticket, probability, epoch)
        self._open[learner, ticket] = entry
        self._queues[learner].append(entry)
        self._rounds.append(entry)
        self.stale.add(learner)
        return ticket

    def next_ticket(self, learner: int) -> int:
        return self._last_tickets[learner] + 1

    def share_tickets(self, learner: int, others: Iterable[int]) -> None:
        """Continue the tickets of other accounts where those of this one stand, if they number the same plays."""
        for other in others:
            self._last_tickets[other] = self._last_tickets[learner]

    def entry(self, learner: int, ticket: int) -> Entry:
        try:
            return self._open[learner, ticket]
        except KeyError:
            raise UnknownDecision(
                f"play {ticket} of learner {learner} is not open: never chosen, withdrawn, or already credited"
            ) from None

    def observe(self, entry: Entry, regret: float) -> None:
        """Record what an open play adds to the observed bound of its learner."""
        entry.regret = regret
        if entry.counted:
            self._uncount(entry.learner)

    def credit(self, learner: int, ticket: int, reward: float, regret: float) -> Resolved:
        """Record the reward of an open play; returns what is complete now, to be credited at once."""
        entry = self.entry(learner, ticket)
        if not isnan(regret):
            self.observe(entry, regret)
        entry.reward = reward
        del self._open[learner, ticket]
        return self._advance(learner)

    def is_newest(self, entry: Entry) -> bool:
        """Whether no round was chosen after this one."""
        return self._rounds[-1] is entry

    def withdraw(self, entry: Entry) -> Resolved:
        """Remove an open play, as if its round had not happened; returns what is complete now, to be credited at once.

        The newest ticket of a learner is used again. Withdrawing the newest of all rounds restores the previous state.
        """
        learner, ticket = entry.learner, entry.ticket
        if self.is_newest(entry):
            self._rounds.pop()
        del self._open[learner, ticket]
        entry.withdrawn = True
        self._queues[learner].remove(entry)
        if ticket == self._last_tickets[learner]:
            self._last_tickets[learner] -= 1
        self._uncount(learner)
        return self._advance(learner)

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

    def _advance(self, learner: int) -> Resolved:
        rounds, queue, recount = self._rounds, self._queues[learner], False
        closed: list[Entry] = []
        credited: list[Entry] = []
        while rounds and (rounds[0].withdrawn or not isnan(rounds[0].reward)):
            entry = rounds.popleft()
            if not entry.withdrawn:
                closed.append(entry)
        while queue and not isnan(queue[0].reward):
            entry = queue.popleft()
            credited.append(entry)
            # Resolved before it was counted as pending: rebuild from the new prefix.
            recount = recount or not entry.counted
        if queue and recount:
            self._uncount(learner)
        elif recount:  # nothing is pending
            self.stale.discard(learner)
            self._recount.discard(learner)
        return closed, credited, recount and not queue

    def state(self) -> State:
        """The rounds beyond the pool's resolved prefix as arrays, in order.

        They include all plays that are not credited yet, because such a play waits for its own reward or for an earlier
        round.
        """
        entries = list(self._rounds)
        waiting = {id(entry) for queue in self._queues for entry in queue}
        return {
            **(self._proposals_of(entries) if self._keeps_proposals else {}),
            **{
                name: np.array([getattr(entry, field) for entry in entries], t) for name, (field, t) in _COLUMNS.items()
            },
            "credited": np.array([id(entry) not in waiting for entry in entries], np.bool_),
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
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_COLUMNS, "credited"), (n_rounds,))
        if self._keeps_proposals:
            shapes |= dict.fromkeys(("epochs", "observed"), (n_rounds,))
            shapes |= {f"proposals.{name}": (n_rounds, len(self._queues)) for name in _PROPOSALS}
        check_shapes(state, shapes | {"last_tickets": (len(self._queues),)})

    def restore(self, state: State) -> None:
        """Load what `state` returned."""
        self._rounds.clear()
        self._open.clear()
        for queue in self._queues:
            queue.clear()
        self._last_tickets = [int(ticket) for ticket in state["last_tickets"]]
        fields = [field for field, _ in _COLUMNS.values()]
        for row, values in enumerate(zip(*(state[name].tolist() for name in _COLUMNS), strict=True)):
            entry = Entry(**dict(zip(fields, values, strict=True)))
            if self._keeps_proposals:
                entry.epoch = int(state["epochs"][row])
                if state["observed"][row]:
                    entry.proposals = Proposals(
                        *(tuple(state[f"proposals.{name}"][row].tolist()) for name in _PROPOSALS)
                    )
            self._rounds.append(entry)
            if not state["credited"][row]:
                self._queues[entry.learner].append(entry)
            if isnan(entry.reward) and not entry.withdrawn:
                self._open[entry.learner, entry.ticket] = entry
        self.stale = set(range(len(self._queues)))
        self._recount = set(self.stale)


_COLUMNS: dict[str, tuple[str, type[np.generic]]] = {  # column of the saved state: field of the entry, type
    "learners": ("learner", np.int64),
    "tickets": ("ticket", np.int64),
    "probabilities": ("probability", np.float64),
    "regrets": ("regret", np.float64),
    "rewards": ("reward", np.float64),
    "withdrawn": ("withdrawn", np.bool_),
}
_PROPOSALS: dict[str, type[np.generic]] = {
    name: np.int64 if name in ("actions", "greedy") else np.float64 for name in Proposals._fields
}
