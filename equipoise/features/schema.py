"""Schemas: the types of the features that people send, from which columns, names, norm bounds and feature maps follow.

`context` has what all offers of a round share, `actions` the features of each offer. Nested dicts are flattened, with
dots in the names. The declaration is data: it is saved, compared and served. A portfolio adds a layout: the order of
the columns, in which new ones come last, and the scales that it has learned.

>>> from equipoise.features import Category, Number
>>> schema = Schema({"device": Category(["phone", "desktop"]), "age": Number(0, 100)})
>>> schema.shared_columns
('device=phone', 'device=desktop', 'device unknown', 'device missing', 'age', 'age missing')
>>> schema.offers({"device": "phone", "age": 75}, ids=["red", "blue"]).shared.tolist()
[1.0, 0.0, 0.0, 0.0, 0.5, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite, nan, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument
from equipoise.features.encoding import Encoder, Layout
from equipoise.features.fields import MAX_COLUMNS, Feature, from_table, to_table
from equipoise.features.maps import (
    Columns,
    Concat,
    Default,
    Interactions,
    One,
    OneHot,
    Prefix,
    Shared,
    has_names,
    with_numbers,
)
from equipoise.features.offers import FeatureMap, Offers, Source, as_matrix, as_numbers, check_entries, check_ids
from equipoise.features.records import as_record, as_rows, flat, is_nested, is_record
from equipoise.settings import equal_data
from equipoise.settings.checks import count, one_of
from equipoise.types import Array, Config, Plain

UNKNOWN = ("error", "ignore", "hash")
HASHED = 64  # columns for unknown names, unless stated
_NONE_SEEN: Config = {}
Declared = Mapping[str, Feature | Mapping[str, Any]]


class Schema:
    """The types of the features of contexts and offers.

    Parameters
    ----------
    context
        Features that all offers of a round share, by name: `Number`, `Category`, `Flag`, `Text` and `Vector`, or tables
        such as {"type": "number"}. A table without a type has features whose names begin with its own name and a dot.
    actions
        Features of each offer, in the same form.
    unknown
        What follows from a name that is not declared: "error", "ignore", or "hash" for hashed columns, of contexts or
        offers if `context` or `actions` is given (an empty dict will do), of both if neither is.
    hashed
        Number of hashed columns for unknown names, of contexts and of offers each. Default: 64 with "hash".

    Examples
    --------
    >>> from equipoise.features import Category, Number
    >>> schema = Schema({"device": Category(["phone", "desktop"])}, {"price": Number(0, 10)})
    >>> offers = schema.offers({"device": "phone"}, [{"price": 2.5}, {"price": 10}], ids=["red", "blue"])
    >>> offers.actions.tolist()
    [[-0.5, 0.0], [1.0, 0.0]]
    """

    def __init__(
        self,
        context: Declared | None = None,
        actions: Declared | None = None,
        *,
        unknown: str = "error",
        hashed: int | None = None,
    ) -> None:
        self.unknown = one_of("unknown", unknown, UNKNOWN)
        if context is None and actions is None and unknown == "hash":
            context = actions = {}
        self._sides = context is not None, actions is not None
        self.context, self.actions = _declared("context", context), _declared("actions", actions)
        if hashed is not None and unknown != "hash":
            raise InvalidArgument(f"hashed is {hashed!r} with unknown {unknown!r}, but needs unknown 'hash'")
        self.hashed = None if unknown != "hash" else count("hashed", hashed or HASHED, maximum=MAX_COLUMNS)
        self._checked_ids: tuple[str, ...] | None = None  # of the last call
        self._lay_out(None, None)

    def _lay_out(self, shared: Layout | None, actions: Layout | None) -> None:
        known: dict[str, list[int | None]] = {"error": [None, None], "ignore": [0, 0]}
        hashed = known.get(self.unknown) or [self.hashed if given else None for given in self._sides]
        self.shared_encoder = Encoder(self.context, hashed[0], shared, "context")
        self.action_encoder = Encoder(self.actions, hashed[1], actions, "actions")

    def with_layouts(self, shared: Layout | None, actions: Layout | None) -> Self:
        """Return the same schema with the columns of these layouts first, and with their scales."""
        laid_out = self.from_plain(self.to_plain())
        laid_out._lay_out(shared, actions)
        return laid_out

    def with_scales(self, scales: Mapping[str, Mapping[str, Sequence[float]]]) -> Self:
        """Return the same schema with further ranges of numbers, for "context" and "actions" by name."""
        layouts = []
        for side, layout in zip(("context", "actions"), self.layouts, strict=True):
            new = {name: (float(low), float(high)) for name, (low, high) in scales.get(side, {}).items()}
            layouts.append(Layout(layout.columns, {**layout.scales, **new}))
        return self.with_layouts(*layouts)

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        """The layouts of the shared columns and of those of the actions."""
        return self.shared_encoder.layout, self.action_encoder.layout

    @property
    def shared_columns(self) -> tuple[str, ...]:
        """The names of the shared columns."""
        return self.shared_encoder.columns

    @property
    def action_columns(self) -> tuple[str, ...]:
        """The names of the columns of the actions."""
        return self.action_encoder.columns

    def rule_against(self, before: Schema) -> str:
        """Return the rule that this schema breaks as a later form of `before`; empty if no column moves."""
        kept = all(now or not earlier for earlier, now in zip(before._sides, self._sides, strict=True))
        if before.unknown == "hash" and (self.unknown, self.hashed, kept) != ("hash", before.hashed, True):
            return f"keep the {before.hashed} hashed columns of unknown names"
        for side, earlier, after in (
            ("context", before.context, self.context),
            ("actions", before.actions, self.actions),
        ):
            for name, each in earlier.items():
                if name not in after or not after[name].extends(each):
                    return f"keep {name!r} of its {side} as {each}"
        return ""

    def offers(
        self,
        context: Any = None,
        offers: Any = None,
        *,
        ids: Iterable[str] | None = None,
        mask: ArrayLike | None = None,
    ) -> Offers:
        """Return the offers of a round, with columns made of the features that a caller has.

        Parameters
        ----------
        context
            What all offers share: a dict, nested as you like, a row of a data frame, a named tuple, a dataclass, or a
            vector of numbers: the columns, or anything if no feature is declared. Default: every feature is missing.
        offers
            The features of each offer: a list of the same, a data frame, or a matrix of numbers. Default: every feature
            is missing, for as many offers as there are ids.
        ids
            What the actions are called over all rounds. Default: none, row k is arm k.
        mask
            K truth values: False for an action that must not be chosen in this round. Default: all may be.
        """
        known = self._known_ids(ids)
        shared, seen = self._shared(context)
        actions, seen_in_actions = self._actions(offers, known)
        return Offers.of_columns(actions, shared, known, mask, Source(self, context, offers, seen, seen_in_actions))

    def _known_ids(self, ids: Iterable[str] | None) -> tuple[str, ...] | None:
        """Return checked ids; those of the last call are not checked again."""
        known = self._checked_ids
        if ids is None or ids is known:
            return known if ids is known else None
        self._checked_ids = known = check_ids(ids)
        return known

    def _shared(self, context: Any) -> tuple[Array | None, Config]:
        encoder = self.shared_encoder
        if context is None:
            if not len(encoder):
                return None, _NONE_SEEN
            context = {}
        if type(context) is not dict and not is_record(context):
            vector = as_numbers(context, "context", "a dict of features or a vector of numbers")
            if vector.ndim != 1:
                raise InvalidArgument(
                    f"context has shape {vector.shape}, but must be a dict or a vector: rows belong to offers"
                )
            if len(encoder) and len(vector) != len(encoder):
                raise InvalidArgument(f"context has {len(vector)} features, but must have {len(encoder)}")
            check_entries(vector, "context")
            return vector, _NONE_SEEN
        row = encoder.encode(context if type(context) is dict else as_record(context, "context"), "context")
        if not encoder.unscaled:
            return np.array(row), _NONE_SEEN
        n = len(encoder)
        seen = {name: each for name, each in zip(encoder.unscaled, row[n:], strict=True) if each == each}
        return np.array(row[:n]), seen

    def _actions(self, offers: Any, ids: Sequence[str] | None) -> tuple[Array | None, Config]:
        encoder, rows = self.action_encoder, as_rows(offers)
        n = len(encoder)
        if rows is None:
            if ids is None:
                raise InvalidArgument("offers is None, but must be a list of features unless ids are given")
            if not n:
                return None, _NONE_SEEN
            rows = [{}] * len(ids)
        if isinstance(rows, list | tuple) and any(map(is_record, rows)):
            written = [self._row(each, f"offers[{k}]") for k, each in enumerate(rows)]
            if not encoder.unscaled:
                return np.array(written).reshape(len(rows), n), _NONE_SEEN
            seen = {
                name: [row[n + j] for row in written if row[n + j] == row[n + j]]
                for j, name in enumerate(encoder.unscaled)
            }
            return np.array([row[:n] for row in written]).reshape(len(rows), n), {k: v for k, v in seen.items() if v}
        if isinstance(rows, list | tuple) and len({np.shape(row) for row in rows}) > 1:
            raise InvalidArgument("offers have different numbers of features, but must have the same number")
        matrix = np.array(as_matrix(rows, name="offers"), order="C")
        check_entries(matrix, "offers")
        if n and matrix.shape[1] != n:
            raise InvalidArgument(f"offers have {matrix.shape[1]} features, but must have {n}")
        return matrix, _NONE_SEEN

    def _row(self, features: Any, where: str) -> list[float]:
        """Return the columns of an offer that may be given in order, and the values of numbers without a scale."""
        encoder = self.action_encoder
        if is_record(features):
            return encoder.encode(as_record(features, where), where)
        vector = as_numbers(features, where, "a dict of features or a vector of numbers")
        if vector.shape != (len(encoder),):
            raise InvalidArgument(f"{where} has shape {vector.shape}, but must have {len(encoder)} features")
        check_entries(vector, where)
        return [*vector.tolist(), *[nan] * len(encoder.unscaled)]

    def recast(self, offers: Offers, written: Schema) -> Offers:
        """Return offers with the columns of this schema that another layout or form of it wrote; others are missing."""
        shared = np.empty(0) if offers.shared is None else offers.shared
        widths = len(shared), offers.actions.shape[1]
        columns = self.shared_columns, self.action_columns
        if columns == (written.shared_columns[: widths[0]], written.action_columns[: widths[1]]):
            return offers
        shared = self.shared_encoder.recast(shared[None], written.shared_columns)[0]
        actions = self.action_encoder.recast(offers.actions, written.action_columns)
        return Offers(actions, shared if len(shared) else None, offers.ids, mask=offers.mask)

    def resolve(self, features: FeatureMap) -> FeatureMap:
        """Return a feature map with numbers in place of the names of columns, if there are names."""
        if not has_names(features):
            return features
        resolved = with_numbers(
            features,
            lambda name: self.shared_encoder.places(name, "the context"),
            lambda name: self.action_encoder.places(name, "the actions"),
        )
        return Default(resolved, self.norm_bound(resolved), features)

    def default_map(self, ids: Sequence[str] | None = None) -> Default:
        """Return the map for one linear model of all actions: actions, and actions x context.

        An action is what its id says, if `ids` has the ids of all actions, next to its features; without ids, its
        features and a constant.
        """
        n_actions, n_shared = len(self.action_encoder), len(self.shared_encoder)
        action: list[FeatureMap] = [] if ids is None else [OneHot(ids)]
        if n_actions:
            action += [Columns(range(n_actions))]
        if not action:
            raise InvalidArgument(
                "the schema has no features of actions, but must have some, or the portfolio names of actions, for "
                "features that follow from it"
            )
        both = [Interactions(each, Shared(n_shared)) for each in action] if n_shared else []
        return self._default([*([] if ids is not None else [One()]), *action, *both])

    def default_map_of_action(self) -> Default:
        """Return the map for one linear model per action: a constant, the action's features and the context's."""
        n_actions, n_shared = len(self.action_encoder), len(self.shared_encoder)
        own: list[FeatureMap] = [Columns(range(n_actions))] if n_actions else []
        return self._default([One(), *own, *([Shared(n_shared)] if n_shared else [])])

    def _default(self, maps: list[FeatureMap]) -> Default:
        features = maps[0] if len(maps) == 1 else Concat(maps)
        return Default(features, self.norm_bound(features))

    def norm_bound(self, features: FeatureMap) -> float | None:
        """Return an upper bound on the norm of the rows of a map; None if none follows."""
        squared = self._squared_norm_bound(features)
        return sqrt(squared) if isfinite(squared) else None

    def _squared_norm_bound(self, features: FeatureMap) -> float:
        match features:
            case Columns():
                return self.action_encoder.squared_norm_bound(features.numbers)
            case Prefix(dim):
                return self.action_encoder.squared_norm_bound(range(dim))
            case Shared():
                return self.shared_encoder.squared_norm_bound(features.numbers)
            case OneHot() | One():
                return 1.0
            case Default(inner):
                return self._squared_norm_bound(inner)
            case Interactions(left, right):
                return self._squared_norm_bound(left) * self._squared_norm_bound(right)
            case Concat(maps):
                return sum(map(self._squared_norm_bound, maps))
            case _:
                return inf

    def example(self) -> tuple[Config, Config]:
        """Return features of a context and of an offer, as a caller may send them."""
        return tuple(  # type: ignore[return-value]  # two
            {name: each.example for name, each in features.items()} for features in (self.context, self.actions)
        )

    def known_in_context(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the attributes that are features of a context, unless unknown names are hashed."""
        if self.unknown == "hash":
            return attributes
        known = flat(attributes, "context") if is_nested(attributes) else attributes
        return {name: each for name, each in known.items() if name in self.context}

    def to_plain(self) -> Config:
        """Return the declaration as plain data."""
        context, actions = (
            {name: to_table(each) for name, each in features.items()} if given else None
            for features, given in zip((self.context, self.actions), self._sides, strict=True)
        )
        return {"context": context, "actions": actions, "unknown": self.unknown, "hashed": self.hashed}

    @classmethod
    def from_plain(cls, data: Mapping[str, Plain]) -> Self:
        """Return the schema that `to_plain` described, or that a file declares."""
        known = {"context": None, "actions": None, "unknown": "error", "hashed": None}
        for key in data:
            if key not in known:
                raise InvalidArgument(f"schema has {key!r:.80}, but must have {', '.join(known)} only")
        given = {**known, **data}
        return cls(given["context"], given["actions"], unknown=given["unknown"], hashed=given["hashed"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.to_plain(), *map(tuple, self.layouts))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and equal_data(self.to_plain(), other.to_plain())

    __hash__ = None  # type: ignore[assignment]  # compared by value, which is slow to hash

    def __repr__(self) -> str:
        names = [*self.context, *self.actions]
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        return f"Schema({len(self.shared_columns)} shared columns, {len(self.action_columns)} of actions; {shown})"


def _restored(data: Config, shared: Sequence[Any], actions: Sequence[Any]) -> Schema:
    return Schema.from_plain(data).with_layouts(Layout(*shared), Layout(*actions))


def check_schema(name: str, given: object) -> Schema:
    """Return a schema that is given as such or as plain data."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, Mapping):
        return Schema.from_plain(given)
    raise InvalidArgument(f"{name} is {given!r:.80}, but must be a Schema")


def _declared(side: str, given: object) -> dict[str, Feature]:
    found: dict[str, Feature] = {}
    if given is not None:
        _declare(found, side, given, "")
    return found


def _declare(found: dict[str, Feature], side: str, given: object, prefix: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{side} is {given!r:.80}, but must be a dict of features by name")
    for key, each in given.items():
        if not isinstance(key, str) or not key or not key.isprintable():
            raise InvalidArgument(f"{side} has the name {key!r:.80}, but must have nonempty printable strings as names")
        name = prefix + key
        if isinstance(each, Mapping) and not isinstance(each.get("type"), str) and each:
            if prefix.count(".") > 15:
                raise InvalidArgument(f"{side} is nested more than 16 levels deep, which is the maximum")
            _declare(found, side, each, f"{name}.")
            continue
        if name in found:
            raise InvalidArgument(f"{side} has {name!r} twice, but names must differ")
        if isinstance(each, Mapping):
            each = from_table(f"{side}.{name}", each)
        if not isinstance(each, Feature):
            raise InvalidArgument(f"{side}.{name} is {each!r:.80}, but must be a feature such as Number()")
        found[name] = each
