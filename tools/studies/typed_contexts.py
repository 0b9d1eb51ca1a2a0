"""What typed contexts cost: the CPU of a decision with 20 typed fields, next to the same decision with numbers.

Requests go to the application of the service, without a network. Blocks of all kinds take turns in one process, and
their medians are compared. Numbers are as many as there are fields, or the columns that typed fields become.

    python -m tools.studies.typed_contexts [--blocks 60] [--ids]

With `--ids` every request has an id of its own, so that a digest of its features is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from statistics import median
from time import process_time
from typing import Any

from equipoise.config import parse
from equipoise.features import Schema
from equipoise.serve.app import create_app
from equipoise.serve.guard import Guard
from equipoise.serve.trial import ask

BLOCK = 50  # requests
LEARNERS = [{"use": "UCB", "arms": 3}, {"use": "EpsilonGreedy", "arms": 3, "epsilon": 0.1}]
FIELDS: dict[str, Any] = {
    **{f"number_{k}": {"type": "number", "low": 0, "high": 10} for k in range(8)},
    **{f"category_{k}": {"type": "category", "values": ["phone", "tablet", "desktop"]} for k in range(6)},
    **{f"flag_{k}": {"type": "flag"} for k in range(5)},
    "open": {"type": "category", "hashed": 16},
}


def contexts_by_kind() -> dict[str, Any]:
    """Return the contexts of a typed request and of two with numbers, for the portfolios of the same names."""
    values = {"number": 2.5, "category": "tablet", "flag": True, "open": "Lisbon"}
    typed = {name: values[name.split("_")[0]] for name in FIELDS}
    columns = Schema(FIELDS).offers(typed, ids=["a"]).shared
    assert columns is not None
    return {"typed": typed, "numbers": [0.25] * len(FIELDS), "columns": columns.tolist()}


def portfolios(contexts: dict[str, Any]) -> Guard:
    """Return the application with a portfolio for each kind of request."""
    files = {name: {"version": 1, "name": name, "actions": {"names": ["a", "b", "c"]}} for name in contexts}
    files["typed"]["context"] = FIELDS
    return create_app([parse({**file, "learner": LEARNERS}) for file in files.values()])


async def measure(n_blocks: int, *, ids: bool = False) -> dict[str, float]:
    """Return the median CPU of a request, in microseconds, by kind."""
    contexts = contexts_by_kind()
    app, spent = portfolios(contexts), {name: list[float]() for name in contexts}
    try:
        for block in range(n_blocks):
            for name, context in contexts.items():
                bodies = [{"context": context, **({"id": f"{block} {k}"} if ids else {})} for k in range(BLOCK)]
                since = process_time()
                answers = [await ask(app, "POST", f"/v1/portfolios/{name}/decide", body) for body in bodies]
                spent[name].append((process_time() - since) / BLOCK * 1e6)
                for status, answer in answers:
                    assert status == 200, answer
                    await ask(app, "POST", f"/v1/portfolios/{name}/rewards", {"id": answer["id"], "reward": 0.5})
    finally:
        app.service.close()
    return {name: median(times) for name, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=60, help=f"of {BLOCK} requests of each kind")
    parser.add_argument("--ids", action="store_true", help="give every request an id of its own")
    options = parser.parse_args()
    times = asyncio.run(measure(options.blocks, ids=options.ids))
    for name, body in contexts_by_kind().items():
        extra = times["typed"] - times[name]
        print(f"{name:<8} {times[name]:7.1f} us of CPU ({len(json.dumps(body))} bytes), typed takes {extra:+.1f} us")


if __name__ == "__main__":
    main()
