"""Adapting to unknown misspecification: SquareCB for a ladder of presumed errors, weighted by hedged FTRL.

Expected rewards are within eps of linear, nobody knows eps. Level m of the ladder runs inverse gap weighting tuned to
eps_m = w 2^{-m}; a round's action is drawn from the mixture of the levels' distributions, weighted by q. The weights
come from follow-the-regularised-leader with the Tsallis entropy of order 1/2 on importance-weighted losses, minus a
bias for levels whose weight falls: a level that is rarely played learns from importance-weighted rewards with weights
up to rho = max 1/q, its regret grows by sqrt(rho), and the bias makes up for exactly that growth.

Reference: Foster, Gentile, Mohri and Zimmert (2020), "Adapting to misspecification in contextual bandits", section 3
(SquareCB with importance weights, hedged FTRL).
Symbols: K arms, T rounds, eps_m errors, q weights, rho_m rhos, gamma rates, eta learning_rate, R hedge, Reg_Sq
square_loss_regret = lambda S^2 + w^2 d ln(1 + T L^2 / (d lambda)).
"-style", as the text of the algorithms could not be compared line by line. Chosen: gamma_m = min(sqrt(K) / eps_m,
sqrt(K T / (rho_m Reg_Sq))); R = sqrt(K T Reg_Sq) / w for losses scaled to [0, 1]; eta = 1 / (sqrt(T) + R), so that the
bias of a round never outweighs the loss that called for it; the bias (sqrt(rho_new) - sqrt(rho_old)) R enters with the
next round. Whoever learns from a round is told its action but not the level it came from, so losses and regression
weights of level m are p_m(a) / sum_j q_j p_j(a): the mean, given the action, of the paper's [m was drawn] / q_m, with
the same expectation, the same bound 1 / q_m and less variance.
"""

from __future__ import annotations

from functools import partial
from math import ceil, inf, log, log2, nan, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, Ranged, Seeded
from equipoise.learners._core.ridge import Ridge, open_ridge, predict, update_offered
from equipoise.learners._core.selecting import SelectingLearner, check_arms
from equipoise.learners.square_cb import drawn, inverse_gaps
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Array


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
    rhos: Array  # (M,) greatest 1 / q_m so far


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    mixture = np.zeros(len(actions))
    for m in range(len(memory.weights)):
        probabilities = level_probabilities(params, memory, m, actions)
        for k in range(len(actions)):
            mixture[k] += memory.weights[m] * probabilities[k]
    action = drawn(mixture, rng.random())
    means = predict(memory.ridges[int(memory.weights.argmax())], actions)  # what the level of greatest weight believes
    value = min(max(float(means[action]), params.low), params.high)
    return Proposal(action, -inf, nan, min(float(mixture[action]), 1.0), int(means.argmax()), value)


@kernel
def level_probabilities(params: Params, memory: Memory, m: int, actions: Array) -> Array:
    """p_m: how level m would draw its action."""
    means, n_actions = predict(memory.ridges[m], actions), len(actions)
    rate = sqrt(n_actions * min(1.0 / params.errors[m] ** 2, params.exploitation / memory.rhos[m]))
    return inverse_gaps(means, int(means.argmax()), rate, params.low, params.high)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    n_levels = len(memory.weights)
    shares, probability = np.empty(n_levels), 0.0
    for m in range(n_levels):
        shares[m] = level_probabilities(params, memory, m, actions)[action]
        probability += memory.weights[m] * shares[m]
    loss = (params.high - reward) / (params.high - params.low)
    for m in range(n_levels):
        update_offered(memory.ridges[m], actions, action, reward, shares[m] / probability)
        memory.losses[m] += loss * shares[m] / probability
    tsallis_weights(memory.losses, params.learning_rate, memory.weights)
    for m in range(n_levels):
        rho = max(memory.rhos[m], 1.0 / memory.weights[m])
        memory.losses[m] -= params.hedge * (sqrt(rho) - sqrt(memory.rhos[m]))
        memory.rhos[m] = rho


@kernel
def tsallis_weights(losses: Array, learning_rate: float, weights: Array) -> None:
    """The q that minimises <q, losses> - (4 / eta) sum sqrt(q) over the simplex: q_m = 4 / (eta (losses_m - x))^2.

    Newton's method for the x < min losses at which they sum to 1. The sum is convex and increasing in x and at least 1
    at the start, so the steps go down and never pass the root.
    """
    least = losses.min()
    distance = 2.0 / learning_rate  # of x from the least loss
    for _ in range(100):
        total = slope = 0.0
        for m in range(len(losses)):
            gap = losses[m] - least + distance
            weights[m] = 4.0 / (learning_rate * gap) ** 2
            total += weights[m]
            slope += 2.0 * weights[m] / gap
        step = (total - 1.0) / slope
        if step <= 1e-15 * distance:
            break
        distance += step
    weights /= total


@configurable
class MisspecificationAdaptive(Seeded[Params, Memory], SelectingLearner[Params, Memory], Ranged):
    """Inverse gap weighting on the first `dim` features of at most `arms` offered actions, over a horizon of `rounds`,
    for rewards that are linear up to an unknown error; see `LinearLearner` for contexts.

    `norm_bound` bounds theta*, `reward_range` is where rewards lie, `seed` is that of the learner's own random stream,
    used where `decide` is given none.

    >>> learner = MisspecificationAdaptive(2, arms=3, rounds=1000)
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability, len(learner.memory.weights)
    (0.5, 5)
    """

    arms: int = setting(check=check_arms)
    rounds: int = setting(check=partial(count, most=10**12))

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        low, high = self.reward_range
        width = high - low
        growth = 1 + self.rounds * self.action_bound**2 / (self.dim * self.regularization)
        square_loss_regret = self.regularization * self.norm_bound**2 + width**2 * self.dim * log(growth)
        # Once eps^2 T falls below Reg_Sq, smaller errors tune alike: that is the last level.
        n_levels = 1 + max(0, ceil(log2(width * sqrt(self.rounds / square_loss_regret))))
        hedge = sqrt(self.arms * self.rounds * square_loss_regret) / width
        self.params = Params(
            np.array([width * 0.5**m for m in range(n_levels)]),
            self.rounds / square_loss_regret,
            1.0 / (sqrt(self.rounds) + hedge),
            hedge,
            low,
            high,
        )
        self.memory = Memory(
            tuple(open_ridge(self.dim, self.regularization) for _ in range(n_levels)),
            np.full(n_levels, 1.0 / n_levels),
            np.zeros(n_levels),
            np.full(n_levels, float(n_levels)),
        )
