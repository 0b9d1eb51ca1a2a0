"""A portfolio in the service, with the memory that repeated requests and the dashboard need.

A portfolio refuses a second reward for a decision. Over a network it may be the first request repeated, however late:
the same request then gets the same answer, and another one under the same id is an error. Recent rewards and
withdrawals are remembered here; older ones are looked up in the journal, if any. Operations use a `Hosted` in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from equipoise.errors import DuplicateDecision, DuplicateReward, UnknownDecision
from equipoise.features import Offers
from equipoise.features.offers import as_offers
from equipoise.portfolio import Decision, Event, Portfolio, text
from equipoise.portfolio.slates import another_size, slot_id, without
from equipoise.portfolio.tickets import has_digest
from equipoise.portfolio.updates import size_of
from equipoise.serve.failures import LateReward, TooManyOpen
from equipoise.types import Config, Context

MAX_SETTLED = 50_000  # rewards and withdrawals that are remembered, at least; at most twice as many
MAX_EXPIRED = 1_000  # decisions that one call closes
FIRST_DECISIONS, LOST_AFTER = 100, 1_000
MAX_OPEN = 100_000  # decisions that wait for their rewards
BYTES_PER_OPEN = 10 << 10  # of a decision that waits, on average, unless a service states another limit
MAX_SHARE = 0.5  # of both limits, for one of several tokens
MAX_KEPT_ROWS = 1 << 12  # bytes of features and of maps of them; of larger contexts only the features are kept
Find = Callable[[str], Sequence[Event]]  # the durable events of a decision
Latest = Callable[[str], Sequence[Event]]  # the newest durable events of a kind
K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The newest entries of a dict: at least `size` of them, at most twice as many.

    Two dicts take turns, which takes less memory than an ordered dict; docs/architecture.md has the figures.

    >>> recent = Recent(2)
    >>> for k in range(5):
    ...     recent[k] = str(k)
    >>> [recent.get(k) for k in range(5)], len(recent)
    ([None, None, '2', '3', '4'], 3)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def __contains__(self, key: K) -> bool:
        return key in self._new or key in self._old

    def __setitem__(self, key: K, value: V) -> None:
        if len(self._new) >= self._size:
            self._old, self._new = self._new, {}
        self._new[key] = value

    def get(self, key: K) -> V | None:
        return self._new[key] if key in self._new else self._old.get(key)


class Limits(NamedTuple):
    """How many decisions of a portfolio may wait for rewards, and how many bytes they and rewards behind them take.

    One token can use `share` of both.
    """

    decisions: int = MAX_OPEN
    bytes: int = MAX_OPEN * BYTES_PER_OPEN
    share: float = 1.0


class Waiting(NamedTuple):
    """An open decision: the learner that acted, about how many bytes it takes, and the token that asked for it."""

    learner: int | None
    size: int
    token: str


class Arrivals:
    """The open decisions of a portfolio, and number and sum of the rewards of each learner, from the events.

    They count all rewards that arrived, in any order. The reward at the start is the mean over the first decisions. It
    is known when all of them have their reward, or when so many later ones were made that the missing rewards are lost:
    good rewards often come sooner than bad ones.
    """

    def __init__(self, portfolio: Portfolio) -> None:
        self._portfolio = portfolio
        # Of open decisions: an event of a reward does not name the learner.
        self._open: dict[object, Waiting] = {}
        self.bytes = 0  # of the open decisions
        self._tokens: dict[str, list[int]] = {}  # decisions and bytes of each token since the start
        self.token = ""  # that asks for the present decision
        for id_, (acted, context) in portfolio.open_decisions().items():
            self._add(id_, Waiting(acted, size_of(context), ""))
        self._totals: dict[int, list[float]] = {}
        self._decisions = 0
        self._first: set[object] = set()  # first decisions that have no reward yet
        self._first_totals = [0.0, 0.0]
        portfolio.on_event(self._see)

    def _see(self, event: Event) -> None:
        kind, data = event.kind, event.data
        if kind == "decided":
            self._add(data["id"], Waiting(data["learner"], size_of(data["context"]), self.token))
            self._decisions += 1
            if self._decisions <= FIRST_DECISIONS:
                self._first.add(data["id"])
        elif (kind == "rewarded" and data.get("part") is None) or kind == "expired":
            learner = self._remove(data["id"])
            if learner is not None:
                _add(self._totals.setdefault(learner, [0.0, 0.0]), 1.0, data["reward"])
            if data["id"] in self._first:
                self._first.discard(data["id"])
                _add(self._first_totals, 1.0, data["reward"])
        elif kind == "withdrawn":
            self._remove(data["id"])
            self._first.discard(data["id"])

    def _add(self, id_: object, waiting: Waiting) -> None:
        self._open[id_] = waiting
        self._count(waiting, 1)

    def _remove(self, id_: object) -> int | None:
        waiting = self._open.pop(id_, None)
        if waiting is None:
            return None
        self._count(waiting, -1)
        return waiting.learner

    def _count(self, waiting: Waiting, sign: int) -> None:
        self.bytes += sign * waiting.size
        if waiting.token:
            held = self._tokens.setdefault(waiting.token, [0, 0])
            held[0] += sign
            held[1] += sign * waiting.size
            if not held[0]:
                del self._tokens[waiting.token]

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._open

    def excess(self, context: Context, limits: Limits, token: str, rounds: int = 1) -> str:
        """Return which limit some more decisions in a context exceed; empty if none."""
        size, portfolio = rounds * size_of(context), self._portfolio
        taken = self.bytes + portfolio.waiting_bytes + portfolio.units_bytes
        if len(self._open) + rounds > limits.decisions:
            return TOO_MANY.format(limits.decisions)
        if taken + size > limits.bytes:
            return TOO_LARGE.format(taken, size, limits.bytes)
        if token and limits.share < 1.0:
            decisions, used = self._tokens.get(token, (0, 0))
            if decisions + rounds > limits.share * limits.decisions or used + size > limits.share * limits.bytes:
                return TOO_MANY_OF_TOKEN.format(decisions, token, used, limits.share)
        return ""

    def of(self, learner: int) -> tuple[float, float]:
        """Number and sum of the rewards that arrived."""
        n, total = self._totals.get(learner, (0.0, 0.0))
        return n, total

    @property
    def start(self) -> tuple[float, float] | None:
        """Number and sum of the rewards of the first decisions; None as long as it is too early to tell."""
        is_known = self._decisions >= FIRST_DECISIONS and (not self._first or self._decisions >= LOST_AFTER)
        n, total = self._first_totals
        return (n, total) if is_known and n else None

    def resume(self, totals: Iterable[tuple[float, float]]) -> None:
        """Continue from the totals of an earlier run, by learner."""
        for learner, (n, total) in enumerate(totals):
            _add(self._totals.setdefault(learner, [0.0, 0.0]), n, total)


def _add(totals: list[float], n: float, total: float) -> None:
    totals[0] += n
    totals[1] += total


class Hosted:
    """A portfolio in the service; `find` and `latest` look up durable events. By default there are none."""

    def __init__(self, portfolio: Portfolio, find: Find = lambda id_: (), latest: Latest = lambda kind: ()) -> None:
        self.portfolio, self.find, self.latest = portfolio, find, latest
        self.time = 0.0  # of the operation, in seconds
        self._late = False  # whether the last reward came after its deadline
        self._settled: Recent[str | tuple[str, str], float | None] = Recent(MAX_SETTLED)  # None: withdrawn
        portfolio.on_event(self._on_event)
        self.arrivals = Arrivals(portfolio)

    def _on_event(self, event: Event) -> None:
        if event.kind == "ignored":
            self._late = True
        elif event.kind in ("rewarded", "withdrawn"):
            data = event.data
            self._settled[_key(data["id"], data.get("part"))] = data.get("reward")

    def decide(
        self,
        context: Context,
        id_: str | None,
        limits: Limits = Limits(),  # noqa: B008 - a value that never changes
        available: list[str] | None = None,
        token: str = "",
        unit: str | None = None,
        *,
        pmf: bool = False,
        deferred: str = "",
    ) -> Decision:
        """Decide a round, once if it has a caller's id, and unless too much waits for rewards.

        A unit that keeps a decision gets it again, unless the id has another one.
        """
        if id_ is not None and (made := self._made(id_)) is not None:
            return _repeated(made, context)
        earlier = self.portfolio.kept_decision(context, unit, id=id_, available=available, at=self.time)
        if earlier is not None:
            return earlier
        self._make_room(context, limits, token)
        try:
            return self.portfolio.decide(
                context, id=id_, available=available, at=self.time, unit=unit, pmf=pmf, deferred=deferred
            )
        finally:
            self._note_decided(context)

    def slate(
        self,
        context: Context,
        k: int,
        id_: str | None,
        limits: Limits = Limits(),  # noqa: B008
        available: list[str] | None = None,
        token: str = "",
        unit: str | None = None,
    ) -> Sequence[Decision]:
        """Decide the slots of a slate, as `decide` does a round."""
        context = as_offers(context)
        ids = [None if id_ is None else slot_id(id_, slot) for slot in range(1, k + 2)]
        made = [None if each is None else self._made(each) for each in ids]
        if id_ is not None and unit is None and any(made) and (None in made[:k] or made[k] is not None):
            raise another_size(id_)
        earlier = self._earlier_slots(context, ids[:k], made, available, unit)
        if len(earlier) < k:
            self._make_room(context, limits, token, k)
        elif any(made):  # the portfolio may have forgotten them
            return earlier
        try:
            return self.portfolio.slate(context, k, id=id_, available=available, at=self.time, unit=unit)
        finally:
            self._note_decided(context)

    def _made(self, id_: str) -> Event | None:
        """Return the durable event in which the decision of an id was made, if any."""
        return next((event for event in self.find(id_) if event.kind == "decided"), None)

    def _earlier_slots(
        self,
        context: Offers,
        ids: Sequence[str | None],
        made: Sequence[Event | None],
        available: list[str] | None,
        unit: str | None,
    ) -> list[Decision]:
        """Return the first slots of a slate as they are already decided, each under its id or kept by the unit."""
        earlier = list[Decision]()
        for slot, (id_, event) in enumerate(zip(ids[: context.n_offered], made, strict=False), start=1):
            offers = context if slot == 1 else without(context, [each.action for each in earlier])
            if event is None:
                options: Config = {"id": id_, "available": available, "at": self.time, "slot": slot}
                decision = self.portfolio.kept_decision(offers, unit, **options)
            else:
                decision = _repeated(event, offers)
            if decision is None:
                break
            earlier.append(decision)
        return earlier

    def _make_room(self, context: Context, limits: Limits, token: str, rounds: int = 1) -> None:
        """Note the token that asks for rounds; close overdue decisions if these are too many, or raise an error."""
        if self.arrivals.excess(context, limits, token, rounds):
            self.expire(MAX_EXPIRED)
            excess = self.arrivals.excess(context, limits, token, rounds)
            if excess:
                raise TooManyOpen(excess)
        self.arrivals.token = token

    def _note_decided(self, context: Context) -> None:
        """Forget who asked, and keep no more of the context than is needed."""
        self.arrivals.token = ""
        if isinstance(context, Offers) and context.nbytes > MAX_KEPT_ROWS:
            context.forget_rows()

    def reward(self, id_: str, reward: float, key: str | None) -> None:
        """Learn a reward, once."""
        if (known := _key(id_, key)) in self._settled:
            self._check_same(id_, self._settled.get(known), reward)
            return
        # A portfolio does not know for long how a decision was closed, but the journal does.
        if id_ not in self.arrivals and (ends := self._ends(id_, key)) and ends[0].kind != "expired":
            self._check_same(id_, ends[0].data.get("reward"), reward)
            return
        self._late = False
        try:
            self.portfolio.learn(id_, reward, key=key, at=self.time)
        except UnknownDecision:
            ends = self._ends(id_, key)
            if not ends:
                raise
            if ends[0].kind == "expired":
                raise LateReward(LATE.format(id_)) from None
            self._check_same(id_, ends[0].data.get("reward"), reward)
            return
        if self._late:
            raise LateReward(LATE.format(id_))

    def _ends(self, id_: str, key: str | None) -> list[Event]:
        """Return the durable events by which a decision, or this reward of several, was settled."""
        settling = (event for event in self.find(id_) if event.kind in ("rewarded", "withdrawn", "expired"))
        return [event for event in settling if (event.data.get("part") or None) == key]

    def _check_same(self, id_: str, earlier: float | None, reward: float) -> None:
        """Raise an error if a reward counts as another number than the one that a decision has."""
        if earlier is None:
            raise DuplicateReward(f"decision {id_} was withdrawn")
        if self.portfolio.counted(earlier) != self.portfolio.counted(reward):  # one that waits is not clipped yet
            raise DuplicateReward(f"decision {id_} has the reward {earlier!r}, but another one was given")

    def withdraw(self, id_: str) -> None:
        """Withdraw a decision, once."""
        try:
            self.portfolio.withdraw(id_)
        except UnknownDecision:
            if id_ in self._settled:
                withdrawn = self._settled.get(id_) is None
            else:
                withdrawn = any(event.kind == "withdrawn" for event in self.find(id_))
            if not withdrawn:
                raise

    def expire(self, limit: int) -> int:
        return self.portfolio.expire(limit, at=self.time)

    def expire_extended(self, limit: int) -> int:
        """Close the decisions that would be overdue if their deadlines had not been extended."""
        return self.portfolio.expire(limit, at=self.time, extended=False)

    def status(self) -> Config:
        statements = self.portfolio.statements()
        held = {"open_bytes": self.arrivals.bytes, "units_bytes": self.portfolio.units_bytes}
        health = {**self.portfolio.health(), **held}
        return {**statements.to_json(), "health": health, "description": text.describe(statements)}


TOO_MANY = "{} decisions wait for their rewards, which is the maximum: reward or withdraw some, or set a deadline"
TOO_LARGE = (
    "decisions that wait for their rewards or that units keep, and rewards behind missing ones, take {} bytes and this "
    "one {}, but must take at most {} in all: reward or withdraw some, or set a deadline or a shorter sticky"
)
TOO_MANY_OF_TOKEN = (
    "{} decisions for token {!r} wait for their rewards and take {} bytes, but one of several tokens can use {:.0%} of "
    "the limits at most: reward or withdraw some, or set a deadline"
)
LATE = "decision {} was past its deadline when the reward arrived, so it was not learned"


def _key(id_: str, part: str | None) -> str | tuple[str, str]:
    """Return the key under which a reward is remembered; none for most, empty for one that waits for an activation."""
    return (id_, part) if part else id_


def _repeated(event: Event, context: Context) -> Decision:
    """The decision of a durable event, if its context was this one, or was removed."""
    data = event.data
    if data["digest"] is not None and not has_digest(context, data["digest"]):
        raise DuplicateDecision(f"id {data['id']!r} was used for a decision with another context, but must be unique")
    return Decision.of_event(data)
