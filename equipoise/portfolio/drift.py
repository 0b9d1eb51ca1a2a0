"""Drift in a portfolio: which plays are monitored, and what an alarm changes.

The mathematics is in `equipoise.drift`. Streams follow play order, so that late rewards cannot bias them. An alarm is
an event, `drift`. With `on_drift="restart"` the selector begins a new *epoch*: it forgets all plays, eliminated
learners return, and epoch e = 0, 1, ... has delta/((e + 1)(e + 2)), so that all epochs together spend delta. Plays that
were made before stay in their old epoch however late they are resolved: learners learn from them, the selector does
not.

The monitor keeps plays of its own besides the ledger of open decisions: a stream needs rewards in play order, so the
rewards of decisions that are closed already wait here for an earlier one that is open.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from equipoise import drift
from equipoise.drift import Alarm, Watch, law_of
from equipoise.drift_order import look_period, share
from equipoise.portfolio.pool import Pool, Selection
from equipoise.portfolio.tickets import Ticket, Tickets
from equipoise.selector import ComparesPairs, require
from equipoise.selector import Restarts as RestartsSelector
from equipoise.settings.units import DEFAULT_RANGE
from equipoise.types import Config

MAX_ARMS = 256  # further actions are not monitored
MAX_EXPERTS = 20  # pairs of more experts are not monitored


class Refuted(NamedTuple):
    """An alarm, and the first round after it."""

    round: int
    kind: str
    reason: str
    restarted: bool


class DriftMonitor:
    """Monitors the plays of a portfolio for drift, and begins new epochs of its selector."""

    def __init__(self, response: str, selection: Selection, pool: Pool, tickets: Tickets) -> None:
        self._response = response
        self._selection, self._pool, self._tickets = selection, pool, tickets
        self.epoch, self.epoch_since = 0, 1  # of the selector, and its first round
        self.refuted: Refuted | None = None  # the last alarm
        self.delta = selection.traits.delta  # of all epochs together
        self._fixed_contexts = selection.traits.contexts == "fixed"
        self.watch: Watch | None = None  # before the first round, and if nothing is monitored
        self._closed_rounds = 0  # in the sums of pairs when they were last checked
        self._fixed: dict[int, bool] = {}  # whether a learner is a fixed rule, once that was asked
        if response == "restart":
            require(selection.selector, RestartsSelector, "begin a new epoch, as on_drift is 'restart'")

    def begin_epoch(self) -> None:
        """Let the selector begin its epoch with its share of delta, if it may ever begin another."""
        if self._response == "restart":
            require(self._selection.selector, RestartsSelector, "begin a new epoch").restart(
                share(self.delta, self.epoch)
            )
            self._selection.refresh()

    @property
    def one_law(self) -> tuple[int, int]:
        """The first round since which statements assume one law, and the last in which that was refuted, or 0."""
        found = self.refuted
        if found is None:
            return 1, 0
        return found.round if found.restarted else self.epoch_since, found.round - 1

    @property
    def changed_settings(self) -> frozenset[str]:
        """The settings of the selector that restarts have changed, so that they are not those it was given."""
        return frozenset({"delta", *self._selection.traits.restart_settings} if self.epoch else ())

    def in_epoch(self, ticket: Ticket) -> bool:
        """Whether the selector still knows the play of a ticket."""
        return ticket.epoch == self.epoch

    def open_play(self, ticket: Ticket, reward_range: tuple[float, float] | None) -> None:
        """Monitor a play that was just decided."""
        ticket.epoch = self.epoch
        choice = ticket.choice
        if self._response == "ignore" or choice is None or not choice.evidence:
            return
        watch = self.watch
        if watch is None:
            low, high = reward_range or DEFAULT_RANGE
            contexts = "fixed" if self._fixed_contexts else "random"
            law = law_of(high - low, self._selection.traits.noise, contexts)
            watch = self.watch = Watch(self.delta, law, since=ticket.round)
        i, action = choice.learner, ticket.action
        if ticket.context is not None and not self._fixed_contexts:
            watch.contexts_change = True  # after all; a new begin after every such round would spend delta again
            watch.arms.clear()
        arm = action if type(action) is int and not watch.contexts_change else None
        if arm is not None and arm not in watch.arms and len(watch.arms) >= MAX_ARMS:
            arm = None
        fixed = self._fixed.get(i)
        if fixed is None:
            fixed = self._fixed[i] = self._is_fixed(i)
        watch.open_play(ticket.round, i, arm, nan if choice.greedy else ticket.regret, fixed)

    def close_play(self, ticket: Ticket, reward: float) -> Config | None:
        """Count a resolved play, with nan for a withdrawn one; return the data of an alarm if a null is refuted."""
        watch = self.watch
        if watch is None or ticket.epoch != self.epoch:
            return None
        alarm = None
        if watch.close_play(ticket.round, reward):
            fixed = [i for i in range(len(self._pool)) if self._is_fixed(i)]
            alarm = watch.look(fixed, self._selection.selector.active, self.bounds(), self._pool.names)
        pairs, traits = self._selection.can.pairs, self._selection.traits
        if alarm is None and pairs is not None and traits.noise is None:  # lemma 2 presumes bounded rewards
            closed, period = pairs.pair_rounds(), look_period(len(traits.experts))
            if closed // period > self._closed_rounds // period:
                self._closed_rounds = closed
                alarm = self._order_alarm(watch, pairs)
        return None if alarm is None else self._respond(alarm, watch)

    def bounds(self) -> dict[int, float]:
        """Return the candidate regret bounds of the selector at the plays that count; empty if it has none."""
        known = self._selection.can.drift
        return {} if known is None else dict(known.drift_evidence())

    def _is_fixed(self, i: int) -> bool:
        learner = self._pool.members[i].learner
        return learner is not None and not learner.can.learns

    def _order_alarm(self, watch: Watch, pairs: ComparesPairs) -> Alarm | None:
        experts, oldest = self._selection.traits.experts, self._tickets.oldest()
        fixed = [e for e, (i, _) in enumerate(experts) if self._is_fixed(i)]
        if len(fixed) < 2 or len(experts) > MAX_EXPERTS:
            return None
        if watch.pairs is None and oldest is not None and oldest.round < watch.since:
            return None  # the sums will still get a round from before
        found = watch.look_at_pairs(pairs.pair_sums(), len(experts), fixed)
        if found is None:
            return None
        first, second = (self._pool.members[experts[e][0]].name for e in found)
        return Alarm(
            drift.ORDER,
            f"one order of {first} and {second} since round {watch.since:,}",
            "each was the better one in some rounds",
            watch.delta * drift.SHARE,
        )

    def _respond(self, alarm: Alarm, watch: Watch) -> Config:
        """Begin a new watch, and a new epoch of the selector if that is wanted; return the data of the event."""
        round_, since = self._tickets.round, watch.since
        restarts = self._response == "restart"
        self.refuted = Refuted(round_ + 1, alarm.kind, alarm.reason, restarts)
        self.watch = watch.next(round_ + 1)
        if restarts:
            self.epoch, self.epoch_since, self._closed_rounds = self.epoch + 1, round_ + 1, 0
            self.begin_epoch()
        return {
            "alarm": alarm.kind,
            "reason": alarm.reason,
            "since": since,
            "share": alarm.share,
            "restart": restarts,
            "epoch": self.epoch,
        }

    def state(self) -> Config:
        return {
            "epoch": (self.epoch, self.epoch_since),
            "delta": self.delta,
            "fixed_contexts": self._fixed_contexts,
            "closed_rounds": self._closed_rounds,
            "refuted": None if self.refuted is None else tuple(self.refuted),
            "watch": None if self.watch is None else self.watch.state(),
        }

    def restore(self, state: Config) -> None:
        (self.epoch, self.epoch_since), self.delta = state["epoch"], state["delta"]
        self._fixed_contexts, self._closed_rounds = state["fixed_contexts"], state["closed_rounds"]
        self.refuted = None if state["refuted"] is None else Refuted(*state["refuted"])
        self.watch = None if state["watch"] is None else Watch.from_state(state["watch"])
