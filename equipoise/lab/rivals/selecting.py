"""Kernels and checks of learners that select a model internally.

They run regressions on features that change with the model: `mask_features` sets columns to zero, `add_intercepts` adds
one indicator per arm. A regression on masked rows in all d dimensions equals the regression in the remaining
dimensions, with an estimate of zero elsewhere.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.kernels.marks import kernel, native
from equipoise.learner import Proposal
from equipoise.learners._core.base import MemoryT, ParamsT
from equipoise.learners._core.linear import LinearLearner
from equipoise.learners._core.ridge import Ellipsoid, Ridge, ellipsoid_radius, evaluate, most_optimistic, predict
from equipoise.learners._core.rows import Choices, choices_of
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
def optimistic_proposal(ellipsoid: Ellipsoid, ridge: Ridge, rows: Array, low: float) -> Proposal:
    """Propose the optimistic action, without bounds; `low` is the origin of rewards."""
    action, mean, _, greedy = optimistic_action(ellipsoid, ridge, rows)
    return Proposal(action, -inf, nan, 1.0, greedy, low + mean)


@kernel
def uniform_proposal(ridge: Ridge, rows: Array, low: float, rng: np.random.Generator) -> Proposal:
    """Propose an action drawn uniformly; `low` is the origin of rewards."""
    n_actions, means = len(rows), predict(ridge, rows)
    action = min(int(rng.random() * n_actions), n_actions - 1)
    return Proposal(action, -inf, nan, 1.0 / n_actions, int(means.argmax()), low + float(means[action]))


class SelectingLearner(LinearLearner[ParamsT, MemoryT]):
    """A learner whose decisions follow the model that it selects; it runs in simulations only."""

    provides = frozenset({"greedy", "value", "pmf"})
    simulation_only = True

    def offered(self, context: Context) -> Choices:
        """Return all offers: what these learners keep counts every row."""
        return choices_of(context, self.check_context(context))


def check_rows_are_arms(context: Context, name: str) -> None:
    """Raise an error if row k of a context need not be arm k in every round."""
    if isinstance(context, Offers) and (context.ids is not None or context.mask is not None):
        raise InvalidArgument(f"context has ids or a mask, but must have none for {name}: its rows are arms")


def check_n_rows(actions: Array, arms: int) -> Array:
    """Return the offered actions; raise an error if there are more than `arms`."""
    if len(actions) > arms:
        raise InvalidArgument(f"context has {len(actions)} rows, but must have at most arms = {arms}")
    return actions


def uniform_pmf(actions: Array) -> Array:
    """The probabilities of a round in which the learner explores."""
    return np.full(len(actions), 1.0 / len(actions))
