"""Tickets: what a portfolio stores about a decision until all learners have learned from it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import isnan, nan
from types import MappingProxyType
from typing import Self, TypeVar

import numpy as np

from equipoise.features import Offers
from equipoise.portfolio.ids import ID
from equipoise.selector import Choice
from equipoise.storage.parts import context_from_plain, context_to_plain
from equipoise.types import Action, Config, Context, Outcome, Plain

T = TypeVar("T")
COPIED = (list, tuple, dict)


class Ticket:
    """An open decision. `reward` is nan until it is known; `taught` has the learners that have learned from it."""

    # Most tickets have only what `__init__` sets.
    id: ID = ""
    epoch = 0  # of the selector, which begins a new one after drift
    offers: Offers | None = None  # what the context was turned into for learners with a feature map
    time = 0.0  # at which it was decided, if deadlines are in seconds
    regret = nan  # as proposed; nan if unknown
    plan: Plain = None  # of the proposal
    action_probability = nan
    propensity = nan
    agreed: tuple[int, ...] = ()  # other learners that proposed the same action
    students: tuple[int, ...] | None = None  # who learns from it, if the selector decides that
    others: Mapping[int, Action] = MappingProxyType({})  # what learners that did not play learn with weight 0
    outcome: Outcome = None
    reward = nan
    taught: tuple[int, ...] = ()

    def __init__(self, round_: int, choice: Choice | None, context: Context, action: Action) -> None:
        self.round = round_
        self.choice = choice  # None: a play of no learner
        self.learner = None if choice is None else choice.learner  # that plays; None if no learner does
        self.context = context
        self.action = action
        self.rewards: dict[str, float] = {}  # by key, if several rewards make one

    def __repr__(self) -> str:
        reward = "" if isnan(self.reward) else f", reward {self.reward:g}"
        return f"Ticket({self.id}, round {self.round}, learner {self.learner}, action {self.action!r:.40}{reward})"

    def to_row(self) -> Config:
        """The ticket as data that an archive can hold."""
        return {
            "id": self.id,
            "round": self.round,
            "epoch": self.epoch,
            "choice": None if self.choice is None else tuple(self.choice),
            "context": context_to_plain(self.context),
            "action": None if callable(self.action) else self.action,  # a policy: learners learn from the outcome
            "time": self.time,
            "probabilities": (self.action_probability, self.propensity),
            "agreed": self.agreed,
            "students": self.students,
            "others": sorted(self.others.items()),
            "regret": self.regret,
            "plan": self.plan,
            # A trajectory is saved as a plain tuple, which learners accept too.
            "outcome": tuple(self.outcome) if isinstance(self.outcome, tuple) else self.outcome,
            "reward": self.reward,
            "rewards": dict(self.rewards),
            "taught": sorted(self.taught),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Plain]) -> Self:
        """The ticket that `to_row` described."""
        choice = None if row["choice"] is None else Choice(*row["choice"])
        ticket = cls(row["round"], choice, context_from_plain(row["context"]), row["action"])
        ticket.id, ticket.time = row["id"], row["time"]
        ticket.action_probability, ticket.propensity = row["probabilities"]
        ticket.agreed, ticket.others = tuple(row["agreed"]), dict(row["others"])
        ticket.regret, ticket.outcome, ticket.reward = row["regret"], row["outcome"], row["reward"]
        ticket.rewards, ticket.taught = dict(row["rewards"]), tuple(row["taught"])
        ticket.epoch = row.get("epoch", 0)  # releases before 0.3 had one epoch
        ticket.plan = row.get("plan")  # releases before 0.3 did not keep plans
        ticket.students = students_from(row)
        return ticket


def students_from(saved: Mapping[str, Plain]) -> tuple[int, ...] | None:
    """The students in a saved ticket or an event; None if there are none, as before selectors decided who learns."""
    students = saved.get("students")
    return None if students is None else tuple(students)


def copy_if_mutable(value: T) -> T:
    """A copy, if the caller could change the value before its reward arrives."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value
