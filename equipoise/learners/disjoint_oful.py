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
Discount. With `discount` below 1 each update discounts the rows of all remembered actions, not only of the played one,
so an action that is not played becomes uncertain again. As in `OFUL`, which states the form, no bound is then claimed.
Such an update takes time in proportion to the number of remembered actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import inf
from typing import NamedTuple

import numpy as np

from equipoise.features import FeatureMap, Offers, Schema
from equipoise.learner import Proposal, one_hot
from equipoise.learners._core.arms import MIN_CAPACITY, Arms, block_of, share_of_delta, window_setting
from equipoise.learners._core.linear import LinearLearner, check_arms, delta_setting, discount_setting, discount_text
from equipoise.learners._core.ridge import Ridge, ellipsoid_radius, forget, forgetting, new_scratch, update
from equipoise.learners._core.rows import Choices
from equipoise.settings import configurable, describe, setting
from equipoise.settings.checks import positive
from equipoise.settings.sizes import check_array
from equipoise.settings.units import noise_setting, range_setting
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


@describe(
    norm_bound=(
        "Upper bound on the norm of the true parameter of every action, positive, in units of rewards. Default: the "
        "width of the reward range."
    )
)
@configurable
class DisjointOFUL(LinearLearner[Nothing, Nothing]):
    """Optimistic least squares with one model per action.

    A context is `Offers` with ids, which may come and go, or a K x d matrix whose row k is the k-th action. For models
    of the features that all actions share, as in news recommendation, give `features=Shared(dim)`.

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

    arms: int = setting("Number of actions that are expected in all; there may be more.", check_arms)
    window: int = window_setting()
    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting(doc="Probability in (0, 1) that the ellipsoid of some action ever fails.")
    scale: float = setting(
        "Factor of the radii of the ellipsoids, positive; below 1 nothing is guaranteed.", positive, default=1.0
    )
    discount: float = discount_setting()

    _arms: Arms[Models] = field(init=False)

    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})

    def _set_up(self) -> None:
        super()._set_up()
        self.params = self.memory = Nothing()
        check_array(f"dim = {self.dim}", MIN_CAPACITY + 1, self.dim, self.dim)
        unknown = self.new_ridge()[:-1]  # without its scratch
        self._arms = Arms(Models._make(array[np.newaxis] for array in unknown), self.window)
        self._scratch = new_scratch(self.dim, 0)
        self._forgetting = forgetting(self.discount, self.dim, self.regularization)

    def default_map(self, schema: Schema, action_names: Sequence[str] | None) -> FeatureMap:
        return schema.default_map_of_action()

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the action with the highest upper confidence bound, with its lower bound and its observed regret."""
        choices = self.offered(context)
        rows, found = choices.rows, self._arms.find(_ids(context, choices))
        models = self._arms.memory
        images = np.matmul(rows[:, None, :], models.factor[found])[:, 0, :]
        radii = np.array([self._radius(int(slot)) for slot in found])
        means, half_widths = np.vecdot(models.theta[found], rows), radii * np.sqrt(np.vecdot(images, images))
        action, (low, high) = int((means + half_widths).argmax()), self.reward_range
        mean, half_width = low + float(means[action]), float(half_widths[action])
        if self.discount < 1.0:
            half_width = inf
        lower, regret = min(max(mean - half_width, low), high), min(2.0 * half_width, high - low)
        return self.among_all(Proposal(action, lower, regret, 1.0, int(means.argmax()), mean), choices)

    def learn_row(self, context: Context, action: Action, row: Array, reward: float, weight: float) -> None:
        if weight > 0.0:
            choices = self.offered(context)
            ids = _ids(context, choices)
            if self.discount < 1.0:
                for _, slot in self._arms.known():
                    forget(self._ridge(slot), self._forgetting, self._arms.updates)
            self._arms.see(ids)
            ridge = self._ridge(self._arms.open(ids[choices.position(action)]))
            update(ridge, row, reward - self.reward_range[0], weight)

    def default_name(self) -> str:
        return self._name_with(self.scale, discount_text(self.discount))

    def _pmf(self, context: Context, actions: Array) -> Array:
        return one_hot(self.offered(context).position(self.decide(context).action), len(actions))

    def _ridge(self, slot: int) -> Ridge:
        """The regression of an action; its arrays are views."""
        return Ridge._make((*(array[slot] for array in self._arms.memory), self._scratch))

    def _radius(self, slot: int) -> float:
        order = self._arms.n_new if slot < 0 else int(self._arms.orders[slot])
        share = share_of_delta(self.delta, block_of(order, self.arms), self.arms)
        return self.scale * ellipsoid_radius(self.ellipsoid(self.noise, share), self._ridge(slot))


def _ids(context: Context, choices: Choices) -> tuple[str, ...]:
    """The names of the actions that the learner takes."""
    indices = range(len(choices.rows)) if choices.indices is None else choices.indices.tolist()
    if isinstance(context, Offers) and context.ids is not None:
        return tuple(context.ids[k] for k in indices)
    return tuple(map(str, indices))
