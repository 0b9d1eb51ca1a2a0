"""OpenFeature's clients for the web evaluate all flags at once: the same variant for the same key."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.serve.tokens import SCOPES, add_token, read_tokens
from tests.serve.browser import ROOT, Running
from tests.serve.served import ARMS, BANNERS, COLORS, client, service_of

FLAGS = "/ofrep/v1/evaluate/flags"
PACKAGES = ("@openfeature/web-sdk@1.10.0", "@openfeature/ofrep-web-provider@0.4.3")
REQUIRED = os.environ.get("EQUIPOISE_REQUIRE_BROWSER") == "1"  # in CI, where npm is there too
N_EVALUATIONS, N_KEYS = 1_000, 8


def evaluate(service: Any, key: Any = "ann", tag: str = "", **attributes: Any) -> Any:
    headers = {"If-None-Match": tag} if tag else {}
    return service.post(FLAGS, json={"context": {"targetingKey": key, **attributes}}, headers=headers)


def test_all_sticky_portfolios_are_evaluated(tmp_path: Path) -> None:
    flags = COLORS.replace('name = "colors"\n', 'name = "colors"\nsticky = "1h"\n', 1)
    with client(ARMS, BANNERS, flags, data=tmp_path) as service:
        answer = evaluate(service, age=0.5)
        assert answer.status_code == 200 and list(answer.json()) == ["flags"]
        rows = {row["key"]: row for row in answer.json()["flags"]}
        assert sorted(rows) == ["banners", "colors"]  # arms would decide a round at each poll
        for row in rows.values():
            assert list(row) == ["key", "value", "variant", "reason", "metadata"]
            assert row["value"] == row["variant"] and row["reason"] == "SPLIT"
        single = service.post(f"{FLAGS}/banners", json={"context": {"targetingKey": "ann"}}).json()
        assert single == rows["banners"]
        wrong = {row["key"]: row for row in evaluate(service, "bob", age="old").json()["flags"]}
        assert wrong["colors"]["errorCode"] == "INVALID_CONTEXT" and "value" not in wrong["colors"]
        assert wrong["banners"]["value"] in ("red", "blue", "green")


def test_an_unchanged_answer_is_not_sent_again(tmp_path: Path) -> None:
    with client(BANNERS, data=tmp_path) as service:
        first = evaluate(service)
        tag = first.headers["etag"]
        for given in (tag, f'"other", {tag}', f"W/{tag}"):
            again = evaluate(service, tag=given)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert evaluate(service, tag='"other"').status_code == 200
        assert evaluate(service, "bob").headers["etag"] != tag
        service.post("/v1/portfolios/banners/withdraw", json={"id": first.json()["flags"][0]["metadata"]["decision"]})
        changed = evaluate(service, tag=tag)
        assert changed.status_code == 200 and changed.headers["etag"] != tag
    with client(BANNERS, data=tmp_path) as service:
        assert evaluate(service, tag=changed.headers["etag"]).status_code == 304


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "TARGETING_KEY_MISSING"),
        ({"context": {"age": 1}}, "TARGETING_KEY_MISSING"),
        ({"context": {"targetingKey": ""}}, "TARGETING_KEY_MISSING"),
        ({"context": {"targetingKey": 7}}, "INVALID_CONTEXT"),
        ({"context": {"targetingKey": "x" * 10_000}}, "INVALID_CONTEXT"),
        ({"context": []}, "INVALID_CONTEXT"),
    ],
)
def test_a_wrong_request_is_a_failure_of_all_flags(body: Any, code: str) -> None:
    with client(BANNERS) as service:
        answer = service.post(FLAGS, json=body)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, code)
        assert list(answer.json()) == ["errorCode", "errorDetails"]
        cut = service.post(FLAGS, content="{", headers={"Content-Type": "application/json"})
        assert (cut.status_code, cut.json()["errorCode"]) == (400, "PARSE_ERROR")
        assert service.get("/v1/portfolios/banners").json()["health"]["rounds"] == 0


def test_a_token_gets_its_flags_only(tmp_path: Path) -> None:
    secret = add_token(tmp_path / "tokens.json", "web", ["decide"], ["banners"])
    add_token(tmp_path / "tokens.json", "all", SCOPES)
    other = BANNERS.replace('"banners"', '"other"')
    with client(BANNERS, other, tokens=read_tokens(tmp_path / "tokens.json")) as service:
        service.headers["Authorization"] = f"Bearer {secret}"
        assert [row["key"] for row in evaluate(service).json()["flags"]] == ["banners"]
        assert service.get("/v1/portfolios/other").status_code == 403
        del service.headers["Authorization"]
        assert evaluate(service).status_code == 401


def test_a_portfolio_that_fails_concerns_its_flag_only() -> None:
    with client(BANNERS, BANNERS.replace('"banners"', '"other"')) as service:
        served = service_of(service).portfolios["other"]

        async def fails(*arguments: Any) -> Any:
            raise RuntimeError("a fault")

        served.engine.run = fails
        rows = {row["key"]: row for row in evaluate(service).json()["flags"]}
        assert rows["banners"]["reason"] == "SPLIT" and rows["other"]["errorCode"] == "GENERAL"
        assert "a fault" not in rows["other"]["errorDetails"]


def node_packages() -> Path | None:
    """The folder with OpenFeature's packages, from npm into the build folder; None without npm or its registry."""
    folder = ROOT / "build" / "openfeature"
    if (folder / "node_modules" / "@openfeature" / "ofrep-web-provider").is_dir():
        return folder
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    return None if done.returncode else folder


@pytest.mark.service
def test_the_web_provider_gets_the_same_variant_for_the_same_key(tmp_path: Path) -> None:
    """1,000 evaluations by OpenFeature's client and provider for the web, with a restart in the middle."""
    folder = node_packages()
    if folder is None:
        assert not REQUIRED, "CI must have npm"
        pytest.skip("OpenFeature's client for the web needs Node, npm and its registry")
    shutil.copy(Path(__file__).with_name("flags.mjs"), folder / "flags.mjs")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "banners.toml").write_text(BANNERS.replace("sticky", "explore = 0.8\nsticky"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service, found = Running(tmp_path / "files", tmp_path / "data", port), []
    for _ in range(2):
        service.start()
        try:
            command = ["node", "flags.mjs", service.url, "banners", str(N_KEYS), str(N_EVALUATIONS // 2)]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, done.stderr
            found.append(json.loads(done.stdout))
            with urlopen(f"{service.url}/metrics") as answer:
                text = answer.read().decode()
        finally:
            service.stop()
        assert 'equipoise_requests_total{operation="evaluate_all",status="304"}' in text
    assert found[0] == found[1] and len(found[0]) == N_KEYS
    for (answer,) in found[0].values():  # one answer in all evaluations of a key
        value, variant, reason, *_, decision = answer.split(" ")
        assert value == variant in ("red", "blue", "green") and reason == "SPLIT" and decision
    assert len({answer.split(" ")[0] for (answer,) in found[0].values()}) > 1
    assert f'equipoise_decisions_total{{portfolio="banners"}} {N_KEYS}.0' in text
