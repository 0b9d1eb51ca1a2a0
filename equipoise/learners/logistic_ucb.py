"""Logistic UCB: optimism for clicks and other rewards between two ends.

The learner keeps the Laplace approximation of `equipoise.learners._core.logistic` and plays the action with the largest
quantile of its logit: estimate plus `scale` standard deviations. As a click rate p has the variance p (1 - p), rare
clicks need far fewer rounds than the width of a linear learner, which knows only their range, would spend on them.

References: Filippi, Cappe, Garivier and Szepesvari (2010), "Parametric bandits: the generalized linear case", section
3; Kaufmann, Cappe and Garivier (2012), "On Bayesian upper confidence bounds for bandit problems", for quantiles of a
posterior as indices.
Symbols: theta and Sigma as in `ridge`, Sigma the precision of the posterior.
Departures: the width of Filippi et al. has a factor 1 / min p (1 - p), which makes it useless for rare clicks; here
Sigma has the curvature itself. The number of standard deviations is a setting, and no regret bound is proved.
"""

from __future__ import annotations

from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.logistic import LogisticLearner, learn, sigmoid
from equipoise.learners._core.ridge import Ridge, evaluate, most_optimistic
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.types import Array


class Params(NamedTuple):
    dim: int
    scale: float
    low: float
    high: float


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator | None) -> Proposal:
    means, squared_norms = evaluate(ridge, actions)
    action, greedy = most_optimistic(means, squared_norms, params.scale)
    value = params.low + (params.high - params.low) * sigmoid(float(means[action]))
    return Proposal(action, -inf, nan, 1.0, greedy, value)


@configurable
class LogisticUCB(LogisticLearner[Params, Ridge]):
    """Optimism for rewards whose share of the range is logistic in the features of the actions.

    Contexts are as for `OFUL`, except `Ball`. Rewards are the ends of the range (clicks) or lie between them.

    Examples
    --------
    >>> learner = LogisticUCB(2)
    >>> for t in range(100):
    ...     learner.learn([[1.0, 0.0], [0.0, 1.0]], action=t % 2, reward=float(t % 20 == 1))
    >>> proposal = learner.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> proposal.action, round(proposal.value, 2)
    (1, 0.11)
    """

    scale: float = setting("Standard deviations of the logit above its estimate, positive.", positive, default=1.0)

    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(self.dim, self.scale, *self.reward_range)
        self.memory = self.new_ridge()

    def default_name(self) -> str:
        return self._name_with(self.scale)
