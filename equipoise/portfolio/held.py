"""Rewards that are held until the selector may know them, because of the plays around theirs most are known.

With a deadline, a visit without a purchase gets its default reward only when the deadline has passed,
but a purchase is reported soon. Of the latest plays the selector would know the purchases alone, and it would favor the
learner that played last. Therefore a reward counts for the selector, and for the monitor of drift, when its play has
reached the *common age*: the smallest age at which `KNOWN` of all decisions had their reward, those of all learners
together. If rewards come at once, it is their delay; if more than 1 - `KNOWN` of the decisions wait for the deadline,
it is the deadline. Until it is known, it is the deadline. So the selector compares plays of which almost all rewards
are known.

The portfolio, not the selector, holds rewards: it knows ages in seconds, and every selector profits. Learners learn,
decisions close and events are written when a reward arrives. Statements wait for the deadline of the earliest open
decision anyway. Rewards are passed on in the order of rounds, after an event, and only as ages say that are computed
from events. So a fold of the same events passes on the same rewards at the same places.

The common age is estimated from a cohort of `COHORT` successive decisions, and from the cohort before it: the share of
the decisions of at least age s that had their reward by age s. The next cohort begins when the last decision of the
present one has reached the deadline, so fast and slow rewards have the same part in it. Weights in place of one age,
such as the share of rewards known by the age of a play (Kaplan-Meier), would use open plays earlier. But they are right
only if delays do not depend on the learner, and every selector would have to sum weighted plays.

Without a deadline nothing is held; nor with exogenous delays, which are promised to say nothing about rewards, and
whose window counts the age of a play itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from math import ceil, inf
from struct import Struct
from typing import NamedTuple, Protocol

from equipoise.portfolio.settings import PortfolioSettings
from equipoise.selector import Choice
from equipoise.settings.checks import measured
from equipoise.types import Config, Later, Plain

KNOWN = 0.95  # share of decisions
COHORT = 256  # decisions
LEAST = 20  # decisions of which a share is estimated
MAX_DUE = 64  # held rewards that count after one event, so that no call takes long; the others follow after the next
BYTES_OF_HELD = 450  # of a reward, with its play, which is open for the selector
# Rewards of a cohort after which the common age is estimated again. The last but one is the share that must be known,
# as some rewards may never come.
ESTIMATED_AT = (LEAST, 40, 80, 160, ceil(KNOWN * COHORT), COHORT)


class Play(Protocol):
    """An open decision."""

    round: int
    time: float
    epoch: int
    choice: Choice | None


class Ages(Protocol):
    """The time, as all open decisions see it."""

    settings: PortfolioSettings

    def is_past_deadline(self, round_: int, time: float) -> bool: ...

    def age(self, round_: int, time: float) -> float: ...

    def first_overdue(self) -> float: ...


# Of a reward that is held. The round comes first and has its highest byte first, so that bytes are ordered by it.
FORM = Struct(">qdqddqqd?")


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

    def __init__(self, tickets: Ages) -> None:
        self._tickets = tickets
        self.begin()

    def begin(self) -> None:
        """Begin again with the present settings."""
        settings = self._tickets.settings
        self.holds = settings.deadline is not None and settings.window is None
        self._held: list[bytes] = []  # a heap of packed rewards
        self._waiting: Counter[tuple[int, int]] = Counter()  # how many there are, by epoch and learner
        self._common_age = inf
        self._cohort: dict[int, tuple[float, float]] = {}  # by round: time and delay, inf while it is not known
        self._settled = 0  # delays of the cohort that are known
        self._earlier: list[float] = []  # sorted delays of the cohort before it

    def __repr__(self) -> str:
        return f"HeldRewards({len(self)} rewards)"

    def __len__(self) -> int:
        return len(self._held)

    def of_learners(self, epoch: int) -> dict[int, int]:
        """Return how many rewards of an epoch are held, by learner."""
        return {learner: n for (of_epoch, learner), n in self._waiting.items() if of_epoch == epoch and n}

    @property
    def first_round(self) -> float:
        """The earliest round whose age matters: of a reward that is held, or of the cohort; inf if there is none."""
        held = _unpacked(self._held[0]).round if self._held else inf
        return min(held, next(iter(self._cohort), inf))

    @property
    def nbytes(self) -> int:
        return BYTES_OF_HELD * len(self._held)

    def open(self, ticket: Play) -> None:
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

    def withdraw(self, ticket: Play) -> None:
        """Forget a round that did not happen."""
        self._cohort.pop(ticket.round, None)

    def settle(self, ticket: Play, *, expired: bool) -> None:
        """Note the delay of a reward; that of a default is not shorter than the deadline."""
        known = self._cohort.get(ticket.round)
        if known is None:
            return
        delay = inf if expired else self._tickets.age(ticket.round, ticket.time)
        self._cohort[ticket.round] = known[0], delay
        self._settled += 1
        if self._settled in ESTIMATED_AT:
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

    def hold(self, ticket: Play, reward: float, regret: float) -> None:
        """Hold the reward of a play."""
        assert ticket.choice is not None
        self._push(ticket.round, ticket.time, ticket.epoch, reward, regret, *ticket.choice)

    def _push(self, *numbers: Plain) -> None:
        heappush(self._held, FORM.pack(*numbers))
        self._waiting[numbers[2], numbers[5]] += 1

    def due(self) -> Iterator[HeldReward]:
        """Yield the rewards that count from now on, at most `MAX_DUE` of them.

        While overdue decisions still wait to be closed, no later play counts.
        """
        tickets = self._tickets
        for _ in range(min(MAX_DUE, len(self._held))):
            first = _unpacked(self._held[0])
            old = tickets.age(first.round, first.time) >= self._common_age
            if not old and not tickets.is_past_deadline(first.round, first.time):
                return
            if tickets.first_overdue() < first.round:
                return
            heappop(self._held)
            self._waiting[first.epoch, first.choice.learner] -= 1
            yield first

    def frozen(self) -> Config:
        """Return the state as it is now, with the rewards that are held made later."""
        return {
            "held": Later(partial(_rows, list(self._held))),
            "common_age": self._common_age,
            "cohort": [(round_, *known) for round_, known in self._cohort.items()],
            "settled": self._settled,
            "earlier": list(self._earlier),
        }

    def restore(self, state: Config) -> None:
        self._held, self._waiting = [], Counter()
        for *row, choice in state["held"]:
            self._push(*row, *choice)
        self._cohort = {round_: (time, delay) for round_, time, delay in state["cohort"]}
        self._common_age, self._settled, self._earlier = state["common_age"], state["settled"], list(state["earlier"])


def _unpacked(data: bytes) -> HeldReward:
    round_, time, epoch, reward, regret, *choice = FORM.unpack(data)
    return HeldReward(round_, time, epoch, reward, regret, Choice(*choice))


def _rows(held: list[bytes]) -> list[Plain]:
    """Return packed rewards as rows, the earliest play first."""
    return [(*row, tuple(choice)) for *row, choice in map(_unpacked, sorted(held))]


def combine(aggregate: str, rewards: Mapping[str, float], default: float) -> float:
    """Return the reward of a decision from those that arrived, `default` if none did."""
    if not rewards:
        return default
    return sum(rewards.values()) if aggregate == "sum" else list(rewards.values())[-1]


def clipped(reward: float, limits: tuple[float, float]) -> float:
    """Return the reward in the range."""
    return min(max(measured("reward", reward), limits[0]), limits[1])
