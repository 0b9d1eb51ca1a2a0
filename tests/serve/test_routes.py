"""What the routes answer, in memory and with a journal: decisions, rewards, batches, learners, events, flags."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise.certificates.records import verify_record
from equipoise.serve import app as app_module
from equipoise.serve import handlers, streams
from tests.serve.served import COLORS, client, service_of

DECIDED = ["id", "action", "action_id", "learner", "drawn", "learner_probability", "action_probability", "propensity"]
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(params=["memory", "journal"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    with client(data=tmp_path / "data" if request.param == "journal" else None) as made:
        yield made


def decide(service: TestClient, name: str = "arms", **body: Any) -> dict[str, Any]:
    answer = service.post(f"/v1/portfolios/{name}/decide", json=body)
    assert answer.status_code == 200, answer.text
    row: dict[str, Any] = answer.json()
    return row


def reward(service: TestClient, id_: str, value: float, name: str = "arms") -> Any:
    return service.post(f"/v1/portfolios/{name}/rewards", json={"id": id_, "reward": value})


def health(service: TestClient, name: str = "arms") -> dict[str, Any]:
    row: dict[str, Any] = service.get(f"/v1/portfolios/{name}").json()["health"]
    return row


def test_a_decision_and_its_reward(service: TestClient) -> None:
    decision = decide(service)
    assert list(decision) == DECIDED
    assert decision["learner"] in ("UCB", "greedy") and decision["action"] in (0, 1, 2)
    assert reward(service, decision["id"], 1.0).json() == {"id": decision["id"], "status": "learned"}
    status = service.get("/v1/portfolios/arms").json()
    assert status["health"]["open"] == 0 and status["certificate"]["rounds"] == 1
    assert sum(row["plays"] for row in status["standing"]) == 1
    assert "total regret" in status["description"]


def test_a_request_can_name_the_learners_that_may_act(service: TestClient) -> None:
    """The draw ignores them: the answer says which learner was drawn and which one acts."""
    drawn = set()
    for t in range(12):
        decision = decide(service, available=["greedy"] if t % 4 > 1 else ["UCB"], id=f"visit {t}")
        assert decision["learner"] == ("greedy" if t % 4 > 1 else "UCB")
        drawn.add((decision["drawn"], decision["learner"]))
        assert reward(service, decision["id"], 1.0).status_code == 200
    assert len(drawn) > 2
    assert {name for name, _ in drawn} <= {"UCB", "greedy"}
    rows = {row["name"]: row["substituted"] for row in health(service)["learners"]}
    assert sum(rows.values()) > 0
    refused = service.post("/v1/portfolios/arms/decide", json={"available": ["nobody"]})
    assert refused.status_code == 422 and "learner 'nobody' is unknown" in refused.json()["detail"]
    assert service.post("/v1/portfolios/arms/decide", json={"available": "UCB"}).status_code in (400, 422)
    assert service.post("/v1/portfolios/arms/decide", json={"available": []}).status_code == 422
    service.patch("/v1/portfolios/arms/learners/greedy", json={"state": "suspended"})
    none = service.post("/v1/portfolios/arms/decide", json={"available": ["greedy"]})
    assert none.status_code == 503 and none.json()["type"].endswith("no-learner-available")


def test_a_repeated_request_gets_the_same_answer(service: TestClient) -> None:
    first = decide(service, id="mine")
    assert decide(service, id="mine") == first and first["id"] == "mine"
    conflict = service.post("/v1/portfolios/arms/decide", json={"id": "mine", "context": [[0.0], [1.0]]})
    assert conflict.status_code == 409 and conflict.json()["type"].endswith("duplicate-decision")
    assert reward(service, "mine", 0.5).content == reward(service, "mine", 0.5).content
    other = reward(service, "mine", 0.25)
    assert other.status_code == 409 and "has the reward 0.5" in other.json()["detail"]
    assert decide(service, id="mine") == first, "the id is remembered after the reward"
    assert health(service)["rounds"] == 1


def test_a_withdrawal_counts_once(service: TestClient) -> None:
    id_ = decide(service)["id"]
    withdrawn = [service.post("/v1/portfolios/arms/withdraw", json={"id": id_}) for _ in range(2)]
    assert [answer.json() for answer in withdrawn] == [{"id": id_, "status": "withdrawn"}] * 2
    assert health(service)["withdrawn"] == 1
    assert reward(service, id_, 1.0).status_code == 409
    rewarded = decide(service)["id"]
    reward(service, rewarded, 1.0)
    assert service.post("/v1/portfolios/arms/withdraw", json={"id": rewarded}).status_code == 409


def test_a_batch_has_a_result_for_every_line(service: TestClient) -> None:
    ids = [decide(service)["id"] for _ in range(3)]
    lines = [{"id": id_, "reward": 1.0} for id_ in ids]
    body = [json.dumps(line) for line in (*lines, lines[0], {**lines[1], "reward": 0.0}, {"id": "never", "reward": 1})]
    body += ["{", '{"id": "x"}', '{"id": "x", "reward": 7}', '{"id": "x", "reward": NaN}']
    answer = service.post("/v1/portfolios/arms/rewards", content="\n".join(body) + "\n\n", headers=NDJSON)
    results = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
    assert [row["line"] for row in results] == list(range(1, 11))
    assert [row["status"] for row in results] == [200, 200, 200, 200, 409, 404, 400, 422, 404, 400]
    assert [row.get("id") for row in results[:6]] == [*ids, ids[0], ids[1], "never"]
    assert all(("problem" in row) == (row["status"] != 200) for row in results)
    assert health(service)["open"] == 0


def test_a_batch_lets_others_in_between_its_lines(service: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(handlers, "LINES_AT_ONCE", 3)
    respond = handlers._respond

    def noted(hosted: Any, some: list[Any], *more: Any) -> Any:
        sizes.append(len(some))
        return respond(hosted, some, *more)

    monkeypatch.setattr(handlers, "_respond", noted)
    ids = [decide(service)["id"] for _ in range(8)]
    body = "\n".join(json.dumps({"id": id_, "reward": 1.0}) for id_ in ids)
    answer = service.post("/v1/portfolios/arms/rewards", content=body, headers=NDJSON)
    results = [json.loads(line) for line in answer.text.splitlines()]
    assert [(row["line"], row["status"], row["id"]) for row in results] == [
        (k, 200, id_) for k, id_ in enumerate(ids, 1)
    ]
    assert sizes == [3, 3, 2]


def test_contexts_by_name_and_in_order(service: TestClient) -> None:
    named = decide(service, "colors", context={"visits": 2.0, "age": 1}, id="one")
    assert named["action_id"] in ("red", "blue")
    assert decide(service, "colors", context={"age": 1.0, "visits": 2}, id="one") == named, "the same features"
    assert decide(service, "colors", context=[1.0, 2.0])["action_id"] in ("red", "blue")
    offers = [{"id": "a", "features": {"rating": 0.5}}, {"id": "b", "features": [0.25, 0.5]}]
    chosen = decide(service, "linear", offers=offers)
    assert chosen["action_id"] == ["a", "b"][chosen["action"]]
    assert decide(service, "linear", context=[[0.5, 0.5], [0.1, 0.1]])["action_id"] is None


def test_late_rewards_are_refused_and_not_learned(service: TestClient) -> None:
    ids = [decide(service, "colors", context=[0.0, 1.0])["id"] for _ in range(6)]
    late = reward(service, ids[0], 1.0, "colors")
    assert late.status_code == 409 and late.json()["type"].endswith("late-reward")
    assert health(service, "colors")["expired"] == 2
    assert reward(service, ids[-1], 1.0, "colors").status_code == 200


def test_overdue_decisions_expire_without_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "EXPIRY_SECONDS", 0.01)
    with client(COLORS.replace("deadline = 3", 'deadline = "0.01s"'), data=tmp_path) as service:
        decide(service, "colors", context=[0.0, 1.0])
        for _ in range(200):
            if health(service, "colors")["expired"]:
                break
        assert health(service, "colors")["expired"] == 1


def test_learners_join_pause_and_leave(service: TestClient) -> None:
    path = "/v1/portfolios/arms/learners"
    added = service.post(f"{path}/bold", json={"use": "UCB", "settings": {"arms": 3, "scale": 2.0}})
    assert (added.status_code, added.json()) == (201, {"name": "bold", "state": "active"})
    assert service.post(f"{path}/bold", json={"use": "UCB", "settings": {"arms": 3}}).status_code == 409
    assert service.patch(f"{path}/bold", json={"state": "suspended"}).json()["state"] == "suspended"
    assert [row["state"] for row in health(service)["learners"]] == ["active", "active", "suspended"]
    assert service.patch(f"{path}/bold", json={"state": "active"}).status_code == 200
    assert service.delete(f"{path}/greedy").json() == {"name": "greedy", "state": "removed"}
    assert service.delete(f"{path}/greedy").status_code == 404
    assert service.patch(f"{path}/nobody", json={"state": "active"}).json()["type"].endswith("unknown-learner")
    wrong = service.post(f"{path}/x", json={"use": "UCBB", "settings": {"arms": 3}})
    assert wrong.status_code == 422 and "did you mean UCB" in wrong.json()["detail"]
    assert service.post(f"{path}/x", json={"use": "UCB", "settings": {"name": "y"}}).status_code == 422


@pytest.mark.slow
def test_eliminations_are_proofs(tmp_path: Path) -> None:
    text = """
    version = 1
    name = "proofs"
    [selector]
    use = "BalancedElimination"
    delta = 0.5
    [[learner]]
    use = "Constant"
    action = 0
    bound = { use = "Power", coefficient = 0.1 }
    [[learner]]
    use = "Constant"
    action = 1
    bound = { use = "Power", coefficient = 0.1 }
    """
    with client(text, data=tmp_path) as service:
        for _ in range(150):
            decision = decide(service, "proofs", context=[[0.0], [1.0]])
            reward(service, decision["id"], float(decision["action"]), "proofs")
        (record,) = service.get("/v1/portfolios/proofs/eliminations").json()["eliminations"]
        assert verify_record(record) == []
        assert verify_record({**record, "round": record["round"] + 1}) != []


def test_flags(service: TestClient) -> None:
    answer = service.post(
        "/ofrep/v1/evaluate/flags/colors", json={"context": {"targetingKey": "u", "age": 3, "x": "y"}}
    )
    row = answer.json()
    assert (row["key"], row["reason"]) == ("colors", "SPLIT") and row["value"] == row["variant"]
    assert reward(service, row["metadata"]["decision"], 1.0, "colors").status_code == 200
    unknown = service.post("/ofrep/v1/evaluate/flags/nothing", json={})
    assert (unknown.status_code, unknown.json()["errorCode"]) == (404, "FLAG_NOT_FOUND")
    wrong = service.post("/ofrep/v1/evaluate/flags/colors", json={"context": {"age": "old"}})
    assert (wrong.status_code, wrong.json()["errorCode"]) == (400, "INVALID_CONTEXT")
    assert service.post("/ofrep/v1/evaluate/flags/colors", content="{", headers={"content-type": "application/json"})


def test_lists_health_metrics_and_page(service: TestClient) -> None:
    decide(service)
    assert service.get("/v1/portfolios").json() == {"portfolios": ["arms", "colors", "linear"]}
    assert service.get("/healthz").json() == service.get("/readyz").json() == {"status": "ok"}
    text = service.get("/metrics").text
    assert 'equipoise_decisions_total{portfolio="arms"} 1.0' in text
    assert 'equipoise_folded_differently{portfolio="arms"} 0.0' in text
    assert 'equipoise_requests_total{operation="decide",status="200"} 1.0' in text
    assert 'equipoise_active{learner="greedy",portfolio="arms"} 1.0' in text
    assert 'equipoise_learner_state{learner="greedy",portfolio="arms",state="active"} 1.0' in text
    page = service.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8" and "<title>equipoise" in page.text
    for name in ("arms", "colors"):
        assert all(name not in service.get(path).text for path in ("/", "/healthz", "/readyz"))


def test_stopping_makes_it_unready_and_ends_streams(service: TestClient) -> None:
    service_of(service).stop()
    assert (service.get("/readyz").status_code, service.get("/healthz").status_code) == (503, 200)
    assert service.get("/v1/portfolios/arms/events").status_code == 503
    assert decide(service)["id"], "requests are still answered"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_events_are_streamed_without_contexts(anyio_backend: str) -> None:
    from equipoise.serve.engine import MemoryEngine
    from tests.serve.served import configs

    engine = MemoryEngine(configs(COLORS)[0].portfolio())
    subscribers = streams.Subscribers(engine)
    stream = subscribers.stream()
    assert await anext(stream) == b": connected\n\n"
    decision = await engine.run(lambda hosted: hosted.decide(None, None))
    head, data, *_ = (await anext(stream)).decode().splitlines()
    row = json.loads(data.removeprefix("data: "))
    assert head == "event: decided" and row["data"]["id"] == decision.id and "context" not in row["data"]
    subscribers.close()
    assert [part async for part in stream] == []


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_slow_reader_is_disconnected(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from equipoise.serve.engine import MemoryEngine
    from tests.serve.served import configs

    monkeypatch.setattr(streams, "MAX_WAITING", 5)
    engine = MemoryEngine(configs(COLORS)[0].portfolio())
    stream = streams.Subscribers(engine).stream()
    await anext(stream)
    for _ in range(20):
        await engine.run(lambda hosted: hosted.decide(None, None))
    await asyncio.sleep(0)
    assert len([part async for part in stream]) <= 5


MIXED = """
version = 1
name = "mixed"
[[learner]]
use = "OFUL"
dim = 2
[[learner]]
use = "OFUL"
dim = 1
name = "small"
[[learner]]
use = "EpsilonGreedy"
arms = 2
name = "own"
epsilon = 0.1
"""


def test_a_pool_in_which_one_learner_cannot_share_is_served_and_reopened(tmp_path: Path) -> None:
    """Sharing stays on for the others, also for one that joins, and after the service was closed."""
    context = [[0.5, 0.1], [0.2, 0.4]]
    for start in range(2):
        with client(MIXED, data=tmp_path / "data") as service:
            status = service.get("/v1/portfolios/mixed").json()
            assert status["description"].endswith(
                "CounterfactualBalancing: 2 of 3 learners learn from rounds of others."
            )
            for t in range(12):
                available = ["small"] if t == 5 else None
                decision = decide(service, "mixed", context=context, available=available, id=f"{start}-{t}")
                if t % 4:
                    assert reward(service, decision["id"], float(t % 2), "mixed").status_code == 200
            rows = {row["name"]: row["plays"] for row in service.get("/v1/portfolios/mixed").json()["standing"]}
            assert sum(rows.values()) == 12 * (start + 1) and rows["own"] > 0
            learners = service_of(service).portfolios["mixed"].engine._live.state()["learners"][:2]
            assert [int(learner["state"]["updates"][0]) for learner in learners] == [9 * (start + 1)] * 2
