"""The example shop: service, shop and visitors together, its learner that fails, and visitors whose taste changes."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise import Portfolio
from equipoise.features import Offers
from equipoise.learners import Constant

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "examples" / "shop"
pytestmark = pytest.mark.service


def overview(address: str) -> dict[str, dict[str, float]]:
    with urlopen(f"{address}v1/overview", timeout=10) as answer:
        return {row["name"]: row for row in json.load(answer)["portfolios"]}


@pytest.mark.slow
def test_everything_starts_earns_rewards_and_ends_with_an_interrupt(tmp_path: Path) -> None:
    command = [sys.executable, str(SHOP), "--seconds", "120", "--rate", "20", "--data", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"Dashboard +(http://\S+/)\n", process.stdout.readline())
        assert found is not None
        for _ in range(200):
            rows = overview(found[1])
            if all(row["rounds"] > 20 and row["reward"] is not None for row in rows.values()):
                break
            time.sleep(0.1)
        assert set(rows) == {"banner", "offers"} and all(row["rounds"] > 20 for row in rows.values())
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and rest.endswith("Everything has ended.\n")
    assert (tmp_path / "journals" / "offers.db").exists() and "Traceback" not in (tmp_path / "log.txt").read_text()
    with pytest.raises(URLError):
        overview(found[1])


def test_the_recommender_fails_during_the_outage_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = runpy.run_path(str(SHOP / "recommender.py"))
    outage = tmp_path / "down"
    monkeypatch.setenv(names["OUTAGE"], str(outage))
    portfolio = Portfolio([names["Recommender"](), Constant(0, name="house rule")])
    visitor = Offers(None, np.array([1.0, 0.0, 1.0]), ["discount", "bundle", "gift", "points"])

    def played(n: int) -> list[str | None]:
        decisions = [portfolio.decide(visitor) for _ in range(n)]
        for decision in decisions:
            portfolio.learn(decision, 1.0 if decision.learner == 0 else 0.0)
        return [decision.learner_name for decision in decisions]

    for _ in range(50):
        played(1)
    outage.touch()
    assert set(played(20)) == {"house rule"}
    outage.unlink()
    assert "recommender" in [name for _ in range(100) for name in played(1)]


def test_the_best_offer_of_every_kind_of_visitor_changes_once() -> None:
    names = runpy.run_path(str(SHOP / "visitors.py"))
    before, after = names["SALES"], names["SALES_AFTER"]
    assert all(np.argmax(before[kind]) != np.argmax(after[kind]) for kind in before)
    assert all(0.0 <= share <= 1.0 for table in (before, after) for row in table.values() for share in row)
