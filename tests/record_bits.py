"""Records what every algorithm computes: `python -m tests.record_bits` rewrites `tests/recorded/bits.json`.

A record is evidence that nothing has changed, not that anything is right: that is what references and properties are
for. Rewrite the records only after a change that is meant to change what is computed, and say in its description which
records it changes and why.

Numbers count bit for bit. Only where matrix libraries or compiled sums that may be reordered reach a result, whose last
digits depend on the processor, are its numbers rounded first, to nine significant digits or as stated. Who played and
which action of a menu was taken is compared exactly even there.
"""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from equipoise import Portfolio
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.runs.runner import run
from tests.recorded_portfolios import ROUNDS, VARIANTS, Decisions, Variant, play

RECORDED = Path(__file__).parent / "recorded"
BITS = RECORDED / "bits.json"

Record = dict[str, Any]


class Size(NamedTuple):
    """At which an experiment is recorded. Compiling takes nearly all of the time, rounds next to none; few learners,
    little noise and low bounds make for eliminations."""

    rounds: int
    seeds: int
    overrides: dict[str, Any]
    digits: int | None = 9  # see above


SIZES: dict[str, Size] = {
    "nested": Size(3000, 2, {"d_max": 8, "d_star": 4, "noise": "gaussian", "noise_scale": 0.02, "bound_scale": 0.01}),
    "misspecification": Size(2000, 1, {"bound_scale": 0.001, "slope_scale": 0.001, "noise_scale": 0.005}),
    "confidence": Size(3000, 1, {"dim": 4, "n_actions": 10, "kappa_min": 0.5, "bound_scale": 0.005, "delta": 0.9}),
    "ucb-width": Size(20_000, 1, {"bound_scale": 0.02, "delta": 0.5}, digits=None),
    "context-or-not": Size(5000, 1, {"bound_scale": 0.1, "delta": 0.5}),
    "adversarial": Size(3000, 1, {"d_max": 8, "d_star": 4, "bound_scale": 0.1, "noise_scale": 0.02}),
    "linear-mdp": Size(
        2000, 1, {"d_max": 4, "d_star": 4, "n_states": 6, "n_actions": 2, "horizon": 3, "bound_scale": 0.001}
    ),
    "exploration-bonus": Size(20_000, 1, {"constants": [0.0001, 0.1, 1.0], "bound_scale": 0.001, "delta": 0.9}),
    "bellman-error": Size(
        2000, 1, {"n_states": 5, "n_actions": 2, "n_learners": 3, "bound_scale": 0.001, "delta": 0.9}
    ),
    "ball": Size(600, 1, {"d_max": 4, "d_star": 3, "bound_scale": 0.01}),
}


# Fields of certificates and of standings that the records do not have yet.
ADDED = {
    "assumes_bounds",
    "presumed",
    "radius",
    "pool_since",
    "late_learners",
    "entrants",
    "earlier_optimum_upper",
    "earlier_regret_upper",
    "waiting",
    "left_out",
    "removed",
}


def plain(value: Any, digits: int | None) -> Any:
    """`value` with its numbers as text that no reader rounds."""
    match value:
        case None | bool() | str() | int():
            return value
        case np.integer():
            return int(value)
        case float() | np.floating():
            number = float(value)
            if digits is not None and not isnan(number):
                return f"{number + 0.0:.{digits}g}"  # adding nothing turns a negative zero into a positive one
            return number.hex()
        case np.ndarray():
            # A point: entries near zero have no digits of their own that could be relied on.
            return plain((value if digits is None else value.round(digits)).tolist(), digits)
        case Mapping():
            return {key: plain(entry, digits) for key, entry in value.items()}
        case Iterable():
            return [plain(entry, digits) for entry in value]
    raise TypeError(f"{value!r} cannot be recorded")


def digest_of(value: Any, digits: int | None) -> str:
    text = json.dumps(plain(value, digits), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def curves_of(folder: Path) -> list[tuple[str, list[Any]]]:
    """The content of `curves.parquet`, column by column. It holds no measured seconds: nothing is left out."""
    return [(column.name, column.to_list()) for column in pl.read_parquet(folder / "curves.parquet")]


def eliminations_of(folder: Path) -> list[dict[str, Any]]:
    """The content of `eliminations.jsonl`, line by line, without the version of its form and the digest of both."""
    records = [json.loads(line) for line in (folder / "eliminations.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if key not in ("version", "digest")} for record in records]


def experiment_record(name: str, folder: Path) -> Record:
    """An experiment with all its selectors and instances, run in `folder`."""
    rounds, seeds, overrides, digits = SIZES[name]
    run(EXPERIMENTS[name], out=folder, rounds=rounds, seeds=seeds, overrides=overrides, jobs=1)
    eliminations = eliminations_of(folder)
    return {
        "curves": digest_of(curves_of(folder), digits),
        "eliminations": digest_of(eliminations, digits),
        "eliminated": dict(sorted(Counter(record["selector"] for record in eliminations).items())),
    }


def portfolio_record(portfolio: Portfolio, decisions: Decisions, digits: int | None) -> Record:
    """Decisions, standing and certificate apart, so that a difference says where it is; plays for the reader."""
    rows = portfolio.standing()
    parts: list[Any] = [portfolio.certificate(), *rows]
    certificate, *standing = ({name: v for name, v in part.to_json().items() if name not in ADDED} for part in parts)
    return {
        "decisions": digest_of(decisions, digits),
        "standing": digest_of(standing, digits),
        "certificate": digest_of(certificate, digits),
        "plays": [row.plays for row in rows],
        "inactive": [row.learner for row in rows if not row.active],
    }


def variant_record(variant: Variant) -> Record:
    """A portfolio over all rounds."""
    portfolio = variant.make()
    return portfolio_record(portfolio, play(portfolio, variant, range(ROUNDS), {}), variant.digits)


def all_records() -> dict[str, dict[str, Record]]:
    with tempfile.TemporaryDirectory() as folder:
        experiments = {name: experiment_record(name, Path(folder, name)) for name in SIZES}
    return {
        "experiments": experiments,
        "portfolios": {name: variant_record(variant) for name, variant in VARIANTS.items()},
    }


def recorded(kind: str) -> dict[str, Record]:
    """The records of a kind, as they were written."""
    records: dict[str, Record] = json.loads(BITS.read_text(encoding="utf-8"))[kind]
    return records


def differences(kind: str, name: str, now: Record) -> list[str]:
    """What of a record is no longer as it was written; the records by name, so that nobody has to guess."""
    then = recorded(kind).get(name)
    if then is None:
        return [f"{kind}: {name!r} has never been recorded"]
    return [
        f"{kind}: {part} of {name!r} was {then.get(part)} and is {now.get(part)}"
        for part in {**then, **now}
        if then.get(part) != now.get(part)
    ]


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    BITS.write_text(json.dumps(all_records(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
