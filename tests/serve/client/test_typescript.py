"""The TypeScript client: its own test on Node against a real service, and its types against the OpenAPI document.

Skipped without Node and npm, or if its compiler cannot be installed, unless EQUIPOISE_REQUIRE_BROWSER says that
everything must be there, as in CI.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise.serve.openapi import description
from tests.serve.browser import Running
from tests.serve.client.servers import dropping_answers, free_port
from tests.serve.client.typescript_types import module_of
from tests.serve.served import ARMS, LINEAR, OFFERS

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "clients" / "typescript"
GUIDE = ROOT / "docs" / "guide" / "clients.md"
REQUIRED = os.environ.get("EQUIPOISE_REQUIRE_BROWSER") == "1"
NODE, NPM = shutil.which("node"), shutil.which("npm")
MIN_NODE = 20
MAX_LINES = 200

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_the_client_is_short_and_needs_nothing_at_run_time() -> None:
    (file,) = (SOURCE / "src").iterdir()
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES and max(map(len, text.splitlines())) <= 120
    assert not re.search(r"\bimport\b|\brequire\(", text)
    package = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & package.keys()
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in package["devDependencies"].values())


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    text = (SOURCE / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    assert "://" not in text and "resolved" not in text
    assert all(each["integrity"].startswith("sha512-") for name, each in packages.items() if name)


def installed() -> Path:
    """Return the folder of the compiler, from npm into the build folder; skip the test if that is not possible."""
    missing = ""
    if NODE is None or NPM is None:
        missing = "needs Node and npm"
    else:
        version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
        if int(version[1:].split(".")[0]) < MIN_NODE:  # as some systems have it
            pytest.skip(f"needs Node {MIN_NODE}")
    lock = SOURCE / "package-lock.json"
    folder = ROOT / "build" / f"typescript-{sha256(lock.read_bytes()).hexdigest()[:12]}"
    if not missing and not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            project = Path(made, "project")
            project.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / name, project)
            command = [str(NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)
            if run.returncode:
                missing = "needs a registry of npm"
            else:
                with suppress(OSError):  # another process was faster
                    project.rename(folder)
    if missing:
        assert not REQUIRED, missing
        pytest.skip(missing)
    return folder / "node_modules"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the client with its compiler."""
    modules = installed()
    folder = tmp_path_factory.mktemp("typescript")
    for name in ("package.json", "tsconfig.json", "src", "test"):
        copied = SOURCE / name
        (shutil.copytree if copied.is_dir() else shutil.copy)(copied, folder / name)
    (folder / "node_modules").symlink_to(modules)
    return folder


def compiled(project: Path, document: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Compile the client with the types of a document."""
    (project / "test" / "openapi.ts").write_text(module_of(document))
    settings = project / "tsconfig.all.json"
    settings.write_text(json.dumps({"extends": "./tsconfig.json", "include": ["src", "test"]}))
    command = [str(NODE), str(project / "node_modules" / "typescript" / "bin" / "tsc"), "-p", str(settings)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_types_of_the_client_are_the_types_of_the_service(project: Path) -> None:
    run = compiled(project, description({}))
    assert run.returncode == 0, run.stdout


def rename(schema: dict[str, Any]) -> None:
    schema["properties"]["probability"] = schema["properties"].pop("propensity")
    schema["required"][schema["required"].index("propensity")] = "probability"


def add(schema: dict[str, Any]) -> None:
    schema["properties"]["segment"] = {"type": "string"}


def retype(schema: dict[str, Any]) -> None:
    schema["properties"]["id"] = {"type": "integer"}


def make_optional(schema: dict[str, Any]) -> None:
    schema["required"].remove("health")


CHANGES: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "an answer whose field has another name": ("Decided", rename),
    "a request with one more field": ("DecideRequest", add),
    "a field of another type": ("Reward", retype),
    "a field that can be missing": ("PortfolioStatus", make_optional),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_service_with_other_types_is_noticed(project: Path, change: str) -> None:
    document = copy.deepcopy(description({}))
    name, apply = CHANGES[change]
    apply(document["components"]["schemas"][name])
    run = compiled(project, document)
    assert run.returncode and "test/agreement.ts" in run.stdout and "src/client.ts" not in run.stdout


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a service, and of a proxy in front of it that drops every third answer."""
    (tmp_path / "files").mkdir()
    for name, text in (("arms", ARMS), ("linear", LINEAR), ("offers", OFFERS)):
        (tmp_path / "files" / f"{name}.toml").write_text(text)
    running = Running(tmp_path / "files", tmp_path / "data", free_port())
    running.start()
    try:
        with dropping_answers(running.url, lambda n: n % 3 == 0) as (dropping, _):
            yield {"EQUIPOISE_URL": running.url, "EQUIPOISE_DROPPING_URL": dropping}
    finally:
        running.stop()


def test_its_own_test_passes(project: Path, services: dict[str, str]) -> None:
    assert compiled(project, description({})).returncode == 0
    command = [str(NODE), "--test", "--test-reporter=tap", str(project / "dist" / "test") + "/"]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **services}, check=False, timeout=300
    )
    assert run.returncode == 0, run.stdout
    assert re.search(r"^# skipped 0$", run.stdout, re.MULTILINE) and "# SKIP" not in run.stdout


def test_the_examples_of_the_guide_run(project: Path, services: dict[str, str]) -> None:
    examples = re.findall(r"^```ts\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join(examples).replace("http://127.0.0.1:8000", services["EQUIPOISE_URL"])
    assert examples and services["EQUIPOISE_URL"] in program
    example = project / "test" / "example.ts"
    example.write_text(program.replace('"equipoise-client"', '"../src/client.js"'))
    try:
        run = compiled(project, description({}))
        assert run.returncode == 0, run.stdout
    finally:
        example.unlink()
    command = [str(NODE), str(project / "dist" / "test" / "example.js")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
