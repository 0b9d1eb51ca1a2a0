"""The figure says what it must: structure and places are tested, not pixels."""

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from equipoise.lab.report.drawing import COOL, WARM, learner_colors, play_shares, readable, save_figure, selector_style
from equipoise.lab.report.kit import short
from equipoise.lab.report.panels import Mark, notes, regret_scale, spread
from equipoise.lab.report.run_figure import curves_over_seeds, elimination_marks, regret_figure
from tests.synthetic import ABOUT, LEARNERS, SELECTORS, finished_run, seed_result

SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "one seed": {"seeds": 1},
    "nobody eliminated": {"eliminate": False},
    "one round": {"rounds": 1, "eliminate": False},
    "few rounds": {"rounds": 7, "eliminate": False},
    "many": {"learners": [f"learner {i}" for i in range(24)], "selectors": [f"selector {i}" for i in range(8)]},
    "one selector": {"selectors": ["alone"]},
    "no selector": {"selectors": [], "eliminate": False},
    "long names": {"learners": ["x" * 80, "y" * 80], "selectors": ["z" * 80]},
}


def axes_of(figure: Figure, label: str) -> Axes:
    (found,) = (axes for axes in figure.axes if axes.get_label() == label)
    return found


def texts(figure: Figure) -> list[str]:
    """Everything written in the figure."""
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text()]


def drawn(folder: Path, **shape: Any) -> Figure:
    figure = regret_figure(finished_run(folder, **shape))
    FigureCanvasAgg(figure)
    return figure


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_shape_is_drawn_inside_the_page_and_keeps_keys_off_the_data(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    figure = drawn(tmp_path, **shape)
    figure.canvas.draw()
    page = figure.bbox
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # the canvas is Agg's
    boxes = [axes.get_window_extent() for axes in figure.axes]
    inner = [axes.get_legend() for axes in figure.axes]
    legends: list[Any] = [*figure.legends, *(legend for legend in inner if legend is not None)]
    assert legends
    for artist in [*legends, *figure.axes[0].texts, *figure.texts]:
        extent = artist.get_window_extent(renderer)
        assert page.x0 <= extent.x0 and extent.x1 <= page.x1, artist
        assert page.y0 <= extent.y0 and extent.y1 <= page.y1, artist
    for legend in legends:
        assert not any(legend.get_window_extent(renderer).overlaps(box) for box in boxes)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_figure_says_what_it_shows(tmp_path: Path) -> None:
    figure = drawn(tmp_path)
    written = texts(figure)
    main = axes_of(figure, "regret")
    assert main.get_xlabel() == "Rounds"
    assert main.get_ylabel().startswith("Regret: reward lost against\nalways acting best")
    assert ABOUT["title"] in written
    assert "Cumulative regret over 1,000 rounds, mean of 3 seeds, bands from the 10th to the 90th percentile" in written
    assert "× small: 3/3 seeds, round 999" in written
    assert "no learner eliminated" in written
    assert {"certified upper bound", "true regret", "a learner is eliminated (median round)"} <= set(written)
    for name in (*LEARNERS, *SELECTORS):
        assert any(text.startswith(f"{name}  ") for text in written), name
    assert {axes.get_label() for axes in figure.axes} == {
        "regret",
        *(f"plays of {name}" for name in SELECTORS),
        *(f"certified regret of {name}" for name in SELECTORS),
    }


def test_one_seed_has_no_band_and_says_so(tmp_path: Path) -> None:
    figure = drawn(tmp_path, seeds=1)
    assert "Cumulative regret over 1,000 rounds, 1 seed" in texts(figure)
    assert len(axes_of(figure, "regret").collections) == 0


def test_nobody_eliminated_leaves_no_cross(tmp_path: Path) -> None:
    figure = drawn(tmp_path, eliminate=False)
    assert all(line.get_marker() != "X" for line in figure.findobj(mpl.lines.Line2D))
    assert "a learner is eliminated (median round)" not in texts(figure)


def test_lines_are_means_and_selectors_are_thick(tmp_path: Path) -> None:
    figure = drawn(tmp_path)
    lines = {line.get_label(): line for line in axes_of(figure, "regret").get_lines()}
    for i, curve in enumerate(seed_result(0).curves):
        mean = np.mean([seed_result(seed).curves[i].regret for seed in range(3)], axis=0)
        line = lines[curve.name]
        np.testing.assert_allclose(np.asarray(line.get_ydata()), mean)
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), curve.rounds)
        assert (line.get_linewidth() > 2) == (curve.kind == "selector")


def test_a_learner_has_one_color_in_all_panels(tmp_path: Path) -> None:
    figure = drawn(tmp_path)
    lines = {line.get_label(): line.get_color() for line in axes_of(figure, "regret").get_lines()}
    for selector in SELECTORS:
        areas = axes_of(figure, f"plays of {selector}").collections
        fills = [mpl.colors.to_hex(np.asarray(area.get_facecolor())[0]).upper() for area in areas]
        assert fills == [lines[name] for name in LEARNERS]


def test_colors_never_run_out_and_differ() -> None:
    for n in (1, len(COOL), len(COOL) + 1, 40):
        assert len({mpl.colors.to_hex(color) for color in learner_colors(n)}) == n
    assert len({selector_style(k) for k in range(3 * len(WARM))}) == 3 * len(WARM)
    assert set(WARM).isdisjoint(COOL)


@pytest.mark.slow
def test_violated_certificates_are_shown(tmp_path: Path) -> None:
    results = finished_run(tmp_path)
    results.summary["selectors"][1]["certificate_violations"] = 2
    figure = regret_figure(results)
    FigureCanvasAgg(figure)
    assert "violated in 2 of 3 seeds" in texts(figure)


@pytest.mark.slow
def test_saving_gives_the_same_bytes_and_leaves_no_trace(tmp_path: Path) -> None:
    results = finished_run(tmp_path)
    before = dict(mpl.rcParams)
    svgs, pngs = set(), set()
    for _ in range(2):
        svgs.add(save_figure(regret_figure(results), tmp_path / "regret.png"))
        pngs.add((tmp_path / "regret.png").read_bytes())
    assert dict(mpl.rcParams) == before
    (svg,) = svgs
    assert len(pngs) == 1
    assert (tmp_path / "regret.svg").read_text(encoding="utf-8") == svg
    assert "<dc:date>" not in svg
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_curves_and_marks_are_gathered_over_seeds(tmp_path: Path) -> None:
    results = finished_run(tmp_path)
    first, second = curves_over_seeds(results, "selector")
    assert (first.name, second.name) == SELECTORS
    assert first.plays is not None and first.plays.shape == (3, len(first.rounds), len(LEARNERS))
    for seed in range(3):
        expected = seed_result(seed).of_kind("selector")[0].plays
        assert expected is not None
        np.testing.assert_array_equal(first.plays[seed], expected)
    assert elimination_marks(results, SELECTORS[0]) == [Mark(0, "small", 999.0, 3)]
    assert elimination_marks(results, SELECTORS[1]) == []


@given(st.integers(1, 3000), st.integers(1, 6), st.integers(0, 2**32))
def test_shares_of_plays_add_up(n_rounds: int, n_learners: int, seed: int) -> None:
    """Weighted with the width of their windows, shares give back the plays of every learner."""
    chosen = np.random.default_rng(seed).integers(0, n_learners, n_rounds)
    counts = np.cumsum(chosen[:, None] == np.arange(n_learners), axis=0)
    recorded = np.unique(np.append(np.geomspace(1, n_rounds, 30).astype(int), n_rounds))
    middles, shares = play_shares(recorded, counts[recorded - 1][None])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert middles[0] == 0
    assert middles[-1] == n_rounds
    edges = [0.0]
    for middle in middles[1:-1]:
        edges.append(2 * middle - edges[-1])
    np.testing.assert_allclose(edges[-1], n_rounds)
    np.testing.assert_allclose(np.diff(edges) @ shares[1:-1], counts[-1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_labels_are_spread_in_order_within_the_axes(places: list[float]) -> None:
    spacing = min(0.05, 1 / len(places))
    found = spread(sorted(places), spacing)
    assert all(-1e-9 <= place <= 1 for place in found)
    assert all(later - earlier >= spacing - 1e-9 for earlier, later in pairwise(found))


def test_labels_with_room_stay_where_they_belong() -> None:
    assert spread([0.1, 0.3, 0.9], 0.05) == [0.1, 0.3, 0.9]


def test_notes_are_cut_to_fit() -> None:
    marks = [Mark(i, f"learner {i}", 100.0 * i, i) for i in range(1, 8)]
    lines = notes(marks, 9, inches=10.0)
    assert lines[0] == "× learner 1: 1/9 seeds, round 100"
    assert lines[3] == "and 4 more"
    (line,) = notes([Mark(0, "a very long name of a learner", 5.0, 1)], 1, inches=2.0)
    assert line == "× a very…arner: 1/1 seeds, round 5"
    assert short("abcdefghij", 5) == "ab…ij"


def test_long_numbers_on_axes_are_written_short() -> None:
    assert [readable(value) for value in (0.0, 0.25, 12_500.0, 999_999.0, 2_500_000.0, 1e7)] == [
        "0",
        "0.25",
        "12,500",
        "999,999",
        "2.5M",
        "10M",
    ]


def test_regrets_far_apart_have_a_logarithmic_scale(tmp_path: Path) -> None:
    near, far = regret_scale([10.0, 150.0]), regret_scale([10.0, 250.0])
    assert (near.log, far.log) == (False, True)
    assert near.fraction(0.0) == 0.0 and near.fraction(150.0) < 1.0
    assert far.bottom < 10.0 and far.top > 250.0
    assert [far.fraction(value) for value in (0.0, far.bottom, far.top, 2 * far.top)] == [0.0, 0.0, 1.0, 1.0]
    assert regret_scale([]) == regret_scale([0.0]) == (0.0, 1.0, False)
    results = finished_run(tmp_path)
    low = pl.when(pl.col("curve") == LEARNERS[-1]).then(0.01).otherwise(1.0)
    stretched = results.curves.with_columns(pl.col("regret") * low)
    main = axes_of(regret_figure(replace(results, curves=stretched)), "regret")
    assert main.get_yscale() == "log"
    assert main.get_ylabel().endswith("(log scale)")
