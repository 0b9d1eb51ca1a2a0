"""Base classes of learners for linear rewards: settings, regression, and checks of contexts.

`LinearLearner` is the common base. `EllipsoidLearner` adds a confidence ellipsoid around the estimate, and
`RidgeLearner` is for learners whose memory is a single regression.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log, sqrt

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import FeatureMap, Offers, Prefix
from equipoise.features.maps import check_map, columns_used, feature_names, map_from_plain, map_to_plain
from equipoise.features.offers import as_offers
from equipoise.kernels.marks import kernel
from equipoise.learners._core.base import IndexLearner, MemoryT, ParamsT, check_choice
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, new_ridge, update, update_offered
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import count, positive, probability
from equipoise.settings.matrices import as_matrix, check_entries
from equipoise.settings.units import Noisy, Ranged
from equipoise.types import Action, Array, Context

NORM_TOLERANCE = 1 + 1e-9  # relative tolerance for rounding in the norms of actions
# Smallest regularization, in units of action_bound^2; below it, rounding errors show in the widths after 1e6 rows.
MIN_REGULARIZATION = 1e-8

check_dim = partial(count, maximum=10_000)


def check_features(name: str, features: object) -> FeatureMap:
    """Return a feature map that is given as such or as plain data."""
    return check_map(name, map_from_plain(features) if isinstance(features, Mapping) else features)


@kernel
def learn(params: object, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """Add the row of the action to the regression, with its squared error multiplied by `weight`."""
    update_offered(ridge, actions, action, reward, weight)


@configurable
class LinearLearner(IndexLearner[ParamsT, MemoryT]):
    """Least squares on the features of the offered actions: the first `dim` columns, or those of the map `features`.

    A context is `Offers`, or a K x d matrix of actions with d >= dim, with row norms of at most `action_bound`; K may
    change from round to round. `norm_bound` bounds the norm of the parameter, `regularization` is the ridge penalty.
    """

    dim: int = setting(default=None, check=optional(check_dim), kw_only=False)
    features: FeatureMap | None = setting(
        default=None,
        check=optional(check_features),
        encode=lambda features: None if features is None else map_to_plain(features),
    )
    norm_bound: float = setting(default=1.0, check=positive)
    action_bound: float = setting(default=1.0, check=positive)
    regularization: float = setting(default=1.0, check=positive)

    def _set_up(self) -> None:
        if self.features is not None and self.dim is None:
            self.dim = self.features.dim
        if self.dim is None:
            raise InvalidArgument("dim is None, but must be a whole number from 1 to 10000 unless features are given")
        if self.features is not None and self.dim != self.features.dim:
            raise InvalidArgument(f"dim is {self.dim}, but must be {self.features.dim}, as {self.features} has")
        super()._set_up()
        self._map = Prefix(self.dim) if self.features is None else self.features
        if self.regularization < MIN_REGULARIZATION * self.action_bound**2:
            minimum = f"{MIN_REGULARIZATION:g} * action_bound^2 = {MIN_REGULARIZATION * self.action_bound**2:g}"
            raise InvalidArgument(f"regularization is {self.regularization!r}, but must be at least {minimum}")
        self._max_squared_norm = (self.action_bound * NORM_TOLERANCE) ** 2

    def default_name(self) -> str:
        return f"{type(self).__name__}(d={self.dim})"

    @property
    def n_columns(self) -> int | None:
        return columns_used(self._map)

    @property
    def compilable(self) -> bool:
        """Whether the kernels can run on the context itself: they know no feature maps but `Prefix`."""
        return isinstance(self._map, Prefix)

    def check_context(self, context: Context) -> Array:
        if self.features is not None or isinstance(context, Offers):
            return self._check_mapped(context)
        actions = as_matrix(context, self.dim)
        check_entries(actions)
        squared_norms = np.vecdot(actions, actions)
        if squared_norms[squared_norms.argmax()] > self._max_squared_norm:
            self._refuse_norm(actions)
        return actions

    def _check_mapped(self, context: Context) -> Array:
        mapped, limit = as_offers(context).mapped(self._map), self._max_squared_norm
        if mapped.squared_norm_bound > limit and mapped.max_squared_norm > limit:
            self._refuse_norm(mapped.rows)
        return mapped.rows

    def _refuse_norm(self, actions: Array) -> None:
        norms = np.sqrt((actions**2).sum(axis=1))
        row = int(norms.argmax())
        rule = f"norms must be at most action_bound = {self.action_bound:g}"
        raise InvalidArgument(f"context has row {row} of norm {norms[row]:.6g}, but {rule}")


@configurable
class EllipsoidLearner(LinearLearner[ParamsT, MemoryT], Noisy):
    """A linear learner with a confidence ellipsoid that holds at all times with probability 1 - `delta`.

    `noise` is the sub-Gaussian factor of the rewards; half the width of their range suffices.
    """

    delta: float = setting(default=0.01, check=probability)

    @property
    def ellipsoid(self) -> Ellipsoid:
        return Ellipsoid(self.noise, 2 * log(1 / self.delta), sqrt(self.regularization) * self.norm_bound)


@configurable
class RangedEllipsoidLearner(EllipsoidLearner[ParamsT, MemoryT], Ranged):
    """An ellipsoid learner with a range of expected rewards, which together define a `LinearClass`."""

    def model_class(self) -> LinearClass:
        """The class of rewards that the learner assumes."""
        return LinearClass(
            name=self.name,
            dim=self.dim,
            norm_bound=self.norm_bound,
            action_bound=self.action_bound,
            regularization=self.regularization,
            noise=self.noise,
            delta=self.delta,
            reward_range=self.reward_range,
            features=() if isinstance(self._map, Prefix) else feature_names(self._map),
        )


@configurable
class RidgeLearner(LinearLearner[ParamsT, Ridge], Ranged):
    """A linear learner whose memory is a single regression; it can learn from rounds that other learners played."""

    accepts = frozenset({"off_policy"})
    provides = frozenset({"greedy", "value"})
    scale: float = setting(default=1.0, check=positive)

    def _set_up(self) -> None:
        super()._set_up()
        self.memory = new_ridge(self.dim, self.regularization)

    def default_name(self) -> str:
        scaled = f", scale={self.scale:g}" if self.scale != 1.0 else ""
        return f"{type(self).__name__}(d={self.dim}{scaled})"

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action, with its squared error multiplied by `weight`."""
        row, number = self.check_row(context, action), self.check_reward(reward, weight)
        update(self.memory, row, number, float(weight))

    def check_row(self, context: Context, action: Action) -> Array:
        """Return the features of an offered action. Only its own row is checked, as `decide` has checked the others."""
        if self.features is not None or isinstance(context, Offers):
            actions = self._check_mapped(context)
            mapped: Array = actions[check_choice(context, action, len(actions))]
            return mapped
        actions = as_matrix(context, self.dim)
        row: Array = actions[check_choice(context, action, len(actions))]
        if not np.vdot(row, row) <= self._max_squared_norm:
            check_entries(actions)
            self._refuse_norm(actions)
        return row[: self.dim]
