"""The commands around the service, and the whole way of a new user."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.serve.client import Client, ServiceError

ROOT = Path(__file__).resolve().parents[2]


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
