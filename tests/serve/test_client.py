"""The client against a server that fails as networks do, and the commands around the service."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import InvalidArgument
from equipoise.serve.client import Client, ServiceError

ROOT = Path(__file__).resolve().parents[2]
DECIDED = {
    "action": 1,
    "action_id": None,
    "learner": "UCB",
    "drawn": "UCB",
    "learner_probability": 1.0,
    "action_probability": None,
}
Script = Callable[[int, dict[str, Any]], tuple[int, dict[str, str], bytes] | None]


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers request number n by script(n, request); None closes the connection."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            request = {"path": self.path, "body": body, "headers": dict(self.headers)}
            seen.append(request)
            answer = script(len(seen), request)
            if answer is None:
                self.connection.close()
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            with contextlib.suppress(OSError, ValueError):
                super().handle()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(status: int, kind: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = {"type": f"urn:equipoise:problem:{kind}", "title": "t", "status": status, "detail": f"because of {kind}"}
    return status, headers, json.dumps(body).encode()


def test_requests_are_repeated_with_the_same_id() -> None:
    def script(n: int, request: dict[str, Any]) -> tuple[int, dict[str, str], bytes] | None:
        if n == 1:
            return None
        if n == 2:
            return problem(503, "overloaded", **{"Retry-After": "0"})
        if n == 3:
            return 502, {}, b"<html>a proxy</html>"
        return 200, {}, json.dumps({"id": json.loads(request["body"])["id"], "propensity": 0.5, **DECIDED}).encode()

    with scripted(script) as (url, seen), Client(url, "arms", token="secret", backoff_seconds=0.001) as client:
        decision = client.decide(available=["UCB"])
    assert len({request["body"] for request in seen}) == 1 and len(seen) == 4
    assert (decision.action, decision.learner_name, decision.propensity) == (1, "UCB", 0.5)
    assert isnan(decision.action_probability) and decision.id == json.loads(seen[0]["body"])["id"]
    assert seen[0]["path"] == "/v1/portfolios/arms/decide"
    assert json.loads(seen[0]["body"])["available"] == ["UCB"] and decision.drawn is None
    assert seen[0]["headers"]["Authorization"] == "Bearer secret" and "secret" not in repr(client)


def test_refusals_are_not_repeated() -> None:
    with scripted(lambda n, request: problem(409, "duplicate-reward")) as (url, seen), Client(url, "arms") as client:
        with pytest.raises(ServiceError, match=r"because of .* \(duplicate-reward, status 409\)") as caught:
            client.reward("x", 1.0)
        assert (caught.value.status, caught.value.kind, len(seen)) == (409, "duplicate-reward", 1)


def test_it_gives_up() -> None:
    with scripted(lambda n, request: problem(503, "overloaded")) as (url, seen):
        with (
            Client(url, "arms", retries=2, backoff_seconds=0.001) as client,
            pytest.raises(ServiceError, match="overloaded"),
        ):
            client.withdraw("x")
        assert len(seen) == 3
    with pytest.raises(ServiceError, match="gave no answer"):
        Client(url, "arms", retries=1, backoff_seconds=0.001).reward("x", 1.0)


def test_batches() -> None:
    def script(n: int, request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        refused = {"status": 404, "problem": {"detail": "no"}}
        rows = map(json.loads, request["body"].splitlines())
        lines = [{"status": 200} if row["reward"] else refused for row in rows]
        return 200, {}, "\n".join(map(json.dumps, lines)).encode()

    with scripted(script) as (url, seen), Client(url, "arms") as client:
        outcomes = client.rewards((f"d{k}", float(k != 600)) for k in range(700))
    assert len(seen) == 2 and [outcome.id for outcome in outcomes if outcome.error] == ["d600"]
    assert len(outcomes) == 700


def test_wrong_arguments() -> None:
    for url in ("localhost:8000", "ftp://x", "http://"):
        with pytest.raises(InvalidArgument, match="url is"):
            Client(url, "arms")
    with pytest.raises(InvalidArgument, match="retries is -1"):
        Client("http://x", "arms", retries=-1)
    with pytest.raises(InvalidArgument, match="the request cannot be sent as JSON"):
        Client("http://x", "arms").reward("a", float("nan"))


def equipoise(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "equipoise", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_example_configurations_pass_the_check() -> None:
    from typer.testing import CliRunner

    from equipoise.cli import application

    result = CliRunner().invoke(application(), ["check", str(ROOT / "examples" / "config")])
    assert result.exit_code == 0 and result.output.count("dry round") == 3 and "yes" in result.output
    assert "no deadline" not in result.output


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("../etc",), "name is '../etc', but must be 1 to 64 of a-z, 0-9, _ and - to be served"),
        (("shop", "shop"), "name is 'shop', but must differ from those of the other portfolios"),
    ],
)
def test_the_check_refuses_names_that_the_service_would_refuse(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    from typer.testing import CliRunner

    from equipoise.cli import application

    for k, name in enumerate(names):
        text = f'version = 1\nname = "{name}"\n[[learner]]\nuse = "UCB"\narms = 2\n'
        (tmp_path / f"{k}.toml").write_text(text)
    result = CliRunner().invoke(application(), ["check", str(tmp_path)])
    assert result.exit_code != 0 and str(result.exception) == message


@pytest.mark.parametrize("command", [["serve", "portfolio.toml"], ["token", "add", "shop", "--scope", "read"]])
def test_a_data_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    from typer.testing import CliRunner

    from equipoise.cli import application

    monkeypatch.chdir(tmp_path)
    Path("portfolio.toml").write_text('version = 1\nname = "shop"\n[[learner]]\nuse = "UCB"\narms = 2\n')
    Path("file").touch()
    result = CliRunner().invoke(application(), [*command, "--data", "file"])
    assert result.exit_code != 0
    assert str(result.exception) == "folder 'file' cannot be made: File exists"


@pytest.mark.slow
def test_the_whole_way_as_a_new_user_goes_it(tmp_path: Path) -> None:
    """Token, server in a process of its own, client, SIGTERM; then again: nothing is lost."""
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    added = equipoise(
        "token", "add", "shop", "--scope", "decide", "--scope", "reward", "--scope", "read", folder=tmp_path
    )
    secret = added.stdout.strip()
    assert secret.startswith("eqp_") and equipoise("token", "list", folder=tmp_path).stdout.startswith("shop  decide,")
    refused = equipoise(
        "serve", str(ROOT / "examples/config/offers.toml"), "--host", "0.0.0.0", "--data", "x", folder=tmp_path
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1) and "without tokens" in refused.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = equipoise("serve", str(ROOT / "examples/config/offers.toml"), "--port", port, folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1) and "already in use" in refused.stderr
    seen: list[int] = []
    for _ in range(2):
        with served(tmp_path) as url, Client(url, "offers", secret, backoff_seconds=0.05, retries=8) as client:
            decision = client.decide(id=f"first-{len(seen)}")
            client.reward(decision.id, 1.0)
            client.reward(decision.id, 1.0)
            with pytest.raises(ServiceError, match=r"has the reward 1\.0"):
                client.reward(decision.id, 0.5)
            seen.append(client.status()["health"]["rounds"])
            with Client(url, "offers") as nobody, pytest.raises(ServiceError, match="status 401"):
                nobody.status()
    assert seen == [1, 2]
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "equipoise-data").iterdir()}
    assert len(modes) > 2 and set(modes.values()) == {0o600}, "only the owner may read contexts"


def wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    """Until the process listens, however busy the machine is."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "equipoise", "serve", str(ROOT / "examples/config"), "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0 and "Traceback" not in log, log
