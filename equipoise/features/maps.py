"""Feature maps as data: what turns offers into the rows that a learner sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features.offers import FeatureMap, Offers, as_numbers, check_ids
from equipoise.settings.checks import count, text
from equipoise.types import Array, Plain

MAX_DIM = 10_000


@dataclass(frozen=True)
class Columns:
    """Some columns of the features of the actions, in the given order.

    Parameters
    ----------
    columns
        Indices of the columns, from 0. `Vectorizer.columns` finds them by name.
    """

    columns: tuple[int, ...]

    def __init__(self, columns: Iterable[int]) -> None:
        if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
            raise InvalidArgument(f"columns is {columns!r:.80}, but must be a list of column indices")
        checked = tuple(count(f"columns[{k}]", c, minimum=0, maximum=2**31) for k, c in enumerate(columns))
        if not checked or len(set(checked)) < len(checked):
            raise InvalidArgument(f"columns is {list(checked)}, but must be different columns, at least one")
        object.__setattr__(self, "columns", checked)

    @property
    def dim(self) -> int:
        return len(self.columns)

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, max(self.columns) + 1)
        return offers.offered_actions[:, self.columns]


@dataclass(frozen=True)
class Prefix:
    """The first columns of the features of the actions.

    Parameters
    ----------
    dim
        Number of columns, at least 1.
    """

    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", count("dim", self.dim, maximum=MAX_DIM))

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, self.dim)
        return offers.offered_actions[:, : self.dim]


@dataclass(frozen=True)
class Shared:
    """The first shared features of the round, the same in the row of every action.

    On their own they cannot tell actions apart: for one model per action (`DisjointOFUL`), in `Interactions` with
    features of the actions, or in `Concat`.

    Parameters
    ----------
    dim
        Number of shared features, at least 1.
    """

    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", count("dim", self.dim, maximum=MAX_DIM))

    def of(self, offers: Offers) -> Array:
        available = 0 if offers.shared is None else len(offers.shared)
        if offers.shared is None or available < self.dim:
            raise InvalidArgument(f"context has {available} shared features, but must have at least {self.dim}")
        return np.tile(offers.shared[: self.dim], (offers.n_offered, 1))


@dataclass(frozen=True)
class Interactions:
    """The products of every feature of one map with every feature of another.

    Parameters
    ----------
    left, right
        The two maps; feature i of `left` times feature j of `right` is feature i * right.dim + j.
    """

    left: FeatureMap
    right: FeatureMap

    def __post_init__(self) -> None:
        check_map("left", self.left)
        check_map("right", self.right)

    @property
    def dim(self) -> int:
        return self.left.dim * self.right.dim

    def of(self, offers: Offers) -> Array:
        left, right = offers.rows(self.left), offers.rows(self.right)
        return (left[:, :, None] * right[:, None, :]).reshape(len(left), self.dim)


@dataclass(frozen=True)
class Concat:
    """The features of several maps, one after the other.

    Parameters
    ----------
    maps
        The maps, at least one.
    """

    maps: tuple[FeatureMap, ...]

    def __init__(self, maps: Iterable[FeatureMap]) -> None:
        try:
            checked = tuple(maps)
        except TypeError:
            checked = ()
        if not checked:
            raise InvalidArgument(f"maps is {maps!r:.80}, but must be a list of feature maps")
        for k, each in enumerate(checked):
            check_map(f"maps[{k}]", each)
        object.__setattr__(self, "maps", checked)

    @property
    def dim(self) -> int:
        return sum(each.dim for each in self.maps)

    def of(self, offers: Offers) -> Array:
        return np.hstack([offers.rows(each) for each in self.maps])


@dataclass(frozen=True)
class OneHot:
    """One feature per id: 1 in the rows of that action, else 0.

    Parameters
    ----------
    ids
        The ids that may be offered, in the order of the features. Any other id is an error.
    """

    ids: tuple[str, ...]

    def __init__(self, ids: Iterable[str]) -> None:
        object.__setattr__(self, "ids", check_ids(ids))

    @property
    def dim(self) -> int:
        return len(self.ids)

    def of(self, offers: Offers) -> Array:
        columns = {id_: k for k, id_ in enumerate(self.ids)}
        unknown = [id_ for id_ in offers.offered_ids if id_ not in columns]
        if unknown:
            raise UnknownName("id of an offer", unknown[0], self.ids)
        rows = np.zeros((len(offers.offered_ids), self.dim))
        rows[np.arange(len(rows)), [columns[id_] for id_ in offers.offered_ids]] = 1.0
        return rows


@dataclass(frozen=True)
class CustomFeatures:
    """A user-defined map. Files hold its name: on loading, pass learners that have it.

    Parameters
    ----------
    function
        Takes the features of the offered actions (an array, one row each) and the shared features (an array or None)
        and returns as many rows of `dim` numbers.
    dim
        Number of features.
    name
        Identifies the function in saved files.
    """

    function: Callable[[Array, Array | None], ArrayLike] = field(repr=False)
    dim: int
    name: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument(f"function is {self.function!r:.80}, but must be a function of actions and shared")
        object.__setattr__(self, "dim", count("dim", self.dim, maximum=MAX_DIM))
        text("name", self.name)

    def of(self, offers: Offers) -> Array:
        return as_numbers(self.function(offers.offered_actions, offers.shared), f"features {self.name!r}")


MAPS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Columns, Prefix, Shared, Interactions, Concat, OneHot, CustomFeatures)
}


def check_map(name: str, features: object) -> FeatureMap:
    """Raise an error if this is not a feature map of a possible number of features."""
    if isinstance(features, type) or not isinstance(features, FeatureMap):
        raise InvalidArgument(f"{name} is {features!r:.80}, but must be a feature map such as Columns([0, 2])")
    count(f"dim of {name}", features.dim, maximum=MAX_DIM)
    return features


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
        value = getattr(features, each.name)
        if isinstance(value, FeatureMap):
            data[each.name] = map_to_plain(value)
        elif isinstance(value, tuple):
            data[each.name] = [map_to_plain(part) if isinstance(part, FeatureMap) else part for part in value]
        elif not callable(value):
            data[each.name] = value
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
