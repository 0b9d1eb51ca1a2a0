"""Records of ended epochs: each proves itself, no altered one does, however it was altered."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Proposal
from equipoise.certificates.records import describe_elimination, elimination_record, verify_record
from equipoise.selectors import AdversarialElimination
from equipoise.storage.files import digest
from tests.certificates.ended_epochs import CLASSES, NAMES, RECORDS


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_proves_itself_before_and_after_a_trip_through_json(record: dict[str, Any]) -> None:
    assert verify_record(record) == []
    assert verify_record(json.loads(json.dumps(record))) == []
    assert record["contexts"] == "adversarial"
    assert (record["learner"]["name"], record["witness"]["name"]) in {("two", "four"), ("four", "four")}


def test_the_instance_of_the_problem_may_be_named() -> None:
    selector = AdversarialElimination(CLASSES)
    record = elimination_record(
        end_of(RECORDS[0]),
        selector_label="a",
        seed=0,
        premises=selector.premises,
        learner_names=NAMES,
        instance="hiding",
    )
    assert record["instance"] == "hiding"
    assert verify_record(record) == []


def end_of(record: dict[str, Any]) -> Any:
    """An ended epoch like the one in the record."""
    selector = AdversarialElimination(CLASSES)
    while not selector.eliminations:
        choice = selector.choose()
        selector.observe(choice, {i: Proposal(0, 0.8, 0.1) for i in selector.active})
        selector.credit(choice, 0.3)
    assert selector.eliminations[0].learner.index == record["learner"]["index"]
    return selector.eliminations[0]


def leaves(data: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(data, dict):
        return [path]
    return [leaf for key, value in data.items() for leaf in leaves(value, (*path, key))]


def changed(record: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    altered = copy.deepcopy(record)
    place = altered
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return altered


def other(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    if value is None:
        return 0.25
    if isinstance(value, list):
        return [value[0], value[1] + 1.0]
    return value + 1


@pytest.mark.parametrize("path", leaves(RECORDS[0]), ids=".".join)
def test_every_changed_field_betrays_itself(path: tuple[str, ...]) -> None:
    value = RECORDS[0]
    for key in path:
        value = value[key]
    assert verify_record(changed(RECORDS[0], path, other(value)))


FORGERIES: list[tuple[tuple[str, ...], Any, str]] = [
    (("epoch", "reward_sum"), 0.0, "epoch.mean_upper is"),
    (("epoch", "rounds"), 0, "epoch.rounds is 0, but must be from 1 to round"),
    (("epoch", "rounds"), 10**6, "epoch.rounds is 1000000, but must be from 1 to round"),
    (("epoch", "regret_bound"), -5.0, "epoch.regret_bound is -5.0, but"),
    (("epoch", "radius"), 0.0, "epoch.radius is 0.0, but the recomputed value is"),
    (("witness", "lower_sum"), 1e6, "lower bounds in [0.0, 1.0] cannot add up to it"),
    (("witness", "lower_sum"), 0.0, "nothing is disproved"),
    (("witness", "index"), 7, "witness.index is 7, but must be from 0 to n_learners"),
    (("learner", "index"), 2, "learner.index is 2, but must be less than that of the last learner"),
    (("contexts",), "random", "contexts is 'random', but must be adversarial"),
    (("radius",), "paper", "radius is 'paper', but must be stitched"),
    (("radius_scale",), 0.5, "radius_scale is 0.5, but must be at least 1: a narrowed radius proves nothing"),
    (("delta",), 0.5, "alpha is"),
    (("reward_range",), [1.0, 0.0], "reward_range is [1.0, 0.0], but must be a pair"),
]


@pytest.mark.parametrize(("path", "value", "finding"), FORGERIES, ids=[".".join(path) for path, _, _ in FORGERIES])
def test_a_forgery_sealed_anew_still_fails_the_mathematics(path: tuple[str, ...], value: Any, finding: str) -> None:
    forged = changed(RECORDS[0], path, value)
    forged["digest"] = digest(forged)
    assert any(finding in fault for fault in verify_record(forged)), verify_record(forged)


@given(st.sampled_from(RECORDS), st.floats(0.0, 1.0))
def test_no_resealed_sum_proves_what_is_not_so(record: dict[str, Any], share: float) -> None:
    """With all sides recomputed, a record is accepted exactly if its upper mean is below its lower mean."""
    low, high = record["reward_range"]
    n = record["epoch"]["rounds"]
    rewards = (low + share * (high - low)) * n
    upper = (rewards + record["epoch"]["regret_bound"] + record["epoch"]["radius"]) / n
    forged = changed(changed(record, ("epoch", "reward_sum"), rewards), ("epoch", "mean_upper"), upper)
    forged["digest"] = digest(forged)
    assert (verify_record(forged) == []) == (upper < record["witness"]["mean_lower"])


def test_the_record_in_words() -> None:
    record = RECORDS[0]
    epoch, witness = record["epoch"], record["witness"]
    total = f"{epoch['reward_sum']:.1f} + {epoch['regret_bound']:.1f} + {epoch['radius']:.1f}"
    assert describe_elimination(record) == (
        f"In round {record['round']} of seed 3, two was eliminated with confidence 0.95: if the confidence sets of "
        f"all learners held, the best expected reward in the {epoch['rounds']} rounds of the epoch would on average be "
        f"at most ({total}) / {epoch['rounds']} = {epoch['mean_upper']:.4f}, but by the lower bounds of four it is at "
        f"least {witness['lower_sum']:.1f} / {epoch['rounds']} = 0.8000."
    )
