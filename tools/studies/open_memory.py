"""Memory of open decisions over HTTP: `python -m tools.studies.open_memory`.

Decisions are made and never rewarded, in a process of its own for each kind of context. Printed are the growth of the
resident memory for each decision, what the service counts for it, and their ratio, which must lie between 1/2 and 2:
- zeros: bodies of 64 KiB of zeros, the largest array that a body can describe,
- nested: the same for three nested learners, which see the first columns,
- offers: 3 offers with 4 features,
- arms: no context.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from equipoise.config import parse
from equipoise.serve.app import create_app

LINEAR = 'version = 1\nname = "p"\n[[learner]]\nuse = "OFUL"\ndim = 2\n'
WIDER = '[[learner]]\nuse = "OFUL"\nname = "{0}"\ndim = {0}\n'
ARMS = """version = 1
name = "p"
[[learner]]
use = "UCB"
arms = 3
[[learner]]
use = "EpsilonGreedy"
arms = 3
epsilon = 0.1
"""
ROWS: list[list[int]] = [[0] * 1_000] * 32
OFFERS = {"offers": [{"id": each, "features": [0.1, 0.2, 0.3, 0.4]} for each in "abc"]}
KINDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "zeros": (LINEAR, {"context": ROWS}, 100),
    "nested": (LINEAR + WIDER.format(500) + WIDER.format(900), {"offers": [{"features": row} for row in ROWS]}, 100),
    "offers": (LINEAR + WIDER.format(4), OFFERS, 3_000),
    "arms": (ARMS, {}, 3_000),
}
WARM_UP = 20


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(kind: str) -> None:
    text, body, decisions = KINDS[kind]
    content, headers = json.dumps(body, separators=(",", ":")), {"Content-Type": "application/json"}
    with TestClient(
        create_app([parse(tomllib.loads(text))]), base_url="http://localhost", client=("127.0.0.1", 50000)
    ) as client:

        def decide(number: int) -> None:
            for _ in range(number):
                client.post("/v1/portfolios/p/decide", content=content, headers=headers).raise_for_status()

        def counted() -> int:
            return int(client.get("/v1/portfolios/p").json()["health"]["open_bytes"])

        decide(WARM_UP)
        gc.collect()
        before, counted_before = resident(), counted()
        decide(decisions)
        gc.collect()
        grown, size = (resident() - before) / decisions, (counted() - counted_before) / decisions
    print(f"{kind}: {grown:,.0f} bytes a decision, counted as {size:,.0f}, ratio {grown / size:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kind", choices=KINDS, help="only this one, in this process")
    kind = parser.parse_args().kind
    if kind is not None:
        run(kind)
        return
    for each in KINDS:
        subprocess.run([sys.executable, "-W", "ignore", "-m", __spec__.name, "--kind", each], check=True)


if __name__ == "__main__":
    main()
