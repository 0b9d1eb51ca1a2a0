"""The rows that learners over features see of a context: read, checked and numbered in one place for all of them.

A context is `Offers`, or a K x d matrix with one offered action per row. A learner uses the first `dim` columns or the
features of a map. It does not take an offer if the row is longer than its bound, unless it scales such rows, or if the
map cannot describe the offer. It then chooses among the others. It refuses the context if it takes no offer, and an
update if it does not take the action that was played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf, isnan, sqrt
from operator import index
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from equipoise.errors import InvalidArgument, OfferRefused
from equipoise.features import FeatureMap, Offers, Prefix, Schema
from equipoise.features.maps import check_map, columns_used, has_names, map_from_plain, map_to_plain, stated_in
from equipoise.features.offers import as_matrix, as_offers, check_entries
from equipoise.learner import Proposal
from equipoise.settings import equal_data, optional, setting
from equipoise.settings.checks import LARGEST
from equipoise.types import Action, Array, Context, Integers, State

NORM_TOLERANCE = 1 + 1e-9  # relative tolerance for rounding in the norms of actions


def check_features(name: str, features: object) -> FeatureMap:
    """Return a feature map that is given as such or as plain data."""
    return check_map(name, map_from_plain(features) if isinstance(features, Mapping) else features)


features_setting = partial(
    setting,
    check=optional(check_features),
    default=None,
    encode=lambda features: None if features is None else map_to_plain(features),
    doc="Feature map to use instead of the first columns; see `equipoise.features`. Default: none, or by the schema of "
    "the portfolio if `dim` is not given either.",
)


def resolved_dim(dim: int | None, features: FeatureMap | None) -> int | None:
    """Return the number of features of a learner with these settings; None if a schema has to tell.

    Raise an error if the settings contradict each other.
    """
    if features is None or has_names(features):
        return dim
    if dim not in (None, features.dim):
        raise InvalidArgument(f"dim is {dim}, but must be {features.dim}, as {features} has")
    return features.dim


def features_in(schema: Schema, features: FeatureMap | None, default: Callable[[], FeatureMap]) -> FeatureMap:
    """Return the features of a learner in a portfolio with a schema: those that it states, or the default ones."""
    stated = stated_in(features)
    return default() if stated is None else schema.resolve(stated)


class Learns(Protocol):
    """A learner made of settings, which can be made again with others."""

    @property
    def name(self) -> str: ...

    def anew(self, **changes: Any) -> Self: ...

    def state(self) -> State: ...


def adopt(learner: Learns, changes: Mapping[str, Any]) -> None:
    """Give a learner other settings; one that has learned stays as it is."""
    if changes and equal_data(learner.state(), learner.anew().state()):
        vars(learner).update(vars(learner.anew(**changes)))


class Choices(NamedTuple):
    """The offers that a learner takes in a round: their rows, and which of all offers they are."""

    rows: Array
    indices: Integers | None = None  # of the rows among all offers; None if row k is offer k
    n_offers: int = 0  # of all offers, if there are indices
    refused: bool = False  # whether the learner does not take some offers that could be chosen

    def position(self, action: Action) -> int:
        """Return the row of an action; raise an error if the learner does not take it."""
        if self.indices is None:
            return check_index(action, len(self.rows))
        number = check_index(action, self.n_offers)
        position = int(np.searchsorted(self.indices, number))
        if position == len(self.indices) or self.indices[position] != number:
            if self.refused:
                raise OfferRefused(
                    f"action is {action}, but the mask excludes it or the learner cannot use its features"
                )
            raise InvalidArgument(f"action is {action}, but the mask of the offers excludes it")
        return position

    def among_all(self, proposal: Proposal) -> Proposal:
        """Return the proposal with indices of all offers."""
        if self.indices is None:
            return proposal
        greedy = None if proposal.greedy is None else int(self.indices[proposal.greedy])
        return proposal._replace(action=int(self.indices[proposal.action]), greedy=greedy)

    def spread(self, probabilities: Array) -> Array:
        """Return the probabilities of all offers: 0 for the offers that the learner does not take."""
        if self.indices is None:
            return probabilities
        spread = np.zeros(self.n_offers)
        spread[self.indices] = probabilities
        return spread


class RowReader:
    """Reads the rows that a learner sees.

    `max_norm` is the largest norm of a row that the learner takes; with `clip`, longer rows are scaled down to it. It
    is not `complete` as long as a schema has to tell the features.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        features: FeatureMap | None,
        max_norm: float = inf,
        clip: bool = False,
        *,
        complete: bool = True,
    ) -> None:
        self._name, self.complete = name, complete
        self.map: FeatureMap = Prefix(dim) if features is None else features
        self._dim, self._has_map, self._max_norm, self._clip = dim, features is not None, max_norm, clip
        # No entry may be larger than `LARGEST`.
        self._limit = LARGEST**2 if max_norm == inf else (max_norm * NORM_TOLERANCE) ** 2

    @property
    def n_columns(self) -> int | None:
        """Number of leading columns of the offers that the learner uses; None if it may use all of them."""
        return columns_used(self.map) if self.complete else None

    def check_complete(self) -> None:
        """Raise an error unless the features are known."""
        if not self.complete:
            raise InvalidArgument(
                f"dim and features of learner {self._name!r} do not say its columns, but must, unless they follow from "
                "the schema of a portfolio: give dim, or features with numbers of columns"
            )

    def read(self, context: Context, *, whole: bool = False) -> Choices:
        """Return the offers that the learner takes; raise an error if it takes none, or with `whole`, not all."""
        limit = self._limit
        if not self.complete:
            self.check_complete()
        if self._has_map or isinstance(context, Offers):
            offers = as_offers(context)
            mapped = offers.mapped(self.map)
            indices = None if offers.mask is None else offers.offered
            if mapped.squared_norm_bound <= limit or mapped.max_squared_norm <= limit:
                return Choices(mapped.rows, indices, len(offers))
            return self._part(mapped.rows, indices, len(offers), whole)
        actions = as_matrix(context, self._dim)
        check_entries(actions)
        if actions.shape[1] > self._dim:
            actions = actions[:, : self._dim]
        if self._max_norm < inf:
            squared_norms = np.vecdot(actions, actions)
            if squared_norms[squared_norms.argmax()] > limit:
                return self._part(actions, None, len(actions), whole)
        return Choices(actions)

    def row(self, context: Context, action: Action) -> tuple[Array, bool]:
        """Return the row of an action and whether it was scaled down; raise an error if the learner does not take it.

        Only its own row is checked, as the others do not matter after a decision.
        """
        if not self.complete:
            self.check_complete()
        if self._has_map or isinstance(context, Offers):
            offers = as_offers(context)
            number = check_index(action, len(offers))
            rows = offers.mapped(self.map).rows
            row: Array = rows[offers.position(number)]
        else:
            rows = as_matrix(context, self._dim)
            number = check_index(action, len(rows))
            row = rows[number]
            if np.vdot(row, row) <= self._limit:
                return row[: self._dim], False
            check_entries(rows)  # of columns that the learner does not use too, as in a decision
            row = row[: self._dim]
        squared_norm = float(np.vdot(row, row))
        if squared_norm <= self._limit:
            return row, False
        if not self._clip or isnan(squared_norm):
            raise self._refusal(number, squared_norm)
        return row * (self._max_norm / sqrt(squared_norm)), True

    def _part(self, rows: Array, indices: Integers | None, n_offers: int, whole: bool) -> Choices:
        """Return the choices if some rows are too long, or nan because the map cannot describe their offers."""
        squared_norms = np.vecdot(rows, rows)
        taken = squared_norms <= self._limit
        if self._clip:
            long = squared_norms > self._limit
            rows = rows.copy()
            rows[long] *= (self._max_norm / np.sqrt(squared_norms[long]))[:, None]
            taken |= long
        if taken.all():
            return Choices(rows, indices, n_offers)
        if whole or not taken.any():
            missing = np.isnan(squared_norms)
            worst = int(missing.argmax() if missing.any() else squared_norms.argmax())
            number = worst if indices is None else int(indices[worst])
            raise self._refusal(number, float(squared_norms[worst]))
        positions = np.flatnonzero(taken)
        return Choices(rows[positions], positions if indices is None else indices[positions], n_offers, True)

    def _refusal(self, number: int, squared_norm: float) -> OfferRefused:
        if isnan(squared_norm):
            return OfferRefused(f"context has an action {number} that {self.map} cannot describe")
        rule = f"action_bound = {self._max_norm:g}" if self._max_norm < inf else f"{LARGEST:g}"
        return OfferRefused(
            f"context has row {number} of norm {sqrt(squared_norm):.6g}, but norms must be at most {rule}"
        )


def check_index(action: Action, n_actions: int) -> int:
    """Return the action as an index from 0 to n_actions - 1."""
    if type(action) is int and 0 <= action < n_actions:
        return action
    try:
        position = index(action)
    except TypeError:
        position = -1
    if not 0 <= position < n_actions:
        raise InvalidArgument(f"action is {action!r:.80}, but must be an index from 0 to {n_actions - 1}")
    return position


def choices_of(context: Context, actions: Any) -> Choices:
    """Return the choices of a learner that takes all offers that the mask leaves; `actions` are their rows."""
    if not isinstance(context, Offers) or context.mask is None:
        return Choices(actions)
    return Choices(actions, context.offered, len(context))
