"""The set-ups of docs/guide/deploy.md, as printed there: behind nginx, as a unit of systemd, and in a container."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise.serve.tokens import add_token
from tests.serve.served import ARMS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/deploy.md").read_text(encoding="utf-8")
HOST = "decisions.example.com"
USER = 64_731  # of no one else
SCOPES = ("decide", "reward", "read", "admin")
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None or shutil.which("openssl") is None, reason="needs nginx")

# The block that the page printed until it named the client: no header by which a proxy is known.
SILENT_PROXY = """
limit_req_zone $http_authorization zone=decisions:10m rate=500r/s;
server {
    listen 443 ssl;
    ssl_certificate     /etc/ssl/decisions.pem;
    ssl_certificate_key /etc/ssl/decisions.key;
    location / {
        proxy_pass http://127.0.0.1:8000;
        proxy_set_header Host $host;
        limit_req zone=decisions burst=200 nodelay;
    }
}
"""


def printed(language: str) -> str:
    """The block of the page in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return block


def replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Replace values of a set-up that only fit the machine of the operator; each must be there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike those of pytest, with a portfolio and an empty data folder."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "etc").mkdir()
        (path / "etc/arms.toml").write_text(ARMS)
        (path / "data").mkdir(mode=0o700)
        yield path


def wait_for(port: int, process: subprocess.Popen[str]) -> None:
    """Until the process listens, however busy the machine is."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


@contextlib.contextmanager
def started(
    command: Sequence[str], port: int, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd="/", env=environment or own, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(port, process)
        assert process.poll() is None, process.communicate()[1]
        yield process
    finally:
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in log, log


def exec_start(folder: Path, port: int) -> list[str]:
    """The command of the unit, with the package of this checkout, its folders and a free port."""
    (line,) = re.findall(r"(?m)^ExecStart=(.*)$", printed("ini"))
    pairs = [("/etc/equipoise", str(folder / "etc")), ("/var/lib/equipoise", str(folder / "data"))]
    program, *arguments = shlex.split(replaced(line, pairs))
    assert program == "/opt/equipoise/bin/equipoise"
    return [sys.executable, "-m", "equipoise", *arguments, "--port", str(port)]


@contextlib.contextmanager
def proxied(folder: Path, block: str, port: int) -> Iterator[int]:
    """The port of an nginx with a block of the page, before a service on `port`."""
    key, certificate, public = folder / "key.pem", folder / "certificate.pem", free_port()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    block = replaced(
        block,
        [
            ("listen 443 ssl", f"listen 127.0.0.1:{public} ssl"),
            ("/etc/ssl/decisions.pem", str(certificate)),
            ("/etc/ssl/decisions.key", str(key)),
            ("127.0.0.1:8000", f"127.0.0.1:{port}"),
        ],
    )
    paths = "".join(f"{kind}_temp_path {folder};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    head = f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{head}http {{\naccess_log off;\n{paths}{block}}}\n")
    nginx = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with started(nginx, public):
        yield public


def ask(
    folder: Path, port: int, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> http.client.HTTPResponse:
    """Ask over TLS, with the certificate checked."""
    context = ssl.create_default_context(cafile=str(folder / "certificate.pem"))
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection = http.client.HTTPSConnection(HOST)
    connection.sock = context.wrap_socket(plain, server_hostname=HOST)
    connection.request(method, path, body, {"Connection": "close", **headers})
    return connection.getresponse()


@needs_nginx
def test_behind_nginx_as_printed(folder: Path) -> None:
    secret, port = add_token(folder / "data/tokens.json", "one", SCOPES), free_port()
    bearer = {"Authorization": f"Bearer {secret}"}
    with started(exec_start(folder, port), port), proxied(folder, printed("nginx"), port) as public:
        assert ask(folder, public, "/v1/portfolios").status == 401
        assert ask(folder, public, "/v1/portfolios", Authorization="Bearer eqp_wrong").status == 401
        assert ask(folder, public, "/healthz").status == 200
        answer = ask(folder, public, "/v1/portfolios", **bearer)
        assert (answer.status, json.load(answer)) == (200, {"portfolios": ["arms"]})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])  # the one of nginx
        events = ask(folder, public, "/v1/portfolios/arms/events", **bearer)
        assert events.readline() == b": connected\n"  # at once, though the stream has no end
        decide = {"Content-Type": "application/json", **bearer}
        assert ask(folder, public, "/v1/portfolios/arms/decide", "POST", "{}", **decide).status == 200
        while not events.readline().startswith(b"event: decided"):
            pass
        events.close()
        too_large = ask(folder, public, "/v1/portfolios/arms/rewards", "POST", "x" * 1_100_000, **decide)
        assert too_large.status == 413


@needs_nginx
def test_the_proxy_limits_every_client_by_address(folder: Path) -> None:
    """Also those without a token, or with another wrong one each. The limits are small, so that time plays no part."""
    headers = [{"Authorization": f"Bearer {k}"} if k % 2 else {} for k in range(8)]
    statuses = {}
    add_token(folder / "data/tokens.json", "one", SCOPES)
    port = free_port()
    with started(exec_start(folder, port), port):
        for block in (printed("nginx"), SILENT_PROXY):
            small = replaced(block, [("rate=500r/s", "rate=1r/m"), ("burst=200", "burst=3")])
            with proxied(folder, small, port) as public:
                statuses[block] = [ask(folder, public, "/v1/portfolios", **each).status for each in headers]
    assert list(statuses.values()) == [[401] * 4 + [429] * 4, [401] * 8]


@needs_nginx
def test_without_tokens_nothing_passes_a_proxy(folder: Path) -> None:
    """Neither one that names its client, nor one that looks like a client on this machine."""
    port = free_port()
    command = [argument for argument in exec_start(folder, port) if argument != "--require-tokens"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    refused = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert f"--allow-host is '{HOST}', but without tokens only names of this machine" in refused.stderr
    requests = [("GET", "/v1/portfolios"), ("GET", "/metrics"), ("GET", "/"), ("POST", "/v1/anything")]
    requests.append(("DELETE", "/v1/portfolios/arms/learners/greedy"))
    with started([*command[: command.index("--allow-host")], "--port", str(port)], port):
        with urlopen(f"http://127.0.0.1:{port}/v1/portfolios") as answer:
            assert answer.status == 200
        bare = replaced(SILENT_PROXY, [("        proxy_set_header Host $host;\n", "")])  # what nginx does by itself
        for block, status in ((printed("nginx"), 403), (SILENT_PROXY, 403), (bare, 403)):
            with proxied(folder, block, port) as public:
                for method, path in requests:
                    assert ask(folder, public, path, method).status == status, path


def test_the_unit_does_not_start_without_tokens(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = exec_start(folder, 0)
    refused = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
    assert "tokens are required, but" in refused.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_valid(folder: Path) -> None:
    program = folder / "equipoise"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = replaced(printed("ini"), [("/opt/equipoise/bin/equipoise", str(program))])
    assert verified(folder, unit) == ""
    for right, wrong in (("LimitNOFILE=", "LimitNOFILES="), ("MemoryMax=2G", "MemoryMax=2X"), ("[Unit]", "[Unity]")):
        assert verified(folder, replaced(unit, [(right, wrong)])) != "", wrong


def verified(folder: Path, unit: str) -> str:
    """What systemd has to say about a unit."""
    path = folder / "equipoise.service"
    path.write_text(unit)
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60)
    return "".join(line for line in (result.stdout + result.stderr).splitlines(True) if "equipoise.service" in line)


def as_user(user: int, soft: int, hard: int, data: int) -> list[str]:
    """A prefix that runs a command as a unit does."""
    if not IS_ROOT or shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        pytest.skip("needs root, setpriv and prlimit")
    limits = ["prlimit", f"--nofile={soft}:{hard}", f"--data={data}"]
    rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    prefix = [*limits, *rights, "--bounding-set=-all", "--inh-caps=-all"]
    trial = subprocess.run([*prefix, sys.executable, "-c", "import numpy"], capture_output=True, text=True, cwd="/")
    if trial.returncode:
        pytest.skip(f"other users cannot run this interpreter: {trial.stderr.strip()[-200:]}")
    return prefix


def test_the_command_of_the_unit_runs_under_its_user_and_limits(folder: Path) -> None:
    resource = pytest.importorskip("resource")
    unit = dict(line.split("=", 1) for line in printed("ini").splitlines() if "=" in line)
    files, data = int(unit["LimitNOFILE"]), int(unit["MemoryMax"].removesuffix("G")) << 30
    assert unit["User"] == "equipoise" and unit["NoNewPrivileges"] == "yes" and unit["MemoryMax"].endswith("G")
    files = min(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])  # a container may have less
    prefix, port = as_user(USER, 256, files, data), free_port()
    add_token(folder / "data/tokens.json", "one", SCOPES)
    for path in (folder / "data", *(folder / "data").iterdir()):
        os.chown(path, USER, USER)
    with started([*prefix, *exec_start(folder, port)], port) as process:
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(rf"Max open files +{files} +{files} ", limits)
        assert re.search(rf"(?m)^Uid:\s+{USER}\s+{USER}\b", Path(f"/proc/{process.pid}/status").read_text())
        with urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
        assert (folder / "data/arms.db").stat().st_uid == USER


def instructions() -> dict[str, str]:
    """The instructions of the Dockerfile by their names, of which each has one."""
    lines = re.sub(r"\\\n\s*", " ", printed("dockerfile")).splitlines()
    pairs = [line.partition(" ")[::2] for line in lines]
    return {"COPY": "", **dict(pairs)} | {"COPY": " ".join(rest for name, rest in pairs if name == "COPY")}


def test_the_commands_of_the_container(folder: Path) -> None:
    """In an environment of its own in place of an image: nothing but the package is installed, the rest is there."""
    steps = instructions()
    assert steps["FROM"] == "python:3.11-slim" and steps["USER"] == "equipoise" and steps["EXPOSE"] == "8000"
    assert steps["COPY"] == "equipoise-source /src portfolios /etc/equipoise" and steps["VOLUME"] == "/data"
    source, image, port = folder / "src", folder / "image", free_port()
    shutil.copytree(ROOT / "equipoise", source / "equipoise", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    venv.create(image, symlinks=True)
    (site,) = image.glob("lib/python*/site-packages")
    (site / "present.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (folder / "root/etc").mkdir(parents=True)
    for name in ("passwd", "group"):
        (folder / "root/etc" / name).touch()
    pairs = [
        ("pip install --no-cache-dir ", "python -m pip install --quiet --no-deps --no-build-isolation "),
        ("/src", str(source)),
    ]
    pairs += [
        ("useradd ", f"useradd --prefix {folder}/root "),
        ("chown equipoise", "chown 10001" if IS_ROOT else "true"),
    ]
    command = replaced(steps["RUN"], [*pairs, ("/data", f"{folder}/volume")])
    path = f"{image}/bin:{os.environ['PATH']}:/usr/sbin"
    environment = {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, "PATH": path}
    subprocess.run(["sh", "-ec", command], check=True, env=environment, cwd=folder, capture_output=True)
    assert re.search("^equipoise:[^:]:10001:", (folder / "root/etc/passwd").read_text())
    assert (folder / "volume").stat().st_uid == (10_001 if IS_ROOT else os.geteuid())

    paths = {"/etc/equipoise": str(folder / "etc"), "/data": str(folder / "volume"), "0.0.0.0": "127.0.0.1"}
    name, *arguments = json.loads(steps["CMD"])
    assert name == "equipoise" and set(paths) < set(arguments)
    prefix = as_user(10_001, 1_024, 4_096, 2 << 30) if IS_ROOT else []
    program = [*prefix, str(image / "bin/equipoise")]
    serve = [*program, *(paths.get(argument, argument) for argument in arguments), "--port", str(port)]
    environment |= dict([steps["ENV"].split("=")])
    refused = subprocess.run(serve, env=environment, cwd="/", capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "tokens are required, but" in refused.stderr

    (line,) = re.findall(r"`docker run --rm -v data:/data IMAGE equipoise (.*)`", PAGE)
    add = [*program, *(paths.get(argument, argument) for argument in shlex.split(line))]
    subprocess.run(add, check=True, env=environment, cwd="/", capture_output=True)
    probe = json.loads(steps["HEALTHCHECK"].removeprefix("CMD "))
    probe[-1] = replaced(probe[-1], [(":8000", f":{port}")])
    assert subprocess.run([image / "bin/python", *probe[1:]], capture_output=True).returncode != 0
    with started(serve, port, environment):
        assert subprocess.run([image / "bin/python", *probe[1:]], capture_output=True).returncode == 0
        assert (folder / "volume/arms.db").exists()
