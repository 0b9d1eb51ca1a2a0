"""Results of an experiment: what one seed gives, and what a finished run folder holds.

Regret is cumulative pseudo-regret, the expected reward lost against the optimum, recorded at log-spaced rounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from equipoise.certificates.fields import Fields, Record
from equipoise.certificates.records import table_fields
from equipoise.errors import InvalidArgument, UnreadableFile, require
from equipoise.simulation.parts import log_rounds as log_rounds
from equipoise.types import AnyArray, Array, Config, Integers

if TYPE_CHECKING:
    import polars as pl

    Schema: TypeAlias = dict[str, pl.DataType]  # columns of a data frame

FORMAT = 1  # of experiment.json and of the parts of a run
KINDS = ("learner", "selector")
EXPERIMENT, CURVES, ELIMINATIONS, SUMMARY = "experiment.json", "curves.parquet", "eliminations.jsonl", "summary.json"


@dataclass(frozen=True, eq=False)
class Curve:
    """Cumulative regret of one learner alone, or of one selector, in one seed of one instance."""

    kind: str  # "learner" or "selector"
    name: str
    rounds: Integers  # increasing; the last is the number of rounds of the run
    regret: Array
    certified: Array | None = None  # the certificate's upper bound on the regret; selectors only
    plays: Integers | None = None  # one row per recorded round, one column per learner; selectors only
    instance: str = ""  # of the problem; empty where the experiment has one
    reward: float | None = None  # in all rounds; learners only
    seconds: float = 0.0  # of a single thread, compilation excluded
    violated: bool = False  # whether a certificate was below the true regret; selectors only
    well_specified: bool | None = None  # whether the learner's assumptions hold, where known

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidArgument(f"kind is {self.kind!r}, but must be one of {', '.join(KINDS)}")
        object.__setattr__(self, "rounds", np.asarray(self.rounds, np.int64))
        n_rounds = len(self.rounds)
        if self.rounds.ndim != 1 or n_rounds == 0 or self.rounds[0] < 1 or (np.diff(self.rounds) <= 0).any():
            raise InvalidArgument(f"rounds of {self.name!r} are not increasing from 1 on, but must be")
        for name, value in (("regret", self.regret), ("certified", self.certified)):
            if value is not None:
                object.__setattr__(self, name, self._checked(name, value, (n_rounds,), np.float64))
        if self.plays is not None:
            columns = np.shape(self.plays)[1:]
            object.__setattr__(self, "plays", self._checked("plays", self.plays, (n_rounds, *columns[:1]), np.int64))

    def _checked(self, name: str, value: ArrayLike, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        array = np.asarray(value, dtype)
        if array.shape != shape:
            raise InvalidArgument(f"{name} of {self.name!r} has shape {array.shape}, but must have {shape}")
        if not np.isfinite(array).all():
            raise InvalidArgument(f"{name} of {self.name!r} has entries that are not finite")
        return array


@dataclass(frozen=True, eq=False)
class SeedResult:
    """Everything one seed of a run gives; of each instance the curves of learners first, in the order of their
    indices."""

    seed: int
    curves: tuple[Curve, ...]
    eliminations: tuple[Record, ...] = ()  # records of `equipoise.certificates.records`
    facts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by instance, then by name

    def of_kind(self, kind: str, instance: str = "") -> tuple[Curve, ...]:
        return tuple(curve for curve in self.curves if curve.kind == kind and curve.instance == instance)

    @property
    def instances(self) -> tuple[str, ...]:
        """In the order of the run."""
        return tuple(dict.fromkeys(curve.instance for curve in self.curves))


@dataclass(frozen=True, eq=False)
class Results:
    """A finished run. `curves` has a row per seed, curve and recorded round; `eliminations` one per record. Both have
    a column `instance` where the experiment has several instances. `records` has the same eliminations as they were
    written: in a table, records of several kinds have each other's fields, empty."""

    path: Path
    experiment: Config
    summary: Config
    curves: pl.DataFrame
    eliminations: pl.DataFrame
    records: tuple[Record, ...] = ()

    @property
    def instances(self) -> tuple[str, ...]:
        """In the order of the experiment; a lone instance has no name."""
        return tuple(self.experiment.get("instances", ("",)))

    def curves_of(self, instance: str) -> pl.DataFrame:
        return self.curves.filter(instance=instance) if instance else self.curves

    def eliminations_of(self, instance: str) -> pl.DataFrame:
        return self.eliminations.filter(instance=instance) if instance else self.eliminations


def load_results(folder: str | Path) -> Results:
    """The results in a folder that `equipoise run` has finished."""
    require("equipoise.load_results", "polars")
    import polars as pl

    path = Path(folder)
    experiment, summary = _read_json(path, EXPERIMENT), _read_json(path, SUMMARY)
    if (found := experiment.get("format")) != FORMAT:
        raise UnreadableFile(f"format of {EXPERIMENT} in '{path}' is {found!r}, but must be {FORMAT}")
    settings = experiment.get("settings")
    for key in ("experiment", "rounds", "seeds"):
        wanted = settings.get(key) if isinstance(settings, dict) else None
        if summary.get(key) != wanted:
            raise UnreadableFile(
                f"'{path}' holds no finished run: {key} is {wanted!r} in {EXPERIMENT} and {summary.get(key)!r} in "
                f"{SUMMARY}; run it again to finish it"
            )
    try:
        curves = pl.read_parquet(path / CURVES)
        lines = (path / ELIMINATIONS).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        has_instances = "instances" in experiment
        eliminations = pl.DataFrame(records, schema=elimination_schema(records, has_instances))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise _no_finished_run(path, error) from error
    if dict(curves.schema) != curve_schema(has_instances):
        raise UnreadableFile(f"'{path}' holds no finished run: {CURVES} has other columns than expected")
    return Results(path, experiment, summary, curves, eliminations, tuple(records))


def curve_schema(has_instances: bool) -> Schema:
    """Columns of `curves.parquet`; the last two are null for learners."""
    import polars as pl

    return {
        **({"instance": pl.String()} if has_instances else {}),
        "seed": pl.Int64(),
        "kind": pl.String(),
        "curve": pl.String(),
        "round": pl.Int64(),
        "regret": pl.Float64(),
        "certified_regret": pl.Float64(),
        "plays": pl.List(pl.Int64()),
    }


def elimination_schema(records: Sequence[Record], has_instances: bool) -> Schema:
    """Return the columns of the data frame of elimination records; those that some records lack are null there."""
    import polars as pl

    types = {int: pl.Int64(), float: pl.Float64(), str: pl.String(), bool: pl.Boolean(), list: pl.List(pl.Float64())}

    def columns(stated: Fields) -> Schema:
        return {
            name: types[field.type] if field.parts is None else pl.Struct(columns(field.parts))
            for name, field in stated.items()
        }

    return columns(table_fields(records, {"instance"} if has_instances else ()))


def _read_json(folder: Path, name: str) -> Config:
    try:
        data = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _no_finished_run(folder, error) from error
    if not isinstance(data, dict):
        raise UnreadableFile(f"'{folder}' holds no finished run: {name} is no JSON object")
    return data


def _no_finished_run(folder: Path, error: Exception) -> UnreadableFile:
    missing = [name for name in (EXPERIMENT, CURVES, ELIMINATIONS, SUMMARY) if not (folder / name).is_file()]
    reason = f"it has no {' and no '.join(missing)}" if missing else " ".join(str(error).split())
    return UnreadableFile(f"'{folder}' holds no finished run: {reason}")
