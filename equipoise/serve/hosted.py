"""A portfolio with what the service remembers beside it, used by one thread at a time.

A portfolio refuses a second reward for a decision. Over a network the second one may be the first one repeated, so the
rewards that were learned are remembered in a window: the same reward again is answered as before, another one is an
error. The same holds for withdrawals.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from equipoise.certificates.records import elimination_record
from equipoise.errors import DuplicateReward
from equipoise.portfolio import Decision, Event
from equipoise.serve.failures import LateReward
from equipoise.types import Config, Context

REMEMBERED = 100_000  # rewards, and withdrawals


class LivePortfolio(Protocol):
    """The methods of `Portfolio` that the service uses."""

    seed: int
    deadline: int | float | None

    @property
    def selector(self) -> Any: ...
    @property
    def learner_names(self) -> tuple[str, ...]: ...
    def decide(self, context: Context, *, id: str | None = None) -> Decision: ...
    def learn(self, decision: Any, reward: float, *, key: str | None = None) -> None: ...
    def withdraw(self, decision: Any) -> None: ...
    def expire(self, limit: int | None = None) -> int: ...
    def health(self) -> Config: ...
    def to_json(self) -> Config: ...
    def describe(self) -> str: ...
    def add_learner(self, learner: Any, *, bound: Any = None) -> str: ...
    def remove_learner(self, name: str) -> None: ...
    def suspend(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def rename_learner(self, name: str, new: str) -> None: ...
    def on_event(self, callback: Any) -> None: ...


class Hosted:
    """A portfolio in the service."""

    def __init__(self, portfolio: LivePortfolio) -> None:
        self.portfolio = portfolio
        self._events: list[Event] = []  # since they were last taken
        self._rewards: OrderedDict[tuple[str, str | None], float | None] = OrderedDict()  # None: withdrawn
        portfolio.on_event(self._on_event)

    def _on_event(self, event: Event) -> None:
        self._events.append(event)
        if event.kind == "rewarded":
            self.remember(str(event.data["id"]), event.data.get("part"), float(event.data["reward"]))
        elif event.kind == "withdrawn":
            self.remember(str(event.data["id"]), None, None)

    def remember(self, id_: str, key: str | None, reward: float | None) -> None:
        """Note a reward that was learned; None for a decision that was withdrawn."""
        self._rewards[id_, key] = reward
        if len(self._rewards) > REMEMBERED:
            self._rewards.popitem(last=False)

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def withdraw(self, id_: str) -> None:
        """Withdraw a decision, once."""
        if self._rewards.get((id_, None), 0.0) is not None:
            self.portfolio.withdraw(id_)

    def reward(self, id_: str, reward: float, key: str | None) -> None:
        """Learn a reward, once."""
        earlier = self._rewards.get((id_, key))
        if earlier is not None:
            if earlier == reward:
                return
            raise DuplicateReward(f"decision {id_} has the reward {earlier!r}, but another one was given")
        mark = len(self._events)
        self.portfolio.learn(id_, reward, key=key)
        if any(event.kind == "ignored" for event in self._events[mark:]):
            raise LateReward(f"decision {id_} was past its deadline when the reward arrived, so it was not learned")

    def status(self) -> Config:
        portfolio = self.portfolio
        return {**portfolio.to_json(), "health": portfolio.health(), "description": portfolio.describe()}

    def eliminations(self) -> list[Config]:
        """The proofs of all eliminations so far; none if the selector keeps none."""
        selector = self.portfolio.selector
        label, names = type(selector).__name__, self.portfolio.learner_names
        found = getattr(selector, "eliminations", ())
        return [
            elimination_record(
                each, selector_label=label, seed=self.portfolio.seed, selector=selector, learner_names=names
            )
            for each in found
        ]
