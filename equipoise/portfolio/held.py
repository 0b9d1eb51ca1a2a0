"""Rewards that the selector does not know yet, because others of plays as old are still to come.

With a deadline, a visit without a purchase has its default reward only when the deadline has passed, but a purchase is
reported soon. Of its latest plays the selector would know the purchases alone, and it would favor the learner that has
played last. Therefore a reward counts for the selector, and for the monitor of drift, when its play has reached the
*common age*: the smallest age at which `KNOWN` of all decisions had their reward, those of all learners together. If
rewards come at once, it is their delay; if more than 1 - `KNOWN` of the decisions wait for the deadline, it is the
deadline. Until it is known, it is the deadline. So the selector compares plays of which almost all rewards are known.

The portfolio, not the selector, holds rewards: it knows ages in seconds, and every selector profits. Learners learn,
decisions close and events are written when a reward arrives. Statements wait for the deadline of the earliest open
decision anyway. Rewards are passed on in the order of rounds, after an event, and only as ages say that are computed
from events. So a fold of the same events passes on the same rewards at the same places.

The common age is estimated from a cohort of `COHORT` successive decisions, and from the cohort before it: the share of
the decisions of at least age s that had their reward by age s. No other decision begins a cohort until the last one of
the present cohort has reached the deadline, so that fast and slow rewards have the same part in it.

Without a deadline nothing is held; nor with exogenous delays, which are promised to say nothing about rewards, and
whose window counts the age of a play itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from equipoise.portfolio.settings import PortfolioSettings
from equipoise.portfolio.tickets import Ticket, Tickets
from equipoise.selector import Choice
from equipoise.types import Config

KNOWN = 0.95  # share of decisions
COHORT = 256  # decisions
LEAST = 20  # decisions of which a share is estimated
ESTIMATED_AT = (20, 40, 80, 160)  # rewards of a cohort after which the common age is estimated again


class HeldReward(NamedTuple):
    """A reward, with the play that it is of."""

    round: int
    time: float
    epoch: int
    reward: float
    regret: float
    choice: Choice


class HeldRewards:
    """The rewards that are held, the earliest play first."""

    def __init__(self, settings: PortfolioSettings, tickets: Tickets) -> None:
        self._tickets = tickets
        self.adopt(settings)

    def adopt(self, settings: PortfolioSettings) -> None:
        """Begin again with these settings."""
        self.holds = settings.deadline is not None and settings.window is None
        self._held: list[HeldReward] = []  # a heap
        self._common_age = inf
        self._cohort: dict[int, tuple[float, float]] = {}  # by round: time and delay, inf while it is not known
        self._settled = 0  # delays of the cohort that are known
        self._earlier: list[float] = []  # sorted delays of the cohort before it

    def __iter__(self) -> Iterator[HeldReward]:
        return iter(self._held)

    def open(self, ticket: Ticket) -> None:
        """Add a new decision to the cohort, or begin another one if that has reached the deadline."""
        cohort = self._cohort
        if len(cohort) == COHORT:
            last = next(reversed(cohort))
            if not self._tickets.is_past_deadline(last, cohort[last][0]):
                return
            self._earlier = sorted(delay for _, delay in cohort.values())
            self._cohort, self._settled = {}, 0
            cohort = self._cohort
        cohort[ticket.round] = ticket.time, inf

    def withdraw(self, ticket: Ticket) -> None:
        """Forget a round that did not happen."""
        self._cohort.pop(ticket.round, None)

    def settle(self, ticket: Ticket, *, expired: bool) -> None:
        """Note the delay of a reward; that of a default is not shorter than the deadline."""
        known = self._cohort.get(ticket.round)
        if known is None:
            return
        delay = inf if expired else self._tickets.age(ticket.round, ticket.time)
        self._cohort[ticket.round] = known[0], delay
        self._settled += 1
        if self._settled in ESTIMATED_AT or self._settled == COHORT:
            self._common_age = self._estimate()

    def _estimate(self) -> float:
        """Return the smallest delay s with: of the decisions of at least age s, enough had their reward by then."""
        age = self._tickets.age
        ages = [(age(round_, time), delay) for round_, (time, delay) in self._cohort.items()]
        reached = sorted([inf] * len(self._earlier) + [each for each, _ in ages])
        rewarded_ages = sorted(each for each, delay in ages if delay < inf)
        delays = sorted([*self._earlier, *(delay for _, delay in ages)])
        for delay in delays:
            n = len(reached) - bisect_left(reached, delay)
            if delay == inf or n < LEAST:
                break
            if bisect_right(delays, delay) - bisect_left(rewarded_ages, delay) >= KNOWN * n:
                return delay
        return inf

    def hold(self, ticket: Ticket, reward: float, regret: float) -> None:
        """Hold the reward of a play."""
        assert ticket.choice is not None
        heappush(self._held, HeldReward(ticket.round, ticket.time, ticket.epoch, reward, regret, ticket.choice))

    def due(self) -> Iterator[HeldReward]:
        """Yield the rewards that count from now on.

        While overdue decisions still wait to be closed, no later play counts.
        """
        tickets = self._tickets
        while self._held:
            first, oldest = self._held[0], tickets.oldest()
            old = tickets.age(first.round, first.time) >= self._common_age
            if not old and not tickets.is_past_deadline(first.round, first.time):
                return
            if oldest is not None and oldest.round < first.round and tickets.is_overdue(oldest):
                return
            yield heappop(self._held)

    def state(self) -> Config:
        return {
            "held": [(*row, tuple(choice)) for *row, choice in sorted(self._held)],
            "common_age": self._common_age,
            "cohort": [(round_, *known) for round_, known in self._cohort.items()],
            "settled": self._settled,
            "earlier": list(self._earlier),
        }

    def restore(self, state: Config) -> None:
        self._held = [HeldReward._make((*row, Choice(*choice))) for *row, choice in state["held"]]
        self._cohort = {round_: (time, delay) for round_, time, delay in state["cohort"]}
        self._common_age, self._settled, self._earlier = state["common_age"], state["settled"], list(state["earlier"])
