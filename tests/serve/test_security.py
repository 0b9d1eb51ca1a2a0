"""Who is served: tokens and scopes, loopback, Host and Origin, headers, and what logs say."""

import gzip
import json
import logging
import stat
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.errors import InvalidArgument, UnknownName, UnreadableFile
from equipoise.serve.app import create_app
from equipoise.serve.logs import JsonFormatter
from equipoise.serve.routes import OPERATIONS, Operation
from equipoise.serve.server import check_names, connection_limit, file_limit, hosts_for, reload_files
from equipoise.serve.service import LOOPBACK_HOSTS, Service, Settings, open_in_memory
from equipoise.serve.tokens import Tokens, add_token, digest_of, read_tokens, remove_token, tokens_to_serve
from tests.serve.served import ARMS, COLORS, client, configs

SCOPES = ("decide", "reward", "read", "admin")


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def of_personalizer(*ids: str) -> set[str]:
    """The routes of Azure Personalizer, of the only portfolio or a named one, under the paths of both clients."""
    return {f"personalizer_{id_}{of}{v}" for id_ in ids for of in ("", "_of") for v in ("", "_v1")} - {
        f"personalizer_{id_}{of}_v1" for id_ in ids if id_.endswith("_slots") for of in ("", "_of")
    }


# What every route asks for, said a second time: a route that is added or changed needs a row here.
NEEDED = {
    "decide": {"decide", "evaluate", "evaluate_all", *of_personalizer("rank", "rank_slots")},
    "reward": {
        *("rewards", "withdraw"),
        *of_personalizer("reward", "reward_slots", "activate", "activate_slots"),
    },
    "read": {
        *("portfolios", "portfolio", "eliminations", "events", "metrics", "overview", "watch_overview", "view"),
        *("watch_portfolio", "timeline", "learner", "decisions", "decision"),
    },
    "admin": {
        *("reopen", "add_learner", "change_learner", "remove_learner", "forget", "expire", "create_portfolio"),
        "archive_portfolio",
    },
    None: {"health", "ready", "portfolio_ready", "page", "docs"},
}
FOR_ALL = {"create_portfolio"}  # which need a token for all portfolios
COVERED, FOREIGN = "arms", "colors"
# What a request that is carried out says; others say nothing.
BODIES: dict[str, dict[str, Any]] = {
    "rewards": {"id": "open", "reward": 1.0},
    "withdraw": {"id": "other"},
    "forget": {"ids": ["closed"]},
    "add_learner": {"use": "UCB", "settings": {"arms": 3}},
    "change_learner": {"state": "suspended"},
    "evaluate_all": {"context": {"targetingKey": "user-7"}},
    "create_portfolio": {"version": 1, "learner": [{"use": "UCB", "arms": 2}]},
    **{key: {"actions": [{"id": "red"}, {"id": "blue"}]} for key in of_personalizer("rank")},
    **{key: {"value": 1.0} for key in of_personalizer("reward")},
    **{key: {"actions": [{"id": "red"}], "slots": [{"id": "top"}]} for key in of_personalizer("rank_slots")},
    **{key: {"reward": [{"slotId": "top", "value": 1.0}]} for key in of_personalizer("reward_slots")},
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
            named, only = "{name}" in operation.path, operation.path.startswith("/personalizer")
            for holder in ("nobody", "wrong", *SCOPES, *(f"foreign-{each}" for each in SCOPES), "all"):
                own = holder.rpartition("-")[2]
                expected: int | None
                if scope is None:
                    expected = None
                elif holder in ("nobody", "wrong"):
                    expected = 401
                elif (
                    own not in (scope, "all")
                    or (named and holder.startswith("foreign"))
                    or (operation.id in FOR_ALL and holder != "all")
                ):
                    expected = 403
                elif only and holder == "all":  # which covers several portfolios
                    expected = 404
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
    path = operation.path.format(name=portfolio, learner="greedy", id="open", span="15m", event="open")
    everything = bearer(secrets["all"])
    if expected is None:  # what the request needs must be there
        learner = "/v1/portfolios/arms/learners/greedy"
        if operation.id == "add_learner":
            path = path.replace("greedy", f"new-{holder}")
        elif operation.id == "remove_learner":
            path = path.replace("greedy", f"old-{holder}")
            table = {"use": "UCB", "settings": {"arms": 3}}
            assert service.post(path, json=table, headers=everything).status_code == 201
        elif operation.id == "archive_portfolio":  # of a portfolio that the holder's token covers
            return archive_covered(service, secrets, holder)
        elif operation.scope != "read":
            assert service.patch(learner, json={"state": "active"}, headers=everything).status_code == 200
        decide = "/v1/portfolios/arms/decide"
        ids = [service.post(decide, json={"id": f"{operation.id}-{holder}-{k}"}, headers=everything) for k in range(2)]
        assert [answer.status_code for answer in ids] == [200, 200]
        path = path.replace("decisions/open", f"decisions/{operation.id}-{holder}-0")
    body = dict(BODIES.get(operation.id, {}))
    if operation.id == "create_portfolio":
        body["name"] = f"new-{holder}"
    if "id" in body:
        body["id"] = f"{operation.id}-{holder}-0"
    answer = service.request(operation.method, path, headers=headers, **({"json": body} if operation.request else {}))
    if expected is None:
        assert answer.status_code == operation.success, answer.text
    else:
        assert answer.status_code == expected, answer.text
        if operation.form == "personalizer":
            assert answer.json()["error"]["code"] == {401: "401", 403: "403", 404: "ResourceNotFound"}[expected]
        elif not operation.id.startswith("evaluate"):
            assert answer.json()["type"].endswith(
                {401: "unauthenticated", 403: "forbidden", 404: "unknown-portfolio"}[expected]
            )


def archive_covered(service: Any, secrets: dict[str, str], holder: str) -> None:
    """A file is not archived, whoever asks: what a token with the scope gets is the refusal of the portfolio."""
    answer = service.delete("/v1/portfolios/arms", headers=bearer(secrets[holder]))
    assert answer.status_code == 409 and answer.json()["type"].endswith("portfolio-of-a-file")


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
            ("Ocp-Apim-Subscription-Key", "eqp_wrong", secret),
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
    with pytest.raises(InvalidArgument, match="name is 'one', but a token has this name"):
        add_token(file, "one", ["read"])
    with pytest.raises(UnknownName, match="token 'tow' is unknown"):
        remove_token(file, "tow")
    row = '{"version": 1, "tokens": [{"name": %s, "digest": %s, "scopes": %s, "portfolios": ["*"]}]}'
    wrong_types = [row % ('"x"', 2, '["read"]'), row % (1, '"a"', '["read"]'), row % ('"x"', '"a"', '"read"')]
    wrong = ["{", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{"name": "x"}]}', "[]", *wrong_types]
    for content in wrong:  # with a digest that is a number, every request got 500
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


def test_without_tokens_only_names_of_this_machine_are_served(tmp_path: Path) -> None:
    """Behind a proxy that adds no header of its own, every client would look like this machine."""
    for host in ("0.0.0.0", "10.0.0.5", "::", "example.com", "*"):
        with pytest.raises(InvalidArgument, match=r"--host is .*, but without tokens only names of this machine"):
            check_names(host, (), Tokens())
        with pytest.raises(InvalidArgument, match=r"--allow-host is .*, but without tokens only names of this machine"):
            check_names("127.0.0.1", ["localhost", host], Tokens())
    for host in ("127.0.0.1", "::1", "localhost"):
        check_names(host, ["LOCALHOST", "127.0.0.2"], Tokens())
    secret = add_token(tmp_path / "tokens.json", "one", ["read"])
    check_names("0.0.0.0", ["example.com"], read_tokens(tmp_path / "tokens.json"))
    for hosts in (("*",), ("decisions.example.com", *LOOPBACK_HOSTS)):
        with client(settings=Settings(hosts=hosts)) as service:
            for method, path in (("GET", "/v1/portfolios"), ("GET", "/metrics"), ("GET", "/"), ("POST", "/nothing")):
                answer = service.request(method, path, headers={"Host": "decisions.example.com"})
                assert answer.status_code == 421, (hosts, path)
            assert service.get("/v1/portfolios").status_code == 200
        with client(settings=Settings(hosts=hosts), tokens=read_tokens(tmp_path / "tokens.json")) as service:
            headers = {"Host": "decisions.example.com", **bearer(secret)}
            assert service.get("/v1/portfolios", headers=headers).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_without_tokens_the_protocol_of_proxies_is_not_served(tmp_path: Path, anyio_backend: str) -> None:
    """By itself nginx speaks HTTP/1.0, names no client, and sends the address of the service as `Host`."""
    secret = add_token(tmp_path / "tokens.json", "one", ["read"])
    for tokens, version, status in ((None, "1.0", 403), (None, "1.1", 200), (read_tokens, "1.0", 200)):
        app = create_app(configs(ARMS), tokens=tokens and tokens(tmp_path / "tokens.json"))
        sent: list[Any] = []
        headers = [(b"host", b"127.0.0.1:8000"), (b"authorization", b"Bearer " + secret.encode())]
        scope: Any = {
            "type": "http",
            "http_version": version,
            "method": "GET",
            "path": "/v1/portfolios",
            "headers": headers,
        }
        scope |= {"query_string": b"", "root_path": "", "scheme": "http", "client": ("127.0.0.1", 0)}

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("it has no body")

        await app(scope, receive, send)
        assert sent[0]["status"] == status


def test_a_folder_that_had_tokens_is_not_served_without(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    assert len(tokens_to_serve(file, required=False)) == 0
    with pytest.raises(InvalidArgument, match=r"tokens are required, but '.*tokens.json' has none"):
        tokens_to_serve(file, required=True)
    add_token(file, "one", ["read"])
    assert len(tokens_to_serve(file, required=True)) == 1
    content = file.read_text()
    for lose in (lambda: remove_token(file, "one"), file.unlink, lambda: file.write_text("")):
        file.write_text(content)
        lose()
        with pytest.raises(
            (InvalidArgument, UnreadableFile), match=r"has no tokens, but the folder has|is not a file of"
        ):
            tokens_to_serve(file, required=False)
    file.unlink()
    marker = tmp_path / "tokens.required"
    assert stat.S_IMODE(marker.stat().st_mode) == 0o600
    marker.unlink()  # what the message tells the operator to do
    assert len(tokens_to_serve(file, required=False)) == 0


def test_tokens_of_an_older_release_are_required_from_then_on(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "one", ["read"])
    (tmp_path / "tokens.required").unlink()
    tokens_to_serve(file, required=False)
    file.unlink()
    with pytest.raises(InvalidArgument, match="the folder has had some"):
        tokens_to_serve(file, required=False)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tokens_that_a_reload_finds_are_required_from_then_on(
    tmp_path: Path, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was copied into the folder was in force, and without it the next start was open again."""
    file, other = tmp_path / "tokens.json", tmp_path / "other" / "tokens.json"
    other.parent.mkdir()
    secret = add_token(other, "one", ["read"])
    (tmp_path / "arms.toml").write_text(ARMS)
    service = Service(tokens_to_serve(file, required=False), Settings(), open_in_memory)
    file.write_text(other.read_text())
    await reload_files(service, tmp_path / "arms.toml", file)
    assert service.tokens.find(secret) is not None
    file.unlink()
    with pytest.raises(InvalidArgument, match="the folder has had some"):
        tokens_to_serve(file, required=False)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("content", [None, "", '{"version": 1, "tokens": []}'])
async def test_a_reload_never_takes_the_tokens_away(
    content: str | None, tmp_path: Path, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tokens.json"
    (tmp_path / "arms.toml").write_text(ARMS)
    secret = add_token(file, "one", ["read"])
    service = Service(read_tokens(file), Settings(), open_in_memory)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    await reload_files(service, tmp_path / "arms.toml", file)
    assert service.tokens.find(secret) is not None and "could not be read again" in caplog.text


def test_tokens_that_are_added_and_removed_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    for k in range(6):
        add_token(file, f"old{k}", ["read"])
    with ThreadPoolExecutor(12) as pool:  # each call opens the lock for itself, as another process does
        calls: list[Future[Any]] = [pool.submit(add_token, file, f"new{k}", ["read"]) for k in range(6)]
        calls += [pool.submit(remove_token, file, f"old{k}") for k in range(6)]
    assert [call.exception() for call in calls] == [None] * 12
    assert sorted(token.name for token in read_tokens(file)) == [f"new{k}" for k in range(6)]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost@x"]
)
def test_unknown_hosts(host: str) -> None:
    with client() as service:
        assert service.get("/metrics", headers={"Host": host}).status_code == 421


def test_probes_answer_to_addresses_and_tell_nothing() -> None:
    with client() as service:
        for host in ("10.244.1.7:8000", "[fd00::7]:8000", "balancer.example"):
            for path in ("/healthz", "/readyz"):
                answer = service.get(path, headers={"Host": host})
                assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            for path in ("/metrics", "/", "/openapi.json", "/healthz/", "/v1/portfolios", "/readyz/../metrics"):
                assert service.get(path, headers={"Host": host}).status_code == 421, path


def test_compressed_bodies_are_refused_as_such() -> None:
    with client() as service:
        body, path = gzip.compress(b"{}"), "/v1/portfolios/arms/decide"
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        answer = service.post(path, content=body, headers=headers)
        assert answer.status_code == 415 and answer.headers["accept-encoding"] == "identity"
        assert answer.json()["detail"] == "the body must not be compressed: Content-Encoding must be identity"
        headers["Content-Encoding"] = "identity"
        assert service.post(path, content=b"{}", headers=headers).status_code == 200


def test_files_limit_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connection_limit(65_536, 1) == connection_limit(65_536, 1_000) == 1_000
    assert connection_limit(1_024, 1) == 698 and connection_limit(1_024, 100) == 104
    resource = pytest.importorskip("resource")
    limits = {}
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.update({kind: pair}))
    for soft, hard, files in ((1_024, 4_096, 4_096), (1_024, -1, 10_240), (-1, -1, 10_240), (4_096, 4_096, 4_096)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, pair=(soft, hard): pair)
        limits.clear()
        assert file_limit(1) == files
        assert limits == ({resource.RLIMIT_NOFILE: (files, hard)} if soft != hard else {})
    with pytest.raises(InvalidArgument, match="the limit of open files is 4096, but 700 portfolios need 4536"):
        file_limit(700)


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
