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
from equipoise.settings import check_settings, optional, setting, value
from equipoise.settings.checks import count, function, positive, text
from equipoise.types import Array, Plain

MAX_DIM = 10_000


check_dim = partial(count, maximum=MAX_DIM)


def check_map(name: str, features: object) -> FeatureMap:
    """Raise an error if this is not a feature map of a possible number of features."""
    if isinstance(features, type) or not isinstance(features, FeatureMap):
        raise InvalidArgument(f"{name} is {features!r:.80}, but must be a feature map such as Columns([0, 2])")
    count(f"dim of {name}", features.dim, maximum=MAX_DIM)
    return features


def _check_columns_given(name: str, columns: object) -> tuple[int | str, ...]:
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise InvalidArgument(f"{name} is {columns!r:.80}, but must be a list of column indices or names")
    checked = tuple(
        text(f"{name}[{k}]", c) if isinstance(c, str) else count(f"{name}[{k}]", c, minimum=0, maximum=2**31)
        for k, c in enumerate(columns)
    )
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

    columns: Sequence[int | str] = setting(
        "Indices of the columns, from 0, or names of features or columns in the schema of the portfolio.",
        _check_columns_given,
    )

    @property
    def dim(self) -> int:
        return len(self.columns)  # as many at least, as long as there are names

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indices of the columns; an error if there are names."""
        return _numbers(self.columns)

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, max(self.numbers) + 1)
        return offers.offered_actions[:, self.numbers]


@value
class Prefix:
    """The first columns of the features of the actions."""

    dim: int = setting("Number of columns, at least 1.", check_dim)

    def of(self, offers: Offers) -> Array:
        _check_columns(offers, self.dim)
        return offers.offered_actions[:, : self.dim]


@value
class Shared:
    """The first shared features of the round, or some of them, the same in the row of every action.

    On their own they cannot tell actions apart: for one model per action (`DisjointOFUL`), in `Interactions` with
    features of the actions, or in `Concat`.
    """

    dim: int = setting("Number of leading shared features, at least 1; or give `columns`.", default=None)
    columns: Sequence[int | str] | None = setting(
        "Indices of shared features, from 0, or names of features or columns in the schema of the portfolio.",
        optional(_check_columns_given),
        default=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.columns is None:
            object.__setattr__(self, "dim", check_dim("dim", self.dim))
        elif self.dim is not None:
            raise InvalidArgument(f"dim is {self.dim!r} and columns is {self.columns!r:.80}, but one must be given")
        else:
            object.__setattr__(self, "dim", len(self.columns))

    def __repr__(self) -> str:
        return f"Shared(dim={self.dim})" if self.columns is None else f"Shared(columns={self.columns})"

    @property
    def numbers(self) -> Sequence[int]:
        """The indices of the features; an error if there are names."""
        return range(self.dim) if self.columns is None else _numbers(self.columns)

    def of(self, offers: Offers) -> Array:
        available, least = 0 if offers.shared is None else len(offers.shared), max(self.numbers) + 1
        if offers.shared is None or available < least:
            raise InvalidArgument(f"context has {available} shared features, but must have at least {least}")
        shared = offers.shared[: self.dim] if self.columns is None else offers.shared[list(self.numbers)]
        return np.tile(shared, (offers.n_offered, 1))


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
class One:
    """The number 1, the same in the row of every action."""

    @property
    def dim(self) -> int:
        return 1

    def of(self, offers: Offers) -> Array:
        return np.ones((offers.n_offered, 1))


@value
class Default:
    """The features of a learner that states none, or names of columns, as the schema had them when the learner joined.

    So the columns of a learner stay what they were, and what it states can be compared after the schema has grown.
    """

    features: FeatureMap = setting("The map.", check_map)
    norm_bound: float | None = setting(
        "Upper bound on the norms of its rows, None if none follows.", optional(positive), default=None
    )
    stated: FeatureMap | None = setting(
        "The map that the learner states, None if it states none.", optional(check_map), default=None, added=True
    )

    @property
    def dim(self) -> int:
        return self.features.dim

    def of(self, offers: Offers) -> Array:
        return offers.rows(self.features)


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
    kind.__name__: kind
    for kind in (Columns, Prefix, Shared, Interactions, Concat, OneHot, One, Default, CustomFeatures)
}


def has_names(features: FeatureMap) -> bool:
    """Whether a map has names of columns, for which a schema has the numbers."""
    match features:
        case Columns(columns):
            return any(isinstance(each, str) for each in columns)
        case Shared(_, columns):
            return any(isinstance(each, str) for each in columns or ())
        case Interactions(left, right):
            return has_names(left) or has_names(right)
        case Concat(maps):
            return any(map(has_names, maps))
        case _:
            return False


Places = Callable[[str], Iterable[int]]  # the numbers of the columns of a name


def with_numbers(features: FeatureMap, shared: Places, actions: Places) -> FeatureMap:
    """Return a map with the numbers of columns in place of their names."""
    if not has_names(features):
        return features
    match features:
        case Columns(columns):
            return Columns(_replaced(columns, actions))
        case Shared(_, columns):
            return Shared(columns=_replaced(columns or (), shared))
        case Interactions(left, right):
            return Interactions(with_numbers(left, shared, actions), with_numbers(right, shared, actions))
        case Concat(maps):
            return Concat([with_numbers(each, shared, actions) for each in maps])
        case _:
            return features


def _replaced(columns: Sequence[int | str], places: Places) -> list[int]:
    numbers = [place for each in columns for place in (places(each) if isinstance(each, str) else (each,))]
    return list(dict.fromkeys(numbers))  # a feature and one of its columns may both be named


def _numbers(columns: Sequence[int | str]) -> tuple[int, ...]:
    for each in columns:
        if isinstance(each, str):
            raise InvalidArgument(f"column {each!r} is a name, but must be a number unless the portfolio has a schema")
    return columns  # type: ignore[return-value]  # no names


def columns_used(features: FeatureMap) -> int | None:
    """Number of leading columns of the actions that suffice for a map; None if it may use all.

    >>> columns_used(Concat([Columns([0, 3]), Interactions(Prefix(2), Shared(5))]))
    4
    """
    match features:
        case Columns():
            return max(features.numbers) + 1
        case Prefix(dim):
            return dim
        case Shared() | OneHot() | One():
            return 0
        case Default(inner):
            return columns_used(inner)
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
        case Columns():
            return tuple(f"column {c}" for c in features.numbers)
        case Prefix(dim):
            return tuple(f"column {c}" for c in range(dim))
        case Shared():
            return tuple(f"shared {c}" for c in features.numbers)
        case One():
            return ("one",)
        case Default(inner):
            return feature_names(inner)
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
        if isinstance(features, Shared) and (each.name == "dim") == (features.columns is not None):
            continue  # one of the two is given
        if each.metadata["added"] and part == each.default:
            continue
        if isinstance(part, FeatureMap):
            data[each.name] = map_to_plain(part)
        elif isinstance(part, tuple):
            data[each.name] = [map_to_plain(item) if isinstance(item, FeatureMap) else item for item in part]
        elif not callable(part):
            data[each.name] = part
    return data


def follows_from_schema(config: Mapping[str, Plain]) -> bool:
    """Whether the features in the settings of a learner, as plain data, are those of a schema."""
    features = config.get("features")
    return isinstance(features, Mapping) and features.get("map") == Default.__name__


def stated_in(features: FeatureMap | None) -> FeatureMap | None:
    """Return the features that a learner states, before they followed from a schema."""
    return features.stated if isinstance(features, Default) else features


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
