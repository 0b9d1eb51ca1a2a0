"""Portfolios that are created over HTTP, and archived: durable, as files are, and nothing is destroyed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

import equipoise
from equipoise.config import read
from equipoise.errors import EquipoiseError
from equipoise.serve import reloading
from equipoise.serve.app import application
from equipoise.serve.created import ARCHIVED, DOCUMENTS, UNFINISHED, Created
from equipoise.serve.server import reload_files
from equipoise.serve.service import Service, Settings, open_in, open_in_memory
from equipoise.serve.tokens import SCOPES, Tokens, add_token, read_tokens
from tests.serve.browser import Running
from tests.serve.served import ARMS, client, configs, samples, service_of

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "banners",
    "reward": {"range": [0, 1], "deadline": "24h", "default": 0.0},
    "actions": {"names": ["red", "blue"]},
    "learner": [{"use": "UCB", "arms": 2}, {"use": "EpsilonGreedy", "arms": 2, "epsilon": 0.1}],
}


def create(service: Any, headers: Any = None, **changes: Any) -> Any:
    return service.post("/v1/portfolios", json={**DOCUMENT, **changes}, headers=headers)


@pytest.fixture(params=["memory", "journal"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    data = tmp_path if request.param == "journal" else None
    with open_service(data) as made:
        yield made


def open_service(data: Path | None, folder: Path | None = None) -> TestClient:
    """A client of a service that has the file of `arms`, and the created portfolios of the data folder."""
    files = folder or (data or Path(os.devnull)).with_name("files")
    if data is not None and folder is None:
        files.mkdir(exist_ok=True)
        (files / "arms.toml").write_text(ARMS)
    created = Created(data)
    created.finish()
    service = Service(Tokens(), Settings(), open_in_memory if data is None else open_in(data), created)

    async def here(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    if data is None:
        (config,) = configs(ARMS)
        service.add(config)
    else:
        asyncio.run(reloading.apply_files(service, files, here))
    return TestClient(application(service), base_url="http://localhost:8000", client=("127.0.0.1", 50000))


def decide(service: Any, name: str = "banners", **body: Any) -> Any:
    return service.post(f"/v1/portfolios/{name}/decide", json=body)


def test_a_portfolio_is_created_and_serves(service: TestClient) -> None:
    answer = create(service)
    assert (answer.status_code, answer.json()) == (201, {"name": "banners", "status": "created"})
    decision = decide(service).json()
    assert decision["action_id"] in ("red", "blue")
    reward = {"id": decision["id"], "reward": 1}
    assert service.post("/v1/portfolios/banners/rewards", json=reward).status_code == 200
    assert service.get("/v1/portfolios").json() == {"portfolios": ["arms", "banners"]}
    assert service.get("/readyz/banners").status_code == 200
    assert "banners" in service.get("/openapi.json").text
    assert samples(service)["equipoise_decisions_total", "banners"] == 1


def test_a_created_portfolio_is_there_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service, sticky="7d")
        first = decide(service, unit="ann").json()
    assert json.loads((data / DOCUMENTS / "banners.json").read_text()) == {**DOCUMENT, "sticky": "7d"}
    with open_service(data) as service:
        assert decide(service, unit="ann").json() == first
        assert create(service).status_code == 409


def test_a_reload_keeps_created_portfolios(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service)
        first, held = decide(service, id="mine").json(), service_of(service)
        service.portal.call(reload_files, held, data.with_name("files"), data / "tokens.json")
        assert decide(service, id="mine").json() == first
        (data.with_name("files") / "arms.toml").unlink()  # all others come from documents
        service.portal.call(reload_files, held, data.with_name("files"), data / "tokens.json")
        assert service.get("/v1/portfolios").json() == {"portfolios": ["banners"]}
    with open_service(data, data.with_name("files")) as service:
        assert service.get("/v1/portfolios").json() == {"portfolios": ["banners"]}


def test_a_reload_keeps_what_was_created_in_memory(tmp_path: Path) -> None:
    (tmp_path / "arms.toml").write_text(ARMS)
    with open_service(None) as service:
        create(service)
        first = decide(service, id="mine").json()
        service.portal.call(reload_files, service_of(service), tmp_path, tmp_path / "tokens.json")
        assert decide(service, id="mine").json() == first
        assert service.delete("/v1/portfolios/banners").status_code == 200
        assert decide(service).status_code == 404 and create(service).status_code == 201


WRONG: dict[str, tuple[Any, int, str]] = {
    "a name that exists": ({"name": "arms"}, 409, "portfolio 'arms' exists"),
    "a name that is a path": ({"name": "../x"}, 422, "matching regex"),
    "a long name": ({"name": "x" * 65}, 422, "matching regex"),
    "no name": ({"name": None}, 422, "Expected `str`"),
    "another version": ({"version": 2}, 422, "Invalid enum value 2"),
    "no learner": ({"learner": []}, 422, "length >= 1"),
    "an unknown key": ({"shiny": 1}, 422, "key 'shiny' is unknown"),
    "an unknown key of a table": ({"reward": {"rang": [0, 1]}}, 422, "key of [reward] 'rang' is unknown"),
    "an unknown learner": ({"learner": [{"use": "Nobody"}]}, 422, "class of learner 1 'Nobody' is unknown"),
    "a path to a class": ({"learner": [{"use": "os.system"}]}, 422, "is unknown"),
    "a missing setting": ({"learner": [{"use": "UCB"}]}, 422, "learner 1 cannot be made"),
    "a wrong setting": ({"learner": [{"use": "UCB", "arms": "many"}]}, 422, "arms is 'many'"),
    "a name that no path has": ({"learner": [{"use": "UCB", "arms": 2, "name": "a/b"}]}, 422, "learner is 'a/b'"),
    "a large array": ({"learner": [{"use": "OFUL", "dim": 1_000_000}]}, 422, ""),
    "a wrong table": ({"reward": 3}, 422, "reward is 3, but must be a table"),
    "a wrong setting of the portfolio": ({"sticky": 5}, 422, "sticky is 5"),
    "a folder": ({"retention": {"events": "7d", "archive": "../out"}}, 422, "archive of [retention] is given"),
    "null": ({"selector": None}, 422, "selector is None, but must be a table"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_document_is_one_problem_and_creates_nothing(service: TestClient, case: str) -> None:
    changes, status, expected = WRONG[case]
    answer = create(service, **changes)
    assert answer.status_code == answer.json()["status"] == status, answer.text
    assert expected in answer.json()["detail"] and "/tmp" not in answer.text
    assert service.get("/v1/portfolios").json() == {"portfolios": ["arms"]}
    assert service_of(service).created.files() == []


def test_duplicate_keys_and_other_bodies_are_refused(service: TestClient) -> None:
    twice = json.dumps(DOCUMENT)[:-1] + ', "name": "other"}'
    headers = {"Content-Type": "application/json"}
    answer = service.post("/v1/portfolios", content=twice, headers=headers)
    assert answer.status_code == 422 and "has the key 'name' twice" in answer.json()["detail"]
    for content, status in (("[]", 422), ("{", 400), ("", 400), ('{"version":1,"name":"x","learner":[1]}', 422)):
        assert service.post("/v1/portfolios", content=content, headers=headers).status_code == status
    deep = '{"version":1,"name":"x","learner":[{"use":"UCB","arms":2,"a":' + "[" * 3_000 + "]" * 3_000 + "}]}"
    assert service.post("/v1/portfolios", content=deep, headers=headers).status_code in (400, 422)
    assert service.post("/v1/portfolios", content=" " * 70_000, headers=headers).status_code == 413


def test_only_a_token_for_all_portfolios_creates(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    secrets = {
        "all": add_token(file, "all", SCOPES),
        "one": add_token(file, "one", ["admin", "decide"], ["banners"]),
        "deciding": add_token(file, "deciding", ["decide"]),
    }
    headers = {name: {"Authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
    with client(ARMS, data=tmp_path, tokens=read_tokens(file)) as service:
        assert create(service, headers["one"]).status_code == create(service, headers["deciding"]).status_code == 403
        assert create(service).status_code == 401
        assert create(service, headers["all"]).status_code == 201
        answer = service.post("/v1/portfolios/banners/decide", json={}, headers=headers["one"])
        assert answer.status_code == 200  # a token for a name, from before there was a portfolio
        assert service.delete("/v1/portfolios/arms", headers=headers["one"]).status_code == 403
        assert service.delete("/v1/portfolios/banners", headers=headers["deciding"]).status_code == 403
        assert service.delete("/v1/portfolios/banners", headers=headers["one"]).status_code == 200


def test_archiving_moves_everything_and_destroys_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service)
        decision = decide(service).json()
        answer = service.delete("/v1/portfolios/banners")
        assert (answer.status_code, answer.json()) == (200, {"name": "banners", "status": "archived"})
        assert decide(service).status_code == 404
        assert service.delete("/v1/portfolios/banners").status_code == 404
        assert ("equipoise_decisions_total", "banners") not in samples(service)
        (folder,) = (data / ARCHIVED).iterdir()
        assert folder.name.startswith("banners-") and not (folder / UNFINISHED).exists()
        assert {path.name for path in folder.iterdir()} >= {"banners.json", "banners.db"}
        assert not list(data.glob("banners*")) and not list((data / DOCUMENTS).iterdir())
        assert create(service).status_code == 201  # a new one of the same name, which knows nothing
        assert decide(service, id=decision["id"]).status_code in (200, 422)
        assert service.delete("/v1/portfolios/banners").status_code == 200
    assert len(list((data / ARCHIVED).iterdir())) == 2
    with equipoise.open(folder / "banners.db") as live:
        assert live.pending == (decision["id"],)
    assert read(folder / "banners.json").name == "banners"
    with open_service(data) as service:
        assert service.get("/v1/portfolios").json() == {"portfolios": ["arms"]}


def test_metrics_are_exposed_while_a_portfolio_is_archived(
    service: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The portfolio goes between the list of names and the reading of its status."""
    create(service)
    portfolios = service_of(service).portfolios
    engine, run = portfolios["arms"].engine, portfolios["arms"].engine.run

    def run_and_remove(*arguments: Any, **options: Any) -> Any:
        removed.append(portfolios.pop("banners"))
        return run(*arguments, **options)

    removed = list[Any]()
    monkeypatch.setattr(engine, "run", run_and_remove)
    assert service.get("/metrics").status_code == 200 and removed
    removed[0].close()


def test_a_portfolio_of_a_file_is_not_archived(service: TestClient) -> None:
    answer = service.delete("/v1/portfolios/arms")
    assert answer.status_code == 409 and "remove the file, then send SIGHUP" in answer.json()["detail"]
    assert service.delete("/v1/portfolios/none").status_code == 404
    assert decide(service, "arms").status_code == 200


def test_the_journal_of_an_earlier_portfolio_is_not_taken_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service)
        decide(service)
    (data / DOCUMENTS / "banners.json").unlink()
    with open_service(data) as service:
        answer = create(service)
        assert answer.status_code == 409 and "a journal of an earlier portfolio 'banners'" in answer.json()["detail"]
        assert (data / "banners.db").exists() and not list((data / DOCUMENTS).iterdir())


def test_a_failed_portfolio_can_be_reopened_or_archived(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service)
        decide(service)
    document = data / DOCUMENTS / "banners.json"
    whole = document.read_text()
    document.write_text(whole[: len(whole) // 2])
    with open_service(data) as service:
        refused = decide(service)
        assert refused.status_code == 503 and "banners.json: " in refused.json()["detail"]
        assert create(service).status_code == 409
        document.write_text(whole)
        service.portal.call(reload_files, service_of(service), data.with_name("files"), data / "tokens.json")
        assert decide(service).status_code == 200
    with (data / "banners.db").open("r+b") as file:
        file.write(b"no database")
    with open_service(data) as service:
        assert decide(service).status_code == 503
        assert service.post("/v1/portfolios/banners/reopen").status_code == 503
        assert service.delete("/v1/portfolios/banners").status_code == 200
        assert create(service).status_code == 201 and decide(service).status_code == 200


def test_a_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with open_service(data) as service:
        held = service_of(service)
        opened, opener = list[str](), held.open

        def fails(config: Any) -> Any:
            opened.append(config.name)
            opener(config).close()
            raise EquipoiseError("the disk is full")

        held.open = fails
        assert create(service).status_code == 500 and opened == ["banners"]
        assert not list(data.glob("banners*")) and held.created.files() == []
        held.open = opener
        assert create(service).status_code == 201


def test_there_are_only_so_many(tmp_path: Path) -> None:
    with client(ARMS, settings=Settings(max_portfolios=2)) as service:
        assert create(service).status_code == 201
        answer = create(service, name="more")
        assert answer.status_code == 409 and "2 portfolios are served, which is the maximum" in answer.json()["detail"]


def test_a_file_of_the_same_name_is_refused_with_the_document(tmp_path: Path) -> None:
    """Both cannot be served, so neither is until one of them goes."""
    data = tmp_path / "data"
    with open_service(data) as service:
        create(service)
        decide(service)
    text = 'version = 1\nname = "banners"\n[reward]\nrange = [0, 1]\ndeadline = "24h"\ndefault = 0.0\n'
    text += '[actions]\nnames = ["red", "blue"]\n[[learner]]\nuse = "UCB"\narms = 2\n'
    text += '[[learner]]\nuse = "EpsilonGreedy"\narms = 2\nepsilon = 0.1\n'
    (data.with_name("files") / "banners.toml").write_text(text)
    with open_service(data) as service:
        refused = decide(service)
        assert refused.status_code == 503 and "banners.toml and banners.json" in refused.json()["detail"]
        assert service.delete("/v1/portfolios/banners").status_code == 409
        (data.with_name("files") / "banners.toml").unlink()
        service.portal.call(reload_files, service_of(service), data.with_name("files"), data / "tokens.json")
        assert decide(service).status_code == 200


KILLED_CREATION = """
import json, os, sys
from pathlib import Path
from tests.serve import test_created as t
import equipoise.serve.service as service
def dies(config, *more):
    if config.name == "banners":
        if sys.argv[2] == "after":
            real(config)
        os.kill(os.getpid(), 9)
    return real(config)
data = Path(sys.argv[1])
made = t.open_service(data)
held = t.service_of(made)
real, held.open = held.open, dies
with made:
    t.create(made)
"""
KILLED_ARCHIVE = """
import os, sys
from pathlib import Path
from tests.serve import test_created as t
moves, real = [0], Path.replace
def replace(self, target):
    if "banners" in self.name:
        moves[0] += 1
        if moves[0] > int(sys.argv[2]):
            os.kill(os.getpid(), 9)
    return real(self, target)
with t.open_service(Path(sys.argv[1])) as made:
    t.create(made)
    t.decide(made, id="mine")
    Path.replace = replace
    made.delete("/v1/portfolios/banners")
"""


def killed(script: str, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=ROOT, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_in_the_middle_of_a_creation_leaves_a_whole_portfolio(when: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    killed(KILLED_CREATION, str(data), when)
    with open_service(data) as service:
        assert decide(service).status_code == 200
        assert create(service).status_code == 409


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_kill_in_the_middle_of_archiving_is_finished_at_the_next_start(moves: int, tmp_path: Path) -> None:
    """Before the document has moved, nothing has happened; afterwards all of it happens."""
    data = tmp_path / "data"
    killed(KILLED_ARCHIVE, str(data), str(moves))
    with open_service(data) as service:
        names = service.get("/v1/portfolios").json()["portfolios"]
        assert names == (["arms", "banners"] if moves == 0 else ["arms"])
        folders = list((data / ARCHIVED).iterdir())
        if moves == 0:
            assert folders == [] and decide(service, id="mine").status_code == 200
        else:
            (folder,) = folders
            assert {"banners.json", "banners.db"} <= {path.name for path in folder.iterdir()}
            assert not (folder / UNFINISHED).exists() and not list(data.glob("banners*"))
            assert create(service).status_code == 201


def test_without_a_data_folder_documents_are_forgotten() -> None:
    created = Created()
    assert created.add("x", {}) is None and "x" in created and created.files() == [] == created.leftovers("x")
    created.finish()
    created.discard("x")
    assert "x" not in created


def test_the_example_of_the_description_can_be_created(service: TestClient) -> None:
    document = service.get("/openapi.json").json()
    content = document["paths"]["/v1/portfolios"]["post"]["requestBody"]["content"]["application/json"]
    (example,) = content["examples"].values()
    assert service.post("/v1/portfolios", json=example["value"]).status_code == 201
    offers = [{"id": id_, "features": [0.1, 0.2, x]} for id_, x in (("a", 0.3), ("b", -0.3))]
    assert decide(service, example["value"]["name"], offers=offers, unit="ann").status_code == 200


@pytest.mark.service
def test_a_process_keeps_what_was_created(tmp_path: Path) -> None:
    """The service itself: a reload, a restart, a start without any file, and the end by archiving."""
    files, data = tmp_path / "files", tmp_path / "data"
    files.mkdir()
    (files / "arms.toml").write_text(ARMS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        running = Running(files, data, probe.getsockname()[1])

    def ask(method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{running.url}{path}", content, headers, method=method), timeout=30) as answer:
            return json.loads(answer.read())

    def names() -> Any:
        return ask("GET", "/v1/portfolios")["portfolios"]

    try:
        running.start()
        assert ask("POST", "/v1/portfolios", {**DOCUMENT, "sticky": "1h"})["status"] == "created"
        first = ask("POST", "/v1/portfolios/banners/decide", {"unit": "ann"})
        (files / "more.toml").write_text(ARMS.replace('"arms"', '"more"'))
        running.reload()
        for _ in range(100):
            if names() == ["arms", "banners", "more"]:
                break
            time.sleep(0.1)
        assert names() == ["arms", "banners", "more"]
        assert ask("POST", "/v1/portfolios/banners/decide", {"unit": "ann"}) == first
        running.stop()
        for file in files.iterdir():
            file.unlink()
        running.start()
        assert names() == ["banners"] and ask("POST", "/v1/portfolios/banners/decide", {"unit": "ann"}) == first
        running.stop()
        (files / "arms.toml").write_text(ARMS)
        running.start()
        assert ask("DELETE", "/v1/portfolios/banners")["status"] == "archived" and names() == ["arms"]
    finally:
        running.stop()
    assert stat.S_IMODE((data / DOCUMENTS).stat().st_mode) == 0o700
