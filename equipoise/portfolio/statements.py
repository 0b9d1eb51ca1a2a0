"""Statements of a portfolio as values: certificate, rewards, drift, learners, health, explanations, history.

`equipoise.portfolio.text` puts them into words; the page, the dashboard, the command line and the service read the
values. The history has samples at rounds that grow by a ratio: the round, the certificate (optimum and regret, lower
and upper) and, for each learner, plays, mean reward and radius. When samples hold more than `MAX_NUMBERS` numbers,
every second one is dropped and the ratio is squared, so that memory stays bounded whatever the number of learners and
rounds. Marks are eliminations, suspensions and changes of the pool, with their reasons; the oldest are dropped first.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from math import ceil, inf
from typing import NamedTuple, Protocol

import numpy as np

from equipoise.certificates import AnyElimination, Certificate, Comparison, Standing
from equipoise.certificates.fields import Record
from equipoise.certificates.records import comparison_record, elimination_record
from equipoise.errors import UnknownName
from equipoise.learner import ClipsRows, find
from equipoise.portfolio.drift import DriftMonitor, Refuted
from equipoise.portfolio.events import Events
from equipoise.portfolio.pool import Pool, Selection
from equipoise.portfolio.rounds import Rounds
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.portfolio.tickets import Counts, Head, Ticket, Tickets
from equipoise.portfolio.updates import LearnerUpdates
from equipoise.selector import compare_learners, eliminations_of
from equipoise.types import Config, Plain

RATIO = 1.15  # between the rounds of two samples
MAX_NUMBERS = 5_000  # in all samples: 40 KB
MAX_MARKS = 120
MAX_REASON_LENGTH = 160  # characters
MIN_REPORTED = 100  # held-up rewards for which a line in the log is worth it
USUAL = 0.99  # share of the rewards that come in the usual time
DELAY_BITS = 4  # significant bits of a delay that are kept
MIN_REWARDS, MAX_SHARE = 1_000, 1e-3  # a range is oversized if at least so many rewards span less than this share of it
# States of a learner; `equipoise.portfolio.text` has the words.
ACTIVE, SUSPENDED, PAUSED, ELIMINATED = "active", "suspended", "paused", "eliminated"
INACTIVE, EXCLUDED, REMOVED = "inactive", "excluded", "removed"
LEARNER_STATES = (ACTIVE, SUSPENDED, PAUSED, ELIMINATED, INACTIVE, EXCLUDED, REMOVED)


class Mark(NamedTuple):
    """Something that happened to a learner, or to all."""

    round: int
    kind: str  # of the event
    name: str
    reason: str  # empty if there is none
    until: int | None = None  # the round that ends a pause after failures


@dataclass(frozen=True)
class Sample:
    """A portfolio in one round. Means and radii are nan for a learner without a play that counts."""

    round: int
    optimum: tuple[float, float]  # lower and upper
    regret: tuple[float, float]
    plays: tuple[int, ...]
    mean_rewards: tuple[float, ...]
    mean_radii: tuple[float, ...]


class History:
    """Samples, marks, and the range of the rewards that arrived."""

    def __init__(self) -> None:
        self.next_round: float = 1  # of the next sample
        self.marks: list[Mark] = []
        self.n_rewards = 0
        self.lowest, self.highest = inf, -inf
        self.warned = False  # whether an oversized range was reported
        self._delays: Counter[int] = Counter()  # number of rewards by their delay in rounds, rounded up
        self._ratio = RATIO
        self._rows: list[array[float]] = []

    def __repr__(self) -> str:
        last = self._rows[-1][0] if self._rows else 0
        return f"History({len(self._rows)} samples up to round {last:.0f}, {len(self.marks)} marks)"

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, the oldest first."""
        return tuple(map(_sample, self._rows))

    def see(self, reward: float) -> None:
        """Count a reward."""
        self.n_rewards += 1
        if not self.lowest <= reward <= self.highest:
            self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)

    def count_delay(self, rounds: int) -> None:
        """Count a reward that came so many rounds after its decision."""
        if rounds >= 1 << DELAY_BITS:
            step = 1 << rounds.bit_length() - DELAY_BITS
            rounds = -(-rounds // step) * step
        self._delays[rounds] += 1

    def usual_delay(self) -> float:
        """Return the delay in rounds, rounded up by less than 1/8, that 99 % of the rewards did not exceed."""
        left = USUAL * sum(self._delays.values())
        for delay, number in sorted(self._delays.items()):
            left -= number
            if left <= 0.0:
                return delay
        return inf

    def sample(self, round_: int, standing: Sequence[Standing], certificate: Certificate) -> None:
        """Add a sample, and determine the round of the next."""
        about = certificate
        row = [round_, about.optimum_lower, about.optimum_upper, about.regret_lower, about.regret_upper]
        for each in standing:
            row += (each.plays, each.mean_reward, each.mean_radius)
        self._rows.append(array("d", row))
        while sum(map(len, self._rows)) > MAX_NUMBERS and len(self._rows) > 2:
            self._rows = self._rows[::-2][::-1]  # the newest stays
            self._ratio **= 2
        self.next_round = max(round_ + 1, ceil(round_ * self._ratio))

    def mark(self, round_: int, kind: str, data: Mapping[str, Plain]) -> None:
        """Remember an event."""
        reason = str(data.get("reason") or data.get("error") or "")
        name = str(data.get("name", ""))
        if kind == "learner_renamed":
            reason, name, old = f"was {name}", str(data["new"]), name
            self.marks = [mark._replace(name=name) if mark.name == old else mark for mark in self.marks]
        until = data.get("until_round")
        self.marks.append(Mark(int(data.get("round", round_)), kind, name, reason[:MAX_REASON_LENGTH], until))
        del self.marks[:-MAX_MARKS]

    def oversized(self, reward_range: tuple[float, float]) -> str:
        """Return what an oversized range costs, the first time that this is known; else nothing."""
        low, high = reward_range
        spread = self.highest - self.lowest
        if self.warned or self.n_rewards < MIN_REWARDS or not 0.0 < spread <= MAX_SHARE * (high - low):
            return ""
        self.warned = True
        return (
            f"all {self.n_rewards:,} rewards so far lie in [{self.lowest:.4g}, {self.highest:.4g}], less than a "
            f"thousandth of reward_range ({low:g}, {high:g}): radii are proportional to the range, so statements need "
            f"about {((high - low) / spread) ** 2:.0e} times as many plays as with a range of that size"
        )

    def state(self) -> Config:
        """Return everything as plain data."""
        numbers = [number for row in self._rows for number in row]
        return {
            "samples": np.array(numbers, np.float64),
            "lengths": np.array([len(row) for row in self._rows], np.int64),
            "marks": [tuple(mark) for mark in self.marks],
            "next": np.array([self.next_round, self._ratio], np.float64),
            "delays": np.array(sorted(self._delays.items()), np.int64).reshape(-1, 2),
            "rewards": np.array([self.n_rewards, self.lowest, self.highest, self.warned], np.float64),
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Load what `state` returned."""
        ends = np.cumsum(state["lengths"])
        numbers = np.split(np.asarray(state["samples"]), ends[:-1]) if len(ends) else []
        self._rows = [array("d", row.tolist()) for row in numbers]
        self.marks = [Mark(*row) for row in state["marks"]]
        self.next_round, self._ratio = np.asarray(state["next"]).tolist()
        self._delays = Counter(dict(np.asarray(state.get("delays", ())).reshape(-1, 2).astype(int).tolist()))
        n_rewards, self.lowest, self.highest, warned = np.asarray(state["rewards"]).tolist()
        self.n_rewards, self.warned = int(n_rewards), bool(warned)


def _sample(row: Sequence[float]) -> Sample:
    round_, optimum_lower, optimum_upper, regret_lower, regret_upper, *rest = row
    plays, means, radii = (tuple(rest[k::3]) for k in range(3))
    counts = tuple(map(int, plays))
    return Sample(int(round_), (optimum_lower, optimum_upper), (regret_lower, regret_upper), counts, means, radii)


@dataclass(frozen=True)
class RewardStatement:
    """What the portfolio makes of rewards before they count, which all statements are about."""

    aggregate: str  # "first", "sum" or "last"
    limits: tuple[float, float] | None  # to which rewards are clipped
    default: float | None  # of a decision past its deadline
    outside: int  # rewards that were clipped

    def describe(self) -> str:
        """Return the rewards in words; empty if they count as they are."""
        words = {"first": "rewards", "sum": "sums of rewards", "last": "the last rewards"}[self.aggregate]
        if self.limits is not None:
            low, high = self.limits
            words += f" clipped to [{low:.4g}, {high:.4g}]"
        if self.default is not None:
            words += f", with {self.default:.4g} where none came before the deadline"
        return "" if words == "rewards" else words


class Drop(NamedTuple):
    """A learner that has earned less per play, by at least `amount`, after its first `plays` monitored plays."""

    learner: int
    amount: float
    plays: int


@dataclass(frozen=True)
class DriftStatement:
    """What was refuted about the law of rewards, and drops in reward, which are not evidence of drift."""

    refuted: Refuted | None
    since: int  # the first round that counts
    has_bounds: bool  # whether the selector tests candidate bounds
    drops: tuple[Drop, ...]


@dataclass(frozen=True)
class LearnerStatement:
    """How a learner is doing."""

    name: str
    state: str  # one of `LEARNER_STATES`
    standing: Standing
    substituted: int  # rounds drawn for it in which a substitute or the fallback acted
    logged_rounds: int  # that it learned before it played
    paused_until: int  # the first round in which it may play again after failures
    last_error: str
    refused_in_a_row: int = 0  # contexts since the last one that it accepted
    last_refusal: str = ""


@dataclass(frozen=True)
class Statements:
    """Everything that a portfolio states, as values."""

    selector: str
    rule: str  # how the selector chooses, in one sentence; may be empty
    recommendation: str  # why the portfolio has this selector, if it was given none; else empty
    reward_range: tuple[float, float] | None
    certificate: Certificate
    rewards: RewardStatement
    drift: DriftStatement
    unplayed: int  # rounds that no learner played
    replayed: int  # rounds that were replayed from a log
    learners: tuple[LearnerStatement, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(learner.name for learner in self.learners)

    def to_json(self) -> Config:
        """Return certificate and standing as plain data."""
        rows = [{"name": each.name, **each.standing.to_json()} for each in self.learners]
        return {"certificate": self.certificate.to_json(), "standing": rows}


@dataclass(frozen=True)
class Explanation:
    """Why a learner plays as often as it does, as values."""

    learner: LearnerStatement
    statements: Statements
    excluded: bool  # whether the selector never plays it
    elimination: AnyElimination | None
    readmits: bool  # whether an inactive learner may become active again
    needs_bounds: bool
    randomized: bool
    chances: Sequence[float] | None  # of all learners in the next round, if the selector can tell


class Blocking(NamedTuple):
    """A decision without a reward that holds up rewards of later plays of a learner."""

    learner: int
    ticket: Ticket | Head
    held_up: int
    what: str  # "evidence" or "updates"


class Parts(Protocol):
    """The parts of a portfolio that statements are made from."""

    settings: PortfolioSettings
    selection: Selection
    pool: Pool
    tickets: Tickets
    updates: LearnerUpdates
    drift: DriftMonitor
    rounds: Rounds
    events: Events
    counts: Counts
    history: History
    recommendation: str

    @property
    def reward_range(self) -> tuple[float, float] | None: ...

    @property
    def waiting_bytes(self) -> int: ...


class Reporter:
    """Reads a portfolio; changes nothing."""

    def __init__(self, state: Parts) -> None:
        self._state = state

    def certificate(self) -> Certificate:
        """Return what the rewards prove; a round that no learner played counts with the width of the range."""
        state, selection = self._state, self._state.selection
        members = {i: state.pool.members[i] for i in selection.traits.observed}
        deltas = {i: 0.0 if member.learner is None else member.learner.delta for i, member in members.items()}
        proved = replace(selection.selector.certificate().with_learners(deltas), **state.drift.one_law)
        unplayed = state.counts.unplayed
        if unplayed == 0 or selection.can.unplayed is not None:
            return proved
        regret_upper = proved.regret_upper + unplayed * selection.width(state.settings.reward_range)
        return replace(proved, rounds=proved.rounds + unplayed, regret_upper=regret_upper)

    def standing(self) -> list[Standing]:
        """Return how every learner is doing; held rewards wait, as known ones that do not count yet."""
        state = self._state
        held = state.tickets.held.of_learners(state.drift.epoch)
        rows = state.selection.selector.standing()
        return [row._replace(waiting=row.waiting + held.get(row.learner, 0)) for row in rows] if held else rows

    def statements(self) -> Statements:
        state = self._state
        return Statements(
            state.selection.can.name,
            state.selection.can.explanation,
            state.recommendation,
            state.reward_range,
            self.certificate(),
            self.rewards(),
            self._drift(),
            state.counts.unplayed,
            state.counts.replayed,
            tuple(self._learner(row) for row in self.standing()),
        )

    def rewards(self) -> RewardStatement:
        """Return what the portfolio makes of rewards before they count."""
        state, settings = self._state, self._state.settings
        limits = state.reward_range if settings.clip else None
        return RewardStatement(settings.aggregate, limits, settings.default_reward, state.counts.clipped)

    def _drift(self) -> DriftStatement:
        drift, drops = self._state.drift, []
        for i, stream in () if drift.monitor is None else drift.monitor.learners.items():
            drop = stream.drop()
            if drop is not None:
                drops.append(Drop(i, *drop))
        return DriftStatement(drift.refuted, drift.epoch_since, bool(drift.bounds()), tuple(drops))

    def _learner(self, row: Standing) -> LearnerStatement:
        member = self._state.pool.members[row.learner]
        state, rounds = self.state_of(row.learner), (member.substituted, member.logged_rounds)
        refusals = (member.refused_in_a_row, member.last_refusal)
        return LearnerStatement(member.name, state, row, *rounds, member.paused_until, member.last_error, *refusals)

    def state_of(self, i: int) -> str:
        """Return the state of a learner, one of `LEARNER_STATES`."""
        selection, member = self._state.selection, self._state.pool.members[i]
        if member.learner is None:
            return REMOVED
        if i in selection.traits.excluded:
            return EXCLUDED
        if i not in selection.selector.active:
            eliminated = any(each.learner.index == i for each in eliminations_of(selection.selector) or ())
            return ELIMINATED if eliminated else INACTIVE
        if member.suspended:
            return SUSPENDED
        return PAUSED if member.paused_until > self._state.tickets.round else ACTIVE

    def explanation(self, name: str) -> Explanation:
        state, statements = self._state, self.statements()
        if name not in statements.names:
            raise UnknownName("learner", name, statements.names)
        i, traits = statements.names.index(name), state.selection.traits
        eliminations = () if traits.readmits else eliminations_of(state.selection.selector) or ()
        own = [each for each in self.in_rounds(eliminations) if each.learner.index == i]
        return Explanation(
            statements.learners[i],
            statements,
            i in traits.excluded,
            own[0] if own else None,
            traits.readmits,
            "bounds" in state.selection.needs,
            traits.randomized,
            state.rounds.probabilities_in(state.tickets.round + 1),
        )

    def compare(self, learner: int | str, other: int | str) -> Comparison:
        """Compare two learners, given by index or name."""
        state = self._state
        compared = compare_learners(state.selection.selector, learner, other, state.pool.names)
        return replace(compared, rewards=self.rewards().describe(), **state.drift.one_law)

    def records(self, pairs: Iterable[tuple[str, str]]) -> list[Record]:
        """Return all eliminations, and comparisons of pairs of learners, as records."""
        state, selector = self._state, self._state.selection.selector
        comparisons = [self.compare(learner, other) for learner, other in pairs]
        proves = state.selection.can.proves
        if proves is None:
            return []
        about: Config = {
            "selector_label": state.selection.can.name,
            "seed": state.settings.seed,
            "premises": proves.premises,
            "learner_names": state.pool.names,
        }
        rewards, eliminations = self.rewards().describe(), self.in_rounds(eliminations_of(selector) or ())
        records = [elimination_record(each, rewards=rewards, **about) for each in eliminations]
        return records + [comparison_record(each, round=state.tickets.round, **about) for each in comparisons]

    def in_rounds(self, eliminations: Iterable[AnyElimination]) -> list[AnyElimination]:
        """Return eliminations with the rounds of the portfolio: a selector counts those of its epoch."""
        before = self._state.drift.epoch_since - 1
        return [replace(each, round=each.round + before) if before else each for each in eliminations]

    def health(self) -> Config:
        """Return open, overdue and blocking decisions, failures, and where time went."""
        state = self._state
        oldest, names = state.tickets.oldest(), state.pool.names
        blocked = {} if state.selection.can.pending is None else state.selection.can.pending.blocking()
        overdue = takewhile(state.tickets.is_overdue, state.tickets.open.heads())  # times are in the order of rounds
        return {
            "rounds": state.tickets.round,
            **asdict(state.counts),
            "open": len(state.tickets.open),
            "held_rewards": len(state.tickets.held),
            "overdue": sum(1 for _ in overdue),
            "extended": state.tickets.n_extended(),
            "waiting_rounds": len(state.tickets.held) + sum(held_up for _, held_up in blocked.values()),
            "waiting_bytes": state.waiting_bytes,
            "oldest_open": None if oldest is None else {"id": oldest.id, **self._age(oldest)},
            "blocking": [
                {"id": ticket.id, "learner": names[i], "holds_up": held_up, "what": what, **self._age(ticket)}
                for i, ticket, held_up, what in self._blocking()
            ],
            "failed_updates": len(state.updates.failed),
            "forgotten_updates": state.updates.forgotten,
            "folded_differently": state.selection.folded_differently,
            "first_folded_differently": state.selection.first_folded_differently,
            "unknown_propensities": [
                f"{name}: {reason}" for name, reason in sorted(state.rounds.propensities.unknown.items())
            ],
            "learners": [self._learner_health(i) for i in range(len(state.pool))],
        }

    def _learner_health(self, i: int) -> Config:
        member = self._state.pool.members[i]
        clips = None if member.learner is None else find(member.learner.learner, ClipsRows)
        return {
            "name": member.name,
            "state": self.state_of(i),
            "logged_rounds": member.logged_rounds,
            "failures": member.failures,
            "substituted": member.substituted,
            "last_error": member.last_error,
            "refused": member.refused,
            "refused_in_a_row": member.refused_in_a_row,
            "last_refusal": member.last_refusal,
            "clipped_rows": 0 if clips is None else clips.clipped_rows,
            "paused_until_round": member.paused_until if member.paused_until > self._state.tickets.round else None,
            "decide": member.decide_times.to_json(),
            "learn": member.learn_times.to_json(),
        }

    def _age(self, ticket: Ticket | Head) -> Config:
        age: Config = {"age_rounds": self._state.tickets.round - ticket.round}
        if ticket.time:
            age["age_seconds"] = self._state.tickets.time - ticket.time
        return age

    def _blocking(self) -> Iterator[Blocking]:
        """Yield the decisions that hold up others, for evidence and for updates that are made in order."""
        state, reports = self._state, self._state.selection.can.pending
        blocked = {} if reports is None else reports.blocking()
        if blocked:
            missing = {(i, play) for i, (play, held_up) in blocked.items() if held_up}
            by_play: dict[tuple[int | None, int], Head] = {}
            for head in state.tickets.open.heads():  # they are among the first
                if (head.drawn, head.play) in missing and head.epoch == state.drift.epoch:
                    by_play[head.drawn, head.play] = head
                    if len(by_play) == len(missing):
                        break
            for i, (play, held_up) in blocked.items():
                if (i, play) in by_play:
                    yield Blocking(i, by_play[i, play], held_up, "evidence")
        for i in sorted(state.updates.in_order):
            waiting = state.updates.waiting(i)
            if waiting is not None:
                yield Blocking(i, *waiting, "updates")

    def blocked(self) -> Config | None:
        """Return the data of an event about the decision that holds up most rewards for longer than usual, if any.

        Its reward is past the deadline or, without one, older than the delay of 99 % of the rewards of this portfolio.
        """
        state, found = self._state, [each for each in self._blocking() if each.held_up >= MIN_REPORTED]
        round_, usual = state.tickets.round, state.history.usual_delay() if found else inf
        if state.settings.deadline is None:
            late, late_by = [each for each in found if round_ - each.ticket.round > usual], "later than 99 % of rewards"
        else:
            late, late_by = [each for each in found if state.tickets.is_overdue(each.ticket)], "past its deadline"
        if not late:
            return None
        i, ticket, held_up, what = max(late, key=lambda each: each.held_up)
        name, others = state.pool.members[i].name, len({each.ticket.round for each in late} - {ticket.round})
        more = f", as do others for {others:,} more decisions" if others else ""
        age = round_ - ticket.round
        sentence = (
            f"decision {ticket.id} of learner {name!r} has no reward after {age:,} rounds, {late_by}, "
            f"and {held_up:,} later rewards wait for it{more}: learn its reward, withdraw it, or set a deadline"
        )
        about = {"id": ticket.id, "name": name, "holds_up": held_up, "what": what}
        return {**about, **self._age(ticket), "others": others, "sentence": sentence}
