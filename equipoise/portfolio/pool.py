"""The learners of a portfolio and its selector: names, failures and pauses, units of rewards, joining and leaving.

A learner that fails `MAX_FAILURES` times in a row, while deciding or while learning, is suspended for `FIRST_PAUSE`
rounds. If it fails again right after a pause, the next pause is twice as long, up to `MAX_PAUSE` rounds; after
`MIN_SUCCESSES` successes in a row, while neither decisions nor updates fail, pauses start short again. If updates have
failed, the learner is not updated during the pause either. Failures during a pause count, but do not extend it.
A learner that refuses a context sits the round out, which is counted and is not a failure.

A learner that joins late has the next index; a removed one keeps its index, so that certificates and open decisions
stay true. The range of rewards is stated once, at the portfolio: a selector or learner that states none adopts it, and
one that states another is refused, because one of the two must be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from equipoise.bounds import Bound, Observed
from equipoise.compatibility import can_share, check_asked, check_share_data, learning_mode
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learner import AdaptedLearner, LearnerCapabilities, MinimalLearner, StatesUnits, find, unique_names
from equipoise.portfolio.events import Events
from equipoise.selector import (
    Choice,
    Selector,
    SelectorTraits,
    capabilities,
    check_odds,
    configure,
    differ,
    needs_of,
    replay,
    traits_of,
)
from equipoise.settings.checks import text
from equipoise.settings.units import DEFAULT_RANGE
from equipoise.types import Config

MAX_FAILURES = 3
FIRST_PAUSE = 8
MAX_PAUSE = 1024
MIN_SUCCESSES = 5
MAX_ERROR_LENGTH = 300  # characters
COMPARED_EVERY = 32  # rounds between two comparisons of logged probabilities with those of a selector of learners
LEARNS_FROM = {
    "own": "Learn from own plays",
    "agreed": "Learn from rounds that they agree with",
    "silent": "Asked in own plays only (silent)",
}
Range = tuple[float, float]
Available: TypeAlias = Sequence[int] | None  # the learners that could be chosen; None if all could


@dataclass(slots=True)
class Times:
    """How long the calls of one method took, in seconds; not saved."""

    calls: int = 0
    total: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.total += seconds
        if seconds > self.longest:
            self.longest = seconds

    def to_json(self) -> Config:
        mean = self.total / self.calls if self.calls else 0.0
        return {"calls": self.calls, "mean_seconds": mean, "longest_seconds": self.longest}


@dataclass(slots=True)
class Member:
    """One learner of a portfolio. `learner` is None once it is removed."""

    learner: AdaptedLearner | None
    name: str
    suspended: bool = False  # by request
    paused_until: int = 0  # the first round in which it may play again after failures
    pause: int = 0  # length of the last pause; 0 after enough successes
    failing_decisions: int = 0  # in a row
    failing_updates: int = 0  # in a row
    learning_paused: bool = False  # whether updates caused the last pause, and none has succeeded since
    reported: int = 0  # the round in which a failed update was last announced; 0 if none was
    successes: int = 0  # since the last failure
    failures: int = 0  # in total
    last_error: str = ""
    refused: int = 0  # contexts, in decisions and in updates from rounds of others
    refused_in_a_row: int = 0  # since the last context that it accepted
    last_refusal: str = ""
    substituted: int = 0  # rounds drawn for it in which a substitute or the fallback acted
    logged_rounds: int = 0  # of logs that it learned before it played
    decide_times: Times = field(default_factory=Times, compare=False)
    learn_times: Times = field(default_factory=Times, compare=False)

    def is_available(self, round_: int) -> bool:
        """Whether it may be chosen in this round."""
        return self.is_present and self.paused_until <= round_

    @property
    def is_present(self) -> bool:
        """Whether it was neither removed nor suspended by request."""
        return self.learner is not None and not self.suspended

    def can_learn(self, round_: int) -> bool:
        """Whether its updates are tried in this round."""
        return not self.learning_paused or self.paused_until <= round_

    def reports(self, round_: int) -> bool:
        """Whether a failed update is announced: the first one, and at most one in `MAX_PAUSE` rounds."""
        if self.reported and round_ - self.reported < MAX_PAUSE:
            return False
        self.reported = round_
        return True

    @property
    def adapted(self) -> AdaptedLearner:
        assert self.learner is not None, f"{self.name} is removed"
        return self.learner

    def failed(self, round_: int, error: str, *, deciding: bool) -> bool:
        """Count a failure; return whether the learner is suspended because of it."""
        self.failures += 1
        self.successes = 0
        self.last_error = error
        if deciding:
            self.failing_decisions += 1
        else:
            self.failing_updates += 1
        if self.paused_until > round_:
            return False
        # After a pause the first failure is enough.
        tolerated = MAX_FAILURES if self.pause == 0 else 1
        if max(self.failing_decisions, self.failing_updates) < tolerated:
            return False
        self.pause = min(MAX_PAUSE, 2 * self.pause or FIRST_PAUSE)
        self.paused_until, self.learning_paused = round_ + self.pause + 1, not deciding
        return True

    def succeeded_deciding(self) -> None:
        """Count a decision, unless updates fail: then it says nothing about them."""
        self.failing_decisions = self.refused_in_a_row = 0
        if not self.failing_updates:
            self._count_success()

    def succeeded_learning(self) -> None:
        """Count an update, unless decisions fail."""
        self.failing_updates, self.learning_paused, self.refused_in_a_row = 0, False, 0
        if not self.failing_decisions:
            self._count_success()

    def refuses(self, reason: str) -> None:
        """Count a context that the learner refuses."""
        self.refused += 1
        self.refused_in_a_row += 1
        self.last_refusal = reason

    def _count_success(self) -> None:
        self.successes += 1
        if self.successes == MIN_SUCCESSES:
            self.pause = 0

    def resume(self) -> None:
        """End every suspension."""
        self.suspended, self.paused_until, self.pause, self.learning_paused = False, 0, 0, False
        self.failing_decisions = self.failing_updates = 0

    def state(self) -> Config:
        return {name: getattr(self, name) for name in self.__slots__ if name not in NOT_SAVED}

    def restore(self, state: Config) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def refusals(self) -> tuple[int, int, str]:
        """The counts of refused contexts, which are saved apart: earlier releases do not know them."""
        return self.refused, self.refused_in_a_row, self.last_refusal

    def restore_refusals(self, refusals: tuple[int, int, str]) -> None:
        self.refused, self.refused_in_a_row, self.last_refusal = refusals


NOT_SAVED = frozenset({"learner", "decide_times", "learn_times", "refused", "refused_in_a_row", "last_refusal"})


def is_refusal(error: BaseException) -> bool:
    """Whether a learner says by this error that it cannot use a context: a number, a shape or an id in it."""
    return isinstance(error, InvalidArgument | UnknownName)


def describe_error(error: BaseException) -> str:
    """Return the error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:MAX_ERROR_LENGTH]


def listed(available: Iterable[str] | None) -> Iterable[str] | None:
    """Return names of learners so that they can be read twice; what is no list stays, for `Pool.indices` to refuse."""
    return tuple(available) if isinstance(available, Iterable) and not isinstance(available, str) else available


class Pool:
    """The learners of a portfolio, by index."""

    def __init__(self, learners: Sequence[MinimalLearner | None], events: Events) -> None:
        adapted = [None if learner is None else AdaptedLearner(learner) for learner in learners]
        names = unique_names(["" if learner is None else learner.name for learner in adapted])
        self.members = [Member(learner, name) for learner, name in zip(adapted, names, strict=True)]
        # By which names the file or constructor calls them, None for one that it does not name. None if that is not
        # known, because an earlier release wrote the state.
        self.declared: tuple[str | None, ...] | None = names
        self.any_unavailable = True  # whether a learner may be suspended or paused
        self._events = events
        self._pauses: list[Config] = []  # that began and are not announced yet

    def __len__(self) -> int:
        return len(self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all learners, removed ones included."""
        return tuple([member.name for member in self.members])

    @property
    def learners(self) -> tuple[Any, ...]:
        """The given learners by index; None for one that was removed."""
        return tuple(None if member.learner is None else member.learner.learner for member in self.members)

    def present(self) -> Iterator[tuple[int, Member]]:
        """Yield the learners that were not removed."""
        return ((i, member) for i, member in enumerate(self.members) if member.learner is not None)

    def index(self, name: str) -> int:
        """Return the index of the learner with this name, which was not removed."""
        for i, member in self.present():
            if member.name == name:
                return i
        raise UnknownName("learner", name, [member.name for _, member in self.present()])

    def indices(self, available: Iterable[str]) -> frozenset[int]:
        """Return the learners that a caller names."""
        if isinstance(available, str) or not isinstance(available, Iterable):
            raise InvalidArgument(f"available is {available!r}, but must be a list of names of learners")
        names = list(available)
        for name in names:
            if not isinstance(name, str):
                raise InvalidArgument(f"available has {name!r:.80}, but must have names of learners")
        return frozenset(map(self.index, names))

    def add(self, learner: AdaptedLearner) -> Member:
        name = unique_names([*self.names, learner.name])[-1]
        self.members.append(Member(learner, name))
        self.declared = None if self.declared is None else (*self.declared, None)
        return self.members[-1]

    def declare(self, names: Sequence[str | None]) -> None:
        if len(names) != len(self):
            raise InvalidArgument(f"learners has {len(names)} names, but must have {len(self)}, one for each learner")
        self.declared = tuple(names)

    def remove(self, name: str) -> None:
        self.members[self.index(name)].learner = None
        self._events.emit("learner_removed", {"name": name})

    def rename(self, name: str, new: str) -> None:
        i = self.index(name)
        if text("new", new) in self.names:
            raise InvalidArgument(f"new is {new!r}, but must differ from the names of the other learners")
        self.members[i].name = new
        self._events.emit("learner_renamed", {"name": name, "new": new})

    def suspend(self, name: str) -> None:
        self.members[self.index(name)].suspended = True
        self.any_unavailable = True
        self._events.emit("learner_suspended", {"name": name, "error": "by request"})

    def resume(self, name: str) -> None:
        self.members[self.index(name)].resume()
        self._events.emit("learner_resumed", {"name": name})

    def count_failure(self, i: int, error: str, round_: int, *, deciding: bool) -> None:
        """Count a failure of learner i, and suspend it if it fails too often; see `announce_pauses`."""
        member = self.members[i]
        if member.failed(round_, error, deciding=deciding):
            self.any_unavailable = True
            self._pauses.append({"name": member.name, "until_round": member.paused_until, "error": error})

    def announce_pauses(self) -> None:
        """Announce new pauses, after the event that they follow from."""
        for data in self._pauses:
            self._events.emit("learner_suspended", data, derived=True)
        self._pauses.clear()

    def count_answers(
        self,
        asked: Iterable[int],
        failures: Sequence[tuple[int, str]],
        refused: Sequence[tuple[int, str]],
        round_: int,
    ) -> None:
        """Count the learners that could decide, those that could not, and those that refused the context."""
        for i in asked:
            self.members[i].succeeded_deciding()
        for i, reason in refused:
            self.members[i].refuses(reason)
        for i, error in failures:
            self.count_failure(i, error, round_, deciding=True)
        self.announce_pauses()


class Selection:
    """The selector of a portfolio, with its capabilities and its present traits."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.can = capabilities(selector)
        self.needs = needs_of(selector)
        self.traits: SelectorTraits = traits_of(selector)
        self.noted_version = self.rule_version  # that the last event about it, or the saved state, has
        self.folded_differently = 0  # logged plays for which the present rule has other probabilities
        self.first_folded_differently: str | None = None  # the id of the first of these decisions

    @property
    def rule_version(self) -> int | None:
        """The version of the selector's rule; None if it states none."""
        return None if self.can.rule is None else self.can.rule.rule_version

    def replay(self, choice: Choice, id_: str, round_: int, available: Available, odds: Sequence[float] | None) -> None:
        """Open a logged play with its logged probabilities; count it if the present rule has other ones.

        The odds of experts are always compared. A selector of learners computes its own only for that, so it does so in
        one round of `COMPARED_EVERY`.
        """
        can = self.can
        if can.odds is not None and can.replays is not None:
            differs = can.replays.replay(choice, available, odds)
        else:
            differs = round_ % COMPARED_EVERY == 0 and self._has_other_chances(choice, available, odds)
            replay(self.selector, choice, available)
        if differs:
            self.folded_differently += 1
            self.first_folded_differently = self.first_folded_differently or id_

    def _has_other_chances(self, choice: Choice, available: Available, odds: Sequence[float] | None) -> bool:
        if self.can.chances is None:
            return False
        given = self.can.chances.choice_probabilities
        present = given() if available is None else given(available)
        if odds is None:
            return differ((choice.probability,), (present[choice.learner],))
        return differ(check_odds(odds, len(present)), tuple(present))

    def refresh(self) -> None:
        """Read the traits again, after the selector changed."""
        self.traits = traits_of(self.selector)

    def presumed(self, pool: Pool) -> Sequence[int]:
        """Return the learners whose confidence sets statements rest on: by an observed bound, or as a witness."""
        return range(len(pool)) if "lower" in self.needs else self.traits.observed

    def sharing(self, pool: Pool, share_data: bool | None) -> set[int]:
        """Return the learners that learn from every round because data are shared."""
        if not share_data or self._decides_updates:
            return set()
        members = pool.members
        able = (i for i in self.selector.active if members[i].learner is not None)
        return {i for i in able if "off_policy" in members[i].adapted.accepts}

    @property
    def _decides_updates(self) -> bool:
        """Whether the selector decides what each learner learns."""
        return self.can.updates is not None or "weight" in self.needs

    def check_share_data(self, pool: Pool, wanted: bool | None, now: bool | None, *, recommended: bool) -> None:
        """Raise an error if a caller cannot ask for this now: the selector decides, or no learner can share data.

        Whether data are shared has a part in which selector is `recommended`, if a learner can share them.
        """
        learners = [pool.learners[i] for i in self.selector.active if pool.learners[i] is not None]
        chosen_for_it = recommended and (wanted is False) is not (now is False) and not _obstacle(learners)
        if wanted is not now and (self._decides_updates or chosen_for_it):
            decides = f"{self.can.name} decides itself what each learner learns"
            reason = decides if self._decides_updates else f"{self.can.name} was chosen because of it"
            raise InvalidArgument(f"share_data is {wanted}, but must stay {now}: {reason}")
        if not self._decides_updates:
            check_share_data(learners, wanted)

    def describe_sharing(self, pool: Pool, share_data: bool | None, reason: str) -> str:
        """Return in one line which selector it is, which learners share data, and what others would need to."""
        modes, sharing = self.traits.learning_modes, self.sharing(pool, share_data)
        groups: dict[str, list[str]] = {}
        for i, member in pool.present():
            mode = modes[i] if modes else "all" if i in sharing else "own"
            can = member.adapted.can
            if not can.learns:
                group = "Nothing to learn"
            elif "weight" in self.needs:
                group = "Learn from weighted rounds"
            elif mode == "all":
                group = "Share data"
            else:
                group = f"{LEARNS_FROM[mode]}, {_lacking(can, self.can.name, share_data)}"
            groups.setdefault(group, []).append(member.name)
        found = [f"{group}: {', '.join(names)}." for group, names in groups.items()]
        return " ".join([reason or f"The selector is {self.can.name}, as given.", *found])

    def width(self, stated: Range | None) -> float:
        low, high = self.limits(stated)
        return high - low

    def limits(self, stated: Range | None) -> Range:
        """Return the range of rewards, or of expected rewards; the default if none is stated."""
        return self.reward_range(stated) or DEFAULT_RANGE

    def reward_range(self, stated: Range | None) -> Range | None:
        """Return the range of rewards: the portfolio's, or the selector's if the portfolio states none."""
        return stated or self.traits.reward_range

    def check_units(self, learners: Sequence[MinimalLearner], stated: Range | None) -> None:
        """Raise an error if a part states other units than the portfolio; change nothing."""
        traits = self.traits
        if stated not in (None, traits.reward_range):
            _check_units(self.selector, stated, None)
            if traits.reward_range is not None and self.can.configures is None:
                raise InvalidArgument(
                    f"reward_range of selector {self.can.name!r} is {traits.reward_range}, but that of the portfolio "
                    f"is {stated}: leave one out, or state the same"
                )
        for learner in learners:
            _check_units(learner, stated or traits.reward_range, traits.noise)

    def configure(self, pool: Pool, stated: Range | None, delays: str, window: int | None) -> None:
        """Tell selector and learners what the portfolio states once, before the first round."""
        facts = {} if stated in (None, self.traits.reward_range) else {"reward_range": stated}
        if facts or delays == "exogenous":
            configure(self.selector, delays=delays, window=window, **facts)
            self.refresh()
        for _, member in pool.present():
            self.adopt(member.adapted, stated)

    def adopt(self, learner: AdaptedLearner, stated: Range | None) -> None:
        """Tell a learner the units of rewards."""
        units = self.reward_range(stated)
        if units is not None:
            learner.configure(units, _unless_stated(learner.learner, self.traits.noise))

    def check_joining(self, learner: AdaptedLearner, bound: Bound | None) -> None:
        """Raise an error if a learner that joins lacks what the selector needs."""
        check_asked(self.can.name, self.needs, self.traits.learning_modes, learner.learner)
        if "bounds" in self.needs and bound is None:
            raise InvalidArgument(f"bound is None, but {type(self.selector).__name__} needs one for every learner")
        if isinstance(bound, Observed) and "regret" not in learner.provides:
            raise InvalidArgument(f"bound is Observed, but learner {learner.name!r} provides no 'regret'")
        if "lower" in self.needs and "lower" not in learner.provides:
            raise InvalidArgument(f"learner {learner.name!r} provides no 'lower', which the selector needs")
        if "weight" in self.needs and "weight" not in learner.accepts:
            raise InvalidArgument(f"learner {learner.name!r} does not accept 'weight', which the selector needs")


def _check_units(part: object, units: Range | None, noise: float | None) -> None:
    """Raise what `configure` would, if the part can tell without a change."""
    stating = None if isinstance(part, type) else find(part, StatesUnits)  # a class is refused elsewhere
    if units is not None and stating is not None:
        stating.check_units(reward_range=units, noise=_unless_stated(part, noise))


def _unless_stated(part: object, noise: float | None) -> float | None:
    """Return the noise for a learner; None if it states one, since it may know more about its own rounds."""
    stating = find(part, StatesUnits)
    return None if stating is not None and stating.states("noise") else noise


_OWNERS: WeakValueDictionary[int, object] = WeakValueDictionary()  # by the id of the selector


def claim(selector: object, portfolio: object) -> None:
    """Raise an error if another portfolio uses the selector: two must not share the state of one."""
    if _OWNERS.setdefault(id(selector), portfolio) is not portfolio:
        name = type(selector).__name__
        raise InvalidArgument(f"selector is a {name} of another portfolio, but every portfolio needs its own")


class Recommendation(NamedTuple):
    """A selector, and in a sentence why it is that one."""

    selector: Selector
    reason: str


def recommend(learners: Sequence[MinimalLearner], share_data: bool | None) -> Recommendation:
    """Return the selector for these learners; with `share_data` False no learner learns from rounds of others.

    `CounterfactualBalancing` asks every learner in every round, and pays off where learners learn from rounds of
    others. It is recommended if at least one of several learners can, whatever the others are: these learn from the
    rounds that `learning_mode` names, and turn nothing off. Everywhere else `RealizedBalancing` is recommended.
    """
    from equipoise.selectors import CounterfactualBalancing, RealizedBalancing  # slow to import

    check_share_data(learners, share_data)
    obstacle = "data are not shared" if share_data is False else _obstacle(learners)
    if obstacle:
        reason = f"The selector is RealizedBalancing: {obstacle}."
        return Recommendation(RealizedBalancing(len(learners)), reason)
    n_sharing = sum(map(_shares, learners))
    learn = f"{n_sharing} of {len(learners)} learners {'learns' if n_sharing == 1 else 'learn'} from rounds of others"
    selector = CounterfactualBalancing.for_learners(learners, share_data=share_data)
    return Recommendation(selector, f"The selector is CounterfactualBalancing: {learn}.")


def _obstacle(learners: Sequence[object]) -> str:
    """Return why the learners do not suit CounterfactualBalancing; empty if they do."""
    if len(learners) < 2:
        return "there is one learner"
    return "" if any(map(_shares, learners)) else "no learner learns from rounds that others play"


def _shares(learner: object) -> bool:
    """Whether `CounterfactualBalancing` lets a learner learn from rounds of others, so that it learns more."""
    return can_share(learner) and learning_mode(learner, None) == "all"


def _lacking(can: LearnerCapabilities, selector: str, share_data: bool | None) -> str:
    """Return what a learner that learns would need to share data."""
    if "off_policy" not in can.accepts:
        return f"must accept 'off_policy'{' and not be silent' if can.silent else ''} to share data"
    if share_data is False:
        return "share_data is False"
    return f"must {'not be silent' if can.silent else f'have share_data=True with {selector}'} to share data"
