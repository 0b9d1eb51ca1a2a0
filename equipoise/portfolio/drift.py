"""Drift in a portfolio: alarms that refute a named null hypothesis about the rewards, and what an alarm changes.

A drop in a learner's mean reward is not evidence that the law of the rewards changed: a learner that explores earns
less. An alarm is the refutation of a null hypothesis, on *windows*: the plays (c_j, n] of a stream after its checkpoint
c_j = j `STEP`, j = 0, 1, ... With U and n the sum and the number of the rewards of a window and D its radius, all
intervals (U -+ D)/n of a stream hold at once with probability 1 - 2 alpha, if window j has the share
alpha_j = alpha/((j + 1)(j + 2)) on either side: the radius is uniform in n, and the windows are countably many, fixed
in advance. So windows can be dropped, and checked at any interval. A play whose reward does not come holds up the
windows that contain it; when too many rewards wait behind it, these windows are dropped, and later ones continue.

- "arms" (contexts do not change, and no substitute has acted): the intervals of one action have no point in common.
  Null: it has one mean reward.
- "frozen policy": the same of a learner that learns nothing. Null: contexts and rewards have one law.
- "bound": LB > UB_i for every active learner i. LB is the highest lower end of any window of
  any learner, UB_i the least (U + G + D)/n of the windows of i, G what i's own regret bound grew by in the window.
  Null: one law, and one of these learners keeps its bound. It is monitored while all active learners learn in the order
  of their plays: if zeros come later than ones, a learner that learns at once believes its own widths wrongly.
- "order" (selectors that credit agreement): by lemma 2 of docs/counterfactual-balancing.md the proposals of j were
  better than those of k in one window and worse in another, for learners j and k that learn nothing. Null: one law. A
  learner that learns may overtake another under one law.

Each null is refuted wrongly with probability at most its share, delta/4. The s-th stream of a null has
1/((s + 1)(s + 2)) of that, so that streams may be added at any time.

Streams follow play order, so that late rewards cannot bias them. An alarm is an event, `drift`. With
`on_drift="restart"` the selector begins a new *epoch*: it forgets all plays, eliminated learners return, and epoch e =
0, 1, ... has delta/((e + 1)(e + 2)), so that all epochs together spend delta. Plays that were made before stay in their
old epoch however late they are resolved: learners learn from them, the selector does not. A change of the deadline or
of the default reward begins an epoch too, whatever `on_drift` says: it changes what the reward of a play is.

The monitor keeps plays of its own besides the ledger of open decisions: a stream needs rewards in play order, so the
rewards of decisions that are closed already wait here for an earlier one that is open.

Reference: docs/drift.md. Radii: Howard, Ramdas, McAuliffe and Sekhon (2021), eq. (11), see `equipoise.confidence`.
Symbols: U total, n plays, G width, D `radius`, c_j start, alpha_j `Window.level` = ln(5.2/alpha_j), v variance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from math import inf, isnan, log, nan, sqrt
from typing import NamedTuple

from equipoise.drift_order import Pairs, PairSums, check_period, share, thinned
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, STITCHED_WEIGHT
from equipoise.portfolio.held import HeldReward
from equipoise.portfolio.pool import Pool, Selection
from equipoise.portfolio.tickets import Ticket, Tickets
from equipoise.portfolio.updates import LearnerUpdates
from equipoise.selector import ComparesPairs, require
from equipoise.selector import Restarts as RestartsSelector
from equipoise.settings.units import DEFAULT_RANGE
from equipoise.types import Config, Later, Plain

STEP = 64  # plays between two checkpoints
CHECK_EVERY, CHECK_SHARE = 16, 1 / 64  # plays between two checks of the windows, and as a share of all plays if larger
MAX_WAITING = 4_096  # rewards of plays behind one without a reward, after which a stream continues without it
ARMS, FROZEN, BOUND, ORDER = "arms", "frozen policy", "bound", "order"
SHARE = 1 / 4  # of delta, for each null
MAX_ARMS = 256  # further actions are not monitored
MAX_EXPERTS = 20  # pairs of more experts are not monitored


class Window(NamedTuple):
    """The plays of a stream after a checkpoint; sums are those of the stream at the checkpoint."""

    start: int
    level: float
    total: float
    width: float

    def unit_radius(self, n: int) -> float:
        """D(n) for v = 1: the stitched boundary."""
        return STITCHED_FACTOR * sqrt(n * (log(log(2.0 * n)) + STITCHED_WEIGHT * self.level))


class Stream:
    """The resolved plays of one action or learner, in play order, over all windows that are kept."""

    def __init__(self, alpha: float, lower_variance: float, upper_variance: float) -> None:
        self.alpha = alpha  # of one side
        self.lower_variance, self.upper_variance = lower_variance, upper_variance
        self.plays, self.total, self.width = 0, 0.0, 0.0
        self.highest_lower, self.least_upper = -inf, inf
        self.next_check = CHECK_EVERY  # in plays
        self.skipped = False  # whether plays were passed over, so that no bound at all plays is known
        self.windows = [self._window(0)]
        self.queue: deque[Play] = deque()  # plays that are not in the sums yet
        self.held_up = 0  # those of them with a reward
        self.alone = (self,)  # the streams of a play that no other stream has

    def _window(self, j: int) -> Window:
        return Window(self.plays, log(STITCHED_RATIO / share(self.alpha, j)), self.total, self.width)

    def advance(self) -> None:
        """Count the plays that are resolved, up to the first that is not."""
        queue = self.queue
        while queue:
            reward = queue[0].reward
            if reward is None:
                break
            width = queue.popleft().width
            self.held_up -= 1
            if reward == reward:  # a play that was withdrawn has nan
                self.plays += 1
                self.total += reward
                self.width += width
                if self.plays % STEP == 0:
                    self._open_window()

    def skip(self) -> list[Play]:
        """Drop all windows so far with their plays, up to the next checkpoint; returns the plays without a reward."""
        queue = self.queue
        given_up: list[Play] = []
        while queue and (not given_up or self.plays % STEP):
            play = queue.popleft()
            self.plays += 1
            self.width += play.width
            if play.reward is None:
                given_up.append(play)
            else:
                self.held_up -= 1
        self.skipped = True
        self.windows = [self._window(self.plays // STEP)]
        return given_up

    def _open_window(self) -> None:
        windows = self.windows
        windows.append(self._window(self.plays // STEP))
        thinned(windows, [self.plays - window.start + STEP for window in windows])

    def check(self, bound: float | None = None, *, of_action: bool = False) -> None:
        """Update both ends with all windows; `bound` is a regret bound at all plays to date, instead of widths.

        The mean reward of an action has neither, whichever learners take it.
        """
        self.next_check = self.plays + max(CHECK_EVERY, int(self.plays * CHECK_SHARE))
        below, above = sqrt(self.lower_variance), sqrt(self.upper_variance)
        for window in self.windows:
            n = self.plays - window.start
            if n > 0:
                total, radius = self.total - window.total, window.unit_radius(n)
                lower = (total - below * radius) / n
                if lower > self.highest_lower:
                    self.highest_lower = lower
                grown = self.width - window.width if bound is None else inf if self.skipped else bound
                if of_action:
                    grown = 0.0
                upper = (total + grown + above * radius) / n
                if upper < self.least_upper:
                    self.least_upper = upper

    def drop(self) -> tuple[float, int] | None:
        """By how much less per play was earned after a checkpoint, at least, which says nothing about why; or None."""
        first, best, deviation = self.windows[0], (0.0, 0), sqrt(self.lower_variance)
        for window in self.windows[1:]:
            before, after = window.start - first.start, self.plays - window.start
            if before > 0 and after > 0:
                early = window.total - first.total - deviation * first.unit_radius(before)
                late = self.total - window.total + deviation * window.unit_radius(after)
                best = max(best, (early / before - late / after, window.start))
        return best if best[0] > 0.0 else None

    def frozen(self) -> Config:
        """Return the state as it is now, with the rounds of the queue made later."""
        return {
            "settings": (self.alpha, self.lower_variance, self.upper_variance),
            "sums": (self.plays, self.total, self.width, self.highest_lower, self.least_upper, self.next_check),
            "skipped": self.skipped,
            "windows": [tuple(window) for window in self.windows],
            "queue": Later(partial(_rounds_of, list(self.queue))),
        }

    @classmethod
    def from_state(cls, state: Config, plays: dict[int, Play]) -> Stream:
        stream = cls(*state["settings"])
        sums = state["sums"]
        stream.plays, stream.next_check, stream.skipped = int(sums[0]), int(sums[5]), bool(state["skipped"])
        stream.total, stream.width, stream.highest_lower, stream.least_upper = sums[1:5]
        stream.windows = [Window(int(start), *rest) for start, *rest in state["windows"]]
        stream.queue = deque(plays[round_] for round_ in state["queue"])
        stream.held_up = sum(play.reward is not None for play in stream.queue)
        return stream


def _rounds_of(plays: Iterable[Play]) -> list[int]:
    return [play.round for play in plays]


class Play:
    """A play in the queues of its streams. `reward` is None until it is resolved, and nan if it was withdrawn."""

    __slots__ = ("learner", "reward", "round", "streams", "width")

    def __init__(self, round_: int, learner: int, width: float, streams: tuple[Plain, ...]) -> None:
        self.round, self.learner, self.width, self.streams = round_, learner, width, streams
        self.reward: float | None = None


class Alarm(NamedTuple):
    kind: str  # one of ARMS, FROZEN, BOUND, ORDER
    null: str  # in words
    since: int  # the first round that it is about
    evidence: str  # in words
    share: float  # the probability with which this null is refuted wrongly, at most

    @property
    def reason(self) -> str:
        return f"the rewards since round {self.since:,} refute {self.null}: {self.evidence}"


class Law(NamedTuple):
    """What is known of the rewards: the sub-Gaussian factors of a play, and the width of the range."""

    own_variance: float  # of a reward around its expectation given the past
    regret_variance: float  # of n mu* - U - Reg, see `equipoise.confidence`
    width: float


def law_of(width: float, noise: float | None, contexts: str) -> Law:
    """Rewards in an interval, or sub-Gaussian around expectations in one; contexts "fixed" or "random"."""
    context_part = 0.0 if contexts == "fixed" else width**2 / 4
    if noise is None:
        return Law(width**2 / 4, context_part + width**2 / 4, width)
    return Law(context_part + noise**2, context_part + noise**2, width)


class RewardMonitor:
    """Monitors the plays of a portfolio for drift, since round `since`; `epoch` counts the alarms before."""

    def __init__(self, delta: float, law: Law, *, since: int = 1, epoch: int = 0) -> None:
        self.total_delta, self.law, self.since, self.epoch = delta, law, since, epoch
        self.delta = share(delta, epoch)
        self.arms: dict[int, Stream] = {}
        self.learners: dict[int, Stream] = {}
        self.open: dict[int, Play] = {}  # plays without a reward, by round
        self.pairs: Pairs | None = None
        self.contexts_change = False  # then no arm is monitored any more

    def next(self, since: int) -> RewardMonitor:
        """The monitor after an alarm; plays before it stay with the old one."""
        monitor = RewardMonitor(self.total_delta, self.law, since=since, epoch=self.epoch + 1)
        monitor.contexts_change = self.contexts_change
        return monitor

    def _stream(self, s: int, upper_variance: float) -> Stream:
        return Stream(share(self.delta * SHARE, s) / 2, self.law.own_variance, upper_variance)

    def open_play(self, round_: int, learner: int, arm: int | None, width: float, frozen: bool) -> None:
        """Queue a play; `arm` is its action if contexts do not change, `width` what it adds to the learner's bound."""
        stream = self.learners.get(learner)
        if stream is None:
            variance = self.law.own_variance if frozen else self.law.regret_variance
            stream = self.learners[learner] = self._stream(learner, variance)
        if frozen:
            width = 0.0
        elif isnan(width):
            width = inf
        streams: tuple[Stream, ...] = stream.alone
        if arm is not None:
            own = self.arms.get(arm)
            if own is None:
                own = self.arms[arm] = self._stream(len(self.arms), self.law.own_variance)
            streams = (stream, own)
        play = self.open[round_] = Play(round_, learner, width, streams)
        stream.queue.append(play)
        if arm is not None:
            streams[1].queue.append(play)

    def forget_learner(self, learner: int) -> None:
        """Monitor a fixed rule no more, because substitutes act for it."""
        stream = self.learners.pop(learner, None)
        if stream is not None:
            self._give_up(stream, stream.queue)

    def close_play(self, round_: int, reward: float) -> bool:
        """Resolve a play, with nan if it was withdrawn; returns whether it is time for a check."""
        play = self.open.pop(round_, None)
        if play is None:
            return False
        play.reward = reward
        due = False
        for stream in play.streams:
            stream.held_up += 1
            if len(stream.queue) >= CHECK_EVERY:
                stream.advance()
                if stream.plays >= stream.next_check:
                    due = True
                elif stream.held_up > MAX_WAITING:
                    self._give_up(stream, stream.skip())
        return due

    def _give_up(self, stream: Stream, plays: Iterable[Play]) -> None:
        """Let a stream wait for plays no more, and forget those that no other stream waits for."""
        for play in plays:
            play.streams = tuple(other for other in play.streams if other is not stream)
            if not play.streams:
                self.open.pop(play.round, None)

    def check(
        self, frozen: Iterable[int], rivals: Collection[int], bounds: dict[int, float], names: Sequence[str]
    ) -> Alarm | None:
        """Return the first null that is refuted, if any.

        `rivals` are the learners of which one keeps its bound by the null BOUND, none if it is not monitored; `bounds`
        are regret bounds that no widths add up to.
        """
        for arm, stream in self.arms.items():
            if stream.plays >= stream.next_check:
                stream.check(of_action=True)
                if stream.highest_lower > stream.least_upper:
                    return self._alarm(ARMS, f"one mean reward of action {arm}", stream)
        checked, fixed = False, set(frozen)
        for i, stream in self.learners.items():
            if stream.plays >= stream.next_check:
                checked = True
                stream.check(bounds.get(i))
                if i in fixed and stream.highest_lower > stream.least_upper:
                    return self._alarm(FROZEN, f"one mean reward of {names[i]}", stream)
        return self._bound_alarm(fixed, rivals, names) if checked else None

    def _bound_alarm(self, fixed: set[int], rivals: Collection[int], names: Sequence[str]) -> Alarm | None:
        lower = max(stream.highest_lower for stream in self.learners.values())
        uppers = [inf if i in fixed or i not in self.learners else self.learners[i].least_upper for i in rivals]
        upper = max(uppers, default=inf)
        if lower <= upper:
            return None
        *others, last = (names[i] for i in rivals)
        keeper = f"one of {', '.join(others)} and {last}" if others else last
        return Alarm(
            BOUND,
            f"one law, or that {keeper} keeps its bound",
            self.since,
            f"the best action is worth at least {lower:.4g} by some plays, at most {upper:.4g} by the bounds of all",
            self.delta * SHARE,
        )

    def _alarm(self, kind: str, null: str, stream: Stream) -> Alarm:
        low, high = stream.least_upper, stream.highest_lower
        evidence = f"it was at most {low:.4g} in some plays, at least {high:.4g} in others"
        return Alarm(kind, null, self.since, evidence, self.delta * SHARE)

    def check_pairs(self, sums: PairSums, n_experts: int, fixed: Collection[int]) -> tuple[int, int] | None:
        """A pair of `fixed` experts without one order; None if there is none. The first check only begins."""
        if self.pairs is None:
            self.pairs = Pairs(self.delta * SHARE, n_experts, self.law.width, sums)
            return None
        if self.pairs.n_experts != n_experts:
            self.pairs.grow(n_experts)
        return self.pairs.check(sums, fixed)

    def frozen(self) -> Config:
        """Return the state as it is now, with the plays made later: of those that are not open, nothing changes."""
        queues, opened = [list(stream.queue) for stream in self.streams()], list(self.open)
        return {
            "settings": (self.total_delta, tuple(self.law), self.since, self.epoch),
            "arms": [(arm, stream.frozen()) for arm, stream in self.arms.items()],
            "learners": [(i, stream.frozen()) for i, stream in self.learners.items()],
            "plays": Later(partial(_plays, queues, opened)),
            "open": Later(partial(_open_rounds, queues, opened)),
            "pairs": None if self.pairs is None else self.pairs.state(),
            "contexts_change": self.contexts_change,
        }

    def streams(self) -> Iterable[Stream]:
        return (*self.arms.values(), *self.learners.values())

    @classmethod
    def from_state(cls, state: Config) -> RewardMonitor:
        delta, law, since, epoch = state["settings"]
        monitor = cls(delta, Law(*law), since=since, epoch=epoch)
        plays, opened = {}, set(state["open"])
        for round_, learner, width, reward in state["plays"]:
            play = plays[round_] = Play(round_, learner, width, ())
            play.reward = None if round_ in opened else reward
        monitor.arms = {arm: Stream.from_state(row, plays) for arm, row in state["arms"]}
        monitor.learners = {i: Stream.from_state(row, plays) for i, row in state["learners"]}
        for stream in monitor.streams():
            for play in stream.queue:
                play.streams = (*play.streams, stream)
        monitor.open = {round_: plays[round_] for round_ in state["open"]}
        monitor.pairs = None if state["pairs"] is None else Pairs.from_state(state["pairs"])
        monitor.contexts_change = bool(state["contexts_change"])
        return monitor


def _plays(queues: Iterable[Iterable[Play]], rounds: Iterable[int]) -> list[Plain]:
    """Return the rows of the plays in some queues, open in these rounds."""
    opened = frozenset(rounds)
    plays = {play.round: play for queue in queues for play in queue}
    return [
        (play.round, play.learner, play.width, nan if play.round in opened else play.reward) for play in plays.values()
    ]


def _open_rounds(queues: Iterable[Iterable[Play]], rounds: Iterable[int]) -> list[int]:
    """Return the rounds of the open plays; one that no stream waits for any more is forgotten."""
    opened = frozenset(rounds)
    return sorted({play.round for queue in queues for play in queue if play.round in opened})


class Refuted(NamedTuple):
    """An alarm, and the first round after it."""

    round: int
    kind: str
    reason: str
    restarted: bool
    null: str = ""


class DriftMonitor:
    """Monitors the plays of a portfolio for drift, and begins new epochs of its selector."""

    def __init__(
        self, response: str, selection: Selection, pool: Pool, tickets: Tickets, updates: LearnerUpdates
    ) -> None:
        self._response = response
        self._selection, self._pool, self._tickets, self._updates = selection, pool, tickets, updates
        self.epoch, self.epoch_since = 0, 1  # of the selector, and its first round
        self.refuted: Refuted | None = None  # the last alarm
        self.delta = selection.traits.delta  # of all epochs together
        self._fixed_contexts = selection.traits.contexts == "fixed"
        self.monitor: RewardMonitor | None = None  # before the first round, and if nothing is monitored
        self._closed_rounds = 0  # in the sums of pairs when they were last checked
        if response == "restart":
            require(selection.selector, RestartsSelector, "begin a new epoch, as on_drift is 'restart'")

    def begin_epoch(self) -> None:
        """Let the selector begin its epoch with its share of delta, if it may ever begin another."""
        if self._response == "restart":
            self._restart()

    def _restart(self) -> None:
        require(self._selection.selector, RestartsSelector, "begin a new epoch").restart(share(self.delta, self.epoch))
        self._selection.refresh()

    def check_new_law(self) -> None:
        """Raise an error if the selector cannot begin a new law."""
        if self._tickets.round:
            require(
                self._selection.selector, RestartsSelector, "change deadline or default_reward after the first round"
            )

    def begin_law(self) -> int:
        """Begin an epoch, as rewards mean something else from now on; return its first round, 1 if none is over.

        Without restarts after drift the first epoch has spent delta. Epoch e = 1, 2, ... has delta/((e + 1)(e + 2)), so
        all epochs together spend at most 1.5 delta.
        """
        since = self._tickets.round + 1
        if since > 1:
            self.refuted = None  # of rewards that do not count any more
            self.monitor = None if self.monitor is None else self.monitor.next(since)
            self._begin_epoch(since)
        return since

    def _begin_epoch(self, since: int) -> None:
        self.epoch, self.epoch_since, self._closed_rounds = self.epoch + 1, since, 0
        self._restart()

    @property
    def one_law(self) -> Config:
        """What certificates state: the first round of one law, and the round and the null of the last alarm."""
        found, since = self.refuted, {"law_since": self.epoch_since}
        return since if found is None else {**since, "law_refuted_at": found.round - 1, "law_refuted": found.null}

    @property
    def changed_settings(self) -> frozenset[str]:
        """The settings of the selector that restarts have changed, so that they are not those it was given."""
        return frozenset({"delta", *self._selection.traits.restart_settings} if self.epoch else ())

    def in_epoch(self, play: Ticket | HeldReward) -> bool:
        """Whether the selector still knows a play."""
        return play.epoch == self.epoch

    def open_play(self, ticket: Ticket, reward_range: tuple[float, float] | None, *, monitored: bool = True) -> None:
        """Monitor a play that was just decided."""
        ticket.epoch = self.epoch
        choice = ticket.choice
        if self._response == "ignore" or choice is None or not monitored:
            return
        monitor = self.monitor
        if monitor is None:
            low, high = reward_range or DEFAULT_RANGE
            contexts = "fixed" if self._fixed_contexts else "random"
            law = law_of(high - low, self._selection.traits.noise, contexts)
            monitor = self.monitor = RewardMonitor(self.delta, law, since=ticket.round)
        i, action = choice.learner, ticket.action
        # Who can act may depend on what learners do not see, so that an action is taken for some visitors only.
        if (ticket.context is not None or ticket.substituted) and not self._fixed_contexts:
            monitor.contexts_change = True  # after all; a new begin after every such round would spend delta again
            monitor.arms.clear()
        arm = action if type(action) is int and not monitor.contexts_change else None
        if arm is not None and arm not in monitor.arms and len(monitor.arms) >= MAX_ARMS:
            arm = None
        fixed = self._is_fixed(i)
        if not fixed and self._is_rule(i):
            monitor.forget_learner(i)
            return
        monitor.open_play(ticket.round, i, arm, nan if choice.greedy else ticket.regret, fixed)

    def close_play(self, play: Ticket | HeldReward, reward: float) -> Config | None:
        """Count a resolved play, with nan for a withdrawn one; return the data of an alarm if a null is refuted."""
        monitor = self.monitor
        if monitor is None or play.epoch != self.epoch:
            return None
        alarm = None
        if monitor.close_play(play.round, reward):
            fixed = [i for i in range(len(self._pool)) if self._is_fixed(i)]
            active = self._selection.selector.active
            rivals = active if all(map(self._updates.may_keep_bound, active)) else ()
            alarm = monitor.check(fixed, rivals, self.bounds(), self._pool.names)
        pairs, traits = self._selection.can.pairs, self._selection.traits
        if alarm is None and pairs is not None and traits.noise is None:  # lemma 2 presumes bounded rewards
            closed, period = pairs.pair_rounds(), check_period(len(traits.experts))
            if closed // period > self._closed_rounds // period:
                self._closed_rounds = closed
                alarm = self._order_alarm(monitor, pairs)
        return None if alarm is None else self._respond(alarm, monitor)

    def bounds(self) -> dict[int, float]:
        """Return the candidate regret bounds of the selector at the plays that count; empty if it has none."""
        known = self._selection.can.drift
        return {} if known is None else dict(known.drift_evidence())

    def _is_rule(self, i: int) -> bool:
        learner = self._pool.members[i].learner
        return learner is not None and not learner.can.learns

    def _is_fixed(self, i: int) -> bool:
        """Whether a learner is a fixed rule for which no substitute has acted: with substitutes it may learn."""
        return self._is_rule(i) and not self._pool.members[i].substituted

    def _order_alarm(self, monitor: RewardMonitor, pairs: ComparesPairs) -> Alarm | None:
        experts, oldest = self._selection.traits.experts, self._tickets.oldest()
        fixed = [e for e, (i, _) in enumerate(experts) if self._is_fixed(i)]
        if len(fixed) < 2 or len(experts) > MAX_EXPERTS:
            return None
        if monitor.pairs is None and oldest is not None and oldest.round < monitor.since:
            return None  # the sums will still get a round from before
        found = monitor.check_pairs(pairs.pair_sums(), len(experts), fixed)
        if found is None:
            return None
        first, second = (self._pool.members[experts[e][0]].name for e in found)
        return Alarm(
            ORDER,
            f"one order of {first} and {second}",
            monitor.since,
            "each was the better one in some rounds",
            monitor.delta * SHARE,
        )

    def _respond(self, alarm: Alarm, monitor: RewardMonitor) -> Config:
        """Begin a new monitor, and a new epoch of the selector if that is wanted; return the data of the event."""
        round_, since = self._tickets.round, monitor.since
        restarts = self._response == "restart"
        self.refuted = Refuted(round_ + 1, alarm.kind, alarm.reason, restarts, alarm.null)
        self.monitor = monitor.next(round_ + 1)
        if restarts:
            self._begin_epoch(round_ + 1)
        return {
            "alarm": alarm.kind,
            "reason": alarm.reason,
            "since": since,
            "share": alarm.share,
            "restart": restarts,
            "epoch": self.epoch,
        }

    def frozen(self) -> Config:
        """Return the state as it is now, with entries that are made later."""
        return {
            "epoch": (self.epoch, self.epoch_since),
            "delta": self.delta,
            "fixed_contexts": self._fixed_contexts,
            "closed_rounds": self._closed_rounds,
            "refuted": None if self.refuted is None else tuple(self.refuted),
            "monitor": None if self.monitor is None else self.monitor.frozen(),
        }

    def restore(self, state: Config) -> None:
        (self.epoch, self.epoch_since), self.delta = state["epoch"], state["delta"]
        self._fixed_contexts, self._closed_rounds = state["fixed_contexts"], state["closed_rounds"]
        self.refuted = None if state["refuted"] is None else Refuted(*state["refuted"])
        self.monitor = None if state["monitor"] is None else RewardMonitor.from_state(state["monitor"])
