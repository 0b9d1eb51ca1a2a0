"""The rival selectors written straight from their formulas: lists of rewards, and nothing kept that can be recomputed.

A reference hears of every choice, reward and withdrawal. What a rule tests counts once all earlier plays of its learner
are in; an index counts whatever has arrived.
Deterministic ones say what they minimize, ties going to fewer plays and then to the lower index; randomized ones say
with which probabilities they choose. Everything is in the form of the publications: means and radii per play.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.radii import mixture_radius


@dataclass
class Play:
    learner: int
    probability: float
    reward: float | None = None


class Rival:
    """What all have in common; `bounds` are coefficients c of bounds c sqrt(n)."""

    def __init__(
        self,
        n_learners: int,
        reward_range: tuple[float, float] = (0.0, 1.0),
        delta: float = 0.05,
        radius_scale: float = 1.0,
        bounds: list[float] | None = None,
    ) -> None:
        self.learners = range(n_learners)
        self.low, self.high = reward_range
        self.width = self.high - self.low
        self.delta, self.radius_scale = delta, radius_scale
        self.bounds = bounds or []
        self.waiting: list[list[Play]] = [[] for _ in self.learners]
        self.credited: list[list[float]] = [[] for _ in self.learners]
        self.arrived: list[list[float]] = [[] for _ in self.learners]

    def choose(self, learner: int, probability: float) -> Play:
        play = Play(learner, probability)
        self.waiting[learner].append(play)
        return play

    def credit(self, play: Play, reward: float) -> None:
        play.reward = reward
        self.arrived[play.learner].append(reward)
        self.on_arrival(play, reward)
        self.advance(play.learner)

    def withdraw(self, play: Play) -> None:
        self.waiting[play.learner] = [other for other in self.waiting[play.learner] if other is not play]
        self.advance(play.learner)

    def advance(self, i: int) -> None:
        while self.waiting[i] and self.waiting[i][0].reward is not None:
            play = self.waiting[i].pop(0)
            self.credited[i].append(play.reward)  # type: ignore[arg-type]  # the loop's condition says that it is in
            self.on_booking(play)

    def on_booking(self, play: Play) -> None:
        """A reward has been added to those of its learner."""

    def on_arrival(self, play: Play, reward: float) -> None:
        """A reward has arrived, whether or not earlier plays are in."""

    def plays(self, i: int) -> int:
        return len(self.credited[i]) + len(self.waiting[i])

    @property
    def rounds(self) -> int:
        return sum(self.plays(i) for i in self.learners)

    def mean(self, i: int) -> float:
        return math.fsum(self.credited[i]) / len(self.credited[i])

    def mean_or_low(self, i: int) -> float:
        """Of what has arrived."""
        return math.fsum(self.arrived[i]) / len(self.arrived[i]) if self.arrived[i] else self.low

    def mean_radius(self, i: int) -> float:
        """The default radius at alpha = delta / (2 (M + 1)), with variance w^2 / 2 a play."""
        n, alpha = len(self.credited[i]), self.delta / (2 * (len(self.learners) + 1))
        return self.radius_scale * mixture_radius(n, self.width**2 / 2, alpha) / n

    def best_lower(self) -> float:
        return max((self.mean(j) - self.mean_radius(j) for j in self.learners if self.credited[j]), default=-math.inf)

    def bound(self, i: int, n: int) -> float:
        """c sqrt(n), growing by at most the width a play."""
        total = 0.0
        for k in range(1, n + 1):
            total = min(total + self.width, max(total, self.bounds[i] * math.sqrt(k)))
        return total

    def mean_upper(self, i: int) -> float:
        n = len(self.credited[i])
        return self.mean(i) + self.bound(i, n) / n + self.mean_radius(i)

    def values(self) -> list[float]:
        """What is minimized; inf where a learner may not be chosen."""
        raise NotImplementedError("each rule balances something else")

    def probabilities(self) -> list[float]:
        values = self.values()
        first = min(self.learners, key=lambda i: (values[i], self.plays(i), i))
        return [float(i == first) for i in self.learners]


class GreedyMeanReference(Rival):
    def values(self) -> list[float]:
        return [-self.mean_or_low(i) if self.plays(i) else -math.inf for i in self.learners]


class UCB1Reference(Rival):
    def __init__(self, n_learners: int, exploration: float = 1.0, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.exploration = exploration

    def values(self) -> list[float]:
        t = self.rounds + 1
        return [
            -self.mean_or_low(i) - self.width * math.sqrt(self.exploration * math.log(t) / (2 * self.plays(i)))
            if self.plays(i)
            else -math.inf
            for i in self.learners
        ]


class EXP3Reference(Rival):
    def __init__(self, n_learners: int, rounds: int | None = None, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.known_rounds = rounds
        self.loss_sums = [0.0] * n_learners

    def on_arrival(self, play: Play, reward: float) -> None:
        self.loss_sums[play.learner] += (self.high - reward) / self.width / play.probability

    def probabilities(self) -> list[float]:
        n_learners, t = len(self.learners), self.rounds + 1
        eta = math.sqrt(math.log(n_learners) / (n_learners * t))
        if self.known_rounds is not None:
            eta = math.sqrt(2 * math.log(n_learners) / (n_learners * self.known_rounds))
        weights = [math.exp(-eta * loss) for loss in self.loss_sums]
        return [weight / math.fsum(weights) for weight in weights]


class UniformReference(Rival):
    def probabilities(self) -> list[float]:
        return [1 / len(self.learners) for _ in self.learners]


class OracleReference(Rival):
    def __init__(self, n_learners: int, best: int, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.best = best

    def values(self) -> list[float]:
        return [float(i != self.best) for i in self.learners]


class RegretBalancingReference(Rival):
    def values(self) -> list[float]:
        tops = [self.mean(j) + self.bound(j, n) / n for j in self.learners if (n := len(self.credited[j]))]
        value = max([self.low, *tops])
        return [
            math.fsum(value - reward for reward in self.credited[i]) + self.width * len(self.waiting[i])
            if self.plays(i)
            else -math.inf
            for i in self.learners
        ]


class DynamicBalancingReference(Rival):
    def __init__(
        self, n_learners: int, scales: list[float] | None = None, biases: list[float] | None = None, **settings: Any
    ) -> None:
        super().__init__(n_learners, **settings)
        self.scales, self.biases = scales or [1.0] * n_learners, biases or [0.0] * n_learners

    def active(self) -> list[int]:
        played = [j for j in self.learners if self.credited[j]]
        best = max((self.mean(j) - self.biases[j] - self.mean_radius(j) for j in played), default=-math.inf)
        return [i for i in self.learners if i not in played or self.mean_upper(i) - self.biases[i] >= best]

    def values(self) -> list[float]:
        active = self.active()
        return [self.scales[i] * self.bound(i, self.plays(i)) if i in active else math.inf for i in self.learners]


class D3RBReference(Rival):
    def __init__(self, n_learners: int, d_min: float = 1.0, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.d_min = d_min * self.width
        self.coefficients = [self.d_min] * n_learners

    def on_booking(self, play: Play) -> None:
        i, n = play.learner, len(self.credited[play.learner])
        if self.mean(i) + self.coefficients[i] / math.sqrt(n) + self.mean_radius(i) < self.best_lower():
            self.coefficients[i] *= 2

    def values(self) -> list[float]:
        return [self.coefficients[i] * math.sqrt(max(self.plays(i), 1)) for i in self.learners]


class ED2RBReference(D3RBReference):
    def __init__(self, n_learners: int, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.potentials = [self.d_min] * n_learners

    def on_booking(self, play: Play) -> None:
        i, n = play.learner, len(self.credited[play.learner])
        estimate = math.sqrt(n) * (self.best_lower() - self.mean(i) - self.mean_radius(i))
        self.coefficients[i] = max(self.d_min, estimate)
        least, most = self.potentials[i], 2 * self.potentials[i]
        self.potentials[i] = min(max(self.coefficients[i] * math.sqrt(n), least), most)

    def values(self) -> list[float]:
        # Pending plays lift a potential as plays lift sqrt(n).
        return [
            self.potentials[i] * math.sqrt(max(self.plays(i), 1) / max(len(self.credited[i]), 1)) for i in self.learners
        ]


class ExploreCommitExploitReference(Rival):
    def __init__(self, n_learners: int, **settings: Any) -> None:
        super().__init__(n_learners, **settings)
        self.current, self.committed_until = 0, 0

    def on_booking(self, play: Play) -> None:
        t, more_complex = self.rounds, range(self.current + 1, len(self.learners))
        lowers = [self.mean(j) - self.mean_radius(j) for j in more_complex if self.credited[j]]
        tested = t > self.committed_until and self.credited[self.current]
        if tested and lowers and self.mean_upper(self.current) < max(lowers):
            self.current += 1
            self.committed_until = t + math.ceil(t ** (2 / 3))

    def probabilities(self) -> list[float]:
        t = self.rounds + 1
        explore = 0.0 if t <= self.committed_until else t ** (-1 / 3)
        pool = [i for i in self.learners if i >= self.current]
        chances = [explore / len(pool) if i in pool else 0.0 for i in self.learners]
        chances[self.current] += 1 - explore
        return chances


class RateAdaptiveReference(Rival):
    def probabilities(self) -> list[float]:
        fewest = min(len(rewards) for rewards in self.credited)
        size = max((2**k for k in range(40) if 2**k <= fewest), default=0)
        sums = [math.fsum(rewards[:size]) for rewards in self.credited]
        leader = min(self.learners, key=lambda i: (-sums[i], self.plays(i), i))
        explore = (self.rounds + 1) ** (-1 / 3)
        chances = [explore / len(self.learners)] * len(self.learners)
        chances[leader] += 1 - explore
        return chances


def drawing(number: float) -> Any:
    """A generator whose next number is known."""
    return SimpleNamespace(random=lambda: number)


def play(selector: Any, rewards: list[float], n_rounds: int, seed: int = 0) -> list[int]:
    """Bernoulli rewards with these means, or exact ones where a mean is 0 or 1; returns who played."""
    rng, learners = np.random.default_rng(seed), []
    low, high = selector.reward_range
    for _ in range(n_rounds):
        choice = selector.choose(rng)
        hit = rng.random() < rewards[choice.learner]
        selector.credit(choice, high if hit else low)
        learners.append(choice.learner)
    return learners
