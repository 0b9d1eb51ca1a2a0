"""Rows of columns from dicts of features, in one pass over the dict.

A row that is being written has its columns first, then the raw values of numbers whose scale is not known yet, then an
entry that nobody reads. The blank row has the values for which everything is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, nan, sqrt
from typing import Any, NamedTuple, NoReturn

import numpy as np

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features.fields import Feature, Number, Row, Scale, Writer, as_number, is_missing, place_of
from equipoise.features.maps import MAX_DIM
from equipoise.features.records import MAX_FIELDS, as_record, flat, nests
from equipoise.settings.checks import count
from equipoise.types import Array

SIMPLE = frozenset({str, bool, int})  # types of values that are never missing


class Layout(NamedTuple):
    """What a portfolio adds to the declaration of features: the order of the columns, and learned scales."""

    columns: tuple[str, ...]
    scales: Mapping[str, Scale]


class Encoder:
    """Writes the features of a context, or of an offer, into rows.

    `hashed` is the number of columns for unknown names: 0 if these are ignored, None if they are an error.
    """

    def __init__(
        self, features: Mapping[str, Feature], hashed: int | None, layout: Layout | None = None, what: str = "context"
    ) -> None:
        self.features, self.hashed = features, hashed
        natural = [name + label for name, each in features.items() for label in each.labels]
        natural += [f"other {k}" for k in range(hashed or 0)]
        if len(set(natural)) < len(natural):
            twice = next(name for k, name in enumerate(natural) if name in natural[:k])
            raise InvalidArgument(f"{what} has two columns {twice!r}, but the names of columns must differ: rename one")
        kept = set(natural)
        before = [] if layout is None else [name for name in layout.columns if name in kept]
        self.columns = (*before, *(name for name in natural if name not in set(before)))
        count(f"number of columns of {what}", len(self.columns), minimum=0, maximum=MAX_DIM)
        self.scales = {} if layout is None else dict(layout.scales)
        self._index = {name: k for k, name in enumerate(self.columns)}
        self.unscaled = tuple(
            name
            for name, each in features.items()
            if isinstance(each, Number) and each.learns_scale and name not in self.scales
        )
        self._blank: Row = [0.0] * len(self.columns) + [nan] * len(self.unscaled) + [0.0]
        self._writers: dict[str, Writer] = {}
        for name, each in features.items():
            self._writers[name] = self._writer_of(name, each)
            if each.missing == "column":
                self._blank[self._index[f"{name} missing"]] = 1.0
        self._required = frozenset(name for name, each in features.items() if each.missing == "refuse")
        self._others = [self._index[f"other {k}"] for k in range(hashed or 0)]
        self._bounds = {f: each.norm_bound for f, each in features.items()}
        self._feature_of = [""] * len(self.columns)  # by column; empty for unknown names
        for name in features:
            for k in self._own(name):
                self._feature_of[k] = name

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def layout(self) -> Layout:
        return Layout(self.columns, self.scales)

    def _own(self, name: str) -> tuple[int, ...]:
        return tuple(self._index[name + label] for label in self.features[name].labels)

    def _writer_of(self, name: str, feature: Feature) -> Writer:
        if name in self.unscaled:
            place = len(self.columns) + self.unscaled.index(name)

            def keep(row: Row, given: Any) -> None:
                row[place] = as_number(f"feature {name!r}", given)

            return keep
        return feature.writer(f"feature {name!r}", self._own(name), self.scales.get(name))

    def places(self, name: str, what: str) -> tuple[int, ...]:
        """Return the columns of a feature, or the column of this name."""
        if name in self.features:
            return self._own(name)
        if name in self._index:
            return (self._index[name],)
        raise UnknownName(f"column of {what}", name, [*self.features, *self.columns])

    def squared_norm_bound(self, places: Iterable[int]) -> float:
        """Return an upper bound on the squared norm of some columns; inf if there is none."""
        known = [self._feature_of[k] if k < len(self._feature_of) else None for k in places]
        if None in known:  # of numbers that callers give
            return inf
        return sum((self._bounds[name] ** 2 if name else 1.0) for name in {*known} if name is not None)

    def recast(self, rows: Array, columns: Sequence[str]) -> Array:
        """Return rows with these columns, or the first of them, in the columns of this encoder; others are missing."""
        if rows.shape[1] > len(columns):  # numbers that callers gave in an order of their own
            return rows
        found = np.tile(self._blank[: len(self)], (len(rows), 1))
        for k, name in enumerate(columns[: rows.shape[1]]):
            if name in self._index:
                found[:, self._index[name]] = rows[:, k]
        return found

    def encode(self, record: Mapping[str, Any], where: str) -> Row:
        """Return the columns of a record, and after them the raw values of numbers without a scale."""
        try:
            row = self._write(record, where)
        except UnknownName:
            raise
        except InvalidArgument as error:
            raise InvalidArgument(str(error) if str(error).startswith(where) else f"{where}: {error}") from None
        row.pop()
        return row

    def _write(self, record: Mapping[str, Any], where: str) -> Row:
        if len(record) > MAX_FIELDS:
            raise InvalidArgument(f"{where} has {len(record)} fields, but must have at most {MAX_FIELDS}")
        row, writers, others = self._blank.copy(), self._writers, None
        for name, given in record.items():
            kind, write = type(given), writers.get(name)
            if kind in SIMPLE or (kind is float and given == given):
                if write is not None:
                    write(row, given)
                    continue
            elif nests(given):
                return self._write(flat(record, where), where)
            elif is_missing(given):
                if name in self._required:
                    self._refuse_missing(name)
                if write is not None or (self.hashed is not None and isinstance(name, str)):
                    continue
            elif write is not None:
                write(row, given)
                continue
            if self.hashed is None or not isinstance(name, str):
                self._refuse_unknown(name, where)
            if self.hashed:
                others = others or []
                others.append((name, given))
        if self._required and not self._required <= record.keys():
            self._refuse_missing(min(self._required - record.keys()))
        if others is not None:
            self._hash(row, others)
        return row

    def _refuse_missing(self, name: str) -> NoReturn:
        raise InvalidArgument(f"feature {name!r} is missing, but must be given, as its setting missing is 'refuse'")

    def _refuse_unknown(self, name: object, where: str) -> NoReturn:
        if not isinstance(name, str):
            raise InvalidArgument(f"{where} has the name {name!r:.80}, but names must be strings")
        if not self.features:
            raise InvalidArgument(f"{where} has the name {name!r:.80}, but the schema has no features of it")
        raise UnknownName(f"feature of {where}", name[:80], self.features)

    def _hash(self, row: Row, others: Sequence[tuple[str, Any]]) -> None:
        """Write values of unknown names into the hashed columns, scaled down to norm 1 if their norm is larger."""
        assert self.hashed is not None
        sums: dict[int, float] = {}
        for name, given in others:
            for word, weight in _words(name, given):
                k, sign = place_of(word, self.hashed)
                sums[k] = sums.get(k, 0.0) + sign * weight
        scale = max(1.0, sqrt(sum(each * each for each in sums.values())))
        for k, each in sums.items():
            row[self._others[k]] = each / scale


def _words(name: str, given: Any) -> Iterable[tuple[str, float]]:
    """Return what a value of an unknown name is hashed by, each with a weight from -1 to 1."""
    if isinstance(given, str):
        return ((f"{name}={given}", 1.0),)
    if isinstance(given, list | tuple):
        if len(given) > MAX_FIELDS:
            raise InvalidArgument(f"feature {name!r} has {len(given)} entries, but must have at most {MAX_FIELDS}")
        return [pair for each in given for pair in _words(name, each)]
    if nests(given):  # in a list
        record = flat(as_record(given, name), f"feature {name!r}")
        return [pair for key, each in record.items() for pair in _words(f"{name}.{key}", each)]
    if is_missing(given):
        return ()
    number = as_number(f"feature {name!r}", given)
    return ((name, number / (1.0 + abs(number))),)
