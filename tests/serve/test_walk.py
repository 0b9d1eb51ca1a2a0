"""How many files of the package a decision over HTTP passes: a measure of how far a reader has to walk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.serve import app
from equipoise.serve.dashboard import sampler
from tests.serve.served import ARMS, COLORS, client
from tests.walks import Walk

WARM_UP = 30
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "arms": (ARMS, {}, 40),
    "colors": (COLORS, {"context": {"age": 1.0, "visits": 2.0}}, 47),  # the schema takes seven
}


@pytest.mark.parametrize("name", CASES)
def test_a_decision_over_http_passes_few_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "EXPIRY_SECONDS", 3600.0)  # only the decision is to be seen
    monkeypatch.setattr(sampler, "PERIOD_SECONDS", 3600.0)
    text, body, limit = CASES[name]
    walk = Walk()
    with walk.hooked(), client(text, data=tmp_path) as service:

        def decide(number: int) -> None:
            answer = service.post(f"/v1/portfolios/{name}/decide", json={**body, "id": f"decision {number}"})
            assert answer.status_code == 200

        for number in range(WARM_UP):
            decide(-1 - number)
            reward = {"id": f"decision {-1 - number}", "reward": 0.5}
            assert service.post(f"/v1/portfolios/{name}/rewards", json=reward).status_code == 200
        files = walk.files(decide)
    assert {"journal/writer.py", "portfolio/portfolio.py"} <= files  # the hook sees all threads
    assert len(files) <= limit, "\n".join(sorted(files))
