"""Portfolios to serve in tests, and clients that reach them without a server."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from equipoise.config import PortfolioConfig, parse
from equipoise.serve.app import create_app
from equipoise.serve.failures import MEDIA_TYPE
from equipoise.serve.service import Settings, open_in, open_in_memory
from equipoise.serve.tokens import Tokens

ARMS = """
version = 1
name = "arms"
[[learner]]
use = "UCB"
arms = 3
[[learner]]
use = "EpsilonGreedy"
arms = 3
name = "greedy"
epsilon = 0.1
"""
BANNERS = """
version = 1
name = "banners"
sticky = "7d"
[reward]
range = [0, 1]
[actions]
names = ["red", "blue", "green"]
[[learner]]
use = "UCB"
arms = 3
[[learner]]
use = "EpsilonGreedy"
arms = 3
epsilon = 0.5
name = "greedy"
"""
COLORS = """
version = 1
name = "colors"
[reward]
range = [0, 1]
deadline = 3
default = 0.0
[context]
age = { type = "number", scaled = false, missing = "zero" }
visits = { type = "number", scaled = false, missing = "zero" }
[actions]
names = ["red", "blue"]
[actions.features]
price = { type = "number", scaled = false, missing = "zero" }
[[learner]]
use = "UCB"
arms = 2
[[learner]]
use = "OFUL"
name = "linear"
action_bound = 10.0
[learner.features]
use = "Interactions"
left = { use = "OneHot", ids = ["red", "blue"] }
right = { use = "Shared", dim = 2 }
"""
LINEAR = """
version = 1
name = "linear"
[actions.features]
price = { type = "number", scaled = false, missing = "zero" }
rating = { type = "number", scaled = false, missing = "zero" }
[[learner]]
use = "OFUL"
dim = 2
"""


def configs(*texts: str) -> list[PortfolioConfig]:
    return [parse(tomllib.loads(text)) for text in texts or (ARMS, COLORS, LINEAR)]


@contextmanager
def client(
    *texts: str,
    data: Path | None = None,
    tokens: Tokens | None = None,
    settings: Settings | None = None,
    address: str = "127.0.0.1",
    url: str = "http://localhost:8000",
    **headers: str,
) -> Iterator[TestClient]:
    """A client of a service of its own; with `data` it is durable."""
    opener = open_in_memory if data is None else open_in(data)
    app = create_app(configs(*texts), tokens=tokens, settings=settings, open=opener)
    with TestClient(app, base_url=url, client=(address, 50000), headers=headers, raise_server_exceptions=False) as made:
        yield made


def service_of(made: TestClient) -> Any:
    return made.app.service


def check_problem(answer: Any, status: int, kind: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    row = answer.json()
    assert (row["status"], row["type"]) == (status, f"urn:equipoise:problem:{kind}")
    assert row["title"] and row["detail"] and row["request_id"] == answer.headers["x-request-id"]


def samples(service: TestClient) -> dict[tuple[str, str], float]:
    """The values of all series, by name and portfolio."""
    families = text_string_to_metric_families(service.get("/metrics").text)
    rows = [sample for family in families for sample in family.samples]
    return {(row.name, row.labels.get("portfolio", "")): row.value for row in rows}
