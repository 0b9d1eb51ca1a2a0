"""Whether a snapshot of many open decisions holds up anything: `python -m tools.studies.open_snapshots [--open N]`.

A server process has two portfolios, `big` with N decisions that are never rewarded and `other`. While four connections
decide in `big`, so that it takes snapshots, three probes ask every few milliseconds: `/healthz`, a decision of `other`
and a decision of `big`. The control is a second server process that only answers its own probe of `/healthz` in the
same seconds: what the machine itself delays. Printed are percentiles of each probe in milliseconds, and of the server
memory, the time of a start with this state, the size of the snapshot and the longest pause of the portfolio.

It fails if the 99.9th percentile of `/healthz` or `other` is above 50 ms and above twice that of the control, or if a
pause is above 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tools.studies.serve_load import ONE_THREAD

PORTS = {"server": 18_731, "control": 18_732}
CONFIG = 'version = 1\nname = "{}"\n' + "".join(
    f'[[learner]]\nuse = "OFUL"\nname = "{dim}"\ndim = {dim}\n' for dim in (2, 3, 4)
)
OFFERS = {"offers": [{"id": each, "features": [0.1 * k, 0.2, 0.3, 0.4]} for k, each in enumerate("abc")]}
BODY = json.dumps(OFFERS).encode()
LIMIT_MS, PAUSE_MS, EVERY = 50.0, 20.0, 0.004
LOADING = 4  # connections


class Client:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._writer.close()

    async def ask(self, path: str, body: bytes | None = None) -> bytes:
        method, content = ("GET", b"") if body is None else ("POST", body)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", answer)
        content = await self._reader.readexactly(int(length[1]) if length else 0)
        if b" 200 " not in answer[:20] and b" 201 " not in answer[:20]:
            raise RuntimeError(f"{path}: {answer[:40]!r} {content[:200]!r}")
        return content


def start(name: str, folder: Path, limit: int) -> tuple[subprocess.Popen[bytes], float]:
    """Start a server; return it and the seconds until it answered."""
    since, port = time.monotonic(), PORTS[name]
    serve = [sys.executable, "-m", "equipoise", "serve", str(folder / name), "--port", str(port)]
    process = subprocess.Popen(
        [*serve, "--max-open", str(limit), "--data", str(folder / f"{name}-data")],
        stderr=(folder / f"{name}.log").open("ab"),
        env={**os.environ, **ONE_THREAD},
    )
    while process.poll() is None:
        try:
            asyncio.run(_ask_once(port, "/readyz"))
            return process, time.monotonic() - since
        except (OSError, asyncio.IncompleteReadError):
            time.sleep(0.02)
    raise RuntimeError((folder / f"{name}.log").read_text()[-500:])


async def _ask_once(port: int, path: str) -> bytes:
    async with Client(port) as client:
        return await client.ask(path)


async def decide_many(number: int) -> None:
    async def some(share: int) -> None:
        async with Client(PORTS["server"]) as client:
            for _ in range(share):
                await client.ask("/v1/portfolios/big/decide", BODY)

    await asyncio.gather(*(some(number // LOADING) for _ in range(LOADING)))


async def probe(port: int, path: str, body: bytes | None, over: Callable[[], bool], found: list[float]) -> None:
    async with Client(port) as client:
        while not over():
            since = time.perf_counter()
            await client.ask(path, body)
            found.append((time.perf_counter() - since) * 1e3)
            await asyncio.sleep(EVERY)


async def loaded(number: int, times: dict[str, list[float]]) -> None:
    is_over = False
    probes = {
        "/healthz": (PORTS["server"], "/healthz", None),
        "other": (PORTS["server"], "/v1/portfolios/other/decide", BODY),
        "big": (PORTS["server"], "/v1/portfolios/big/decide", BODY),
        "control": (PORTS["control"], "/healthz", None),
    }
    for name in probes:
        times[name] = []
    tasks = [asyncio.create_task(probe(*each, lambda: is_over, times[name])) for name, each in probes.items()]
    await decide_many(number)
    is_over = True
    await asyncio.gather(*tasks)


def resident(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


def journal_of(name: str) -> dict[str, Any]:
    lines = asyncio.run(_ask_once(PORTS["server"], "/metrics")).decode().splitlines()
    found = (re.match(rf'equipoise_(\w+){{portfolio="{name}"}} (.*)', line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--open", type=int, default=100_000, help="open decisions before anything is measured")
    parser.add_argument("--more", type=int, default=45_000, help="decisions made while it is measured")
    options = parser.parse_args()
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for server, portfolios in (("server", ("big", "other")), ("control", ("idle",))):
            (folder / server).mkdir()
            for each in portfolios:
                (folder / server / f"{each}.toml").write_text(CONFIG.format(each))
        limit = 3 * (options.open + options.more)
        control, _ = start("control", folder, limit)
        server, _ = start("server", folder, limit)
        try:
            before = resident(server.pid)
            asyncio.run(decide_many(options.open))
            print(f"{options.open:,} decisions are open", flush=True)
            filled = resident(server.pid)
            asyncio.run(loaded(options.more, times))
            numbers = journal_of("big")
            server.kill()
            server.wait()
            server, seconds = start("server", folder, limit)
        finally:
            server.kill()
            control.kill()
    print(f"{options.open:,} open: {(filled - before) * 2**20 / options.open:,.0f} bytes each, start {seconds:.1f} s")
    pause = numbers["snapshot_seconds"] * 1e3
    print(f"snapshot {numbers.get('state_bytes', 0) / 1e6:.1f} MB, pause of the portfolio {pause:.1f} ms")
    worst = {}
    for probed, found in times.items():
        p50, p99, p999 = np.percentile(found, (50, 99, 99.9))
        worst[probed] = float(p999)
        print(
            f"{probed:9} {len(found):7,} p50 {p50:6.1f} p99 {p99:6.1f} p99.9 {p999:6.1f} longest {max(found):6.1f} ms"
        )
    allowed = max(LIMIT_MS, 2 * worst["control"])
    sys.exit(pause > PAUSE_MS or max(worst["/healthz"], worst["other"]) > allowed)


if __name__ == "__main__":
    main()
