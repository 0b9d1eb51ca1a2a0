"""Faulty logs: every fault is found, named with its row and its rule, and nothing is half read."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.logs import InvalidLog, LoggedRounds, from_arrays, open_log
from equipoise.logs.tables import write_parquet
from tests.logs.generate import event, linear_truth, write_lines

CSV = "action,reward,propensity,x"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (event(_label_probability=None), "_label_probability is missing"),
        (event(_label_cost=None), "_label_cost is missing"),
        (event(_labelIndex=None), "_label_Action and _labelIndex must both be there"),
        (event(_labelIndex=1), "the label is on the wrong action: _label_Action 1, a\\[0\\] 1 and _labelIndex 1"),
        (event(_label_Action=2), "the label is on the wrong action"),
        (event(a=None), "a and p must both be there"),
        (event(p=[0.5]), "a and p must both be there"),
        (event(a=[1, 3]), "a is \\[1, 3\\], but must have each of the 2 offered actions once"),
        (event(a=[1, 1]), "must have each of the 2 offered actions once"),
        (event(p=[0.5, 0.4]), "probabilities sum to 0.9, but must sum to 1"),
        (event(_label_probability=0.4), "_label_probability is 0.4, but must be p\\[0\\] = 0.5"),
        (event(p=[1.5, -0.5], _label_probability=1.5), "propensity is 1.5, but must lie in \\(0, 1\\]"),
        (event(p=[0.0, 1.0], _label_probability=0.0), "propensity is 0, but must lie in"),
        (event(c={"user": {"age": 1}}), "_multi of c is missing or empty"),
        (event(c=None), "_multi of c is missing or empty"),
        (event(pdrop=1.0), "pdrop is 1, but must lie in \\[0, 1\\)"),
        (event(c={"_multi": [{"ad": {"x": [[1]]}}, {}]}), "feature '0' of 'x' is .* but must be a number or a string"),
        (event(_label_cost="low"), "it is no dsjson event: .*str.*"),
        (json.dumps(event())[:-20], "it is no dsjson event"),
        (json.dumps(event()).replace("0.25", "NaN"), "numbers must be finite"),
        ("shared |user age:1", "it is no dsjson event"),
        ("0,1,0.5", "it is no dsjson event"),
    ],
)
def test_a_bad_event_of_dsjson(tmp_path: Path, line: Any, rule: str) -> None:
    """Behind good lines, so that the exact decoder meets it; and first, where only the general one exists."""
    for lines, row in (([event()] * 3 + [line], 4), ([line, event()], 1)):
        path = write_lines(tmp_path / "log.json", lines)
        with pytest.raises(
            InvalidLog, match=f"log.json has 1 faulty row, and nothing was used:\n  row {row}: .*{rule}"
        ):
            open_log(path, "dsjson")
        assert open_log(path, "dsjson", skip_bad_rows=1).n_rounds == len(lines) - 1


@pytest.mark.parametrize(
    ("lines", "row", "rule"),
    [
        (["shared 0:1:0.5 |u a", "|x b", ""], 1, "the event has 0 labels"),
        (["shared |u a", "|x b", "|x c", ""], 1, "the event has 0 labels, but must have one"),
        (["shared |u a", "0:1:0.5 |x b", "0:1:0.5 |x c", ""], 3, "the event has 2 labels"),
        (["0:1 |x b", ""], 1, "the label is '0:1', but must be action:cost:probability"),
        (["0:1:p |x b", ""], 1, "the label is '0:1:p'"),
        (["0:1:0.5 |x b", "shared |u a", ""], 2, "only the first line of an event may be one"),
        (["shared |u a", ""], 1, "the event has no line of an action"),
        (["0:1:0.5 |x b:much", ""], 1, "feature is 'b:much'"),
        (["0:1:0.5 |x b:nan", ""], 1, "the context has nan or infinite entries"),
        (["0:1:1.5 |x b", ""], 1, "propensity is 1.5"),
        (["0:1:0.5 |x b", json.dumps(event()), ""], 2, "must have features after a bar"),
    ],
)
def test_a_bad_event_of_text(tmp_path: Path, lines: list[str], row: int, rule: str) -> None:
    good = ["0:1:0.5 |x b", "|x c", ""]
    path = write_lines(tmp_path / "log.txt", [*lines, *good])
    with pytest.raises(InvalidLog, match=f"row {row}: .*{rule}"):
        open_log(path, "vw")
    assert open_log(path, "vw", skip_bad_rows=1).n_rounds == 1


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0,1,,0.5", "propensity is missing"),
        ("0,1,0,0.5", "propensity is 0, but must lie in"),
        ("0,1,2,0.5", "propensity is 2, but must lie in"),
        ("0,,0.5,0.5", "reward is None, but must be a finite number"),
        ("0,nan,0.5,0.5", "reward is nan, but must be a finite number"),
        ("0,inf,0.5,0.5", "reward is inf, but must be finite"),
        ("0,1,0.5,nan", "x is nan, but must be a finite number"),
        ("0,1,0.5,inf", "the context has nan or infinite entries"),
        ("0,1,0.5,much", "x is None, but must be a finite number"),
        ("-1,1,0.5,1", "action is -1, but must be one of"),
        ("0.5,1,0.5,1", "action is 0.5, but must be a whole number"),
        ("0,1", "it has 2 fields, but must have the 4 of the header"),
        (json.dumps(event()), "fields, but must have the 4 of the header"),
        ("", "it has 1 fields, but must have the 4 of the header"),
    ],
)
def test_a_bad_row_of_csv(tmp_path: Path, line: str, rule: str) -> None:
    path = write_lines(tmp_path / "log.csv", [CSV, *["0,1,0.5,0.25", "1,0,0.5,0.5"] * 10, line, "1,1,0.5,0.5"])
    with pytest.raises(InvalidLog, match=f"row 22: .*{rule}"):
        open_log(path)
    assert open_log(path, skip_bad_rows=1).n_rounds == 21


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0,1,0.5,0,0.5,0.5,,1,2,", "weight is 0, but must be positive and finite"),
        ("0,1,0.5,-1,0.5,0.5,,1,2,", "weight is -1, but must be positive and finite"),
        ("0,1,0.5,inf,0.5,0.5,,1,2,", "weight is inf, but must be positive and finite"),
        ("0,1,0.5,1,0.5,0.25,0.25,1,2,", "action 2 has probability 0.25, but only 2 actions are offered"),
        ("2,1,0.5,1,0.5,0.5,,1,2,", "action is 2, but must be one of the 2 offered, from 0"),
    ],
)
def test_a_row_with_wrong_weights_or_offers(tmp_path: Path, line: str, rule: str) -> None:
    header = "action,reward,propensity,weight,pmf.0,pmf.1,pmf.2,offers.0.x,offers.1.x,offers.2.x"
    good = ["0,1,0.5,1,0.5,0.5,,1,2,", "2,1,0.25,2,0.5,0.25,0.25,1,2,3"]
    path = write_lines(tmp_path / "log.csv", [header, *good, line])
    with pytest.raises(InvalidLog, match=f"row 4: {rule}"):
        open_log(path)
    assert open_log(path, skip_bad_rows=1).n_rounds == 2


def test_a_file_that_ends_in_the_middle_of_a_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{CSV}\n0,1,0.5,1\n1,1,0.")
    with pytest.raises(InvalidLog, match="row 3: it has 3 fields"):
        open_log(path)
    truth = linear_truth(50, 0).log()
    write_parquet(truth, tmp_path / "log.parquet")
    data = (tmp_path / "log.parquet").read_bytes()
    (tmp_path / "log.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(UnreadableFile, match=r"'.*log.parquet' is no complete Parquet file"):
        open_log(tmp_path / "log.parquet")


def test_only_the_first_ten_faults_are_listed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.csv", [CSV, *["0,1,0.5,1", "1,1,7,1"] * 15])
    with pytest.raises(InvalidLog) as caught:
        open_log(path)
    rows = [int(line.split()[1].rstrip(":")) for line in str(caught.value).splitlines()[1:-1]]
    assert rows == list(range(3, 22, 2))
    assert str(caught.value).endswith("and 5 more")
    assert "log.csv has 15 faulty rows" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(InvalidLog):
        open_log(path, skip_bad_rows=14)
    log = open_log(path, skip_bad_rows=15)
    assert (log.n_rounds, log.n_skipped, len(log.skipped)) == (15, 15, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": [0.0, 1.0]}, "actions has shape \\(2,\\) and type float64"),
        ({"rewards": [1.0]}, "rewards has shape \\(1,\\), but must have one entry for each of 2 actions"),
        ({"propensities": [0.5, math.nan]}, "row 2: propensity is missing"),
        ({"contexts": [[1.0, math.nan]] * 2}, "row 1: the context has nan"),
        ({"contexts": [1.0, 2.0]}, "contexts has shape \\(2,\\)"),
        ({"pmf": [[0.5, 0.6]] * 2}, "row 1: probabilities sum to 1.1"),
        ({"pmf": [[0.25, 0.75]] * 2}, "row 1: propensity is 0.5, but must be the probability 0.25"),
        ({"pmf": [[1.5, -0.5], [0.5, 0.5]], "propensities": [1.0, 0.5]}, "row 1: a probability is negative"),
        ({"actions": [0, 2], "n_actions": 2}, "row 2: action is 2, but must be one of the 2 offered"),
        ({"actions": np.empty(0, int), "rewards": [], "propensities": []}, "arrays has no rounds"),
    ],
)
def test_bad_arrays(changes: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"contexts": None, "actions": [0, 1], "rewards": [1.0, 0.0], "propensities": [0.5, 0.5]}
    assert isinstance(from_arrays(**valid), LoggedRounds)
    with pytest.raises(InvalidArgument, match=message):
        from_arrays(**{**valid, **changes})


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"none.csv' could not be read"):
        open_log(tmp_path / "none.csv")
    with pytest.raises(InvalidArgument, match=r"format of .* could not be told by its first line b'hello'"):
        open_log(write_lines(tmp_path / "log", ["hello"]))
    with pytest.raises(InvalidArgument, match="format is 'xml', but must be one of dsjson, vw, csv, parquet"):
        open_log(tmp_path / "log", "xml")
    with pytest.raises(InvalidArgument, match=r"has columns \['action', 'reward'\], but must have 'propensity'"):
        open_log(write_lines(tmp_path / "log.csv", ["action,reward", "0,1"]))
    with pytest.raises(InvalidArgument, match=r"log.csv has the column 'x' twice"):
        open_log(write_lines(tmp_path / "log.csv", [f"{CSV},x", "0,1,0.5,1,2"]))
    (tmp_path / "log.csv").write_bytes(b"\xc3\x28\n")
    with pytest.raises(InvalidArgument, match="but the header of a CSV file must be text"):
        open_log(tmp_path / "log.csv", "csv")
    with pytest.raises(InvalidArgument, match=r"log.csv has no rounds"):
        open_log(write_lines(tmp_path / "log.csv", [CSV]))


def test_a_log_that_changes_while_it_is_used(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.csv", [CSV, "0,1,0.5,1", "1,1,0.5,1"])
    log = open_log(path)
    write_lines(path, [CSV, "0,1,0.5,1", "1,1,,1"])
    with pytest.raises(InvalidLog, match="row 3: propensity is missing"):
        list(log)
    for lines in (["0,1,0.5,1"], ["0,1,0.5,1"] * 3):
        write_lines(path, [CSV, *lines])
        with pytest.raises(UnreadableFile, match=r"log.csv had 2 rounds when it was opened, but has (1|more) now"):
            list(log)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"old")
    good = list(linear_truth(5, 0).log())
    other = list(linear_truth(5, 0, dim=2).log())
    with pytest.raises(Exception, match="different columns"):
        write_parquet([*good, *other], path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]
