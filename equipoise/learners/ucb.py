"""UCB: optimism for finitely many arms, with widths that hold simultaneously at all times.

Each arm has an interval around its mean reward. With probability 1 - delta, the intervals of all arms contain the
expected rewards after every number of plays. The learner plays the offered arm with the highest upper bound, where
unplayed arms (with infinite intervals) come first and ties go to the lower index. If all intervals hold, twice the
width of the played arm bounds the regret of the play against the best offered arm, and the lower end of its interval
bounds its expected reward.

References: Auer, Cesa-Bianchi and Fischer (2002), "Finite-time analysis of the multiarmed bandit problem", figure 1
(UCB1); Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences",
eq. (11), is the radius.
Departures from UCB1: its width sqrt(2 ln t / n) grows with the round t, assumes rewards in [0, 1] and holds at each
round with a probability that depends on t; here the width of an arm depends on its own plays n only, works with any
sub-Gaussian factor and holds at all rounds simultaneously, with delta / (2 arms) for each side of each arm.
A play of weight w counts w times: the mean is sum w r / sum w, and as sum w (r - mu) has the variance process sigma^2
sum w^2 for weights known before their reward, the width is D(sum w^2) / sum w.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.confidence import Stitched, radius_sum, stitched
from equipoise.kernels.marks import kernel, native
from equipoise.learner import Proposal
from equipoise.learners._core.arms import share_of_delta
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.finite import FiniteLearner, count_play
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive, probability
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Array, Integers


class Params(NamedTuple):
    radius: Stitched
    low: float
    high: float


class Memory(NamedTuple):
    """Sums over the plays of each arm, and the ends of its interval: (-inf, inf) while it is unplayed."""

    plays: Integers
    weight_sums: Array  # sums of the weights of the plays
    squared_weight_sums: Array
    reward_sums: Array  # weighted
    half_widths: Array
    mean_lowers: Array
    mean_uppers: Array


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    action = int(memory.mean_uppers[: len(actions)].argmax())
    lower = min(max(float(memory.mean_lowers[action]), params.low), params.high)
    regret = min(2.0 * float(memory.half_widths[action]), params.high - params.low)
    greedy, value = estimates(params, memory, len(actions), action)
    return Proposal(action, lower, regret, 1.0, greedy, value)


@kernel
def estimates(params: Params, memory: Memory, n_actions: int, action: int) -> tuple[int, float]:
    """The offered arm with the highest mean reward, unplayed arms first, and the mean reward of `action`.

    `action` is the optimistic choice, so if it has been played, all offered arms have. The estimate of an unplayed arm
    is the midpoint of the range.
    """
    if memory.plays[action] == 0:
        return action, (params.low + params.high) / 2.0
    mean_rewards = memory.reward_sums[:n_actions] / memory.weight_sums[:n_actions]
    return int(mean_rewards.argmax()), float(mean_rewards[action])


@native(estimates)
def _estimates(params: Params, memory: Memory, n_actions: int, action: int) -> tuple[int, float]:
    if memory.plays[action] == 0:
        return action, (params.low + params.high) / 2.0
    best, best_value = 0, -inf
    for k in range(n_actions):
        mean_reward = memory.reward_sums[k] / memory.weight_sums[k]
        if mean_reward > best_value:
            best, best_value = k, mean_reward
    return best, memory.reward_sums[action] / memory.weight_sums[action]


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    if weight == 0.0:
        return
    mean_reward = count_play(memory, action, reward, weight)
    squared_weight_sum = float(memory.squared_weight_sums[action]) + weight * weight
    memory.squared_weight_sums[action] = squared_weight_sum
    # The radius holds for sums whose variance is at least that of one play of weight 1.
    half_width = radius_sum(params.radius, max(squared_weight_sum, 1.0)) / float(memory.weight_sums[action])
    memory.half_widths[action] = half_width
    memory.mean_lowers[action] = mean_reward - half_width
    memory.mean_uppers[action] = mean_reward + half_width


@configurable
class UCB(FiniteLearner[Params, Memory]):
    """Upper confidence bounds for finitely many arms.

    A context is a K x d matrix whose rows stand for the first K arms, or `Offers`, whose arms are addressed by id if
    they have ids: then they may come and go. Features are ignored. Any other context, such as None, offers all arms.

    Examples
    --------
    >>> learner = UCB(3)
    >>> learner.learn(None, learner.decide(None).action, reward=1.0)
    >>> learner.decide(None).action
    1
    """

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    scale: float = setting(
        "Factor of the confidence widths, positive; below 1 nothing is guaranteed.", positive, default=1.0
    )
    delta: float = setting("Probability in (0, 1) that the interval of some arm ever fails.", probability, default=0.01)

    accepts = frozenset({"agreed", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = self._with_share(self.delta / self.arms)

    def new_memory(self, n_arms: int) -> Memory:
        unplayed, plays = np.full(n_arms, np.inf), np.zeros(n_arms, np.int64)
        sums = (np.zeros(n_arms), np.zeros(n_arms), np.zeros(n_arms))
        return Memory(plays, *sums, unplayed.copy(), -unplayed, unplayed.copy())

    def params_of(self, block: int) -> Params:
        return self._with_share(share_of_delta(self.delta, block, self.arms))

    def _with_share(self, delta: float) -> Params:
        """The parameters of an arm whose interval may fail with probability `delta`."""
        return Params(stitched(self.noise**2, delta / 2, self.scale), *self.reward_range)

    def default_name(self) -> str:
        return "UCB" if self.scale == 1.0 else f"UCB(scale={self.scale:g})"
