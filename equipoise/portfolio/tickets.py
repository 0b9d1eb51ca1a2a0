"""Tickets: what a portfolio stores about a decision until all learners have learned from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isnan, nan
from typing import Self

from equipoise.learner import MinimalLearner
from equipoise.selector import Choice
from equipoise.storage.parts import context_from_plain, context_to_plain
from equipoise.types import Action, Config, Context, Outcome, Plain


class Ticket:
    """An open decision. `reward` is nan until it is known; `taught` has the learners that have learned from it."""

    __slots__ = ("action", "choice", "context", "id", "others", "outcome", "plan", "regret", "reward", "taught")

    def __init__(
        self, id_: int, choice: Choice, context: Context, action: Action, regret: float, plan: Plain = None
    ) -> None:
        self.id = id_
        self.choice = choice
        self.context = context
        self.action = action
        self.regret = regret  # as proposed; nan if unknown
        self.plan = plan  # of the proposal
        self.others: dict[int, Action] = {}  # proposals of learners that did not play, which they learn with weight 0
        self.outcome: Outcome = None
        self.reward = nan
        self.taught: set[int] = set()

    def teach(self, i: int, learner: MinimalLearner, weighted: bool) -> None:
        """Let learner i learn from the round, once; `weighted` if rounds have importance weights."""
        if i in self.taught:
            return
        outcome = self.action if self.outcome is None else self.outcome
        if not weighted:
            own = self.plan is not None and i == self.choice.learner
            learner.learn(self.context, outcome, self.reward, **({"plan": self.plan} if own else {}))
        elif i == self.choice.learner:
            learner.learn(self.context, outcome, self.reward, 1.0 / self.choice.probability)
        else:
            learner.learn(self.context, self.others[i], 0.0, 0.0)
        self.taught.add(i)

    def default_regret(self, observed: Collection[int], reward_range: tuple[float, float] | None) -> float | None:
        """The regret of a round without a reward, if unknown: the width of the reward range."""
        if self.choice.learner not in observed or not isnan(self.regret):
            return None
        low, high = reward_range or (0.0, 1.0)
        return high - low

    def to_row(self) -> Config:
        """The ticket as data that an archive can hold."""
        return {
            "id": self.id,
            "choice": tuple(self.choice),
            "context": context_to_plain(self.context, self.id),
            "action": self.action,
            "others": sorted(self.others.items()),
            "regret": self.regret,
            "plan": self.plan,
            # A trajectory is saved as a plain tuple, which learners accept too.
            "outcome": tuple(self.outcome) if isinstance(self.outcome, tuple) else self.outcome,
            "reward": self.reward,
            "taught": sorted(self.taught),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Plain]) -> Self:
        """The ticket that `to_row` described."""
        ticket = cls(
            row["id"],
            Choice(*row["choice"]),
            context_from_plain(row["context"]),
            row["action"],
            row["regret"],
            row.get("plan"),  # files of releases that did not keep plans have none
        )
        ticket.outcome, ticket.reward, ticket.taught = row["outcome"], row["reward"], set(row["taught"])
        ticket.others = dict(row.get("others", []))
        return ticket
