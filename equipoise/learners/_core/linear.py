"""Base class of learners for linear rewards: settings, regression, and checks of contexts.

Origin of rewards. <theta*, a> is the expected reward of an action minus the low end of the reward range. Every update
subtracts that end from the reward, and every statement adds it to the estimate. So rewards in (100, 220) are
learned like rewards in (0, 120). A ridge penalty pulls estimates toward 0, and without the shift the first rounds would
go into learning the 100. The analysis does not change, as the shift is a known constant. The low end and not the middle
of the range is the origin because rewards in (0, 1) are then linear as they are, as in the papers. With the middle as
origin the model of features without a constant would be false, and being wrong costs far more regret than the middle
saves where there is a constant (measured in docs/guide/rewards.md). For the exception of a ball of actions see `oful`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from math import log, sqrt
from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import FeatureMap, Offers, Prefix, Schema
from equipoise.features.maps import (
    Default,
    check_map,
    columns_used,
    feature_names,
    has_names,
    map_from_plain,
    map_to_plain,
)
from equipoise.features.offers import as_matrix, as_offers, check_entries
from equipoise.kernels.marks import kernel
from equipoise.learners._core.base import KernelLearner, MemoryT, ParamsT, check_choice
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, new_ridge, update, update_offered
from equipoise.settings import configurable, equal_data, optional, setting
from equipoise.settings.checks import count, positive, probability
from equipoise.settings.sizes import check_array
from equipoise.types import Action, Array, Context

NORM_TOLERANCE = 1 + 1e-9  # relative tolerance for rounding in the norms of actions
# Smallest regularization, in units of action_bound^2; below it, rounding errors show in the widths after 1e6 rows.
MIN_REGULARIZATION = 1e-8

check_dim = check_arms = partial(count, maximum=10_000)

delta_setting = partial(
    setting,
    default=0.01,
    check=probability,
    doc="Probability in (0, 1) that the confidence ellipsoid ever fails to contain theta*.",
)


def check_features(name: str, features: object) -> FeatureMap:
    """Return a feature map that is given as such or as plain data."""
    return check_map(name, map_from_plain(features) if isinstance(features, Mapping) else features)


@kernel
def learn(params: Any, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """Add the row of the action to the regression, with its squared error multiplied by `weight`."""
    update_offered(ridge, actions, action, reward - params.low, weight)


@configurable
class LinearLearner(KernelLearner[ParamsT, MemoryT]):
    """Least squares on the features of the offered actions: the first `dim` columns, or those of the map `features`.

    A context is `Offers`, or a K x d matrix of actions with d >= dim, with row norms of at most `action_bound`; K may
    change from round to round. A learner whose memory is a single regression learns from the row of the action alone.
    """

    dim: int = setting(
        "Number of leading columns to use. Default: as many as `features` has, or by the schema of the portfolio.",
        optional(check_dim),
        default=None,
        kw_only=False,
    )
    features: FeatureMap | None = setting(
        "Feature map to use instead of the first columns; see `equipoise.features`. Default: none, or by the schema of "
        "the portfolio if `dim` is not given either.",
        optional(check_features),
        default=None,
        encode=lambda features: None if features is None else map_to_plain(features),
    )
    norm_bound: float = setting(
        "Upper bound on the norm of the true parameter theta*, positive, in units of rewards. Default: the width of "
        "the reward range.",
        optional(positive),
        default=None,
    )
    action_bound: float = setting(
        "Upper bound on the norm of a row of features, positive; larger rows are rejected. Default: by the schema of "
        "the portfolio, or 1.",
        optional(positive),
        default=None,
        derived="default_action_bound",
    )
    regularization: float = setting("Ridge penalty lambda, at least 1e-8 * action_bound^2.", positive, default=1.0)

    _takes_bound: bool = field(default=False, init=False)  # whether the schema of a portfolio may give `action_bound`

    def _set_up(self) -> None:
        self._takes_bound = self._takes_bound or self.action_bound is None
        if self.dim is None and (self.features is None or has_names(self.features)):
            self._leave_unstated("dim", 1)  # it says so when it is asked, unless a schema tells before
        elif self.features is not None and self.dim is None:
            self.dim = self.features.dim
        if self.is_complete and self.features is not None and self.dim != self.features.dim:
            raise InvalidArgument(f"dim is {self.dim}, but must be {self.features.dim}, as {self.features} has")
        super()._set_up()
        low, high = self.reward_range
        self._leave_unstated("norm_bound", high - low)
        self._map = Prefix(self.dim) if self.features is None else self.features
        if self.regularization < MIN_REGULARIZATION * self.action_bound**2:
            minimum = f"{MIN_REGULARIZATION:g} * action_bound^2 = {MIN_REGULARIZATION * self.action_bound**2:g}"
            raise InvalidArgument(f"regularization is {self.regularization!r}, but must be at least {minimum}")
        self._max_squared_norm = (self.action_bound * NORM_TOLERANCE) ** 2

    def default_action_bound(self) -> float:
        bound = self.features.norm_bound if isinstance(self.features, Default) else None
        return 1.0 if bound is None else bound

    @property
    def is_complete(self) -> bool:
        """Whether its features are known: without `dim` and numbers of columns, a schema tells."""
        return "dim" not in self._unstated

    def adopt_schema(self, schema: Schema | None, action_names: Sequence[str] | None) -> None:
        """Take features and `action_bound` from the schema of a portfolio, as far as they are not stated."""
        if schema is None:
            self._check_complete()
            return
        changes: dict[str, Any] = {}
        if not self.is_complete:
            given = self.features
            changes["features"] = self.default_map(schema, action_names) if given is None else schema.resolve(given)
        if self._takes_bound:
            features = changes.get("features", self._map)
            changes["action_bound"] = schema.norm_bound(features) or 1.0
        if changes and equal_data(self.state(), self.clone().state()):  # one that has learned stays as it is
            vars(self).update(vars(self.clone(**changes)))

    def default_map(self, schema: Schema, action_names: Sequence[str] | None) -> FeatureMap:
        """The feature map of a learner that states none."""
        return schema.default_map(action_names)

    def _check_complete(self) -> None:
        if not self.is_complete:
            raise InvalidArgument(
                f"dim and features of learner {self.name!r} do not say its columns, but must, unless they follow from "
                "the schema of a portfolio: give dim, or features with numbers of columns"
            )

    def default_name(self) -> str:
        return self._name_with()

    def _name_with(self, scale: float = 1.0, more: str = "") -> str:
        scaled = f", scale={scale:g}" if scale != 1.0 else ""
        if self.is_complete:
            return f"{type(self).__name__}(d={self.dim}{scaled}{more})"
        settings = f"{scaled}{more}".removeprefix(", ")
        return f"{type(self).__name__}({settings})" if settings else type(self).__name__

    @property
    def n_columns(self) -> int | None:
        return columns_used(self._map) if self.is_complete else None

    @property
    def compilable(self) -> bool:
        """Whether the kernels can run on the context itself: they know no feature maps but `Prefix`."""
        return isinstance(self._map, Prefix)

    def check_context(self, context: Context) -> Array:
        if not self.is_complete:
            self._check_complete()
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

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action, with its squared error multiplied by `weight`."""
        if not isinstance(self.memory, Ridge):
            super().learn(context, action, reward, weight)
            return
        row, number = self.check_row(context, action), self.check_reward(reward, weight)
        update(self.memory, row, number - self.origin(context), float(weight))

    def origin(self, context: Context) -> float:
        """The reward from which rewards count; kernels know it as the low end of the range."""
        return self.reward_range[0]

    def check_row(self, context: Context, action: Action) -> Array:
        """Return the features of an offered action. Only its own row is checked, as `decide` has checked the others."""
        if not self.is_complete:
            self._check_complete()
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

    def new_ridge(self) -> Ridge:
        """A regression without rows on the features of the learner."""
        check_array(f"dim = {self.dim}", self.dim, self.dim)
        return new_ridge(self.dim, self.regularization)

    def ellipsoid(self, noise: float, delta: float) -> Ellipsoid:
        """The confidence ellipsoid around the estimate, which holds at all times with probability 1 - `delta`."""
        return Ellipsoid(noise, 2 * log(1 / delta), sqrt(self.regularization) * self.norm_bound)

    def linear_class(self, noise: float, delta: float) -> LinearClass:
        """The class of rewards that a learner with this ellipsoid assumes."""
        self._check_complete()
        sizes = self.dim, self.norm_bound, self.action_bound, self.regularization
        features = () if isinstance(self._map, Prefix) else feature_names(self._map)
        return LinearClass(self.name, *sizes, noise, delta, reward_range=self.reward_range, features=features)
