"""Readers and writers of logs, each against plain Python that reads the same file."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.features import Category, Number, Schema
from equipoise.logs import LoggedRounds, Rounds, from_arrays, from_bandit_feedback, open_log
from equipoise.logs import dsjson as dsjson_module
from equipoise.logs.formats import detect
from equipoise.logs.rounds import contexts
from equipoise.logs.tables import write_parquet
from tests.logs.generate import event, linear_truth, write_lines
from tools.dsjson import write_dsjson


def joined(log: LoggedRounds) -> Rounds:
    columns = zip(*log, strict=True)
    return Rounds(*(None if each[0] is None else np.concatenate(each) for each in columns))  # type: ignore[arg-type]


def assert_same(one: LoggedRounds, other: LoggedRounds) -> None:
    for name, mine, theirs in zip(Rounds._fields, joined(one), joined(other), strict=True):
        if name not in ("ids", "rows", "offer_ids", "contexts"):
            assert mine is not None and theirs is not None
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("format", ["dsjson", "parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, format: str) -> None:
    log = linear_truth(300, seed=1).log(times=1.7e9 + np.arange(300))
    path = tmp_path / f"log.{format}"
    {"dsjson": write_dsjson, "parquet": write_parquet}[format](log, path)
    again = open_log(path)
    assert detect(path) == format
    assert_same(log, again)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@settings(max_examples=20)
@given(
    offered=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    dim=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_offers_of_different_sizes_survive_both_formats(
    tmp_path_factory: pytest.TempPathFactory, offered: list[int], dim: int, seed: int
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("log")
    events = []
    for n_actions in offered:
        multi = [{"x": rng.random(dim).tolist()} for _ in range(n_actions)]
        p = [1.0] if n_actions == 1 else [0.5, *[0.5 / (n_actions - 1)] * (n_actions - 1)]
        changes = {"c": {"_multi": multi}, "p": p, "_label_probability": p[0]}
        action = int(rng.integers(n_actions))
        events.append(event(action, n_actions, **changes) if n_actions > 1 else one_offer(changes))
    log = open_log(write_lines(folder / "log.json", events))
    rounds = joined(log)
    assert rounds.n_offered.tolist() == offered
    for i, each in enumerate(events):
        expected = [offer["x"] for offer in each["c"]["_multi"]]
        np.testing.assert_array_equal(rounds.offers[i, : offered[i]], expected)
        assert (rounds.offers[i, offered[i] :] == 0.0).all()
    write_parquet(log, folder / "log.parquet")
    assert_same(log, open_log(folder / "log.parquet"))


def one_offer(changes: dict) -> dict:
    return {**event(0, 2), **changes, "a": [1]}


def plain_dsjson(path: Path) -> list[tuple]:
    """Reads a dsjson file the slow and obvious way."""
    rows = []
    for line in path.read_text().splitlines():
        each = json.loads(line)
        pmf = {action - 1: p for action, p in zip(each["a"], each["p"], strict=True)}
        offers = [
            {f"{ns}^{name}": value for ns, features in offer.items() for name, value in features.items()}
            for offer in each["c"]["_multi"]
        ]
        rows.append((each["_labelIndex"], -each["_label_cost"], each["_label_probability"], pmf, offers))
    return rows


@pytest.mark.slow
def test_dsjson_agrees_with_a_plain_reader_while_features_come_and_go(tmp_path: Path) -> None:
    """Also across the borders of batches, and with lines that need the general decoder in the middle."""
    rng = np.random.default_rng(3)
    events = []
    for t in range(dsjson_module.BATCH_LINES + 50):
        names = ["price", "age", "late"] if t > 2_000 else ["price", "age"]
        multi = [{"ad": {name: float(rng.random()) for name in names[: rng.integers(1, 4)]}} for _ in range(3)]
        events.append(event(int(rng.integers(3)), 3, c={"_multi": multi}, p=[0.5, 0.25, 0.25]))
    path = write_lines(tmp_path / "log.json", events)
    log = open_log(path)
    rounds, columns = joined(log), log.offer_names
    assert sorted(columns) == ["ad^age", "ad^late", "ad^price"]
    for i, (action, reward, p, pmf, offers) in enumerate(plain_dsjson(path)):
        assert (rounds.actions[i], rounds.rewards[i], rounds.propensities[i]) == (action, reward, p)
        assert {k: rounds.pmf[i, k] for k in range(3)} == pmf
        np.testing.assert_array_equal(
            rounds.offers[i], [[offer.get(name, 0.0) for name in columns] for offer in offers]
        )


def test_lists_of_other_lengths_stay_with_their_own_offer(tmp_path: Path) -> None:
    """Also where the numbers of all offers together are as many as they were before."""
    lists = [([1.0, 2.0], [3.0, 4.0]), ([5.0, 6.0, 7.0], [8.0])]
    events = [event(c={"_multi": [{"ad": one}, {"ad": other}]}) for one, other in lists]
    offers = joined(open_log(write_lines(tmp_path / "log.dsjson", events))).offers
    assert offers.tolist() == [[[1, 2, 0], [3, 4, 0]], [[5, 6, 7], [8, 0, 0]]]


def test_dsjson_of_strings_drops_and_left_out_events(tmp_path: Path) -> None:
    multi = [{"ad": {"price": 2}}, {"ad": {"brand": "A"}}]
    other = {"user": {"city": "Bern", "new": True}, "_tag": "x", "_multi": multi}
    lines = [event(), event(1, c=other, pdrop=0.75), event(_skipLearn=True), event(EventId=None, Timestamp=None)]
    log = open_log(write_lines(tmp_path / "log.json", lines))
    assert (log.n_rounds, log.n_excluded) == (3, 1)
    assert log.shared_names == ("user^age", "user^city=Bern", "user^new")
    assert log.offer_names == ("ad^price", "ad^brand=A")
    rounds = joined(log)
    assert rounds.weights.tolist() == [1.0, 4.0, 1.0]
    assert rounds.shared.tolist() == [[0.25, 0.0, 0.0], [0.0, 1.0, 1.0], [0.25, 0.0, 0.0]]
    assert rounds.offers[1].tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert rounds.rows.tolist() == [1, 2, 4]
    assert rounds.times[0] == 1793491200.0 and np.isnan(rounds.times[2])
    assert rounds.ids[0] == rounds.ids[1] != rounds.ids[2] == 0


# One line in the form of Azure Personalizer, whose actions have their ids in `i` and their features in `j`.
PERSONALIZER = {
    "_label_cost": -0.5,
    "_label_probability": 0.85,
    "_label_Action": 2,
    "_labelIndex": 1,
    "o": [{"v": 0.5, "EventId": "75269AD0", "ActionTaken": False}],
    "Timestamp": "2026-02-04T16:31:29.2460000Z",
    "Version": "1",
    "EventId": "75269AD0",
    "a": [2, 1, 3],
    "c": {
        "FromUrl": [{"timeOfDay": "Morning", "user": {"age": 30, "plan": {"paid": True}}}, {"load": [0.25, 2]}],
        "_multi": [
            {"_tag": "News", "i": {"constant": 1, "id": "News"}, "j": [{"type": "text"}, {"length": 3}]},
            {"_tag": "Sports", "i": {"constant": 1, "id": "Sports"}, "j": [{"type": "video"}]},
            {"_tag": "Music", "i": {"constant": 1, "id": "Music"}, "j": [{"price": {"amount": 9.5}}]},
        ],
    },
    "p": [0.85, 0.075, 0.075],
    "VWState": {"m": "ff0744c1/550c12cb"},
    "_original_label_cost": -0.5,
}


def test_dsjson_of_azure_personalizer(tmp_path: Path) -> None:
    skipped = {**PERSONALIZER, "_skipLearn": True, "EventId": "not activated"}  # deferred, and never activated
    log = open_log(write_lines(tmp_path / "log.json", [PERSONALIZER, skipped, PERSONALIZER]))
    assert (detect(tmp_path / "log.json"), log.n_rounds, log.n_excluded) == ("dsjson", 2, 1)
    rounds = joined(log)
    assert log.shared_names == ("FromUrl^timeOfDay=Morning", "user^age", "plan^paid", "load^0", "load^1")
    assert rounds.shared.tolist() == [[1.0, 30.0, 1.0, 0.25, 2.0]] * 2
    assert log.offer_names == (
        *("i^constant", "i^id=News", "j^type=text", "j^length", "i^id=Sports", "j^type=video", "i^id=Music"),
        "price^amount",
    )
    assert rounds.offers[0].tolist() == [
        [1.0, 1.0, 1.0, 3.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 9.5],
    ]
    assert (rounds.actions[0], rounds.rewards[0], rounds.propensities[0]) == (1, 0.5, 0.85)
    assert rounds.pmf[0].tolist() == [0.075, 0.85, 0.075]


def test_a_schema_makes_the_columns_that_the_service_makes(tmp_path: Path) -> None:
    """Of the features that the log line was made of."""
    for schema in (
        Schema(unknown="hash", hashed=8),
        Schema({"user": {"age": Number(0, 100)}}, {"type": Category(["text", "video"])}, unknown="ignore"),
    ):
        log = open_log(write_lines(tmp_path / "log.json", [PERSONALIZER]), schema=schema)
        context = {"timeOfDay": "Morning", "user": {"age": 30, "plan": {"paid": True}}, "load": [0.25, 2]}
        rows: list[dict[str, Any]] = [{"type": "text", "length": 3}, {"type": "video"}, {"price": {"amount": 9.5}}]
        if schema.unknown == "hash":
            rows = [{"id": id_, **row} for id_, row in zip(("News", "Sports", "Music"), rows, strict=True)]
        expected, rounds = schema.offers(context, rows), joined(log)
        assert (log.shared_names, log.offer_names) == (schema.shared_columns, schema.action_columns)
        np.testing.assert_array_equal(rounds.offers[0], expected.actions)
        np.testing.assert_array_equal(rounds.shared[0], expected.shared)
        assert np.abs(expected.actions).sum() > 0
    declared = Schema({"user": {"age": Number(0, 100)}})
    with pytest.raises(InvalidArgument, match="row 1: feature of context 'timeOfDay' is unknown"):
        open_log(tmp_path / "log.json", schema=declared)


def test_text_of_vowpal_wabbit(tmp_path: Path) -> None:
    lines = ["shared |user age:2 new", "|ad price:0.5", "0:-1:0.25 |ad:2 price:1 |b x", "", "0:0.5:1 |ad price:3", ""]
    path = write_lines(tmp_path / "log.txt", lines)
    log = open_log(path)
    assert detect(path) == "vw"
    rounds = joined(log)
    assert (log.shared_names, log.offer_names) == (("user^age", "user^new"), ("ad^price", "b^x"))
    assert rounds.n_offered.tolist() == [2, 1]
    assert rounds.actions.tolist() == [1, 0]
    assert rounds.rewards.tolist() == [1.0, -0.5]
    assert rounds.propensities.tolist() == [0.25, 1.0]
    assert rounds.shared.tolist() == [[2.0, 1.0], [0.0, 0.0]]
    assert rounds.offers.tolist() == [[[0.5, 0.0], [2.0, 1.0]], [[3.0, 0.0], [0.0, 0.0]]]
    assert rounds.rows.tolist() == [1, 5]


def test_csv_agrees_with_the_csv_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines, so that rows and values cross their borders."""
    monkeypatch.setattr("equipoise.logs.tables.BLOCK_BYTES", 64)
    rng = np.random.default_rng(0)
    rows = [
        [["left", "right"][rng.integers(2)], rng.integers(2), 0.5, rng.random(), ["a", "b,c", "d"][rng.integers(3)]]
        for _ in range(50)
    ]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["action", "reward", "propensity", "age", "city"], *rows])
    log = open_log(path)
    rounds = joined(log)
    values = log.shared_names[1:]
    for i, (action, reward, p, age, city) in enumerate(rows):
        assert log.action_names[rounds.actions[i]] == action
        assert (rounds.rewards[i], rounds.propensities[i], rounds.shared[i, 0]) == (reward, p, age)
        assert values[int(rounds.shared[i, 1:].argmax())] == f"city={city}"
    assert rounds.shared[:, 1:].sum(axis=1).tolist() == [1.0] * 50
    assert rounds.rows.tolist() == list(range(2, 52))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_feature_may_be_called_row(tmp_path: Path, format: str) -> None:
    """It was taken for the number of the row, and lost."""
    frame = pl.DataFrame({"row": [0.25, 0.5], "action": [0, 1], "reward": [0.0, 1.0], "propensity": [0.5, 0.5]})
    path = tmp_path / f"log.{format}"
    frame.write_csv(path) if format == "csv" else frame.write_parquet(path)
    assert open_log(path).shared_names == ("row",)


def test_open_bandit_columns(tmp_path: Path) -> None:
    head = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,user-item_affinity_1"
    rows = ["0,2019-11-24 00:00:03.8+00:00,1,3,0,0.25,x,0.5,0.0", "1,2019-11-24 00:00:05+00:00,0,1,1,0.75,y,0.0,2.0"]
    log = open_log(write_lines(tmp_path / "log.csv", [head, *rows]))
    rounds = joined(log)
    assert rounds.actions.tolist() == [1, 0]
    assert rounds.rewards.tolist() == [0.0, 1.0]
    assert rounds.offers.tolist() == [[[0.5], [0.0]], [[0.0], [2.0]]]
    assert log.shared_names == ("position=3", "position=1", "user_feature_0=x", "user_feature_0=y")
    assert rounds.times[1] - rounds.times[0] == pytest.approx(1.2)


def test_bandit_feedback() -> None:
    feedback = {
        "n_rounds": 3,
        "n_actions": 4,
        "context": np.arange(6.0).reshape(3, 2),
        "action": np.array([0, 1, 2]),
        "position": np.array([0, 1, 0]),
        "reward": np.array([1.0, 0.0, 1.0]),
        "pscore": np.array([0.5, 0.25, 0.25]),
        "action_context": np.eye(4),
    }
    log = from_bandit_feedback(feedback)
    rounds = joined(log)
    assert log.n_actions == 4
    assert rounds.shared.tolist() == [[0, 1, 1, 0], [2, 3, 0, 1], [4, 5, 1, 0]]
    np.testing.assert_array_equal(rounds.offers[2], np.eye(4))
    del feedback["pscore"]
    with pytest.raises(InvalidArgument, match="must have 'pscore'"):
        from_bandit_feedback(feedback)


def test_contexts_of_shared_features_are_nested() -> None:
    log = from_arrays([[2.0, 3.0], [5.0, 7.0]], [0, 1], [1.0, 0.0], [0.5, 0.5])
    (batch,) = log
    full = contexts(batch)
    assert log.n_columns == 6
    assert full[0].tolist() == [[1, 0, 2, 0, 3, 0], [0, 1, 0, 2, 0, 3]]
    assert full[1].tolist() == [[1, 0, 5, 0, 7, 0], [0, 1, 0, 5, 0, 7]]
    for columns in range(7):
        np.testing.assert_array_equal(contexts(batch, columns), full[:, :, :columns])


def test_contexts_of_offers_leave_out_what_is_not_offered(tmp_path: Path) -> None:
    text = ["shared |u a:2", "0:0:1 |x b:3", "", "shared |u a:4", "|x b:5", "0:0:1 |x b:6", ""]
    (batch,) = open_log(write_lines(tmp_path / "log.txt", text))
    assert contexts(batch).tolist() == [[[3, 2], [0, 0]], [[5, 4], [6, 4]]]


def test_more_actions_than_occur() -> None:
    log = from_arrays(None, [0, 1], [1.0, 0.0], [0.2, 0.2], n_actions=5)
    (batch,) = log
    assert batch.n_offered.tolist() == [5, 5] and contexts(batch).shape == (2, 5, 5)
    with pytest.raises(InvalidArgument, match="row 2: action is 1, but must be one of the 1 offered"):
        from_arrays(None, [0, 1], [1.0, 0.0], [0.2, 0.2], n_actions=1)
