"""Files of release 0.1.0 still load, and go on exactly as they would have.

The files in `tests/recorded/release-0.1.0` were written by that release and never change: portfolios in the middle of a
run, with open decisions and late rewards, and the folder of a finished run. How each portfolio goes on was recorded by
the same release; a change that alters it must state which records it changes and why.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from equipoise import __version__, load_results
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.runs.runner import run
from equipoise.learners import LEARNERS, DisjointOFUL
from equipoise.selectors import SELECTORS
from tests.conftest import INTERPRETED
from tests.record_bits import (
    KEPT_RUN,
    RELEASE,
    RUN,
    continued_record,
    differences,
    eliminations_of,
    load_kept,
    plain,
    recorded,
)
from tests.recorded_portfolios import KEPT

NEW_LEARNERS = {DisjointOFUL}  # registered since that release
FILES = ("experiment.json", "curves.parquet", "eliminations.jsonl", "summary.json")


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_kept_portfolio_goes_on_as_recorded(name: str) -> None:
    assert differences("continued", name, continued_record(name)) == []


def test_the_kept_portfolios_wait_for_rewards_and_cover_everything_registered() -> None:
    loaded = {name: load_kept(name) for name in KEPT}
    assert set(loaded) == set(recorded("continued"))
    assert all(portfolio.pending and settlements for portfolio, settlements in loaded.values())
    added = {SELECTORS["CounterfactualBalancing"]}  # since that release
    assert {type(portfolio.selector) for portfolio, _ in loaded.values()} == set(SELECTORS.values()) - added
    learners = {type(learner) for portfolio, _ in loaded.values() for learner in portfolio.learners}
    assert learners == set(LEARNERS.values()) - NEW_LEARNERS


@pytest.mark.parametrize("name", KEPT)
def test_kept_portfolio_is_saved_again_as_it_was(name: str, tmp_path: Path) -> None:
    """What is loaded is all that was saved: saving it, unplayed, and loading that leads to the same statements."""
    portfolio, _ = load_kept(name)
    portfolio.save(tmp_path / "again")
    again = type(portfolio).load(tmp_path / "again", selector=KEPT[name].make().selector if "Custom" in name else None)
    assert again.pending == portfolio.pending
    assert plain(again.to_json(), None) == plain(portfolio.to_json(), None)


def seeds_of(folder: Path, n_seeds: int) -> Any:
    """Curves and eliminations of the first seeds, numbers to nine digits, but for `RealizedBalancing`, whose default
    rule has changed since."""
    curves = pl.read_parquet(folder / "curves.parquet").filter(pl.col("seed") < n_seeds, pl.col("curve") != "realized")
    records = [record for record in eliminations_of(folder, 9) if record["seed"] < n_seeds]
    return plain([curves.to_dict(as_series=False), records], 9)


def test_the_kept_run_loads() -> None:
    results = load_results(RELEASE / KEPT_RUN)
    assert results.experiment["version"] == "0.1.0"
    assert results.experiment["settings"]["seeds"] == 2
    assert results.curves["seed"].unique().sort().to_list() == [0, 1]
    assert {"balanced-scaled"} <= set(results.eliminations["selector"])


@pytest.mark.compiled
@pytest.mark.skipif(INTERPRETED, reason="recorded as compiled; the last digits of plain Python may differ")
def test_the_kept_run_is_extended_by_a_seed(tmp_path: Path) -> None:
    """The release that wrote the folder keeps its seeds byte for byte. Another one computes them again, since it may
    compute other numbers; but unless a record says so it does not."""
    kept, out = RELEASE / KEPT_RUN, tmp_path / "run"
    shutil.copytree(kept, out)
    settings = {**RUN, "overrides": {**RUN["overrides"], "radius": "stitched"}}  # the default of that time
    results = run(EXPERIMENTS["nested"], out=out, seeds=3, **settings)
    assert results.curves["seed"].unique().sort().to_list() == [0, 1, 2]
    assert seeds_of(out, 2) == seeds_of(kept, 2)
    parts = sorted(part.name for part in (kept / "parts").iterdir())
    assert parts == ["seed-00000.json", "seed-00001.json"]
    for part in parts:
        before, after = ((folder / "parts" / part).read_bytes() for folder in (kept, out))
        if json.loads((kept / "experiment.json").read_text(encoding="utf-8"))["version"] == __version__:
            assert after == before
    again = run(EXPERIMENTS["nested"], out=out, seeds=3, **settings)
    assert again.curves.equals(results.curves)
    assert {path.name for path in kept.iterdir()} == {*FILES, "parts"}
