"""Offers: the actions of a round with shared features, ids and a mask, checked once and never changed.

Equal feature maps of any number of learners are computed once per context, because the context keeps the rows of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidArgument
from equipoise.features.records import features_digest
from equipoise.settings import equal_data
from equipoise.settings.checks import LARGEST
from equipoise.types import Array, Config, Context, Integers, Plain


@runtime_checkable
class FeatureMap(Protocol):
    """What turns offers into the features that a learner sees; a hashable value, equal if it computes the same."""

    @property
    def dim(self) -> int:
        """Number of features."""

    def of(self, offers: Offers) -> Array:
        """The features of the offered actions, one row each: nan for an action that the map cannot describe."""


FLOAT64 = np.dtype(np.float64)
NORM_ROUNDING = 1 + 1e-12  # relative: more than two sums of the same squares differ by


class Rows:
    """The rows of a map, with the largest squared norm among them and a bound on it that takes less time."""

    __slots__ = ("_max_squared_norm", "rows", "squared_norm_bound")

    def __init__(self, rows: Array, squared_norm_bound: float | None = None) -> None:
        rows.setflags(write=False)
        self.rows = rows
        self._max_squared_norm: float | None = None
        self.squared_norm_bound = self.max_squared_norm if squared_norm_bound is None else squared_norm_bound

    @property
    def max_squared_norm(self) -> float:
        """The largest squared norm of a row, nan if a row is; computed once."""
        if self._max_squared_norm is None:
            self._max_squared_norm = _max_squared_norm(self.rows)
        return self._max_squared_norm

    def __repr__(self) -> str:
        return f"Rows({len(self.rows)} rows of {self.rows.shape[1]} features)"


class Source(NamedTuple):
    """What offers were made of by a schema: the features as a caller gave them, until their round is decided."""

    schema: object  # which is told from a later form of it by identity
    context: Any
    offers: Any
    seen: Mapping[str, float] = {}  # values of shared numbers whose scale is not known yet
    seen_in_actions: Mapping[str, list[float]] = {}


class Offers:
    """The actions that are offered in a round. Never changes; checked once, when it is created.

    Parameters
    ----------
    actions
        K x d matrix with the features of one action per row; None if only ids matter.
    shared
        Features of the round that all actions share (those of a user, say). Default: none.
    ids
        K different strings: what the actions are called over all rounds. Default: none, row k is arm k.
    mask
        K truth values: False for an action that must not be chosen in this round. Default: all may be.
    source
        What a schema made them of; not a part of their value.

    Examples
    --------
    >>> from equipoise.features import Prefix
    >>> offers = Offers([[1.0], [2.0]], ids=["red", "blue"], mask=[False, True])
    >>> len(offers), offers.offered_ids, offers.rows(Prefix(1)).tolist()
    (2, ('blue',), [[2.0]])
    """

    def __init__(
        self,
        actions: ArrayLike | None,
        shared: ArrayLike | None = None,
        ids: Iterable[str] | None = None,
        *,
        mask: ArrayLike | None = None,
        source: Source | None = None,
    ) -> None:
        self.source = source
        self.ids = None if ids is None else check_ids(ids)
        if actions is None:
            if self.ids is None:
                raise InvalidArgument("actions is None, but must be a matrix unless ids are given")
            actions = np.empty((len(self.ids), 0))
        self.actions = np.array(as_matrix(actions, name="actions"), order="C")
        check_entries(self.actions, "actions")
        if self.ids is not None and len(self.ids) != len(self.actions):
            raise InvalidArgument(f"ids has {len(self.ids)} entries, but must have one for each of {len(self)} actions")
        self.shared = None if shared is None else _check_shared(shared)
        self.mask = None if mask is None else _check_mask(mask, len(self.actions))
        for array in (self.actions, self.shared, self.mask):
            if array is not None:
                array.setflags(write=False)
        self._rows: dict[FeatureMap, Rows] = {}
        self._squared_norm_bound: float | None = None  # of all actions, and so of any of their columns

    @classmethod
    def of_columns(
        cls,
        actions: Array | None,
        shared: Array | None,
        ids: tuple[str, ...] | None,
        mask: ArrayLike | None,
        source: Source,
    ) -> Self:
        """Return offers of checked ids and new arrays of finite numbers; only a schema calls it."""
        offers = cls.__new__(cls)
        if actions is None:
            actions = np.empty((len(ids or ()), 0))
        if ids is not None and len(ids) != len(actions):
            raise InvalidArgument(f"ids has {len(ids)} entries, but must have one for each of {len(actions)} actions")
        offers.actions, offers.shared, offers.ids, offers.source = actions, shared, ids, source
        offers.mask = None if mask is None else _check_mask(mask, len(actions))
        for array in (actions, shared, offers.mask):
            if array is not None:
                array.setflags(write=False)
        offers._rows, offers._squared_norm_bound = {}, None
        return offers

    def __len__(self) -> int:
        return len(self.actions)

    @cached_property
    def offered(self) -> Integers:
        """The indices of the actions that may be chosen."""
        return np.arange(len(self)) if self.mask is None else np.flatnonzero(self.mask)

    @property
    def n_offered(self) -> int:
        """Number of the actions that may be chosen."""
        return len(self.actions) if self.mask is None else len(self.offered)

    @property
    def offered_actions(self) -> Array:
        """The features of the actions that may be chosen."""
        return self.actions if self.mask is None else self.actions[self.mask]

    @cached_property
    def offered_ids(self) -> tuple[str, ...]:
        """The ids of the actions that may be chosen."""
        if self.ids is None:
            raise InvalidArgument("context has no ids, but must have: give Offers(..., ids=[...])")
        return tuple(self.ids[k] for k in self.offered)

    def rows(self, features: FeatureMap) -> Array:
        """The rows of a feature map for the actions that may be chosen; computed once.

        The row of an action that the map cannot describe is nan, unless it can describe none, which is an error.
        """
        return self.mapped(features).rows

    def mapped(self, features: FeatureMap) -> Rows:
        """The rows of a feature map with their largest squared norm; computed once."""
        mapped = self._rows.get(features)
        if mapped is None:
            rows, expected = features.of(self), (self.n_offered, features.dim)
            are_columns = self._are_columns(rows)
            rows = rows.copy() if are_columns else np.ascontiguousarray(rows, np.float64)
            if rows.shape != expected:
                raise InvalidArgument(f"features {features} have shape {rows.shape}, but must have {expected}")
            if are_columns:
                mapped = Rows(rows, self._bound_on_norms())
            else:
                described = ~np.isnan(rows).any(axis=1)
                check_entries(rows[described] if described.any() else rows, "features")
                mapped = Rows(rows.view())
            self._rows[features] = mapped
        return mapped

    @property
    def seen(self) -> Config | None:
        """Values of numbers without a scale, by side and name; None if there are none."""
        source = self.source
        if source is None or not (source.seen or source.seen_in_actions):
            return None
        return {"context": source.seen, "actions": source.seen_in_actions}

    def given_digest(self) -> str | None:
        """Return the digest of the features that a schema made these offers of; None if there are none."""
        source = self.source
        return None if source is None else features_digest(source.context, source.offers, self.ids, self.mask)

    def without_source(self) -> Offers:
        """Return the same offers without what they were made of."""
        if self.source is None:
            return self
        bare = object.__new__(type(self))
        vars(bare).update(vars(self))
        bare.source = None
        return bare

    @property
    def nbytes(self) -> int:
        """Bytes of the features, and of the rows of feature maps that are kept."""
        kept = sum(mapped.rows.nbytes for mapped in self._rows.values())
        return kept + self.actions.nbytes + (0 if self.shared is None else self.shared.nbytes)

    def forget_rows(self) -> None:
        """Forget the rows of feature maps; the next call that needs them computes them again."""
        self._rows.clear()

    def _are_columns(self, rows: Array) -> bool:
        """Whether these are columns of the actions, whose entries were checked and whose norms are no larger."""
        actions = self.actions
        is_view = type(rows) is np.ndarray and rows.base is actions
        return is_view and rows.dtype is actions.dtype and rows.strides == actions.strides

    def _bound_on_norms(self) -> float:
        if self._squared_norm_bound is None:
            self._squared_norm_bound = _max_squared_norm(self.actions) * NORM_ROUNDING
        return self._squared_norm_bound

    def masked(self, mask: NDArray[np.bool_]) -> Offers:
        """Return these offers with another mask."""
        left = None if mask.all() else mask
        return Offers(self.actions, self.shared, self.ids, mask=left, source=self.source)

    def position(self, action: int) -> int:
        """The position of an action among those that may be chosen."""
        if self.mask is None:
            return action
        if not self.mask[action]:
            raise InvalidArgument(f"action is {action}, but the mask of the offers excludes it")
        return int(np.count_nonzero(self.mask[:action]))

    def to_plain(self) -> Config:
        """Plain data that `from_plain` turns into equal offers."""
        ids = None if self.ids is None else list(self.ids)
        return {"actions": self.actions, "shared": self.shared, "ids": ids, "mask": self.mask}

    @classmethod
    def from_plain(cls, data: Mapping[str, Plain]) -> Self:
        """The offers that `to_plain` described."""
        return cls(data["actions"], data["shared"], data["ids"], mask=data["mask"])

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies leave out the rows of feature maps.
        return type(self).from_plain, (self.to_plain(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offers) and equal_data(self.to_plain(), other.to_plain())

    __hash__ = None  # type: ignore[assignment]  # compared by value, which is slow to hash

    def __repr__(self) -> str:
        parts = [f"{len(self)} actions with {self.actions.shape[1]} features"]
        if self.shared is not None:
            parts.append(f"{len(self.shared)} shared features")
        if self.ids is not None:
            shown = ", ".join(self.ids[:3])
            parts.append(f"ids {shown}{', ...' if len(self.ids) > 3 else ''}")
        if self.mask is not None:
            parts.append(f"{len(self.offered)} of them offered")
        return f"Offers({'; '.join(parts)})"


def _max_squared_norm(rows: Array) -> float:
    squared_norms = np.vecdot(rows, rows)
    return float(squared_norms[squared_norms.argmax()])  # takes half the time of max()


def as_offers(context: Context) -> Offers:
    """The context as offers; a matrix offers its rows, without shared features and ids."""
    return context if isinstance(context, Offers) else Offers(as_matrix(context))


def nth_offered(context: Context, position: int) -> int:
    """Return the index of an action among all offers, from its position among those that the mask leaves."""
    return int(context.offered[position]) if isinstance(context, Offers) else position


def position_of(context: Context, action: int) -> int:
    """Return the position of an action among the offers that the mask leaves."""
    return context.position(action) if isinstance(context, Offers) else action


def as_matrix(matrix: Any, dim: int = 0, name: str = "context") -> Array:
    """Return a matrix with one offered action per row and at least `dim` columns, entries unchecked."""
    actions = matrix if type(matrix) is np.ndarray and matrix.dtype is FLOAT64 else as_numbers(matrix, name)
    if actions.ndim != 2 or len(actions) == 0:
        raise InvalidArgument(f"{name} has shape {actions.shape}, but must be a K x d matrix with K >= 1 rows")
    if actions.shape[1] < dim:
        raise InvalidArgument(f"{name} has {actions.shape[1]} columns, but must have at least dim = {dim}")
    return actions


def as_numbers(numbers: Any, name: str, what: str = "a K x d matrix of numbers") -> Array:
    """Return numbers as an array of floats."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"{name} is {numbers!r:.80}, but must be {what}")
    with np.errstate(over="ignore"):  # beyond the range of a float64: rejected later as infinite
        return array.astype(np.float64)


def check_entries(numbers: Array, name: str = "context") -> None:
    """Raise an error if an entry is not finite or is too large in magnitude."""
    # One sum of squares covers all entries, nan and infinities included (vdot does not warn when it overflows); only if
    # it is out of range is the largest entry computed.
    if not np.vdot(numbers, numbers) <= LARGEST:
        worst = float(np.abs(numbers).max())
        if not worst <= LARGEST:
            raise InvalidArgument(f"{name} has an entry {worst!r}, but entries must be finite and at most {LARGEST:g}")


def check_ids(ids: object, name: str = "ids") -> tuple[str, ...]:
    """Different nonempty strings, as a tuple."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidArgument(f"{name} is {ids!r:.80}, but must be a list of strings")
    checked = tuple(ids)
    for k, id_ in enumerate(checked):
        if not isinstance(id_, str) or not id_:
            raise InvalidArgument(f"{name}[{k}] is {id_!r:.80}, but must be a nonempty string")
    if not checked:
        raise InvalidArgument(f"{name} is empty, but must have at least one id")
    if len(set(checked)) < len(checked):
        twice = next(id_ for k, id_ in enumerate(checked) if id_ in checked[:k])
        raise InvalidArgument(f"{name} has {twice!r} twice, but entries must differ")
    return checked


def _check_shared(shared: ArrayLike) -> Array:
    vector = as_numbers(shared, "shared", "a vector of numbers")
    if vector.ndim != 1:
        raise InvalidArgument(f"shared has shape {vector.shape}, but must be a vector of numbers")
    check_entries(vector, "shared")
    return vector


def _check_mask(mask: ArrayLike, n_actions: int) -> NDArray[np.bool_]:
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (n_actions,):
        raise InvalidArgument(f"mask is {mask!r:.80}, but must have one truth value for each of {n_actions} actions")
    if not array.any():
        raise InvalidArgument("mask is False for every action, but must leave at least one")
    return array.copy()
