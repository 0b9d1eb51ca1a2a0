"""The ledger of a selector: turns tickets and late, reordered or missing rewards into bookings in play order.

Plays of a learner are numbered in the order they were made. The confidence radii are uniform over the number of plays,
so any *prefix* of a learner's plays whose rewards are all in may be tested, even if the delays depend on the rewards;
any other subset may be biased by them. Rewards that arrive beyond the prefix wait here. Balancing counts every play,
pending ones too. The pool of all rounds is kept the same way: its certificate uses the longest prefix of rounds that
is fully resolved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import UnknownDecision
from equipoise.records import check_shapes

Notes = tuple[float, ...]  # what a selector keeps with a round until the round is closed


class Bookkeeping(NamedTuple):
    """What a selector does with plays; i is the learner."""

    open: Callable[[int], None]  # a play of i was made
    close: Callable[[int], None]  # the last play of i did not happen after all
    rewind: Callable[[int], None]  # forget the pending plays of i
    play: Callable[[int, int, float], None]  # (i, position beyond the prefix from 1, regret): count a pending play
    book: Callable[[int, float, float, float], None]  # (i, reward, regret, probability) in play order
    pool: Callable[[float], None]  # reward of the next round in the order of rounds
    close_round: Callable[[int, float, float, Notes], None] | None = None  # (i, reward, regret, notes), likewise


class Entry:
    """One open play. `reward` is nan until it is credited, `regret` until it is known."""

    __slots__ = ("counted", "learner", "notes", "probability", "regret", "reward", "ticket", "withdrawn")

    def __init__(self, learner: int, ticket: int, probability: float, regret: float = nan, reward: float = nan) -> None:
        self.learner = learner
        self.ticket = ticket
        self.probability = probability
        self.regret = regret
        self.reward = reward
        self.notes: Notes = ()
        self.withdrawn = False
        self.counted = False  # whether the balanced bound includes it, with the regret it has now


class Ledger:
    """The open plays of all learners. `n_notes` numbers are kept with each round, where a selector needs them."""

    def __init__(self, n_learners: int, bookkeeping: Bookkeeping, n_notes: int = 0) -> None:
        self._do = bookkeeping
        self._n_notes = n_notes
        self._queues: list[deque[Entry]] = [deque() for _ in range(n_learners)]  # plays beyond the resolved prefix
        self._rounds: deque[Entry] = deque()  # rounds beyond the resolved prefix of all rounds
        self._open: dict[tuple[int, int], Entry] = {}  # plays without a reward
        self._last_tickets = [0] * n_learners
        self._stale: set[int] = set()  # learners whose balanced bound lacks a pending play
        self._recount: set[int] = set()  # of those, the ones whose balanced bound has to be built from the prefix again

    def open(self, learner: int, probability: float) -> int:
        """Note a play and give out its ticket."""
        ticket = self._last_tickets[learner] = self._last_tickets[learner] + 1
        entry = Entry(learner, ticket, probability)
        self._open[learner, ticket] = entry
        self._queues[learner].append(entry)
        self._rounds.append(entry)
        self._do.open(learner)
        self._stale.add(learner)
        return ticket

    def observe(self, learner: int, ticket: int, regret: float) -> None:
        """Note the regret width of an open play."""
        self._set_regret(self.entry(learner, ticket), regret)

    def note(self, learner: int, ticket: int, notes: Notes) -> None:
        """Keep numbers with an open play, until its round is closed."""
        self.entry(learner, ticket).notes = notes

    def credit(self, learner: int, ticket: int, reward: float, regret: float) -> None:
        """Note the reward of an open play and book whatever prefix is complete now."""
        entry = self.entry(learner, ticket)
        if not isnan(regret):
            self._set_regret(entry, regret)
        entry.reward = reward
        del self._open[learner, ticket]
        self._advance(learner)

    def withdraw(self, learner: int, ticket: int) -> bool:
        """Strike an open play: the round did not happen. The newest ticket of a learner is given out again. Returns
        whether it was the newest of all rounds, after which everything is as before it."""
        entry = self.entry(learner, ticket)
        newest = self._rounds[-1] is entry
        del self._open[learner, ticket]
        entry.withdrawn = True
        self._queues[learner].remove(entry)
        if ticket == self._last_tickets[learner]:
            self._last_tickets[learner] -= 1
        if newest:
            self._rounds.pop()
        self._do.close(learner)
        self._uncount(learner)
        self._advance(learner)
        return newest

    def settle(self) -> None:
        """Bring the balanced bounds up to date with the pending plays; the cost is that of the new plays only."""
        if not self._stale:
            return
        for learner in self._recount:
            self._do.rewind(learner)
        for learner in self._stale:
            queue = self._queues[learner]
            first_new = len(queue)
            while first_new > 0 and not queue[first_new - 1].counted:
                first_new -= 1
            for position in range(first_new, len(queue)):
                entry = queue[position]
                self._do.play(learner, position + 1, entry.regret)
                entry.counted = True
        self._stale.clear()
        self._recount.clear()

    def _set_regret(self, entry: Entry, regret: float) -> None:
        entry.regret = regret
        if entry.counted:
            self._uncount(entry.learner)

    def _uncount(self, learner: int) -> None:
        if learner not in self._recount:  # else nothing was counted since
            for entry in self._queues[learner]:
                entry.counted = False
            self._stale.add(learner)
            self._recount.add(learner)

    def _advance(self, learner: int) -> None:
        rounds, queue, recount = self._rounds, self._queues[learner], False
        while rounds and (rounds[0].withdrawn or not isnan(rounds[0].reward)):
            entry = rounds.popleft()
            if not entry.withdrawn:
                self._do.pool(entry.reward)
                if self._do.close_round is not None:
                    self._do.close_round(entry.learner, entry.reward, entry.regret, entry.notes)
        while queue and not isnan(queue[0].reward):
            entry = queue.popleft()
            self._do.book(learner, entry.reward, entry.regret, entry.probability)
            # Resolved before it was ever counted as pending: start again from the new prefix.
            recount = recount or not entry.counted
        if queue and recount:
            self._uncount(learner)
        elif recount:  # nothing is pending: the prefix is all there is
            self._do.rewind(learner)
            self._stale.discard(learner)
            self._recount.discard(learner)

    def pending(self, learner: int) -> int:
        return len(self._queues[learner])

    def entry(self, learner: int, ticket: int) -> Entry:
        try:
            return self._open[learner, ticket]
        except KeyError:
            raise UnknownDecision(
                f"play {ticket} of learner {learner} is not open: never chosen, withdrawn, or its reward already booked"
            ) from None

    def state(self) -> dict[str, NDArray[Any]]:
        """The rounds beyond the pool's prefix as arrays, in order. They include every learner's unbooked plays, for a
        play that waits in its learner's queue waits for itself or for an earlier round."""
        entries = list(self._rounds)
        waiting = {id(entry) for queue in self._queues for entry in queue}
        kept = [entry.notes for entry in entries]
        notes = {"notes": np.array(kept, float).reshape(len(kept), self._n_notes)} if self._n_notes else {}
        return {
            **notes,
            "learners": np.array([entry.learner for entry in entries], np.int64),
            "tickets": np.array([entry.ticket for entry in entries], np.int64),
            "probabilities": np.array([entry.probability for entry in entries], float),
            "regrets": np.array([entry.regret for entry in entries], float),
            "rewards": np.array([entry.reward for entry in entries], float),
            "booked": np.array([id(entry) not in waiting for entry in entries], np.bool_),
            "withdrawn": np.array([entry.withdrawn for entry in entries], np.bool_),
            "last_tickets": np.array(self._last_tickets, np.int64),
        }

    def check_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Refuse a state that `state` cannot have returned."""
        n_rounds = state["learners"].size if "learners" in state else 0
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_COLUMNS, (n_rounds,))
        notes = {"notes": (n_rounds, self._n_notes)} if self._n_notes else {}
        check_shapes(state, shapes | notes | {"last_tickets": (len(self._queues),)})

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take on a state that `state` returned."""
        self._rounds.clear()
        self._open.clear()
        for queue in self._queues:
            queue.clear()
        self._last_tickets = [int(ticket) for ticket in state["last_tickets"]]
        columns = [state[name].tolist() for name in _COLUMNS]
        kept = state["notes"].tolist() if self._n_notes else [()] * len(columns[0])
        for learner, ticket, probability, regret, reward, booked, withdrawn, notes in zip(*columns, kept, strict=True):
            entry = Entry(learner, ticket, probability, regret, reward)
            entry.withdrawn, entry.notes = withdrawn, tuple(notes)
            self._rounds.append(entry)
            if not booked:
                self._queues[learner].append(entry)
            if isnan(reward) and not withdrawn:
                self._open[learner, ticket] = entry
        self._stale = set(range(len(self._queues)))
        self._recount = set(self._stale)


_COLUMNS = ("learners", "tickets", "probabilities", "regrets", "rewards", "booked", "withdrawn")
