"""Adapting to unknown misspecification: SquareCB for a grid of error levels, weighted by hedged FTRL.

Expected rewards are within an unknown eps of linear. Level m of the grid runs inverse gap weighting tuned to eps_m =
w 2^{-m}; the action of a round is drawn from the mixture of the levels' distributions, weighted by q. The weights come
from follow-the-regularized-leader with the Tsallis entropy of order 1/2 on importance-weighted losses, minus a bias for
levels whose weight falls: a level that is rarely played learns from importance-weighted rewards with weights up to
rho = max 1/q, its regret grows by sqrt(rho), and the bias compensates for exactly that growth.

Reference: Foster, Gentile, Mohri and Zimmert (2020), "Adapting to misspecification in contextual bandits", section 3
(SquareCB with importance weights, hedged FTRL).
Symbols: K arms, T rounds, eps_m errors, q weights, rho_m rhos, gamma rates, eta learning_rate, R hedge, Reg_Sq
square_loss_regret = lambda S^2 + w^2 d ln(1 + T L^2 / (d lambda)).
"-style" because the text of the algorithms was not available for a line-by-line comparison. Choices made here:
gamma_m = min(sqrt(K) / eps_m, sqrt(K T / (rho_m Reg_Sq))); R = sqrt(K T Reg_Sq) / w for losses scaled to [0, 1]; eta =
1 / (sqrt(T) + R), so that the bias of a round never exceeds the loss that caused it; the bias (sqrt(rho_new) -
sqrt(rho_old)) R takes effect in the next round. `learn` is given the action but not the level that proposed it, so
losses and regression weights of level m are p_m(a) / sum_j q_j p_j(a): the mean, given the action, of the paper's [m
was drawn] / q_m, with the same expectation, the same bound 1 / q_m and less variance.
"""

from __future__ import annotations

from functools import partial
from math import ceil, inf, log, log2, nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.lab.rivals.selecting import SelectingLearner, check_n_rows
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import check_arms
from equipoise.learners._core.ridge import Ridge, new_ridge, predict, update_offered
from equipoise.learners.square_cb import inverse_gap_weights, sample_index
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.settings.units import rewards_setting
from equipoise.types import Array, Context


class Params(NamedTuple):
    errors: Array  # (M,) eps_m
    exploitation: float  # T / Reg_Sq
    learning_rate: float  # eta
    hedge: float  # R
    low: float
    high: float


class Memory(NamedTuple):
    ridges: tuple[Ridge, ...]  # one per level, on importance-weighted rounds
    weights: Array  # (M,) q
    losses: Array  # (M,) summed importance-weighted losses minus biases
    rhos: Array  # (M,) largest 1 / q_m so far


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    mixture = pmf(params, memory, actions)
    action = sample_index(mixture, rng.random())
    means = predict(memory.ridges[int(memory.weights.argmax())], actions)  # of the level with the largest weight
    value = params.low + min(max(float(means[action]), 0.0), params.high - params.low)
    return Proposal(action, -inf, nan, float(mixture[action]), int(means.argmax()), value)


@kernel
def pmf(params: Params, memory: Memory, actions: Array) -> Array:
    """sum_m q_m p_m: the distribution of the action."""
    mixture = np.zeros(len(actions))
    for m in range(len(memory.weights)):
        probabilities = level_probabilities(params, memory, m, actions)
        for k in range(len(actions)):
            mixture[k] += memory.weights[m] * probabilities[k]
    return np.minimum(mixture, 1.0)  # rounding of a single action's sum may exceed 1


@kernel
def level_probabilities(params: Params, memory: Memory, m: int, actions: Array) -> Array:
    """p_m: the distribution of the action of level m."""
    means, n_actions = predict(memory.ridges[m], actions), len(actions)
    error = params.errors[m]
    rate = sqrt(n_actions * min(1.0 / (error * error), params.exploitation / memory.rhos[m]))
    return inverse_gap_weights(means, int(means.argmax()), rate, params.high - params.low)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    n_levels = len(memory.weights)
    shares, probability = np.empty(n_levels), 0.0
    for m in range(n_levels):
        shares[m] = level_probabilities(params, memory, m, actions)[action]
        probability += memory.weights[m] * shares[m]
    loss = (params.high - reward) / (params.high - params.low)
    for m in range(n_levels):
        update_offered(memory.ridges[m], actions, action, reward - params.low, shares[m] / probability)
        memory.losses[m] += loss * shares[m] / probability
    tsallis_weights(memory.losses, params.learning_rate, memory.weights)
    for m in range(n_levels):
        rho = max(memory.rhos[m], 1.0 / memory.weights[m])
        memory.losses[m] -= params.hedge * (sqrt(rho) - sqrt(memory.rhos[m]))
        memory.rhos[m] = rho


@kernel
def tsallis_weights(losses: Array, learning_rate: float, weights: Array) -> None:
    """The q that minimizes <q, losses> - (4 / eta) sum sqrt(q) over the simplex: q_m = 4 / (eta (losses_m - x))^2.

    Newton's method for the x < min losses at which they sum to 1. The sum is convex and increasing in x and at least 1
    at the start, so the steps decrease x and never overshoot the root.
    """
    min_loss = losses.min()
    distance = 2.0 / learning_rate  # of x from the smallest loss
    for _ in range(100):
        total = slope = 0.0
        for m in range(len(losses)):
            gap = losses[m] - min_loss + distance
            scaled = learning_rate * gap
            weights[m] = 4.0 / (scaled * scaled)
            total += weights[m]
            slope += 2.0 * weights[m] / gap
        step = (total - 1.0) / slope
        if step <= 1e-15 * distance:
            break
        distance += step
    weights /= total


@configurable
class MisspecificationAdaptive(SelectingLearner[Params, Memory]):
    """Inverse gap weighting for rewards that are linear up to an unknown error.

    A context is `Offers`, or a K x d matrix with one offered action per row and d >= dim columns, K at most `arms`.

    Examples
    --------
    >>> learner = MisspecificationAdaptive(2, arms=3, rounds=1000)
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability, len(learner.memory.weights)
    (0.5, 5)
    """

    arms: int = setting("Maximum number K of actions offered in a round.", check_arms)
    rounds: int = setting("Number of rounds T for which the rates are tuned.", partial(count, maximum=10**12))

    reward_range: tuple[float, float] = rewards_setting()
    seed: int = seed_setting()

    randomized = True
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        width = high - low
        growth = 1 + self.rounds * self.action_bound**2 / (self.dim * self.regularization)
        square_loss_regret = self.regularization * self.norm_bound**2 + width**2 * self.dim * log(growth)
        # Once eps^2 T is below Reg_Sq, smaller errors give the same rates, so no more levels are needed.
        n_levels = 1 + max(0, ceil(log2(width * sqrt(self.rounds / square_loss_regret))))
        hedge = sqrt(self.arms * self.rounds * square_loss_regret) / width
        errors, learning_rate = np.array([width * 0.5**m for m in range(n_levels)]), 1.0 / (sqrt(self.rounds) + hedge)
        self.params = Params(errors, self.rounds / square_loss_regret, learning_rate, hedge, low, high)
        ridges = tuple(new_ridge(self.dim, self.regularization) for _ in range(n_levels))
        weights, rhos = np.full(n_levels, 1.0 / n_levels), np.full(n_levels, float(n_levels))
        self.memory = Memory(ridges, weights, np.zeros(n_levels), rhos)

    def check_context(self, context: Context) -> Array:
        return check_n_rows(super().check_context(context), self.arms)

    def _pmf(self, context: Context, actions: Array) -> Array:
        return pmf(self.params, self.memory, actions)
