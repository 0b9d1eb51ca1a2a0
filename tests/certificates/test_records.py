"""Elimination records: each proves itself, no altered one does, however it was altered."""

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.bounds import Power
from equipoise.certificates.records import (
    comparison_record,
    describe_elimination,
    elimination_record,
    fields_in,
    kind_of,
    table_fields,
    verify_file,
    verify_record,
)
from equipoise.confidence import make_radius, radius_sum
from equipoise.errors import UnreadableFile
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import digest
from tests.certificates.alterations import leaves, require_alterations_rejected
from tests.certificates.ended_epochs import RECORDS as ENDS

NAMES = ["good", "poor", "worse"]


def eliminated_records(seed: int = 0, **settings: Any) -> list[dict[str, Any]]:
    """The records of a run with Bernoulli-like rewards in which two of three learners are eliminated."""
    chances = random.Random(seed)
    low, high = settings.get("reward_range", (0.0, 1.0))
    selector = BalancedElimination([Power((high - low) * c) for c in (1.0, 1.0, 1.5)], **settings)
    while len(selector.eliminations) < 2:
        choice = selector.choose()
        share = (0.9, 0.2, 0.1)[choice.learner]
        selector.credit(choice, high if chances.random() < share else low)
    return [
        elimination_record(e, selector_label="balanced", seed=seed, premises=selector.premises, learner_names=NAMES)
        for e in selector.eliminations
    ]


SETTINGS: list[dict[str, Any]] = [
    {"radius": "stitched"},
    {"radius": "paper", "delta": 0.1},
    {"contexts": "fixed", "radius_scale": 1.5},
    {"noise": 0.7, "reward_range": (-1.0, 3.0)},
    {"reward_range": (1000.0, 1000.5), "delta": 0.001},
]
RECORDS = [record for seed, settings in enumerate(SETTINGS) for record in eliminated_records(seed, **settings)]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_proves_itself_before_and_after_a_trip_through_json(record: dict[str, Any]) -> None:
    assert verify_record(record) == []
    again = json.loads(json.dumps(record))
    assert again == record
    assert verify_record(again) == []


def test_record_has_the_published_fields() -> None:
    record = RECORDS[0]
    assert set(record) == {
        *("version", "selector", "seed", "round", "delta", "alpha", "radius", "radius_scale", "reward_range"),
        *("n_learners", "noise", "contexts", "shares", "learner", "witness", "digest"),
    }
    assert set(record["learner"]) == {
        *("index", "name", "plays", "reward_sum", "regret_bound", "radius", "mean_upper", "spread"),
    }
    assert set(record["witness"]) == {"index", "name", "plays", "reward_sum", "radius", "mean_lower", "spread"}
    assert record["version"] == 1
    assert record["alpha"] == record["delta"] / (2 * (3 + 1))


@pytest.mark.parametrize("record", [RECORDS[0], eliminated_records(radius="mixture")[0], ENDS[0]])
def test_a_record_has_the_fields_of_its_kind(record: dict[str, Any]) -> None:
    kind = kind_of(record)
    assert kind is not None
    stated = fields_in(kind)
    assert set(record) == {name for name, field in stated.items() if field.required}
    for name, field in stated.items():
        assert field.parts is None or set(record[name]) == set(field.parts)


def test_a_table_has_the_fields_of_all_its_records() -> None:
    both = table_fields([RECORDS[0], ENDS[0]])
    assert set(both) == set(RECORDS[0]) | set(ENDS[0])
    for side in ("learner", "witness"):
        assert set(both[side].parts or ()) == set(RECORDS[0][side]) | set(ENDS[0][side])
    renamed = {**RECORDS[0], "rewards": "rewards clipped to [0, 1]"}
    assert set(table_fields([renamed, RECORDS[1]], {"instance"})) == {*renamed, "instance"}
    assert set(table_fields([])) == set(eliminated_records(radius="mixture")[0])


def test_radius_and_sides_agree_with_the_published_formula() -> None:
    """The stitched radius for rewards in [0, 1] and random contexts, written out once more."""
    record = RECORDS[0]

    def radius(n: int) -> float:
        return 1.7 * math.sqrt(0.5 * n * (math.log(math.log(2 * n)) + 0.72 * math.log(5.2 * 2 * 4 / 0.05)))

    learner, witness = record["learner"], record["witness"]
    assert learner["radius"] == pytest.approx(radius(learner["plays"]), rel=1e-12)
    assert witness["radius"] == pytest.approx(radius(witness["plays"]), rel=1e-12)
    mean_upper = (learner["reward_sum"] + learner["regret_bound"] + radius(learner["plays"])) / learner["plays"]
    mean_lower = (witness["reward_sum"] - radius(witness["plays"])) / witness["plays"]
    assert learner["mean_upper"] == pytest.approx(mean_upper, rel=1e-12)
    assert witness["mean_lower"] == pytest.approx(mean_lower, rel=1e-12)
    assert mean_upper < mean_lower


def test_a_thousand_random_alterations_are_rejected() -> None:
    require_alterations_rejected(RECORDS, seed=1)


MATHEMATICAL = (
    *("delta", "alpha", "n_learners", "radius", "radius_scale", "reward_range", "noise", "contexts", "version"),
    *("learner.plays", "learner.reward_sum", "learner.regret_bound", "learner.radius", "learner.mean_upper"),
    *("witness.plays", "witness.reward_sum", "witness.radius", "witness.mean_lower"),
)


@pytest.mark.parametrize("field", MATHEMATICAL)
@pytest.mark.parametrize("record", RECORDS[::2])
def test_a_change_of_the_mathematics_is_rejected_even_if_sealed_anew(record: dict[str, Any], field: str) -> None:
    """Every field that enters the inequality is tied to another one, so that changing it alone never adds up."""
    swaps = {"stitched": "paper", "paper": "stitched", "mixture": "stitched", "random": "fixed", "fixed": "random"}
    for factor in (1.0001, 0.9, 1.3, 2.0, -1.0, 0.0):
        forged = copy.deepcopy(record)
        *outer, name = field.split(".")
        holder = forged[outer[0]] if outer else forged
        value = holder[name]
        if isinstance(value, str):
            holder[name] = swaps[value]
        elif isinstance(value, list):
            holder[name] = [value[0], value[1] + factor]
        elif isinstance(value, int):
            holder[name] = value + round(10 * factor) + (factor == 0.0)
        else:
            holder[name] = 0.1 * factor if value is None else value * factor
        if holder[name] == value:
            continue
        forged["digest"] = digest(forged)
        assert verify_record(forged) != [], forged


def consistent(record: dict[str, Any]) -> dict[str, Any]:
    """The record with both means recomputed from its own sums and sealed: only the verdict can be wrong."""
    forged = copy.deepcopy(record)
    learner, witness = forged["learner"], forged["witness"]
    learner["mean_upper"] = (learner["reward_sum"] + learner["regret_bound"] + learner["radius"]) / learner["plays"]
    witness["mean_lower"] = (witness["reward_sum"] - witness["radius"]) / witness["plays"]
    forged["digest"] = digest(forged)
    return forged


@given(st.sampled_from(RECORDS), st.floats(-0.5, 0.5))
def test_the_verdict_is_the_strict_inequality(record: dict[str, Any], shift: float) -> None:
    """Shifting the witness's rewards keeps the record consistent; it is accepted exactly while the inequality holds."""
    forged = copy.deepcopy(record)
    low, high = record["reward_range"]
    witness = forged["witness"]
    witness["reward_sum"] += shift * (high - low) * witness["plays"]
    forged = consistent(forged)
    possible = low * witness["plays"] <= witness["reward_sum"] <= high * witness["plays"] or record["noise"] is not None
    holds = forged["learner"]["mean_upper"] < forged["witness"]["mean_lower"]
    assert (verify_record(forged) == []) == (holds and possible)


def test_equal_sides_disprove_nothing() -> None:
    forged = copy.deepcopy(eliminated_records(3, noise=0.7)[0])  # with noise, any sum of rewards is possible
    learner, witness = forged["learner"], forged["witness"]
    for key in ("plays", "radius"):
        witness[key] = learner[key]
    forged["round"] = 2 * learner["plays"]
    learner["regret_bound"], learner["reward_sum"] = 0.0, 0.0
    witness["reward_sum"] = 2 * learner["radius"]
    (fault,) = verify_record(consistent(forged))
    assert fault.startswith("nothing is disproved: the upper mean ")
    witness["reward_sum"] = math.nextafter(2 * learner["radius"], math.inf) + 1e-9
    assert verify_record(consistent(forged)) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"version": 2}, "version is 2, but only 1 is known"),
        ({"seed": -1}, "seed is -1, but must be at least 0"),
        ({"seed": True}, "seed is True, but must be a whole number"),
        ({"seed": 1.0}, "seed is 1.0, but must be a whole number"),
        ({"delta": "0.05"}, "delta is '0.05', but must be a finite number"),
        ({"delta": math.nan}, "delta is nan, but must be a finite number"),
        ({"selector": ""}, "selector is '', but must be a nonempty string"),
        ({"radius": "narrow"}, "radius is 'narrow', but must be one of mixture, stitched, paper"),
        ({"contexts": "odd"}, "contexts is 'odd', but must be random or fixed"),
        ({"reward_range": [1.0, 0.0]}, "reward_range is [1.0, 0.0], but must be a pair (low, high) with low < high"),
        ({"reward_range": [0.0]}, "reward_range is [0.0], but must be a pair of finite numbers"),
        ({"noise": -1.0}, "noise is -1.0, but must be positive or null"),
        ({"learner": 3}, "learner is 3, but must be an object"),
        ({"extra": 1}, "extra is not a field of a record"),
        ({"round": 3}, "round is 3, but the two learners had"),
    ],
)
def test_each_rule_says_what_is_wrong(change: dict[str, Any], fault: str) -> None:
    forged = {**copy.deepcopy(RECORDS[0]), **change}
    if not any(isinstance(value, float) and math.isnan(value) for value in change.values()):
        forged["digest"] = digest(forged)
    assert any(found.startswith(fault) for found in verify_record(forged)), verify_record(forged)


@pytest.mark.parametrize(
    ("side", "change", "fault"),
    [
        ("witness", {"index": 1}, "witness.index is 1, but must be different from learner.index"),
        ("learner", {"index": 7}, "learner.index is 7, but must be from 0 to n_learners + n_late − 1 = 2"),
        ("learner", {"plays": 0}, "learner.plays is 0, but must be at least 1"),
        ("learner", {"plays": 2**2000}, "the radius cannot be computed from the settings in the record"),
        ("learner", {"regret_bound": -1.0}, "learner.regret_bound is -1.0, but"),
        ("learner", {"reward_sum": -1.0}, "learner.reward_sum is -1.0, but"),
        ("learner", {"regret_bound": 10**400}, "learner.regret_bound is 1000"),
    ],
)
def test_each_rule_about_a_side_says_what_is_wrong(side: str, change: dict[str, Any], fault: str) -> None:
    forged = copy.deepcopy(RECORDS[0])
    forged[side].update(change)
    forged["digest"] = digest(forged)
    assert any(found.startswith(fault) for found in verify_record(forged)), verify_record(forged)


@pytest.mark.parametrize("accounts", [[0, 0, 0], [1, 0, 0]])
def test_an_elimination_cannot_claim_fewer_accounts_than_learners(accounts: list[int]) -> None:
    """Fewer accounts would have larger shares of delta and narrower radii; the numbers are consistent with that."""
    (record, _) = eliminated_records(radius="mixture")
    forged = {**copy.deepcopy(record), "accounts": accounts}
    learner, witness = forged["learner"], forged["witness"]
    settings: Any = {"delta": 0.05, "width": 1.0, "noise": None, "contexts": "random", "scale": 1.0}
    radius = make_radius("mixture", n_learners=sum(accounts), **settings)
    learner["radius"], witness["radius"] = radius_sum(radius, learner["plays"]), radius_sum(radius, witness["plays"])
    assert verify_record(consistent(forged)) == ["accounts is not a field of a record"]


def test_a_radius_that_takes_more_shares_is_refused_with_fewer() -> None:
    forged = {**copy.deepcopy(RECORDS[0]), "radius": "bernstein"}
    assert "shares is 2, but must be 5 with this radius" in verify_record({**forged, "digest": digest(forged)})


@pytest.mark.parametrize("kind", ["plays", "odd", 3, [], None])
def test_a_kind_that_the_record_does_not_have_is_refused(kind: Any) -> None:
    (fault,) = verify_record({**RECORDS[0], "kind": kind})
    unknown = f"kind is {kind!r}, but must be one of plays, same round, epoch end, comparison, pair"
    assert fault == ("kind is not a field of a record" if kind == "plays" else unknown)


def test_a_narrowed_radius_proves_nothing() -> None:
    (first, _) = eliminated_records(radius_scale=0.5)
    assert verify_record(first) == ["radius_scale is 0.5, but must be at least 1: a narrowed radius proves nothing"]


@pytest.mark.parametrize("record", [None, 3, "x", [], {}, {"version": 1}])
def test_what_is_no_record_is_rejected_without_an_exception(record: Any) -> None:
    assert verify_record(record) != []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@pytest.mark.slow
@given(st.sampled_from(RECORDS), st.data())
def test_any_value_in_any_place_is_judged_without_an_exception(record: dict[str, Any], data: st.DataObject) -> None:
    forged = copy.deepcopy(record)
    places = leaves(forged)
    container, key = places[data.draw(st.integers(0, len(places) - 1))]
    value = container[key]
    container[key] = data.draw(json_values)
    assert (verify_record(forged) == []) == (repr(container[key]) == repr(value))


def test_words_hold_the_numbers_of_the_inequality() -> None:
    record = RECORDS[0]
    words = describe_elimination(record)
    assert words.startswith(
        f"In round {record['round']:,} of seed 0, {record['learner']['name']} was eliminated with confidence"
    )
    assert f"= {record['learner']['mean_upper']:.4f}, but good shows" in words
    assert words.endswith(f"= {record['witness']['mean_lower']:.4f}.")
    assert words.count(". ") == 0


def test_words_show_enough_digits_to_tell_the_sides_apart() -> None:
    record = copy.deepcopy(RECORDS[0])
    learner, witness = record["learner"], record["witness"]
    learner["reward_sum"] = 0.5 * learner["plays"] - learner["regret_bound"] - learner["radius"]
    witness["reward_sum"] = 0.5000000004 * witness["plays"] + witness["radius"]
    assert "0.5000000000, but" in describe_elimination(record)
    assert describe_elimination(record).endswith("= 0.5000000004.")


def test_a_file_is_verified_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "eliminations.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    assert verify_file(path) == (len(RECORDS), [])
    forged = {**RECORDS[1], "round": RECORDS[1]["round"] + 1}
    path.write_text(f"{json.dumps(RECORDS[0])}\n{json.dumps(forged)}\n{{\n{'[' * 100_000}\n", encoding="utf-8")
    n_records, faults = verify_file(path)
    assert n_records == 4
    assert faults == [
        "line 2: digest does not match the record: it was changed after it was written",
        "line 3: not valid JSON",
        "line 4: not valid JSON",
    ]
    path.write_text("", encoding="utf-8")
    assert verify_file(path) == (0, [])


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"none\.jsonl' cannot be read: No such file"):
        verify_file(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UnreadableFile, match="cannot be read"):
        verify_file(tmp_path / "bytes")


def test_records_of_learners_that_joined_late_verify() -> None:
    """As the eliminated learner and as the witness, and compared with one of the start; not with another index."""
    for late_mean, early_mean in ((0.0, 1.0), (1.0, 0.0)):
        selector = BalancedElimination([Power(0.5)])
        assert selector.add_learner(Power(0.5)) == 1
        while not selector.eliminations:
            choice = selector.choose()
            selector.credit(choice, (early_mean, late_mean)[choice.learner])
        (elimination,) = selector.eliminations
        about: dict[str, Any] = {"selector_label": "balanced", "seed": 0, "premises": selector.premises}
        about["learner_names"] = ["early", "late"]
        record = elimination_record(elimination, **about)
        compared = comparison_record(selector.compare(0, 1), round=selector.certificate().rounds, **about)
        assert verify_record(record) == verify_record(compared) == []
        assert "with confidence 0.925" in describe_elimination(record)
        moved = {**record, "n_late": 2, "learner": {**record["learner"], "index": 2 * elimination.learner.index}}
        moved["digest"] = digest({key: value for key, value in moved.items() if key != "digest"})
        assert (verify_record(moved) == []) == (elimination.learner.index == 0)
