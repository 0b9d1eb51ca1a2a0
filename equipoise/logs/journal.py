"""Journals of portfolios as logs: the decisions that have their reward, with the propensities of their events.

Rounds stand in the order in which their rewards became known, at that time, so that a journal is read in one pass and
only open decisions are held in memory. With a deadline, a round becomes known when all rounds before it are. Otherwise
the last rounds would be those whose reward comes early, and the defaults of the deadline would be missing among them.
The row of a round is the number of the event of its decision.

| in the journal | in the log |
|---|---|
| context: a matrix, or offers that may be chosen | features of the offers; of offers without features their ids |
| shared features of offers, or a vector as context | features of the round |
| reward, or that of the deadline | reward |
| propensity of the decision | propensity; a decision without a known one is a fault |
| exploration floor | least probability of every offered action, if the number of actions is known |
| withdrawn decisions, and those without a reward so far | left out, and counted |
| with a deadline, decisions after the first one without a reward | left out, and counted |
| a policy as an action, a context that was removed | a fault |
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.features import Offers, Schema
from equipoise.journal import schema
from equipoise.journal.archive import Archive
from equipoise.journal.sqlite import SQLiteJournal, connect_reader
from equipoise.logs.features import Columns
from equipoise.logs.rounds import Faults, Rounds, in_batches, objects
from equipoise.portfolio import old_forms
from equipoise.portfolio.events import Event
from equipoise.portfolio.inputs import layouts_in
from equipoise.types import Array, Context, Plain

BATCH_ROUNDS = 1_024
CREATED = "created"
BY_ID = -1  # number of features of offers that have none, only ids


class Decided(NamedTuple):
    row: int
    shared: Array
    offers: Array  # (actions, features)
    action: int
    propensity: float
    ids: tuple[str, ...] | None  # of the offers that may be chosen
    context: tuple[Context] | None  # as it was decided on; None if it is made of the columns


class Settled(NamedTuple):
    decided: Decided
    reward: float
    time: float
    digest: int


class JournalSource:
    """The journal of a portfolio, up to its last event when it was opened; it may be in use."""

    action_names: tuple[str, ...] = ()

    def __init__(self, path: Path, schema: Schema | None = None) -> None:
        self.name, self.n_skipped, self.floor = path.name, 0, nan
        _check_version(path)
        self._journal = SQLiteJournal(path, create=False)
        self._last = self._journal.last_seq
        self._ids = Columns()  # of offers without features
        self._settings: dict[str, Any] = {}  # of the portfolio, as they were at the last event read
        self._schema: Schema | None = None  # of the portfolio, with the layout at the last event read
        self._wanted = schema  # whose columns the contexts are to have
        self._n_named = set[int]()  # numbers of named actions of rounds that have no offers
        self._widths: tuple[int, int] | None = None  # of shared features and of those of offers, as in the first round

    @property
    def shared_names(self) -> tuple[str, ...]:
        declared = () if self._of_columns is None else self._of_columns.shared_columns
        return _names(declared, "x", self._widths[0] if self._widths else 0)

    @property
    def offer_names(self) -> tuple[str, ...]:
        declared = () if self._of_columns is None else self._of_columns.action_columns
        return self._ids.names or _names(declared, "a", self._widths[1] if self._widths else 0)

    @property
    def schema(self) -> Schema | None:
        """The schema that says what the columns of contexts are, with the ranges that the portfolio learned."""
        schema, of_columns = self._schema, self._of_columns
        if schema is None or of_columns is None or of_columns is schema:
            return schema
        sides = (("context", of_columns.context), ("actions", of_columns.actions))
        learned = {
            side: {name: scale for name, scale in layout.scales.items() if name in features}
            for (side, features), layout in zip(sides, schema.layouts, strict=True)
        }
        return of_columns.with_scales(learned)

    @property
    def _of_columns(self) -> Schema | None:
        """The schema that says what the columns of contexts are, if any."""
        return None if self._schema is None else self._wanted or self._schema

    def _set(self, settings: Mapping[str, Plain]) -> None:
        """Note settings of the portfolio; columns of a new schema come after the present ones."""
        current = old_forms.settings(settings)
        self._settings.update(current)
        if current.get("schema") is not None:
            layouts = (None, None) if self._schema is None else self._schema.layouts
            self._schema = Schema.from_plain(current["schema"]).with_layouts(*layouts)
            if self._wanted is not None:
                _check_same_columns(self._wanted, self._schema)

    def read(self, faults: Faults) -> Iterator[Rounds]:
        self.n_skipped, self.floor = 0, inf
        yield from map(self._to_rounds, in_batches(self._settled(faults), BATCH_ROUNDS))

    def _settled(self, faults: Faults) -> Iterator[Settled]:
        """The decisions with their rewards; at the end, those that are left are counted."""
        waiting: dict[str, Decided | None] = {}  # open decisions; None: a fault, which was added
        line = OrderedDict[str, Settled | None]()  # decisions that become known in their order
        for event in Archive(self._journal).read():
            if event.seq > self._last:
                break
            if event.seq == 1 and event.kind != CREATED:
                raise UnreadableFile(f"{self.name} does not begin with the event {CREATED!r}")
            if event.kind == CREATED:
                self._settings, self._schema = {}, None
                self._set(event.data["state"]["settings"])
                if self._schema is not None and "inputs" in event.data["state"]:
                    self._schema = layouts_in(self._schema, event.data["state"]["inputs"])
            elif event.kind == "config":
                self._set(event.data["changes"])
            elif event.kind == "scaled" and self._schema is not None:
                self._schema = self._schema.with_scales(event.data)
            elif event.kind == "decided":
                waiting[event.data["id"]] = self._decided(event, faults)
                if self._settings["deadline"] is not None:
                    line[event.data["id"]] = None
            elif event.kind in ("rewarded", "expired", "withdrawn") and "part" not in event.data:
                id_ = event.data["id"]
                if id_ not in waiting:
                    raise UnreadableFile(f"{self.name} has event {event.seq} ({event.kind}) of an unknown decision")
                decided, settled = waiting.pop(id_), None
                if event.kind == "withdrawn":
                    self.n_skipped += 1
                elif decided is not None:
                    settled = Settled(decided, float(event.data["reward"]), event.time, _digest(id_))
                if id_ in line:
                    line[id_] = settled
                elif settled is not None:
                    yield settled
                while line and next(iter(line)) not in waiting:
                    _, settled = line.popitem(last=False)
                    if settled is not None:
                        yield settled._replace(time=event.time)
        self.n_skipped += len(waiting) + sum(settled is not None for settled in line.values())

    def _decided(self, event: Event, faults: Faults) -> Decided | None:
        try:
            return self._parse(event.seq, event.data)
        except ValueError as error:
            faults.add(event.seq, str(error))
            return None

    def _parse(self, row: int, data: Mapping[str, Plain]) -> Decided:
        """The decision of an event; raises ValueError with the rule that it breaks."""
        if data["digest"] is None:
            raise ValueError("its context was removed from the journal, but is needed")
        context, action = data["context"], data["action"]
        if isinstance(action, bool) or not isinstance(action, int):
            raise ValueError(f"action is {action!r:.40}, but must be the number of an offered action")
        if isinstance(context, Offers) and self._wanted is not None and self._schema is not None:
            context = self._wanted.recast(context, self._schema)
        shared, offers = self._features(context)
        if isinstance(context, Offers) and context.mask is not None:
            action = context.position(action)
        by_id = isinstance(context, Offers) and not context.actions.shape[1]
        widths = len(shared), BY_ID if by_id else offers.shape[1]
        self._widths = self._widths or widths
        known = self._widths[1] if self._schema is not None else None
        if known is not None and (known == BY_ID) == by_id:  # columns may have been added
            self._widths = max(widths[0], self._widths[0]), max(widths[1], known)
        elif widths != self._widths:
            found, above = (f"{each[0]} and {_of_offers(each[1])}" for each in (widths, self._widths))
            raise ValueError(f"features of the round and of each offer are {found}, but must be {above} as those above")
        self.floor = min(self.floor, self._floor_of(data, offers))
        own: tuple[Context] | None = None
        ids = None
        if isinstance(context, Offers):
            own, ids = (context,), None if context.ids is None else context.offered_ids
        elif isinstance(context, np.ndarray) and context.ndim == 2:
            own = (context,)
        return Decided(row, shared, offers, action, float(data["probabilities"][2]), ids, own)

    def _floor_of(self, data: Mapping[str, Plain], offers: Array) -> float:
        """Return the least probability of every action of a round, by the exploration floor; 0 if it is unknown."""
        n_actions, (_, chance, _) = len(offers), data["probabilities"]
        self._n_named |= set() if offers.shape[1] else {n_actions}
        drawn_by_floor = data["choice"] is None and not data["fallback"]
        some_not_drawn = len(self._n_named) > 1 or (drawn_by_floor and abs(chance * n_actions - 1.0) > 1e-9)
        return self._settings["explore"] / n_actions if n_actions and not some_not_drawn else 0.0

    def _features(self, context: Context) -> tuple[Array, Array]:
        """Features of the round, and those of the offers, one row each."""
        nothing: Array = np.empty(0)
        named: Array = np.empty((len(self._settings["action_names"] or ()), 0))
        if context is None:
            return nothing, named
        if isinstance(context, Offers):
            shared = nothing if context.shared is None else context.shared
            if context.actions.shape[1]:
                return shared, context.offered_actions
            self._ids.add(dict.fromkeys(context.offered_ids, 1.0))
            columns = [self._ids.positions[id_] for id_ in context.offered_ids]
            return shared, np.eye(len(self._ids.positions))[columns]
        if isinstance(context, np.ndarray | list | tuple):
            numbers = np.asarray(context)
            if numbers.dtype.kind in "fiu" and numbers.ndim in (1, 2):
                values: Array = numbers.astype(np.float64)
                return (values, named) if values.ndim == 1 else (nothing, values)
        kind = f"a {type(context).__name__}"
        raise ValueError(f"the context is {kind}, but must be a matrix, a vector, offers or None")

    def _to_rounds(self, batch: list[Settled]) -> Rounds:
        n, decided = len(batch), [settled.decided for settled in batch]
        shared = np.zeros((n, len(self.shared_names)))
        actions = np.array([each.action for each in decided])
        n_offered = np.array([len(each.offers) for each in decided])
        n_actions, width = max(int(n_offered.max()), int(actions.max()) + 1), len(self.offer_names)
        offers = np.zeros((n, n_actions, width))
        for k, each in enumerate(decided):
            rows, columns = each.offers.shape
            offers[k, :rows, :columns] = each.offers  # ids and features that were added later have further columns
            shared[k, : len(each.shared)] = each.shared
        return Rounds(
            np.array([each.row for each in decided]),
            shared,
            offers,
            n_offered if width else np.full(n, n_actions),
            actions,
            np.array([settled.reward for settled in batch]),
            np.array([each.propensity for each in decided]),
            np.full((n, n_actions), nan),
            np.ones(n),
            np.array([settled.time for settled in batch]),
            np.array([settled.digest for settled in batch], np.uint64),
            objects([each.ids for each in decided]) if any(each.ids for each in decided) else None,
            objects([each.context for each in decided]),
        )


def _check_version(path: Path) -> None:
    """Raise an error unless this is a journal that this release reads."""
    try:
        with closing(connect_reader(path)) as connection:
            version = schema.version_of(connection, path)
    except sqlite3.Error as error:
        raise UnreadableFile(f"{str(path)!r} could not be read as a journal: {error}") from error
    if version == 0:
        raise UnreadableFile(f"{str(path)!r} is an empty database, but must be a journal")


def _names(declared: Sequence[str], letter: str, width: int) -> tuple[str, ...]:
    """The names of the first columns, as far as the portfolio declares any; numbers for others."""
    return tuple(declared[j] if j < len(declared) else f"{letter}{j}" for j in range(width))


def _check_same_columns(wanted: Schema, written: Schema) -> None:
    """Raise an error if columns of the same name would have another meaning."""
    for side, now, before in (
        ("context", wanted.context, written.context),
        ("actions", wanted.actions, written.actions),
    ):
        for name, each in now.items():
            if name in before and not (each.extends(before[name]) or before[name].extends(each)):
                raise InvalidArgument(
                    f"schema has {name!r} of its {side} as {each}, but the log was written with {before[name]}"
                )


def _of_offers(width: int) -> str:
    return "ids" if width == BY_ID else str(width)


def _digest(id_: str) -> int:
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest()) | 1  # 0 stands for no id
