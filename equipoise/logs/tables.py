"""CSV and Parquet logs, one row per round: reading, and writing of Parquet that need not fit into memory.

| column | meaning |
|---|---|
| `action`, `reward`, `propensity` | required; actions are numbers from 0, or names |
| `id`, `time`, `weight` | optional; time is a date or seconds since 1970 |
| `pmf.K` | optional: probability of action K |
| `offers.K.NAME` | optional: feature NAME of offered action K; empty where fewer actions were offered |
| `offers.K.id` | optional, beside features: the id of offered action K, a string |
| any other | feature of the round; a column of strings becomes one indicator per value |

The files of the Open Bandit data set are recognized by their columns.

Reference: Saito, Aihara, Matsutani and Narita (2021), "Open Bandit Dataset and Pipeline", section 3 (columns).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.logs.features import ids_of
from equipoise.logs.rounds import BATCH_CELLS, NO_ID, Faults, LoggedRounds, Rounds, objects, take
from equipoise.storage.files import replacing
from equipoise.types import Array

BLOCK_BYTES = 1 << 24  # of a CSV file that is parsed at once
MAX_VALUES = 1_000  # different strings in a column
MIN_NUMBERS = 0.9  # share of numbers in the first block from which on a CSV column is numeric
ROW = "\x00row"  # a column of the row numbers, which no file has
REQUIRED = ("action", "reward", "propensity")
OPTIONAL = ("id", "time", "weight")
OPEN_BANDIT = {"item_id": "action", "click": "reward", "propensity_score": "propensity", "timestamp": "time"}
Frames = Callable[[Faults], Iterator[tuple[int, pl.DataFrame]]]  # with the row of the first line of each


class TableSource:
    def __init__(self, name: str, frames: Frames) -> None:
        self.name, self._frames = name, frames
        self.n_skipped, self.floor = 0, np.nan
        self._values: dict[str, dict[str, int]] = {}  # the values of columns of strings, by order of appearance
        self._columns: tuple[str, ...] = ()
        self.offer_names: tuple[str, ...] = ()

    @property
    def shared_names(self) -> tuple[str, ...]:
        return tuple(name for column in self._columns for name in self._indicators(column))

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(self._values.get("action", ()))

    def _indicators(self, column: str) -> list[str]:
        return [f"{column}={value}" for value in self._values[column]] if column in self._values else [column]

    def read(self, faults: Faults) -> Iterator[Rounds]:
        for first_row, frame in self._frames(faults):
            yield self._to_rounds(first_row, _with_our_names(frame), faults)

    def _to_rounds(self, first_row: int, frame: pl.DataFrame, faults: Faults) -> Rounds:
        for column in REQUIRED:
            if column not in frame.columns:
                given = [name for name in frame.columns if name != ROW]
                raise InvalidArgument(f"{self.name} has columns {given!r:.200}, but must have {column!r}")
        n = frame.height
        rows = _column(frame, ROW).astype(np.int64) if ROW in frame.columns else np.arange(first_row, first_row + n)
        pmf_columns = _numbered(frame.columns, r"pmf\.(\d+)")
        offers, n_offered = self._offers(frame.drop(_id_columns(frame)), rows, faults)
        special = {*REQUIRED, *OPTIONAL, ROW, *pmf_columns}
        self._columns = tuple(c for c in frame.columns if c not in special and not c.startswith("offers."))
        bad = np.zeros(n, np.bool_)
        actions = self._actions(frame, rows, bad, faults)
        rewards = self._numbers(frame, "reward", rows, bad, faults)
        propensities = _column(frame, "propensity")
        n_actions = max(offers.shape[1], len(pmf_columns), int(actions.max(initial=-1)) + 1, len(self.action_names))
        if not offers.shape[2]:
            offers, n_offered = np.empty((n, n_actions, 0)), np.full(n, n_actions)
        pmf = np.full((n, n_actions), np.nan)
        for k, column in enumerate(pmf_columns):
            pmf[:, k] = _column(frame, column)
        shared = [self._shared(frame, column, rows, bad, faults) for column in self._columns]
        joined = np.concatenate(shared, axis=1) if shared else np.empty((n, 0))
        weights = self._numbers(frame, "weight", rows, bad, faults) if "weight" in frame.columns else np.ones(n)
        about = _times(frame), _ids(frame), _offer_ids(frame, n_offered) if offers.shape[2] else None
        logged = actions, rewards, propensities, pmf, weights, *about
        return take(Rounds(rows, joined, offers, n_offered, *logged), ~bad)

    def _actions(self, frame: pl.DataFrame, rows: Any, bad: Any, faults: Faults) -> Any:
        if frame.schema["action"] == pl.String:
            return self._codes(frame, "action", rows, bad, faults)
        numbers = self._numbers(frame, "action", rows, bad, faults)
        for i in np.flatnonzero(~bad & (numbers != np.floor(numbers))):
            bad[i] = True
            faults.add(int(rows[i]), f"action is {numbers[i]:g}, but must be a whole number")
        return np.where(bad, 0, numbers).astype(np.int64)

    def _numbers(self, frame: pl.DataFrame, column: str, rows: Any, bad: Any, faults: Faults) -> Array:
        """The numbers of a column; rows without one are faulty."""
        numbers = _column(frame, column)
        if frame[column].dtype == pl.String or frame[column].null_count() or np.isnan(numbers).any():
            for i in np.flatnonzero(np.isnan(numbers) & ~bad):
                bad[i] = True
                faults.add(int(rows[i]), f"{column} is {frame[column][int(i)]!r:.40}, but must be a finite number")
        return numbers

    def _shared(self, frame: pl.DataFrame, column: str, rows: Any, bad: Any, faults: Faults) -> Array:
        if frame.schema[column] != pl.String:
            return self._numbers(frame, column, rows, bad, faults)[:, None]
        codes = self._codes(frame, column, rows, bad, faults)
        indicators: Array = np.equal(codes[:, None], np.arange(len(self._values[column]))).astype(np.float64)
        return indicators

    def _codes(self, frame: pl.DataFrame, column: str, rows: Any, bad: Any, faults: Faults) -> Any:
        """The positions of strings among all values of the column so far."""
        values = self._values.setdefault(column, {})
        for value in frame[column].unique(maintain_order=True).drop_nulls():
            values.setdefault(value, len(values))
        if len(values) > MAX_VALUES:
            raise InvalidArgument(
                f"{self.name} has more than {MAX_VALUES} different strings in column {column!r}: drop the column"
            )
        codes = frame[column].replace_strict(values, default=-1, return_dtype=pl.Int64).to_numpy()
        for i in np.flatnonzero((codes < 0) & ~bad):
            bad[i] = True
            faults.add(int(rows[i]), f"{column} is missing, but every row must have one")
        return codes

    def _offers(self, frame: pl.DataFrame, rows: Any, faults: Faults) -> tuple[Array, Any]:
        """Features of the offered actions, and how many were offered: those before the first without any feature."""
        columns = [name for name in frame.columns if name.startswith("offers.")]
        if not columns:
            return np.empty((frame.height, 0, 0)), np.zeros(frame.height, np.int64)
        features = dict.fromkeys(name.split(".", 2)[-1] for name in columns)
        n_actions = 1 + max(_offer_number(name) for name in columns)
        expected = [f"offers.{k}.{feature}" for k in range(n_actions) for feature in features]
        if sorted(expected) != sorted(columns):
            lacking = sorted(set(expected) - set(columns)) or sorted(set(columns) - set(expected))
            raise InvalidArgument(f"{self.name} lacks the column {lacking[0]!r}, but every action must have it")
        self.offer_names = tuple(features)
        block = frame.select(expected)
        if block.dtypes != [pl.Float64] * len(expected):
            block = block.cast(pl.Float64)
        values: Array = block.to_numpy().reshape(frame.height, n_actions, len(features))
        if not any(column.null_count() for column in block):
            return values, np.full(frame.height, n_actions)
        absent = np.all(np.isnan(values), axis=2)
        n_offered = np.where(np.any(absent, axis=1), np.argmax(absent, axis=1), n_actions)
        values = np.where((np.arange(n_actions) < n_offered[:, None])[:, :, None], values, 0.0)
        return values, n_offered


def _id_columns(frame: pl.DataFrame) -> list[str]:
    columns = _numbered(frame.columns, r"offers\.(\d+)\.id")
    return [column for column in columns if frame.schema[column] == pl.String]


def _offer_ids(frame: pl.DataFrame, n_offered: Any) -> NDArray[np.object_] | None:
    columns = _id_columns(frame)
    if not columns:
        return None
    return objects([ids_of(row[:n]) for row, n in zip(frame.select(columns).iter_rows(), n_offered, strict=True)])


def _offer_number(column: str) -> int:
    match = re.fullmatch(r"offers\.(\d+)\..+", column)
    if match is None:
        raise InvalidArgument(f"column is {column!r}, but must have the form offers.NUMBER.FEATURE")
    return int(match[1])


def _numbered(columns: list[str], pattern: str) -> list[str]:
    """The columns that match, in the order of their number."""
    found = {int(match[1]): column for column in columns if (match := re.fullmatch(pattern, column))}
    return [found[k] for k in sorted(found)]


def _column(frame: pl.DataFrame, column: str) -> Array:
    values: Array = frame[column].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return values


def _ids(frame: pl.DataFrame) -> NDArray[np.uint64]:
    """Digests of the ids; 0 where there is none."""
    if "id" not in frame.columns:
        return np.full(frame.height, NO_ID)
    ids = frame["id"]
    return np.where(ids.is_null().to_numpy(), NO_ID, ids.cast(pl.String).hash().to_numpy())


def _times(frame: pl.DataFrame) -> Array:
    if "time" not in frame.columns:
        return np.full(frame.height, np.nan)
    times = frame["time"]
    if times.dtype == pl.String:
        plain = times.str.replace("T", " ").str.replace("Z$", "")
        in_utc = plain.str.replace(r"^([^+]*\d\d:\d\d:\d\d(?:\.\d+)?)$", "${1}+00:00")
        parts = in_utc.str.replace(r"(\.\d{6})\d+", "${1}")  # microseconds
        times = parts.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", strict=False)
    if times.dtype.is_temporal():
        times = times.dt.epoch("us").cast(pl.Float64) / 1e6
    seconds: Array = times.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return seconds


def _with_our_names(frame: pl.DataFrame) -> pl.DataFrame:
    """An Open Bandit table under the names of this module; any other as it is."""
    if not set(OPEN_BANDIT) <= set(frame.columns):
        return frame
    frame = frame.drop([name for name in ("", "column_1", "_duplicated_0") if name in frame.columns])
    affinities = _numbered(frame.columns, r"user-item_affinity_(\d+)")
    names = {**OPEN_BANDIT, **{name: f"offers.{k}.affinity" for k, name in enumerate(affinities)}}
    return frame.rename(names).with_columns(pl.col("position").cast(pl.Int64).cast(pl.String))


def parquet_source(path: Path) -> TableSource:
    try:
        schema = pl.read_parquet_schema(path)
        n_rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFile(f"{str(path)!r} is no complete Parquet file: {error!s:.200}") from None
    size = max(BATCH_CELLS // len(schema), 1)

    def frames(faults: Faults) -> Iterator[tuple[int, pl.DataFrame]]:
        lazy = pl.scan_parquet(path)
        for first in range(0, n_rows, size):
            yield first + 1, lazy.slice(first, size).collect()

    return TableSource(path.name, frames)


def csv_source(path: Path) -> TableSource:
    """A CSV file with a header, separated by commas."""
    kinds: dict[str, Any] = {}

    def frames(faults: Faults) -> Iterator[tuple[int, pl.DataFrame]]:
        with path.open("rb") as file:
            columns = _header(path.name, file.readline())
            row, rest = 2, b""
            while block := file.read(BLOCK_BYTES):
                whole, newline, rest = (rest + block).rpartition(b"\n")
                if newline:
                    yield row, _typed(_parse(columns, whole + newline, row, faults), kinds)
                    row += whole.count(b"\n") + 1
            if rest.strip():
                yield row, _typed(_parse(columns, rest + b"\n", row, faults), kinds)

    return TableSource(path.name, frames)


def _header(name: str, line: bytes) -> list[str]:
    try:
        columns = next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]))
    except UnicodeDecodeError:
        raise InvalidArgument(f"{name} begins with {line!r:.40}, but the header of a CSV file must be text") from None
    repeated = next((column for k, column in enumerate(columns) if column in columns[:k]), None)
    if repeated is not None:
        raise InvalidArgument(f"{name} has the column {repeated!r} twice, but names of columns must differ")
    return columns


def _parse(columns: list[str], block: bytes, first_row: int, faults: Faults) -> pl.DataFrame:
    """The lines of a block as strings, each with its row; lines with another number of fields are faulty."""
    rows: list[int] = []
    lines: list[bytes] = []
    for row, line in enumerate(block.split(b"\n")[:-1], first_row):
        n_fields = line.count(b",") + 1
        if n_fields != len(columns) and b'"' in line:
            n_fields = len(next(csv.reader([line.decode("utf-8", "replace")])))
        if n_fields != len(columns):
            faults.add(row, f"it has {n_fields} fields, but must have the {len(columns)} of the header")
            continue
        rows.append(row)
        lines.append(line)
    schema = {name or "column_1": pl.String for name in columns}
    frame = pl.DataFrame(schema=schema)
    if lines:
        text = b"\n".join(lines) + b"\n"
        frame = pl.read_csv(text, has_header=False, new_columns=list(schema), infer_schema=False, encoding="utf8-lossy")
    return frame.with_columns(pl.Series(ROW, rows, pl.Int64))


def _typed(frame: pl.DataFrame, kinds: dict[str, Any]) -> pl.DataFrame:
    """Columns of numbers as numbers; what a column holds is decided by its first block."""
    for column in frame.columns:
        if column not in kinds and column not in (ROW, "id", "time"):
            n_filled = frame.height - frame[column].null_count()
            numbers = frame[column].cast(pl.Float64, strict=False)
            n_numbers = frame.height - numbers.null_count()
            numeric = column in ("reward", "propensity", "weight") or n_numbers >= MIN_NUMBERS * n_filled
            kinds[column] = pl.Float64 if numeric else pl.String
    numbers_in = [column for column, kind in kinds.items() if kind == pl.Float64 and column in frame.columns]
    return frame.with_columns(pl.col(name).str.strip_chars().cast(pl.Float64, strict=False) for name in numbers_in)


def write_parquet(log: LoggedRounds | Iterable[Rounds], path: str | Path) -> None:
    """Write rounds as Parquet with the columns of the module docstring, atomically and batch by batch."""
    frames = (_frame(batch) for batch in log)
    first = next(frames, None)
    if first is None:
        raise InvalidArgument("log has no rounds, but must have at least one")
    schema = first.schema

    def produce(*request: object) -> Iterator[pl.DataFrame]:
        for frame in chain([first], frames):
            if frame.schema != schema:
                raise InvalidArgument("log has batches with different columns, but all must have the same")
            yield frame

    with replacing(path) as temporary:
        # Groups of the size that is read at once: a reader must decode whole groups.
        size = max(BATCH_CELLS // len(schema), 1)
        register_io_source(produce, schema=schema).sink_parquet(temporary, maintain_order=True, row_group_size=size)


def _frame(batch: Rounds) -> pl.DataFrame:
    """The columns of a batch; times and ids are empty where unknown."""
    columns: dict[str, Any] = {"action": batch.actions, "reward": batch.rewards, "propensity": batch.propensities}
    columns |= {"weight": batch.weights, "time": batch.times}
    if not np.isnan(batch.pmf).all():
        columns |= {f"pmf.{k}": batch.pmf[:, k] for k in range(batch.pmf.shape[1])}
    columns |= {f"x{j}": batch.shared[:, j] for j in range(batch.shared.shape[1])}
    offered = np.arange(batch.offers.shape[1]) < batch.n_offered[:, None]
    offers = np.where(offered[:, :, None], batch.offers, np.nan)
    for k in range(offers.shape[1]):
        columns |= {f"offers.{k}.a{j}": offers[:, k, j] for j in range(offers.shape[2])}
    if batch.offer_ids is not None:
        ids_of_offers = [ids or () for ids in batch.offer_ids]
        for k in range(offers.shape[1] if offers.shape[2] else 0):
            own = [ids[k] if k < len(ids) else None for ids in ids_of_offers]
            columns |= {f"offers.{k}.id": pl.Series(own, dtype=pl.String)}
    ids = pl.Series("id", batch.ids).replace(int(NO_ID), None)
    return pl.DataFrame(columns).fill_nan(None).with_columns(ids)
