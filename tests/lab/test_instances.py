"""Runs of several instances: files, figure, report and command line keep them apart."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from equipoise.certificates.records import verify_file
from equipoise.errors import UnreadableFile
from equipoise.lab.experiment import Experiment, Setup
from equipoise.lab.report.run_figure import curves_over_seeds, elimination_marks, regret_figure
from equipoise.lab.report.run_report import overview, plays, publish
from equipoise.lab.runs.results import load_results
from equipoise.lab.runs.summary import facts, rows_of
from equipoise.problems import LinearBandit
from tests.synthetic import LEARNERS, SELECTORS, finished_run, seed_result

INSTANCES = ("calm", "wild")
SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "one seed": {"seeds": 1},
    "nobody eliminated": {"eliminate": False},
    "one round": {"rounds": 1, "eliminate": False},
    "many": {"learners": [f"learner {i}" for i in range(12)], "selectors": [f"selector {i}" for i in range(5)]},
    "one selector": {"selectors": ["alone"]},
    "no selector": {"selectors": [], "eliminate": False},
    "long names": {"learners": ["x" * 80, "y" * 80], "selectors": ["z" * 80]},
    "four instances": {"instances": ("a", "b", "c", "d" * 60)},
}


def run_of(folder: Path, **shape: Any) -> Any:
    return finished_run(folder, **{"instances": INSTANCES, **shape})


def drawn(folder: Path, **shape: Any) -> Figure:
    figure = regret_figure(run_of(folder, **shape))
    FigureCanvasAgg(figure)
    return figure


def texts(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text()]


def test_files_name_the_instance_of_every_row(tmp_path: Path) -> None:
    results = run_of(tmp_path)
    assert results.curves.columns[0] == "instance"
    assert results.instances == INSTANCES
    assert load_results(tmp_path).curves.equals(results.curves)
    for position, instance in enumerate(INSTANCES):
        expected = seed_result(1).curves[0].regret * (1 + position)
        rows = results.curves_of(instance).filter(pl.col("seed") == 1, curve=LEARNERS[0])
        assert rows["regret"].to_list() == expected.tolist()
    lines = (tmp_path / "eliminations.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["instance"] for line in lines] == list(INSTANCES) * 3
    assert verify_file(tmp_path / "eliminations.jsonl") == (6, [])
    assert results.eliminations["instance"].to_list() == list(INSTANCES) * 3
    assert len(results.eliminations_of("wild")) == 3
    assert json.loads((tmp_path / "experiment.json").read_text(encoding="utf-8"))["instances"] == list(INSTANCES)


def test_a_lone_instance_leaves_no_trace_in_the_files(tmp_path: Path) -> None:
    results = finished_run(tmp_path)
    assert results.instances == ("",)
    assert "instance" not in results.curves.columns + results.eliminations.columns
    for name in ("experiment.json", "summary.json", "eliminations.jsonl"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "instance" not in text and "facts" not in text and "well_specified" not in text


def test_an_instance_that_was_changed_breaks_the_seal(tmp_path: Path) -> None:
    run_of(tmp_path)
    file = tmp_path / "eliminations.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"calm"', '"wild"'), encoding="utf-8")
    n_records, faults = verify_file(file)
    assert (n_records, len(faults)) == (6, 3)
    assert "digest does not match" in faults[0]


def test_curves_without_their_instances_are_refused(tmp_path: Path) -> None:
    results = run_of(tmp_path)
    results.curves.drop("instance").write_parquet(tmp_path / "curves.parquet")
    with pytest.raises(UnreadableFile, match=r"curves\.parquet has other columns than expected"):
        load_results(tmp_path)


def test_the_ratio_is_that_within_the_instance(tmp_path: Path) -> None:
    summary = run_of(tmp_path).summary
    assert [(row["instance"], row["name"]) for row in summary["learners"]] == [
        (instance, name) for instance in INSTANCES for name in LEARNERS
    ]
    for instance in INSTANCES:
        best = min(row["regret_mean"] for row in rows_of(summary, "learners", instance))
        for row in rows_of(summary, "selectors", instance):
            assert next(iter(row)) == "instance"
            assert row["ratio_mean"] == pytest.approx(row["regret_mean"] / best)
            assert row["eliminated_share"] == ([1.0, 0.0, 0.0] if row["name"] == SELECTORS[0] else [0.0] * 3)
        assert [row["well_specified_share"] for row in rows_of(summary, "learners", instance)] == [0.0, 1.0, 1.0]
    calm, wild = (rows_of(summary, "selectors", instance)[0] for instance in INSTANCES)
    assert wild["regret_mean"] == pytest.approx(2 * calm["regret_mean"])


def test_facts_are_summed_up_over_seeds(tmp_path: Path) -> None:
    summary = run_of(tmp_path).summary
    assert rows_of(summary, "facts", "wild") == [
        {"instance": "wild", "name": "size*", "median": 0.6, "least": 0.5, "greatest": 0.7}
    ]
    assert facts(summary, "wild") == "size* = 0.6 (median over seeds; 0.5 to 0.7)"
    assert facts(run_of(tmp_path / "one", seeds=1).summary, "wild") == "size* = 0.5"
    assert facts(finished_run(tmp_path / "lone").summary) == ""


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_shape_is_drawn_inside_the_page_without_overlap(tmp_path: Path, shape: dict[str, Any]) -> None:
    figure = drawn(tmp_path, **shape)
    figure.canvas.draw()
    page, renderer = figure.bbox, figure.canvas.get_renderer()  # type: ignore[attr-defined]  # the canvas is Agg's
    boxes = [axes.get_window_extent() for axes in figure.axes]
    labels = [text for axes in figure.axes if str(axes.get_label()).startswith("regret") for text in axes.texts]
    for artist in [*figure.legends, *figure.texts, *labels]:
        # Of a label the text alone: its pointer starts at the axes.
        if isinstance(artist, mpl.text.Annotation):
            extent = mpl.text.Text.get_window_extent(artist, renderer)
        else:
            extent = artist.get_window_extent(renderer)
        assert page.x0 <= extent.x0 and extent.x1 <= page.x1, artist
        assert page.y0 <= extent.y0 and extent.y1 <= page.y1, artist
        assert not any(extent.overlaps(box) for box in boxes), artist
    boxes += [text.get_window_extent(renderer) for text in figure.texts if text.get_text()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_figure_has_a_row_for_each_instance_and_marks_misspecified_learners(tmp_path: Path) -> None:
    figure = drawn(tmp_path)
    written = texts(figure)
    assert {
        *INSTANCES,
        "Unknown to the learners: size* = 0.6 (median over seeds; 0.5 to 0.7)",
        "eliminates 1 of 3",
    } <= set(written)
    assert "misspecified learner playing alone" in written
    labels = [axes.get_label() for axes in figure.axes]
    assert labels == [
        label
        for instance in INSTANCES
        for label in (f"regret: {instance}", *(f"plays of {name}: {instance}" for name in SELECTORS))
    ]
    for position, instance in enumerate(INSTANCES):
        (axes,) = (axes for axes in figure.axes if axes.get_label() == f"regret: {instance}")
        lines = {line.get_label(): line for line in axes.get_lines()}
        assert [lines[name].get_linestyle() for name in LEARNERS] == ["--", "-", "-"]
        mean = np.mean([seed_result(seed).curves[1].regret for seed in range(3)], axis=0)
        np.testing.assert_allclose(np.asarray(lines[LEARNERS[1]].get_ydata()), (1 + position) * mean)


def test_curves_and_marks_are_gathered_within_the_instance(tmp_path: Path) -> None:
    results = run_of(tmp_path)
    calm, wild = (curves_over_seeds(results, "selector", instance)[0] for instance in INSTANCES)
    np.testing.assert_allclose(wild.regret, 2 * calm.regret)
    assert elimination_marks(results, SELECTORS[0], "wild") == elimination_marks(results, SELECTORS[0], "calm")
    assert elimination_marks(results, SELECTORS[1], "wild") == []


@pytest.mark.slow
def test_report_has_a_table_for_each_instance(tmp_path: Path) -> None:
    results = run_of(tmp_path)
    publish(results)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for instance in INSTANCES:
        assert page.count(f"<h3>{instance}</h3>") == 3  # result, plays, certificates
        for row in [*overview(results.summary, instance).rows, *plays(results.summary, instance).rows]:
            assert all(cell in page for cell in row)
    assert page.count("<p>Unknown to the learners: size* = 0.6") == len(INSTANCES)
    assert overview(results.summary, "calm").rows[0] != overview(results.summary, "wild").rows[0]


def test_build_is_told_the_instance_where_there_are_several() -> None:
    seen: list[Any] = []

    def build(settings: Any, seed: int) -> Setup:
        seen.append((settings.get("instance"), seed))
        return Setup(LinearBandit(), (), {})

    experiment = Experiment("x", "X", "Nowhere", "None.", {"rounds": 1, "seeds": 1}, (), build, instances=INSTANCES)
    experiment.set_up({}, 3, "calm")
    experiment.set_up({}, 4)
    assert seen == [("calm", 3), (None, 4)]
