"""Promises to clients that no other test of one part covers; those of kills and memory are in `tools/studies`."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise.config import parse
from equipoise.errors import EquipoiseError, InvalidArgument, JournalLocked
from equipoise.journal import SQLiteJournal
from equipoise.serve.server import bind
from equipoise.serve.service import open_in
from equipoise.serve.tokens import Token, Tokens, digest_of
from tests.serve.served import ARMS, client, configs
from tools.studies import kill_service
from tools.studies.kill_journal import run_lives

PATH = "/v1/portfolios/arms"


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_the_service_nothing_answered_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: signal.Signals
) -> None:
    """The short form of `make chaos`. After SIGTERM it ends with code 0, and requests that came in are answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(kill_service, "PORT", free.getsockname()[1])
    found = run_lives(kill_service.Served(tmp_path, by), 2, 0, seed=3, life_seconds=1.5)
    assert found.faults == () and found.acknowledged > 20


def test_a_control_lost_answer_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: an answer that is not in the journal."""
    from tools.studies.kill_journal import Life, Study

    with client(kill_service.CONFIG, data=tmp_path) as service:
        rows = [{"features": [0.1] * 4}] * 3
        made = service.post("/v1/portfolios/shop/decide", json={"id": "0-0", "offers": rows}).json()

    class Lives:
        path = tmp_path / "shop.db"

        def live(self, firsts: list[int], seconds: float) -> Life:
            return Life([b"d 0 0 %d" % made["action"], b"d 0 1 0"], 0.0)

    study = Study(Lives(), seed=0, life_seconds=1.0)
    study.life()
    assert study.faults == ["decision 0-1 was acknowledged with action 0 and is lost"]


NAMES = ("os:system", "builtins:eval", "subprocess.run", "equipoise.learners:UCB", "__import__", "../ucb", "VW -f /x")


@pytest.mark.parametrize("name", NAMES)
def test_no_code_comes_from_data(tmp_path: Path, name: str) -> None:
    """Only registered names make learners and selectors, in requests and in files."""
    with client(ARMS, data=tmp_path) as service:
        answer = service.post(f"{PATH}/learners/new", json={"use": name, "settings": {}})
        assert answer.status_code == 422, answer.text
        assert len(service.get(PATH).json()["standing"]) == 2
    for table in ("learner", "selector"):
        text: dict[str, Any] = {"version": 1, "name": "arms", "learner": [{"use": "UCB", "arms": 3}]}
        text[table] = [{"use": name}] if table == "learner" else {"use": name}
        with pytest.raises(EquipoiseError):
            parse(text).portfolio()


def test_a_token_in_the_address_is_none() -> None:
    secret = "eqp_" + "a" * 43
    tokens = Tokens([Token("shop", digest_of(secret), ("read",))])
    with client(ARMS, tokens=tokens) as service:
        for query in ({"token": secret}, {"access_token": secret}, {"authorization": f"Bearer {secret}"}):
            assert service.get("/v1/portfolios", params=query).status_code == 401
        assert service.get("/v1/portfolios", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    (config,) = configs(ARMS)
    first = open_in(tmp_path)(config)
    with pytest.raises(JournalLocked, match="already open"):
        open_in(tmp_path)(config)
    assert first.failure is None
    first.close()
    open_in(tmp_path)(config).close()


def test_an_address_that_is_taken_is_said_in_a_line() -> None:
    with closing(bind("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=rf"^--host is '127\.0\.0\.1' and --port is {port}, but: Address al"):
            bind("127.0.0.1", port)
    with pytest.raises(InvalidArgument, match=r"^--host is '192\.0\.2\.1' and --port is 0, but: "):  # of no machine
        bind("192.0.2.1", 0)


def test_a_journal_holds_each_repeated_request_once(tmp_path: Path) -> None:
    """A client that got no answer repeats its request, over a restart too."""
    for _ in range(2):
        with client(ARMS, data=tmp_path) as service:
            for _ in range(3):
                assert service.post(f"{PATH}/decide", json={"id": "a"}).status_code == 200
                assert service.post(f"{PATH}/rewards", json={"id": "a", "reward": 1.0}).status_code == 200
                assert service.post(f"{PATH}/decide", json={"id": "b"}).status_code == 200
                assert service.post(f"{PATH}/withdraw", json={"id": "b"}).status_code == 200
    kinds = [(event.kind, event.data.get("id")) for event in SQLiteJournal(tmp_path / "arms.db").read()]
    assert sorted(kinds[1:], key=str) == [("decided", "a"), ("decided", "b"), ("rewarded", "a"), ("withdrawn", "b")]
