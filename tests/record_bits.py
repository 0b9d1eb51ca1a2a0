"""Records what every algorithm computes: `python -m tests.record_bits` rewrites `tests/recorded/bits.json`.

A record is evidence that nothing has changed, not that anything is right: that is what references and properties are
for. Rewrite the records only after a change that is meant to change what is computed, and say in its description which
records it changes and why.

Numbers count bit for bit. Only where matrix libraries or compiled sums that may be reordered reach a result, whose last
digits depend on the processor, are its numbers rounded first, to nine significant digits or as stated. Who played and
which action of a menu was taken is compared exactly even there.

The folder `release-0.1.0` holds files as that release wrote them: `python -m tests.record_bits keep` wrote them when it
was made. It is here to show how, and is not run again: files of an old release cannot be written by a new one.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from equipoise import Portfolio, __version__
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.runs.runner import run
from equipoise.learners._core.trajectory import Trajectory
from tests.recorded_portfolios import KEPT, ROUNDS, VARIANTS, Decisions, Settlement, Variant, Waiting, play, settle

RECORDED = Path(__file__).parent / "recorded"
BITS = RECORDED / "bits.json"
RELEASE = RECORDED / "release-0.1.0"
KEPT_TICKETS, KEPT_RUN = "tickets.json", "nested"
ROUNDS_BEFORE, ROUNDS_AFTER = 400, 200  # of a kept portfolio

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
# The kept run has the settings of the recorded one, so that a process compiles for both at once.
RUN: dict[str, Any] = {"rounds": SIZES["nested"].rounds, "overrides": SIZES["nested"].overrides, "jobs": 1}


# Fields of certificates and of standings that the records do not have yet.
ADDED = {
    "assumes_bounds",
    "presumed",
    "radius",
    "radius_version",
    "pool_since",
    "late_learners",
    "entrants",
    "earlier_optimum_upper",
    "earlier_regret_upper",
    "waiting",
    "left_out",
    "learner_shares",
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


def eliminations_of(folder: Path, digits: int | None) -> list[dict[str, Any]]:
    """The content of `eliminations.jsonl`, line by line. Where numbers are rounded, the seal of a record, which is
    taken over all their digits, is left out; "version" is that of the form of a record, not of the package."""
    records = [json.loads(line) for line in (folder / "eliminations.jsonl").read_text(encoding="utf-8").splitlines()]
    left_out = set() if digits is None else {"digest"}
    return [{key: value for key, value in record.items() if key not in left_out} for record in records]


def experiment_record(name: str, folder: Path) -> Record:
    """An experiment with all its selectors and instances, run in `folder`."""
    rounds, seeds, overrides, digits = SIZES[name]
    run(EXPERIMENTS[name], out=folder, rounds=rounds, seeds=seeds, overrides=overrides, jobs=1)
    eliminations = eliminations_of(folder, digits)
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


def file_name(name: str) -> str:
    return name.lower().replace(", ", "--").replace(" ", "-") + ".equipoise"


def load_kept(name: str) -> tuple[Portfolio, list[Settlement]]:
    """A kept portfolio, and what its open decisions still wait for."""
    # What a file cannot hold, such as a bound that is a function, the reader brings along.
    selector = KEPT[name].make().selector if "Custom" in name else None
    portfolio = Portfolio.load(RELEASE / "portfolios" / file_name(name), selector=selector)
    rows = json.loads((RELEASE / KEPT_TICKETS).read_text(encoding="utf-8"))[name]
    return portfolio, [
        Settlement(id_, reward, None if outcome is None else Trajectory(*outcome), regret)
        for id_, reward, outcome, regret in rows
    ]


def continued_record(name: str) -> Record:
    """How a kept portfolio goes on: everything it waits for, the newest first, then further rounds."""
    portfolio, settlements = load_kept(name)
    for settlement in reversed(settlements):
        settle(portfolio, settlement)
    variant, rounds = KEPT[name], range(ROUNDS_BEFORE, ROUNDS_BEFORE + ROUNDS_AFTER)
    return portfolio_record(portfolio, play(portfolio, variant, rounds, {}), variant.digits)


def keep_portfolios() -> None:
    """Save a portfolio of every kept variant in the middle of its run, and what it waits for."""
    shutil.rmtree(RELEASE / "portfolios", ignore_errors=True)
    (RELEASE / "portfolios").mkdir(parents=True)
    tickets = {}
    for name, variant in KEPT.items():
        portfolio, waiting = variant.make(), Waiting()
        play(portfolio, variant, range(ROUNDS_BEFORE), waiting)
        portfolio.save(RELEASE / "portfolios" / file_name(name))
        tickets[name] = sorted(settlement for due in waiting.values() for settlement in due)
    lines = (f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in tickets.items())
    (RELEASE / KEPT_TICKETS).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def keep_run() -> None:
    shutil.rmtree(RELEASE / KEPT_RUN, ignore_errors=True)
    run(EXPERIMENTS["nested"], out=RELEASE / KEPT_RUN, seeds=2, **RUN)


def all_records() -> dict[str, dict[str, Record]]:
    with tempfile.TemporaryDirectory() as folder:
        experiments = {name: experiment_record(name, Path(folder, name)) for name in SIZES}
    return {
        "experiments": experiments,
        "portfolios": {name: variant_record(variant) for name, variant in VARIANTS.items()},
        "continued": {name: continued_record(name) for name in KEPT},
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


def main(arguments: list[str]) -> None:
    if arguments == ["keep"]:
        if RELEASE.name != f"release-{__version__}":
            raise SystemExit(f"{RELEASE.name} cannot be written by version {__version__}")
        keep_portfolios()
        keep_run()
    RECORDED.mkdir(exist_ok=True)
    BITS.write_text(json.dumps(all_records(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
