"""A portfolio with what the service remembers beside it, used by one operation at a time.

A portfolio refuses a second reward for a decision, and forgets closed decisions of callers after a while. Over a
network the second request may be the first one repeated, however late: the same request then gets the same answer, and
another one under the same id is an error. What happened lately is remembered here; the rest is looked up in the
journal, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from equipoise.errors import DuplicateDecision, DuplicateReward, UnknownDecision
from equipoise.portfolio import Decision, Event, Portfolio
from equipoise.portfolio.ids import context_digest
from equipoise.serve.dashboard.arrivals import Arrivals
from equipoise.serve.failures import LateReward, TooManyOpen
from equipoise.serve.recent import Recent
from equipoise.types import Config, Context

REMEMBERED = 50_000  # rewards and withdrawals, at least; at most twice as many
EXPIRED_AT_ONCE = 1_000
MAX_OPEN = 100_000  # decisions that wait for their rewards
Find = Callable[[str], Sequence[Event]]  # the durable events of a decision
Latest = Callable[[str], Sequence[Event]]  # the newest durable events of a kind


class Hosted:
    """A portfolio in the service.

    Parameters
    ----------
    portfolio
        The portfolio.
    find
        Looks up the durable events of a decision. Default: there are none.
    latest
        Looks up the newest durable events of a kind. Default: there are none.
    """

    def __init__(self, portfolio: Portfolio, find: Find = lambda id_: (), latest: Latest = lambda kind: ()) -> None:
        self.portfolio, self._find, self.latest = portfolio, find, latest
        self.time = 0.0  # of the operation, in seconds
        self._late = False  # whether the last reward came after its deadline
        self._settled: Recent[str | tuple[str, str], float | None] = Recent(REMEMBERED)  # None: withdrawn
        portfolio.on_event(self._on_event)
        self.arrivals = Arrivals(portfolio)

    def _on_event(self, event: Event) -> None:
        if event.kind == "rewarded":
            self._remember(event)
        elif event.kind == "ignored":
            self._late = True
        elif event.kind == "withdrawn":
            self._remember(event)

    def _remember(self, event: Event) -> None:
        data = event.data
        self._settled[_key(data["id"], data.get("part"))] = data.get("reward")

    def decide(self, context: Context, id_: str | None, max_open: int = MAX_OPEN) -> Decision:
        """Decide a round, once if it has a caller's id, and unless so many decisions wait for their rewards."""
        if id_ is not None:
            for event in self._find(id_):
                if event.kind == "decided":
                    return _repeated(event, context)
        if len(self.portfolio._open) >= max_open:
            self._make_room(id_, max_open)
        return self.portfolio.decide(context, id=id_, at=self.time)

    def _make_room(self, id_: str | None, max_open: int) -> None:
        """Close overdue decisions; raise an error if that is not enough and the request is not a repeated one."""
        portfolio = self.portfolio
        portfolio.expire(EXPIRED_AT_ONCE, at=self.time)
        is_repeated = id_ is not None and portfolio._callers.round_of(id_) is not None
        if len(portfolio._open) >= max_open and not is_repeated:
            raise TooManyOpen(TOO_MANY.format(max_open))

    def reward(self, id_: str, reward: float, key: str | None) -> None:
        """Learn a reward, once."""
        if (known := _key(id_, key)) in self._settled:
            _check_same(id_, self._settled.get(known), reward)
            return
        self._late = False
        try:
            self.portfolio.learn(id_, reward, key=key, at=self.time)
        except UnknownDecision:
            earlier = [event for event in self._find(id_) if event.kind in ("rewarded", "withdrawn", "expired")]
            matching = [event for event in earlier if event.data.get("part") == key]
            if not matching:
                raise
            if matching[0].kind == "expired":
                raise LateReward(LATE.format(id_)) from None
            _check_same(id_, matching[0].data.get("reward"), reward)
            return
        if self._late:
            raise LateReward(LATE.format(id_))

    def withdraw(self, id_: str) -> None:
        """Withdraw a decision, once."""
        try:
            self.portfolio.withdraw(id_)
        except UnknownDecision:
            if id_ in self._settled:
                withdrawn = self._settled.get(id_) is None
            else:
                withdrawn = any(event.kind == "withdrawn" for event in self._find(id_))
            if not withdrawn:
                raise

    def trail(self, id_: str) -> Sequence[Event]:
        """The durable events of a decision."""
        return self._find(id_)

    def expire(self, limit: int) -> int:
        """Give overdue decisions their default reward."""
        return self.portfolio.expire(limit, at=self.time)

    def status(self) -> Config:
        portfolio = self.portfolio
        return {**portfolio.to_json(), "health": portfolio.health(), "description": portfolio.describe()}

    def eliminations(self) -> list[Config]:
        """The proofs of all eliminations so far; none if the selector keeps none."""
        return self.portfolio.records()


TOO_MANY = "{} decisions wait for their rewards, which is the maximum: reward or withdraw some, or set a deadline"
LATE = "decision {} was past its deadline when the reward arrived, so it was not learned"


def _key(id_: str, part: str | None) -> str | tuple[str, str]:
    """Under what a reward is remembered; most are not one of several."""
    return id_ if part is None else (id_, part)


def _check_same(id_: str, earlier: float | None, reward: float) -> None:
    if earlier is None:
        raise DuplicateReward(f"decision {id_} was withdrawn")
    if earlier != reward:
        raise DuplicateReward(f"decision {id_} has the reward {earlier!r}, but another one was given")


def _repeated(event: Event, context: Context) -> Decision:
    """The decision of a durable event, if its context was this one."""
    data = event.data
    if data["digest"] != context_digest(context):
        raise DuplicateDecision(f"id {data['id']!r} was used for a decision with another context, but must be unique")
    of_learner, of_action, propensity = data["probabilities"]
    who = data["learner"], data["name"]
    return Decision(data["id"], data["action"], *who, of_learner, of_action, propensity, data["action_id"])
