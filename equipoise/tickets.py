"""Decisions and their tickets: what a portfolio remembers of a round until everybody has learned from it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import nan
from typing import Any, NamedTuple, Self

import numpy as np

from equipoise.saving import live_context, plain_context
from equipoise.selector import Choice

COPIED = (list, tuple, dict)


class Decision(NamedTuple):
    """What to do now, and the ticket under which its reward is learned."""

    id: int
    action: Any
    learner: int  # index of the learner that proposed the action
    learner_name: str
    probability: float  # with which this learner was chosen and picked this action; nan if the learner cannot tell


class Ticket:
    """An open decision. `reward` is nan until it is known, `taught` holds the learners that learned from it."""

    __slots__ = ("action", "choice", "context", "id", "others", "outcome", "regret", "reward", "taught")

    def __init__(self, id_: int, choice: Choice, context: Any, action: Any, regret: float) -> None:
        self.id = id_
        self.choice = choice
        self.context = context
        self.action = action
        self.regret = regret  # as proposed; nan where the learner did not say
        self.others: dict[int, Any] = {}  # what those proposed who are told, with weight 0, that they did not play
        self.outcome: Any = None
        self.reward = nan
        self.taught: set[int] = set()

    def to_plain(self) -> dict[str, Any]:
        """The ticket as plain data."""
        return {
            "id": self.id,
            "choice": tuple(self.choice),
            "context": plain_context(self.context, self.id),
            "action": self.action,
            "others": sorted(self.others.items()),
            "regret": self.regret,
            # A trajectory is saved as the plain tuple that learners take as well.
            "outcome": tuple(self.outcome) if isinstance(self.outcome, tuple) else self.outcome,
            "reward": self.reward,
            "taught": sorted(self.taught),
        }

    @classmethod
    def from_plain(cls, row: Mapping[str, Any]) -> Self:
        """The ticket that `to_plain` described."""
        ticket = cls(row["id"], Choice(*row["choice"]), live_context(row["context"]), row["action"], row["regret"])
        ticket.outcome, ticket.reward, ticket.taught = row["outcome"], row["reward"], set(row["taught"])
        ticket.others = dict(row.get("others", []))
        return ticket


def as_it_is(value: Any) -> Any:
    """What the caller may change before the reward comes, as it is now."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value
