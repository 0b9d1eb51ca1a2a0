"""Epsilon-greedy: play the best arm so far, and explore with a fixed probability.

With probability 1 - epsilon the learner plays the greedy arm: the offered arm with the highest mean reward, where
unplayed arms come first and ties go to the lower index. With probability epsilon it plays one of the K offered arms,
drawn uniformly, the greedy one included. So the greedy arm is played with probability 1 - epsilon + epsilon / K and any
other with epsilon / K; the proposal reports these probabilities.

Reference: Sutton and Barto (2018), "Reinforcement learning: an introduction", section 2.4, "A simple bandit algorithm".
Departure: estimates start at infinity instead of 0, so that every arm is tried. A play of weight w counts w times in
the mean.
"""

from __future__ import annotations

from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.finite import FiniteLearner, count_play
from equipoise.settings import configurable, setting
from equipoise.settings.checks import fraction
from equipoise.types import Array, Context, Integers


class Params(NamedTuple):
    epsilon: float


class Memory(NamedTuple):
    plays: Integers
    weight_sums: Array  # sums of the weights of the plays
    reward_sums: Array  # weighted
    mean_rewards: Array  # inf while an arm is unplayed


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    n_actions = len(actions)
    greedy = int(memory.mean_rewards[:n_actions].argmax())
    action, number = greedy, rng.random()
    if number < params.epsilon:
        # Given that number < epsilon, number / epsilon is uniform on [0, 1); rounding may make it 1.
        action = min(int(number / params.epsilon * n_actions), n_actions - 1)
    value = float(memory.mean_rewards[action])
    probability = probability_of(params, n_actions, action == greedy)
    return Proposal(action, -inf, nan, probability, greedy, value if value < inf else nan)


@kernel
def probability_of(params: Params, n_actions: int, is_greedy: bool) -> float:
    """The probability of the greedy arm, or of any other offered one."""
    explored = params.epsilon / n_actions
    return explored + (1.0 - params.epsilon) if is_greedy else explored


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    if weight != 0.0:
        memory.mean_rewards[action] = count_play(memory, action, reward, weight)


@configurable
class EpsilonGreedy(FiniteLearner[Params, Memory]):
    """Plays the arm of highest mean reward, or with probability `epsilon` an arm drawn uniformly.

    Contexts are as for `UCB`.

    Examples
    --------
    >>> EpsilonGreedy(4, epsilon=0.2, seed=3).decide(None)
    Proposal(action=0, lower=-inf, regret=nan, probability=0.8500000000000001, greedy=0, value=nan, plan=None)
    """

    epsilon: float = setting("Probability of exploration, in [0, 1].", fraction)

    seed: int = seed_setting()

    randomized = True
    accepts = frozenset({"weight"})
    provides = frozenset({"greedy", "pmf"})  # and "value" once the arm has been played
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.epsilon)

    def new_memory(self, n_arms: int) -> Memory:
        sums = (np.zeros(n_arms), np.zeros(n_arms))
        return Memory(np.zeros(n_arms, np.int64), *sums, np.full(n_arms, np.inf))

    def _pmf(self, context: Context, actions: Array) -> Array:
        n_actions = len(actions)
        probabilities = np.full(n_actions, probability_of(self.params, n_actions, False))
        greedy = int(self.memory_for(context).mean_rewards[:n_actions].argmax())
        probabilities[greedy] = probability_of(self.params, n_actions, True)
        return probabilities

    def default_name(self) -> str:
        return f"EpsilonGreedy({self.epsilon:g})"
