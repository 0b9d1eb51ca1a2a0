"""Named features of JSON and text logs as columns: one per feature, or per value of a feature that is a string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

from equipoise.errors import InvalidArgument

MAX_COLUMNS = 10_000
Named = dict[str, float]  # features that are not 0, by name: "namespace^feature" or "namespace^feature=value"


class Columns:
    """The columns of all features seen so far, in order of appearance."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.positions)

    def add(self, names: Mapping[str, float]) -> bool:
        """Whether any of the names is new."""
        before = len(self.positions)
        for name in names:
            self.positions.setdefault(name, len(self.positions))
        if len(self.positions) > MAX_COLUMNS:
            raise InvalidArgument(f"the log has more than {MAX_COLUMNS} different features: leave out ids and the like")
        return len(self.positions) > before


class NamedFeatures:
    """The part of a source whose features have names: the columns found so far, of the rounds and of the offers."""

    action_names: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.name, self._path = path.name, path
        self._shared, self._own = Columns(), Columns()
        self.n_skipped, self.floor = 0, nan

    @property
    def shared_names(self) -> tuple[str, ...]:
        return self._shared.names

    @property
    def offer_names(self) -> tuple[str, ...]:
        return self._own.names


def ids_of(tags: Sequence[object]) -> tuple[str, ...] | None:
    """The tags of offers as their ids; None unless all have a different one.

    >>> ids_of(["a", "b"]), ids_of(["a", "a"]), ids_of(["a", None])
    (('a', 'b'), None, None)
    """
    ids = tuple([tag for tag in tags if isinstance(tag, str) and tag])
    return ids if ids and len({*ids}) == len(tags) else None


def features_of(data: Mapping[str, Any]) -> Named:
    """The features of a JSON object in the convention of Vowpal Wabbit; raises ValueError with the rule if it has none.

    An entry is a namespace if its value is an object, a list of numbers or a list of objects, else a feature outside of
    any namespace. An object within a namespace is a namespace of its own. Names that begin with an underscore are not
    features.

    >>> features_of({"user": {"age": 3, "city": "Bern"}, "x": [0.5, 2], "bias": 1, "_tag": "a"})
    {'user^age': 3.0, 'user^city=Bern': 1.0, 'x^0': 0.5, 'x^1': 2.0, '^bias': 1.0}
    >>> features_of({"j": [{"price": 2}, {"seller": {"new": True}}]})  # as Azure Personalizer logs them
    {'j^price': 2.0, 'seller^new': 1.0}
    """
    found: Named = {}
    for namespace, value in data.items():
        if namespace.startswith("_"):
            continue
        if isinstance(value, Mapping | list):
            _add(found, namespace, value)
        else:
            _add(found, "", {namespace: value})
    return found


def _add(found: Named, namespace: str, value: Mapping[str, Any] | list[Any]) -> None:
    """Add the features of a namespace."""
    entries = value.items() if isinstance(value, Mapping) else ((str(j), entry) for j, entry in enumerate(value))
    for name, entry in entries:
        if isinstance(entry, str):
            found[f"{namespace}^{name}={entry}"] = 1.0
        elif isinstance(entry, bool | int | float):
            found[f"{namespace}^{name}"] = float(entry)
        elif isinstance(entry, Mapping):
            _add(found, name if isinstance(value, Mapping) else namespace, entry)
        elif isinstance(entry, list) and isinstance(value, Mapping):
            _add(found, name, entry)
        elif entry is not None:
            raise ValueError(f"feature {name!r} of {namespace!r} is {entry!r:.40}, but must be a number or a string")
