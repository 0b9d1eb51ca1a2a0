"""Base class and kernels of learners that select a model internally.

They run regressions on features that change with the model: `mask_features` sets columns to zero, `add_intercepts` adds
one indicator per arm. A regression on masked rows in all d dimensions equals the regression in the remaining
dimensions, with an estimate of zero elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan, sqrt
from typing import ClassVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.kernels.marks import kernel, native
from equipoise.learner import Proposal
from equipoise.learners._core.base import MemoryT, ParamsT
from equipoise.learners._core.linear import LinearLearner
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, evaluate, most_optimistic, predict
from equipoise.settings.checks import count
from equipoise.types import Array, Context


@kernel
def mask_features(actions: Array, kept: Array) -> Array:
    """The first d features of the actions, with those that are not kept set to zero."""
    return actions[:, : len(kept)] * kept


@native(mask_features)
def _mask_features(actions: Array, kept: Array) -> Array:
    rows = np.empty((len(actions), len(kept)))
    for k in range(len(actions)):
        for j in range(len(kept)):
            rows[k, j] = actions[k, j] * kept[j]
    return rows


@kernel
def add_intercepts(actions: Array, arms: int, dim: int) -> Array:
    """The indicator of the arm of each row, followed by its first `dim` features."""
    return np.hstack((np.eye(len(actions), arms), actions[:, :dim]))


@native(add_intercepts)
def _add_intercepts(actions: Array, arms: int, dim: int) -> Array:
    rows = np.empty((len(actions), arms + dim))
    for k in range(len(actions)):
        for j in range(arms):
            rows[k, j] = 1.0 if j == k else 0.0
        for j in range(dim):
            rows[k, arms + j] = actions[k, j]
    return rows


@kernel
def optimistic_action(ellipsoid: Ellipsoid, ridge: Ridge, rows: Array) -> tuple[int, float, float, int]:
    """(action, mean, half_width) of the row with the highest upper confidence bound, and the greedy row."""
    means, squared_norms = evaluate(ridge, rows)
    radius = ellipsoid_radius(ellipsoid, ridge)
    action, greedy = most_optimistic(means, squared_norms, radius)
    return action, float(means[action]), radius * sqrt(squared_norms[action]), greedy


@kernel
def optimistic_proposal(ellipsoid: Ellipsoid, ridge: Ridge, rows: Array) -> Proposal:
    """Propose the optimistic action, without bounds."""
    action, mean, _, greedy = optimistic_action(ellipsoid, ridge, rows)
    return Proposal(action, -inf, nan, 1.0, greedy, mean)


@kernel
def uniform_proposal(ridge: Ridge, rows: Array, rng: np.random.Generator) -> Proposal:
    """Propose an action drawn uniformly."""
    n_actions, means = len(rows), predict(ridge, rows)
    action = min(int(rng.random() * n_actions), n_actions - 1)
    return Proposal(action, -inf, nan, 1.0 / n_actions, int(means.argmax()), float(means[action]))


class SelectingLearner(LinearLearner[ParamsT, MemoryT]):
    """A linear learner whose decisions follow the model it has selected; see `LinearLearner` for contexts.

    It learns only from rounds that it played itself, and may use all offered actions. With `arms` > 0, row k of a
    context is arm k, and there are at most `arms` rows.
    """

    provides = frozenset({"greedy", "value", "pmf"})
    arms: int = 0

    def _rows_are_arms(self) -> bool:
        """Whether row k of a context is arm k in every round."""
        return False

    def check_context(self, context: Context) -> Array:
        if self._rows_are_arms() and _has_ids_or_mask(context):
            raise InvalidArgument(f"context has ids or a mask, but must have none for {self.name}: its rows are arms")
        actions = super().check_context(context)
        if self.arms and len(actions) > self.arms:
            raise InvalidArgument(f"context has {len(actions)} rows, but must have at most arms = {self.arms}")
        return actions


def _has_ids_or_mask(context: Context) -> bool:
    return isinstance(context, Offers) and (context.ids is not None or context.mask is not None)


class ExploringLearner(SelectingLearner[ParamsT, MemoryT]):
    """A selecting learner that plays uniformly random actions in the rounds in which `explores` says so."""

    explores: ClassVar[Callable[..., bool]]  # kernel over (params, memory)

    def _pmf(self, context: Context, actions: Array) -> Array:
        explored = type(self).explores(self.params, self.memory)
        return np.full(len(actions), 1.0 / len(actions)) if explored else super()._pmf(context, actions)


check_arms = partial(count, maximum=10_000)
