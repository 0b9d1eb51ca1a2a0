"""Faults of the server: damage, and files that cannot be used. Answers are 5xx and say nothing about files."""

from __future__ import annotations

import errno
import json
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise import errors
from equipoise.errors import EquipoiseError
from equipoise.journal import scrub, sqlite
from equipoise.journal.writer import Writer
from equipoise.serve import engine as engine_module
from equipoise.serve import handlers
from equipoise.serve.dashboard import handlers as dashboard
from equipoise.serve.failures import kind_of
from equipoise.serve.hosted import Hosted
from tests.journal.damage import zero_page
from tests.serve.served import ARMS, client, samples, service_of

PATH = "/v1/portfolios/arms"
ROUNDS = 400
TYPES = "urn:equipoise:problem:"


def names_of_errors() -> list[type[Exception]]:
    return [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, EquipoiseError)]


@pytest.mark.parametrize("kind", names_of_errors())
def test_every_error_has_a_status_and_only_faults_of_the_caller_are_4xx(kind: type[Exception]) -> None:
    found = kind_of(kind.__new__(kind))
    assert found is not None
    of_caller = errors.InvalidArgument, errors.UnknownName, errors.UnknownDecision, errors.MissingExtra
    assert (found.status < 500) == issubclass(kind, of_caller), found


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (errors.UnreadableFile("'/var/lib/x.db' has a damaged event 5"), 500, "damaged"),
        (errors.FileUnavailable("'/var/lib/x.db' could not be used: unable to open"), 503, "unavailable"),
        (errors.JournalFailed("'/var/lib/x.db' is closed"), 503, "read-only"),
        (errors.JournalLocked("'/var/lib/x.db' is open in another process"), 503, "unavailable"),
        (errors.StoreConflict("'/var/lib/x.db' has another portfolio"), 500, "internal-error"),
        (OSError(errno.EMFILE, "Too many open files", "/var/lib/x.db"), 503, "unavailable"),
        (sqlite3.OperationalError("no such table: /var/lib"), 503, "unavailable"),
        (KeyError("/var/lib"), 500, "internal-error"),
    ],
)
def test_an_answer_has_no_path_and_the_log_has_it(
    error: Exception, status: int, slug: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    with client(ARMS) as service, caplog.at_level(logging.ERROR, "equipoise.serve"):
        monkeypatch.setattr(Hosted, "decide", fail)
        monkeypatch.setattr(dashboard, "files", fail)
        for answer in (service.post(f"{PATH}/decide", json={"id": "x"}), service.get("/static/app.js")):
            assert (answer.status_code, answer.json()["type"]) == (status, TYPES + slug)
            assert "/var" not in answer.text and "table" not in answer.text
            assert ("retry-after" in answer.headers) == (status == 503)
            logged = [record for record in caplog.records if record.facts["request_id"] == answer.json()["request_id"]]  # type: ignore[attr-defined]
            assert len(logged) == (slug != "read-only")  # that the journal failed was logged once, when it did
            assert all("/var" in record.getMessage() + str(record.exc_info) for record in logged)


@pytest.fixture
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[TestClient, list[str]]]:
    """A service whose journal has a page of zeros before its newest snapshot, and all ids in the journal."""
    ids = [f"order {k}" for k in range(ROUNDS)]
    with client(ARMS, data=tmp_path) as service:
        for id_ in ids:
            assert service.post(f"{PATH}/decide", json={"id": id_}).status_code == 200
        batch("rewards", service, ids)
    zero_page(request.param)(tmp_path / "arms.db")
    with client(ARMS, data=tmp_path) as service:
        yield service, ids


def batch(route: str, service: TestClient, ids: list[str], reward: float = 1.0) -> Counter[int]:
    lines = "\n".join(json.dumps({"id": id_, "reward": reward}) for id_ in ids)
    answer = service.post(f"{PATH}/{route}", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 200
    return Counter(json.loads(line)["status"] for line in answer.text.splitlines())


@pytest.mark.parametrize("damaged", ["events", "events_of_subject"], indirect=True)
def test_requests_that_need_what_is_damaged_get_5xx_each_time(
    damaged: tuple[TestClient, list[str]], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    service, ids = damaged
    first = [service.post(f"{PATH}/decide", json={"id": id_}) for id_ in ids]
    again = [service.post(f"{PATH}/decide", json={"id": id_}) for id_ in ids]
    assert [answer.status_code for answer in first] == [answer.status_code for answer in again]
    counts = Counter(answer.status_code for answer in first)
    assert set(counts) == {200, 500} and counts[200] > ROUNDS / 2 and counts[500] > 3
    for answer in first:
        if answer.status_code == 500:
            assert answer.json()["type"] == TYPES + "damaged"
            assert str(tmp_path) not in answer.text
    assert set(batch("rewards", service, ids)) <= {200, 500}
    new = [service.post(f"{PATH}/decide", json={"id": f"new {k}"}).status_code for k in range(20)]
    assert set(new) <= {200, 500, 503}
    assert service.post(f"{PATH}/decide", json={}).status_code in (200, 503)  # 503: it had to write to the page
    assert "Traceback" not in caplog.text
    for path in (f"{PATH}/decisions", f"{PATH}/view", "/v1/overview", "/metrics", f"{PATH}/decisions/order 200"):
        assert service.get(path).status_code in (200, 500, 503), path
    health = samples(service)
    assert health["equipoise_journal_damaged", "arms"] >= 1


@pytest.mark.parametrize("damaged", ["events"], indirect=True)
def test_status_and_log_say_what_is_damaged(
    damaged: tuple[TestClient, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service, _ = damaged
    journal = service.get(PATH).json()["health"]["journal"]
    assert journal["damage"] and str(tmp_path) not in journal["damage"]
    assert journal["damaged"] >= 1 and journal["snapshot_error"] == ""
    assert service.get("/readyz").status_code == 200


def test_a_journal_in_use_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(scrub, "MAX_SHARE", 1.0)
    with client(ARMS, data=tmp_path) as service:
        for k in range(50):
            service.post(f"{PATH}/decide", json={"id": f"order {k}"})
        assert wait_for(service, "equipoise_journal_checked_events_total", 60)
        assert samples(service)["equipoise_journal_damaged", "arms"] == 0
        with sqlite3.connect(tmp_path / "arms.db") as other:  # while it is in use
            other.execute("UPDATE events SET time = time + 1 WHERE seq = 7")
        other.close()
        assert wait_for(service, "equipoise_journal_damaged", 1)
        assert "damaged event 7" in service.get(PATH).json()["health"]["journal"]["damage"]
    assert not [thread for thread in threading.enumerate() if "arms" in thread.name]


def wait_for(service: TestClient, name: str, at_least: float) -> bool:
    for _ in range(500):
        if samples(service)[name, "arms"] >= at_least:
            return True
        threading.Event().wait(0.01)
    return False


def test_without_file_descriptors_requests_are_to_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left for a look-up; nothing is damaged, and later the same request gets its answer."""

    def refuse(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{path}/none?mode=ro", uri=True)
        connection.execute("SELECT 1 FROM sqlite_master")
        return connection

    with client(ARMS, data=tmp_path) as service:
        first = service.post(f"{PATH}/decide", json={"id": "a"})
        with monkeypatch.context() as patched:
            patched.setattr(sqlite, "connect_reader", refuse)
            answer = service.post(f"{PATH}/decide", json={"id": "a"})
            assert (answer.status_code, answer.json()["type"]) == (503, TYPES + "unavailable")
            assert answer.headers["retry-after"] and str(tmp_path) not in answer.text
            assert service.post(f"{PATH}/decide", json={"id": "b"}).status_code == 200  # it needs no look-up
            assert service.get(f"{PATH}/decisions").status_code == 503
            assert service.get("/metrics").status_code == 200
        assert service.post(f"{PATH}/decide", json={"id": "a"}).json() == first.json()
        assert samples(service)["equipoise_journal_damaged", "arms"] == 0


def test_metrics_do_not_wait_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "STATUS_SECONDS", 0.05)
    slow, write = threading.Event(), Writer._write

    def write_slowly(self: Writer, rows: Any, work: Any) -> None:
        slow.wait(30.0)
        write(self, rows, work)

    with client(ARMS, data=tmp_path) as service:
        service.post(f"{PATH}/decide", json={})
        before = samples(service)
        monkeypatch.setattr(Writer, "_write", write_slowly)
        thread = threading.Thread(target=service.post, args=(f"{PATH}/decide",), kwargs={"json": {}})
        thread.start()
        while service_of(service).portfolios["arms"].engine.journal_health()["events"] < 3:
            threading.Event().wait(0.01)
        during = samples(service)
        assert during["equipoise_decisions_total", "arms"] == 1 == before["equipoise_decisions_total", "arms"]
        assert during.keys() >= before.keys()
        slow.set()
        thread.join()
        assert samples(service)["equipoise_decisions_total", "arms"] == 2


def test_a_failed_journal_is_logged_once_keeps_its_series_and_opens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Writer, rows: Any, work: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with client(ARMS, data=tmp_path) as service, caplog.at_level(logging.WARNING):
        made = service.post(f"{PATH}/decide", json={"id": "a"}).json()
        before = samples(service)
        served = service_of(service).portfolios["arms"]
        monkeypatch.setattr("equipoise.serve.app.EXPIRY_SECONDS", 0.01)
        monkeypatch.setattr(Writer, "_write", fail)
        answer = service.post(f"{PATH}/decide", json={"id": "lost"})
        assert (answer.status_code, answer.json()["type"]) == (503, TYPES + "read-only")
        assert "full" not in answer.text and "reopened" in answer.text
        threading.Event().wait(0.3)  # some periods of what runs by itself
        after = samples(service)
        assert after.keys() >= before.keys()
        assert (before["equipoise_journal_failed", "arms"], after["equipoise_journal_failed", "arms"]) == (0, 1)
        lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert [(record.levelname, "disk is full" in record.message) for record in lines] == [("ERROR", True)]
        monkeypatch.undo()

        n_threads = threading.active_count()
        served.engine.close()  # as a reload or `reopen` does
        assert not [thread for thread in threading.enumerate() if "arms" in thread.name]
        served.engine = service_of(service).open(served.config)
        assert threading.active_count() == n_threads
        assert served.engine.failure is None and service.get("/readyz").status_code == 200
        again = service.post(f"{PATH}/decide", json={"id": "a"}).json()
        assert again == made
        assert service.post(f"{PATH}/decide", json={"id": "lost"}).status_code == 200
        assert samples(service)["equipoise_journal_failed", "arms"] == 0


def test_errors_and_pauses_of_snapshots_are_in_the_status(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        engine = service_of(service).portfolios["arms"].engine
        engine._live._background.error = f"'{tmp_path}/arms.db' could not be written: no space"
        engine._live._background.pause_seconds = 0.25
        journal = service.get(PATH).json()["health"]["journal"]
    assert journal["snapshot_error"] == "'arms.db' could not be written: no space"
    assert (journal["snapshot_seconds"], journal["failed"]) == (0.25, False)
    assert engine_module.JournalEngine is type(engine)
