"""Deletion and retention in the service: the route, the command beside it, and the table of a file."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.cli import main
from equipoise.journal import archive, retention
from equipoise.journal.archive import Archive
from equipoise.serve import hosted
from equipoise.serve.reloading import apply_file
from equipoise.serve.service import Service, Settings, open_in
from equipoise.serve.tokens import Tokens
from tests.serve.served import ARMS, LINEAR, client, configs, service_of

PATH = "/v1/portfolios/linear"
SHORT = LINEAR + '[retention]\ncontexts = "1s"\nevents = "1s"\nids = "1s"\n'


def offers_of(person: str) -> list[dict[str, Any]]:
    return [{"id": f"{person} {k}", "features": [0.5, 0.25 * k]} for k in range(3)]


def files_with(folder: Path, text: str) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if text.encode() in path.read_bytes()}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(list(map(str, arguments)))
    return exit_.value.code or 0, *capsys.readouterr()


def play(service: Any, id_: str, person: str, *, reward: bool = True) -> Any:
    decided = service.post(f"{PATH}/decide", json={"id": id_, "offers": offers_of(person)}).json()
    if reward:
        assert service.post(f"{PATH}/rewards", json={"id": id_, "reward": 1.0}).status_code == 200
    return decided


def test_forget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the route, and by the command when nothing serves; the id of the chosen offer is part of the decision."""
    data = tmp_path / "data"
    with client(LINEAR, data=data) as service:
        first = play(service, "a", "Rosalind")
        play(service, "b", "Maurice")
        play(service, "open", "Raymond", reward=False)
        unchosen = [f"Rosalind {k}" for k in range(3) if f"Rosalind {k}" != first["action_id"]]
        assert all(files_with(data, text) for text in unchosen)
        for ids, status in ((["a", "open"], 422), ([], 422), ("a", 422), (["a" * 201], 422)):
            assert service.post(f"{PATH}/forget", json={"ids": ids}).status_code == status
        assert "id 'open' is open" in service.post(f"{PATH}/forget", json={"ids": ["a", "open"]}).json()["detail"]
        assert all(files_with(data, text) for text in unchosen)
        assert service.post(f"{PATH}/forget", json={"ids": ["a", "none"]}).json() == {"events": 2}
        assert service.post(f"{PATH}/forget", json={"ids": ["a", "none"]}).json() == {"events": 0}
        assert not any(files_with(data, text) for text in unchosen)
        assert files_with(data, "Maurice 0")
        assert play(service, "a", "Rosalind") == first
        assert not any(files_with(data, text) for text in unchosen)
        assert service.post(f"{PATH}/rewards", json={"id": "a", "reward": 0.5}).status_code == 409
        code, _, err = run(capsys, "redact", data / "linear.db", "--id", "b")
        assert (code, "POST /v1/portfolios/linear/forget" in err) == (2, True)
    assert not any(files_with(data, text) for text in unchosen)
    assert run(capsys, "redact", data / "linear.db", "--id", "b", "--id", "none")[:2] == (
        0,
        f"{data / 'linear.db'}: 2 events lost their context or outcome\n",
    )
    assert sum(bool(files_with(data, f"Maurice {k}")) for k in range(3)) <= 1
    assert files_with(data, "Raymond 0")
    code, out, _ = run(capsys, "redact", data / "linear.db", "--before", "2100-01-01")
    assert (code, ": 0 events" in out) == (0, True)
    assert run(capsys, "redact", data / "linear.db")[0] == 2


def test_forget_without_a_journal() -> None:
    with client(ARMS) as service:
        service.post("/v1/portfolios/arms/decide", json={"id": "a"})
        assert service.post("/v1/portfolios/arms/forget", json={"ids": ["a"]}).status_code == 422
        service.post("/v1/portfolios/arms/rewards", json={"id": "a", "reward": 1.0})
        assert service.post("/v1/portfolios/arms/forget", json={"ids": ["a"]}).json() == {"events": 0}


def test_a_repeated_request_gets_its_answer_after_its_context_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused, as one with another context."""
    monkeypatch.setattr("equipoise.portfolio.tickets.MAX_CLOSED_IDS", 2)
    monkeypatch.setattr(hosted, "MAX_SETTLED", 2)
    with client(LINEAR, data=tmp_path) as service:
        first = [play(service, f"d{k}", "Rosalind") for k in range(6)]
        assert service.post(f"{PATH}/forget", json={"ids": ["d0", "d1"]}).json() == {"events": 4}
        assert [play(service, f"d{k}", "Rosalind") for k in range(6)] == first
        other = service.post(f"{PATH}/decide", json={"id": "d2", "offers": offers_of("Maurice")})
        assert other.json()["type"].endswith("duplicate-decision")


def test_retention_of_a_file_and_of_a_changed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was archived may be unknown; the same statements as without."""
    monkeypatch.setattr(archive, "SEGMENT_EVENTS", 20)
    monkeypatch.setattr(retention, "LATEST_AMONG", 5)
    monkeypatch.setattr(retention, "MIN_PERIOD", 1e6)
    monkeypatch.setattr("equipoise.portfolio.tickets.MAX_CLOSED_IDS", 2)
    monkeypatch.setattr(hosted, "MAX_SETTLED", 2)
    with client(LINEAR, data=tmp_path) as service:
        first = [play(service, f"d{k}", "Rosalind") for k in range(20)]
        before = service.get(PATH).json()
        live = service_of(service).portfolios["linear"].engine._live
        live.snapshot()
        for k in range(20, 24):
            play(service, f"d{k}", "Maurice")
        live.snapshot()
        asyncio.run(apply_file(service_of(service), *configs(SHORT)))
        assert live._retainer._settings.events == 1.0
        monkeypatch.setattr(live._retainer, "_now", lambda: live._now() + 10.0)
        live._retainer.run_once()
        assert live.journal.archived == 40
        assert not files_with(tmp_path, "Rosalind 1") or first[0]["action_id"] == "Rosalind 1"
        assert service.post(f"{PATH}/rewards", json={"id": "d0", "reward": 1.0}).status_code == 404
        assert service.get(f"{PATH}/decisions/d0").status_code == 404
        assert service.post(f"{PATH}/decide", json={"id": "d23", "offers": offers_of("Maurice")}).status_code == 200
        assert len(list(Archive(live.journal).read())) == live.journal.last_seq
    with client(SHORT, data=tmp_path) as service:
        assert service_of(service).portfolios["linear"].engine._live._retainer._settings.contexts == 1.0
        after = service.get(PATH).json()
        assert after["certificate"]["rounds"] == before["certificate"]["rounds"] + 4


def test_a_new_portfolio_uses_its_table(tmp_path: Path) -> None:
    service = Service(Tokens(), Settings(), open_in(tmp_path))
    asyncio.run(apply_file(service, *configs(SHORT)))
    engine: Any = service.portfolios["linear"].engine
    assert engine._live._retainer._settings.ids == 1.0
    engine.close()
