"""The routes of Azure Personalizer, as its own clients and plain requests call them."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.journal import SQLiteJournal, digest, rebuild, recover
from equipoise.portfolio import clock
from equipoise.serve.app import create_app
from equipoise.serve.azure import portfolio_file
from equipoise.serve.client import Client
from equipoise.serve.hosted import Hosted
from equipoise.serve.personalizer import Assignment, decision_id
from equipoise.serve.service import Settings, open_in
from equipoise.serve.tokens import add_token, read_tokens
from tests.journal.golden import copy_of_killed
from tests.serve.served import ARMS, COLORS, LINEAR, client, configs, service_of

NEWS = """
version = 1
name = "news"
explore = 0.2
[reward]
range = [-1, 1]
deadline = "10m"
default = 0.0
{more}
[actions]
names = ["News", "Sports", "Entertainment"]
[[learner]]
use = "UCB"
arms = 3
[[learner]]
use = "EpsilonGreedy"
arms = 3
epsilon = 0.1
"""
EARLIEST, SUM = NEWS.format(more=""), NEWS.format(more='aggregate = "sum"\nclip = true')
IDS = ["News", "Sports", "Entertainment"]
ACTIONS = [{"id": id_, "features": [{"type": id_}]} for id_ in IDS]
SLOTS = [{"id": "Main Article", "baselineAction": "News"}, {"id": "Side/Bar", "baselineAction": "Sports"}]
PREFIXES = ["/personalizer", "/personalizer/v1.0", "/news/personalizer", "/news/personalizer/v1.0"]


def rank(service: Any, prefix: str = "/personalizer", **changes: Any) -> Any:
    answer = service.post(f"{prefix}/rank", json={"actions": ACTIONS, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()


def reward(service: Any, event: str, value: float = 1.0, **headers: str) -> int:
    status: int = service.post(
        f"/personalizer/events/{event}/reward", json={"value": value}, headers=headers
    ).status_code
    return status


def activate(service: Any, event: str) -> int:
    status: int = service.post(f"/personalizer/events/{event}/activate").status_code
    return status


def health(service: Any) -> Any:
    return service.get("/v1/portfolios/news").json()["health"]


def plays(service: Any) -> int:
    return sum(row["plays"] for row in service.get("/v1/portfolios/news").json()["standing"])


def tick(service: Any) -> None:
    """Do what the service does every second."""

    async def expire() -> None:
        await service_of(service).portfolios["news"].engine.run(Hosted.expire, 1_000)

    assert service.portal is not None
    service.portal.call(expire)


@contextmanager
def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    wall, steady = time.time, clock.steady
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: wall() + seconds)
        patched.setattr(clock, "steady", lambda: steady() + seconds)
        yield


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_address_leads_to_the_portfolio(prefix: str) -> None:
    with client(EARLIEST) as service:
        ranked = rank(service, prefix, eventId="one", contextFeatures=[{"hour": 9}, {"user": {"new": True}}])
        assert ranked["eventId"] == "one" and sorted(each["id"] for each in ranked["ranking"]) == sorted(IDS)
        for path, body in (("activate", None), ("reward", {"value": 0.5})):
            answer = service.post(f"{prefix}/events/one/{path}?api-version=2022-09-01-preview", json=body)
            assert (answer.status_code, answer.content) == (204, b"")
        assert "content-length" not in answer.headers and "content-type" not in answer.headers
        assert health(service)["open"] == 0 and health(service)["held_rewards"] <= 1


def test_the_chosen_action_comes_first_and_excluded_ones_stay_where_they_were() -> None:
    chosen, first = Counter[str](), set[str]()
    with client(EARLIEST) as service:
        for t in range(200):
            ranked = rank(service, excludedActions=["Sports", "unknown"])
            ranking, best = ranked["ranking"], ranked["rewardActionId"]
            assert ranking[1] == {"id": "Sports", "probability": 0.0}
            assert ranking[0]["id"] == best != "Sports"
            assert sum(each["probability"] for each in ranking) == pytest.approx(1.0)
            assert all(each["probability"] >= 0.1 - 1e-9 for each in ranking if each["id"] != "Sports"), "explore"
            chosen[best] += 1
            reward(service, ranked["eventId"], float(best == "News"))
            ranked = rank(service, excludedActions=["News"])  # the first one
            assert ranked["ranking"][0] == {"id": "News", "probability": 0.0}
            first.add(ranked["rewardActionId"])
            assert ranked["ranking"][1]["id"] == ranked["rewardActionId"]
            reward(service, ranked["eventId"], 0.0)
            others = [each["probability"] for each in rank(service)["ranking"]][1:]
            assert others == sorted(others, reverse=True)
            if t % 50 == 0:
                tick(service)
    assert chosen["News"] > chosen["Entertainment"] > 0 and first == {"Sports", "Entertainment"}


def test_the_order_of_actions_in_a_request_does_not_matter_to_arms() -> None:
    with client(EARLIEST) as service:
        ranked = rank(service, actions=ACTIONS[::-1])
        assert {each["id"] for each in ranked["ranking"]} == set(IDS)
        (event,) = [e for e in decided(service) if e["id"] == ranked["eventId"]]
        assert IDS[event["action"]] == ranked["rewardActionId"]
        some = rank(service, actions=ACTIONS[1:])
        assert len(some["ranking"]) == 2 and some["rewardActionId"] != "News"


def decided(service: Any) -> list[dict[str, Any]]:
    """Return the decisions that are open."""
    portfolio = service_of(service).portfolios["news"].engine._portfolio
    state = portfolio.state()["tickets"]["open"]
    return [dict(row) for row in state]


@pytest.mark.parametrize("journaled", [True, False])
def test_a_repeated_rank_gets_the_same_answer(tmp_path: Path, journaled: bool) -> None:
    data = tmp_path if journaled else None
    with client(EARLIEST, data=data) as service:
        first = rank(service, eventId="one", excludedActions=["Sports"])
        reward(service, "one")
        for _ in range(5):
            reward(service, rank(service)["eventId"])
        assert rank(service, eventId="one", excludedActions=["Sports"]) == first
        other = service.post("/personalizer/rank", json={"actions": ACTIONS, "eventId": "one"})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "InvalidRankRequest")
        n = health(service)["rounds"]
    if journaled:
        with client(EARLIEST, data=data) as service:
            assert rank(service, eventId="one", excludedActions=["Sports"]) == first
            assert health(service)["rounds"] == n == 6


def test_rewards_that_change_nothing_are_accepted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """As Azure Personalizer, which joined them to their events later, and left out what it could not join."""
    with client(EARLIEST) as service, caplog.at_level(logging.DEBUG, "equipoise.serve"):
        rank(service, eventId="one")
        assert reward(service, "one", 0.25) == 204
        before = service.get("/v1/portfolios/news").json()
        caplog.clear()
        assert [reward(service, "one", 1.0), reward(service, "unknown"), activate(service, "unknown")] == [204] * 3
        facts = [record.facts for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
        assert [each.get("problem") for each in facts] == ["duplicate-reward", "unknown-decision", "nothing-deferred"]
        assert all(record.levelno == logging.INFO for record in caplog.records if record.message == "request")
        after = service.get("/v1/portfolios/news").json()
        assert after["standing"] == before["standing"] and after["health"]["rounds"] == 1
        assert [reward(service, "one", 0.25)] == [204], "the same again"


def test_a_late_reward_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    with client(EARLIEST) as service:
        rank(service, eventId="one")
        with later(monkeypatch, 700.0):
            assert reward(service, "one") == 204
            assert (health(service)["expired"], health(service)["ignored"]) == (1, 1)


def test_rewards_are_added_up_each_request_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with client(SUM) as service:
        rank(service, eventId="one")
        for request, value in (("a", 0.25), ("a", 0.25), ("b", 0.5)):  # the second one is a retry of the client
            assert reward(service, "one", value, **{"x-ms-client-request-id": request}) == 204
        (row,) = decided(service)
        assert row["rewards"] == {"a": 0.25, "b": 0.5}
        assert [reward(service, "one", 0.125), reward(service, "one", 0.125)] == [204, 204]
        with later(monkeypatch, 700.0):
            tick(service)
            assert health(service)["expired"] == 1
            timeline = service.get("/v1/portfolios/news").json()
            assert timeline["health"]["clipped"] == 0


def test_deferred_events_teach_once_they_are_activated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a kill and a restart; the ones that are not activated are withdrawn, with or without a reward."""
    with client(EARLIEST, data=tmp_path) as service:
        for k in range(8):
            assert rank(service, eventId=f"mail {k}", deferActivation=True)["eventId"] == f"mail {k}"
        for k in range(6):
            assert reward(service, f"mail {k}", 0.5) == 204
            assert reward(service, f"mail {k}", 1.0) == 204  # the earliest counts
        assert health(service)["open"] == 8 and health(service)["held_rewards"] == 0, "nothing teaches"
        assert [activate(service, f"mail {k}") for k in (0, 0, 1)] == [204] * 3
        assert health(service)["open"] == 6
        (tmp_path / "killed").mkdir()
        copy_of_killed(tmp_path / "news.db", tmp_path / "killed" / "news.db")
    journal = SQLiteJournal(tmp_path / "killed" / "news.db", create=False)
    (config,) = configs(EARLIEST)
    rebuilt, recovered = (way(journal, config.portfolio()).portfolio for way in (rebuild, recover))
    assert digest(rebuilt) == digest(recovered) and len(rebuilt.pending) == 6
    journal.close()
    with client(EARLIEST, data=tmp_path / "killed") as service:
        assert rank(service, eventId="mail 2", deferActivation=True)["eventId"] == "mail 2"
        assert [activate(service, "mail 2"), activate(service, "mail 6")] == [204, 204]
        assert reward(service, "mail 6") == 204
        assert health(service)["open"] == 4
        with later(monkeypatch, 590.0):
            assert activate(service, "mail 7") == 204  # counts, and gets the default
        with later(monkeypatch, 700.0):
            assert activate(service, "mail 3") == 204  # too late
            tick(service)
            counts = health(service)
            assert (counts["withdrawn"], counts["expired"], counts["open"]) == (3, 1, 0)
            assert plays(service) + counts["unplayed"] == 5


def rank_slots(service: Any, **changes: Any) -> Any:
    body = {"actions": ACTIONS, "slots": SLOTS, **changes}
    answer = service.post("/personalizer/multislot/rank?api-version=2022-09-01-preview", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def reward_slots(service: Any, event: str, **values: float) -> int:
    body = {"reward": [{"slotId": slot.replace("_", " "), "value": value} for slot, value in values.items()]}
    status: int = service.post(f"/personalizer/multislot/events/{event}/reward", json=body).status_code
    return status


def test_a_reward_that_waits_and_is_clipped_later_can_be_repeated(tmp_path: Path) -> None:
    clipped = NEWS.format(more="clip = true")
    for again in (False, True):  # after a restart, the journal knows the reward
        with client(clipped, data=tmp_path) as service:
            if not again:
                rank(service, eventId="mail", deferActivation=True)
            for value, status in ((9.0, 200), (9.0, 200), (0.5, 409)):
                answer = service.post("/v1/portfolios/news/rewards", json={"id": "mail", "reward": value})
                assert answer.status_code == status, answer.text
            if again:
                assert activate(service, "mail") == 204 and health(service)["clipped"] == 1
                assert reward(service, "mail", 9.0) == 204


def test_slots_get_different_actions_and_rewards_of_their_own(tmp_path: Path) -> None:
    with client(EARLIEST, data=tmp_path) as service:
        slots = [SLOTS[0], {**SLOTS[1], "excludedActions": ["Entertainment"], "features": [{"size": "small"}]}]
        ranked = rank_slots(service, slots=slots, eventId="page")
        assert [slot["id"] for slot in ranked["slots"]] == ["Main Article", "Side/Bar"]
        first, second = (slot["rewardActionId"] for slot in ranked["slots"])
        assert first != second != "Entertainment" and ranked["eventId"] == "page"
        assert rank_slots(service, slots=slots, eventId="page") == ranked
        assert health(service)["open"] == 2
        assert reward_slots(service, "page", Main_Article=1.0, unknown=1.0) == 204
        assert health(service)["open"] == 1
    with client(EARLIEST, data=tmp_path) as service:
        assert rank_slots(service, slots=slots, eventId="page") == ranked
        assert reward_slots(service, "page", **{"Side/Bar": 0.5, "Main_Article": 0.0}) == 204
        assert health(service)["open"] == 0 and health(service)["rounds"] == 2


def test_deferred_slots_are_activated_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(EARLIEST, data=tmp_path) as service:
        for event in ("seen", "unseen"):
            rank_slots(service, eventId=event, deferActivation=True)
            assert reward_slots(service, event, Main_Article=1.0) == 204
        assert health(service)["open"] == 4
    with client(EARLIEST, data=tmp_path) as service:
        assert service.post("/personalizer/multislot/events/seen/activate").status_code == 204
        assert health(service)["open"] == 3
        with later(monkeypatch, 700.0):
            tick(service)
            counts = health(service)
            assert (counts["expired"], counts["withdrawn"], counts["open"]) == (1, 2, 0)


def test_slots_are_filled_whatever_the_first_ones_take() -> None:
    """Only `News` is left for the last slot, so no earlier one may take it."""
    slots: list[dict[str, Any]] = [
        {"id": "top"},
        {"id": "middle", "excludedActions": ["Entertainment"]},
        {"id": "end", "excludedActions": ["Sports", "Entertainment"]},
    ]
    with client(EARLIEST) as service:
        for _ in range(20):
            ranked = rank_slots(service, slots=slots)
            assert [each["rewardActionId"] for each in ranked["slots"]] == ["Entertainment", "Sports", "News"]
        before = health(service)["rounds"]
        slots[1]["excludedActions"] = ["Sports", "Entertainment"]
        answer = service.post("/personalizer/multislot/rank", json={"actions": ACTIONS, "slots": slots})
        assert answer.status_code == 400 and "not all can get an action" in answer.json()["error"]["message"]
        assert health(service)["rounds"] == before


def brute(options: list[frozenset[int]]) -> frozenset[int]:
    """Return the actions that the first slot can take, by trying all."""

    def fits(rest: list[frozenset[int]]) -> bool:
        return not rest or any(fits([each - {a} for each in rest[1:]]) for a in rest[0])

    return frozenset(a for a in options[0] if fits([each - {a} for each in options[1:]]))


def test_assignments_agree_with_trying_all() -> None:
    rng, found = np.random.default_rng(0), set[int]()
    for _ in range(300):
        options = [frozenset(np.flatnonzero(rng.random(5) < 0.4).tolist()) for _ in range(int(rng.integers(1, 5)))]
        choices = brute(options)
        assert (Assignment(options).holders is not None) == bool(choices)
        if choices:
            assert Assignment(options).choices() == choices
        found.add(len(choices))
    assert found >= {0, 1, 2, 3}


def test_a_rank_of_slots_is_decided_as_a_whole_or_not_at_all() -> None:
    with client(EARLIEST, settings=Settings(max_open=3)) as service:
        rank_slots(service, eventId="first")
        body = {"actions": ACTIONS, "slots": SLOTS, "eventId": "second"}
        answer = service.post("/personalizer/multislot/rank", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "OperationNotAllowed")
        assert answer.headers["Retry-After"] and health(service)["open"] == 2
        assert rank_slots(service, eventId="first")["eventId"] == "first"


@pytest.mark.parametrize("closed", [False, True])
def test_a_refused_rank_of_slots_takes_back_only_what_it_decided(closed: bool) -> None:
    with client(EARLIEST) as service:
        first = rank_slots(service, eventId="page", slots=[{"id": "top"}, {"id": "end"}])
        if closed:
            assert reward_slots(service, "page", top=1.0) == 204
        end = {"id": "end", "excludedActions": [first["slots"][1]["rewardActionId"]]}  # another context than before
        body = {"actions": ACTIONS, "eventId": "page", "slots": [{"id": "top"}, {"id": "new"}, end]}
        answer = service.post("/personalizer/multislot/rank", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "InvalidRankRequest")
        assert (health(service)["open"], health(service)["withdrawn"]) == (2 - closed, 1)


def test_the_portfolio_is_the_named_one_the_only_one_or_that_of_the_key(tmp_path: Path) -> None:
    other = EARLIEST.replace('"news"', '"other"')
    with client(EARLIEST, other) as service:
        answer = service.post("/personalizer/rank", json={"actions": ACTIONS})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ResourceNotFound")
        assert "/NAME/personalizer" in answer.json()["error"]["message"]
        assert rank(service, "/other/personalizer")["rewardActionId"] in IDS
        answer = service.post("/none/personalizer/rank", json={"actions": ACTIONS})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ResourceNotFound")
    keys = {name: add_token(tmp_path / "tokens.json", name, ["decide", "reward"], [name]) for name in ("news", "other")}
    keys["decides"] = add_token(tmp_path / "tokens.json", "decides", ["decide"], ["news"])
    with client(EARLIEST, other, tokens=read_tokens(tmp_path / "tokens.json")) as service:
        for name in ("news", "other"):
            header = {"Ocp-Apim-Subscription-Key": keys[name]}
            ranked = service.post("/personalizer/v1.0/rank", json={"actions": ACTIONS}, headers=header)
            assert ranked.status_code == 201
            path = f"/personalizer/v1.0/events/{ranked.json()['eventId']}/reward"
            assert service.post(path, json={"value": 1}, headers=header).status_code == 204
            engine = service_of(service).portfolios[name].engine
            assert engine._portfolio.health()["rounds"] == 1
        for header, path, status in (
            ({}, "/personalizer/rank", 401),
            ({"Ocp-Apim-Subscription-Key": "wrong"}, "/personalizer/rank", 401),
            ({"Ocp-Apim-Subscription-Key": keys["other"]}, "/news/personalizer/rank", 403),
            ({"Ocp-Apim-Subscription-Key": keys["decides"]}, "/personalizer/events/e/reward", 403),
            ({"Authorization": f"Bearer {keys['news']}"}, "/personalizer/rank", 201),
            ({"Ocp-Apim-Subscription-Key": keys["news"]}, "/v1/portfolios/news/decide", 401),  # of these routes only
        ):
            body = {"value": 1.0} if path.endswith("reward") else {"actions": ACTIONS}
            answer = service.post(path, json=body, headers=header)
            assert answer.status_code == status, answer.text
            if status in (401, 403) and "personalizer" in path:
                assert answer.json()["error"]["code"] == str(status)


BAD_RANKS: list[tuple[dict[str, Any], str]] = [
    ({"actions": []}, "length >= 1"),
    ({"actions": [{"id": f"a{k}"} for k in range(51)]}, "length <= 50"),
    ({"actions": [{"id": "News"}, {"id": "News"}]}, "id twice"),
    ({"actions": [{"id": "Other"}]}, "'Other' is unknown"),
    ({"actions": [{"features": []}]}, "missing required field `id`"),
    ({"actions": [None]}, "Expected `object`"),
    ({"actions": [{"id": "News", "features": {"type": "text"}}]}, "Expected `array | null`"),
    ({"contextFeatures": ["text"]}, "Expected `object`"),
    ({"contextFeatures": [None]}, "Expected `object`"),
    ({"excludedActions": IDS}, "must leave at least one"),
    ({"excludedActions": "News"}, "Expected `array | null`"),
    ({"eventId": ""}, "length >= 1"),
    ({"eventId": "x" * 257}, "length <= 256"),
    ({"eventId": 7}, "Expected `str | null`"),
    ({"eventId": "two\nlines"}, "matching regex"),
    ({"deferActivation": "yes"}, "Expected `bool | null`"),
]
BAD_SLOTS: list[tuple[dict[str, Any], str]] = [
    ({"slots": []}, "length >= 1"),
    ({"slots": [{"id": "a"}, {"id": "a"}]}, "id twice"),
    ({"slots": [{"id": ""}]}, "length >= 1"),
    ({"slots": [{"id": str(k)} for k in range(4)]}, "not all can get an action"),
    ({"slots": [{"id": "a", "baselineAction": "Other"}]}, "baselineAction is 'Other'"),
    ({"slots": [{"id": "a", "baselineAction": "News", "excludedActions": ["News"]}]}, "baselineAction is 'News'"),
    ({"slots": [{"id": "a", "excludedActions": IDS}]}, "must leave at least one"),
]
BAD_REWARDS: list[tuple[str, Any, str]] = [
    ("events/one", {}, "missing required field `value`"),
    ("events/one", {"value": 1.5}, "must lie in"),
    ("events/one", {"value": "1"}, "Expected `float`"),
    ("events/one", {"value": 1e400}, "malformed"),
    ("multislot/events/page", {"reward": []}, "length >= 1"),
    ("multislot/events/page", {"reward": [{"slotId": "a", "value": 1}, {"slotId": "a", "value": 0}]}, "slotId twice"),
    (
        "multislot/events/page",
        {"reward": [{"slotId": "Main Article", "value": 1}, {"slotId": "x", "value": 9}]},
        "lie in",
    ),
    (f"events/{'x' * 257}", {"value": 1}, "must have 1 to 256"),
]


@pytest.fixture(scope="module")
def bad() -> Iterator[Any]:
    with client(EARLIEST) as service:
        rank(service, eventId="one")
        rank_slots(service, eventId="page")
        yield service


def refused(service: Any, path: str, code: str, rule: str, status: int = 400, **request: Any) -> None:
    """One error in the form of the clients, and nothing is changed."""
    before = service.get("/v1/portfolios/news").json()
    answer = service.post(path, **request)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    error = answer.json()["error"]
    assert list(answer.json()) == ["error"] and error["code"] == code
    assert rule in error["message"] or (rule == "malformed" and error["message"]), error
    assert service.get("/v1/portfolios/news").json() == before


@pytest.mark.parametrize(("changes", "rule"), BAD_RANKS)
@pytest.mark.parametrize("prefix", ["/personalizer", "/personalizer/v1.0"])
def test_a_bad_rank(bad: Any, prefix: str, changes: dict[str, Any], rule: str) -> None:
    refused(bad, f"{prefix}/rank", "InvalidRankRequest", rule, json={"actions": ACTIONS, **changes})


@pytest.mark.parametrize(("changes", "rule"), [*BAD_RANKS[:6], *BAD_RANKS[7:8], *BAD_SLOTS])
def test_a_bad_rank_of_slots(bad: Any, changes: dict[str, Any], rule: str) -> None:
    body = {"actions": ACTIONS, "slots": [{"id": "top"}], **changes}
    refused(bad, "/personalizer/multislot/rank", "InvalidRankRequest", rule, json=body)


@pytest.mark.parametrize(("where", "body", "rule"), BAD_REWARDS)
def test_a_bad_reward(bad: Any, where: str, body: Any, rule: str) -> None:
    content = json.dumps(body).replace("Infinity", "1e400")
    request: Any = {"content": content, "headers": {"Content-Type": "application/json; charset=utf-8"}}
    refused(bad, f"/personalizer/{where}/reward", "InvalidRewardRequest", rule, **request)


@pytest.mark.parametrize(
    ("path", "status", "code", "request_"),
    [
        (
            "/personalizer/rank",
            400,
            "InvalidRankRequest",
            {"content": b"{", "headers": {"Content-Type": "application/json"}},
        ),
        ("/personalizer/rank", 415, "415", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}),
        (
            "/personalizer/rank",
            413,
            "PayloadSizeExceeded",
            {"json": {"actions": ACTIONS, "contextFeatures": [{"a": "x" * 70_000}]}},
        ),
        (f"/personalizer/events/{'x' * 257}/activate", 400, "InvalidEventIdToActivate", {}),
        ("/personalizer/events/two%0Alines/activate", 404, "ResourceNotFound", {}),
        ("/personalizer/configurations/service", 404, "ResourceNotFound", {}),
    ],
)
def test_a_bad_request(bad: Any, path: str, status: int, code: str, request_: dict[str, Any]) -> None:
    refused(bad, path, code, "", status, **request_)


@pytest.mark.parametrize("event", ["a/b", "50 %", "é 漢", "x" * 256, "line\ttab", "..."])
def test_any_text_can_be_the_id_of_an_event(event: str) -> None:
    with client(EARLIEST) as service:
        assert rank(service, eventId=event)["eventId"] == event
        assert reward(service, quote(event, safe="")) == 204
        assert health(service)["open"] == 0


def test_ids_of_decisions_differ() -> None:
    given = [("a", None), ("a", "b"), ("a/b", "c"), ("a", "b/c"), ("a b", "c"), ("a", "x" * 250), ("a" * 250, "x")]
    assert len({decision_id(*each) for each in given}) == len(given)
    assert all(0 < len(decision_id(*each)) <= 200 for each in given)


@contextmanager
def served(tmp_path: Path, text: str = EARLIEST, tokens: Any = None) -> Iterator[str]:
    """The address of a durable service."""
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    from tools.studies.dashboard_cost import running

    with running(create_app(configs(text), tokens=tokens, open=open_in(tmp_path))) as url:
        yield url


PACKAGES = {"v1": "azure.cognitiveservices.personalizer", "v2": "azure.ai.personalizer"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_the_clients_of_microsoft_play_by_another_address_only(name: str, tmp_path: Path) -> None:
    """A short form; 1,000 rounds are `python -m tools.studies.personalizer_clients`. A key is a token."""
    pytest.importorskip(PACKAGES[name], reason="needs the clients of Azure Personalizer")
    from tools.studies.personalizer_clients import ACTIONS, CLIENTS, CONFIGURATION, play

    assert [action["id"] for action in ACTIONS] == ["News", "Sports", "Music"]
    key = add_token(tmp_path / "tokens.json", "key", ["decide", "reward", "read"])
    file = portfolio_file(json.dumps(CONFIGURATION), "news")
    with served(tmp_path, file, read_tokens(tmp_path / "tokens.json")) as url:
        earned = play(CLIENTS[name](url, key), 60, seed=1)
        with Client(url, "news", token=key) as reader:
            health = reader.status()["health"]
        assert len(earned) == health["rounds"] == 60 and set(earned) == {0.0, 1.0}
        assert health["open"] == 2, "never activated"
        with pytest.raises(Exception, match="401"):
            CLIENTS[name](url, "wrong").rank([], False)


@pytest.mark.slow
def test_the_client_of_the_preview_fills_slots(tmp_path: Path) -> None:
    module = pytest.importorskip("azure.ai.personalizer", reason="needs azure-ai-personalizer")
    from azure.core.credentials import AzureKeyCredential
    from azure.core.exceptions import HttpResponseError, ResourceExistsError

    with served(tmp_path) as url:
        personalizer = module.PersonalizerClient(f"{url}/news", AzureKeyCredential("any"))
        ranked = personalizer.rank_multi_slot({"actions": ACTIONS, "slots": SLOTS, "deferActivation": True})
        personalizer.activate_multi_slot(ranked["eventId"])
        rewards = [{"slotId": slot["id"], "value": 1.0} for slot in ranked["slots"]]
        personalizer.reward_multi_slot(ranked["eventId"], {"reward": rewards})
        with pytest.raises(HttpResponseError, match="InvalidRankRequest") as caught:
            personalizer.rank({"actions": []})
        assert caught.value.status_code == 400
        personalizer.rank({"actions": ACTIONS, "eventId": "one"})
        with pytest.raises(ResourceExistsError):
            personalizer.rank({"actions": ACTIONS[1:], "eventId": "one"})


@pytest.mark.slow
def test_the_client_of_version_1_reads_errors(tmp_path: Path) -> None:
    module = pytest.importorskip(
        "azure.cognitiveservices.personalizer", reason="needs azure-cognitiveservices-personalizer"
    )
    from msrest.authentication import CognitiveServicesCredentials

    with served(tmp_path) as url:
        personalizer = module.PersonalizerClient(url, CognitiveServicesCredentials("any"))
        with pytest.raises(module.models.ErrorResponseException) as caught:
            personalizer.rank(module.models.RankRequest(actions=[]))
        assert caught.value.error.error.code == "InvalidRankRequest"
        assert "length >= 1" in caught.value.error.error.message


HASHED = """
version = 1
name = "news"
[reward]
range = [0, 1]
[schema]
unknown = "hash"
hashed = 16
[[learner]]
use = "OFUL"
[[learner]]
name = "popular"
use = "OFUL"
features = { use = "Prefix", dim = 16 }
"""


def test_features_of_any_form_are_used() -> None:
    """Half of the users want the first action, the other half the second one, of which the ids alone differ."""
    with client(HASHED) as service:
        earned = []
        for t in range(240):
            user, actions = ["fan", "reader"][t % 2], [{"id": "Sports"}, {"id": "News", "features": []}]
            features = [{"user": {"kind": user, "more": {"depth": [1, 2]}}}, {"hour": t % 24, "weather": None}]
            ranked = rank(service, actions=actions[:: 1 if t % 3 else -1], contextFeatures=features)
            earned.append(float((ranked["rewardActionId"] == "Sports") == (user == "fan")))
            assert reward(service, ranked["eventId"], earned[-1]) == 204
        assert np.mean(earned[120:]) > 0.85
        plays = {row["name"]: row["plays"] for row in service.get("/v1/portfolios/news").json()["standing"]}
        assert plays["OFUL"] > plays["popular"]


def test_declared_features_are_read_and_others_ignored_or_refused() -> None:
    typed = HASHED.replace(
        'unknown = "hash"\nhashed = 16', 'unknown = "RULE"\n[context.user.age]\ntype = "number"\nlow = 0\nhigh = 100'
    ).replace('features = { use = "Prefix", dim = 16 }', 'features = { use = "OneHot", ids = ["a", "b"] }')
    typed += '[actions]\nnames = ["a", "b"]\n'
    body = {"actions": [{"id": "b"}], "contextFeatures": [{"user": {"age": 50}}]}
    for unknown, status in (("ignore", 201), ("error", 400)):
        with client(typed.replace("RULE", unknown)) as service:
            assert service.post("/personalizer/rank", json=body).status_code == 201
            extended = {**body, "contextFeatures": [{"user": {"age": 50}}, {"hour": 9}]}
            answer = service.post("/personalizer/rank", json=extended)
            assert answer.status_code == status, answer.text
            wrong = {**body, "contextFeatures": [{"user": {"age": "old"}}]}
            answer = service.post("/personalizer/rank", json=wrong)
            assert answer.status_code == 400 and "user.age" in answer.json()["error"]["message"]


def deep(levels: int) -> dict[str, Any]:
    return {"x": 1} if levels == 0 else {"d": deep(levels - 1)}


@pytest.mark.parametrize(
    ("features", "rule"),
    [
        ({f"k{k}": k for k in range(3_000)}, "fields"),
        (deep(40), "nested more than"),
        ({"a": 1e300}, "must be a finite number"),
    ],
)
def test_features_that_nobody_can_mean(features: dict[str, Any], rule: str) -> None:
    with client(HASHED) as service:
        rank(service, eventId="one", contextFeatures=[{"a": 1}])
        request = {"actions": ACTIONS, "contextFeatures": [features]}
        refused(service, "/personalizer/rank", "InvalidRankRequest", rule, json=request)
        request = {"actions": [*ACTIONS[1:], {"id": "News", "features": [features]}]}
        refused(service, "/personalizer/rank", "InvalidRankRequest", rule, json=request)


def test_a_key_that_an_object_has_twice() -> None:
    with client(HASHED) as service:
        content = b'{"actions": [{"id": "a"}, {"id": "b"}], "eventId": "x", "eventId": "y"}'
        request: Any = {"content": content, "headers": {"Content-Type": "application/json"}}
        refused(service, "/personalizer/rank", "InvalidRankRequest", "twice", **request)


def test_the_description_has_a_request_for_each_portfolio() -> None:
    with client(ARMS, COLORS, LINEAR, HASHED) as service:
        document = service.get("/openapi.json").json()
        described = document["paths"]["/{name}/personalizer/v1.0/rank"]["post"]
        assert described["security"][1] == {"key": ["decide"]} and "404" in described["responses"]
        examples = described["requestBody"]["content"]["application/json"]["examples"]
        assert set(examples) == {"arms", "colors", "linear", "news"}
        for name, example in examples.items():
            answer = service.post(f"/{name}/personalizer/v1.0/rank", json=example["value"])
            assert answer.status_code == 201, answer.text
        reward = document["paths"]["/personalizer/events/{event}/reward"]["post"]["responses"]
        assert "content" not in reward["204"]
        error = {"$ref": "#/components/schemas/ErrorResponse"}
        assert reward["400"]["content"] == {"application/json": {"schema": error}}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_is_not_served_is_refused_in_the_form_of_the_clients(prefix: str) -> None:
    with client(EARLIEST) as service:
        answers = [service.get(f"{prefix}/rank"), service.post(f"{prefix}/model"), service.delete(f"{prefix}/rank")]
        assert [answer.status_code for answer in answers] == [405, 404, 405]
        assert all(answer.json()["error"]["message"] for answer in answers)
        assert answers[0].headers["Allow"] == "POST"


def test_other_portfolios_are_not_in_the_way() -> None:
    with client(ARMS) as service:
        ranked = rank(service, actions=[{"id": id_} for id_ in ("x", "y", "z")])
        assert ranked["rewardActionId"] in ("x", "y", "z")
