"""Logistic Thompson sampling: play the best action for a parameter drawn from the posterior of a logistic regression.

Each round the learner draws theta + kappa Sigma^{-1/2} z, from the Laplace approximation of
`equipoise.learners._core.logistic`, and plays the best action for it. z is uniform over the fixed vectors of
`LinearThompson`, so the probability of an action is the share of vectors for which it is best.

References: Chapelle and Li (2011), "An empirical evaluation of Thompson sampling", algorithms 2 and 3; Russo, Van Roy,
Kazerouni, Osband and Wen (2018), "A tutorial on Thompson sampling", section 5.2 (Laplace approximation).
Symbols: theta and Sigma as in `ridge`, Sigma the precision of the posterior, kappa scale, z one of `directions`.
Departures: the precision is a full matrix, not its diagonal, and z is uniform over fixed vectors.
"""

from __future__ import annotations

from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.logistic import LogisticLearner, learn, sigmoid
from equipoise.learners._core.ridge import Ridge, predict
from equipoise.learners.linear_thompson import best_action_for, directions_for, shares_of_best
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.types import Array, Context


class Params(NamedTuple):
    dim: int
    scale: float
    low: float
    high: float
    directions: Array  # (N, d)


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator) -> Proposal:
    drawn = params.directions[int(rng.random() * len(params.directions))]
    action = best_action_for(drawn, ridge, params.scale, actions)
    means = predict(ridge, actions)
    value = params.low + (params.high - params.low) * sigmoid(float(means[action]))
    return Proposal(action, -inf, nan, nan, int(means.argmax()), value)  # its probability, by `pmf`, would take longer


@configurable
class LogisticThompson(LogisticLearner[Params, Ridge]):
    """Thompson sampling for rewards whose share of the range is logistic in the features of the actions.

    Contexts are as for `OFUL`, except `Ball`. Rewards are the ends of the range (clicks) or lie between them. As in
    `LinearThompson`, `pmf` is exact and d is at most 1000.

    Examples
    --------
    >>> learner = LogisticThompson(2, seed=3)
    >>> for t in range(400):
    ...     learner.learn([[1.0, 0.0], [0.0, 1.0]], action=t % 2, reward=float(t % 20 == 1))
    >>> bool(learner.pmf([[1.0, 0.0], [0.0, 1.0]])[1] > 0.9)
    True
    """

    scale: float = setting("Factor of the standard deviation of the sampled logit, positive.", positive, default=1.0)
    seed: int = seed_setting()

    randomized = True
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.dim, self.scale, *self.reward_range, directions_for(self))
        self.memory = self.new_ridge()

    def _pmf(self, context: Context, actions: Array) -> Array:
        return shares_of_best(self.params.directions, self.memory, self.scale, actions)

    def default_name(self) -> str:
        return self._name_with(self.scale)
