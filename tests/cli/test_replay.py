"""`equipoise replay`: files, tables and exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from equipoise.cli import main
from equipoise.logs import from_arrays
from equipoise.logs.tables import write_parquet
from tests.logs.generate import event, linear_truth, write_lines

CONFIG = """
version = 1
name = "ranking"
[[learner]]
use = "OFUL"
dim = 3
name = "right"
[[learner]]
use = "OFUL"
dim = 1
name = "small"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "portfolio.toml"
    path.write_text(CONFIG)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["replay", *map(str, arguments)])
    return int(caught.value.code or 0)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["progressive", "rejection"])
def test_a_whole_replay(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str], method: str) -> None:
    write_parquet(linear_truth(2_000, 1).log(times=1.7e9 + np.arange(2_000)), tmp_path / "log.parquet")
    out = tmp_path / "out"
    assert run(tmp_path / "log.parquet", "--config", config, "--out", out, "--method", method) == 0
    printed = capsys.readouterr().out
    assert "log.parquet: 2,000 rounds, 4 actions" in printed
    assert printed.index("logging policy") < printed.index("\nright") < printed.index("\nsmall")
    assert 'bound = { use = "Power", coefficient = ' in printed
    assert sorted(path.name for path in out.iterdir()) == ["replay.json", "replay.png", "replay.svg", "report.html"]
    data = json.loads((out / "replay.json").read_text())
    assert (data["version"], data["method"], data["ranking"]) == (1, method, ["right", "small"])
    assert data["health"]["passed"] and data["portfolio"]["learners"] == ["right", "small"]
    assert data["learners"][0]["interval"]["name"] == "time_uniform"
    assert "95 % time-uniform" in printed and "at all times, for the mean over the rounds so far" in printed
    assert data["learners"][0]["value"] > data["learners"][1]["value"]
    page = (out / "report.html").read_text()
    assert "<svg" in page and "http" not in page.replace("http-equiv", "")
    for line in printed.splitlines():
        if line.strip().startswith("bound ="):
            assert line.strip() in page.replace("&quot;", '"')


@pytest.mark.compiled
def test_a_log_that_never_takes_the_actions_of_the_learners(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There are no values, and the table, the page and the data say why."""
    truth = linear_truth(300, 1)
    certain = np.eye(4)[truth.actions]
    write_parquet(truth._replace(pmf=certain).log(), tmp_path / "log.parquet")
    assert run(tmp_path / "log.parquet", "--config", config, "--out", tmp_path / "out") == 0
    printed, page = capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()
    for text in (printed, page):
        assert "takes an action of probability 0 in the log, first in row" in text
        assert "not replayed by rejection: the log has probabilities 0" in text
    assert "On 300 logged rounds, no learner has a value." in page and "nan" not in page
    data = json.loads((tmp_path / "out" / "replay.json").read_text())
    assert data["portfolio"] is None and data["learners"][0]["unsupported_row"] >= 1
    assert data["learners"][0]["estimates"] == {} and data["learners"][0]["value"] is None


@pytest.mark.compiled
def test_a_log_with_wrong_propensities_exits_with_1(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = linear_truth(2_000, 1)
    wrong = from_arrays(truth.contexts, truth.actions, truth.rewards, np.minimum(1.4 * truth.propensities, 1.0))
    write_parquet(wrong, tmp_path / "log.parquet")
    assert run(tmp_path / "log.parquet", "--config", config, "--out", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert "FAILED  importance weights" in captured.out
    assert captured.err == "equipoise: log.parquet fails its health check\n"
    assert "fails its health check" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "'none.json' could not be read: No such file or directory"),
        (["bad.json", "--skip-bad-rows", "-1"], "skip_bad_rows is -1"),
        (["bad.json", "--method", "guess"], "--method is 'guess', but must be one of progressive, rejection"),
        (["bad.json", "--format", "xml"], "format is 'xml'"),
        (["bad.json", "--config", "none.toml"], "'none.toml' could not be read"),
    ],
)
def test_wrong_input_is_one_line_and_exits_with_2(
    tmp_path: Path,
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "bad.json", [event(), event(a=None)])
    given = arguments if "--config" in arguments else [*arguments, "--config", config]
    assert run(*given, "--out", tmp_path / "out") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"equipoise: {message}") and captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_faulty_rows_are_listed_one_by_one(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "bad.json", [event(), event(a=None), event(_label_cost=None)])
    assert run(tmp_path / "bad.json", "--config", config, "--out", tmp_path / "out", "--skip-bad-rows", 1) == 2
    assert capsys.readouterr().err.splitlines() == [
        "equipoise: bad.json has 2 faulty rows, and nothing was used:",
        "  row 2: a and p must both be there, with one probability for each action",
        "  row 3: _label_cost is missing, but every event must have its cost",
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.compiled
def test_skipped_rows_are_counted_in_the_report(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = np.random.default_rng(0).normal(size=(60, 2, 3)) / 10
    lines = [
        event(t % 2, c={"_multi": [{"x": row.tolist()} for row in features[t]]}, EventId=f"event {t}")
        for t in range(60)
    ]
    path = write_lines(tmp_path / "log.json", [*lines, "{"])
    assert run(path, "--config", config, "--out", tmp_path / "out", "--skip-bad-rows", 1) == 0
    assert "1 faulty rows skipped" in capsys.readouterr().out
    assert "1 faulty rows were skipped" in (tmp_path / "out" / "report.html").read_text()
    data = json.loads((tmp_path / "out" / "replay.json").read_text())
    assert data["skipped_rows"]["count"] == 1 and data["skipped_rows"]["first"][0]["row"] == 61


def test_an_interruption_keeps_nothing_and_says_so(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.logs.open_log", interrupted)
    assert run(tmp_path / "log.csv", "--config", config, "--out", tmp_path / "out") == 130
    assert capsys.readouterr().err == "equipoise: interrupted\n"
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_a_folder_is_refused_before_the_work(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "log.csv", "--config", config, "--out", config) == 2
    assert capsys.readouterr().err == f"equipoise: --out is {str(config)!r}, but must be a folder\n"
