"""What the clients send, read and repeat, without a socket or a clock."""

from __future__ import annotations

import copy
import json
import pickle
import random
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from email.utils import formatdate
from math import isnan
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.serve import AsyncClient, Client, Outcome, ServiceError
from equipoise.serve.client.calls import Call, Calls, Failure, Pause, Request
from equipoise.serve.client.wire import Answer, Target

Reply = Answer | Failure
DECIDED = {
    "action": 1,
    "action_id": "b",
    "learner": "UCB",
    "drawn": "UCB",
    "learner_probability": 0.5,
    "action_probability": None,
    "propensity": 0.25,
}
REFUSED = ConnectionRefusedError("refused")


def ok(body: Any, **headers: str) -> Answer:
    return Answer(200, headers, json.dumps(body).encode(), False)


def problem(status: int, kind: str = "overloaded", **headers: str) -> Answer:
    document = {"type": f"urn:equipoise:problem:{kind}", "title": "t", "status": status, "detail": f"because of {kind}"}
    return Answer(status, headers, json.dumps({**document, "request_id": "r1"}).encode(), False)


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.5)


class Clock:
    """Time that passes only where a call waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Run:
    """A call that was run against given replies: its requests and pauses, and its result or error."""

    def __init__(self, call: Call[Any], replies: Iterable[Reply | Callable[[Request], Reply]], clock: Clock) -> None:
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self.result: Any = None
        self.error: ServiceError | None = None
        left, outcome = iter(replies), None
        try:
            while True:
                step = call.send(outcome)
                if isinstance(step, Pause):
                    self.pauses.append(step.seconds)
                    clock.now += step.seconds
                    outcome = None
                else:
                    self.requests.append(step)
                    reply = next(left)
                    outcome = reply(step) if callable(reply) else reply
        except StopIteration as end:
            self.result = end.value
        except ServiceError as error:
            self.error = error
        assert next(left, None) is None, "a reply is left"

    @property
    def bodies(self) -> list[list[Any]]:
        return [list(map(json.loads, each.data.partition(b"\r\n\r\n")[2].splitlines())) for each in self.requests]


def calls(**settings: Any) -> Calls:
    return Calls(Client("http://x", "arms", **settings), Target("http://x", None))


def test_pauses_double_and_every_repetition_is_the_same_request(clock: Clock) -> None:
    busy = [problem(status) for status in (503, 502, 504, 429)]
    replies: list[Reply] = [Failure(REFUSED, False), *busy, ok({"id": "x", **DECIDED})]
    run = Run(calls().decide(None, {}), replies, clock)
    assert run.pauses == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert len({each.data for each in run.requests}) == 1 and len(run.bodies[0][0]["id"]) == 32
    decision = run.result
    assert (decision.action, decision.action_id, decision.learner_name) == (1, "b", "UCB")
    assert decision.drawn is None and isnan(decision.action_probability) and decision.propensity == 0.25


def test_every_decision_has_an_id_of_its_own(clock: Clock) -> None:
    ids = {Run(calls().decide(None, {}), [ok({"id": "x", **DECIDED})], clock).bodies[0][0]["id"] for _ in range(100)}
    assert len(ids) == 100
    run = Run(calls().decide([1.0], {"id": "mine", "available": ("a", "b")}), [ok({"id": "x", **DECIDED})], clock)
    assert run.bodies == [[{"context": [1.0], "available": ["a", "b"], "id": "mine"}]]


@pytest.mark.parametrize(
    ("header", "pause"),
    [("3", 3.0), ("0", 0.1), ("99", 10.0), ("soon", 0.1), ("-1", 0.1), (formatdate(1e9 + 4, usegmt=True), 4.0)],
)
def test_the_service_says_how_long_to_wait(
    header: str, pause: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1e9)
    run = Run(calls().reward("x", 1.0, None), [problem(503, **{"retry-after": header}), ok({})], clock)
    assert run.pauses == [pause] and run.error is None


def test_it_gives_up_after_the_last_repetition(clock: Clock) -> None:
    run = Run(calls(retries=2).withdraw("x"), [problem(503)] * 3, clock)
    assert run.error is not None and run.pauses == [0.1, 0.2]
    assert (run.error.status, run.error.kind, run.error.request_id) == (503, "overloaded", "r1")
    assert str(run.error) == "because of overloaded (overloaded, status 503, request r1)"
    run = Run(calls(retries=0).withdraw("x"), [Failure(REFUSED, False)], clock)
    assert str(run.error) == "http://x gave no answer: refused"


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 422, 500])
def test_a_refusal_is_not_repeated(status: int, clock: Clock) -> None:
    run = Run(calls().reward("x", 1.0, None), [problem(status, "kind")], clock)
    assert run.error is not None and run.error.status == status and run.pauses == []


def test_a_wrong_certificate_is_not_tried_again(clock: Clock) -> None:
    failure = Failure(ssl.SSLCertVerificationError("self-signed"), False)
    run = Run(calls().reward("x", 1.0, None), [failure], clock)
    assert run.error is not None and run.error.kind == "unreachable"


def test_a_connection_that_ended_while_idle_costs_no_pause(clock: Clock) -> None:
    run = Run(calls().withdraw("x"), [Failure(REFUSED, True), Failure(REFUSED, False), ok({})], clock)
    assert run.pauses == [0.0, 0.2]
    run = Run(calls().withdraw("x"), [Failure(TimeoutError(), True), ok({})], clock)
    assert run.pauses == [0.1], "a service that is slow must not get more requests"


def test_the_time_limits(clock: Clock) -> None:
    def slow(request: Request) -> Failure:
        clock.now += request.seconds
        return Failure(TimeoutError(), False)

    run = Run(calls(timeout_seconds=4.0, total_seconds=10.0, retries=100).withdraw("x"), [slow] * 3, clock)
    assert [round(each.seconds, 6) for each in run.requests] == [4.0, 4.0, 1.7]
    assert [round(each.patience, 6) for each in run.requests] == [10.0, 5.9, 1.7]
    assert clock.now == 1_010.0 and str(run.error) == "http://x gave no answer: TimeoutError"
    late = Run(calls(total_seconds=2.0).withdraw("x"), [problem(503, **{"retry-after": "3"})], clock)
    assert late.pauses == [] and late.error is not None and late.error.status == 503


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null", b"{}", b'{"id": 1}', b"\xff", b"[" * 100_000])
def test_an_answer_that_is_not_the_services(body: bytes, clock: Clock) -> None:
    run = Run(calls().decide(None, {}), [Answer(200, {}, body, False)], clock)
    assert run.error is not None and (run.error.status, run.error.kind) == (200, "unexpected-answer")
    run = Run(calls().reward("x", 1.0, None), [Answer(404, {"x-request-id": "r7"}, body, False)], clock)
    assert run.error is not None and (run.error.kind, run.error.request_id) == ("unknown", "r7")


def lines(request: Request) -> list[dict[str, Any]]:
    return [json.loads(line) for line in request.data.partition(b"\r\n\r\n")[2].splitlines()]


def ndjson(rows: Iterable[Any]) -> Answer:
    return Answer(200, {"x-request-id": "r2"}, b"".join(json.dumps(row).encode() + b"\n" for row in rows), False)


def learn(refused: Callable[[str], int]) -> Callable[[Request], Answer]:
    """A service that refuses a line with the status for its id; 0 means that it learns the reward."""

    def reply(request: Request) -> Answer:
        assert b"Content-Type: application/x-ndjson\r\n" in request.data
        rows = []
        for n, row in enumerate(lines(request), start=1):
            status = refused(row["id"])
            document = {"type": "urn:equipoise:problem:kind", "detail": "no", "status": status}
            rows.append({"line": n, "status": status, "problem": document} if status else {"line": n, "status": 200})
        return ndjson(rows)

    return reply


def test_a_batch_is_sent_in_parts_and_every_line_has_its_outcome(clock: Clock) -> None:
    reply = learn(lambda id_: 404 if id_ == "d600" else 0)
    rewards: list[Any] = [*((f"d{k}", 1.0) for k in range(1_200)), ("last", 0.5, "part")]
    run = Run(calls().rewards(rewards), [reply] * 3, clock)
    assert [len(rows) for rows in run.bodies] == [500, 500, 201] and run.pauses == []
    assert run.bodies[2][-1] == {"id": "last", "reward": 0.5, "key": "part"}
    assert [each.id for each in run.result] == [each[0] for each in rewards]
    (refused,) = [each for each in run.result if each.error is not None]
    assert refused.id == "d600"
    assert (refused.error.status, refused.error.kind, refused.error.request_id) == (404, "kind", "r2")
    assert Run(calls().rewards([]), [], clock).result == []


def test_large_lines_are_sent_in_smaller_parts(clock: Clock) -> None:
    rewards = [("d" * 60_000, 1.0)] * 20
    run = Run(calls().rewards(rewards), [learn(lambda id_: 0)] * 3, clock)
    assert [len(rows) for rows in run.bodies] == [8, 8, 4]
    assert all(len(each.data) < 1 << 20 for each in run.requests)


def test_lines_that_the_service_was_too_busy_for_are_repeated(clock: Clock) -> None:
    busy = iter([503, 0, 503, 0, 0, 0])
    run = Run(calls().rewards((f"d{k}", 1.0) for k in range(4)), [learn(lambda id_: next(busy))] * 2, clock)
    assert [[row["id"] for row in rows] for rows in run.bodies] == [["d0", "d1", "d2", "d3"], ["d0", "d2"]]
    assert run.pauses == [0.1] and [each.error for each in run.result] == [None] * 4
    run = Run(calls(retries=1).rewards([("a", 1.0), ("b", 1.0)]), [learn(lambda id_: 503 * (id_ == "b"))] * 2, clock)
    assert [each.error.status if each.error else 0 for each in run.result] == [0, 503]


def test_a_part_that_fails_does_not_hide_the_parts_before(clock: Clock) -> None:
    rewards = [(f"d{k}", 1.0) for k in range(700)]
    run = Run(calls(retries=0).rewards(rewards), [learn(lambda id_: 0), problem(401, "unauthenticated")], clock)
    assert [each.error is None for each in run.result] == [True] * 500 + [False] * 200
    assert run.result[-1].error.kind == "unauthenticated"
    run = Run(calls(retries=1).rewards(rewards), [learn(lambda id_: 0), problem(503), problem(503)], clock)
    assert [each.error and each.error.status for each in run.result] == [None] * 500 + [503] * 200
    run = Run(calls(retries=0).rewards(rewards), [problem(401, "unauthenticated")], clock)
    assert run.error is not None and run.error.kind == "unauthenticated"


def test_a_batch_of_decisions_has_an_id_for_each(clock: Clock) -> None:
    def reply(request: Request) -> Answer:
        rows = []
        for n, row in enumerate(lines(request), start=1):
            if row.get("context") == "bad":
                rows.append({"line": n, "status": 422, "problem": {"type": "x:invalid-argument", "detail": "no"}})
            else:
                rows.append({"line": n, "status": 200, "decision": {"id": row["id"], **DECIDED}})
        return ndjson(rows)

    rounds: Any = [{"id": "mine"}, {"context": "bad"}, {"offers": iter([{"id": "a"}])}]
    run = Run(calls().decide_many(rounds), [reply], clock)
    (sent,) = run.bodies
    assert sent[0] == {"id": "mine"} and sent[2]["offers"] == [{"id": "a"}] and len({row["id"] for row in sent}) == 3
    first, second, third = run.result
    assert first.decision.id == "mine" and first.error is None and third.decision.id == sent[2]["id"] == third.id
    assert second.decision is None and second.error.kind == "invalid-argument" and second.id == sent[1]["id"]


def test_a_unit_gets_the_decision_that_it_keeps(clock: Clock) -> None:
    reply = ok({"id": "kept", **DECIDED})
    run = Run(
        calls().decide({"a": 1}, {"unit": "user-7", "exclude": iter("bc")}), [Failure(REFUSED, True), reply], clock
    )
    ((sent,), (again,)) = run.bodies
    assert sent == again == {"context": {"a": 1}, "exclude": ["b", "c"], "unit": "user-7", "id": sent["id"]}
    assert run.result.id == "kept"
    run = Run(calls().decide(None, {"unit": "user-7", "id": "mine"}), [reply], clock)
    assert run.bodies == [[{"unit": "user-7", "id": "mine"}]]
    rows = [{"line": 1, "status": 200, "decision": {"id": "kept", **DECIDED}}]
    rows.append({"line": 2, "status": 422, "problem": {"type": "x:invalid-argument"}})
    run = Run(calls().decide_many([{"unit": "user-7"}, {"unit": ""}]), [ndjson(rows)], clock)
    assert [(each.id, each.error is None) for each in run.result] == [("kept", True), (run.bodies[0][1]["id"], False)]


def test_a_slate(clock: Clock) -> None:
    reply = ok({"slots": [{"id": "page", **DECIDED}, {"id": "page/2", **DECIDED}]})
    run = Run(calls().slate(2, None, {"id": "page"}), [Failure(REFUSED, True), reply], clock)
    assert run.bodies == [[{"id": "page", "k": 2}]] * 2
    assert [decision.id for decision in run.result] == ["page", "page/2"]
    run = Run(calls().slate(2, None, {}), [reply], clock)
    assert len(run.bodies[0][0]["id"]) == 32
    run = Run(calls().slate(2, None, {}), [ok({"id": "page", **DECIDED})], clock)
    assert run.error is not None and run.error.kind == "unexpected-answer"


@pytest.mark.parametrize("body", [b"", b'{"line": 1, "status": 200}\n' * 3, b"<html>\n<html>", b"1\n2", b"{}\n{}"])
def test_a_batch_whose_answer_is_not_the_services(body: bytes, clock: Clock) -> None:
    run = Run(calls().decide_many([{}, {}]), [Answer(200, {}, body, False)], clock)
    assert run.error is not None and run.error.kind == "unexpected-answer"


def test_contexts_are_sent_as_json(clock: Clock) -> None:
    context = {"device": "phone", "age": np.float32(0.5), "visits": np.int64(3), "nested": {"list": np.eye(2)}}
    run = Run(calls().decide(context, {"id": "x"}), [ok({"id": "x", **DECIDED})], clock)
    sent = {"device": "phone", "age": 0.5, "visits": 3, "nested": {"list": [[1.0, 0.0], [0.0, 1.0]]}}
    assert run.bodies == [[{"context": sent, "id": "x"}]]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, {(1, 2): 3}, np.array([np.nan])])
def test_what_is_not_json_is_refused_before_anything_is_sent(value: Any, clock: Clock) -> None:
    with pytest.raises(InvalidArgument, match="the request cannot be sent as JSON"):
        Run(calls().decide({"a": value}, {}), [], clock)
    with pytest.raises(InvalidArgument, match="the request cannot be sent as JSON"):
        Run(calls().decide_many([{}, {"context": value}]), [], clock)


def test_an_unknown_option_is_an_error(clock: Clock) -> None:
    with pytest.raises(TypeError, match="'offer'"):
        Run(calls().decide(None, {"offer": []}), [], clock)  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_settings(kind: type[Client] | type[AsyncClient]) -> None:
    for name, value in (("retries", -1), ("connections", 0), ("timeout_seconds", 0.0), ("total_seconds", float("nan"))):
        settings: Any = {name: value}
        with pytest.raises(InvalidArgument, match=f"{name} is {value}"):
            kind("http://x", "arms", **settings)
    client = kind("http://x", "a/b", "secret", retries=7)
    assert "secret" not in repr(client)
    for other in (pickle.loads(pickle.dumps(client)), copy.deepcopy(client), replace(client)):
        assert other == client and other.retries == 7 and other.token == "secret"


def test_errors_and_outcomes_can_be_sent_to_another_process() -> None:
    error = ServiceError(409, "duplicate-reward", "no", "r1")
    again = pickle.loads(pickle.dumps(Outcome("x", error)))
    assert str(again.error) == str(error) and again.error.request_id == "r1"


def test_the_first_requests_of_many_clients_do_not_repeat_together(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses have a random part, so that clients of a service that restarts come back spread over time."""
    draws = random.Random(0)
    monkeypatch.setattr(random, "random", draws.random)
    runs = [Run(calls().withdraw("x"), [problem(503), ok({})], clock) for _ in range(200)]
    pauses = [run.pauses[0] for run in runs]
    assert 0.05 <= min(pauses) < 0.06 and 0.14 < max(pauses) <= 0.15
