"""Epsilon-greedy: play the best arm so far, and now and then any arm.

With probability 1 - epsilon the learner plays the greedy arm: the offered arm of greatest mean reward, an unplayed arm
before any other, ties going to the lower index. With probability epsilon it plays one of the K offered arms, each
equally likely, the greedy one included. So the greedy arm is played with probability 1 - epsilon + epsilon / K and any
other with epsilon / K, which is what the proposal reports.

Reference: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.4, "A simple bandit algorithm".
Departure: its estimates start at 0; here an arm counts as best until it has been played. A play of weight w counts w
times in the mean.

>>> EpsilonGreedy(4, epsilon=0.2, seed=3).decide(None)
Proposal(action=0, lower=-inf, regret=nan, probability=0.8500000000000001, greedy=0, value=nan)
"""

from __future__ import annotations

from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, Seeded
from equipoise.learners._core.finite import FiniteLearner
from equipoise.settings import configurable, setting
from equipoise.settings.checks import fraction
from equipoise.types import Array, Integers


class Params(NamedTuple):
    epsilon: float


class Memory(NamedTuple):
    plays: Integers
    weight_sums: Array  # the plays, each counted by its weight
    reward_sums: Array  # weighted
    mean_rewards: Array  # inf while an arm is unplayed


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    n_actions = len(actions)
    greedy = int(memory.mean_rewards[:n_actions].argmax())
    action, probability = greedy, params.epsilon / n_actions
    number = rng.random()
    if number < params.epsilon:
        # Given that it fell below epsilon, number / epsilon is uniform again; rounding may carry it up to 1.
        action = min(int(number / params.epsilon * n_actions), n_actions - 1)
    if action == greedy:
        probability += 1.0 - params.epsilon
    value = float(memory.mean_rewards[action])
    return Proposal(action, -inf, nan, probability, greedy, value if value < inf else nan)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    if weight == 0.0:
        return
    weight_sum = float(memory.weight_sums[action]) + weight
    reward_sum = float(memory.reward_sums[action]) + weight * reward
    memory.plays[action] += 1
    memory.weight_sums[action], memory.reward_sums[action] = weight_sum, reward_sum
    memory.mean_rewards[action] = reward_sum / weight_sum


@configurable
class EpsilonGreedy(FiniteLearner[Params, Memory], Seeded[Params, Memory]):
    """Greedy over `arms` arms, exploring with probability `epsilon`; see `FiniteLearner` for contexts.

    `seed` is that of the learner's own random stream, used where `decide` is given none.
    """

    epsilon: float = setting(check=fraction)

    accepts = frozenset({"weight"})
    provides = frozenset({"greedy"})  # and "value" once the arm has been played
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.epsilon)
        sums = (np.zeros(self.arms), np.zeros(self.arms))
        self.memory = Memory(np.zeros(self.arms, np.int64), *sums, np.full(self.arms, np.inf))

    def default_name(self) -> str:
        return f"EpsilonGreedy({self.epsilon:g})"
