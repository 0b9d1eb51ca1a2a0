"""Algorithm 1 with late rewards and certificates, written to be read: lists, and nothing kept but the rounds.

Everything is computed from the list of rounds whenever it is asked for. References: Pacchiano, Dann, Gentile and
Bartlett (2020), Algorithm 1; the radius is that of Howard et al. (2021), eq. (11). Plays of a learner are numbered as
they are made. What is tested is each learner's longest prefix of plays whose rewards are all in; what is balanced is
all its plays, a play of unknown regret counting the full width.
"""

import math
from dataclasses import dataclass

from equipoise.bounds import Bound, Custom, LinearSqrt, Observed, Power, SqrtLog


@dataclass
class Round:
    learner: int
    reward: float | None = None
    regret: float | None = None


@dataclass(frozen=True)
class Side:
    """One learner's totals in an elimination."""

    index: int
    plays: int
    reward_sum: float
    regret_bound: float
    radius: float
    spread: float


@dataclass(frozen=True)
class Proof:
    round: int
    learner: Side
    witness: Side


class Reference:
    def __init__(
        self,
        bounds: list[Bound],
        delta: float,
        reward_range: tuple[float, float],
        noise: float | None = None,
        contexts: str = "random",
        radius_scale: float = 1.0,
    ) -> None:
        self.bounds = bounds
        self.low, self.high = reward_range
        self.width = self.high - self.low
        self.alpha = delta / (2 * (len(bounds) + 1))
        spread_of_contexts = self.width**2 / 4 if contexts == "random" else 0.0
        self.variance = spread_of_contexts + (self.width**2 / 4 if noise is None else noise**2)
        self.scale = radius_scale
        self.rounds: list[Round] = []
        self.active = list(range(len(bounds)))
        self.proofs: list[Proof] = []

    def radius(self, n: int) -> float:
        log_term = 0.72 * math.log(5.2 / self.alpha)
        return self.scale * 1.7 * math.sqrt(self.variance * n * (math.log(math.log(2 * n)) + log_term))

    def raw(self, i: int, plays: list[Round]) -> float:
        """What bound i claims after these plays."""
        n = len(plays)
        match self.bounds[i]:
            case Power(coefficient, exponent):
                return coefficient * (math.sqrt(n) if exponent == 0.5 else n**exponent)
            case SqrtLog(coefficient, delta):
                return coefficient * math.sqrt(n * max(1.0, math.log(n / delta)))
            case LinearSqrt(slope, coefficient):
                return slope * n + coefficient * math.sqrt(n)
            case Custom(function, _):
                return function(n)
            case Observed():
                return math.fsum(self.width if play.regret is None else play.regret for play in plays)

    def bound(self, i: int, plays: list[Round]) -> float:
        """R_i after these plays: never falling, never growing by more than the width."""
        value = 0.0
        for n in range(1, len(plays) + 1):
            value = min(value + self.width, max(value, self.raw(i, plays[:n])))
        return value

    def plays(self, i: int) -> list[Round]:
        return [played for played in self.rounds if played.learner == i]

    def lower(self, plays: list[Round]) -> float:
        return (total(plays) - self.radius(len(plays))) / len(plays)

    def upper(self, i: int, plays: list[Round]) -> float:
        return (total(plays) + self.bound(i, plays) + self.radius(len(plays))) / len(plays)

    def choose(self) -> Round:
        """Least bound over all plays made; ties: fewer plays, then lower index."""
        ranking = [(self.bound(i, self.plays(i)), len(self.plays(i)), i) for i in self.active]
        chosen = Round(min(ranking)[2])
        self.rounds.append(chosen)
        return chosen

    def credit(self, played: Round, reward: float) -> None:
        """Resolve a play. It may complete several at once; they are credited one by one, each followed by the test."""
        i = played.learner
        before = len(resolved(self.plays(i)))
        played.reward = reward
        self.book(i, before)

    def withdraw(self, played: Round) -> None:
        i = played.learner
        before = len(resolved(self.plays(i)))
        self.rounds = [other for other in self.rounds if other is not played]
        self.book(i, before)

    def book(self, i: int, before: int) -> None:
        """Test at each prefix of learner i longer than `before`."""
        for n in range(before + 1, len(resolved(self.plays(i))) + 1):
            if i in self.active:
                self.test({j: resolved(self.plays(j))[: n if j == i else None] for j in self.active})

    def test(self, prefixes: dict[int, list[Round]]) -> None:
        """Eliminate at once every active learner whose upper mean is strictly below the greatest lower mean."""
        seen = {j: plays for j, plays in prefixes.items() if plays}
        best = max(self.lower(plays) for plays in seen.values())
        witness = min(j for j, plays in seen.items() if self.lower(plays) == best)
        gone = [i for i, plays in seen.items() if self.upper(i, plays) < best]
        self.active = [i for i in self.active if i not in gone]
        sides = {i: self.side(i, seen[i]) for i in [*gone, witness]}
        self.proofs += [Proof(len(self.rounds), sides[i], sides[witness]) for i in gone]

    def side(self, i: int, plays: list[Round]) -> Side:
        return Side(i, len(plays), total(plays), self.bound(i, plays), self.radius(len(plays)), self.spread(plays))

    def spread(self, plays: list[Round]) -> float:
        """Squared distances of rewards from the mean of those before, the first from the middle of the range."""
        summed = 0.0
        for n in range(len(plays)):
            expected = total(plays[:n]) / n if n else (self.low + self.high) / 2
            summed += (total(plays[n : n + 1]) - expected) ** 2
        return summed

    def certificate(self) -> dict[str, object]:
        """The statements about the optimum mu* and the regret of all rounds, under the names that the package uses.

        mu* is at least every (U - D)/n that any learner ever showed, and that of the pool. If an active learner keeps
        its bound, mu* is at most the greatest over active learners of the least (U + R + D)/n each ever showed. Regret
        is n mu* - U up to D, over the pool or learner by learner; a play not yet resolved costs at most the width."""
        learners = range(len(self.bounds))
        plays = {i: self.plays(i) for i in learners}
        known = {i: resolved(plays[i]) for i in learners}
        pool = resolved(self.rounds)
        shown = [self.lower(known[j][:n]) for j in learners for n in range(1, len(known[j]) + 1)]
        lower = max([self.low, *shown, *([self.lower(pool)] if pool else [])])
        upper = max(min([math.inf, *self.uppers(i, known[i])]) for i in self.active)
        consistent = lower <= upper
        lower, upper = min(lower, self.high), min(max(upper, self.low), self.high)
        by_pool = self.regret_at_most(upper, pool) + self.width * (len(self.rounds) - len(pool))
        by_learner = sum(
            self.regret_at_most(upper, known[i]) + self.width * (len(plays[i]) - len(known[i])) for i in learners
        )
        all_of_it = self.width * len(self.rounds)
        return {
            "rounds": len(self.rounds),
            "resolved_rounds": len(pool),
            "optimum_lower": lower,
            "optimum_upper": upper,
            "regret_lower": self.regret_at_least(lower, pool),
            "regret_upper": max(0.0, min(all_of_it, by_pool, by_learner)) if consistent else all_of_it,
            "learner_regret_lowers": tuple(self.regret_at_least(lower, known[i]) for i in learners),
            "consistent": consistent,
        }

    def uppers(self, i: int, plays: list[Round]) -> list[float]:
        return [self.upper(i, plays[:n]) for n in range(1, len(plays) + 1)]

    def regret_at_most(self, upper: float, plays: list[Round]) -> float:
        return len(plays) * upper - total(plays) + self.radius(len(plays)) if plays else 0.0

    def regret_at_least(self, lower: float, plays: list[Round]) -> float:
        return max(0.0, len(plays) * lower - total(plays) - self.radius(len(plays))) if plays else 0.0


def resolved(plays: list[Round]) -> list[Round]:
    """The longest prefix whose rewards are all in."""
    n = 0
    while n < len(plays) and plays[n].reward is not None:
        n += 1
    return plays[:n]


def total(plays: list[Round]) -> float:
    return math.fsum(play.reward for play in plays if play.reward is not None)
