"""Contexts of what callers send: the schema of a portfolio, the order of its columns, and the scales that it learns.

A number without a declared range counts as missing until `N_FIRST` values of it, at least two of them different, were
seen in decided rounds. Then its range is fixed by the event `scaled`. The values are in the events of the rounds, so a
fold finds them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features.encoding import Layout
from equipoise.features.offers import Offers, as_numbers, as_offers
from equipoise.features.records import as_rows, is_record
from equipoise.features.schema import Schema
from equipoise.learner import AdoptsSchema, implements
from equipoise.portfolio.events import logger
from equipoise.portfolio.pool import Pool
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.storage.codec import KINDS as SAVED_KINDS
from equipoise.storage.codec import check_savable
from equipoise.types import Config, Context, Plain

N_FIRST = 30  # values from which the scale of a number is learned
WIDTH = 2.0  # standard deviations from the middle of the range to its ends
MIN_WIDTH = 1e-9  # in units of the middle
SIDES = ("context", "actions")
COPIED = (list, tuple, dict)
T = TypeVar("T")
OFFER_KEYS = frozenset({"id", "features"})


class Inputs:
    """Makes contexts of what callers send, and learns the scales of numbers."""

    def __init__(self, settings: PortfolioSettings) -> None:
        self._declared = self.schema = settings.schema  # as declared; with the layout in effect
        self._names = settings.action_names
        self._seen: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}  # values without a scale

    def adopt(self, settings: PortfolioSettings) -> None:
        """Use another declaration from now on, whose columns come after the present ones."""
        if settings.schema is not self._declared:
            layouts = (None, None) if self.schema is None else self.schema.layouts
            self.schema = None if settings.schema is None else settings.schema.with_layouts(*layouts)
        self._declared, self._names = settings.schema, settings.action_names

    def read(self, context: Any, offers: Any = None) -> Context:
        """Return the context that learners see of what a caller gives."""
        if isinstance(context, Offers):
            if offers is not None:
                raise InvalidArgument("offers is given, but the context has offers already")
            source = context.source
            if source is None or source.schema is self.schema or self.schema is None:
                return context
            return self.schema.offers(source.context, source.offers, ids=context.ids, mask=context.mask)
        if offers is not None:
            ids, features = split_offers(offers)
            return self.make(context, features, ids)
        if self.schema is None or not is_record(context):
            return context
        if self._names is None:
            raise InvalidArgument(
                "context has names of features, but there are no offers: give offers, or action_names to the portfolio"
            )
        return self.make(context, None, self._names)

    def make(self, context: Any, features: Any, ids: Sequence[str] | None) -> Offers:
        """Return offers with these features and ids."""
        return offers_of(self.schema, context, features, ids)

    def see(self, seen: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep values of numbers without a scale."""
        for side, values in seen.items():
            for name, given in values.items():
                kept = self._seen[side].setdefault(name, [])
                for each in given if isinstance(given, list | tuple) else (given,):
                    if len(kept) < N_FIRST:
                        kept.append(each)
                    elif len(set(kept)) == 1:
                        kept[-1] = each  # a scale needs two different values

    def learned_scales(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Return the ranges that are known from the values seen now, by side and name; empty if there are none."""
        found = {
            side: {
                name: _range(kept)
                for name, kept in self._seen[side].items()
                if len(kept) >= N_FIRST and len({*kept}) > 1
            }
            for side in SIDES
        }
        return {side: scales for side, scales in found.items() if scales}

    def fix_scales(self, scales: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Use these ranges from now on."""
        assert self.schema is not None
        self.schema = self.schema.with_scales(scales)
        for side, new in scales.items():
            for name in new:
                self._seen[side].pop(name, None)

    def state(self) -> Config:
        """Return the layout and what was seen, as plain data."""
        assert self.schema is not None
        return {
            side: {
                "columns": list(layout.columns),
                "scales": dict(layout.scales),
                "seen": {name: list(kept) for name, kept in self._seen[side].items()},
            }
            for side, layout in zip(SIDES, self.schema.layouts, strict=True)
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        assert self.schema is not None
        self.schema = layouts_in(self.schema, state)
        for side in SIDES:
            self._seen[side] = {name: list(kept) for name, kept in state[side]["seen"].items()}


def layouts_in(schema: Schema, state: Mapping[str, Plain]) -> Schema:
    """Return a schema with the layouts that `Inputs.state` returned."""
    laid_out = schema.with_layouts(*(Layout(tuple(state[side]["columns"]), {}) for side in SIDES))
    return laid_out.with_scales({side: state[side]["scales"] for side in SIDES})


def _range(values: Sequence[float]) -> tuple[float, float]:
    array = np.array(values)
    middle, width = float(array.mean()), WIDTH * float(array.std())
    width = max(width, MIN_WIDTH * max(abs(middle), 1e-90))  # as for a declared range, whose ends must differ
    return middle - width, middle + width


def offers_of(schema: Schema | None, context: Any, features: Any, ids: Sequence[str] | None) -> Offers:
    """Return offers by a schema; without one, features are numbers."""
    if schema is not None:
        return schema.offers(context, features, ids=ids)
    rows = as_rows(features)
    for name, given in (("context", context), *((f"offers[{k}].features", row) for k, row in enumerate(rows or ()))):
        if is_record(given):
            raise InvalidArgument(f"{name} has names, which need a schema of the portfolio")
    shared = None if context is None else as_numbers(context, "context", "a vector of numbers")
    if rows is not None and len({np.shape(row) for row in rows}) > 1:
        raise InvalidArgument("offers have different numbers of features, but must have the same number")
    return Offers(rows, shared, ids)


def split_offers(offers: Any) -> tuple[list[str] | None, list[Any] | None]:
    """Return the ids and the features of offers such as {"id": "red", "features": {"price": 3.5}}."""
    rows = as_rows(offers)
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise InvalidArgument(f"offers is {offers!r:.80}, but must be a list of dicts with id and features")
    entries = list(rows)
    for k, each in enumerate(entries):
        if not isinstance(each, Mapping) or not each.keys() <= OFFER_KEYS:
            raise InvalidArgument(f"offers[{k}] is {each!r:.80}, but must be a dict with id and features only")
    if not entries:
        raise InvalidArgument("offers is empty, but must have at least one")
    return some_or_none("id", [each.get("id") for each in entries]), some_or_none(
        "features", [each.get("features") for each in entries]
    )


def some_or_none(name: str, given: list[Any]) -> list[Any] | None:
    """Return what offers have under a name; None if none has it, an error if only some have."""
    n = sum(each is not None for each in given)
    if n not in (0, len(given)):
        raise InvalidArgument(f"offers have {name} in {n} of {len(given)} cases, but must in all or none")
    return given if n else None


def adopt_schema(learners: Iterable[object], schema: Schema | None, action_names: Sequence[str] | None) -> None:
    """Let learners take features and bounds from a schema, where they state none."""
    for learner in learners:
        if not isinstance(learner, type) and implements(learner, AdoptsSchema):
            learner.adopt_schema(schema, action_names)


def copy_if_mutable(value: T) -> T:
    """Return a copy, if the caller could change the value before its reward arrives."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return deepcopy(value) if isinstance(value, COPIED) else value


def own_copy(value: T, where: str, savable: bool) -> T:
    """Return a caller's value as a ticket keeps it: a copy, if the caller could change the value.

    If `savable`, raise an error that names the place in the value, called `where`, that cannot be saved.
    """
    plain = type(value) is np.ndarray and value.dtype.kind in SAVED_KINDS  # type: ignore[attr-defined]
    if savable and not plain:  # nearly all contexts are plain
        check_savable(value, where)
    return copy_if_mutable(value)


class Contexts:
    """Turns matrices into offers once per round if a learner has a feature map, and compares columns with learners.

    Offers keep the rows of every map, so that a map that several learners share is computed once per round, for
    deciding and for learning. Learners without a map see the context as it was given.
    """

    def __init__(self, pool: Pool) -> None:
        self._members = pool.members
        self._n_members = 0  # when it was last determined whether a learner has a map
        self._any_map = False
        self._compared = False  # whether the columns of a matrix were compared with those that learners use

    def offers(self, context: Context) -> Offers | None:
        """Return the context as offers if that saves work, else None."""
        if len(self._members) != self._n_members:
            self._n_members = len(self._members)
            self._any_map = any(member.learner is not None and member.learner.has_map for member in self._members)
        if not self._compared:
            self._compare(context)
        if not self._any_map or not isinstance(context, np.ndarray | list):
            return None
        try:
            return as_offers(context)
        except InvalidArgument:
            return None  # learners say what is wrong with it

    def check_first(self, context: Context) -> None:
        """Raise an error if the first context of a portfolio has too few columns for a learner.

        Later a learner that needs more than there are fails alone: one that was added must not stop the others.
        """
        n_columns, used = columns_of(context), self._columns_used()
        known = {name: n for name, n in used.items() if n is not None}
        widest = max(known, key=known.__getitem__, default="")
        if n_columns is not None and known and known[widest] > n_columns:
            raise InvalidArgument(
                f"context has {n_columns} columns, but must have at least {known[widest]} for learner {widest!r}"
            )

    def _compare(self, context: Context) -> None:
        n_columns = columns_of(context)
        if n_columns is None:
            return
        self._compared = True
        used = self._columns_used().values()
        known = [n for n in used if n is not None]
        if len(known) == len(used) and 0 < max(known, default=0) < n_columns:
            logger.warning(
                "no learner uses more than the first %d of the %d columns of the context", max(known), n_columns
            )

    def _columns_used(self) -> dict[str, int | None]:
        """Return how many columns each learner uses, by its name; None if that is not known."""
        return {each.name: each.learner.can.n_columns for each in self._members if each.learner is not None}


def n_offers(context: Context) -> int | None:
    """Return the number of actions that a context offers; None if it does not say."""
    if type(context) is np.ndarray:
        return len(context) if context.ndim == 2 else None
    return len(context) if isinstance(context, Offers) else None


def columns_of(context: Context) -> int | None:
    """Return the number of columns of a matrix or of offers; None for other contexts."""
    matrix = context.actions if isinstance(context, Offers) else context
    return matrix.shape[1] if isinstance(matrix, np.ndarray) and matrix.ndim == 2 else None
