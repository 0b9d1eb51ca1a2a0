"""What arrived for each learner: number and sum of the rewards of its plays, in whatever order they came.

Statements use rewards in the order of the plays, so one that is missing holds up those after it. What a learner earns
now is seen from all rewards that arrived. An event of a reward does not say whose play it was, so the learners of open
decisions are remembered.

What the portfolio earned at the start is the mean over its first decisions, and is told when all of them have their
reward, or so many later ones were made that the missing rewards are lost: good rewards often come sooner than bad ones,
so the first rewards to arrive would flatter.
"""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.portfolio import Event, Portfolio

FIRST_DECISIONS, LOST_AFTER = 100, 1_000


class Arrivals:
    """Counts the rewards of a portfolio's learners from the events."""

    def __init__(self, portfolio: Portfolio) -> None:
        self._learners: dict[object, int | None] = {id_: each.learner for id_, each in portfolio._open.items()}
        self._totals: dict[int, list[float]] = {}
        self._decisions = 0
        self._first: set[object] = set()  # first decisions that have no reward yet
        self._first_totals = [0.0, 0.0]
        portfolio.on_event(self._see)

    def _see(self, event: Event) -> None:
        kind, data = event.kind, event.data
        if kind == "decided":
            self._learners[data["id"]] = data["learner"]
            self._decisions += 1
            if self._decisions <= FIRST_DECISIONS:
                self._first.add(data["id"])
        elif (kind == "rewarded" and data.get("part") is None) or kind == "expired":
            learner = self._learners.pop(data["id"], None)
            if learner is not None:
                _add(self._totals.setdefault(learner, [0.0, 0.0]), 1.0, data["reward"])
            if data["id"] in self._first:
                self._first.discard(data["id"])
                _add(self._first_totals, 1.0, data["reward"])
        elif kind == "withdrawn":
            self._learners.pop(data["id"], None)
            self._first.discard(data["id"])

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
        """Go on from the totals of an earlier run, by learner."""
        for learner, (n, total) in enumerate(totals):
            _add(self._totals.setdefault(learner, [0.0, 0.0]), n, total)


def _add(totals: list[float], n: float, total: float) -> None:
    totals[0] += n
    totals[1] += total
