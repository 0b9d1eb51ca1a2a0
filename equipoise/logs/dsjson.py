"""Logs of Vowpal Wabbit and the Decision Service in JSON lines (dsjson): reading and writing.

An event has the logged cost (`_label_cost`, minus the reward), its probability, the action in three places that must
agree (`_label_Action` from 1, `_labelIndex` from 0, first entry of `a` from 1), the probabilities `p` in the order of
`a`, and the context `c` with the offered actions in `_multi`. Vowpal Wabbit itself misplaces the label silently if
`_labelIndex` is missing, drops the line without `a`, and takes -1 for a missing probability; here each is a fault.
An event with `_skipLearn` is left out and counted; with `pdrop` it stands for 1 / (1 - pdrop) events.

Lines are decoded into objects with exactly the fields that the log has had so far; a line that does not fit is decoded
again in the general form, which finds new features or says what is wrong.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from equipoise.logs.batches import Rounds
from equipoise.logs.features import Columns, Named, NamedFeatures, features_of
from equipoise.logs.rounds import NO_ID, Faults, LoggedRounds
from equipoise.logs.writing import open_atomic
from equipoise.types import Array

BATCH_LINES = 4_096
PROBABILITY_TOLERANCE = 1e-4
astuple = msgspec.structs.astuple


class Event(msgspec.Struct, gc=False):
    """The fields of an event besides its context; what may be missing has a default and is checked by `fault_of`."""

    _label_cost: float | None = None
    _label_probability: float | None = None
    _label_Action: int | None = None  # noqa: N815 - as in the file
    _labelIndex: int | None = None  # noqa: N815
    a: list[int] | None = None
    p: list[float] | None = None
    EventId: str | None = None
    Timestamp: str | None = None
    pdrop: float = 0.0
    _skipLearn: bool = False  # noqa: N815


class GeneralEvent(Event, gc=False):
    c: dict[str, Any] | None = None


class Parsed(NamedTuple):
    """One event with its features as rows of numbers."""

    row: int
    event: Any
    shared: bytes  # 64-bit floats
    offers: bytes  # of all offered actions, one after the other
    n_offered: int
    n_columns: tuple[int, int]  # of shared features and of features of an offer


class DsjsonSource(NamedFeatures):
    """A dsjson file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._general = msgspec.json.Decoder(GeneralEvent)
        self._exact: ExactDecoder | None = None

    def read(self, faults: Faults) -> Iterator[Rounds]:
        self.n_skipped = 0
        batch: list[Parsed] = []
        with self._path.open("rb") as file:
            for row, line in enumerate(file, 1):
                parsed = self._parse(row, line, faults)
                if parsed is None:
                    continue
                # While columns are still being found, a batch ends with the events that have the same ones.
                if len(batch) == BATCH_LINES or (batch and parsed.n_columns != batch[0].n_columns):
                    yield _to_rounds(batch)
                    batch = []
                batch.append(parsed)
        if batch:
            yield _to_rounds(batch)

    @property
    def _n_columns(self) -> tuple[int, int]:
        return len(self._shared.positions), len(self._own.positions)

    def _parse(self, row: int, line: bytes, faults: Faults) -> Parsed | None:
        exact = self._exact
        if exact is not None:
            try:
                event = exact.decoder.decode(line)
                shared, offers = exact.numbers(event.c)
            except (msgspec.MsgspecError, TypeError, struct.error):
                pass  # read again below
            else:
                n_offered = len(event.c._multi)
                if fault_of(event, n_offered) is None and not event._skipLearn:
                    event.c = None  # thousands of live lists would keep the garbage collector busy
                    return Parsed(row, event, shared, offers, n_offered, self._n_columns)
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
        if event._skipLearn:
            self.n_skipped += 1
            return None
        context = event.c if event.c is not None else {}
        multi = context.get("_multi", [])
        fault = fault_of(event, len(multi)) if isinstance(multi, list) else "c._multi is no list"
        if fault is None:
            try:
                shared, offers = features_of(context), [features_of(offer) for offer in multi]
            except (ValueError, AttributeError) as error:
                fault = str(error)
        if fault is not None:
            faults.add(row, fault)
            return None
        if self._shared.add(shared) | any([self._own.add(offer) for offer in offers]) or self._exact is None:
            self._exact = exact_decoder(self._shared.names, self._own.names, context, multi)
        own = array("d", chain.from_iterable(_row(offer, self._own) for offer in offers)).tobytes()
        return Parsed(row, event, array("d", _row(shared, self._shared)).tobytes(), own, len(multi), self._n_columns)


def _row(named: Named, columns: Columns) -> list[float]:
    return [named.get(name, 0.0) for name in columns.positions]


def fault_of(event: Any, n_offered: int) -> str | None:
    """The first rule that the event violates; None if it keeps all."""
    ranked, probabilities, action = event.a, event.p, event._label_Action
    if event._label_cost is None:
        return "_label_cost is missing, but every event must have its cost"
    if event._label_probability is None:
        return "_label_probability is missing, but every event must have its propensity"
    if not ranked or probabilities is None or len(ranked) != len(probabilities):
        return "a and p must both be there, with one probability for each action"
    if not n_offered:
        return "c._multi is missing or empty, but must have the offered actions"
    if action is None or event._labelIndex is None:
        return "_label_Action and _labelIndex must both be there"
    if not action == ranked[0] == event._labelIndex + 1:
        return (
            f"the label is on the wrong action: _label_Action {action}, a[0] {ranked[0]} and _labelIndex "
            f"{event._labelIndex} + 1 must be equal"
        )
    if sorted(ranked) != list(range(1, n_offered + 1)):
        return f"a is {ranked!r:.60}, but must have each of the {n_offered} offered actions once"
    logged = event._label_probability
    if not abs(probabilities[0] - logged) <= PROBABILITY_TOLERANCE * abs(logged):
        return f"_label_probability is {logged:g}, but must be p[0] = {probabilities[0]:g}"
    if not 0.0 <= event.pdrop < 1.0:
        return f"pdrop is {event.pdrop:g}, but must lie in [0, 1)"
    return None


class Namespace(NamedTuple):
    """A namespace of known size."""

    is_list: bool  # else an object
    pack: Callable[..., bytes]  # its numbers as 64-bit floats; raises struct.error if there are more or fewer


class ExactDecoder(NamedTuple):
    """Decodes events with known features, all of them numbers, in a known layout."""

    decoder: Any
    shared: tuple[Namespace, ...]
    own: tuple[Namespace, ...]

    def numbers(self, context: Any) -> tuple[bytes, bytes]:
        return _flat((context,), self.shared), _flat(context._multi, self.own)


def _flat(parts: Iterable[Any], layout: tuple[Namespace, ...]) -> bytes:
    """The numbers of objects, one after the other."""
    if len(layout) == 1:
        is_list, pack = layout[0]
        return b"".join([pack(*part.n0) if is_list else pack(*astuple(part.n0)) for part in parts])
    return b"".join(
        [
            pack(*values) if is_list else pack(*astuple(values))
            for part in parts
            for values, (is_list, pack) in zip(astuple(part), layout, strict=False)
        ]
    )


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
    own_type, own_layout = _part_type("Offer", groups[1], first)
    context_type = msgspec.defstruct(
        "Context",
        [("_multi", list[own_type])],  # type: ignore[valid-type]
        bases=(shared_type,),
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
        if isinstance(example.get(namespace), list):
            fields.append((f"n{g}", list[float]))
        else:
            own = {f"f{j}": feature for j, feature in enumerate(features)}
            kind = msgspec.defstruct(
                f"{name}{g}",
                [(field, float, 0.0) for field in own],
                rename=own,
                gc=False,
                forbid_unknown_fields=True,
            )
            fields.append((f"n{g}", kind))
        layout.append(Namespace(fields[-1][1] == list[float], struct.Struct(f"{len(features)}d").pack))
    fields += [(field, msgspec.Raw, msgspec.Raw(b"null")) for field in ignored]
    return msgspec.defstruct(name, fields, rename=rename, gc=False, forbid_unknown_fields=True), tuple(layout)


def _to_rounds(batch: list[Parsed]) -> Rounds:
    n, (_, width) = len(batch), batch[0].n_columns
    events = [parsed.event for parsed in batch]
    n_offered = np.array([parsed.n_offered for parsed in batch])
    n_actions, total = int(n_offered.max()), int(n_offered.sum())
    mask = np.arange(n_actions) < n_offered[:, None]
    own: Array = np.frombuffer(b"".join([parsed.offers for parsed in batch]), np.float64)
    if mask.all():
        offers = own.reshape(n, n_actions, width)
    else:
        offers = np.zeros((n, n_actions, width))
        offers[mask] = own.reshape(total, width)
    ranks = np.fromiter(chain.from_iterable(event.a for event in events), np.int64, total) - 1
    pmf = np.zeros((n, n_actions))
    pmf[np.repeat(np.arange(n), n_offered), ranks] = np.fromiter(
        chain.from_iterable(event.p for event in events), np.float64, total
    )
    return Rounds(
        np.array([parsed.row for parsed in batch]),
        np.frombuffer(b"".join([parsed.shared for parsed in batch]), np.float64).reshape(n, -1),
        offers,
        n_offered,
        np.array([event._labelIndex for event in events]),
        -np.array([event._label_cost for event in events], np.float64),
        np.array([event._label_probability for event in events], np.float64),
        pmf,
        1.0 / (1.0 - np.array([event.pdrop for event in events], np.float64)),
        _times([event.Timestamp for event in events]),
        np.array([NO_ID if event.EventId is None else hash(event.EventId) % 2**64 or 1 for event in events], np.uint64),
    )


def _times(stamps: list[str | None]) -> Array:
    """Seconds since 1970 of ISO dates; nan for what is none."""
    cut = ["NaT" if stamp is None else stamp[:26].rstrip("Z") for stamp in stamps]
    try:
        times = np.array(cut, "datetime64[us]")
    except ValueError:
        return np.full(len(stamps), np.nan)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def write_dsjson(log: LoggedRounds | Iterable[Rounds], path: str | Path) -> None:
    """Write rounds as dsjson, atomically. Without the probabilities of all actions, the others share the rest equally.

    Parameters
    ----------
    log
        Rounds to write, in order.
    path
        File to write.
    """
    encode = msgspec.json.Encoder().encode
    with open_atomic(path) as file:
        for batch in log:
            file.write(b"".join(encode(event) + b"\n" for event in _events(batch)))


def _events(batch: Rounds) -> Iterator[dict[str, Any]]:
    for i in range(batch.n_rounds):
        n, action, propensity = int(batch.n_offered[i]), int(batch.actions[i]), float(batch.propensities[i])
        pmf = batch.pmf[i, :n].tolist()
        if np.isnan(batch.pmf[i, 0]):
            pmf = [(1.0 - propensity) / max(n - 1, 1)] * n
            pmf[action] = propensity
        order = [action, *(k for k in range(n) if k != action)]
        offers = batch.offers[i, :n].tolist()
        event = {
            "_label_cost": -float(batch.rewards[i]),
            "_label_probability": propensity,
            "_label_Action": action + 1,
            "_labelIndex": action,
            "Timestamp": None if np.isnan(batch.times[i]) else _stamp(float(batch.times[i])),
            "EventId": f"{int(batch.ids[i]):016x}" if batch.ids[i] != NO_ID else f"row-{int(batch.rows[i])}",
            "a": [k + 1 for k in order],
            "p": [pmf[k] for k in order],
            "c": {"shared": batch.shared[i].tolist(), "_multi": [{"offer": row} for row in offers]},
            "pdrop": 1.0 - 1.0 / float(batch.weights[i]),
        }
        yield {key: value for key, value in event.items() if value is not None}


def _stamp(seconds: float) -> str:
    return f"{np.datetime64(round(seconds * 1e6), 'us')}Z"
