"""Types of features: what a value can be, which columns it has, and how it is written into them.

Every type is a small frozen value. `labels` names its columns, and `writer` returns the function that writes a value
into a row; a schema makes these functions once. A row begins as a blank in which every value is missing. Places of
hashed words follow from BLAKE2 and SHAKE, so they do not depend on versions of Python or NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from hashlib import blake2b, shake_256
from math import inf, isfinite, sqrt
from numbers import Real
from typing import Any, NoReturn, TypeAlias
from unicodedata import normalize

import numpy as np

from equipoise.errors import InvalidArgument, UnknownName, UnknownSetting
from equipoise.features.offers import as_numbers
from equipoise.settings import check_settings, equal_data, optional, setting, value
from equipoise.settings.checks import LARGEST, boolean, count, one_of, real, seed_number
from equipoise.types import Array, Config, Plain

MAX_COLUMNS = 4_096  # of one feature
WORDS = re.compile(r"\w+")
REMEMBERED = 1 << 14  # places of hashed words that are not computed again

Row: TypeAlias = list[float]  # the columns, more entries for the schema, and a last one that nobody reads
Writer: TypeAlias = Callable[[Row, Any], None]
Scale: TypeAlias = tuple[float, float]  # lowest and highest value of a number
NOWHERE = -1  # the last entry of a row


def n_columns_setting(doc: str, default: Any = MISSING) -> Any:
    check = optional(_check_size) if default is None else _check_size
    return setting(doc, check, default=default)


def _check_size(name: str, given: object) -> int:
    return count(name, given, maximum=MAX_COLUMNS)


def choice_setting(doc: str, *options: str) -> Any:
    return setting(doc, lambda name, given: one_of(name, given, options), default=options[0])


def missing_setting() -> Any:
    doc = (
        'A missing value (absent, None, nan): "column" for a column of its own, "zero" if all columns are 0, "refuse" '
        "if it is an error."
    )
    return choice_setting(doc, "column", "zero", "refuse")


class Feature:
    """Base of all types: one value of a context or of an offer."""

    missing: str

    def __repr__(self) -> str:  # dataclasses have their own
        return f"{type(self).__name__}()"

    @property
    def labels(self) -> tuple[str, ...]:
        """What follows the name of the feature in the names of its columns."""
        raise NotImplementedError  # abstract

    @property
    def norm_bound(self) -> float:
        """Upper bound on the norm of its columns; inf if there is none."""
        return 1.0

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        """Return the function that writes a value, which is not missing, into the columns at these places.

        `scale` is the learned range of a number.
        """
        raise NotImplementedError  # abstract

    def extends(self, before: Feature) -> bool:
        """Whether this is the feature `before`, perhaps with further columns."""
        return type(self) is type(before) and equal_data(to_table(self), to_table(before))

    @property
    def example(self) -> Any:
        """A value that is allowed."""
        raise NotImplementedError  # abstract

    def _with_missing(self, *labels: str) -> tuple[str, ...]:
        return (*labels, *((" missing",) if self.missing == "column" else ()))

    def _missing_place(self, places: Sequence[int]) -> int:
        return places[self.labels.index(" missing")] if self.missing == "column" else NOWHERE


def is_missing(given: Any) -> bool:
    """Whether a value stands for no value: None, nan, or a missing value of a data frame."""
    if given is None:
        return True
    if isinstance(given, float | np.floating):
        return bool(given != given)
    return type(given).__name__ in ("NAType", "NaTType")


def refuse(name: str, given: Any, rule: str) -> NoReturn:
    raise InvalidArgument(f"{name} is {given!r:.80}, but must be {rule}")


def as_number(name: str, given: Any) -> float:
    """Return a finite number; a boolean counts as 0 or 1."""
    if isinstance(given, bool | np.bool_):
        return float(given)
    if not isinstance(given, Real | np.number):
        refuse(name, given, "a number")
    try:
        number = float(given)
    except (OverflowError, TypeError):
        number = inf
    if not -LARGEST <= number <= LARGEST:
        refuse(name, given, f"a finite number of magnitude at most {LARGEST:g}")
    return number


@value
class Number(Feature):
    """A number, scaled so that its range becomes -1 to 1.

    Without `low` and `high`, a portfolio learns the range from the first values: two standard deviations to either side
    of their mean. Until then a value counts as missing. From then on the range is fixed, and values are clipped to it.
    """

    low: float | None = setting("Lowest value; goes with `high`.", optional(real), default=None)
    high: float | None = setting("Highest value; goes with `low`.", optional(real), default=None)
    outside: str = choice_setting(
        'A value outside of the range: "clip" if it counts as the nearer end, "refuse" if it is an error.',
        *("clip", "refuse"),
    )
    scaled: bool = setting("Whether to scale. False: the column has the value itself.", boolean, default=True)
    missing: str = missing_setting()

    def __post_init__(self) -> None:
        check_settings(self)
        low, high = self.low, self.high
        if low is None and high is None:
            if self.outside == "refuse":
                raise InvalidArgument("outside is 'refuse', but needs low and high to say what is outside")
        elif low is None or high is None:
            raise InvalidArgument(f"low is {low!r} and high is {high!r}, but must be given together")
        elif not high - low > 1e-9 * max(abs(low), abs(high), 1e-90):
            raise InvalidArgument(f"low is {low!r} and high is {high!r}, but low must be less than high")

    @property
    def labels(self) -> tuple[str, ...]:
        return self._with_missing("")

    @property
    def learns_scale(self) -> bool:
        return self.scaled and self.low is None

    @property
    def norm_bound(self) -> float:
        if self.scaled:
            return 1.0
        return inf if self.low is None or self.high is None else max(abs(self.low), abs(self.high), 1.0)

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        place, missing, clips = places[0], self._missing_place(places), self.outside == "clip"
        low, high = (self.low, self.high) if scale is None else scale
        if low is None or high is None:
            low, high = -inf, inf
        middle, half = ((low + high) / 2.0, (high - low) / 2.0) if self.scaled and isfinite(high) else (0.0, 1.0)

        def write(row: Row, given: Any) -> None:
            number = given if type(given) is float else as_number(name, given)
            if not -LARGEST <= number <= LARGEST:
                refuse(name, given, f"a finite number of magnitude at most {LARGEST:g}")
            if not low <= number <= high:
                if not clips:
                    refuse(name, given, f"from {low:g} to {high:g}")
                number = low if number < low else high
            row[place] = (number - middle) / half
            row[missing] = 0.0

        return write

    @property
    def example(self) -> float:
        if self.low is None or self.high is None:
            return 0.1
        return (self.low + self.high) / 2.0


@value
class Flag(Feature):
    """True or false; 1 and 0 count as such."""

    missing: str = missing_setting()

    @property
    def labels(self) -> tuple[str, ...]:
        return self._with_missing("")

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        place, missing = places[0], self._missing_place(places)

        def write(row: Row, given: Any) -> None:
            if given is not True and given is not False:
                if not isinstance(given, Real | np.bool_ | np.number) or given not in (0, 1):
                    refuse(name, given, "true or false")
                given = bool(given)
            row[place] = 1.0 if given else 0.0
            row[missing] = 0.0

        return write

    @property
    def example(self) -> bool:
        return True


def category_text(name: str, given: Any) -> str:
    """Return the value of a category as text: whole numbers and truth values have one."""
    if isinstance(given, str):
        return str(given)
    if isinstance(given, bool | np.bool_):
        return "true" if given else "false"
    if isinstance(given, Real | np.number):
        number = as_number(name, given)
        if number.is_integer():
            return str(int(number))
    refuse(name, given, "a text, a whole number or a truth value")


def _check_values(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        refuse(name, values, "a list of values")
    checked = tuple(category_text(f"{name}[{k}]", each) for k, each in enumerate(values))
    count(f"number of entries of {name}", len(checked), maximum=MAX_COLUMNS)
    if len(set(checked)) < len(checked):
        twice = next(each for k, each in enumerate(checked) if each in checked[:k])
        raise InvalidArgument(f"{name} has {twice!r} twice, but entries must differ")
    return checked


@value
class Category(Feature):
    """One of several values: texts, whole numbers or truth values.

    A value of the list has a column of its own. Any other value has the column `unknown`, or is hashed into `hashed`
    columns, or is refused. Without a list, all values are hashed, by default into 32 columns.
    """

    values: Sequence[Any] | None = setting(
        "The values that have a column of their own; more can be added at the end. Default: none.",
        optional(_check_values),
        default=None,
    )
    hashed: int | None = n_columns_setting(
        "Number of columns for hashed values. Default: none with a list of values, 32 without.", default=None
    )
    outside: str = choice_setting(
        'A value that is not in the list: "unknown" if it has the column for unknown values, "refuse" if it is an '
        "error. Does not matter where values are hashed.",
        *("unknown", "refuse"),
    )
    missing: str = missing_setting()

    def __post_init__(self) -> None:
        check_settings(self)
        if self.values is None and self.hashed is None:
            object.__setattr__(self, "hashed", 32)

    @property
    def labels(self) -> tuple[str, ...]:
        own = tuple(f"={each}" for each in self.values or ())
        if self.hashed is not None:
            return self._with_missing(*own, *(f" hashed {k}" for k in range(self.hashed)))
        return self._with_missing(*own, *((" unknown",) if self.outside == "unknown" else ()))

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        known = dict(zip(self.values or (), places, strict=False))
        n_known, hashed, missing = len(known), self.hashed, self._missing_place(places)
        unknown = places[n_known] if hashed is None and self.outside == "unknown" else NOWHERE

        def write(row: Row, given: Any) -> None:
            text = given if type(given) is str else category_text(name, given)
            place = known.get(text)
            if place is None:
                if hashed is not None:
                    place = places[n_known + place_of(text, hashed)[0]]
                elif unknown != NOWHERE:
                    place = unknown
                else:
                    refuse(name, given, f"one of {', '.join(known)}")
            row[place] = 1.0
            row[missing] = 0.0

        return write

    def extends(self, before: Feature) -> bool:
        if not isinstance(before, Category) or self.values is None or before.values is None:
            return super().extends(before)
        n = len(before.values)
        others = ({**to_table(each), "values": None} for each in (self, before))
        return tuple(self.values[:n]) == tuple(before.values) and equal_data(*others)

    @property
    def example(self) -> str:
        return "a" if not self.values else str(self.values[0])


@value
class Text(Feature):
    """Words, hashed into columns; the columns of a text have norm 1.

    Words are runs of letters and digits, without regard to case. A list of texts is also a text. One without words is
    not missing, but has no column. A missing text counts as one without words.
    """

    hashed: int = n_columns_setting("Number of columns.", default=64)
    missing: str = choice_setting(
        'A missing text: "zero" if it has no words, "refuse" if it is an error.', "zero", "refuse"
    )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f" word {k}" for k in range(self.hashed))

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        hashed = self.hashed

        def write(row: Row, given: Any) -> None:
            if not isinstance(given, str):
                if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
                    refuse(name, given, "a text or a list of texts")
                given = " ".join(given)
            sums: dict[int, float] = {}
            for word in WORDS.findall(normalize("NFKC", given).casefold()):
                k, sign = place_of(word, hashed)
                sums[k] = sums.get(k, 0.0) + sign
            norm = sqrt(sum(each * each for each in sums.values()))
            if norm > 0.0:
                for k, each in sums.items():
                    row[places[k]] = each / norm

        return write

    @property
    def example(self) -> str:
        return "some words"


@value
class Vector(Feature):
    """An embedding: a list of numbers, scaled down to norm 1 if it is longer.

    With `projection`, a matrix of random signs, which follows from `seed` alone, first makes fewer columns of it
    (Achlioptas 2003, "Database-friendly random projections").
    """

    dim: int = setting("Number of entries.", lambda name, given: count(name, given, maximum=1 << 16))
    projection: int | None = n_columns_setting("Number of columns. Default: one for each entry.", default=None)
    seed: int = setting("Seed of the projection.", seed_number, default=0)
    missing: str = missing_setting()

    def __post_init__(self) -> None:
        check_settings(self)
        _check_size("projection" if self.projection else "dim without projection", self.projection or self.dim)

    @property
    def labels(self) -> tuple[str, ...]:
        return self._with_missing(*(f" {k}" for k in range(self.projection or self.dim)))

    def writer(self, name: str, places: Sequence[int], scale: Scale | None) -> Writer:
        dim, missing = self.dim, self._missing_place(places)
        n = self.projection or dim
        start, end = places[0], places[0] + n  # columns of a vector are never added later
        matrix = None if self.projection is None else signs(dim, n, self.seed) / sqrt(n)

        def write(row: Row, given: Any) -> None:
            vector = as_numbers(given, name, f"a list of {dim} numbers")
            if vector.shape != (dim,):
                raise InvalidArgument(f"{name} has shape {vector.shape}, but must be a list of {dim} numbers")
            largest = float(np.abs(vector).max())
            if not largest <= LARGEST:
                raise InvalidArgument(f"{name} has an entry {largest!r}, but entries must be finite numbers")
            if matrix is not None:
                vector = vector @ matrix
            norm = float(np.sqrt(np.vdot(vector, vector)))
            row[start:end] = (vector / norm if norm > 1.0 else vector).tolist()
            row[missing] = 0.0

        return write

    @property
    def example(self) -> list[float]:
        return [0.0] * self.dim


@lru_cache(REMEMBERED)
def place_of(word: str, n: int) -> tuple[int, float]:
    """Return the column of a hashed word among n, and the sign of its entry (Weinberger et al. 2009)."""
    digest = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")
    return (digest >> 1) % n, 1.0 if digest & 1 else -1.0


@cache
def signs(n_rows: int, n_columns: int, seed: int) -> Array:
    """Return a matrix of random signs; the same for the same arguments, always."""
    bits = shake_256(f"equipoise {seed} {n_rows} {n_columns}".encode()).digest((n_rows * n_columns + 7) // 8)
    ones = np.unpackbits(np.frombuffer(bits, np.uint8), count=n_rows * n_columns)
    return np.asarray(ones.reshape(n_rows, n_columns), np.float64) * 2.0 - 1.0


TYPES: dict[str, type[Any]] = {"number": Number, "category": Category, "flag": Flag, "text": Text, "vector": Vector}


def to_table(feature: Feature) -> Config:
    """Return a feature as the table of a file."""
    kind = next(name for name, each in TYPES.items() if each is type(feature))
    own = {each.name: getattr(feature, each.name) for each in fields(feature)}  # type: ignore[arg-type]  # a dataclass
    return {"type": kind, **{name: list(each) if isinstance(each, tuple) else each for name, each in own.items()}}


def from_table(name: str, table: Mapping[str, Plain]) -> Feature:
    """Return the feature of a table such as {"type": "number", "low": 0, "high": 99}."""
    kind, settings = table.get("type"), {key: each for key, each in table.items() if key != "type"}
    if kind not in TYPES:
        raise UnknownName(f"type of {name}", str(kind), TYPES)
    known = [each.name for each in fields(TYPES[kind])]
    for key in settings:
        if key not in known:
            raise UnknownSetting(f"setting of {name}", str(key), known)
    try:
        made: Feature = TYPES[kind](**settings)
    except TypeError:
        raise InvalidArgument(f"{name} is {dict(table)!r:.80}, but a vector must have dim") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    return made
