"""Schemas in journals: kills, restarts with a file that has grown, redaction, replay; and lists of earlier releases."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.config import parse
from equipoise.errors import InvalidArgument, StoreConflict
from equipoise.features import Category, Number, Offers, Schema
from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.learners import OFUL, UCB
from equipoise.logs import open_log
from tests.journal.golden import copy_of_killed, journal_of

FILE: dict[str, Any] = {
    "version": 1,
    "name": "shop",
    "actions": {"names": ["red", "blue"]},
    "context": {"device": {"type": "category", "values": ["phone", "tv"]}, "age": {"type": "number"}},
    "learner": [{"use": "OFUL"}, {"use": "OFUL", "scale": 0.1, "name": "bold"}, {"use": "UCB", "arms": 2}],
}
GROWN: dict[str, Any] = {
    **FILE,
    "context": {
        "vip": {"type": "flag"},
        "device": {"type": "category", "values": ["phone", "tv", "car"]},
        "age": {"type": "number"},
    },
    "learner": [*FILE["learner"], {"use": "OFUL", "name": "late"}],
}


def made(file: dict[str, Any]) -> Any:
    return lambda: parse(file).portfolio()


def play(live: Any, rounds: int, start: int = 0) -> None:
    for t in range(start, start + rounds):
        context = {"device": ["phone", "tv"][t % 2], "age": 20 + t % 30}
        decision = live.decide(context, id=f"visit {t}" if t % 4 == 0 else None)
        if t % 5:
            live.learn(decision, float(decision.action == t % 2))


@pytest.mark.parametrize("rounds", [0, 1, 29, 30, 31, 60])
def test_a_killed_portfolio_is_the_one_that_goes_on(rounds: int, tmp_path: Path) -> None:
    """Killed before, at and after the round that fixes the scale."""
    path, killed = tmp_path / "shop.db", tmp_path / "killed.db"
    with equipoise.open(path, made(FILE)) as live:
        play(live, rounds)
        copy_of_killed(path, killed)
        expected = digest(live._portfolio)
        play(live, 40, rounds)
        scales = live.schema.layouts[0].scales
    journal = SQLiteJournal(killed, create=False)
    for way in (rebuild, recover):
        portfolio = way(journal).portfolio
        assert digest(portfolio) == expected
        play(portfolio, 40, rounds)
        assert portfolio.schema is not None and portfolio.schema.layouts[0].scales == scales
    assert set(scales) == {"age"}
    journal.close()


def test_a_file_that_adds_features_is_applied_and_its_learners_keep_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, made(FILE)) as live:
        play(live, 40)
        before = live.schema.shared_columns
    for rounds in range(3):  # the last two find nothing to change
        with equipoise.open(path, made(GROWN)) as live:
            assert live.schema.shared_columns == (*before, "vip", "vip missing", "device=car")
            assert live.schema.layouts[0].scales
            assert live.learner_names == ("OFUL", "bold", "UCB", "late")
            decision = live.decide({"device": "car", "vip": True, "age": 3}, available=["late"])
            live.learn(decision, 1.0)
            assert decision.learner_name == "late"
            live.close(snapshot=rounds == 1)
    kinds = [event.kind for event in SQLiteJournal(path, create=False).read(1) if event.kind == "config"]
    assert len(kinds) == 2  # the schema, and the names of the learners
    with equipoise.open(path) as live:
        dims = [learner.dim for learner in live._portfolio.learners if isinstance(learner, OFUL)]
        assert dims[0] == dims[1] < dims[2]
    with pytest.raises(StoreConflict, match=r"schema is Schema.*, but must keep 'vip' of its context as Flag"):
        equipoise.open(path, made(FILE))


class Own(OFUL):
    """Not registered, so that a start takes it from the declaration."""


def test_own_learners_keep_their_columns_while_the_schema_grows(tmp_path: Path) -> None:
    def declared(*more: str) -> Any:
        context = {name: {"type": "flag"} for name in ("vip", *more)}
        return lambda: Portfolio([Own(name="own"), UCB(2)], schema=Schema(context), action_names=["a", "b"])

    path, dims = tmp_path / "shop.db", set()
    for more in ((), (), ("new",), ("new",), ("new", "newer")):
        with equipoise.open(path, declared(*more)) as live:
            live.learn(live.decide({"vip": True}, available=["own"]), 1.0)
            dims.add(live._portfolio.learners[0].dim)
    assert dims == {2 + 2 * 2}


def test_a_learner_that_no_longer_follows_the_schema_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    equipoise.open(path, made(FILE)).close()
    shared = {"use": "Shared", "columns": ["age"]}
    ids = {"use": "OneHot", "ids": ["red", "blue"]}
    stated = {"use": "OFUL", "name": "OFUL", "features": {"use": "Interactions", "left": ids, "right": shared}}
    bound = {"use": "OFUL", "name": "OFUL", "action_bound": 9.0}
    for other in (stated, bound):
        with pytest.raises(StoreConflict, match="learner 'OFUL' has other settings"):
            equipoise.open(path, made({**FILE, "learner": [other, *FILE["learner"][1:]]}))
    explicit = tmp_path / "explicit.db"
    file = {**FILE, "learner": [stated, *FILE["learner"][1:]]}
    for _ in range(2):
        with equipoise.open(explicit, made(file)) as live:
            play(live, 3)


def naming(*columns: str) -> dict[str, Any]:
    """A learner that names columns."""
    ids = {"use": "OneHot", "ids": ["red", "blue"]}
    shared = {"use": "Shared", "columns": list(columns)}
    return {
        "use": "OFUL",
        "name": "-".join(columns),
        "features": {"use": "Interactions", "left": ids, "right": shared},
    }


def named_columns(live: Any) -> dict[str, list[str]]:
    """The columns that learners see, by their names in the schema."""
    found = {}
    for name, learner in zip(live.learner_names, live._portfolio.learners, strict=True):
        followed: Any = learner.features if isinstance(learner, OFUL) else None
        if followed is not None and followed.stated is not None:
            found[name] = [live.schema.shared_columns[k] for k in followed.features.right.numbers]
    return found


def test_learners_that_name_columns_keep_these_and_new_ones_get_theirs(tmp_path: Path) -> None:
    """In the file that has grown, the columns come in another order than in the journal."""
    path = tmp_path / "shop.db"
    devices = ["device=phone", "device=tv", "device unknown", "device missing"]
    first = {"age": ["age", "age missing"], "device": devices}
    begun = {**FILE, "learner": [naming("age"), naming("device"), *FILE["learner"]]}
    grown = {**GROWN, "learner": [*begun["learner"], naming("vip", "age"), naming("device", "vip missing")]}
    after = {**first, "vip-age": ["vip", "vip missing", "age", "age missing"]}
    after["device-vip missing"] = ["device=phone", "device=tv", "device=car", *devices[2:], "vip missing"]
    for n, (file, expected) in enumerate(((begun, first), (begun, first), (grown, after), (grown, after))):
        with equipoise.open(path, made(file)) as live:
            play(live, 20, 20 * n)
            assert named_columns(live) == expected
            bounds = {learner.action_bound for learner in live._portfolio.learners if isinstance(learner, OFUL)}
            assert 1.0 in bounds and max(bounds) < 2.5
    journal = SQLiteJournal(path, create=False)
    assert digest(rebuild(journal).portfolio) == digest(recover(journal).portfolio)
    other = {**naming("vip", "age"), "name": "age"}
    with pytest.raises(StoreConflict, match="learner 'age' has other settings"):
        equipoise.open(path, made({**grown, "learner": [other, *grown["learner"][1:]]}))


def test_redaction_removes_values_that_were_seen(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, made(FILE)) as live:
        play(live, 10)
        live.learn("visit 0", 1.0)
        assert live.redact(ids=["visit 0"]) > 0
    (event,) = [each for each in SQLiteJournal(path, create=False).of_decision("visit 0") if each.kind == "decided"]
    assert event.data["context"] is event.data["seen"] is event.data["digest"] is None


def test_a_journal_is_a_log_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, made({**FILE, "explore": 0.2})) as live:
        play(live, 50)
    log = open_log(str(path))
    assert log.n_rounds == 40 and log.n_skipped == 0


def test_a_schema_is_declared_with_a_portfolio_or_never(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    equipoise.open(path, lambda: Portfolio([UCB(2)])).close()
    with pytest.raises(StoreConflict, match=r"schema is Schema.*, but must stay None"):
        equipoise.open(path, lambda: Portfolio([UCB(2)], schema=Schema({"age": Number()})))


@pytest.mark.parametrize("number", [1, 2])
def test_lists_of_earlier_releases_are_numbers_with_the_same_columns(number: int, tmp_path: Path) -> None:
    """The rules were: a column has the value as it is, a missing name counts as 0, and an unknown one is an error."""
    path = Path(shutil.copy(journal_of("contexts", number=number), tmp_path / "journal.db"))
    wanted = Schema({"age": Number(scaled=False, missing="zero")})
    with equipoise.open(path) as live:
        assert live.settings.schema == live.declared.schema == live.schema == wanted
        offers: list[Any] = [{"id": "red", "features": [0.5, 0.1, 0.2]}, {"id": "blue", "features": [0.1, 0.1, 0.2]}]
        decision = live.decide({"age": 17}, offers=offers)
        columns = Offers([each["features"] for each in offers], [17.0], ["red", "blue"])
        assert live.open_decisions()[decision.id][1] == columns
        assert live.schema.offers({}, ids=["red"]).shared.tolist() == [0.0]
        with pytest.raises(LookupError, match="feature of context 'aeg' is unknown; did you mean age"):
            live.decide({"aeg": 17}, offers=[{"id": "red"}])
        names = live.settings.action_names
    file = {"use": "UCB", "arms": 3}
    with pytest.raises(InvalidArgument, match=r"features of \[context\] is a list, as earlier releases had it"):
        parse({"version": 1, "name": "x", "context": {"features": ["age"]}, "learner": [file]})
    table = {"type": "number", "scaled": False, "missing": "zero"}  # what this message says
    content = {"version": 1, "name": "x", "context": {"age": table}, "learner": [file]}
    assert parse(content).settings.schema == wanted and names == ("red", "blue", "green")


def test_an_open_category_and_a_text_keep_their_places(tmp_path: Path) -> None:
    """Hashes of another process are the same: they do not depend on the hash seed of Python."""
    schema = Schema({"city": Category(hashed=8)}, unknown="hash", hashed=4)
    shared = schema.offers({"city": "Lisbon", "note": "hello"}, ids=["a"]).shared
    assert shared is not None
    assert np.flatnonzero(shared).tolist() == PLACES


PLACES = [1, 10]
