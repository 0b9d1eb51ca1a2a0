"""The first paint of the dashboard for a portfolio with 50 learners and 10^6 decisions: bytes and script time.

    python -m tools.studies.dashboard_cost

The portfolio is made by playing a part of the rounds and multiplying the totals of the rest into the state of its
selector, history and timeline: what the routes read is as large as after 10^6 decisions, and the requests go through
the real service to a real Chromium. Bytes are those on the wire (headers and bodies, compressed as sent) until the
first charts are drawn; script time is `ScriptDuration` of the page, all of it on the main thread, and the sum of the
script events of a trace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import threading
import time
import tomllib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvicorn

from equipoise.config import parse
from equipoise.portfolio.statements import RATIO
from equipoise.serve.app import application
from equipoise.serve.dashboard.timeline import HEAD, MAX_ROWS, PER_LEARNER, SPANS, Row
from equipoise.serve.guard import Guard
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Service, Settings, open_in_memory
from equipoise.serve.tokens import Tokens

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
SCRIPT_EVENTS = (
    "EvaluateScript",
    "FunctionCall",
    "v8.compile",
    "v8.compileModule",
    "v8.evaluateModule",
    "RunMicrotasks",
)


def config(n_learners: int) -> str:
    learner = '[[learner]]\nuse = "UCB"\narms = 5\nscale = {scale}\nname = "learner {i} of the pool"\n'
    tables = "".join(learner.format(i=i, scale=0.05 * (i + 1)) for i in range(n_learners))
    return f'version = 1\nname = "large"\n[reward]\nrange = [0, 1]\n{tables}'


def fill(hosted: Hosted, rounds: int, played: int) -> None:
    """Play rounds, and then make the totals of history and arrivals those of `rounds` rounds."""
    rng, portfolio = np.random.default_rng(0), hosted.portfolio
    for _ in range(played):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < 0.2 + 0.1 * int(decision.action)))
    scale, history = rounds / played, portfolio.history
    portfolio._state.tickets.round = rounds
    rows = portfolio.standing()
    for row in history._rows:
        row[0] = int(row[0] * scale)
        for i in range(len(rows)):
            row[5 + 3 * i] = int(row[5 + 3 * i] * scale)
    history.next_round = rounds * RATIO
    hosted.arrivals.resume([(row.plays * scale, row.plays * scale * row.mean_reward) for row in rows])


def fill_timeline(service: Service) -> None:
    """A timeline that goes back ninety days, with all tiers full."""
    board = service.portfolios["large"].board
    assert board.reading is not None
    rng, row = np.random.default_rng(1), board.reading.row
    board.timeline = type(board.timeline)()
    for span in ("90d", "1w", "1d", "2h", "15m"):
        step = SPANS[span] / MAX_ROWS
        nearer = {"90d": "1w", "1w": "1d", "1d": "2h", "2h": "15m"}.get(span)
        for k in range(MAX_ROWS, 0, -1):
            age = k * step
            if nearer is None or age > SPANS[nearer]:
                share = 1.0 - age / SPANS["90d"]
                numbers = array("d", row.numbers)
                numbers[0] = row["time"] - age
                for j in range(1, len(numbers)):  # totals grow evenly; means and radii, which come last, vary
                    is_mean = j >= HEAD and (j - HEAD) % PER_LEARNER >= 3
                    numbers[j] *= 1.0 + 0.01 * rng.random() if is_mean else share
                board.timeline.add(Row(numbers))


@contextmanager
def running(app: Guard) -> Iterator[str]:
    """Run the application in a server in a thread."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def first_paint(browser: Any, address: str) -> dict[str, float]:
    """Open the page of the portfolio in a fresh context until its first charts are drawn."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Performance.enable")
    sizes: dict[str, float] = {}
    events: list[dict[str, Any]] = []
    session.on("Network.dataReceived", lambda event: _add(sizes, event["requestId"], event["encodedDataLength"]))
    session.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))
    session.on("Tracing.dataCollected", lambda event: events.extend(event["value"]))
    session.send("Tracing.start", {"categories": "devtools.timeline,v8,disabled-by-default-v8.compile"})
    page.goto(f"{address}/#/p/large")
    page.wait_for_selector(".u-wrap canvas")
    page.wait_for_selector("#connection.live")
    page.wait_for_timeout(300)
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    done: list[bool] = []
    session.on("Tracing.tracingComplete", lambda event: done.append(True))
    session.send("Tracing.end")
    while not done:
        page.wait_for_timeout(20)
    context.close()
    return {
        "kilobytes": sum(sizes.values()) / 1e3,
        "script_ms": 1e3 * metrics["ScriptDuration"],
        "task_ms": 1e3 * metrics["TaskDuration"],
        "trace_script_ms": _script_milliseconds(events),
    }


def _add(sizes: dict[str, float], key: str, more: float) -> None:
    sizes[key] = sizes.get(key, 0.0) + more


def _script_milliseconds(events: list[dict[str, Any]]) -> float:
    """Time in script on the main thread of the page: outermost events only, CPU time of the thread where it is told."""
    main = {(e["pid"], e["tid"]) for e in events if e.get("name") == "EvaluateScript"}
    scripts = sorted(
        (
            (e["ts"], e.get("dur", 0), e.get("tdur", e.get("dur", 0)))
            for e in events
            if e.get("name") in SCRIPT_EVENTS and e.get("ph") == "X" and (e["pid"], e["tid"]) in main
        ),
    )
    total, end = 0.0, 0.0
    for start, duration, cpu in scripts:
        if start >= end:
            total, end = total + cpu, start + duration
    return total / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--learners", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--played", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--screenshot", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    service = Service(Tokens(), Settings(), open_in_memory)
    service.add(parse(tomllib.loads(config(options.learners))))
    asyncio.run(service.portfolios["large"].engine.run(lambda hosted: fill(hosted, options.rounds, options.played)))
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with running(application(service)) as address, sync_playwright() as playwright, tempfile.TemporaryDirectory():
        while service.portfolios["large"].board.reading is None:
            time.sleep(0.05)
        fill_timeline(service)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        results = [first_paint(browser, address) for _ in range(options.repeats)]
        if options.screenshot is not None:
            page = browser.new_page(viewport={"width": 1200, "height": 2400})
            page.goto(f"{address}/#/p/large")
            page.wait_for_timeout(2000)
            page.screenshot(path=options.screenshot, full_page=True)
        browser.close()
        reading = service.portfolios["large"].board.reading
    assert reading is not None
    print(json.dumps({key: round(median(row[key] for row in results), 1) for key in results[0]}, indent=1))
    print(f"one reading of the portfolio takes {1e3 * reading.seconds:.1f} ms, words included if it was watched")


if __name__ == "__main__":
    main()
