"""Measurements for Prometheus: every series, those of portfolios that failed, and the page that lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.serve.metrics import ALL, OF_PROCESS
from tests.serve.served import ARMS, COLORS, client, samples, service_of

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "deploy.md"
ELSEWHERE = {"equipoise_connections"}  # of a server, which the client of these tests goes without


def test_every_series_has_a_value_or_is_not_reported(tmp_path: Path) -> None:
    with client(ARMS, COLORS, data=tmp_path) as service:
        service.post("/v1/portfolios/arms/decide", json={"id": "d"})
        service.post("/v1/portfolios/arms/rewards", json={"id": "d", "reward": 1.0})
        health = service.get("/v1/portfolios/arms").json()["health"]
        text, values = service.get("/metrics").text, samples(service)
    typed = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert {each.name for each in ALL} | {"process_cpu_seconds_total"} <= typed
    found = {name for name, _ in values}
    unreported = {f"equipoise_{key}" for key in ("open_bytes", "waiting_bytes", "waiting_rounds") if key not in health}
    if "refused" not in health["learners"][0]:
        unreported.add("equipoise_refused_contexts_total")
    if health["journal"]["state_bytes"] is None:  # before the first snapshot
        unreported.add("equipoise_state_bytes")
    empty = {"equipoise_log_lines_suppressed_total", "equipoise_request_seconds"}
    missing = {each.name for each in ALL} - found - empty - unreported - ELSEWHERE
    assert missing <= {"equipoise_regret_upper", "equipoise_regret_lower"}, missing
    assert values["equipoise_events_total", "arms"] > 2 and values["equipoise_journal_bytes", "arms"] > 4096
    assert values["equipoise_snapshot_age_events", "arms"] >= 2 and values["equipoise_journal_failed", "arms"] == 0
    assert values["equipoise_streams", ""] == 0
    for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds", "max_fds", "start_time_seconds"):
        assert values[f"process_{name}", ""] > 0


def test_names_follow_the_conventions() -> None:
    assert len({each.name for each in ALL}) == len(ALL)
    for each in ALL:
        assert re.fullmatch(r"equipoise_[a-z]+(_[a-z]+)*", each.name), each.name
        assert not re.search(r"_(milliseconds|ms|kb|count|sum|bucket)$", each.name), each.name


def test_a_failed_portfolio_keeps_the_series_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(ARMS, COLORS, data=tmp_path) as service:
        service.post("/v1/portfolios/arms/decide", json={})
        before = samples(service)
        engine = service_of(service).portfolios["arms"].engine
        monkeypatch.setattr(type(engine), "failure", property(lambda self: "no room" if self is engine else None))
        after = samples(service)
    assert (before["equipoise_journal_failed", "arms"], after["equipoise_journal_failed", "arms"]) == (0, 1)
    assert after["equipoise_journal_failed", "colors"] == 0
    of_journals = {
        name for name, portfolio in before if portfolio and re.search("_(journal|snapshot|events|queue)", name)
    }
    assert len(of_journals) >= 6
    assert {name for name, portfolio in after if portfolio == "arms"} >= of_journals


def rows_of(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `((?:equipoise|process)_\w+)(?:{[^}]*})?` \| ([^|]+?) \|[^|]*\|$", page, re.MULTILINE)


def expected() -> list[tuple[str, str]]:
    of_process: list[Any] = list(OF_PROCESS.collect())
    names = [each.name + "_total" * (each.type == "counter") for each in of_process]
    return [(each.name, each.text) for each in ALL] + [(name, "") for name in names]


def test_the_page_lists_every_series() -> None:
    listed = rows_of(PAGE.read_text(encoding="utf-8"))
    meant = [(name, text if name.startswith("equipoise") else "") for name, text in listed]
    assert sorted(meant) == sorted(expected())


def test_the_comparison_finds_a_series_that_is_not_listed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(rows_of(page.replace("| `equipoise_streams`", "| `x`"))) == len(rows_of(page)) - 1
