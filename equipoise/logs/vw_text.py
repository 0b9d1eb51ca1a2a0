"""Contextual-bandit logs in the text format of Vowpal Wabbit (cb_adf).

An event is a group of lines that ends with a blank line: optionally `shared |ns f:v ...`, then one line per offered
action, `action:cost:probability |ns f:v ...` for the chosen one and `|ns f:v ...` for the others. The reward is minus
the cost, and the position of the line is the action. Exactly one line of an event has a label. The ids of the offers
are their tags, if all have a different one: the last word before the bar, if it begins with ' or touches the bar.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from equipoise.logs.features import Named, NamedFeatures, ids_of
from equipoise.logs.rounds import NO_ID, Faults, Rounds, in_batches, objects

BATCH_EVENTS = 4_096


class Event(NamedTuple):
    row: int  # of its first line
    shared: Named
    offers: list[Named]
    action: int
    cost: float
    probability: float
    ids: tuple[str, ...] | None  # of the offers: their tags


class BadLineError(ValueError):
    def __init__(self, row: int, rule: str) -> None:
        super().__init__(rule)
        self.row = row


class TextSource(NamedFeatures):
    def read(self, faults: Faults) -> Iterator[Rounds]:
        yield from map(self._to_rounds, in_batches(self._events(faults), BATCH_EVENTS))

    def _events(self, faults: Faults) -> Iterator[Event]:
        for group in self._groups():
            try:
                event = parse_event(group)
            except BadLineError as bad:
                faults.add(bad.row, str(bad))
                continue
            self._shared.add(event.shared)
            for offer in event.offers:
                self._own.add(offer)
            yield event

    def _groups(self) -> Iterator[list[tuple[int, str]]]:
        group: list[tuple[int, str]] = []
        with self._path.open(encoding="utf-8", errors="replace") as file:
            for row, line in enumerate(file, 1):
                if line.strip():
                    group.append((row, line.rstrip("\r\n")))
                elif group:
                    yield group
                    group = []
        if group:
            yield group

    def _to_rounds(self, batch: list[Event]) -> Rounds:
        n, width = len(batch), len(self._own.positions)
        n_offered = np.array([len(event.offers) for event in batch])
        n_actions = int(n_offered.max())
        shared, offers = np.zeros((n, len(self._shared.positions))), np.zeros((n, n_actions, width))
        for i, event in enumerate(batch):
            for name, value in event.shared.items():
                shared[i, self._shared.positions[name]] = value
            for k, offer in enumerate(event.offers):
                for name, value in offer.items():
                    offers[i, k, self._own.positions[name]] = value
        return Rounds(
            np.array([event.row for event in batch]),
            shared,
            offers,
            n_offered,
            np.array([event.action for event in batch]),
            -np.array([event.cost for event in batch]),
            np.array([event.probability for event in batch]),
            np.full((n, n_actions), np.nan),
            np.ones(n),
            np.full(n, np.nan),
            np.full(n, NO_ID),
            objects([event.ids for event in batch]) if any(event.ids for event in batch) else None,
        )


def parse_event(group: list[tuple[int, str]]) -> Event:
    first_row, first = group[0]
    shared: Named = {}
    lines = group
    if first.split("|", 1)[0].split()[:1] == ["shared"]:
        shared, lines = parse_features(first_row, first), group[1:]
    if not lines:
        raise BadLineError(first_row, "the event has no line of an action, but must have at least one")
    offers = [parse_features(row, line) for row, line in lines]
    labels = []
    for action, (row, line) in enumerate(lines):
        label = line.split("|", 1)[0].split()
        if label[:1] == ["shared"]:
            raise BadLineError(row, "it is a shared line, but only the first line of an event may be one")
        if label and ":" in label[0]:
            labels.append((row, action, label[0]))
    if len(labels) != 1:
        row = labels[1][0] if labels else first_row
        raise BadLineError(row, f"the event has {len(labels)} labels, but must have one, action:cost:probability")
    row, action, label_text = labels[0]
    parts = label_text.split(":")
    try:
        _, cost, probability = int(parts[0]), float(parts[1]), float(parts[2])
    except (IndexError, ValueError):
        raise BadLineError(row, f"the label is {label_text!r:.40}, but must be action:cost:probability") from None
    return Event(first_row, shared, offers, action, cost, probability, ids_of([tag_of(line) for _, line in lines]))


def tag_of(line: str) -> str:
    """The tag of a line; empty if it has none.

    >>> tag_of("0:1:0.5 'red |x a"), tag_of("0:1:0.5 red|x a"), tag_of("0:1:0.5 |x a"), tag_of("|x a")
    ('red', 'red', '', '')
    """
    head = line.split("|", 1)[0]
    word = head.split()[-1:] or [""]
    marked = word[0].startswith("'") or (not head[-1:].isspace() and ":" not in word[0])
    return word[0].removeprefix("'") if marked else ""


def parse_features(row: int, line: str) -> Named:
    """The features of a line, by namespace.

    >>> parse_features(1, "0:1:0.5 |user age:3 city=Bern |x:2 a:0.5")
    {'user^age': 3.0, 'user^city=Bern': 1.0, 'x^a': 1.0}
    """
    _, bar, rest = line.partition("|")
    if not bar:
        raise BadLineError(row, f"it is {line!r:.40}, but must have features after a bar")
    found: Named = {}
    for part in rest.split("|"):
        named = not part[:1].isspace()
        words = part.split()
        namespace, scale = "", 1.0
        if named and words:
            namespace, scale = _value(row, words.pop(0))
        for word in words:
            name, value = _value(row, word)
            key = f"{namespace}^{name}"
            found[key] = found.get(key, 0.0) + scale * value
    return found


def _value(row: int, word: str) -> tuple[str, float]:
    """The name and the number after its colon; 1 if there is none."""
    name, colon, number = word.partition(":")
    try:
        return name, float(number) if colon else 1.0
    except ValueError:
        raise BadLineError(row, f"feature is {word!r:.40}, but must be a name or name:number") from None
