"""Disjoint OFUL: optimism with one linear model per action.

The expected reward of the action with id k is <theta_k, x>, x its features in the round (or the features that all
actions share). Each action has its own ridge estimate and its own ellipsoid, and the learner plays the action with the
highest upper confidence bound. Actions may come and go: an action that is not known has the ellipsoid of a model
without data. As in `OFUL`, twice the width of the played action bounds the regret of the play, and estimate minus width
is a lower bound on its expected reward, if all ellipsoids hold.

References: Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news article
recommendation", algorithm 1 (LinUCB with disjoint linear models); Abbasi-Yadkori, Pal and Szepesvari (2011), "Improved
algorithms for linear stochastic bandits", theorem 2, is the ellipsoid.
Symbols: theta, Sigma and beta as in `ridge`, one of each per action; M arms.
Departures: the width is that of the ellipsoid, which holds at all times, instead of a constant alpha; each action has a
share of delta (see `equipoise.learners._core.arms`, which also says when an action is forgotten). If more than `arms`
actions appear in all, later ones have smaller shares. Without ids, row k of a context is the action "k".
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.features import Offers
from equipoise.learner import Proposal, one_hot
from equipoise.learners._core.arms import Arms, ByIdLearner, block_of, share_of_delta
from equipoise.learners._core.base import among_all
from equipoise.learners._core.linear import EllipsoidLearner
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, new_ridge, new_scratch, update
from equipoise.learners._core.selecting import check_arms
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.units import Ranged
from equipoise.types import Action, Array, Context, Integers


class Models(NamedTuple):
    """The regressions of several actions, one row each; the fields are those of `Ridge`."""

    factor: Array  # (n, d, d)
    theta: Array  # (n, d)
    log_determinant: Array  # (n, 1)
    updates: Integers  # (n, 1)
    weights: Array  # (n, 2)


class Nothing(NamedTuple):
    """Parameters and memory of a learner without kernels."""


@configurable
class DisjointOFUL(ByIdLearner[Nothing, Nothing], EllipsoidLearner[Nothing, Nothing], Ranged):
    """Optimistic least squares with one model per action.

    A context is `Offers` with ids, which may come and go, or a K x d matrix whose row k is the k-th action. For models
    of the features that all actions share, as in news recommendation, give `features=Shared(dim)`.

    Parameters
    ----------
    dim
        Number of features used: the first `dim` columns of a context, at least 1. Default: that of `features`.
    features
        Feature map to use instead of the first columns; see `equipoise.features`. Default: none.
    arms
        Number of actions that are expected in all; there may be more.
    window
        Number of lessons after which an action that is no longer offered is forgotten. Default: 10000.
    noise
        Sub-Gaussian factor of the reward noise, positive. Default: the portfolio's, or half the width of
        the reward range, which always suffices.
    norm_bound
        Upper bound on the norm of the true parameter of every action, positive. Default: 1.
    action_bound
        Upper bound on the norm of a row of features, positive; larger rows are rejected. Default: 1.
    regularization
        Ridge penalty lambda, at least 1e-8 * action_bound^2. Default: 1.
    delta
        Probability in (0, 1) that the ellipsoid of some action ever fails. Default: 0.01.
    scale
        Factor of the radius of the ellipsoids, positive; below 1 their statements need not hold. Default: 1.
    reward_range
        Interval (low, high) that contains all expected rewards. Default: the portfolio's, or (0, 1).
    name
        Name of the learner in tables and certificates. Default: made from the other settings.

    Examples
    --------
    >>> from equipoise.features import Offers, Shared
    >>> learner = DisjointOFUL(features=Shared(2), arms=2, scale=0.3)
    >>> offers = Offers(None, shared=[1.0, 0.0], ids=["sports", "politics"])
    >>> for _ in range(50):
    ...     action = learner.decide(offers).action
    ...     learner.learn(offers, action, reward=float(offers.ids[action] == "politics"))
    >>> offers.ids[learner.decide(offers).action]
    'politics'
    """

    arms: int = setting(check=check_arms)
    scale: float = setting(default=1.0, check=positive)

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self.params = self.memory = Nothing()
        self._arms: Arms[Models] = Arms(_models(new_ridge(self.dim, self.regularization)), self.window)
        self._scratch = new_scratch(self.dim, 0)

    def check_context(self, context: Context) -> Array:
        return super().check_context(context)[:, : self.dim]

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the action with the highest upper confidence bound, with its lower bound and its observed regret."""
        rows = self.check_context(context)
        found = self._arms.find(_ids(context, len(rows)))
        models = self._arms.memory
        images = np.matmul(rows[:, None, :], models.factor[found])[:, 0, :]
        radii = np.array([self._radius(int(slot)) for slot in found])
        means, half_widths = np.vecdot(models.theta[found], rows), radii * np.sqrt(np.vecdot(images, images))
        action, (low, high) = int((means + half_widths).argmax()), self.reward_range
        mean, half_width = float(means[action]), float(half_widths[action])
        lower, regret = min(max(mean - half_width, low), high), min(2.0 * half_width, high - low)
        return among_all(Proposal(action, lower, regret, 1.0, int(means.argmax()), mean), context)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action, with its squared error multiplied by `weight`."""
        rows, position = self.check_offered(context, action)
        number = self.check_reward(reward, weight)
        if weight > 0.0:
            ids = _ids(context, len(rows))
            self._arms.see(ids)
            update(self._ridge(self._arms.open(ids[position])), rows[position], number, float(weight))

    def _pmf(self, context: Context, actions: Array) -> Array:
        action = self.decide(context).action
        return one_hot(context.position(action) if isinstance(context, Offers) else action, len(actions))

    def _ridge(self, slot: int) -> Ridge:
        """The regression of an action; its arrays are views."""
        models = self._arms.memory
        return Ridge(
            models.factor[slot],
            models.theta[slot],
            models.log_determinant[slot],
            models.updates[slot],
            models.weights[slot],
            self._scratch,
        )

    def _radius(self, slot: int) -> float:
        order = self._arms.n_new if slot < 0 else int(self._arms.orders[slot])
        share = share_of_delta(self.delta, block_of(order, self.arms), self.arms)
        ellipsoid = Ellipsoid(self.noise, 2 * log(1 / share), sqrt(self.regularization) * self.norm_bound)
        return self.scale * ellipsoid_radius(ellipsoid, self._ridge(slot))


def _models(ridge: Ridge) -> Models:
    """A single regression as the only row."""
    one = np.newaxis
    return Models(
        np.array(ridge.factor)[one],
        ridge.theta[one],
        ridge.log_determinant[one],
        ridge.updates[one],
        ridge.weights[one],
    )


def _ids(context: Context, n_actions: int) -> tuple[str, ...]:
    """What the actions that may be chosen are called."""
    if not isinstance(context, Offers):
        return tuple(map(str, range(n_actions)))
    return tuple(map(str, context.offered)) if context.ids is None else context.offered_ids
