"""A portfolio that watches for drift: which plays are watched, and what an alarm changes.

The mathematics is in `equipoise.drift`. Streams follow play order, so that late rewards cannot bias them. An alarm is
an event, `drift`. With `on_drift="restart"` the selector begins a new *epoch*: it forgets all plays, eliminated
learners return, and epoch e = 0, 1, ... has delta/((e + 1)(e + 2)), so that all epochs together spend delta. Plays that
were made before stay in their old epoch however late they are resolved: learners learn from them, the selector does
not.
"""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple

from equipoise import drift
from equipoise.drift import Alarm, Watch, law_of
from equipoise.drift_order import PairSums, look_period, share
from equipoise.errors import InvalidArgument
from equipoise.portfolio.ids import ID
from equipoise.portfolio.members import Member
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Selector, SelectorTraits, traits_of
from equipoise.settings.units import DEFAULT_RANGE
from equipoise.types import Config

RESPONSES = ("warn", "restart", "ignore")
MAX_ARMS = 256  # further actions are not watched
MAX_EXPERTS = 20  # pairs of more experts are not watched


class Drift:
    """What a portfolio knows about drift."""

    def __init__(self, response: str, selector: Any) -> None:
        self.response = response
        self.epoch, self.epoch_since = 0, 1  # of the selector, and its first round
        self.refuted: Refuted | None = None  # the last alarm that says that the law changed
        self.orders: list[str] = []  # orders of learners that were refuted, in words
        self.delta = float(getattr(selector, "delta", 0.05))
        self.fixed = getattr(selector, "contexts", "random") == "fixed"
        self.watch: Watch | None = None  # before the first round, and if nothing is watched
        self.closed_rounds = 0  # in the sums of pairs when they were last looked at
        bounded = getattr(selector, "noise", None) is None  # as lemma 2 presumes
        self.pairs = bounded and hasattr(selector, "experts") and hasattr(selector.kernel_state, "credit")
        self.frozen: dict[int, bool] = {}  # whether a learner learns nothing, once that was asked
        if response == "restart" and not (hasattr(selector, "restart") and hasattr(selector, "delta")):
            raise InvalidArgument(
                f"on_drift is 'restart', but {type(selector).__name__} has no restart(delta), which begins a new epoch"
            )

    def epoch_delta(self) -> float:
        """The delta of the selector in this epoch."""
        return share(self.delta, self.epoch)

    @property
    def one_law(self) -> tuple[int, int]:
        """The first round since which statements assume one law, and the last in which that was refuted, or 0."""
        found = self.refuted
        if found is None:
            return 1, 0
        return found.round if found.restarted else self.epoch_since, found.round - 1

    def state(self) -> Config:
        return {
            "epoch": (self.epoch, self.epoch_since),
            "delta": self.delta,
            "fixed": self.fixed,
            "closed_rounds": self.closed_rounds,
            "refuted": None if self.refuted is None else tuple(self.refuted),
            "orders": list(self.orders),
            "watch": None if self.watch is None else self.watch.state(),
        }

    def restore(self, state: Config) -> None:
        (self.epoch, self.epoch_since), self.delta, self.fixed = state["epoch"], state["delta"], state["fixed"]
        self.closed_rounds, self.orders = state["closed_rounds"], list(state["orders"])
        self.refuted = None if state["refuted"] is None else Refuted(*state["refuted"])
        self.watch = None if state["watch"] is None else Watch.from_state(state["watch"])


class Refuted(NamedTuple):
    """An alarm, and the first round after it."""

    round: int
    kind: str
    reason: str
    restarted: bool


class Drifting:
    """The part of a portfolio that watches for drift."""

    _drift: Drift
    _selector: Selector
    _members: list[Member]
    _open: dict[ID, Ticket]
    _traits: SelectorTraits
    _round: int
    reward_range: tuple[float, float] | None

    def _watch_play(self, ticket: Ticket) -> None:
        """Watch a play that was just decided."""
        known = self._drift
        ticket.epoch = known.epoch
        choice = ticket.choice
        if known.response == "ignore" or choice is None or not choice.evidence:
            return
        watch = known.watch
        if watch is None:
            watch = known.watch = self._open_watch(ticket)
        i, action = choice.learner, ticket.action
        if ticket.context is not None and not known.fixed:
            watch.contexts_change = True  # after all; a new begin after every such round would spend delta again
            watch.arms.clear()
        arm = action if type(action) is int and not watch.contexts_change else None
        if arm is not None and arm not in watch.arms and len(watch.arms) >= MAX_ARMS:
            arm = None
        frozen = known.frozen.get(i)
        if frozen is None:
            frozen = known.frozen[i] = self._is_frozen(i)
        watch.open_play(ticket.round, i, arm, nan if choice.greedy else ticket.regret, frozen)

    def _open_watch(self, ticket: Ticket) -> Watch:
        low, high = self.reward_range or DEFAULT_RANGE
        contexts = "fixed" if self._drift.fixed else "random"
        return Watch(self._drift.delta, law_of(high - low, self._traits.noise, contexts), since=ticket.round)

    def _is_frozen(self, i: int) -> bool:
        learner = self._members[i].learner
        return learner is not None and getattr(learner.learner, "learns", True) is False

    def _watch_reward(self, ticket: Ticket, reward: float) -> Alarm | None:
        """Count a resolved play, with nan for a withdrawn one; returns the alarm if a null is refuted."""
        watch = self._drift.watch
        if watch is None or ticket.epoch != self._drift.epoch:
            return None
        alarm = None
        if watch.close_play(ticket.round, reward):
            frozen = [i for i in range(len(self._members)) if self._is_frozen(i)]
            names = [member.name for member in self._members]
            alarm = watch.look(frozen, self._bound_keepers(), self._candidate_bounds(), names)
        if alarm is None and self._drift.pairs:
            selector: Any = self._selector
            closed, period = selector.kernel_state.credit.spread[0].closed, look_period(len(selector.experts))
            if closed // period > self._drift.closed_rounds // period:
                self._drift.closed_rounds = closed
                alarm = self._order_alarm(watch)
        return alarm

    def _bound_keepers(self) -> tuple[int, ...]:
        """The learners one of which is presumed to keep its bound."""
        trusted = getattr(self._selector, "trusted", None)
        return tuple(self._selector.active) if trusted is None else (trusted,)

    @property
    def _has_bounds(self) -> bool:
        """Whether the selector tests candidate bounds."""
        return bool(getattr(self._selector, "_bounds", None))

    def _candidate_bounds(self) -> dict[int, float]:
        """Regret bounds at the plays that count, of learners with a candidate bound that is no sum of widths."""
        selector: Any = self._selector
        if not self._has_bounds:
            return {}
        accounts = selector.evidence.accounts
        return {i: accounts[i].booked_bound for i in range(len(accounts)) if i not in selector.observed}

    def _order_alarm(self, watch: Watch) -> Alarm | None:
        selector: Any = self._selector
        experts, oldest = selector.experts, next(iter(self._open.values()), None)
        if not 2 <= len(experts) <= MAX_EXPERTS:
            return None
        if watch.pairs is None and oldest is not None and oldest.round < watch.since:
            return None  # the sums will still get a round from before
        found = watch.look_at_pairs(pair_sums(selector.kernel_state.credit), len(experts))
        if found is None:
            return None
        words = [
            f"{'the greedy twin of ' if greedy else ''}{self._members[i].name}"
            for i, greedy in (experts[e] for e in found)
        ]
        both_fixed = all(self._is_frozen(experts[e][0]) for e in found)
        return Alarm(
            drift.ORDER,
            f"one order of {words[0]} and {words[1]} since round {watch.since:,}",
            "each was the better one in some rounds",
            watch.delta * drift.SHARE,
            both_fixed,
        )

    def _respond(self, alarm: Alarm) -> Config:
        """Begin a new watch, and a new epoch of the selector if that is wanted; returns the data of the event."""
        known, round_ = self._drift, self._round
        restarts = alarm.acts and known.response == "restart"
        assert known.watch is not None
        since = known.watch.since
        if alarm.acts:
            known.refuted = Refuted(round_ + 1, alarm.kind, alarm.reason, restarts)
            known.watch = known.watch.next(round_ + 1)
        elif known.watch.pairs is not None:
            known.orders = [*known.orders, alarm.reason][-10:]
            known.watch.pairs = None  # look for the next change of order
        if restarts:
            known.epoch, known.epoch_since, known.closed_rounds = known.epoch + 1, round_ + 1, 0
            begin_epoch(self._selector, known)
            self._traits = traits_of(self._selector)
        return {
            "alarm": alarm.kind,
            "reason": alarm.reason,
            "since": since,
            "share": alarm.share,
            "restart": restarts,
            "epoch": known.epoch,
        }


def pair_sums(tables: Any) -> PairSums:
    """The sums of Y and Y^2 of all pairs; the row of a pair has only the rounds played as its first expert."""
    n, rows = len(tables.experts), tables.pairs
    both = [(rows[j * n + k], rows[k * n + j]) for j in range(n) for k in range(n)]
    gains = [forth.gain - back.gain for forth, back in both]
    return PairSums(tables.spread[0].closed, gains, [forth.gain_squares + back.gain_squares for forth, back in both])


def begin_epoch(selector: Any, known: Drift) -> None:
    """Let the selector begin its epoch, with the delta of that, if it may ever begin another."""
    if known.response == "restart":
        selector.restart(known.epoch_delta())


def changed_settings(portfolio: Drifting) -> frozenset[str]:
    """The settings of the selector that restarts have changed, so that they are not those it was given."""
    if portfolio._drift.epoch == 0:
        return frozenset()
    return frozenset({"delta", *getattr(portfolio._selector, "restart_settings", ())})


def sentences(known: Drift, names: list[str], *, bounded: bool) -> list[str]:
    """What was refuted, and what was seen of falling rewards; `bounded` if the selector has candidate bounds."""
    lines, found = [], known.refuted
    if found is not None:
        lines.append(f"Drift, seen in round {found.round - 1:,} ({found.kind}): {found.reason}.")
        if found.restarted and bounded:
            lines.append("Learners have learned before that round, so that their bounds are assumptions since then.")
    lines += [f"{reason}. Learners that learn may overtake each other under one law." for reason in known.orders[-1:]]
    if known.watch is not None:
        for i, stream in known.watch.learners.items():
            fall = stream.fall()
            if fall is not None:
                lines.append(
                    f"{names[i]} has earned less per play by at least {fall[0]:.3g} after its first {fall[1]:,} "
                    "watched plays. That is no evidence of drift: learners that explore or lock in do this too."
                )
    return lines
