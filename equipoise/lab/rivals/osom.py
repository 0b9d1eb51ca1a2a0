"""OSOM-style learner: UCB over the arms until contexts are shown to matter, then a linear model.

The expected reward of arm k is mu_k + <a_k, theta*>; if theta* = 0, contexts carry no information and UCB over
the arms is sufficient. The learner plays UCB and fits a linear regression with one intercept per arm to the same
rewards. Once the optimistic rewards of a policy that uses contexts exceed the rewards of UCB by more than is possible
if theta* = 0, it switches permanently to optimistic least squares.

Reference: Chatterji, Muthukumar and Bartlett (2020), "OSOM: a simultaneously optimal algorithm for multi-armed and
linear contextual bandits", algorithm 1.
Symbols: g_s reward, i_s arm played, m_k and u_k upper end and half-width of UCB's interval for arm k, c_k and w_k
center and half-width of the regression's interval for <a_k - mean of a_k, theta*>, D(t) radius of the summed noise.
"-style": accumulating the optimistic reward of the linear policy minus that of UCB is the paper's idea; the threshold,
whose exact form was not available for comparison, is our own and data-dependent instead of worst case. Switch after
round t if

    sum_{s <= t} max_k (m_k + c_k + w_k) - g_s - 2 u_{i_s} - 2 max_k w_k  >  D(t).

If theta* = 0 and all intervals hold, c_k + w_k <= 2 w_k, m_k <= m_{i_s} <= mu_{i_s} + 2 u_{i_s}, and the sum of
g_s - mu_{i_s} is at most D(t) in magnitude: the learner never switches, with probability 1 - delta (a third for each of
UCB, regression and noise). As long as it has not switched, its regret is at most the sum of 2 u + 2 max w plus twice
D(t), of order sqrt(t) if contexts vary in all directions, as the paper assumes, and `noise` covers what contexts add to
the rewards of an arm. The paper also assumes contexts of mean zero; here the mean features of each arm so far are
subtracted instead, as their effect on rewards is part of the means of the arms. The regression is on rewards minus the
midpoint of their range, which the intercepts absorb.
"""

from __future__ import annotations

from math import inf, log, nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.confidence import Stitched, radius_sum, stitched
from equipoise.kernels.marks import kernel, native
from equipoise.lab.rivals.selecting import (
    SelectingLearner,
    add_intercepts,
    check_n_rows,
    check_rows_are_arms,
    optimistic_action,
)
from equipoise.learner import Proposal
from equipoise.learners import ucb
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.linear import check_arms, check_dim, delta_setting
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, evaluate, new_ridge, update_offered
from equipoise.settings import configurable, setting
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Array, Context, Integers


class Params(NamedTuple):
    arms: int
    dim: int
    ucb: ucb.Params
    ellipsoid: Ellipsoid
    noise: Stitched  # of summed rewards
    middle: float  # of the reward range


class Memory(NamedTuple):
    plain: ucb.Memory  # of the arms
    ridge: Ridge  # over (mu, theta)
    offers: Integers  # (arms,) how often each arm was offered
    mean_features: Array  # (arms, d) over those offers
    excess: Array  # (1,) the left side of the switching condition
    linear: Integers  # (1,) 1 once the learner has switched


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator | None) -> Proposal:
    if memory.linear[0] == 0:
        action = int(memory.plain.mean_uppers[: len(actions)].argmax())
        greedy, value = ucb.estimates(params.ucb, memory.plain, len(actions), action)
    else:
        rows = add_intercepts(actions, params.arms, params.dim)
        action, mean, _, greedy = optimistic_action(params.ellipsoid, memory.ridge, rows)
        value = mean + params.middle
    return Proposal(action, -inf, nan, 1.0, greedy, value)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    if memory.linear[0] == 0:
        rows = deviations(memory, actions)
        memory.excess[0] += excess_of(params, memory, rows, action, reward)
        ucb.learn(params.ucb, memory.plain, actions, action, reward, 1.0)
        if memory.excess[0] > radius_sum(params.noise, memory.ridge.updates[0] + 1):
            memory.linear[0] = 1
    rows = add_intercepts(actions, params.arms, params.dim)
    update_offered(memory.ridge, rows, action, reward - params.middle)


@kernel
def deviations(memory: Memory, actions: Array) -> Array:
    """Update the mean features of the arms; return the deviations of the offered features from them, after zeros."""
    n_actions, (arms, dim) = len(actions), memory.mean_features.shape
    means, offers = memory.mean_features[:n_actions], memory.offers[:n_actions]
    offers += 1
    means += (actions[:, :dim] - means) / offers[:, None]
    return np.hstack((np.zeros((n_actions, arms)), actions[:, :dim] - means))


@native(deviations)
def _deviations(memory: Memory, actions: Array) -> Array:
    arms, dim = memory.mean_features.shape
    rows = np.zeros((len(actions), arms + dim))
    for k in range(len(actions)):
        memory.offers[k] += 1
        for j in range(dim):
            memory.mean_features[k, j] += (actions[k, j] - memory.mean_features[k, j]) / memory.offers[k]
            rows[k, arms + j] = actions[k, j] - memory.mean_features[k, j]
    return rows


@kernel
def excess_of(params: Params, memory: Memory, rows: Array, action: int, reward: float) -> float:
    """The term of one round in the switching condition; 0 while an offered arm is unplayed."""
    means, squared_norms = evaluate(memory.ridge, rows)
    radius = ellipsoid_radius(params.ellipsoid, memory.ridge)
    optimistic, max_half_width = -inf, 0.0
    for k in range(len(rows)):
        half_width = radius * sqrt(squared_norms[k])
        optimistic = max(optimistic, float(memory.plain.mean_uppers[k]) + float(means[k]) + half_width)
        max_half_width = max(max_half_width, half_width)
    if optimistic == inf:
        return 0.0
    return optimistic - reward - 2.0 * float(memory.plain.half_widths[action]) - 2.0 * max_half_width


@configurable
class OSOM(SelectingLearner[Params, Memory]):
    """UCB over the arms until contexts are shown to matter, then optimistic least squares.

    A context is `Offers` without ids, or a K x d matrix with one row per arm, at most `arms` of them, and d >= dim
    columns.

    Examples
    --------
    >>> learner = OSOM(3, dim=2)
    >>> learner.learn([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]], 0, 1.0)
    >>> learner.decide([[0.5, 0.0], [0.0, 0.5], [0.0, 0.0]]).action, bool(learner.memory.linear[0])
    (1, False)
    """

    arms: int = setting("Number of arms; row k of a context is arm k.", check_arms, kw_only=False)
    dim: int = setting("Number of features used: the first `dim` columns of a context, at least 1.", check_dim)

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting(
        doc="Probability in (0, 1) of switching to the linear model although contexts do not matter."
    )

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        share = self.delta / 3
        plain = ucb.UCB(self.arms, noise=self.noise, delta=share, reward_range=self.reward_range)
        norm = sqrt(self.norm_bound**2 + self.arms * ((high - low) / 2) ** 2)
        ellipsoid = Ellipsoid(self.noise, 2 * log(1 / share), sqrt(self.regularization) * norm)
        noise = stitched(self.noise**2, share, 1.0)
        self.params = Params(self.arms, self.dim, plain.params, ellipsoid, noise, (low + high) / 2)
        ridge = new_ridge(self.arms + self.dim, self.regularization)
        offers, mean_features = np.zeros(self.arms, np.int64), np.zeros((self.arms, self.dim))
        self.memory = Memory(plain.memory, ridge, offers, mean_features, np.zeros(1), np.zeros(1, np.int64))

    def check_context(self, context: Context) -> Array:
        check_rows_are_arms(context, self.name)
        return check_n_rows(super().check_context(context), self.arms)

    def model_class(self) -> LinearClass:
        """The class of rewards that the learner assumes."""
        return self.linear_class(self.noise, self.delta)
