"""Logs of Vowpal Wabbit and the Decision Service in JSON lines (dsjson).

An event has the logged cost (`_label_cost`, minus the reward), its probability, the action in three places that must
agree (`_label_Action` from 1, `_labelIndex` from 0, first entry of `a` from 1), the probabilities `p` in the order of
`a`, and the context `c` with the offered actions in `_multi`. Vowpal Wabbit itself misplaces the label silently if
`_labelIndex` is missing, drops the line without `a`, and takes -1 for a missing probability; here each is a fault.
The ids of the offers are their `_tag`, if all have a different one.
An event with `_skipLearn` is left out and counted; with `pdrop` it stands for 1 / (1 - pdrop) events.

Lines are decoded into objects with exactly the fields that the log has had so far; a line that does not fit is decoded
again in the general form, which finds new features or says what is wrong.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from equipoise.errors import UnknownName
from equipoise.logs.features import Columns, Named, NamedFeatures, features_of, ids_of
from equipoise.logs.rounds import Faults, Rounds, objects
from equipoise.types import Array

BATCH_LINES = 4_096
READ_BYTES = 1 << 20  # at once: lines are long
PROBABILITY_TOLERANCE = 1e-4
astuple = msgspec.structs.astuple


NAMES = {
    **{"cost": "_label_cost", "probability": "_label_probability", "action": "_label_Action", "label": "_labelIndex"},
    **{"ranked": "a", "probabilities": "p", "id": "EventId", "stamp": "Timestamp", "skipped": "_skipLearn"},
}  # in the file


class Event(msgspec.Struct, gc=False, rename=NAMES):
    """The fields of an event besides its context; what may be missing has a default and is checked by `fault_of`."""

    cost: float | None = None
    probability: float | None = None
    action: int | None = None  # from 1
    label: int | None = None  # the same from 0
    ranked: list[int] | None = None  # actions from 1
    probabilities: list[float] | None = None  # of the ranked actions
    id: str | None = None
    stamp: str | None = None
    pdrop: float = 0.0
    skipped: bool = False


class GeneralEvent(Event, gc=False):
    c: dict[str, Any] | None = None


class Gathered:
    """Events of a batch, by column. No object of an event is kept: thousands keep the garbage collector busy."""

    def __init__(self, n_columns: tuple[int, int]) -> None:
        self.n_columns = n_columns  # of shared features and of features of an offer
        self.rows, self.n_offered, self.labels, self.ranked = array("q"), array("q"), array("q"), array("q")
        self.costs, self.propensities, self.probabilities, self.dropped = (array("d") for _ in range(4))
        self.shared, self.offers = array("d"), array("d")
        self.stamps: list[str | None] = []
        self.ids = array("Q")
        self.offer_ids: list[tuple[str, ...] | None] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: int, event: Any, shared: bytes, offers: bytes, tags: Sequence[Any]) -> None:
        """Add a checked event; its features are 64-bit floats, those of all offered actions one after the other."""
        self.offer_ids.append(ids_of(tags))
        self.rows.append(row)
        self.n_offered.append(len(event.ranked))
        self.labels.append(event.label)
        self.ranked.extend(event.ranked)
        self.costs.append(event.cost)
        self.propensities.append(event.probability)
        self.probabilities.extend(event.probabilities)
        self.dropped.append(event.pdrop)
        self.shared.frombytes(shared)
        self.offers.frombytes(offers)
        self.stamps.append(event.stamp)
        self.ids.append(0 if event.id is None else hash(event.id) % 2**64 or 1)

    def to_rounds(self) -> Rounds:
        n, (_, width) = len(self), self.n_columns
        n_offered = np.array(self.n_offered, np.int64)
        n_actions, total = int(n_offered.max()), int(n_offered.sum())
        mask = np.arange(n_actions) < n_offered[:, None]
        own: Array = np.array(self.offers, np.float64)
        if mask.all():
            offers = own.reshape(n, n_actions, width)
        else:
            offers = np.zeros((n, n_actions, width))
            offers[mask] = own.reshape(total, width)
        pmf = np.zeros((n, n_actions))
        pmf[np.repeat(np.arange(n), n_offered), np.array(self.ranked, np.int64) - 1] = self.probabilities
        return Rounds(
            np.array(self.rows, np.int64),
            np.array(self.shared, np.float64).reshape(n, -1),
            offers,
            n_offered,
            np.array(self.labels, np.int64),
            -np.array(self.costs, np.float64),
            np.array(self.propensities, np.float64),
            pmf,
            1.0 / (1.0 - np.array(self.dropped, np.float64)),
            _times(self.stamps),
            np.array(self.ids, np.uint64),
            objects(self.offer_ids) if any(self.offer_ids) else None,
        )


class Parsed(NamedTuple):
    """An event with its shared features, those of its offers, and the tags of its offers."""

    event: Any
    shared: bytes
    offers: bytes
    tags: Sequence[Any]


class DsjsonSource(NamedFeatures):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._general = msgspec.json.Decoder(GeneralEvent)
        self._exact: ExactDecoder | None = None

    def read(self, faults: Faults) -> Iterator[Rounds]:
        self.n_skipped = 0
        batch = Gathered(self._n_columns)
        with self._path.open("rb", READ_BYTES) as file:
            for row, line in enumerate(file, 1):
                parsed = self._parse(row, line, faults)
                if parsed is None:
                    continue
                # While columns are still being found, a batch ends with the events that have the same ones.
                if len(batch) == BATCH_LINES or batch.n_columns != self._n_columns:
                    if batch:
                        yield batch.to_rounds()
                    batch = Gathered(self._n_columns)
                batch.add(row, *parsed)
        if batch:
            yield batch.to_rounds()

    @property
    def _n_columns(self) -> tuple[int, int]:
        return len(self._shared.positions), len(self._own.positions)

    def _parse(self, row: int, line: bytes, faults: Faults) -> Parsed | None:
        """The event with its features; None if it does not count."""
        exact = self._exact
        if exact is not None:
            try:
                event = exact.decoder.decode(line)
                shared, offers = exact.numbers(event.c)
            except (msgspec.MsgspecError, TypeError):
                pass  # read again below
            else:
                if fault_of(event, len(event.c.multi)) is None and not event.skipped:
                    return Parsed(event, shared, offers, [offer.tag for offer in event.c.multi])
        return self._parse_any(row, line, faults)

    def _parse_any(self, row: int, line: bytes, faults: Faults) -> Parsed | None:
        if not line.strip():
            return None
        try:
            event = self._general.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            why = "numbers must be finite" if b"NaN" in line or b"Infinity" in line else str(error)
            faults.add(row, f"it is no dsjson event: {why}")
            return None
        if event.skipped:
            self.n_skipped += 1
            return None
        context = event.c if event.c is not None else {}
        multi = context.get("_multi", [])
        fault = fault_of(event, len(multi)) if isinstance(multi, list) else "_multi of c is not a list"
        if fault is None:
            try:
                return Parsed(event, *self._columns(context, multi), [offer.get("_tag") for offer in multi])
            except (ValueError, AttributeError, RecursionError, UnknownName) as error:
                fault = str(error)
        faults.add(row, fault)
        return None

    def _columns(self, context: dict[str, Any], multi: list[dict[str, Any]]) -> tuple[bytes, bytes]:
        """The shared features and those of all offers; finds new ones."""
        shared, offers = features_of(context), [features_of(offer) for offer in multi]
        if self._shared.add(shared) | any([self._own.add(offer) for offer in offers]) or self._exact is None:
            self._exact = exact_decoder(self._shared.names, self._own.names, context, multi)
        own = array("d", chain.from_iterable(_row(offer, self._own) for offer in offers)).tobytes()
        return array("d", _row(shared, self._shared)).tobytes(), own


def _row(named: Named, columns: Columns) -> list[float]:
    return [named.get(name, 0.0) for name in columns.positions]


def fault_of(event: Any, n_offered: int) -> str | None:
    """The first rule that the event violates; None if it keeps all."""
    ranked, probabilities, action = event.ranked, event.probabilities, event.action
    if event.cost is None:
        return "_label_cost is missing, but every event must have its cost"
    if event.probability is None:
        return "_label_probability is missing, but every event must have its propensity"
    if not ranked or probabilities is None or len(ranked) != len(probabilities):
        return "a and p must both be there, with one probability for each action"
    if not n_offered:
        return "_multi of c is missing or empty, but must have the offered actions"
    if action is None or event.label is None:
        return "_label_Action and _labelIndex must both be there"
    if not action == ranked[0] == event.label + 1:
        return (
            f"the label is on the wrong action: _label_Action {action}, a[0] {ranked[0]} and _labelIndex "
            f"{event.label} + 1 must be equal"
        )
    if sorted(ranked) != list(range(1, n_offered + 1)):
        return f"a is {ranked!r:.60}, but must have each of the {n_offered} offered actions once"
    logged = event.probability
    if not abs(probabilities[0] - logged) <= PROBABILITY_TOLERANCE * abs(logged):
        return f"_label_probability is {logged:g}, but must be p[0] = {probabilities[0]:g}"
    if not 0.0 <= event.pdrop < 1.0:
        return f"pdrop is {event.pdrop:g}, but must lie in [0, 1)"
    return None


class Namespace(NamedTuple):
    """A namespace of known size."""

    is_list: bool  # else an object
    width: int


class ExactDecoder(NamedTuple):
    """Decodes events with known features, all of them numbers, in a known layout."""

    decoder: Any
    shared: tuple[Namespace, ...]
    own: tuple[Namespace, ...]

    def numbers(self, context: Any) -> tuple[bytes, bytes]:
        return _flat((context,), self.shared), _flat(context.multi, self.own)


def _flat(parts: Sequence[Any], layout: tuple[Namespace, ...]) -> bytes:
    """The numbers of objects as 64-bit floats, one after the other."""
    if len(layout) == 1:
        is_list, width = layout[0]
        numbers = chain.from_iterable([part.n0 if is_list else astuple(part.n0) for part in parts])
        return _doubles(len(parts) * width)(*numbers)
    numbers = chain.from_iterable(
        [
            values if is_list else astuple(values)
            for part in parts
            for values, (is_list, _) in zip(astuple(part), layout, strict=False)
        ]
    )
    return _doubles(len(parts) * sum(width for _, width in layout))(*numbers)


@lru_cache(256)
def _doubles(n: int) -> Callable[..., bytes]:
    return struct.Struct(f"{n}d").pack


def exact_decoder(
    shared: Sequence[str], own: Sequence[str], context: dict[str, Any], multi: list[dict[str, Any]]
) -> ExactDecoder | None:
    """The decoder of these columns; None if a column is not a plain number of a namespace."""
    groups = [_namespaces(names) for names in (shared, own)]
    if groups[0] is None or groups[1] is None:
        return None
    shared_type, shared_layout = _part_type("Shared", groups[0], context)
    first: dict[str, Any] = {}
    for offer in multi:
        first |= offer
    own_type, own_layout = _part_type("Offer", groups[1], {"_tag": None, **first})
    context_type = msgspec.defstruct(
        "Context",
        [("multi", list[own_type])],  # type: ignore[valid-type]
        bases=(shared_type,),
        rename={"multi": "_multi"},
        gc=False,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    event_type = msgspec.defstruct("ExactEvent", [("c", context_type)], bases=(Event,), gc=False, kw_only=True)
    return ExactDecoder(msgspec.json.Decoder(event_type), shared_layout, own_layout)


def _namespaces(names: Sequence[str]) -> dict[str, list[str]] | None:
    """Features by namespace, in the order of the columns; None if this order is another or a feature is a string."""
    groups: dict[str, list[str]] = {}
    for name in names:
        namespace, _, feature = name.partition("^")
        if not namespace or "=" in feature or (namespace in groups and namespace != next(reversed(groups))):
            return None
        groups.setdefault(namespace, []).append(feature)
    return groups


def _part_type(name: str, groups: dict[str, list[str]], example: dict[str, Any]) -> tuple[Any, tuple[Namespace, ...]]:
    """The type of an object with these namespaces, each an object or a list as in the example.

    Empty namespaces of the example are included, and what is no feature (`_tag` and the like) is skipped.
    """
    fields: list[Any] = []
    layout = []
    ignored = {f"i{j}": key for j, key in enumerate(example) if key.startswith("_") and key != "_multi"}
    rename = dict(ignored)
    empty = [key for key, value in example.items() if value in ([], {}) and key not in groups]
    for g, (namespace, features) in enumerate({**groups, **{key: [] for key in empty}}.items()):
        rename[f"n{g}"] = namespace
        is_list = isinstance(example.get(namespace), list)
        if is_list:
            fields.append((f"n{g}", tuple[(float,) * len(features)]))  # type: ignore[misc]  # of this length
        else:
            own = {f"f{j}": feature for j, feature in enumerate(features)}
            kind = msgspec.defstruct(
                f"{name}{g}", [(field, float, 0.0) for field in own], rename=own, gc=False, forbid_unknown_fields=True
            )
            fields.append((f"n{g}", kind))
        layout.append(Namespace(is_list, len(features)))
    for field, key in ignored.items():
        if key == "_tag":
            rename["tag"] = rename.pop(field)
            fields.append(("tag", str | None, None))
        else:
            fields.append((field, msgspec.Raw, msgspec.Raw(b"null")))
    return msgspec.defstruct(name, fields, rename=rename, gc=False, forbid_unknown_fields=True), tuple(layout)


def _times(stamps: list[str | None]) -> Array:
    """Seconds since 1970 of ISO dates; nan for what is none."""
    cut = ["NaT" if stamp is None else stamp[:26].rstrip("Z") for stamp in stamps]
    try:
        times = np.array(cut, "datetime64[us]")
    except ValueError:
        return np.full(len(stamps), np.nan)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
