"""Run folders: complete or refused, resumable, independent of who finished first, and readable again."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import __version__
from equipoise.certificates.records import verify_file
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict, UnreadableFile
from equipoise.lab.runs.results import Curve, SeedResult, load_results, log_rounds
from equipoise.lab.runs.store import RunFolder
from equipoise.lab.runs.summary import summarize
from tests.synthetic import ABOUT, LEARNERS, SELECTORS, finished_run, seed_result, settings

CONTENT = ("curves.parquet", "eliminations.jsonl", "experiment.json")


def open_run(folder: Path, seeds: int = 3, **others: Any) -> RunFolder:
    return RunFolder(folder, settings(seeds=seeds, **others), ABOUT)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in CONTENT}


@given(st.integers(1, 10**9), st.integers(1, 50))
def test_log_rounds_end_in_the_last_round_and_are_dense(n_rounds: int, per_decade: int) -> None:
    rounds = log_rounds(n_rounds, per_decade)
    assert rounds[0] == 1
    assert rounds[-1] == n_rounds
    assert (np.diff(rounds) >= 1).all()
    # Rounding moves either of two neighbors on the grid by at most one half.
    assert (rounds[1:] <= (rounds[:-1] + 0.5) * 10 ** (1 / per_decade) + 0.5).all()
    assert len(rounds) <= per_decade * np.log10(n_rounds) + 2


def test_log_rounds_of_a_longer_run_begin_with_those_of_a_shorter_one() -> None:
    assert log_rounds(12_345).tolist() == [*log_rounds(10**6)[log_rounds(10**6) < 12_345].tolist(), 12_345]


@pytest.mark.parametrize("n_rounds", [0, -1, 1.5, True])
def test_log_rounds_refuses_what_is_no_number_of_rounds(n_rounds: Any) -> None:
    with pytest.raises(InvalidArgument, match="n_rounds is "):
        log_rounds(n_rounds)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "arm"}, "kind is 'arm', but must be one of learner, selector"),
        ({"rounds": [2, 2]}, "rounds of 'x' are not increasing"),
        ({"rounds": []}, "rounds of 'x' are not increasing"),
        ({"regret": [1.0]}, r"regret of 'x' has shape \(1,\), but must have \(2,\)"),
        ({"regret": [1.0, np.nan]}, "regret of 'x' has entries that are not finite"),
        ({"certified": [np.inf, 1.0]}, "certified of 'x' has entries that are not finite"),
        ({"plays": [[1, 0]]}, r"plays of 'x' has shape \(1, 2\), but must have \(2, 2\)"),
        ({"plays": [1, 2]}, None),
    ],
)
def test_a_curve_checks_its_arrays(change: dict[str, Any], message: str | None) -> None:
    arguments: dict[str, Any] = {"kind": "selector", "name": "x", "rounds": [1, 2], "regret": [0.5, 1.0], **change}
    if message is None:
        assert Curve(**arguments).plays is not None
        return
    with pytest.raises(InvalidArgument, match=message):
        Curve(**arguments)


def test_a_finished_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    results = finished_run(tmp_path)
    assert results.curves.columns == ["seed", "kind", "curve", "round", "regret", "certified_regret", "plays"]
    for seed in range(3):
        expected = seed_result(seed)
        for curve in expected.curves:
            rows = results.curves.filter(pl.col("seed") == seed, curve=curve.name)
            assert rows["kind"].unique().to_list() == [curve.kind]
            assert rows["round"].to_list() == curve.rounds.tolist()
            assert rows["regret"].to_list() == curve.regret.tolist()
            if curve.kind == "selector":
                assert curve.certified is not None and curve.plays is not None
                assert rows["certified_regret"].to_list() == curve.certified.tolist()
                assert rows["plays"].to_list() == curve.plays.tolist()
            else:
                assert rows["certified_regret"].null_count() == len(rows)
                assert rows["plays"].null_count() == len(rows)
    assert results.eliminations.to_dicts() == [seed_result(seed).eliminations[0] for seed in range(3)]
    assert verify_file(tmp_path / "eliminations.jsonl") == (3, [])
    assert results.experiment["settings"] == settings()
    assert {key: results.experiment[key] for key in ABOUT} == ABOUT
    assert results.experiment["version"] == __version__
    assert load_results(str(tmp_path)).curves.equals(results.curves)


def test_a_run_without_eliminations_is_read_back(tmp_path: Path) -> None:
    results = finished_run(tmp_path, seeds=1, eliminate=False)
    assert (tmp_path / "eliminations.jsonl").read_bytes() == b""
    assert len(results.eliminations) == 0
    assert results.eliminations.columns == finished_run(tmp_path / "other").eliminations.columns


def test_content_does_not_depend_on_the_order_of_completion(tmp_path: Path) -> None:
    finished_run(tmp_path / "in order", seeds=5)
    for attempt in range(3):
        run = open_run(tmp_path / f"shuffled {attempt}", seeds=5)
        seeds = list(run.seeds)
        random.Random(attempt).shuffle(seeds)
        for seed in seeds:
            result = seed_result(seed)
            slower = tuple(replace(curve, seconds=curve.seconds + seed + attempt) for curve in result.curves)
            run.add(replace(result, curves=slower))
        run.finish(1.0)
        assert content(run.path) == content(tmp_path / "in order")


def test_resuming_computes_the_missing_seeds_only(tmp_path: Path) -> None:
    run = open_run(tmp_path, seeds=4)
    for seed in (3, 1):
        run.add(seed_result(seed))
    again = open_run(tmp_path, seeds=4)
    assert again.missing() == [0, 2]
    with pytest.raises(EquipoiseError, match=r"seed 0 of .* is missing or was altered: run it again"):
        again.finish(1.0)
    for seed in again.missing():
        again.add(seed_result(seed))
    again.finish(1.0)
    finished_run(tmp_path / "at once", seeds=4)
    assert content(tmp_path) == content(tmp_path / "at once")


def test_more_seeds_extend_and_fewer_use_only_those_asked(tmp_path: Path) -> None:
    finished_run(tmp_path, seeds=2)
    more = open_run(tmp_path, seeds=3)
    assert more.missing() == [2]
    with pytest.raises(UnreadableFile, match=r"no finished run: seeds is 3 in experiment\.json and 2 in summary\.json"):
        load_results(tmp_path)
    more.add(seed_result(2))
    more.finish(1.0)
    finished_run(tmp_path / "at once", seeds=3)
    assert content(tmp_path) == content(tmp_path / "at once")

    fewer = open_run(tmp_path, seeds=1)
    assert fewer.missing() == []
    results = fewer.finish(1.0)
    assert results.curves["seed"].unique().to_list() == [0]
    assert results.summary["seeds"] == 1
    assert open_run(tmp_path, seeds=3).missing() == []


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"size": 5}, "holds a run with size = 4, but this one has size = 5: choose another folder"),
        ({"rounds": 2000}, "holds a run with rounds = 1000, but this one has rounds = 2000"),
        ({"selectors": ["balanced-a"]}, r'holds a run with selectors = \["balanced-a", "balanced-b"\], but'),
        ({"color": "red"}, 'holds a run with no color, but this one has color = "red"'),
    ],
)
def test_a_folder_with_other_settings_is_refused(tmp_path: Path, others: dict[str, Any], message: str) -> None:
    finished_run(tmp_path)
    before = content(tmp_path)
    with pytest.raises(StoreConflict, match=message):
        open_run(tmp_path, **others)
    assert content(tmp_path) == before


def test_a_setting_that_this_run_lacks_is_a_conflict_too(tmp_path: Path) -> None:
    open_run(tmp_path, color="red")
    with pytest.raises(StoreConflict, match='with color = "red", but this one has no color'):
        open_run(tmp_path)


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreConflict, match=r"holds summary\.json but no experiment\.json: choose another folder"):
        open_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "settings": 3}', '{"format": 9, "settings": {}}'])
def test_an_unreadable_experiment_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableFile, match=r"experiment.json in .* cannot be read"):
        open_run(tmp_path)
    assert (tmp_path / "experiment.json").read_text(encoding="utf-8") == text


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(EquipoiseError, match=r"folder '.*taken' cannot be made"):
        open_run(tmp_path / "taken")


def test_no_cut_and_no_change_of_a_part_is_taken_for_complete(tmp_path: Path) -> None:
    run = open_run(tmp_path, seeds=1)
    run.add(seed_result(0))
    path = tmp_path / "parts" / "seed-00000.json"
    whole, chances = path.read_bytes(), random.Random(0)
    assert run.missing() == []
    for _ in range(200):
        place = chances.randrange(len(whole))
        damaged = [
            whole[:place],
            whole[:place] + bytes([whole[place] ^ 1 << chances.randrange(8)]) + whole[place + 1 :],
        ]
        for data in damaged:
            path.write_bytes(data)
            assert run.missing() == [0]
    path.write_bytes(whole)
    assert run.missing() == []


@pytest.mark.parametrize("text", ["3", "null", "[]", "{}", '{"digest": 3}'])
def test_any_other_json_is_no_part(tmp_path: Path, text: str) -> None:
    run = open_run(tmp_path, seeds=1)
    (tmp_path / "parts" / "seed-00000.json").write_text(text, encoding="utf-8")
    assert run.missing() == [0]


def test_a_part_of_another_seed_or_run_or_release_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(tmp_path / "run", seeds=2)
    run.add(seed_result(0))
    part = (tmp_path / "run" / "parts" / "seed-00000.json").read_bytes()
    (tmp_path / "run" / "parts" / "seed-00001.json").write_bytes(part)
    assert run.missing() == [1]
    other = open_run(tmp_path / "other", seeds=1, size=5)
    (tmp_path / "other" / "parts" / "seed-00000.json").write_bytes(part)
    assert other.missing() == [0]
    monkeypatch.setattr("equipoise.lab.runs.store.__version__", "99.0.0")
    assert open_run(tmp_path / "run", seeds=1).missing() == [0]


def test_a_curve_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="curve 'small' ends in round 500, but must end in 1000"):
        open_run(tmp_path).add(seed_result(0, rounds=500))
    assert open_run(tmp_path, seeds=1).missing() == [0]


def damage(folder: Path, name: str, text: str | None) -> None:
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text, encoding="utf-8")


# What is wrong with the folder after a file is gone, or has another content.
UNFINISHED = {
    ("summary.json", None): "holds no finished run: it has no summary.json$",
    ("curves.parquet", None): "holds no finished run: it has no curves.parquet$",
    ("eliminations.jsonl", None): "holds no finished run: it has no eliminations.jsonl$",
    ("summary.json", "{"): "holds no finished run: Expecting",
    ("summary.json", "[]"): "holds no finished run: summary.json is no JSON object",
    ("summary.json", "{}"): "experiment is 'made-up' in experiment.json and None in summary.json",
    ("curves.parquet", "nonsense"): "holds no finished run: ",
    ("eliminations.jsonl", "{"): "holds no finished run: Expecting",
    ("experiment.json", '{"format": 9}'): "format of experiment.json in .* is 9, but must be 1",
}


@pytest.mark.parametrize(("name", "text"), UNFINISHED)
def test_what_is_no_finished_run_is_refused(tmp_path: Path, name: str, text: str | None) -> None:
    finished_run(tmp_path)
    damage(tmp_path, name, text)
    with pytest.raises(UnreadableFile, match=UNFINISHED[name, text]):
        load_results(tmp_path)


def test_curves_with_other_columns_are_refused(tmp_path: Path) -> None:
    finished_run(tmp_path)
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "curves.parquet")
    with pytest.raises(UnreadableFile, match=r"curves\.parquet has other columns than expected"):
        load_results(tmp_path)


def test_an_empty_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"it has no experiment\.json and no curves\.parquet and no"):
        load_results(tmp_path / "none")


def test_summary_has_the_published_keys_and_figures(tmp_path: Path) -> None:
    """Against the formulas written out with the standard library only."""
    import statistics

    finished_run(tmp_path, seeds=4)
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert list(summary) == ["experiment", "rounds", "seeds", "version", "learners", "selectors"]
    assert (summary["experiment"], summary["rounds"], summary["seeds"]) == ("made-up", 1000, 4)
    assert [row["name"] for row in summary["learners"]] == list(LEARNERS)
    assert [row["name"] for row in summary["selectors"]] == list(SELECTORS)
    finals = {
        curve.name: [float(seed_result(s).curves[i].regret[-1]) for s in range(4)]
        for i, curve in enumerate(seed_result(0).curves)
    }
    for row in summary["learners"]:
        assert list(row) == ["name", "regret_mean", "regret_se", "reward_mean", "seconds"]
        assert row["regret_mean"] == pytest.approx(statistics.mean(finals[row["name"]]))
        assert row["regret_se"] == pytest.approx(statistics.stdev(finals[row["name"]]) / 2)
        assert row["seconds"] == pytest.approx(4 * 0.5)
    best = min(statistics.mean(finals[name]) for name in LEARNERS)
    for row in summary["selectors"]:
        assert list(row) == [
            *("name", "regret_mean", "regret_se", "ratio_mean", "ratio_se", "excess", "reward_lost"),
            *("plays_mean", "eliminated_share", "certificate_violations", "seconds"),
        ]
        mean = statistics.mean(finals[row["name"]])
        assert row["ratio_mean"] == pytest.approx(mean / best)
        assert row["ratio_se"] == pytest.approx(statistics.stdev(finals[row["name"]]) / best / 2)
        assert row["excess"] == pytest.approx((mean - best) / (summary["rounds"] ** 0.5))
        assert row["reward_lost"] is None  # no rewards of learners alone were recorded
        assert sum(row["plays_mean"]) == pytest.approx(1000)
        assert row["certificate_violations"] == 0
    assert summary["selectors"][0]["eliminated_share"] == [1.0, 0.0, 0.0]
    assert summary["selectors"][1]["eliminated_share"] == [0.0, 0.0, 0.0]


def lone(regret: float, violated: bool = False) -> SeedResult:
    """One seed of 100 rounds in which the only learner has no regret."""
    curves = (
        Curve("learner", "best", [100], [0.0], reward=80.0),  # type: ignore[arg-type]  # lists are taken too
        Curve("selector", "any", [100], [regret], [200.0], [[100]], violated=violated),  # type: ignore[arg-type]
    )
    return SeedResult(0, curves)


def test_a_best_learner_without_regret_has_no_ratio_and_a_single_seed_no_standard_error() -> None:
    """The excess and the reward lost are defined; no floor makes a small ratio of a best learner that loses nothing."""
    summary = summarize([lone(10.0)], experiment="x", rounds=100, reward_width=2.0)
    (row,) = summary["selectors"]
    assert row["ratio_mean"] is None and row["ratio_se"] is None
    assert row["excess"] == pytest.approx(10.0 / (2.0 * 10.0))
    assert row["reward_lost"] == pytest.approx(10.0 / 80.0)


def test_the_ratio_has_no_floor() -> None:
    """The best learner loses 2, the selector 13: it is 6.5 times as much, however small 2 is beside sqrt(T) = 316."""
    curves = (
        Curve("learner", "best", [100_000], [2.0], reward=50_000.0),  # type: ignore[arg-type]
        Curve("selector", "any", [100_000], [13.0], None, [[100_000]]),  # type: ignore[arg-type]
    )
    (row,) = summarize([SeedResult(0, curves)], experiment="x", rounds=100_000, reward_width=1.0)["selectors"]
    assert row["ratio_mean"] == 6.5
    assert row["excess"] == pytest.approx(11 / 316.2, rel=1e-3)
    assert row["reward_lost"] == pytest.approx(11 / 50_000)
    assert row["ratio_se"] is None
    assert row["regret_se"] is None
    assert row["seconds"] == 0.0


def test_violated_certificates_are_counted() -> None:
    seeds = [lone(10.0, violated) for violated in (True, False, True)]
    summary = summarize(seeds, experiment="x", rounds=100, reward_width=1.0)
    assert summary["selectors"][0]["certificate_violations"] == 2
