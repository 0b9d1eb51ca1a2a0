"""OSOM-style learner: finitely many arms until the contexts are shown to matter, a linear model from then on.

The expected reward of arm k is mu_k + <a_k, theta*>; if theta* = 0 contexts tell nothing and UCB over the arms is
right. The learner plays UCB and keeps, from the same rewards, a linear regression with one intercept per arm. Once a
policy that uses the contexts has provably earned more than UCB may lose among fixed arms, theta* is not 0, and the
learner plays optimistic least squares for good.

Reference: Chatterji, Muthukumar and Bartlett (2020), "OSOM: a simultaneously optimal algorithm for multi-armed and
linear contextual bandits", algorithm 1.
Symbols: g_t reward, W allowance plus radius, mu and theta* the two parts of the regression's parameter.
"-style": the idea is that of the paper (accumulate the advantage of the linear policy over the rewards of UCB, switch
once it exceeds what UCB's regret and noise explain), the statistic is our own, with constants that are observed. Switch
after round t if

    sum_s max_k (lower bound of mu_k + <a_k, theta*> in round s) - g_s  >  sum_s 2 u_s + D(t),

u_s the half-width of UCB's interval and D(t) the radius of the summed noise. If theta* = 0 and all intervals hold, a
lower bound is at most max mu, UCB's play loses at most 2 u_s against max mu, and g strays by at most D(t): the learner
never switches, with probability 1 - delta (a third for each of UCB, regression and noise). If it has not switched,
its regret up to t is at most the right side, plus the same radius, plus twice the summed width of the best actions in
the linear model, which is small if contexts vary in all directions, as the paper assumes.
"""

from __future__ import annotations

from math import inf, log, nan, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.confidence import Radius, radius_sum, stitched
from equipoise.kernel import kernel
from equipoise.learners import ucb
from equipoise.learners.base import Kernels
from equipoise.learners.ridge import (
    Array,
    Ellipsoid,
    Ridge,
    ellipsoid_radius,
    evaluate,
    open_ridge,
    update_offered,
)
from equipoise.learners.selecting import SelectingLearner, check_arms, optimistic_action, with_intercepts


class Params(NamedTuple):
    arms: int
    dim: int
    ucb: ucb.Params
    ellipsoid: Ellipsoid
    noise: Radius  # of the summed rewards
    low: float
    high: float


class Memory(NamedTuple):
    plain: ucb.Memory  # of the arms
    ridge: Ridge  # over (mu, theta)
    advantage: Array  # (1,) sum of the linear policy's lower bounds minus rewards
    allowance: Array  # (1,) sum of what UCB's plays may lose
    linear: NDArray[np.int64]  # (1,) 1 once the learner has switched


@kernel
def decide(
    params: Params, memory: Memory, actions: Array, rng: np.random.Generator | None
) -> tuple[int, float, float, float]:
    if memory.linear[0] == 0:
        action = int(memory.plain.mean_uppers[: len(actions)].argmax())
    else:
        rows = with_intercepts(actions, params.arms, params.dim)
        action, _, _ = optimistic_action(params.ellipsoid, memory.ridge, rows)
    return action, -inf, nan, 1.0


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float) -> None:
    rows = with_intercepts(actions, params.arms, params.dim)
    if memory.linear[0] == 0:
        memory.advantage[0] += greatest_lower(params, memory.ridge, rows) - reward
        memory.allowance[0] += min(2.0 * float(memory.plain.half_widths[action]), params.high - params.low)
        ucb.learn(params.ucb, memory.plain, actions, action, reward)
        rounds = memory.ridge.updates[0] + 1
        if memory.advantage[0] > memory.allowance[0] + radius_sum(params.noise, rounds):
            memory.linear[0] = 1
    update_offered(memory.ridge, rows, action, reward)


@kernel
def greatest_lower(params: Params, ridge: Ridge, rows: Array) -> float:
    """What the best offered action earns at least, under the linear model."""
    means, squared_norms = evaluate(ridge, rows)
    radius, greatest = ellipsoid_radius(params.ellipsoid, ridge), params.low
    for k in range(len(rows)):
        greatest = max(greatest, float(means[k]) - radius * sqrt(squared_norms[k]))
    return min(greatest, params.high)


class OSOM(SelectingLearner):
    """UCB over `arms` arms, or optimistic least squares on them and the first `dim` features of their contexts.

    Row k of a context is arm k. `noise` is the sub-Gaussian factor of the rewards, `norm_bound` bounds theta*,
    `reward_range` is where expected rewards lie, `delta` the probability with which it switches without reason.

    >>> learner = OSOM(3, dim=2)
    >>> learner.learn([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]], 0, 1.0)
    >>> learner.decide([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]]).action, bool(learner.memory.linear[0])
    (1, False)
    """

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def __init__(
        self,
        arms: int,
        *,
        dim: int,
        noise: float = 0.5,
        norm_bound: float = 1.0,
        action_bound: float = 1.0,
        regularization: float = 1.0,
        delta: float = 0.01,
        reward_range: tuple[float, float] = (0.0, 1.0),
        name: str | None = None,
    ) -> None:
        self.arms = check_arms(arms)
        super().__init__(
            dim,
            noise=noise,
            norm_bound=norm_bound,
            action_bound=action_bound,
            regularization=regularization,
            delta=delta,
            scale=1.0,
            reward_range=reward_range,
            name=name,
        )
        low, high = self.reward_range
        share = self.delta / 3
        plain = ucb.UCB(self.arms, noise=self.noise, delta=share, reward_range=self.reward_range)
        norm = sqrt(self.norm_bound**2 + self.arms * max(low * low, high * high))
        self.params = Params(
            self.arms,
            self.dim,
            plain.params,
            Ellipsoid(self.noise, 2 * log(1 / share), sqrt(self.regularization) * norm),
            stitched(self.noise**2, share, 1.0),
            low,
            high,
        )
        self.memory: Any = Memory(
            plain.memory,
            open_ridge(self.arms + self.dim, self.regularization),
            np.zeros(1),
            np.zeros(1),
            np.zeros(1, np.int64),
        )
