"""The report: complete, self-contained, and nothing in it that came from data is taken for HTML."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from equipoise.certificates.records import describe_elimination
from equipoise.cli import application
from equipoise.lab.report.drawing import save_figure
from equipoise.lab.report.kit import with_error
from equipoise.lab.report.run_figure import regret_figure
from equipoise.lab.report.run_report import COLUMNS, command_line, overview, plays, publish, write_report
from equipoise.lab.runs.results import load_results
from tests.synthetic import ABOUT, LEARNERS, SELECTORS, finished_run, settings

VOID = {"meta", "br", "path", "use", "rect"}


class Reader(HTMLParser):
    """Collects text, tags and attributes, and checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    publish(finished_run(folder))
    return folder


@pytest.mark.slow
def test_report_needs_nothing_from_outside(run_folder: Path) -> None:
    source = (run_folder / "report.html").read_text(encoding="utf-8")
    assert re.search(r"https?:|//\w|@import|url\((?!#)", source) is None
    reader = read(run_folder / "report.html")
    assert {"script", "link", "img", "iframe", "object", "image"}.isdisjoint(reader.tags)
    for name, value in reader.attributes:
        assert name != "src"
        assert not name.startswith("on")
        if name in ("href", "xlink:href"):
            assert value.startswith("#")
    assert "color-scheme: light dark" in source and "light-dark(" in source


def test_report_says_everything(run_folder: Path) -> None:
    results = finished_run(run_folder)
    text = read(run_folder / "report.html").text
    for part in ABOUT.values():
        assert part in text
    for row in overview(results.summary).rows:
        for cell in row:
            assert " ".join(cell.split()) in text
    for key, value in settings().items():
        assert key in text
        assert (", ".join(value) if isinstance(value, list) else str(value)) in text
    assert "small was eliminated in 3 of 3 seeds, median round 999." in text
    assert describe_elimination(results.eliminations.to_dicts()[0]) in text
    assert "equipoise run made-up --rounds 1000 --seeds 3" in text
    assert "The best selector, balanced-a , which learns online which learner to play" in text


def test_figure_is_part_of_the_page_and_named(run_folder: Path) -> None:
    reader = read(run_folder / "report.html")
    assert reader.tags.count("svg") == 1
    assert ("aria-label", f"Figure: {ABOUT['title']}") in reader.attributes


def test_publish_names_the_files_it_wrote(tmp_path: Path) -> None:
    paths = publish(finished_run(tmp_path))
    assert [path.name for path in paths] == [
        *("report.html", "regret.png", "regret.svg", "summary.json", "curves.parquet", "eliminations.jsonl"),
        "experiment.json",
    ]
    assert all(path.is_file() for path in paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*(path.name for path in paths), "parts"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        {"eliminate": False},
        {"seeds": 1},
        {"selectors": [], "eliminate": False},
        {"learners": ["only"], "eliminate": False},
    ],
)
def test_every_shape_of_a_run_gets_a_report(tmp_path: Path, shape: dict[str, Any]) -> None:
    publish(finished_run(tmp_path, **shape))
    text = read(tmp_path / "report.html").text
    eliminated = shape.get("eliminate", True)
    assert ("No learner was eliminated: the rewards contradict no bound." in text) != eliminated
    assert ("± is one standard error over seeds." in text) == (shape.get("seeds", 3) > 1)


def test_records_of_several_kinds_are_described_each_in_its_own_words(tmp_path: Path) -> None:
    """The reported fault: a table gave every record the fields of all kinds, empty, and the report failed."""
    results = finished_run(tmp_path, seeds=1)
    (plain, *_) = results.records
    epoch = {"rounds": 9, "reward_sum": 1.0, "regret_bound": 1.0, "radius": 1.0, "mean_upper": 1 / 3}
    ended = plain | {
        "learner": {"index": 1, "name": plain["learner"]["name"]},
        "epoch": epoch,
        "witness": {"index": 0, "name": "first", "lower_sum": 4.5, "mean_lower": 0.5},
    }
    folder = tmp_path / "both"
    folder.mkdir()
    for name in ("experiment.json", "summary.json", "curves.parquet"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    lines = "".join(json.dumps(record) + "\n" for record in (plain, ended))
    (folder / "eliminations.jsonl").write_text(lines, encoding="utf-8")
    loaded = load_results(folder)
    assert loaded.records == (plain, ended) and loaded.eliminations["epoch"].null_count() == 1
    write_report(loaded, save_figure(regret_figure(loaded), folder / "regret.png"), folder / "report.html")
    text = read(folder / "report.html").text
    assert describe_elimination(plain) in text
    assert "if the confidence sets of the witnesses hold" in text


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    nasty = "<script>alert('x')</script>&amp;\"{body}{title}"
    results = finished_run(tmp_path, learners=[nasty, "other"], selectors=[f"{nasty} selector"])
    for key in ABOUT:
        results.experiment[key] = f"{nasty} {key}"
    results.experiment["settings"]["size"] = nasty
    results.experiment["settings"][nasty] = nasty
    write_report(results, save_figure(regret_figure(results), tmp_path / "regret.png"), tmp_path / "report.html")
    reader = read(tmp_path / "report.html")
    assert "script" not in reader.tags
    assert reader.text.count("<script>") >= 10
    assert '"{body}{title} claim' in reader.text


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (0.0, 0.0, "0.00 ± 0.00"),
        (0.0, None, "0.00"),
        (1.234, 0.056, "1.23 ± 0.06"),
        (99.94, 5.0, "99.9 ± 5.0"),
        (123456.7, 89.1, "123,457 ± 89"),
        (0.0001234, 0.00001, "0.000123 ± 1e-05"),
    ],
)
def test_numbers_keep_sensible_digits(mean: float, error: float | None, text: str) -> None:
    assert with_error(mean, error) == text


def test_tables_have_a_cell_for_every_column(tmp_path: Path) -> None:
    summary = finished_run(tmp_path).summary
    table = overview(summary)
    assert [(table.marks.get(i, ""), row[0]) for i, row in enumerate(table.rows)] == [
        *(("", name) for name in LEARNERS),
        *(("selector", name) for name in SELECTORS),
    ]
    assert tuple(table.head[1:]) == COLUMNS and all(len(row) == len(table.head) for row in table.rows)
    assert table.rows[3][5:7] == ("small 3/3", "0 of 3")
    assert table.rows[3][2:4] == ("1.98 ± 0.02", "0.98")
    assert table.rows[4][5] == "none"
    assert table.rows[0][2:7] == ("",) * 5
    shares = plays(summary)
    assert tuple(shares.head[1:]) == tuple(LEARNERS)
    assert [row[1:] for row in shares.rows] == [("16.7 %", "50.0 %", "33.3 %"), ("33.4 %", "33.3 %", "33.3 %")]


def test_command_line_repeats_the_settings() -> None:
    """What the report prints is parsed back by the real command line."""
    chosen = settings(size=5, label="a 'b' $c", flag=True, nothing=None, spread=[1, 2])
    defaults = {**settings(), "flag": True}
    words = shlex.split(command_line(chosen, defaults, selectors=("balanced-a", "balanced-b", "balanced-c")))
    assert words[:3] == ["equipoise", "run", "made-up"]
    command = get_command(application()).commands["run"]  # type: ignore[attr-defined]  # the app is a group of commands
    values = command.make_context("run", words[2:]).params
    assert values["rounds"] == 1000
    assert values["seeds"] == 3
    assert values["selectors"] == "balanced-a,balanced-b"
    assert values["settings"] == ["size=5", "label=\"a 'b' $c\"", "nothing=null", "spread=[1, 2]"]


def test_command_line_leaves_out_what_is_default() -> None:
    assert command_line(settings(), settings(), SELECTORS) == "equipoise run made-up --rounds 1000 --seeds 3"
