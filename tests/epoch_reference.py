"""Algorithms 2 and 3 with late rewards and certificates, written to be read: lists, and nothing kept but the rounds.

Everything is computed from the list of rounds whenever it is asked for. Reference: Pacchiano, Dann, Gentile and
Bartlett (2020), section "Extension to Adversarial Contexts"; the radius is that of Howard et al. (2021), eq. (11).
A round belongs to the epoch in which it was chosen. Rounds are tested in their order, each once all rounds before it
have their rewards; a round of an epoch that has ended meanwhile is passed over.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass
class Round:
    learner: int
    probability: float
    epoch: int
    lowers: dict[int, float] = field(default_factory=dict)
    regrets: dict[int, float] = field(default_factory=dict)
    reward: float | None = None


class Ending(NamedTuple):
    round: int
    learner: int
    witness: int
    rounds: int
    reward_sum: float
    regret_sum: float
    radius: float
    lower_sum: float


class EpochReference:
    """`sizes` are the z_i of the learners; `in_epochs` for Algorithm 3, else Algorithm 2."""

    def __init__(
        self,
        sizes: list[float],
        *,
        in_epochs: bool,
        delta: float,
        reward_range: tuple[float, float],
        noise: float | None = None,
        radius_scale: float = 1.0,
    ) -> None:
        self.sizes, self.in_epochs = sizes, in_epochs
        self.low, self.high = reward_range
        n_epochs = len(sizes) if in_epochs else 1
        self.log_term = 0.72 * math.log(5.2 / (delta / (4 * n_epochs)))
        self.variance = (self.high - self.low) ** 2 / 4 if noise is None else noise**2
        self.scale = radius_scale
        self.active = self.filtered() if in_epochs else list(range(len(sizes)))
        self.rounds: list[Round] = []
        self.n_tested = 0  # rounds of the prefix that have been looked at
        self.epochs: list[list[Round]] = [[]]  # the tested rounds of each epoch, the last of them running
        self.endings: list[Ending] = []

    def filtered(self) -> list[int]:
        """Keep the last; then, downwards, whoever is at most half as large as the last one kept."""
        kept = [len(self.sizes) - 1]
        for i in range(len(self.sizes) - 2, -1, -1):
            if 2 * self.sizes[i] <= self.sizes[kept[0]]:
                kept.insert(0, i)
        return kept

    def radius(self, t: int) -> float:
        if t == 0:
            return 0.0
        return self.scale * 1.7 * math.sqrt(self.variance * t * (math.log(math.log(2 * t)) + self.log_term))

    def choose(self, number: float) -> Round:
        """`number` is uniform in [0, 1): where it falls on the line of probabilities, laid end to end."""
        weights = {i: 1 / self.sizes[i] for i in self.active}
        total = sum(weights.values())
        position, chosen = 0.0, self.active[-1]
        for i in self.active:
            position += weights[i]
            if number * total < position:
                chosen = i
                break
        played = Round(chosen, weights[chosen] / total, self.n_eliminated())
        self.rounds.append(played)
        return played

    def n_eliminated(self) -> int:
        return sum(1 for ending in self.endings if ending.learner not in self.active)

    def withdraw(self, played: Round) -> None:
        self.rounds = [other for other in self.rounds if other is not played]
        self.advance()

    def credit(self, played: Round, reward: float) -> None:
        played.reward = reward
        self.advance()

    def advance(self) -> None:
        while self.n_tested < len(self.rounds) and self.rounds[self.n_tested].reward is not None:
            played = self.rounds[self.n_tested]
            self.n_tested += 1
            if played.epoch == self.n_eliminated():
                self.epochs[-1].append(played)
                self.test()

    def test(self) -> None:
        """Rewards, admitted regrets and radius against the greatest sum of lower bounds, over the running epoch."""
        smallest = self.active[0]
        if any(ending.learner == smallest for ending in self.endings):
            return
        epoch = self.epochs[-1]
        rewards, regrets, radius = reward_sum(epoch), self.regret_sum(epoch), self.radius(len(epoch))
        lowers = {i: self.lower_sum(epoch, i) for i in self.active}
        witness = max(self.active, key=lambda i: (lowers[i], -i))
        if rewards + regrets + radius < lowers[witness]:
            ending = Ending(len(self.rounds), smallest, witness, len(epoch), rewards, regrets, radius, lowers[witness])
            self.endings.append(ending)
            if self.in_epochs and len(self.active) > 1:
                self.active = self.active[1:]
                self.epochs.append([])

    def regret_sum(self, epoch: list[Round]) -> float:
        return math.fsum(min(played.regrets[played.learner], self.high - self.low) for played in epoch)

    def lower_sum(self, epoch: list[Round], i: int) -> float:
        return math.fsum(self.clipped(played.lowers[i]) for played in epoch)

    def clipped(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def certificate(self) -> dict[str, object]:
        """If the last learner is well specified, no optimum exceeds its lower bound plus regret; what is not tested,
        or was passed over, may have cost the full width."""
        last, width = len(self.sizes) - 1, self.high - self.low
        tested = [played for epoch in self.epochs for played in epoch]
        possible = math.fsum(
            min(self.clipped(played.lowers[last]) + min(played.regrets[last], width), self.high) for played in tested
        )
        radius = math.fsum(self.radius(len(epoch)) for epoch in self.epochs)
        lower, upper = self.low, self.high
        if tested:
            lower, upper = max(lower, (reward_sum(tested) - radius) / len(tested)), possible / len(tested)
        alone = any(ending.learner == last for ending in self.endings)
        consistent = lower <= upper and not alone
        all_of_it = width * len(self.rounds)
        regret = possible - reward_sum(tested) + radius + width * (len(self.rounds) - len(tested))
        return {
            "rounds": len(self.rounds),
            "resolved_rounds": self.n_tested,
            "optimum_lower": min(lower, self.high),
            "optimum_upper": upper,
            "regret_lower": 0.0,
            "regret_upper": max(0.0, min(all_of_it, regret)) if consistent else all_of_it,
            "consistent": consistent,
        }


def reward_sum(rounds: list[Round]) -> float:
    return math.fsum(played.reward for played in rounds if played.reward is not None)
