"""The folder of a run: finished seeds are kept one by one, and gathered once all are there.

`experiment.json` is written first and states what the folder is about. Each finished seed becomes a file of its own in
`parts`, sealed with a digest, so that an interrupted run resumes with the seeds it lacks, and a part that is cut off,
altered or of other settings is computed again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise import __version__
from equipoise.certificates.fields import Record
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict, UnreadableFile
from equipoise.lab.runs.results import (
    CURVES,
    ELIMINATIONS,
    EXPERIMENT,
    FORMAT,
    SUMMARY,
    Curve,
    Results,
    SeedResult,
    curve_schema,
    load_results,
)
from equipoise.lab.runs.summary import summarize
from equipoise.storage.files import canonical_json, digest, make_folder, write_atomic
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    import polars as pl


class RunFolder:
    """A run of `settings` in a folder. Opening it refuses a folder that holds anything else.

    `settings` is plain data and has at least "experiment", "rounds" and "seeds"; all but the number of seeds make the
    identity of the run. `about` (title, section, claim, and the instances where there are several) is written beside
    it for the reader.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Plain], about: Mapping[str, Plain]) -> None:
        self.path = Path(path)
        self.settings: Config = json.loads(_readable_json(settings))
        # Another release may compute other numbers, so its parts are not taken for this run's.
        self._fingerprint = digest({"version": __version__, **_identity(self.settings)})
        self._refuse_other_content()
        make_folder(self.path)
        make_folder(self.path / "parts")
        header = {"format": FORMAT, "version": __version__, **about, "settings": self.settings}
        write_atomic(self.path / EXPERIMENT, _readable_json(header))

    def _refuse_other_content(self) -> None:
        try:
            header = json.loads((self.path / EXPERIMENT).read_text(encoding="utf-8"))
            held = header["settings"]
            if header["format"] != FORMAT or not isinstance(held, dict):
                raise ValueError(f"format is {header['format']!r}, but must be {FORMAT}")
        except (FileNotFoundError, NotADirectoryError):
            taken = [name for name in (CURVES, ELIMINATIONS, SUMMARY) if (self.path / name).exists()]
            if taken:
                raise StoreConflict(
                    f"'{self.path}' holds {taken[0]} but no {EXPERIMENT}: choose another folder"
                ) from None
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UnreadableFile(f"{EXPERIMENT} in '{self.path}' cannot be read: {error}") from error
        ours, theirs = _identity(self.settings), _identity(held)
        for key in [*self.settings, *theirs]:
            if key in ours.keys() ^ theirs.keys() or ours.get(key) != theirs.get(key):
                raise StoreConflict(
                    f"'{self.path}' holds a run with {_stated(theirs, key)}, but this one has {_stated(ours, key)}: "
                    "choose another folder"
                )

    @property
    def seeds(self) -> range:
        return range(self.settings["seeds"])

    def missing(self) -> list[int]:
        """The seeds that are still to be computed."""
        return [seed for seed in self.seeds if self.load(seed) is None]

    def add(self, result: SeedResult) -> None:
        """Keep a finished seed."""
        for curve in result.curves:
            if curve.rounds[-1] != self.settings["rounds"]:
                raise InvalidArgument(
                    f"curve {curve.name!r} ends in round {curve.rounds[-1]}, but must end in {self.settings['rounds']}"
                )
        part = {"format": FORMAT, "fingerprint": self._fingerprint, **_as_json(result)}
        write_atomic(self._part(result.seed), canonical_json({**part, "digest": digest(part)}))

    def load(self, seed: int) -> SeedResult | None:
        """A seed kept earlier; None if there is none that is whole and of this run."""
        try:
            data = self._part(seed).read_bytes()
            part = json.loads(data)
            sealed = part["digest"] == digest(part) and data == canonical_json(part)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        fits = sealed and part["format"] == FORMAT and part["fingerprint"] == self._fingerprint
        return _from_json(part) if fits and part["seed"] == seed else None

    def finish(self, reward_width: float | Mapping[str, float]) -> Results:
        """Gather all seeds into the files of a finished run."""
        gathered = []
        for seed in self.seeds:
            result = self.load(seed)
            if result is None:
                raise EquipoiseError(f"seed {seed} of '{self.path}' is missing or was altered: run it again")
            gathered.append(result)
        (self.path / SUMMARY).unlink(missing_ok=True)  # without it the folder does not count as finished
        buffer = io.BytesIO()
        curve_frame(gathered).write_parquet(buffer, compression="zstd")
        write_atomic(self.path / CURVES, buffer.getvalue())
        records = b"".join(canonical_json(record) + b"\n" for record in _records(gathered))
        write_atomic(self.path / ELIMINATIONS, records)
        name, rounds = self.settings["experiment"], self.settings["rounds"]
        summary = summarize(gathered, experiment=name, rounds=rounds, reward_width=reward_width)
        write_atomic(self.path / SUMMARY, _readable_json(summary))
        return load_results(self.path)

    def _part(self, seed: int) -> Path:
        return self.path / "parts" / f"seed-{seed:05d}.json"


def curve_frame(seeds: Sequence[SeedResult]) -> pl.DataFrame:
    """All curves as one data frame: by seed, then in the order of the run, then by round."""
    import polars as pl

    schema = curve_schema(has_instances=seeds[0].instances != ("",))
    columns: dict[str, list[Plain]] = {name: [] for name in schema}
    for seed in seeds:
        for curve in seed.curves:
            n = len(curve.rounds)
            if "instance" in schema:
                columns["instance"] += [curve.instance] * n
            columns["seed"] += [seed.seed] * n
            columns["kind"] += [curve.kind] * n
            columns["curve"] += [curve.name] * n
            columns["round"] += curve.rounds.tolist()
            columns["regret"] += curve.regret.tolist()
            columns["certified_regret"] += [None] * n if curve.certified is None else curve.certified.tolist()
            columns["plays"] += [None] * n if curve.plays is None else curve.plays.tolist()
    return pl.DataFrame(columns, schema=schema)


def _records(seeds: Sequence[SeedResult]) -> list[Record]:
    selectors = [curve for curve in seeds[0].curves if curve.kind == "selector"]
    order = {(curve.instance, curve.name): position for position, curve in enumerate(selectors)}

    def place(record: Mapping[str, Plain]) -> tuple[int, ...]:
        return order[record.get("instance", ""), record["selector"]], record["round"], record["learner"]["index"]

    return [record for seed in seeds for record in sorted(seed.eliminations, key=place)]


def _identity(settings: Mapping[str, Plain]) -> Config:
    return {key: value for key, value in settings.items() if key != "seeds"}


def _stated(settings: Mapping[str, Plain], key: str) -> str:
    return f"{key} = {json.dumps(settings[key])}" if key in settings else f"no {key}"


def _readable_json(data: Plain) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _as_json(result: SeedResult) -> Config:
    curves = [{name: _plain(value) for name, value in vars(curve).items()} for curve in result.curves]
    facts = {instance: {name: float(fact) for name, fact in own.items()} for instance, own in result.facts.items()}
    return {"seed": int(result.seed), "curves": curves, "eliminations": list(result.eliminations), "facts": facts}


def _plain(value: Plain) -> Plain:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _from_json(part: Mapping[str, Plain]) -> SeedResult:
    curves = tuple(Curve(**curve) for curve in part["curves"])
    return SeedResult(part["seed"], curves, tuple(part["eliminations"]), part["facts"])
