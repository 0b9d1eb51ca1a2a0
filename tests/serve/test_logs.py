"""Logs: they never hold up the service, say what an operator needs, and never what is nobody else's business."""

from __future__ import annotations

import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise.serve import logs
from equipoise.serve.logs import MAX_SAME, JsonFormatter, LineWriter, suppressed_lines
from equipoise.serve.tokens import add_token, read_tokens
from tests.serve.served import ARMS, client

PATIENCE = 30.0  # seconds that a busy machine gets before the test says that something hangs


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A service whose standard error is a pipe that is never read, and its port."""
    file, port = tmp_path / "arms.toml", free_port()
    file.write_text(ARMS)
    command = [sys.executable, "-m", "equipoise", "serve", str(file), "--memory", "--port", str(port), "--debug"]
    process = subprocess.Popen([*command, "--data", str(tmp_path / "data")], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not answers(port):
            time.sleep(0.05)
        yield process, port
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


def test_a_log_that_is_never_read_holds_up_nothing(unread: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = unread
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for k in range(1_000):
        connection.request("GET", f"/v1/portfolios/arms/learners/unknown-{k}" if k % 2 else f"/unknown-{k}")
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (404, 422)
    assert answers(port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert 'equipoise_log_lines_suppressed_total{kind="unknown-path"}' in text


def test_what_is_not_http_cannot_fill_the_log(tmp_path: Path) -> None:
    """The server's own lines were written without a limit, 150 bytes for every 3 that anybody sent."""
    file, port = tmp_path / "arms.toml", free_port()
    file.write_text(ARMS)
    command = [sys.executable, "-m", "equipoise", "serve", str(file), "--memory", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--data", str(tmp_path / "data")], stderr=log)
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not answers(port):
            time.sleep(0.05)
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
                client.sendall(b"?\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 400")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    rows = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    written = sum(row["message"] == "Invalid HTTP request received." for row in rows)
    assert 0 < written <= 10 * MAX_SAME  # as a slow machine takes several periods
    assert sum(row.get("suppressed", {}).get("http-server", 0) for row in rows) == 200 - written


def lines_of(read_end: int) -> list[dict[str, Any]]:
    with os.fdopen(read_end, "rb") as stream:
        return [json.loads(line) for line in stream.read().splitlines()]


def logger_of(writer: LineWriter) -> logging.Logger:
    logger = logging.Logger("equipoise.trial")
    logger.addHandler(writer)
    return logger


def test_lines_are_written_in_order_and_all_of_them_at_the_end() -> None:
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end)
    logger = logger_of(writer)
    for k in range(100):
        logger.info("line %d", k)
    writer.close()
    os.close(write_end)
    rows = lines_of(read_end)
    assert [row["message"] for row in rows] == [f"line {k}" for k in range(100)]
    assert suppressed_lines(logger) == {}


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no text")


def test_a_line_that_cannot_be_formatted_is_no_error_of_the_one_who_logs() -> None:
    """The portfolio logs in the middle of changes."""
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end)
    logger = logger_of(writer)
    logger.info("%d rows", "many")
    logger.info("learner %r", Unprintable())
    writer.close()
    os.close(write_end)
    rows = lines_of(read_end)
    assert len(rows) == 2
    assert all("test_logs.py" in row["message"] and "could not be formatted" in row["message"] for row in rows)


def test_a_full_queue_drops_lines_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PERIOD_SECONDS", 0.01)
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end, max_bytes=20_000)
    logger = logger_of(writer)
    for _ in range(3_000):
        logger.info("x" * 100)
    dropped = suppressed_lines(logger)["full"]
    assert 0 < dropped < 3_000
    stream = os.fdopen(read_end, "rb")
    seen, calls = b"", 0
    while b"suppressed" not in seen:  # reading makes room again
        seen += os.read(stream.fileno(), 1 << 16)
        logger.info("again")
        calls += 1
    writer.close()
    os.close(write_end)
    rows = [json.loads(line) for line in (seen + stream.read()).splitlines()]
    stream.close()
    told = sum(row["suppressed"].get("full", 0) for row in rows if "suppressed" in row)
    assert told == suppressed_lines(logger)["full"] >= dropped
    assert sum("suppressed" not in row for row in rows) + told == 3_000 + calls


def test_the_same_line_of_strangers_is_written_a_few_times_only() -> None:
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end)
    logger = logger_of(writer)
    for k in range(500):
        logger.info("request", extra={"facts": {"k": k}, "limited": "unknown-path"})
        logger.info("request", extra={"facts": {"k": k}})
    for _ in range(3):
        logger.info("request", extra={"limited": "unauthenticated"})
    writer.close()
    os.close(write_end)
    rows = lines_of(read_end)
    (told,) = [row for row in rows if "suppressed" in row]
    assert told["suppressed"] == {"unknown-path": 500 - MAX_SAME} == suppressed_lines(logger)
    assert told["level"] == "warning"
    assert len(rows) == MAX_SAME + 500 + 3 + 1


def test_a_pipe_whose_reader_is_gone_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    writer = LineWriter(write_end)
    logger = logger_of(writer)
    logger.info("lost")
    writer.close()
    os.close(write_end)
    assert suppressed_lines(logger) == {"unwritable": 2}, "the line, and the line that counts it"


def rows_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name == "equipoise.serve"]
    return [json.loads(line) for line in lines]


def test_a_line_says_when_where_who_and_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = add_token(tmp_path / "tokens.json", "one", ["decide"])
    caplog.set_level(logging.DEBUG, logger="equipoise.serve")
    headers = {"Authorization": f"Bearer {secret}", "X-Forwarded-For": "junk, 203.0.113.9"}
    with client(tokens=read_tokens(tmp_path / "tokens.json"), address="192.0.2.7") as service:
        service.post("/v1/portfolios/arms/decide?q=hidden", json={"contxt": "private"}, headers=headers)
        service.post("/ofrep/v1/evaluate/flags/none", json={}, headers=headers)
        service.post("/v1/portfolios/arms/decide", json={}, headers={"Authorization": "Bearer eqp_wrong"})
        service.get("/secret-path?token=hidden")
        service.get("/metrics", headers={"Host": "evil.example", "X-Forwarded-For": "<script>"})
    refused, flag, stranger, unknown, foreign = (row for row in rows_of(caplog) if row["message"] == "request")
    assert refused["time"].endswith("Z") and refused["client"] == "192.0.2.7"
    assert refused["route"] == "/v1/portfolios/{name}/decide" and refused["problem"] == "invalid-argument"
    assert refused["forwarded_for"] == "203.0.113.9" and "forwarded_for" not in foreign
    assert (flag["problem"], flag["status"]) == ("unknown-portfolio", 404)
    assert (stranger["problem"], stranger["client"]) == ("unauthenticated", "192.0.2.7")
    assert (unknown["problem"], unknown["route"]) == ("unknown-path", None)
    assert (foreign["problem"], foreign["status"]) == ("unknown-host", 421)
    text = json.dumps(rows_of(caplog))
    assert not any(word in text for word in (secret, "eqp_wrong", "hidden", "private", "secret-path", "script"))
    limits = [getattr(record, "limited", None) for record in caplog.records if record.message == "request"]
    assert limits == [None, None, "unauthenticated", "unknown-path", "unknown-host"], "only strangers are limited"


def test_the_service_says_when_it_starts_and_stops(tmp_path: Path) -> None:
    file, port = tmp_path / "arms.toml", free_port()
    file.write_text(ARMS)
    command = [sys.executable, "-m", "equipoise", "serve", str(file), "--port", str(port)]
    process = subprocess.Popen([*command, "--data", str(tmp_path / "data")], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not answers(port):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    messages = [json.loads(line)["message"] for line in errors.splitlines()]
    assert messages[-2].startswith("serving") and messages[-1] == "stopped" and process.returncode == 0
