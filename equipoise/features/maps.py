"""Feature maps as data: what turns offers into the rows that a learner sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument, UnknownName, UnknownOffer
from equipoise.features.offers import FeatureMap, Offers, as_numbers, check_ids
from equipoise.settings import setting, value
from equipoise.settings.checks import count, function, text
from equipoise.types import Array, Plain

MAX_DIM = 10_000


check_dim = partial(count, maximum=MAX_DIM)


def check_map(name: str, features: object) -> FeatureMap:
    """Raise an error if this is not a feature map of a possible number of features."""
    if isinstance(features, type) or not isinstance(features, FeatureMap):
        raise InvalidArgument(f"{name} is {features!r:.80}, but must be a feature map such as Columns([0, 2])")
    count(f"dim of {name}", features.dim, maximum=MAX_DIM)
    return features


def _check_indices(name: str, columns: object) -> tuple[int, ...]:
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise InvalidArgument(f"{name} is {columns!r:.80}, but must be a list of column indices")
    checked = tuple(count(f"{name}[{k}]", c, minimum=0, maximum=2**31) for k, c in enumerate(columns))
    if not checked or len(set(checked)) < len(checked):
        raise InvalidArgument(f"{name} is {list(checked)}, but must be different columns, at least one")
    return checked


def _check_maps(name: str, maps: Any) -> tuple[FeatureMap, ...]:
    try:
        checked = tuple(maps)
    except TypeError:
        checked = ()
    if not checked:
        raise InvalidArgument(f"{name} is {maps!r:.80}, but must be a list of feature maps")
    return tuple(check_map(f"{name}[{k}]", each) for k, each in enumerate(checked))


@value
class Columns:
    """Some columns of the features of the actions, in the given order."""

    columns: Sequence[int] = setting(
        "Indices of the columns, from 0. `Vectorizer.columns` finds them by name.", _check_indices
    )

    @property
    def dim(self) -> int:
        return len(self.columns)

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, max(self.columns) + 1)
        return offers.offered_actions[:, self.columns]


@value
class Prefix:
    """The first columns of the features of the actions."""

    dim: int = setting("Number of columns, at least 1.", check_dim)

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, self.dim)
        return offers.offered_actions[:, : self.dim]


@value
class Shared:
    """The first shared features of the round, the same in the row of every action.

    On their own they cannot tell actions apart: for one model per action (`DisjointOFUL`), in `Interactions` with
    features of the actions, or in `Concat`.
    """

    dim: int = setting("Number of shared features, at least 1.", check_dim)

    def of(self, offers: Offers) -> Array:
        available = 0 if offers.shared is None else len(offers.shared)
        if offers.shared is None or available < self.dim:
            raise InvalidArgument(f"context has {available} shared features, but must have at least {self.dim}")
        return np.tile(offers.shared[: self.dim], (offers.n_offered, 1))


@value
class Interactions:
    """The products of every feature of one map with every feature of another.

    Feature i of `left` times feature j of `right` is feature i * right.dim + j.
    """

    left: FeatureMap = setting("The first map.", check_map)
    right: FeatureMap = setting("The second map.", check_map)

    @property
    def dim(self) -> int:
        return self.left.dim * self.right.dim

    def of(self, offers: Offers) -> Array:
        left, right = offers.rows(self.left), offers.rows(self.right)
        return (left[:, :, None] * right[:, None, :]).reshape(len(left), self.dim)


@value
class Concat:
    """The features of several maps, one after the other."""

    maps: Sequence[FeatureMap] = setting("The maps, at least one.", _check_maps)

    @property
    def dim(self) -> int:
        return sum(each.dim for each in self.maps)

    def of(self, offers: Offers) -> Array:
        return np.hstack([offers.rows(each) for each in self.maps])


@value
class OneHot:
    """One feature per id: 1 in the rows of that action, else 0."""

    ids: Sequence[str] = setting(
        "The ids that may be offered, in the order of the features. Learners do not take an offer with any other id.",
        lambda name, ids: check_ids(ids, name),
    )

    @property
    def dim(self) -> int:
        return len(self.ids)

    def of(self, offers: Offers) -> Array:
        columns = {id_: k for k, id_ in enumerate(self.ids)}
        found = np.array([columns.get(id_, -1) for id_ in offers.offered_ids])
        if found.max() < 0:
            raise UnknownOffer("id of an offer", offers.offered_ids[0], self.ids)
        rows = np.zeros((len(found), self.dim))
        rows[np.arange(len(rows)), found] = 1.0
        rows[found < 0] = np.nan
        return rows


@value
class CustomFeatures:
    """A user-defined map. Files hold its name: on loading, pass learners that have it."""

    function: Callable[[Array, Array | None], ArrayLike] = setting(
        "Takes the features of the offered actions (an array, one row each) and the shared features (an array or None) "
        "and returns as many rows of `dim` numbers.",
        partial(function, of="actions and shared"),
        repr=False,
    )
    dim: int = setting("Number of features.", check_dim)
    name: str = setting("Identifies the function in saved files.", text)

    def of(self, offers: Offers) -> Array:
        return as_numbers(self.function(offers.offered_actions, offers.shared), f"features {self.name!r}")


MAPS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Columns, Prefix, Shared, Interactions, Concat, OneHot, CustomFeatures)
}


def columns_used(features: FeatureMap) -> int | None:
    """Number of leading columns of the actions that suffice for a map; None if it may use all.

    >>> columns_used(Concat([Columns([0, 3]), Interactions(Prefix(2), Shared(5))]))
    4
    """
    match features:
        case Columns(columns):
            return max(columns) + 1
        case Prefix(dim):
            return dim
        case Shared() | OneHot():
            return 0
        case Interactions(left, right):
            parts = [columns_used(left), columns_used(right)]
        case Concat(maps):
            parts = [columns_used(each) for each in maps]
        case _:
            return None
    return None if None in parts else max(part or 0 for part in parts)


def feature_names(features: FeatureMap) -> tuple[str, ...]:
    """A name for every feature of a map: features of the same name have the same values in every round.

    >>> feature_names(Concat([Columns([0, 3]), Interactions(Prefix(1), Shared(1))]))
    ('column 0', 'column 3', 'column 0 * shared 0')
    """
    match features:
        case Columns(columns):
            return tuple(f"column {c}" for c in columns)
        case Prefix(dim):
            return tuple(f"column {c}" for c in range(dim))
        case Shared(dim):
            return tuple(f"shared {c}" for c in range(dim))
        case OneHot(ids):
            return tuple(f"id {id_!r}" for id_ in ids)
        case Interactions(left, right):
            pairs = product(feature_names(left), feature_names(right))
            return tuple(" * ".join(sorted(pair)) for pair in pairs)
        case Concat(maps):
            return tuple(name for each in maps for name in feature_names(each))
        case CustomFeatures(_, dim, name):
            return tuple(f"{name} {c} of {dim}" for c in range(dim))
        case _:
            raise InvalidArgument(
                f"features is {features!r:.80}, but must be made of the maps in equipoise.features: of others nobody "
                "can tell which features they have in common"
            )


def map_to_plain(features: FeatureMap) -> Plain:
    """Plain data that `map_from_plain` turns into an equal map; of `CustomFeatures` only name and dim."""
    data: dict[str, Plain] = {"map": type(features).__name__}
    for each in fields(features) if type(features).__name__ in MAPS else ():  # type: ignore[arg-type]
        part = getattr(features, each.name)
        if isinstance(part, FeatureMap):
            data[each.name] = map_to_plain(part)
        elif isinstance(part, tuple):
            data[each.name] = [map_to_plain(item) if isinstance(item, FeatureMap) else item for item in part]
        elif not callable(part):
            data[each.name] = part
    return data


def map_from_plain(data: Plain) -> FeatureMap:
    """The map that `map_to_plain` described."""
    if not isinstance(data, Mapping) or not isinstance(data.get("map"), str):
        raise InvalidArgument(f"features is {data!r:.80}, but must be a feature map as data")
    if data["map"] not in MAPS:
        raise UnknownName("feature map", data["map"], MAPS)
    if data["map"] == "CustomFeatures":
        raise InvalidArgument(f"features {data.get('name')!r} are a function, which files do not contain")
    settings = {name: _part_from_plain(value) for name, value in data.items() if name != "map"}
    try:
        features: FeatureMap = MAPS[data["map"]](**settings)
    except TypeError:
        raise InvalidArgument(f"features is {data!r:.80}, but must have the settings of {data['map']}") from None
    return features


def _part_from_plain(value: Plain) -> Any:
    if isinstance(value, Mapping):
        return map_from_plain(value)
    return [_part_from_plain(part) for part in value] if isinstance(value, list) else value


def _check_columns(offers: Offers, least: int) -> None:
    if offers.actions.shape[1] < least:
        raise InvalidArgument(f"context has {offers.actions.shape[1]} columns, but must have at least {least}")
