"""CPU time of a batch of 100 decisions next to that of 100 single requests, in the same run.

    python -m tools.studies.batch_cost [--rounds 20]

A service with a journal runs in a process of its own. In each round, it gets 100 single requests, one after the other
on one connection, then 100 over 16 connections at once, which share transactions, then the same 100 as one batch; the
order changes from round to round, and all rewards are sent in between without being counted. CPU time is that of the
service's process, all threads, as the kernel counts it in nanoseconds. Two kinds of requests: the arms of the file, and
20 offers with 5 features each for two OFUL learners.

On two cores that other processes used fully, the median of 10 rounds, two runs each:

| requests | one after the other | over 16 connections | batch | share of the first | of the second |
|---|---|---|---|---|---|
| arms | 646 and 398 us | 178 and 148 us | 75 and 67 us | .12 and .17 | .42 and .45 |
| offers | 827 and 841 us | 288 and 376 us | 207 and 264 us | .25 and .31 | .72 and .70 |

Requests over many connections already share the transactions of the journal. What a batch saves in addition is HTTP;
reading the offers and deciding cost the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BATCH, CONNECTIONS = 100, 16
JSON, LINES = {"Content-Type": "application/json"}, {"Content-Type": "application/x-ndjson"}
HEAD = 'version = 1\nname = "{}"\n'
FILES = {
    "arms": '[[learner]]\nuse = "UCB"\narms = 3\n[[learner]]\nuse = "EpsilonGreedy"\narms = 3\nepsilon = 0.1\n',
    "offers": '[[learner]]\nuse = "OFUL"\ndim = 3\nname = "three"\n[[learner]]\nuse = "OFUL"\ndim = 5\n',
}
WAYS = ("one after the other", f"over {CONNECTIONS} connections", "batch")


def bodies(name: str, rng: random.Random) -> list[dict[str, Any]]:
    """Return the requests of a round."""
    if name == "arms":
        return [{} for _ in range(BATCH)]
    return [
        {"offers": [{"id": f"offer-{k}", "features": [rng.uniform(-0.4, 0.4) for _ in range(5)]} for k in range(20)]}
        for _ in range(BATCH)
    ]


class Service:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self._port = process, port
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(CONNECTIONS)]
        self._pool = ThreadPoolExecutor(CONNECTIONS)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads that live."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def send(self, path: str, content: str, headers: dict[str, str], connection: int = 0) -> str:
        link = self._connections[connection]
        link.request("POST", path, content, headers)
        answer = link.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(text)
        return text

    def decide(self, name: str, way: str, requests: Sequence[str]) -> list[str]:
        """Send requests in a way; return the ids of the decisions."""
        path = f"/v1/portfolios/{name}/decide"
        if way == "batch":
            rows = map(json.loads, self.send(path, "\n".join(requests), LINES).splitlines())
            return [row["decision"]["id"] for row in rows]
        if way == WAYS[0]:
            answers = [self.send(path, request, JSON) for request in requests]
        else:
            parts = [requests[k::CONNECTIONS] for k in range(CONNECTIONS)]
            each = self._pool.map(lambda k: [self.send(path, body, JSON, k) for body in parts[k]], range(CONNECTIONS))
            answers = [answer for some in each for answer in some]
        return [json.loads(answer)["id"] for answer in answers]

    def reward(self, name: str, ids: Sequence[str], rng: random.Random) -> None:
        lines = [json.dumps({"id": id_, "reward": float(rng.random() < 0.5)}) for id_ in ids]
        self.send(f"/v1/portfolios/{name}/rewards", "\n".join(lines), LINES)

    def close(self) -> None:
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    (folder / "files").mkdir()
    for name, text in FILES.items():
        (folder / "files" / f"{name}.toml").write_text(HEAD.format(name) + text)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "equipoise", "serve", str(folder / "files"), "--data", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen([*command, "--port", str(port)], stderr=log, cwd=ROOT, env=environment)
    service = Service(process, port)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                sleep(0.05)
        yield service
    finally:
        service.close()
        process.terminate()
        process.wait(60)


def measure(name: str, rounds: int, seed: int = 1) -> dict[str, float]:
    """Return the CPU microseconds per decision of each way, as the median of all rounds."""
    rng, spent = random.Random(seed), {way: list[float]() for way in WAYS}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as service:
        for t in range(rounds + 1):
            requests = [json.dumps(body) for body in bodies(name, rng)]
            for way in rng.sample(WAYS, len(WAYS)):
                before = service.cpu_seconds()
                ids = service.decide(name, way, requests)
                if t:  # the first round warms up
                    spent[way].append((service.cpu_seconds() - before) / BATCH * 1e6)
                service.reward(name, ids, rng)
    return {way: median(values) for way, values in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    for name in FILES:
        found = measure(name, options.rounds)
        single, shared, batch = (found[way] for way in WAYS)
        figures = f"{single:,.0f}, {shared:,.0f} and {batch:,.0f} us of CPU per decision"
        print(f"{name}: {figures}; the batch costs {batch / single:.2f} and {batch / shared:.2f} of them")


if __name__ == "__main__":
    main()
