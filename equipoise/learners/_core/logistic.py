"""Base class of learners for rewards whose share of the range is logistic in the features, such as clicks.

The expected reward of an action a is low + (high - low) sigmoid(<theta*, a>). theta* has the prior N(0, I / lambda);
after each update the posterior is taken to be normal again, with its mode theta as mean and the curvature of its
logarithm there as precision Sigma (Laplace's approximation). One update with the share y of the range and weight w
maximizes

    -1/2 (x - theta)^T Sigma (x - theta) + w (y <x, a> - ln(1 + exp(<x, a>))).

The maximum lies on the line theta + s Sigma^{-1} a, so it is the root of a function of one number, found by Newton's
method to rounding. Sigma grows by w p (1 - p) a a^T, p the probability of a at the maximum: the implicit online Newton
step. So a row of rewards costs one rank-one update of a `Ridge`, with the weight h = w p (1 - p) and the working
response <theta, a> + (y - p) w / h, theta the new mode.

References: Spiegelhalter and Lauritzen (1990), "Sequential updating of conditional probabilities on directed graphical
structures", for normal approximations one case at a time; Chapelle and Li (2011), "An empirical evaluation of Thompson
sampling", algorithm 3, with diagonal precision; Faury, Abeille, Jun and Calauzenes (2022), "Jointly efficient and
optimal algorithms for logistic bandits", the same step with another factor of the first term.
A share between 0 and 1 counts as a click with that probability. The widths of these learners are standard deviations of
the approximate posterior: nothing is proved about them, so their proposals have neither a lower bound nor a regret.
"""

from __future__ import annotations

from math import exp
from typing import Any

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.learners._core.base import MemoryT, ParamsT
from equipoise.learners._core.linear import FeatureLearner, action_bound_setting
from equipoise.learners._core.ridge import Ridge, update_offered
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.units import rewards_setting
from equipoise.types import Array

MIN_CURVATURE = 1e-12  # of a row; that of a certain outcome would round to 0
MAX_STEPS = 200  # of the search for a mode, each of which halves an interval or does better


@kernel
def learn(params: Any, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """Move the posterior by the reward of an action; weight 0 changes nothing."""
    learn_share(ridge, actions, action, (reward - params.low) / (params.high - params.low), weight)


@kernel
def learn_share(ridge: Ridge, actions: Array, action: int, share: float, weight: float) -> None:
    if weight > 0.0:
        mean, squared_norm = evaluate_offered(ridge, actions, action)
        mode = posterior_mode(mean, squared_norm * weight, share)
        probability = sigmoid(mode)
        curvature = max(weight * probability * (1.0 - probability), MIN_CURVATURE)
        update_offered(ridge, actions, action, mode + (share - probability) * weight / curvature, curvature)


@kernel
def sigmoid(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + exp(-x))
    odds = exp(x)
    return odds / (1.0 + odds)


@kernel
def posterior_mode(mean: float, spread: float, share: float) -> float:
    """The root x of x - mean + spread (sigmoid(x) - share): Newton steps, and halving where these do not halve."""
    pull = spread * (share - sigmoid(mean))  # the root lies between mean and mean + pull
    low, high, x = min(mean, mean + pull), max(mean, mean + pull), mean
    last = high - low
    for _ in range(MAX_STEPS):
        probability = sigmoid(x)
        error = x - mean + spread * (probability - share)
        if error > 0.0:
            high = x
        else:
            low = x
        step = -error / (1.0 + spread * probability * (1.0 - probability))
        if abs(step) > 0.5 * last or not low <= x + step <= high:
            step = 0.5 * (low + high) - x
        last = abs(step)
        x += step
        if last <= 1e-14 * (1.0 + abs(x)):
            break
    return x


@kernel
def evaluate_offered(ridge: Ridge, actions: Array, action: int) -> tuple[float, float]:
    """<theta, a> and ||a||^2 in Sigma^{-1} of one row, on its first d entries."""
    row = actions[action, : len(ridge.theta)]
    image = row.dot(ridge.factor)
    return float(ridge.theta.dot(row)), float(image.dot(image))


@native(evaluate_offered, reassociate=True)
def _evaluate_offered(ridge: Ridge, actions: Array, action: int) -> tuple[float, float]:
    factor, theta, dim = ridge.factor, ridge.theta, len(ridge.theta)
    mean = squared_norm = 0.0
    for j in range(dim):
        mean += theta[j] * actions[action, j]
        entry = 0.0
        for i in range(dim):
            entry += factor[i, j] * actions[action, i]
        squared_norm += entry * entry
    return mean, squared_norm


@configurable
class LogisticLearner(FeatureLearner[ParamsT, MemoryT]):
    """Logistic regression on the features of the offered actions, for rewards in the range and at its ends."""

    action_bound: float = action_bound_setting()
    regularization: float = setting(
        "Precision lambda of the prior of every entry of theta*, at least 1e-8 * action_bound^2.", positive, default=0.1
    )
    reward_range: tuple[float, float] = rewards_setting()

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "value", "pmf"})

    def check_reward(self, reward: float, weight: float) -> float:
        number, (low, high) = super().check_reward(reward, weight), self.reward_range
        if not low <= number <= high:
            raise InvalidArgument(f"reward is {reward!r}, but must lie in [{low:g}, {high:g}] for {self.name}")
        return number

    def _update(self, ridge: Ridge, row: Array, reward: float, weight: float) -> None:
        low, high = self.reward_range
        learn_share(ridge, row[None, :], 0, reward / (high - low), weight)
