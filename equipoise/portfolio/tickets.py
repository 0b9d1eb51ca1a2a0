"""The ledger of open plays: decisions, their ids, the time, and how rewards become the reward of a decision.

A portfolio's own id is "EPOCH-ROUND". The epoch is random and drawn whenever a portfolio was created, loaded or copied
and then decides, so ids never repeat, even if a portfolio is loaded twice from one file. The portfolio knows the rounds
of each of its epochs, so it can tell a closed decision from an unknown one without remembering either. A caller may
give its own id instead. The portfolio then remembers the decision, and after it is closed for as long as it is among
the last `MAX_CLOSED_IDS` of these, so that a repeated request gets the same answer.

`OpenTickets` keeps all but the newest decisions as bytes, as they are saved: that takes a tenth of the memory, the
garbage collector has nothing to look into, and a snapshot has nothing left to do.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from math import inf, isnan, nan
from secrets import token_hex
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from equipoise.errors import DuplicateDecision, DuplicateReward, InvalidArgument, UnknownDecision
from equipoise.features import Offers
from equipoise.portfolio import old_forms
from equipoise.portfolio.clock import Clock, check_time
from equipoise.portfolio.held import HeldRewards
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.selector import Choice
from equipoise.storage.codec import KINDS as SAVED_KINDS
from equipoise.storage.codec import Encoded, decode_body, encode_body
from equipoise.storage.codec import digest as codec_digest
from equipoise.types import Action, Config, Context, Later, Outcome, Plain

RECENT = 256  # open decisions that are kept as objects
MIN_REMOVED = 64  # entries, before a dict is made again without gaps
EXACT = frozenset({NoneType, bool, int, float, str})  # types whose values are equal in every respect when read again
T = TypeVar("T")
MAX_CLOSED_IDS = 10_000  # closed decisions with a caller's id
MAX_EPOCHS = 1_000  # ids of earlier epochs count as unknown
MAX_ID_LENGTH = 200  # characters of a caller's id or key
EPOCH_BYTES = 8


def context_digest(context: Context) -> str:
    """Return the digest of a context: of what the caller gave, if a schema made it of features."""
    given = context.given_digest() if isinstance(context, Offers) else None
    return codec_digest(context) if given is None else given


def has_digest(context: Context, digest: str) -> bool:
    """Whether a digest is that of a context, or of the columns made of it, as earlier releases had it."""
    return digest in (context_digest(context), codec_digest(context))


class Decision(NamedTuple):
    """An action to take, and the id under which its reward is learned.

    Attributes
    ----------
    id
        The id of the decision, unique over restarts, copies and processes.
    action
        The action to take.
    learner
        Index of the learner that acts; None if no learner does (fallback, exploration floor).
    learner_name
        Name of that learner, unique in the portfolio; None if no learner acts.
    drawn
        Index of the learner that the selector drew, which gets the credit. It differs from `learner` if a substitute or
        the fallback acts for it. None if the round was drawn for no learner (exploration floor, or none can be drawn).
    learner_probability
        Probability with which `drawn` was drawn, before the context was seen; if that is None, the probability of a
        round that is drawn for no learner.
    action_probability
        Probability with which the acting learner then picked this action; nan if it cannot tell, or could tell by its
        `pmf` alone and the propensity was not asked for.
    propensity
        Probability of the action given the context, over everything that might have been drawn; nan if unknown.
        `Portfolio.health()` says why it is unknown.
    action_id
        Id of the action, if the offers have ids.
    pmf
        Probability of every action given the context, 0 where the mask excludes it, if it was asked for; None if not,
        or if it is unknown.
    """

    id: str
    action: Action
    learner: int | None
    learner_name: str | None
    drawn: int | None = None
    learner_probability: float = 1.0
    action_probability: float = nan
    propensity: float = nan
    action_id: str | None = None
    pmf: tuple[float, ...] | None = None

    def to_row(self) -> tuple[Plain, ...]:
        """Return the decision as data that an archive can hold."""
        return tuple(self) if self.pmf is not None else tuple(self)[:-1]

    @classmethod
    def of_event(cls, data: Mapping[str, Plain]) -> Self:
        """Return the decision that an event `decided` is about."""
        data, _ = old_forms.decided(data)
        made = data["id"], data["action"], data["learner"], data["name"], data["drawn"]
        of_learner, of_action, propensity = data["probabilities"]
        return cls(*made, of_learner, of_action, propensity, data["action_id"], optional_tuple(data.get("pmf")))


class Ticket:
    """An open decision. `reward` is nan until it is known; `updated` has the learners that have learned from it."""

    # Most tickets have only what `__init__` sets.
    id: str = ""
    epoch = 0  # of the selector, which begins a new one after drift
    offers: Offers | None = None  # what the context was turned into for learners with a feature map
    time = 0.0  # at which it was decided, if deadlines are in seconds
    regret = nan  # as proposed, or the width of the rewards for a substitute; nan if unknown
    plan: Plain = None  # of the proposal
    action_probability = nan
    propensity = nan
    given_proposals = nan  # probability of the action given all proposals, if its propensity is unknown
    learners_to_update: tuple[int, ...] | None = None  # if the selector decides which learners learn from it
    weight = 1.0  # of the round for the learner that acts, if learners learn from weighted rounds
    others: Mapping[int, Action] = MappingProxyType({})  # actions that learners which did not play learn with weight 0
    deferred = ""  # the name under which it is activated; empty if it counts
    outcome: Outcome = None
    reward = nan
    updated: tuple[int, ...] = ()
    unit = b""  # key of the unit that keeps the decision, if one does

    def __init__(
        self, round_: int, choice: Choice | None, context: Context, action: Action, learner: int | None
    ) -> None:
        self.round = round_
        self.choice = choice  # None: drawn for no learner
        self.learner = learner  # that acts; None if no learner does
        self.context = context
        self.action = action
        self.rewards: dict[str, float] = {}  # by key, if several rewards make one

    @property
    def drawn(self) -> int | None:
        """The learner that the round was drawn for, which gets the credit; None if there is none."""
        return None if self.choice is None else self.choice.learner

    @property
    def substituted(self) -> bool:
        """Whether a substitute or the fallback acts for the learner that was drawn."""
        return self.choice is not None and self.choice.learner != self.learner

    def __repr__(self) -> str:
        reward = "" if isnan(self.reward) else f", reward {self.reward:g}"
        return f"Ticket({self.id}, round {self.round}, learner {self.learner}, action {self.action!r:.40}{reward})"

    def to_row(self) -> Config:
        """Return the ticket as data that an archive can hold."""
        return {
            "id": self.id,
            "round": self.round,
            "epoch": self.epoch,
            "choice": None if self.choice is None else tuple(self.choice),
            "learner": self.learner,
            "weight": self.weight,
            "context": self.context,
            "action": None if callable(self.action) else self.action,  # a policy: learners learn from the outcome
            "time": self.time,
            "probabilities": (self.action_probability, self.propensity),
            "learners_to_update": self.learners_to_update,
            "others": sorted(self.others.items()),
            "regret": self.regret,
            "plan": self.plan,
            # A trajectory is saved as a plain tuple, which learners accept too.
            "outcome": tuple(self.outcome) if isinstance(self.outcome, tuple) else self.outcome,
            "reward": self.reward,
            "rewards": dict(self.rewards),
            "updated": sorted(self.updated),
            **({} if isnan(self.given_proposals) else {"given_proposals": self.given_proposals}),
            **({"deferred": self.deferred} if self.deferred else {}),
            **({"unit": self.unit} if self.unit else {}),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Plain]) -> Self:
        """Return the ticket that `to_row` described."""
        row = old_forms.ticket(row)
        choice = None if row["choice"] is None else Choice(*row["choice"])
        ticket = cls(row["round"], choice, row["context"], row["action"], row["learner"])
        ticket.id, ticket.epoch, ticket.time, ticket.weight = row["id"], row["epoch"], row["time"], row["weight"]
        ticket.action_probability, ticket.propensity = row["probabilities"]
        ticket.given_proposals, ticket.unit = row.get("given_proposals", nan), row.get("unit", b"")
        if row.get("deferred"):
            ticket.deferred = row["deferred"]
        ticket.others = dict(row["others"])
        ticket.learners_to_update = optional_tuple(row["learners_to_update"])
        ticket.regret, ticket.plan = row["regret"], row["plan"]
        ticket.outcome, ticket.reward = row["outcome"], row["reward"]
        ticket.rewards, ticket.updated = dict(row["rewards"]), tuple(row["updated"])
        return ticket


def optional_tuple(entries: Plain) -> tuple[Any, ...] | None:
    return None if entries is None else tuple(entries)


class Head(NamedTuple):
    """What is known of an open decision without reading all of it."""

    id: str
    round: int
    time: float
    learner: int | None  # that acts
    epoch: int
    drawn: int | None
    play: int  # of the learner that was drawn; 0 if there is none


# The fields of its head, and the encoded row. A plain tuple of these is nothing to the garbage collector.
Packed: TypeAlias = tuple[int, float, int | None, int, int | None, int, bytes]


class OpenTickets:
    """The open decisions by their ids, in the order of their rounds."""

    def __init__(self) -> None:
        self._tickets: dict[str, Ticket | Packed] = {}
        self._removed = 0  # since the dict has no gaps, which the search for the first entry would pass
        self._objects: dict[str, Ticket] = {}  # those that are not packed
        self._recent: deque[str] = deque()  # ids of objects, in the order in which they become bytes

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tickets)

    def __repr__(self) -> str:
        return f"OpenTickets({len(self)} decisions)"

    def add(self, ticket: Ticket) -> None:
        """Add a decision of a new round."""
        self._tickets[ticket.id] = self._objects[ticket.id] = ticket
        self._note(ticket.id)

    def _note(self, id_: str) -> None:
        recent = self._recent
        recent.append(id_)
        for _ in range(min(2, len(recent) - RECENT)):
            oldest = recent.popleft()
            ticket = self._objects.get(oldest)
            if ticket is not None and is_exact(ticket):
                self._tickets[oldest] = _packed(ticket.to_row())
                del self._objects[oldest]

    def get(self, id_: str) -> Ticket | None:
        """Return an open decision; changes of it are kept."""
        ticket = self._tickets.get(id_)
        if isinstance(ticket, tuple):
            ticket = self._tickets[id_] = self._objects[id_] = Ticket.from_row(decode_body(ticket[-1]))
            self._note(id_)
        return ticket

    def __getitem__(self, id_: str) -> Ticket:
        ticket = self.get(id_)
        if ticket is None:
            raise KeyError(id_)
        return ticket

    def remove(self, id_: str) -> None:
        del self._tickets[id_]
        self._objects.pop(id_, None)
        self._removed += 1
        if self._removed > MIN_REMOVED + len(self._tickets) // 16:
            self._tickets, self._removed = dict(self._tickets), 0

    def is_oldest(self, ticket: Ticket) -> bool:
        """Whether no decision of an earlier round is open."""
        return next(iter(self._tickets), None) == ticket.id

    def oldest(self) -> Head | None:
        """Return the head of the decision of the earliest round; None if none is open."""
        return next(self.heads(), None)

    def heads(self) -> Iterator[Head]:
        """Yield the heads of all decisions, the earliest round first."""
        for id_, ticket in self._tickets.items():
            yield Head(id_, *ticket[:-1]) if isinstance(ticket, tuple) else _head_of(ticket)

    def contexts(self) -> Iterator[Context]:
        """Yield the contexts of all decisions, the earliest round first; reads each."""
        for ticket in self._tickets.values():
            yield decode_body(ticket[-1])["context"] if isinstance(ticket, tuple) else ticket.context

    def objects(self) -> list[Ticket]:
        """Return the decisions that are kept as objects."""
        return list(self._objects.values())

    def frozen(self) -> Later:
        """Return all decisions as rows that an archive can hold, made later."""
        rows = {id_: ticket.to_row() for id_, ticket in self._objects.items()}
        return Later(partial(_saved, list(self._tickets.values()), rows))

    def frozen_of(self, rounds: Iterable[int]) -> Later:
        """Return the rows of these rounds by round, made later."""
        return Later(partial(_by_round, self.frozen(), list(self._tickets.values()), frozenset(rounds)))

    def restore(self, rows: Iterable[Mapping[str, Plain]], keep: Collection[int] = ()) -> None:
        """Load saved rows; the decisions of the rounds in `keep` stay the same objects until they are closed."""
        self._tickets, self._objects, self._recent, self._removed = {}, {}, deque(), 0
        for saved in rows:
            row = old_forms.ticket(saved)
            kept = row["round"] in keep or not _is_exact_row(row)
            if kept:
                self._tickets[row["id"]] = self._objects[row["id"]] = Ticket.from_row(row)
            else:
                self._tickets[row["id"]] = _packed(row)


def _saved(tickets: Iterable[Ticket | Packed], rows: Mapping[str, Config]) -> list[Config | Encoded]:
    """Return packed decisions as they are, and of the other ones these rows."""
    return [Encoded(ticket[-1]) if isinstance(ticket, tuple) else rows[ticket.id] for ticket in tickets]


def _by_round(rows: Later, tickets: Iterable[Ticket | Packed], rounds: Collection[int]) -> dict[int, Config | Encoded]:
    numbered = (
        (each[0] if isinstance(each, tuple) else each.round, row)
        for each, row in zip(tickets, rows.make(), strict=True)
    )
    return {round_: row for round_, row in numbered if round_ in rounds}


def _packed(row: Mapping[str, Plain]) -> Packed:
    drawn, play, *_ = row["choice"] or (None, 0)
    return row["round"], row["time"], row["learner"], row["epoch"], drawn, play, encode_body(row)


def _head_of(ticket: Ticket) -> Head:
    drawn, play, *_ = ticket.choice or (None, 0)
    return Head(ticket.id, ticket.round, ticket.time, ticket.learner, ticket.epoch, drawn, play)


def is_exact(ticket: Ticket) -> bool:
    """Whether a ticket is equal in every respect when it is read again."""
    values = [ticket.context, ticket.action, ticket.plan, ticket.outcome, *ticket.others.values()]
    return all([_reads_exactly(value) for value in values])


def _is_exact_row(row: Mapping[str, Plain]) -> bool:
    values = [row["context"], row["action"], row["plan"], row["outcome"], *(action for _, action in row["others"])]
    return all([_reads_exactly(value) for value in values])


def _reads_exactly(value: object) -> bool:
    kind = type(value)
    return kind in EXACT or kind is Offers or (kind is np.ndarray and value.dtype.kind in SAVED_KINDS)  # type: ignore[attr-defined]


class OwnIds:
    """The ids that a portfolio gives out."""

    def __init__(self) -> None:
        self._epoch: str | None = None  # drawn with the first decision
        self._rounds: dict[str, list[int]] = {}  # first and last round of each epoch

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_epoch": None}  # a copy must not give out the ids of the original

    def next(self, round_: int) -> str:
        """Return the id of the decision of a round."""
        if self._epoch is None:
            self._begin(token_hex(EPOCH_BYTES), round_)
        epoch = self._epoch
        self._rounds[epoch][1] = round_  # type: ignore[index]  # set by `_begin`
        return f"{epoch}-{round_}"

    def _begin(self, epoch: str, round_: int) -> None:
        self._epoch = epoch
        self._rounds[epoch] = [round_, round_]
        if len(self._rounds) > MAX_EPOCHS:
            del self._rounds[next(iter(self._rounds))]

    def end_epoch(self) -> None:
        """Begin an epoch with the next id."""
        self._epoch = None

    def record(self, id_: str) -> None:
        """Note an id that was given out according to a log."""
        epoch, _, number = id_.rpartition("-")
        if epoch not in self._rounds:
            self._begin(epoch, int(number))
        self._rounds[epoch][1] = int(number)

    def round_of(self, id_: str) -> int | None:
        """Return the round of an id that this portfolio gave out; None if it did not."""
        epoch, _, number = id_.rpartition("-")
        first, last = self._rounds.get(epoch, (1, 0))
        return int(number) if number.isdecimal() and first <= int(number) <= last else None

    def reserves(self, id_: str) -> bool:
        """Whether this is an id that this portfolio gave out, or may give out later."""
        epoch, _, number = id_.rpartition("-")
        return epoch in self._rounds and number.isdecimal()

    def state(self) -> list[Plain]:
        return [(epoch, *rounds) for epoch, rounds in self._rounds.items()]

    def restore(self, state: list[Plain]) -> None:
        self._epoch = None
        self._rounds = {epoch: [first, last] for epoch, first, last in state}


class Remembered(NamedTuple):
    """A decision under a caller's id, the digest of its context, and its round."""

    digest: str
    decision: Decision
    round: int


class CallerIds:
    """Decisions under ids that callers gave: open ones, and the newest of the closed ones."""

    def __init__(self) -> None:
        self._open: dict[str, Remembered] = {}
        self._closed: OrderedDict[str, Remembered] = OrderedDict()

    def round_of(self, id_: str) -> int | None:
        """Return the round of a decision that is remembered."""
        remembered = self._open.get(id_) or self._closed.get(id_)
        return None if remembered is None else remembered.round

    def find(self, id_: str, context: Context, digest: str) -> Decision | None:
        """Return the decision that was made under this id, if any; raise an error if its context was another."""
        remembered = self._open.get(id_) or self._closed.get(id_)
        if remembered is None:
            return None
        if remembered.digest != digest and not has_digest(context, remembered.digest):
            raise DuplicateDecision(f"id {id_!r} was used for a decision with another context, but must be unique")
        return remembered.decision

    def remember(self, digest: str, decision: Decision, round_: int) -> None:
        self._open[decision.id] = Remembered(digest, decision, round_)

    def close(self, id_: str) -> None:
        """Move a closed decision to the window, and forget the oldest one if the window is full."""
        if self._open and id_ in self._open:
            self._closed[id_] = self._open.pop(id_)
            if len(self._closed) > MAX_CLOSED_IDS:
                self._closed.popitem(last=False)

    def frozen(self) -> Later:
        """Return the rows of a saved state, made later."""
        return Later(partial(_rows, list(self._open.values()), list(self._closed.values())))

    def restore(self, rows: list[Plain]) -> None:
        self._open, self._closed = {}, OrderedDict()
        for is_open, digest, decision, round_ in rows:
            remembered = Remembered(digest, Decision(*old_forms.decision(decision)), round_)
            (self._open if is_open else self._closed)[remembered.decision.id] = remembered


def _rows(opened: list[Remembered], closed: list[Remembered]) -> list[Plain]:
    rows = [*((True, each) for each in opened), *((False, each) for each in closed)]
    return [(is_open, digest, decision.to_row(), round_) for is_open, (digest, decision, round_) in rows]


@dataclass(slots=True)
class Counts:
    """Numbers of rounds and rewards that took another way than from a learner's play to its reward."""

    unplayed: int = 0  # rounds that were drawn for no learner: exploration floor, or no learner can be drawn
    fallbacks: int = 0  # rounds in which the fallback acted
    withdrawn: int = 0  # rounds that did not happen
    expired: int = 0  # decisions that reached their deadline
    ignored: int = 0  # rewards that arrived after it
    replayed: int = 0  # rounds that were played from a log, by rejection
    clipped: int = 0  # rewards that were outside of the range and count as its nearer end


class Tickets:
    """All open decisions, in the order of their rounds, with the time and the ids of a portfolio."""

    def __init__(self, settings: PortfolioSettings) -> None:
        self.settings = settings
        self.open = OpenTickets()
        self.ids, self.callers = OwnIds(), CallerIds()
        self.round = 0  # rounds decided, withdrawn ones included
        self.expired_round = 0  # the last round that expired
        self.time = 0.0  # of the last call; never goes backwards
        self.timed = False  # whether any call had a time
        self.clock = Clock()
        # Seconds that do not count toward the ages of all decisions up to a round.
        self.extensions: list[tuple[int, float]] = []
        self.held = HeldRewards(self)
        self.deferred: dict[str, list[str]] = {}  # ids of open decisions, by the name under which they are activated

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "clock"}  # of this machine

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.clock = Clock()

    def stamp(self) -> None:
        """Let decisions that were made without reading a clock wait from now on, if the deadline is in seconds."""
        if self.open and not self.timed and isinstance(self.settings.deadline, float):
            now = self.admit(None, timed=True)
            for id_ in list(self.open):
                self.open[id_].time = now

    def admit(self, at: float | None, *, timed: bool) -> float:
        """Return the time of a call, which never goes backwards; read the clock only if `timed`."""
        if at is None:
            if not timed and not isinstance(self.settings.deadline, float) and self.settings.sticky is None:
                return self.time
            at = self.clock.now(self.time)
        self.time, self.timed = max(self.time, check_time(at)), True
        return self.time

    def moment(self, at: float | None) -> float:
        """Return the time that a call has, which changes nothing yet."""
        return self.clock.now(self.time) if at is None else max(self.time, check_time(at))

    def now(self) -> float:
        """Return the time of the last call or, if calls have no times, of the clock."""
        return self.time if self.timed else self.clock.now()

    def is_overdue(self, ticket: Ticket | Head, *, extended: bool = True) -> bool:
        """Whether the deadline of a decision has passed, as it is or as it was before it was extended."""
        return self.is_past_deadline(ticket.round, ticket.time, extended=extended)

    def is_past_deadline(self, round_: int, time: float, *, extended: bool = True) -> bool:
        """Whether the deadline of a decision has passed, which was made in this round at this time."""
        deadline = self.settings.deadline
        if deadline is None:
            return False
        if not isinstance(deadline, float):
            return round_ + deadline < self.round
        if extended and self.extensions:
            time += self._extension(round_)
        return time + deadline < self.time

    def extend_deadlines(self, seconds: float) -> None:
        """Let the last seconds not count toward deadlines and ages."""
        oldest = self.oldest()
        first = min(self.round if oldest is None else oldest.round, self.held.first_round)
        self.extensions = [*(each for each in self.extensions if each[0] >= first), (self.round, seconds)]

    def _extension(self, round_: int) -> float:
        """Return the seconds that do not count toward the age of a decision."""
        return sum(seconds for last, seconds in self.extensions if round_ <= last)

    def n_extended(self) -> int:
        """Return the number of open decisions whose deadline was extended."""
        last = max((last for last, _ in self.extensions), default=0)
        return sum(1 for _ in takewhile(lambda head: head.round <= last, self.open.heads()))

    def age(self, round_: int, time: float) -> float:
        """Return the age of a decision, in seconds if the deadline is in seconds, else in rounds."""
        if not isinstance(self.settings.deadline, float):
            return self.round - round_
        return self.time - time - (self._extension(round_) if self.extensions else 0.0)

    def first_overdue(self) -> float:
        """Return the round of the earliest open decision if it is overdue, else inf."""
        oldest = self.oldest()
        return oldest.round if oldest is not None and self.is_overdue(oldest) else inf

    def oldest(self) -> Head | None:
        return self.open.oldest()

    def find(self, decision: Decision | str) -> Ticket | None:
        """Return the open ticket of a decision; None if there is none. Raise an error if they do not match."""
        id_ = id_of(decision)
        ticket = self.open.get(id_)
        if ticket is not None and isinstance(decision, Decision) and not _matches(decision, ticket):
            raise InvalidArgument(f"decision {id_} has another learner or action than the one that was made")
        return ticket

    def find_open(self, decision: Decision | str) -> Ticket:
        """Return the open ticket of a decision; raise an error if there is none."""
        ticket = self.find(decision)
        if ticket is None:
            raise self.reason_closed(id_of(decision))
        return ticket

    def remembered(self, id_: object, context: Context) -> tuple[Decision | None, str]:
        """Return the decision made under a caller's id, if any, and the digest of the context."""
        id_ = check_id("id", id_)
        if self.ids.reserves(id_):
            raise InvalidArgument(f"id is {id_!r}, but must not be one of the portfolio's own ids")
        digest = context_digest(context)
        return self.callers.find(id_, context, digest), digest

    def round_of(self, id_: str) -> int | None:
        """Return the round of a decision of this portfolio, open or closed; None if there is no such decision."""
        round_ = self.ids.round_of(id_)
        return self.callers.round_of(id_) if round_ is None else round_

    def reason_closed(self, id_: str) -> UnknownDecision:
        """Return the error that says why a decision has no open ticket."""
        if self.round_of(id_) is not None:
            return DuplicateReward(f"decision {id_} already has its reward, was withdrawn or is past its deadline")
        return UnknownDecision(f"decision {id_} was never made, or was made before this portfolio was saved")

    def has_expired(self, id_: str) -> bool:
        """Whether a decision without a ticket is past its deadline."""
        round_ = self.round_of(id_)
        return round_ is not None and round_ <= self.expired_round

    def close(self, ticket: Ticket) -> None:
        self.open.remove(ticket.id)
        self.callers.close(ticket.id)
        if ticket.deferred:
            self.activate(ticket)

    def defer(self, id_: str, name: str) -> None:
        """Note that a decision waits to be activated under a name."""
        self.deferred.setdefault(name, []).append(id_)

    def activate(self, ticket: Ticket) -> None:
        """Let a deferred decision wait no longer."""
        others = self.deferred[ticket.deferred]
        others.remove(ticket.id)
        if not others:
            del self.deferred[ticket.deferred]
        ticket.deferred = ""

    def frozen(self) -> Config:
        """Return the state as it is now, with entries that are made later."""
        return {
            "round": self.round,
            "expired_round": self.expired_round,
            "time": self.time,
            "ids": self.ids.state(),
            "callers": self.callers.frozen(),
            "open": self.open.frozen(),
            "held": self.held.frozen(),
            **({"extensions": list(self.extensions)} if self.extensions else {}),
        }

    def restore(self, state: Config, keep: Collection[int] = ()) -> None:
        """Load a saved state; tickets of the rounds in `keep` stay the same objects until they are closed."""
        self.round, self.expired_round, self.time = state["round"], state["expired_round"], state["time"]
        self.timed = self.time != 0.0
        self.ids.restore(state["ids"])
        self.callers.restore(state["callers"])
        self.open.restore(state["open"], keep)
        self.deferred = {}
        for row in state["open"]:
            if row.get("deferred"):
                self.defer(row["id"], row["deferred"])
        self.extensions = [(last, seconds) for last, seconds in state.get("extensions", ())]
        if "held" in state:  # not in files of the first format
            self.held.restore(state["held"])


def check_id(name: str, id_: object) -> str:
    """Return a caller's id."""
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID_LENGTH or not id_.isprintable():
        raise InvalidArgument(
            f"{name} is {id_!r:.80}, but must be a printable string of 1 to {MAX_ID_LENGTH} characters"
        )
    return id_


def id_of(decision: object) -> str:
    """Return the id of a decision, or the id itself."""
    id_ = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(id_, str):
        raise InvalidArgument(f"decision is {id_!r:.80}, but must be a Decision or its id")
    return id_


def _matches(decision: Decision, ticket: Ticket) -> bool:
    given, made, context = decision.action, ticket.action, ticket.context
    if decision.action_id is not None and isinstance(context, Offers) and context.ids is not None:
        return decision.learner == ticket.learner and decision.action_id == context.ids[made]
    if type(given) is int and type(made) is int:
        return given == made and decision.learner == ticket.learner
    return decision.learner == ticket.learner and (callable(given) or np.array_equal(given, made))


def check_key(ticket: Ticket, key: object) -> str:
    """Return the key of a further reward of a decision; raise an error if a reward with this key has arrived."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_ID_LENGTH or not key.isprintable():
        rule = f"needs a nonempty string of its own, printable and of at most {MAX_ID_LENGTH} characters"
        raise InvalidArgument(f"key is {key!r:.80}, but every reward of a decision {rule}")
    if key in ticket.rewards:
        raise DuplicateReward(f"decision {ticket.id} already has the reward with key {key!r}")
    return key
