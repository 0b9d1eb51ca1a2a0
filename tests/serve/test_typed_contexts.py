"""Typed features over HTTP: the JSON people have is decided on; what breaks the schema is one problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

import asyncio
import secrets
import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from equipoise.config import parse
from equipoise.journal import SQLiteJournal
from equipoise.serve.reloading import apply_file
from tests.serve.served import check_problem, client, service_of
from tools.studies.typed_contexts import measure

FILE = """
version = 1
name = "shop"
explore = 0.05
[schema]
unknown = "error"
[context]
device = { type = "category", values = ["phone", "tv"], outside = "refuse" }
age = { type = "number" }
height = { type = "number", low = 0, high = 3, outside = "refuse" }
weight = { type = "number", low = 0, high = 300 }
[context.user]
vip = { type = "flag" }
about = { type = "text", hashed = 8 }
look = { type = "vector", dim = 3 }
[actions]
names = ["red", "blue"]
[actions.features]
price = { type = "number", low = 0, high = 10, missing = "refuse" }
[[learner]]
use = "OFUL"
scale = 0.3
[[learner]]
use = "OFUL"
name = "price"
features = { use = "Columns", columns = ["price"] }
[[learner]]
use = "UCB"
arms = 2
"""
FLAG = """
version = 1
name = "flag"
[context]
device = { type = "category", values = ["phone", "tv"] }
[context.user]
vip = { type = "flag" }
[actions]
names = ["red", "blue"]
[[learner]]
use = "OFUL"
"""
PATH = "/v1/portfolios/shop"
ITEMS = [{"id": "red", "features": {"price": 3}}, {"id": "blue", "features": {"price": 9.5}}]
VISITOR = {"device": "tv", "age": 31, "user": {"vip": True, "about": "likes shoes"}}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=["memory", "journal"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    with client(FILE, FLAG, data=tmp_path if request.param == "journal" else None) as made:
        yield made


def decide(service: TestClient, **body: Any) -> Any:
    answer = service.post(f"{PATH}/decide", json={"offers": ITEMS, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def schema_of(service: TestClient) -> Any:
    return service_of(service).portfolios["shop"].engine.schema()


def test_people_send_the_json_they_have(service: TestClient) -> None:
    plays = dict[str, int]()
    for t in range(60):
        answer = decide(service, context={**VISITOR, "age": 20 + t}, id=f"visit {t}")
        assert answer["action_id"] in ("red", "blue") and 0.0 < answer["propensity"] <= 1.0
        reward = {"id": answer["id"], "reward": float(answer["action_id"] == "red")}
        assert service.post(f"{PATH}/rewards", json=reward).status_code == 200
        plays[answer["learner"]] = plays.get(answer["learner"], 0) + 1
    assert {"OFUL(scale=0.3)", "price", "UCB"} <= set(plays)
    rows = service.get(PATH).json()["health"]["learners"]
    assert [(row["failures"], row["refused"]) for row in rows] == [(0, 0)] * 3
    assert set(schema_of(service).layouts[0].scales) == {"age"}, "it was learned meanwhile"
    repeated = decide(service, context={**VISITOR, "age": 20.0}, id="visit 0")
    assert repeated["id"] == "visit 0" and service.get(PATH).json()["health"]["rounds"] == 60
    other = {"context": VISITOR, "offers": ITEMS, "id": "visit 0"}
    check_problem(service.post(f"{PATH}/decide", json=other), 409, "duplicate-decision")


def test_a_flag_has_attributes_that_other_flags_use(service: TestClient) -> None:
    user = {"vip": True, "plan": "free"}
    context = {"targetingKey": "user-7", "device": "tv", "user": user, "country": {"code": "pt"}}
    answer = service.post("/ofrep/v1/evaluate/flags/flag", json={"context": context})
    assert answer.status_code == 200, answer.text
    assert answer.json()["variant"] in ("red", "blue")
    missing = service.post("/ofrep/v1/evaluate/flags/flag", json={"context": {"targetingKey": "user-7"}})
    assert missing.status_code == 200
    wrong = service.post("/ofrep/v1/evaluate/flags/flag", json={"context": {**context, "user": {"vip": "yes"}}})
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "INVALID_CONTEXT")
    assert "feature 'user.vip' is 'yes', but must be true or false" in wrong.json()["errorDetails"]


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def body(context: str = "{}", offers: str | None = None) -> str:
    return f'{{"context": {context}, "offers": {json.dumps(ITEMS) if offers is None else offers}}}'


WRONG: list[tuple[str, str, str]] = [
    (body('{"device": "car"}'), "invalid-argument", "feature 'device' is 'car', but must be one of phone, tv"),
    (body('{"device": ["tv"]}'), "invalid-argument", "feature 'device' is ['tv'], but must be a text"),
    (body('{"age": "old"}'), "invalid-argument", "context: feature 'age' is 'old', but must be a number"),
    (body('{"age": 1e200}'), "invalid-argument", "but must be a finite number of magnitude at most 1e+100"),
    (body('{"height": 3.5}'), "invalid-argument", "feature 'height' is 3.5, but must be from 0 to 3"),
    (body('{"user": {"vip": "yes"}}'), "invalid-argument", "feature 'user.vip' is 'yes', but must be true or false"),
    (body('{"user": {"look": [1, 2]}}'), "invalid-argument", "feature 'user.look' has shape (2,), but must be a list"),
    (body('{"user": {"about": 7}}'), "invalid-argument", "feature 'user.about' is 7, but must be a text"),
    (body('{"user": 3}'), "unknown-name", "feature of context 'user' is unknown"),
    (body('{"devise": "tv"}'), "unknown-name", "feature of context 'devise' is unknown; did you mean device?"),
    (body('{"user.vip": true, "user": {"vip": false}}'), "invalid-argument", "context has 'user.vip' twice"),
    (body(json.dumps(dict.fromkeys(map(str, range(5_000)), 1))), "invalid-argument", "1000"),
    (body(json.dumps({"user": dict.fromkeys(map(str, range(5_000)), 1)})), "invalid-argument", "more than 1000 fields"),
    (body(nested(100)), "invalid-argument", "context is nested more than 16 levels deep"),
    (body(f'{{"user": {{"about": "{"x" * 60_000}"}}, "age": []}}'), "invalid-argument", "feature 'age' is []"),
    (body(offers='[{"id": "red"}, {"id": "blue"}]'), "invalid-argument", "offers[0]: feature 'price' is missing, but"),
    (body(offers='[{"id": "a", "features": {"price": "3"}}]'), "invalid-argument", "offers[0]: feature 'price' is '3'"),
    (body(offers='[{"id": "a", "features": {"prize": 3}}]'), "unknown-name", "feature of offers[0] 'prize' is unknown"),
    (body(offers='[{"id": "a", "features": [1, 2]}]'), "invalid-argument", "offers have 2 features, but must have 1"),
    (body('{"age": 3, "age": 4}'), "invalid-argument", "the body has the key 'age' twice in one object"),
    (body('{"user": {"vip": true, "vip": true}}'), "invalid-argument", "the body has the key 'vip' twice"),
    (body(offers='[{"id": "a", "id": "b"}]'), "invalid-argument", "the body has the key 'id' twice"),
    ('{"context": {}, "context": {}}', "invalid-argument", "the body has the key 'context' twice"),
    ('{"context": {"a\\u0067e": 1, "age": ":"}}', "invalid-argument", "the body has the key 'age' twice"),
]


@pytest.mark.parametrize(("text", "kind", "detail"), WRONG, ids=[text[:60] for text, *_ in WRONG])
def test_what_breaks_the_schema_is_one_problem_and_changes_nothing(
    text: str, kind: str, detail: str, tmp_path: Path
) -> None:
    with client(FILE, data=tmp_path) as service:
        first = decide(service, context=VISITOR)
        before, logged = service.get(PATH).json(), SQLiteJournal(tmp_path / "shop.db").last_seq
        answer = service.post(f"{PATH}/decide", content=text, headers=JSON)
        check_problem(answer, 422, kind)
        assert detail in answer.json()["detail"] and len(answer.json()["detail"]) < 500
        after = service.get(PATH).json()
        assert SQLiteJournal(tmp_path / "shop.db").last_seq == logged
        assert (after["standing"], after["health"]["rounds"]) == (before["standing"], 1)
        assert decide(service, context=VISITOR)["id"] != first["id"]


def test_colons_in_texts_are_not_keys(service: TestClient) -> None:
    for about in ("12:30", 'a ":" b', "::::"):
        decide(service, context={"user": {"about": about}})
    big = body('{"age": ' + "1" * 90 + ', "user": {"about": ":"}}')
    assert service.post(f"{PATH}/decide", content=big, headers=JSON).status_code == 200


def test_rewards_with_a_key_twice_are_refused_alone_and_in_a_batch(service: TestClient) -> None:
    made = decide(service, context=VISITOR)
    twice = f'{{"id": "{made["id"]}", "reward": 0.0, "reward": 1.0}}'
    check_problem(service.post(f"{PATH}/rewards", content=twice, headers=JSON), 422, "invalid-argument")
    lines = f'{twice}\n{{"id": "{made["id"]}", "reward": 1.0}}'
    answer = service.post(f"{PATH}/rewards", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert [json.loads(line)["status"] for line in answer.text.splitlines()] == [422, 200]


def test_a_reload_adds_features_and_refuses_to_move_columns(tmp_path: Path) -> None:
    async def reload(service: TestClient, text: str) -> None:
        await apply_file(service_of(service), parse(tomllib.loads(text)))

    with client(FILE, data=tmp_path) as service:
        for t in range(40):
            made = decide(service, context={**VISITOR, "age": 20 + t})
            service.post(f"{PATH}/rewards", json={"id": made["id"], "reward": 1.0})
        before = schema_of(service)
        asyncio.run(reload(service, FILE.replace('["phone", "tv"]', '["phone", "tv", "car"]')))
        assert decide(service, context={"device": "car"})["action_id"] in ("red", "blue")
        assert schema_of(service).shared_columns == (*before.shared_columns, "device=car")
        assert schema_of(service).layouts[0].scales == before.layouts[0].scales
        with pytest.raises(ValueError, match=r"schema is .*, but must keep 'device' of its context as Category"):
            asyncio.run(reload(service, FILE))
        assert decide(service, context={"device": "car"})["action_id"] in ("red", "blue")
        added = service.post(f"{PATH}/learners/wide", json={"use": "OFUL", "settings": {"scale": 0.5}})
        assert added.status_code == 201, added.text
        for body in ({"context": VISITOR, "available": ["wide"]}, {"context": {"device": "car"}}):
            decide(service, **body)
        assert service.get(PATH).json()["health"]["learners"][-1]["refused"] == 0
    with client(FILE.replace('["phone", "tv"]', '["phone", "tv", "car"]'), data=tmp_path) as service:
        assert schema_of(service).shared_columns == (*before.shared_columns, "device=car")
        assert decide(service, context={"device": "car"}, available=["wide"])["learner"] == "wide"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["phone", "tv"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["vip", "look", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMED = st.dictionaries(
    st.sampled_from(["device", "age", "height", "user", "price", "x", "user.vip"]), VALUES, max_size=4
)
OFFERS = st.lists(st.fixed_dictionaries({}, optional={"id": st.sampled_from("ab"), "features": NAMED}), max_size=3)


@pytest.fixture(scope="module")
def services() -> Iterator[TestClient]:
    hashing = FILE.replace('name = "shop"', 'name = "hashing"', 1).replace('"error"', '"hash"\nhashed = 8', 1)
    with client(FILE, hashing) as made:
        yield made


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(["shop", "hashing"]), context=NAMED | VALUES, offers=OFFERS | st.none(), repeats=st.booleans()
)
def test_whatever_comes_is_decided_once_or_refused(
    services: TestClient, name: str, context: Any, offers: Any, repeats: bool
) -> None:
    path, id_ = f"/v1/portfolios/{name}", secrets.token_hex(8)
    before = services.get(path).json()["health"]["rounds"]
    content = json.dumps({"context": context, "offers": offers, "id": id_})
    answers = [services.post(f"{path}/decide", content=content, headers=JSON) for _ in range(2 if repeats else 1)]
    assert answers[0].status_code in (200, 400, 422), answers[0].text
    assert [each.content for each in answers if each.status_code == 200] in ([], [answers[0].content] * len(answers))
    rounds = services.get(path).json()["health"]["rounds"]
    assert rounds == before + (answers[0].status_code == 200)


def test_the_study_of_costs_runs() -> None:
    times = asyncio.run(measure(2))
    assert set(times) == {"typed", "numbers", "columns"} and min(times.values()) > 0.0
