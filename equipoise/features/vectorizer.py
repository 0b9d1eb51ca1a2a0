"""Named features: dictionaries of numbers as rows of a matrix, by a fixed vocabulary or by hashing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features.maps import MAX_DIM, Columns
from equipoise.features.offers import check_ids
from equipoise.settings.checks import count, measured
from equipoise.types import Array


class Vectorizer:
    """Turns dictionaries of named numbers into vectors.

    With a vocabulary every name has its own column, a name that is missing counts as 0 and an unknown one is an error.
    With hashing any name is accepted: its column and sign depend on the name alone, and names that share a column are
    added up (Weinberger et al. 2009, "Feature hashing for large scale multitask learning").

    Parameters
    ----------
    names
        The vocabulary: the names of the features, in the order of the columns.
    hashed
        Number of columns for hashed names; give either this or `names`.

    Examples
    --------
    >>> prices = Vectorizer(["price", "rating"])
    >>> prices.matrix([{"price": 0.5}, {"rating": 1.0, "price": 0.25}]).tolist()
    [[0.5, 0.0], [0.25, 1.0]]
    >>> prices.columns("rating")
    Columns(columns=(1,))
    """

    def __init__(self, names: Iterable[str] | None = None, *, hashed: int | None = None) -> None:
        if (names is None) == (hashed is None):
            raise InvalidArgument(f"names is {names!r:.80} and hashed is {hashed!r}, but exactly one must be given")
        self.names = None if names is None else check_ids(names, "names")
        self.dim = len(self.names) if self.names is not None else count("hashed", hashed, maximum=MAX_DIM)
        self._columns = {name: (k, 1.0) for k, name in enumerate(self.names or ())}

    def vector(self, features: Mapping[str, float]) -> Array:
        """The features of one action, or those that all actions share, as a vector."""
        if not isinstance(features, Mapping):
            raise InvalidArgument(f"features is {features!r:.80}, but must be a dict of names and numbers")
        row = np.zeros(self.dim)
        for name, value in features.items():
            column, sign = self._place(name)
            row[column] += sign * measured(f"feature {name!r}", value)
        return row

    def matrix(self, rows: Sequence[Mapping[str, float]]) -> Array:
        """The features of several actions, one row each."""
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise InvalidArgument(f"rows is {rows!r:.80}, but must be a list of dicts, one for each action")
        return np.array([self.vector(row) for row in rows]).reshape(-1, self.dim)

    def columns(self, *names: str) -> Columns:
        """The columns of these names as a feature map; hashed names may share one."""
        return Columns(list(dict.fromkeys(self._place(name)[0] for name in names)))

    def __repr__(self) -> str:
        return f"Vectorizer({list(self.names)})" if self.names is not None else f"Vectorizer(hashed={self.dim})"

    def _place(self, name: str) -> tuple[int, float]:
        """The column of a name, and the sign of its values there."""
        if self.names is not None:
            if name not in self._columns:
                raise UnknownName("feature", str(name), self.names)
            return self._columns[name]
        if not isinstance(name, str):
            raise InvalidArgument(f"feature name is {name!r:.80}, but must be a string")
        digest = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
        return (digest >> 1) % self.dim, 1.0 if digest & 1 else -1.0
