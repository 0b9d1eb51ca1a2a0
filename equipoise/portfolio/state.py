"""The state of a portfolio, and what every change of it has in common: time, announcements, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import RLock
from typing import Any

from equipoise.certificates import AnyElimination
from equipoise.compatibility import check_sharing
from equipoise.drift import Alarm
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.kernels.streams import open_stream
from equipoise.learner import AdaptedLearner, MinimalLearner, can_be_restored, unique_names
from equipoise.portfolio.choosing import Chooser
from equipoise.portfolio.claims import claim
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.contexts import Contexts
from equipoise.portfolio.counts import Counts
from equipoise.portfolio.deadlines import check_deadline, check_time, check_window
from equipoise.portfolio.drifting import RESPONSES, Drift, Drifting
from equipoise.portfolio.events import Event, Listeners, logger
from equipoise.portfolio.history import History, reason_of
from equipoise.portfolio.ids import ID, CallerIds, OwnIds
from equipoise.portfolio.members import Member
from equipoise.portfolio.rewards import AGGREGATES, check_clip
from equipoise.portfolio.snapshots import SavedPolicies
from equipoise.portfolio.teaching import Lesson, Teaching
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Choice, Selector, traits_of
from equipoise.settings.checks import boolean, count, fraction, interval, one_of, real
from equipoise.settings.units import DEFAULT_RANGE
from equipoise.storage.parts import check_savable
from equipoise.types import Action, Config, Context

DELAYS = ("any", "independent", "exogenous")
AVAILABILITIES = ("any", "independent")


class PortfolioState(Drifting):
    """Everything that a portfolio remembers, settings included."""

    deadline: int | float | None  # in rounds, or in seconds

    def _set_up(
        self,
        learners: Sequence[MinimalLearner | None],
        selector: Selector,
        *,
        seed: int,
        share_data: bool | None,
        deadline: int | timedelta | str | None,
        default_reward: float | None,
        aggregate: str,
        delays: str,
        window: int | None,
        fallback: Action | Callable[[Context], Action] | None,
        explore: float,
        availability: str,
        reward_range: tuple[float, float] | None = None,
        clip: bool = False,
        on_drift: str = "warn",
    ) -> None:
        """The state before the first round; a learner that is None was removed."""
        self._selector, self._traits = selector, traits_of(selector)
        self.on_drift = one_of("on_drift", on_drift, RESPONSES)
        self._drift = Drift(self.on_drift, selector)
        stated = None if reward_range is None else interval("reward_range", reward_range)
        self.reward_range = stated or self._traits.reward_range
        self.clip = check_clip(clip, self.reward_range, self._traits.noise)
        adapted = [None if learner is None else AdaptedLearner(learner) for learner in learners]
        names = unique_names(["" if learner is None else learner.name for learner in adapted])
        self._members = [Member(learner, name) for learner, name in zip(adapted, names, strict=True)]
        self.seed = count("seed", seed, minimum=0, maximum=2**64 - 1)
        self.share_data = False if share_data is None else boolean("share_data", share_data)
        self.deadline, self.default_reward = self._check_deadline(deadline, default_reward)
        self.aggregate = one_of("aggregate", aggregate, AGGREGATES)
        if aggregate != "first" and deadline is None:
            raise InvalidArgument(f"aggregate is {aggregate!r} without a deadline, but needs one to know the reward")
        self.delays, self.window = one_of("delays", delays, DELAYS), check_window(delays, window)
        self.explore = fraction("explore", explore)
        self.availability = one_of("availability", availability, AVAILABILITIES)
        in_order = self._traits.observed if self.delays == "any" else ()
        self._own_propensity: Callable[[Choice], float] | None = getattr(selector, "propensity", None)
        self._students_of: Callable[[Choice], Sequence[int]] | None = getattr(selector, "taught_by", None)
        self._teaching = Teaching(self._members, weighted="weight" in selector.needs, in_order=in_order)
        present = [learner for learner in learners if learner is not None]
        if self.share_data and len(present) == len(learners):
            self._teaching.sharing = set(check_sharing(selector, present))
        self._policies, self._stream = SavedPolicies(), open_stream(self.seed)
        self._savable = all(can_be_restored(part) for part in (selector, *present))
        self.fallback = self._check_fallback(fallback)
        self._contexts = Contexts(self._members)
        self._chooser = Chooser(selector, self._members, self._stream, self._policies)
        self._chooser.savable, self._chooser.independent = self._savable, self.availability == "independent"
        self._timed = isinstance(self.deadline, float)
        self._begin()
        self._recommendation = ""  # why it has this selector, if it was given none
        self._lock = RLock()
        claim(selector, self)

    def _begin(self) -> None:
        self._ids, self._callers = OwnIds(), CallerIds()
        self._round = 0  # rounds decided, withdrawn ones included
        self._expired_round = 0  # the last round that expired
        self._counts = Counts()
        self._history = History()
        self._open: dict[ID, Ticket] = {}
        self._time = 0.0  # of the last call; never goes backwards
        self._clock = Clock()
        self._listeners = Listeners()
        self._on_elimination: list[Callable[[Any], None]] = []
        self._reported: set[tuple[int, str]] = set()  # rounds that the log says hold up others

    def _check_deadline(
        self, deadline: int | timedelta | str | None, default_reward: float | None
    ) -> tuple[int | float | None, float | None]:
        if (deadline is None) != (default_reward is None):
            given = f"deadline is {deadline!r} and default_reward is {default_reward!r}"
            raise InvalidArgument(f"{given}, but must be given together")
        if deadline is None or default_reward is None:
            return None, None
        return check_deadline(deadline), self._check_reward(default_reward, "default_reward")

    def _check_fallback(
        self, fallback: Action | Callable[[Context], Action] | None
    ) -> Action | Callable[[Context], Action] | None:
        """The fallback, which must be savable unless it is a function."""
        if fallback is not None and not callable(fallback) and self._savable:
            check_savable(fallback, "fallback")
        return fallback

    def _check_reward(self, reward: float, name: str = "reward") -> float:
        """The reward as a float; raises an error if it is invalid."""
        number = real(name, reward)
        if self.reward_range is not None and self._traits.noise is None:
            low, high = self.reward_range
            if not low <= number <= high:
                raise InvalidArgument(f"{name} is {reward!r}, but must lie in reward_range ({low:g}, {high:g})")
        return number

    def _admit(self, at: float | None) -> float:
        """The time of a call, which never goes backwards."""
        if at is None:
            if not self._timed and not self._listeners.callbacks:
                return self._time
            at = self._clock.now(self._time)
        self._time = max(self._time, check_time(at))
        return self._time

    def _is_overdue(self, ticket: Ticket) -> bool:
        if self.deadline is None:
            return False
        if isinstance(self.deadline, float):
            return ticket.time + self.deadline < self._time
        return ticket.round + self.deadline < self._round

    @property
    def _width(self) -> float:
        low, high = self.reward_range or DEFAULT_RANGE
        return high - low

    def _emit(self, kind: str, data: Config, *, derived: bool = False, key: str | None = None) -> None:
        self._history.mark(self._round, kind, data)
        self._listeners.announce(Event(kind, data, self._time, derived, key=key))

    def _answer(self, alarm: Alarm) -> None:
        """What follows from an alarm: an event, and a new epoch if that is wanted."""
        data = self._respond(alarm)
        if data["restart"]:
            self._teaching.sharing |= self._sharing() if self.share_data else set()
            self._counts.unplayed = 0
        self._emit("drift", data, derived=True)

    def _sharing(self) -> set[int]:
        """The learners that learn from every round if data are shared."""
        learners = [None if member.learner is None else member.learner.learner for member in self._members]
        return set(check_sharing(self._selector, learners))

    def _finish(self, failed: Sequence[Lesson], eliminations: Sequence[AnyElimination]) -> None:
        """What follows from a settled round: failures of learners, eliminated learners, announcements."""
        for lesson in failed:
            self._emit("lesson_failed", {"name": self._members[lesson.learner].name, **lesson._asdict()}, derived=True)
            self._count_failure(lesson.learner, lesson.error, deciding=False)
        for elimination in eliminations:
            self._teaching.retire(elimination.learner.index)
        for elimination in self._in_rounds(eliminations):
            self._announce_elimination(elimination)

    def _in_rounds(self, eliminations: Iterable[AnyElimination]) -> list[AnyElimination]:
        """Eliminations with the rounds of the portfolio: a selector counts those of its epoch."""
        before = self._drift.epoch_since - 1
        return [replace(each, round=each.round + before) if before else each for each in eliminations]

    def _announce_elimination(self, elimination: AnyElimination) -> None:
        learner, witness = elimination.learner.index, elimination.witness.index
        names = {"name": self._members[learner].name, "witness": self._members[witness].name}
        reason = reason_of(elimination, names["witness"])
        self._emit("eliminated", {**names, "round": elimination.round, "reason": reason}, derived=True)
        for callback in self._on_elimination:
            try:
                callback(elimination)
            except Exception:
                logger.exception("a callback failed on an elimination")

    def _count_failure(self, i: int, error: str, *, deciding: bool) -> None:
        member = self._members[i]
        if member.failed(self._round, error, deciding=deciding):
            self._chooser.any_unavailable = True
            data = {"name": member.name, "until_round": member.paused_until, "error": error}
            self._emit("learner_suspended", data, derived=True)

    def _count_unplayed(self, rounds: int) -> None:
        """Count rounds that no learner played; the certificate of a selector that is told of them includes them."""
        self._counts.unplayed = max(0, self._counts.unplayed + rounds)  # an epoch begins with none
        tick = getattr(self._selector, "tick", None)
        if tick is not None:
            self._finish((), tick(rounds))

    def _indices(self, available: Iterable[str]) -> frozenset[int]:
        """The learners that a caller names."""
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise InvalidArgument(f"available is {available!r}, but must be a list of names of learners")
        names = list(available)
        for name in names:
            if not isinstance(name, str):
                raise InvalidArgument(f"available has {name!r:.80}, but must have names of learners")
        return frozenset(map(self._index, names))

    def _index(self, name: str) -> int:
        """The learner with this name, which was not removed."""
        for i, member in enumerate(self._members):
            if member.name == name and member.learner is not None:
                return i
        raise UnknownName("learner", name, [member.name for member in self._members if member.learner is not None])
