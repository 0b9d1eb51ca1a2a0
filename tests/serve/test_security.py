"""Who is served: tokens and scopes, loopback, Host and Origin, headers, and what logs say."""

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.errors import InvalidArgument, UnknownName, UnreadableFile
from equipoise.serve.logs import JsonFormatter
from equipoise.serve.routes import OPERATIONS, Operation
from equipoise.serve.server import check_address, hosts_for
from equipoise.serve.service import LOOPBACK_HOSTS, Settings
from equipoise.serve.tokens import Tokens, add_token, digest_of, read_tokens, remove_token
from tests.serve.served import ARMS, COLORS, client

SCOPES = ("decide", "reward", "read", "admin")


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


# What every route asks for, said a second time: a route that is added or changed needs a row here.
NEEDED = {
    "decide": {"decide", "evaluate"},
    "reward": {"rewards", "withdraw"},
    "read": {
        *("portfolios", "portfolio", "eliminations", "events", "metrics", "overview", "watch_overview", "view"),
        *("watch_portfolio", "timeline", "learner", "decisions", "decision"),
    },
    "admin": {"add_learner", "change_learner", "remove_learner"},
    None: {"health", "ready", "page"},
}
COVERED, FOREIGN = "arms", "colors"
# What a request that is carried out says; others say nothing.
BODIES = {
    "rewards": {"id": "open", "reward": 1.0},
    "withdraw": {"id": "other"},
    "add_learner": {"use": "UCB", "settings": {"arms": 3}},
    "change_learner": {"state": "suspended"},
}
OPEN_ENDED = {each.id for each in OPERATIONS if each.media_type == "text/event-stream"}


def test_every_route_stands_in_the_table() -> None:
    named = [id_ for ids in NEEDED.values() for id_ in ids]
    assert sorted(named) == sorted(each.id for each in OPERATIONS), "say in NEEDED what the new route asks for"
    with client() as service:
        served = {route.path.replace(":path", "") for route in routes_of(service)}
    assert served == {each.path for each in OPERATIONS} | {"/openapi.json", "/static/{file}"}


def routes_of(service: Any) -> Any:
    return service.app._app.routes


def cells() -> Iterator[Any]:
    """Every route with every kind of token, and the status that it must get; None if it is carried out."""
    for scope, ids in NEEDED.items():
        for operation in (each for each in OPERATIONS if each.id in ids):
            named = "{name}" in operation.path
            for holder in ("nobody", "wrong", *SCOPES, *(f"foreign-{each}" for each in SCOPES), "all"):
                own = holder.rpartition("-")[2]
                expected: int | None
                if scope is None:
                    expected = None
                elif holder in ("nobody", "wrong"):
                    expected = 401
                elif own not in (scope, "all") or (named and holder.startswith("foreign")):
                    expected = 403
                else:
                    expected = None
                if expected is not None or operation.id not in OPEN_ENDED:  # a stream that is allowed would not end
                    yield pytest.param(operation, holder, COVERED, expected, id=f"{operation.id}-{holder}")
            if named and scope is not None:
                yield pytest.param(operation, scope, "none", 403, id=f"{operation.id}-{scope}-of-none")
                yield pytest.param(operation, "all", "none", 404, id=f"{operation.id}-all-of-none")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, str]]]:
    """A service with tokens, and their secrets by holder."""
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "tokens.json"
    secrets = {scope: add_token(file, f"arms-{scope}", [scope], [COVERED]) for scope in SCOPES}
    secrets |= {f"foreign-{scope}": add_token(file, f"foreign-{scope}", [scope], [FOREIGN]) for scope in SCOPES}
    secrets |= {"all": add_token(file, "all", SCOPES), "wrong": "eqp_wrong"}
    with client(ARMS, COLORS, data=folder, tokens=read_tokens(file)) as service:
        yield service, secrets


@pytest.mark.parametrize(("operation", "holder", "portfolio", "expected"), list(cells()))
def test_who_may_do_what(
    guarded: tuple[Any, dict[str, str]], operation: Operation, holder: str, portfolio: str, expected: int | None
) -> None:
    service, secrets = guarded
    headers = bearer(secrets[holder]) if holder in secrets else {}
    path = operation.path.format(name=portfolio, learner="greedy", id="open", span="15m")
    everything = bearer(secrets["all"])
    if expected is None:  # what the request needs must be there
        learner = "/v1/portfolios/arms/learners/greedy"
        if operation.id == "add_learner":
            path = path.replace("greedy", f"new-{holder}")
        elif operation.id == "remove_learner":
            path = path.replace("greedy", f"old-{holder}")
            table = {"use": "UCB", "settings": {"arms": 3}}
            assert service.post(path, json=table, headers=everything).status_code == 201
        elif operation.scope != "read":
            assert service.patch(learner, json={"state": "active"}, headers=everything).status_code == 200
        decide = "/v1/portfolios/arms/decide"
        ids = [service.post(decide, json={"id": f"{operation.id}-{holder}-{k}"}, headers=everything) for k in range(2)]
        assert [answer.status_code for answer in ids] == [200, 200]
        path = path.replace("decisions/open", f"decisions/{operation.id}-{holder}-0")
    body = dict(BODIES.get(operation.id, {}))
    if "id" in body:
        body["id"] = f"{operation.id}-{holder}-0"
    answer = service.request(operation.method, path, headers=headers, **({"json": body} if operation.request else {}))
    if expected is None:
        assert answer.status_code == operation.success, answer.text
    else:
        assert answer.status_code == expected, answer.text
        if operation.id != "evaluate":
            assert answer.json()["type"].endswith(
                {401: "unauthenticated", 403: "forbidden", 404: "unknown-portfolio"}[expected]
            )


def test_a_token_sees_its_portfolios_only(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    secret = add_token(file, "one", ["read"], ["colors"])
    with client(tokens=read_tokens(file)) as service:
        assert service.get("/v1/portfolios", headers=bearer(secret)).json() == {"portfolios": ["colors"]}
        assert 'portfolio="arms"' not in service.get("/metrics", headers=bearer(secret)).text
        known = service.get("/v1/portfolios/arms", headers=bearer(secret))
        unknown = service.get("/v1/portfolios/none", headers=bearer(secret))
        assert (known.status_code, known.json()["detail"]) == (403, unknown.json()["detail"])
        assert "WWW-Authenticate" in service.get("/metrics").headers


def test_a_header_that_decides_stands_there_once(tmp_path: Path) -> None:
    """A proxy might read the first one, and we the last."""
    secret = add_token(tmp_path / "tokens.json", "one", ["read"])
    with client(tokens=read_tokens(tmp_path / "tokens.json")) as service:
        for name, first, second in (
            ("Host", "localhost", "localhost"),
            ("Authorization", "Bearer eqp_wrong", f"Bearer {secret}"),
            ("Content-Type", "application/json", "text/plain"),
        ):
            answer = service.get("/v1/portfolios", headers=[(name, first), (name, second)])
            assert answer.status_code == 400 and answer.json()["type"].endswith("repeated-header"), name
        twice = [("X-Forwarded-For", "10.0.0.5"), ("X-Forwarded-For", "10.0.0.6"), *bearer(secret).items()]
        assert service.get("/v1/portfolios", headers=twice).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_but_http_gets_in(anyio_backend: str) -> None:
    """The checks are those of HTTP requests, so a websocket must not pass by them."""
    with client() as service, pytest.raises(RuntimeError, match="does not speak websocket"):
        await service.app({"type": "websocket", "path": "/v1/portfolios"}, None, None)


def test_tokens_are_stored_as_digests_for_their_owner(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    secret = add_token(file, "one", ["decide", "reward"], ["offers"])
    assert secret not in file.read_text() and digest_of(secret) in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = read_tokens(file).find(secret)
    assert token is not None and (token.name, token.scopes, token.portfolios) == (
        "one",
        ("decide", "reward"),
        ("offers",),
    )
    assert read_tokens(file).find(secret + "x") is None and read_tokens(file).find("") is None
    other = add_token(file, "two", ["read"])
    remove_token(file, "one")
    assert [each.name for each in read_tokens(file)] == ["two"] and read_tokens(file).find(other) is not None


def test_wrong_tokens_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with pytest.raises(InvalidArgument, match="name is 'A b', but must be 1 to 64 of a-z"):
        add_token(file, "A b", ["read"])
    with pytest.raises(UnknownName, match="scope 'write' is unknown"):
        add_token(file, "one", ["write"])
    with pytest.raises(InvalidArgument, match=r"portfolio is '\.\./x', but must be"):
        add_token(file, "one", ["read"], ["../x"])
    with pytest.raises(InvalidArgument, match="but must not be empty"):
        add_token(file, "one", [])
    assert not file.exists() and len(read_tokens(file)) == 0
    add_token(file, "one", ["read"])
    with pytest.raises(InvalidArgument, match="and not taken"):
        add_token(file, "one", ["read"])
    with pytest.raises(UnknownName, match="token 'tow' is unknown"):
        remove_token(file, "tow")
    for content in ("{", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{"name": "x"}]}', "[]"):
        file.write_text(content)
        with pytest.raises(UnreadableFile, match="is not a file of tokens"):
            read_tokens(file)


def test_without_tokens_only_this_machine_is_served(tmp_path: Path) -> None:
    with client(address="10.0.0.5") as service:
        assert service.get("/healthz").status_code == 403
    with client(address="::1") as service:
        assert service.get("/healthz").status_code == 200
        for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Proto", "X-Forwarded-Host"):
            assert service.get("/healthz", headers={header: "for=10.0.0.5"}).status_code == 403
    for host in ("0.0.0.0", "10.0.0.5", "::", "example.com"):
        with pytest.raises(InvalidArgument, match="without tokens only this machine is served"):
            check_address(host, Tokens())
    for host in ("127.0.0.1", "::1", "localhost"):
        check_address(host, Tokens())
    add_token(tmp_path / "tokens.json", "one", ["read"])
    check_address("0.0.0.0", read_tokens(tmp_path / "tokens.json"))


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost@x"]
)
def test_unknown_hosts(host: str) -> None:
    with client() as service:
        assert service.get("/healthz", headers={"Host": host}).status_code == 421


def test_known_hosts() -> None:
    with client(settings=Settings(hosts=hosts_for("0.0.0.0", ["API.example.com"], LOOPBACK_HOSTS))) as service:
        for host in ("localhost", "127.0.0.1:8000", "[::1]:9", "api.example.com"):
            assert service.get("/healthz", headers={"Host": host}).status_code == 200
    assert hosts_for("10.0.0.5", (), LOOPBACK_HOSTS) == (*LOOPBACK_HOSTS, "10.0.0.5")


def test_foreign_origins() -> None:
    with client() as service:
        for origin in ("https://evil.example", "null", "http://localhost:9000"):
            answer = service.post("/v1/portfolios/arms/decide", json={}, headers={"Origin": origin})
            assert answer.status_code == 403 and answer.json()["type"].endswith("foreign-origin")
        own = service.post("/v1/portfolios/arms/decide", json={}, headers={"Origin": "http://localhost:8000"})
        assert own.status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/nothing", "/metrics", "/openapi.json"])
def test_every_answer_has_the_security_headers(path: str) -> None:
    with client() as service:
        headers = service.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY" and "server" not in headers


def test_logs_have_request_and_trace_ids_but_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = add_token(tmp_path / "tokens.json", "one", ["decide"])
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    caplog.set_level(logging.DEBUG, logger="equipoise.serve")
    with client(tokens=read_tokens(tmp_path / "tokens.json")) as service:
        headers = {**bearer(secret), "X-Request-Id": "mine-1", "traceparent": trace}
        answer = service.post("/v1/portfolios/arms/decide?q=hidden", json={"id": "private"}, headers=headers)
        assert answer.headers["x-request-id"] == "mine-1"
        strange = service.get("/healthz", headers={"X-Request-Id": "a b\tc", "traceparent": "junk"})
        assert strange.headers["x-request-id"] != "a b\tc"
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name == "equipoise.serve"]
    row = next(row for row in map(json.loads, lines) if row.get("request_id") == "mine-1")
    assert (row["trace_id"], row["parent_id"]) == (trace[3:35], trace[36:52])
    assert (row["operation"], row["status"], row["portfolio"], row["token"]) == ("decide", 200, "arms", "one")
    assert not any(word in line for line in lines for word in (secret, "hidden", "private", "junk"))
