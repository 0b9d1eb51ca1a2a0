"""Requests as people send them: batches of decisions, excluded offers, units, slates; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise.portfolio import tickets
from equipoise.serve import handlers
from equipoise.serve.service import Settings
from tests.serve.served import ARMS, BANNERS, LINEAR, client

NDJSON = {"Content-Type": "application/x-ndjson"}
DECIDE = "/v1/portfolios/banners/decide"


@pytest.fixture(params=["memory", "journal"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    with client(BANNERS, LINEAR, ARMS, data=tmp_path if request.param == "journal" else None) as made:
        yield made


def decide(service: TestClient, **body: Any) -> Any:
    answer = service.post(DECIDE, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rounds(service: TestClient, name: str = "banners") -> int:
    return int(service.get(f"/v1/portfolios/{name}").json()["health"]["rounds"])


def lines(service: TestClient, *bodies: Any, path: str = DECIDE) -> list[dict[str, Any]]:
    content = "\n".join(body if isinstance(body, str) else json.dumps(body) for body in bodies)
    answer = service.post(path, content=content, headers=NDJSON)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson", answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_batch_of_decisions_has_an_answer_for_every_line(service: TestClient) -> None:
    found = lines(
        service,
        *({"id": "a"}, {"id": "a"}, {"exclude": ["red"]}, {"unit": "ann"}, {"unit": "ann"}, {"k": 2, "id": "page"}),
        *("{", {"id": "b", "exclude": ["rot"]}, {"context": [1.0]}, {"id": "a", "exclude": ["red"]}, {"ids": "x"}),
    )
    assert [row["line"] for row in found] == list(range(1, 12))
    statuses = [200, 200, 200, 200, 200, 200, 400, 422, 200, 409, 422]
    assert [row["status"] for row in found] == statuses
    assert found[0]["decision"] == found[1]["decision"] and found[0]["decision"]["id"] == "a"
    assert found[2]["decision"]["action_id"] != "red"
    assert found[3]["decision"] == found[4]["decision"]
    assert [slot["id"] for slot in found[5]["slots"]] == ["page", "page/2"]
    assert {row["line"]: row.get("id") for row in found if "problem" in row} == {7: None, 8: "b", 10: "a", 11: None}
    assert all(("problem" in row) == (row["status"] != 200) for row in found)
    assert rounds(service) == 6


def test_a_batch_decides_as_single_requests_do(service: TestClient) -> None:
    for k in range(30):
        (row,) = lines(service, {"id": f"visit-{k}"})
        service.post("/v1/portfolios/banners/rewards", json={"id": f"visit-{k}", "reward": k % 2})
        assert row["decision"] == decide(service, id=f"visit-{k}")


def test_a_batch_lets_others_in_between_its_lines(service: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    respond = handlers._respond

    def noted(hosted: Any, some: list[Any], *more: Any) -> Any:
        sizes.append(len(some))
        return respond(hosted, some, *more)

    monkeypatch.setattr(handlers, "_respond", noted)
    assert len(lines(service, *[{}] * 100)) == 100
    assert sizes == [64, 36]
    sizes.clear()
    assert len(lines(service, *[{"k": 3}] * 30, "{", {})) == 32
    assert sizes == [21, 11]  # a slate counts as its rounds


def test_batches_have_limits(service: TestClient) -> None:
    too_many = service.post(DECIDE, content="{}\n" * 1_001, headers=NDJSON)
    assert too_many.status_code == 413 and "1001 lines" in too_many.json()["detail"]
    assert service.post(DECIDE, content="\n\n", headers=NDJSON).status_code == 400
    (row,) = lines(service, {"unit": "x" * 70_000})
    assert row["status"] == 413 and "a line has" in row["problem"]["detail"]
    assert service.post(DECIDE, content=b" " * ((1 << 20) + 1), headers=NDJSON).status_code == 413
    assert service.post(DECIDE, content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert rounds(service) == 0


def test_offers_can_be_excluded(service: TestClient) -> None:
    assert {decide(service, exclude=["red", "green"])["action_id"] for _ in range(5)} == {"blue"}
    assert decide(service, exclude=[])["action_id"] in ("red", "blue", "green")
    body = {"offers": [{"id": "a", "features": [0.1, 0.2]}, {"id": "b", "features": [0.9, 0.2]}], "exclude": ["b"]}
    answer = service.post("/v1/portfolios/linear/decide", json=body).json()
    assert (answer["action"], answer["action_id"]) == (0, "a")
    assert answer["propensity"] == 1.0


def test_a_unit_keeps_its_decision(service: TestClient) -> None:
    first = decide(service, unit="user-7")
    assert all(decide(service, unit="user-7") == first for _ in range(5)) and rounds(service) == 1
    service.post("/v1/portfolios/banners/rewards", json={"id": first["id"], "reward": 1})
    assert decide(service, unit="user-7") == first and rounds(service) == 1
    other = decide(service, unit="user-7", exclude=[first["action_id"]])
    assert other["id"] != first["id"] and decide(service, unit="user-7") == other
    service.post("/v1/portfolios/banners/withdraw", json={"id": other["id"]})
    assert decide(service, unit="user-7")["id"] not in (first["id"], other["id"])
    status = service.get("/v1/portfolios/banners").json()["health"]
    assert status["units_bytes"] > 300 and status["rounds"] == 3


def test_a_restart_keeps_the_decisions_of_units(tmp_path: Path) -> None:
    with client(BANNERS, data=tmp_path) as service:
        before = [decide(service, unit=f"user-{k}") for k in range(20)]
    with client(BANNERS, data=tmp_path) as service:
        assert [decide(service, unit=f"user-{k}") for k in range(20)] == before
        assert rounds(service) == 20


def test_slates(service: TestClient) -> None:
    slots = decide(service, k=3, id="page")["slots"]
    assert sorted(slot["action_id"] for slot in slots) == ["blue", "green", "red"]
    assert [slot["id"] for slot in slots] == ["page", "page/2", "page/3"]
    for slot in slots:
        reward = {"id": slot["id"], "reward": 1}
        assert service.post("/v1/portfolios/banners/rewards", json=reward).status_code == 200
    assert decide(service, k=3, id="page")["slots"] == slots and rounds(service) == 3
    another = service.post(DECIDE, json={"k": 2, "id": "page"})
    assert another.status_code == 409 and "another size" in another.json()["detail"]
    assert service.post(DECIDE, json={"k": 2, "id": "page", "exclude": ["red"]}).status_code == 409
    (one,) = decide(service, k=1)["slots"]
    assert one["action_id"] in ("red", "blue", "green")


def test_a_restart_keeps_slates(tmp_path: Path) -> None:
    with client(BANNERS, data=tmp_path) as service:
        slots = decide(service, k=2, id="page", unit="ann")
        for slot in slots["slots"]:
            service.post("/v1/portfolios/banners/rewards", json={"id": slot["id"], "reward": 0})
    with client(BANNERS, data=tmp_path) as service:
        assert decide(service, k=2, id="page", unit="ann") == decide(service, k=2, unit="ann") == slots
        for k in (1, 3):
            assert service.post(DECIDE, json={"k": k, "id": "page"}).status_code == 409
        assert service.post(DECIDE, json={"k": 2, "id": "page", "exclude": ["red"]}).status_code == 409
        story = service.get("/v1/portfolios/banners/decisions/page/2")
        assert story.status_code == 200 and "ann" not in story.text
        assert rounds(service) == 2


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "k above the offers": ({"k": 4}, "k is 4, but must be at most 3"),
    "k of nothing": ({"k": 0}, "`int` >= 1 - at `$.k`"),
    "k above the limit": ({"k": 101}, "`int` <= 100"),
    "k as text": ({"k": "2"}, "Expected `int"),
    "k above what is left": ({"k": 2, "exclude": ["red", "blue"]}, "k is 2, but must be at most 1"),
    "unit of 10 kB": ({"unit": "u" * 10_000}, "Expected `str` of length <= 200 - at `$.unit`"),
    "empty unit": ({"unit": ""}, "Expected `str` of length >= 1"),
    "unit with a line break": ({"unit": "a\nb"}, "matching regex"),
    "unit as number": ({"unit": 7}, "Expected `str"),
    "unknown excluded id": ({"exclude": ["rot"]}, "excluded offer 'rot' is unknown; did you mean"),
    "all excluded": ({"exclude": ["red", "blue", "green"]}, "exclude has all 3 offers, but must leave at least one"),
    "exclude as text": ({"exclude": "red"}, "Expected `array"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_problem_and_changes_nothing(service: TestClient, case: str) -> None:
    body, expected = BAD[case]
    before = service.get("/v1/portfolios/banners").json()
    for answer in (service.post(DECIDE, json=body), service.post(DECIDE, json={**body, "id": "mine"})):
        problem = answer.json()
        assert answer.status_code == problem["status"] == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert expected in problem["detail"]
    (row,) = lines(service, body)
    assert row["status"] == 422 and expected in row["problem"]["detail"]
    after = service.get("/v1/portfolios/banners").json()
    assert after["standing"] == before["standing"] and after["health"]["rounds"] == 0


def test_ids_are_needed_to_exclude(service: TestClient) -> None:
    answer = service.post("/v1/portfolios/arms/decide", json={"exclude": ["red"]})
    assert answer.status_code == 422 and "needs offers with ids" in answer.json()["detail"]
    answer = service.post("/v1/portfolios/arms/decide", json={"k": 2})
    assert answer.status_code == 422 and "context is None" in answer.json()["detail"]


def test_decisions_of_units_count_toward_the_limits() -> None:
    settings = Settings(max_open=1_000, max_open_bytes=20_000)
    with client(BANNERS, settings=settings) as service:
        for k in range(100):
            answer = service.post(DECIDE, json={"unit": f"user-{k}"})
            if answer.status_code != 200:
                break
            service.post("/v1/portfolios/banners/rewards", json={"id": answer.json()["id"], "reward": 1})
        assert answer.status_code == 503 and "that units keep" in answer.json()["detail"]
        assert 20 < k < 70
        assert decide(service, unit="user-3")["action_id"] in ("red", "blue", "green")  # which needs no room
    with client(BANNERS, settings=Settings(max_open=2)) as service:
        assert service.post(DECIDE, json={"k": 3}).status_code == 503 and rounds(service) == 0
        assert len(decide(service, k=2, id="page")["slots"]) == 2
        assert decide(service, k=2, id="page")["slots"][1]["id"] == "page/2"
    with client(BANNERS, settings=Settings(max_open=2)) as service:
        kept = decide(service, k=2, unit="ann")
        assert decide(service, k=2, unit="ann", id="again") == kept, "it needs no room"


def test_a_known_id_has_its_own_decision_also_after_its_deadline(tmp_path: Path) -> None:
    short = BANNERS.replace("range = [0, 1]", "range = [0, 1]\ndeadline = 2\ndefault = 0.0")
    for data in (None, tmp_path):
        with client(short, data=data) as service:
            mine = decide(service, unit="ann", id="mine")
            other = decide(service, unit="ann", id="other", exclude=[mine["action_id"]])
            for _ in range(5):
                decide(service)
            assert service.get("/v1/portfolios/banners").json()["health"]["expired"] > 2
            assert decide(service, unit="ann", id="mine") == mine
            assert decide(service, unit="ann", id="new") == other


def test_a_slate_is_decided_once_under_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is so old that only the journal knows its id, and whatever units are asked."""
    monkeypatch.setattr(tickets, "MAX_CLOSED_IDS", 3)
    with client(BANNERS, data=tmp_path) as service:
        slate = decide(service, k=2, id="page", unit="ann")
        for slot in slate["slots"]:
            service.post("/v1/portfolios/banners/rewards", json={"id": slot["id"], "reward": 1})
        for k in range(6):
            one = decide(service, id=f"later {k}")
            service.post("/v1/portfolios/banners/rewards", json={"id": one["id"], "reward": 1})
        assert decide(service, k=2, id="page", unit="bob") == slate and rounds(service) == 8
        first = slate["slots"][0]["action_id"]
        mixed = decide(service, k=2, id="mixed", unit="ann", exclude=[first])  # one slot may be kept, the other not
        assert decide(service, k=2, id="mixed", unit="ann", exclude=[first]) == mixed
        refused = service.post(DECIDE, json={"k": 3, "id": "page"})
        assert refused.status_code == 409 and "a slate of another size" in refused.json()["detail"]
        refused = service.post(DECIDE, json={"k": 4, "id": "page", "unit": "ann"})
        assert refused.status_code == 422 and "k is 4" in refused.json()["detail"]


def test_the_decisions_of_a_unit_can_be_forgotten(tmp_path: Path) -> None:
    with client(BANNERS, data=tmp_path) as service:
        first = decide(service, unit="ann")
        refused = service.post("/v1/portfolios/banners/forget", json={"unit": "ann"})
        assert refused.status_code == 422 and "is open" in refused.json()["detail"]
        service.post("/v1/portfolios/banners/rewards", json={"id": first["id"], "reward": 1})
        assert service.post("/v1/portfolios/banners/forget", json={"unit": "ann"}).json() == {"events": 2}
        for wrong in ({}, {"unit": "ann", "ids": ["a"]}):
            answer = service.post("/v1/portfolios/banners/forget", json=wrong)
            assert answer.status_code == 422 and "exactly one must be given" in answer.json()["detail"]


def test_events_do_not_show_units(service: TestClient) -> None:
    from equipoise.portfolio import Event
    from equipoise.serve.streams import encode

    assert b"ann" not in encode(Event("decided", {"id": "x", "unit": "ann"}, 0.0))
