"""Bad requests: a problem document with the right status, and nothing changed or logged."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from equipoise.journal import SQLiteJournal
from equipoise.serve.failures import MEDIA_TYPE
from equipoise.serve.service import Settings
from tests.serve.served import ARMS, COLORS, check_problem, client, service_of

JSON = {"Content-Type": "application/json"}
DEEP = "[" * 5_000 + "]" * 5_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journals")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[TestClient]:
    with client(data=folder) as made:
        yield made


def state(service: TestClient) -> dict[str, Any]:
    portfolios = service_of(service).portfolios
    return {name: service.get(f"/v1/portfolios/{name}").json()["health"]["rounds"] for name in portfolios}


def rounds(service: TestClient) -> int:
    live = service_of(service).portfolios["arms"].engine._live
    return int(live.transact(lambda portfolio, at: portfolio.health()["rounds"]))


def events(folder: Path) -> dict[str, int]:
    return {path.stem: SQLiteJournal(path).last_seq for path in sorted(folder.glob("*.db"))}


DECIDE: dict[tuple[int, str], dict[str, list[str]]] = {
    (400, "malformed-json"): {
        "arms": [
            "{",
            "",
            "\xff",
            '{"context": [[NaN]]}',
            '{"context": [[Infinity]]}',
        ],
    },
    (422, "invalid-argument"): {
        "arms": [
            DEEP,
            '{"context": ' + DEEP + "}",
            "[]",
            '{"contxt": 1}',
            '{"context": [[1e155]]}',
            '{"context": [[1e400]]}',
            '{"context": [[%s]]}' % ("9" * 400),
            '{"context": [[1], [1, 2]]}',
            '{"context": [[1], 2]}',
            '{"context": [1, 2]}',
            '{"context": {"age": 1}}',
            '{"context": [[0], [0], [0], [0]]}',  # more than there are arms
            '{"id": ""}',
            '{"id": "a\\u0000b"}',
            '{"id": "%s"}' % ("x" * 201),
            '{"id": 7}',
            '{"offers": []}',
            '{"offers": [{}]}',
            '{"offers": [' + ",".join(['{"id": "x"}'] * 1001) + "]}",
            '{"offers": [{"id": "x"}, {"id": "x"}]}',
            '{"offers": [{"id": "x"}, {"features": [1]}]}',
        ],
        "linear": [
            '{"offers": [{"features": [1, 2]}, {"features": [1]}]}',
            '{"offers": [{"features": [0.1]}]}',  # too few
            '{"offers": [{"features": [3, 4]}]}',  # too long a vector
            '{"context": {"x": 1}, "offers": [{"features": [0.1, 0.1]}]}',
            "{}",
        ],
        "colors": [
            '{"context": {"age": "1"}}',
            '{"context": [1, 2, 3]}',
            '{"context": [[1, 2]]}',
        ],
    },
    (422, "unknown-name"): {
        "linear": [
            '{"offers": [{"features": {"prize": 1}}]}',
        ],
        "colors": [
            '{"context": {"aeg": 1}}',
        ],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "body", "status", "kind"),
    [(name, body, *problem) for problem in DECIDE for name in DECIDE[problem] for body in DECIDE[problem][name]],
)
def test_decide(service: TestClient, folder: Path, name: str, body: str, status: int, kind: str) -> None:
    before, logged = state(service), events(folder)
    content = body.encode("latin-1")
    check_problem(service.post(f"/v1/portfolios/{name}/decide", content=content, headers=JSON), status, kind)
    assert (state(service), events(folder)) == (before, logged)


REWARDS = [
    ('{"id": "ID", "reward": 2}', 422, "invalid-argument"),
    ('{"id": "ID", "reward": -0.1}', 422, "invalid-argument"),
    ('{"id": "ID", "reward": NaN}', 400, "malformed-json"),
    ('{"id": "ID", "reward": 1e155}', 422, "invalid-argument"),
    ('{"id": "ID", "reward": "1"}', 422, "invalid-argument"),
    ('{"id": "ID", "reward": null}', 422, "invalid-argument"),
    ('{"id": "ID", "reward": true}', 422, "invalid-argument"),
    ('{"id": "ID"}', 422, "invalid-argument"),
    ('{"id": "other", "reward": 1}', 404, "unknown-decision"),
    ('{"id": "0123456789abcdef-1", "reward": 1}', 404, "unknown-decision"),
    ('{"id": ["ID"], "reward": 1}', 422, "invalid-argument"),
]


@pytest.mark.parametrize(("body", "status", "kind"), REWARDS)
def test_rewards(service: TestClient, folder: Path, body: str, status: int, kind: str) -> None:
    id_ = service.post("/v1/portfolios/arms/decide", json={}).json()["id"]
    logged = events(folder)
    content = body.replace("ID", id_)
    check_problem(service.post("/v1/portfolios/arms/rewards", content=content, headers=JSON), status, kind)
    foreign = service.post("/v1/portfolios/linear/rewards", json={"id": id_, "reward": 1.0})
    check_problem(foreign, 404, "unknown-decision")
    assert events(folder) == logged
    assert service.post("/v1/portfolios/arms/rewards", json={"id": id_, "reward": 1.0}).status_code == 200


@pytest.mark.parametrize("name", ["a%0Ab", "a%1B%5B31m", "a%E2%80%AEb", "x" * 201])
def test_names_of_learners_are_short_and_printable(service: TestClient, folder: Path, name: str) -> None:
    """They are shown in logs, terminals and pages."""
    logged, table = events(folder), {"use": "UCB", "settings": {"arms": 3}}
    check_problem(service.post(f"/v1/portfolios/arms/learners/{name}", json=table), 422, "invalid-argument")
    assert events(folder) == logged


HIDDEN = list("\0\x1b\x7f\x85\n\u00ad\u200b\u200d\u200f\u2028\u202e\u2066\ufeff")


@pytest.mark.parametrize("character", HIDDEN, ids=ascii)
def test_ids_and_names_show_all_their_characters(service: TestClient, folder: Path, character: str) -> None:
    """An id that looks like another one, or turns the text behind it, fools whoever reads a log or a page."""
    path, logged = "/v1/portfolios/linear", events(folder)
    features = {"features": [0.1, 0.1]}
    for hidden in (f"red{character}", f"{character}red", f"r{character}ed"):
        for body in (
            {"offers": [{"id": hidden, **features}]},
            {"offers": [features], "id": hidden},
            {"offers": [features], "available": [hidden]},
        ):
            check_problem(service.post(f"{path}/decide", json=body), 422, "invalid-argument")
        for reward in ({"id": hidden, "reward": 1}, {"id": "a", "reward": 1, "key": hidden}):
            answer = service.post(f"{path}/rewards", json=reward)
            assert answer.status_code in (404, 422) and answer.headers["content-type"] == MEDIA_TYPE
        assert service.post(f"{path}/withdraw", json={"id": hidden}).status_code in (404, 422)
    assert events(folder) == logged
    shown = {"offers": [{"id": "rouge à lèvres 口紅 💄", **features}], "id": ascii(character)}
    assert service.post(f"{path}/decide", json=shown).json()["action_id"] == "rouge à lèvres 口紅 💄"


def test_an_id_that_the_portfolio_will_give_out_is_refused(service: TestClient) -> None:
    """Its own ids can be guessed from the last one, and two decisions must never share an id."""
    path = "/v1/portfolios/arms/decide"
    epoch, _, number = service.post(path, json={}).json()["id"].rpartition("-")
    check_problem(service.post(path, json={"id": f"{epoch}-{int(number) + 1}"}), 422, "invalid-argument")
    assert service.post(path, json={}).json()["id"] == f"{epoch}-{int(number) + 1}"


def test_a_key_that_stands_twice_is_refused(service: TestClient) -> None:
    """JSON leaves open which of the values counts, and whoever checks requests before us may read the other one."""
    path, before = "/v1/portfolios/arms", rounds(service)
    for route, body in (
        ("decide", '{"id": "k1", "id": "k2"}'),
        ("decide", '{"id": "k1", "\\u0069d": "k1"}'),
        ("rewards", '{"id": "k1", "id": "k2", "reward": 0, "reward": 1}'),
        ("withdraw", '{"id": "k1", "id": "k2"}'),
    ):
        check_problem(service.post(f"{path}/{route}", content=body, headers=JSON), 422, "invalid-argument")
    assert rounds(service) == before


def test_a_compressed_body_is_not_unpacked(service: TestClient) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = service.post("/v1/portfolios/arms/decide", content=gzip.compress(b"{}"), headers=headers)
    check_problem(answer, 415, "unsupported-media-type")


def test_open_decisions_are_bounded(tmp_path: Path) -> None:
    """A client that never sends rewards cannot fill the memory; with a deadline, room comes by itself."""
    path = "/v1/portfolios/arms"
    with client(ARMS, settings=Settings(max_open=3)) as service:
        ids = [service.post(f"{path}/decide", json={"id": f"d{k}"}).json()["id"] for k in range(3)]
        refused = service.post(f"{path}/decide", json={})
        check_problem(refused, 503, "too-many-open")
        assert refused.headers["retry-after"] == "5"
        check_problem(service.post("/v1/portfolios/arms/decide", json={"id": "d9"}), 503, "too-many-open")
        assert service.post(f"{path}/decide", json={"id": "d0"}).status_code == 200, "a repeated request is no new one"
        assert service.post(f"{path}/rewards", json={"id": ids[0], "reward": 1.0}).status_code == 200
        assert service.post(f"{path}/decide", json={}).status_code == 200
    with client(COLORS, settings=Settings(max_open=5)) as service:  # its deadline is three rounds
        decided = [service.post("/v1/portfolios/colors/decide", json={"context": [1, 1]}) for _ in range(9)]
        assert [answer.status_code for answer in decided] == [200] * 9


def test_the_journal_folds_after_all_of_this(service: TestClient, folder: Path) -> None:
    from equipoise.journal import digest, rebuild

    live = service_of(service).portfolios["arms"].engine._live
    rebuilt = rebuild(SQLiteJournal(folder / "arms.db")).portfolio
    assert digest(rebuilt) == live.transact(lambda portfolio, at: digest(portfolio))


@pytest.mark.parametrize("path", ["/v1/portfolios/nope", "/v1/portfolios/..%2f..%2fetc", "/v1/portfolios/Arms"])
def test_unknown_portfolios(service: TestClient, path: str) -> None:
    answer = service.get(path)
    assert answer.status_code == 404 and "arms" not in answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE


def test_paths_methods_and_media_types(service: TestClient) -> None:
    check_problem(service.get("/nothing"), 404, "unknown-path")
    wrong = service.get("/v1/portfolios/arms/decide")
    check_problem(wrong, 405, "unknown-method")
    assert wrong.headers["allow"] == "POST"
    assert service.put("/v1/portfolios/arms/learners/x").headers["allow"].split(", ") == [
        "DELETE",
        "GET",
        "HEAD",
        "PATCH",
        "POST",
    ]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/x-ndjson", ""):
        answer = service.post("/v1/portfolios/arms/withdraw", content="{}", headers={"Content-Type": kind})
        check_problem(answer, 415, "unsupported-media-type")


REFUSALS: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/nothing", {}, 404),
    ("POST", "/", {}, 405),
    ("OPTIONS", "/healthz", {}, 405),
    ("OPTIONS", "/v1/portfolios/arms/decide", {}, 405),
    ("OPTIONS", "/nothing", {}, 404),
    ("TRACE", "/v1/portfolios", {}, 405),
    ("HEAD", "/v1/portfolios/arms/decide", {}, 405),
    ("HEAD", "/nothing", {}, 404),
    ("DELETE", "/openapi.json", {}, 405),
    ("BREW", "/v1/portfolios", {}, 405),
    ("GET", "/static/nothing.js", {}, 404),
    ("GET", "/static/../server.py", {}, 404),
    ("GET", "/static/%2e%2e/server.py", {}, 404),
    ("GET", "/static/..%2fserver.py", {}, 404),
    ("GET", "/static//etc/passwd", {}, 404),
    ("GET", "/static/%00", {}, 404),
    ("GET", "/v1/portfolios/arms/", {}, 404),
    ("GET", "//v1/portfolios", {}, 404),
    ("GET", "/v1/portfolios/arms/timeline/5y", {}, 404),
    ("GET", "/v1/portfolios/arms/decisions/none", {}, 404),
    ("GET", "/v1/portfolios/arms/learners/none", {}, 404),
    ("PATCH", "/v1/portfolios/arms/learners/none", {"json": {"state": "active"}}, 404),
    ("POST", "/v1/portfolios/arms/decide", {"content": "{}"}, 415),
    ("POST", "/ofrep/v1/evaluate/flags/", {"json": {}}, 404),
    ("GET", "/ofrep/v1/evaluate/flags", {}, 405),
    ("PUT", "/v1/portfolios", {"json": {}}, 405),
    ("POST", "/v1/portfolios", {"json": {}}, 422),
    ("DELETE", "/v1/portfolios/arms", {}, 409),
    ("DELETE", "/v1/portfolios/none", {}, 404),
    ("GET", "/ofrep/v1/evaluate/flags/arms", {}, 405),
    ("GET", "/metrics", {"headers": {"Host": "evil.example"}}, 421),
    ("GET", "/v1/portfolios", {"headers": {"Origin": "https://evil.example"}}, 403),
    ("GET", "/v1/portfolios", {"headers": {"X-Forwarded-For": "10.0.0.5"}}, 403),
]


@pytest.mark.parametrize(("method", "path", "request_", "status"), REFUSALS)
def test_every_refusal_is_a_problem_document(
    service: TestClient, method: str, path: str, request_: dict[str, Any], status: int
) -> None:
    answer = service.request(method, path, **request_)
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
    assert answer.headers["x-frame-options"] == "DENY" and "x-request-id" in answer.headers
    if method != "HEAD":
        check_problem(answer, status, answer.json()["type"].rpartition(":")[2])
    if status == 405:
        assert answer.headers["allow"]


def test_limits_of_size(tmp_path: Path) -> None:
    limits = Settings(max_body_bytes=100, max_batch_bytes=300, max_lines=3)
    ndjson = {"Content-Type": "application/x-ndjson"}
    with client(ARMS, settings=limits) as service:
        path = "/v1/portfolios/arms"
        check_problem(service.post(f"{path}/decide", content=" " * 101, headers=JSON), 413, "too-large")
        chunks = iter([b" " * 60, b" " * 60])
        check_problem(service.post(f"{path}/decide", content=chunks, headers=JSON), 413, "too-large")
        line = '{"id": "x", "reward": 1}\n'
        check_problem(service.post(f"{path}/rewards", content=line * 4, headers=ndjson), 413, "too-large")
        check_problem(service.post(f"{path}/rewards", content=" " * 301, headers=ndjson), 413, "too-large")
        check_problem(service.post(f"{path}/rewards", content="\n\n", headers=ndjson), 400, "malformed-json")
        long = json.dumps({"id": "x" * 120, "reward": 1})
        (row,) = map(json.loads, service.post(f"{path}/rewards", content=long, headers=ndjson).text.splitlines())
        assert row["status"] == 413


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cut_request_changes_nothing(anyio_backend: str) -> None:
    with client(ARMS) as service:
        parts = iter([{"type": "http.request", "body": b'{"id"', "more_body": True}, {"type": "http.disconnect"}])
        sent: list[Any] = []

        async def receive() -> Any:
            return next(parts)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/portfolios/arms/decide", "headers": headers}
        rest = {"query_string": b"", "client": ("127.0.0.1", 1), "root_path": "", "scheme": "http"}
        await service.app({**scope, **rest}, receive, send)
        assert sent[0]["status"] == 400 and state(service) == {"arms": 0}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BODIES = VALUES | st.fixed_dictionaries({}, optional={"context": VALUES, "offers": VALUES, "id": VALUES})


@settings(max_examples=60)
@given(body=BODIES)
def test_whatever_comes_is_answered_or_refused(service: TestClient, body: Any) -> None:
    before = rounds(service)
    answer = service.post("/v1/portfolios/arms/decide", content=json.dumps(body), headers=JSON)
    assert answer.status_code in (200, 400, 409, 422), answer.text
    if answer.status_code != 200:
        assert answer.headers["content-type"] == MEDIA_TYPE and rounds(service) == before


WRONG_CONTEXTS: list[tuple[str, Any]] = [
    ("colors", [1.0]),
    ("colors", [1.0, 2.0, 3.0]),
    ("colors", [[1.0, 2.0]]),
    ("colors", {"age": 1e200, "visits": 2.0}),
    ("colors", {"age": "old", "visits": 1.0}),
    ("linear", [[1.0, 2.0], [1.0]]),
    ("linear", [1.0, 2.0]),
    ("linear", [[0.1]]),
    ("linear", [[1e101, 0.0]]),
]


@pytest.mark.parametrize(("name", "context"), WRONG_CONTEXTS, ids=repr)
def test_a_context_that_breaks_the_file_changes_nothing(
    service: TestClient, folder: Path, name: str, context: Any
) -> None:
    """No event and no round, and so no draw: the random numbers of a round follow from its number."""
    before, logged = service.get(f"/v1/portfolios/{name}").json(), events(folder)
    answer = service.post(f"/v1/portfolios/{name}/decide", json={"context": context})
    check_problem(answer, 422, "invalid-argument")
    after = service.get(f"/v1/portfolios/{name}").json()
    assert events(folder) == logged
    assert (after["standing"], after["health"]["rounds"]) == (before["standing"], before["health"]["rounds"])
    assert [row["refused"] for row in after["health"]["learners"]] == [0] * len(after["health"]["learners"])


@pytest.mark.parametrize("attributes", [{"age": 1.0, "visits": "many"}, {"age": 1e200}, {"age": [1]}], ids=repr)
def test_a_flag_with_a_wrong_context_changes_nothing(service: TestClient, folder: Path, attributes: Any) -> None:
    logged = events(folder)
    body = {"context": {"targetingKey": "user", **attributes}}
    answer = service.post("/ofrep/v1/evaluate/flags/colors", json=body)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_CONTEXT")
    assert events(folder) == logged
