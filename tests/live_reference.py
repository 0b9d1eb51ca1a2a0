"""Algorithm 1 over a pool that changes, with a window of evidence: slow, and nothing but lists.

Builds on `tests.reference` for the bounds. What is written anew is what counts as evidence and with which radius: a
play counts unless it was left out by a call or, with a window, its reward did not come before the play was `window`
rounds old; plays count in order, each once all earlier plays of its learner count or never will.
"""

import math
from dataclasses import dataclass

from equipoise.bounds import Bound, Observed
from tests.reference import Reference, Round, total


@dataclass
class LiveRound(Round):
    number: int = 0  # rounds so far when it was chosen, itself included
    never: bool = False  # it will never count


class LiveReference(Reference):
    def __init__(
        self, bounds: list[Bound], delta: float, reward_range: tuple[float, float], window: int, radius_scale: float
    ) -> None:
        super().__init__(list(bounds), delta, reward_range, radius_scale=radius_scale)
        self.delta, self.window = delta, window
        self.alphas = [self.alpha] * len(bounds)
        self.n_late = self.clock = self.unplayed = 0
        self.played: list[LiveRound] = []
        self.counted: list[list[LiveRound]] = [[] for _ in bounds]
        self.least_uppers = [math.inf] * len(bounds)
        self.best_lower = -math.inf
        self.eliminated: list[tuple[int, int, int]] = []  # learner, witness, round

    def deviation(self, i: int | None, n: int) -> float:
        """The radius of learner i, or of all rounds."""
        bracket = math.log(math.log(2 * n)) + 0.72 * math.log(5.2 / (self.alpha if i is None else self.alphas[i]))
        return self.scale * 1.7 * math.sqrt(self.variance * n * bracket)

    def add(self, bound: Bound) -> None:
        self.bounds.append(bound)
        self.alphas.append(self.delta / ((self.n_late + 1) * (self.n_late + 2)) / 2)
        self.n_late += 1
        self.active.append(len(self.bounds) - 1)
        self.counted.append([])
        self.least_uppers.append(math.inf)

    def own(self, i: int) -> list[LiveRound]:
        return [play for play in self.played if play.learner == i]

    def balanced(self, i: int) -> float:
        """R at all plays; the widths of these tests are never above that of the range."""
        if isinstance(self.bounds[i], Observed):
            return math.fsum(self.width if play.regret is None else play.regret for play in self.own(i))
        return self.bound(i, list(self.own(i)))

    def pick(self, available: set[int]) -> int:
        return min((self.balanced(i), len(self.own(i)), i) for i in self.active if i in available)[2]

    def open(self, learner: int) -> LiveRound:
        self.clock += 1
        play = LiveRound(learner, number=self.clock)
        self.played.append(play)
        self.pass_time()
        return play

    def pass_time(self) -> None:
        for play in self.played:
            if self.window and play.reward is None and play.number + self.window <= self.clock:
                play.never = True
        self.settle()

    def take_back(self, play: LiveRound) -> None:
        self.played = [other for other in self.played if other is not play]
        self.clock -= play.number == self.clock
        self.settle()

    def settle(self) -> None:
        for i in range(len(self.bounds)):
            plays = self.own(i)
            for position, play in enumerate(plays, start=1):
                if play.never or any(play is other for other in self.counted[i]):
                    continue
                if play.reward is None:
                    break
                self.counted[i].append(play)
                self.book_one(i, plays[:position])

    def book_one(self, i: int, up_to: list[LiveRound]) -> None:
        uppers = {j: self.upper_mean(j, self.counted[j], up_to if j == i else None) for j in self.active}
        self.best_lower = max(self.best_lower, self.lower_mean(i))
        if i not in self.active:
            return
        self.least_uppers[i] = min(self.least_uppers[i], uppers[i])
        lowers = {j: self.lower_mean(j) for j in self.active}
        best = max(lowers.values())
        witness = min(j for j in self.active if lowers[j] == best)
        for j in [j for j in self.active if uppers[j] < best]:
            self.active.remove(j)
            self.eliminated.append((j, witness, len(self.played) + self.unplayed))

    def lower_mean(self, i: int) -> float:
        plays = self.counted[i]
        return (total(list(plays)) - self.deviation(i, len(plays))) / len(plays) if plays else -math.inf

    def upper_mean(self, i: int, plays: list[LiveRound], up_to: list[LiveRound] | None = None) -> float:
        """With R at all plays up to the last counted one, or over the counted plays if it is observed."""
        if not plays:
            return math.inf
        if up_to is None:
            own = self.own(i)
            up_to = own[: 1 + max(k for k, play in enumerate(own) if play is plays[-1])]
        bound = self.bound(i, list(plays if isinstance(self.bounds[i], Observed) else up_to))
        return (total(list(plays)) + bound + self.deviation(i, len(plays))) / len(plays)

    def statement(self, without: tuple[int, ...] = ()) -> dict[str, object]:
        """The certificate, if an active learner that is not in `without` keeps its bound."""
        pool: list[LiveRound] = []
        for play in self.played:
            if play.never:
                continue
            if play.reward is None:
                break
            pool.append(play)
        pool_radius = self.deviation(None, len(pool)) if pool else 0.0
        mean = [(total(list(pool)) - pool_radius) / len(pool)] if pool else []
        lower = max([self.low, self.best_lower, *mean])
        upper = max(self.least_uppers[i] for i in self.active if i not in without)
        consistent = lower <= upper
        lower, upper = min(lower, self.high), min(max(upper, self.low), self.high)
        rounds = len(self.played)
        costs = [
            len(known) * upper - total(list(known)) + self.deviation(i, len(known)) if known else 0.0
            for i, known in enumerate(self.counted)
        ]
        by_learner = math.fsum(costs) + self.width * (rounds - sum(map(len, self.counted)))
        by_pool = len(pool) * upper - total(list(pool)) + pool_radius + self.width * (rounds - len(pool))
        most = self.width * rounds
        regret = max(0.0, min(most, by_pool, by_learner)) if consistent else most
        return {
            "rounds": rounds + self.unplayed,
            "resolved_rounds": len(pool),
            "optimum_lower": lower,
            "optimum_upper": upper,
            "regret_lower": max(0.0, len(pool) * lower - total(list(pool)) - pool_radius),
            "regret_upper": regret + self.width * self.unplayed,
            "consistent": consistent,
            "delta": self.delta + math.fsum(self.delta / ((j + 1) * (j + 2)) for j in range(self.n_late)),
        }
