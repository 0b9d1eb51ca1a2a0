"""Whether a killed service loses anything: `python -m tools.studies.kill_service [--kills N] [--events N] [--term]`.

The study `kill_journal` over HTTP. A process of `equipoise serve` is killed (SIGKILL) at a random moment under the load
of 32 clients with connections of their own. Every client decides under an id of its own, rewards most decisions, in
batches of lines or one by one, withdraws some, and leaves some to their deadline. What was not answered is repeated
after the restart, as a client does. After each kill every acknowledged answer must be in the journal exactly once, and
all ways to recover must give the same state; at thirty kills, so must a rebuild from the first event.

With --term the process gets SIGTERM, and must end with code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from asyncio import StreamReader, StreamWriter
from pathlib import Path
from typing import Any

from tools.studies.kill_journal import Life, offers, reward_of, run_lives
from tools.studies.serve_load import ONE_THREAD, PORT

CONFIG = """
version = 1
name = "shop"
[reward]
range = [0, 1]
deadline = "3s"
default = 0.0
[[learner]]
use = "OFUL"
features = { use = "Prefix", dim = 2 }
[[learner]]
use = "OFUL"
features = { use = "Prefix", dim = 4 }
[[learner]]
use = "EpsilonGreedy"
arms = 3
epsilon = 0.1
"""
END_SECONDS = 60.0
BATCH = 8  # rounds of a client before it rewards them
HEAD = b"POST /v1/portfolios/shop/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
JSON, LINES = b"application/json", b"application/x-ndjson"


def is_withdrawn(number: int) -> bool:
    return number % 17 == 5


def is_forgotten(number: int) -> bool:
    """Whether a decision is left to its deadline."""
    return number % 13 == 4 and not is_withdrawn(number)


class Client:
    """One connection that asks and waits for the answer; `lines` gets a line for every answer."""

    def __init__(self, task: int, lines: list[bytes]) -> None:
        self._task, self._lines = task, lines
        self._streams: tuple[StreamReader, StreamWriter] | None = None

    async def post(self, path: str, body: bytes, media: bytes = JSON) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", PORT)
        reader, writer = self._streams
        head = (
            b"POST /v1/portfolios/shop/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
        )
        writer.write(head % (path.encode(), media, len(body)) + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return int(answer[9:12]), await reader.readexactly(length)

    async def run(self, first: int) -> None:
        """Decide, reward and withdraw without end, from the first round that was not acknowledged as a whole."""
        number = first
        try:
            while True:
                for k in range(number, number + BATCH):
                    await self._decide(k)
                await self._close(range(number, number + BATCH))
                number += BATCH
        finally:
            if self._streams is not None:
                self._streams[1].close()

    async def _decide(self, number: int) -> None:
        rows = [{"features": row} for row in offers(self._task, number).tolist()]
        body = json.dumps({"id": f"{self._task}-{number}", "offers": rows}).encode()
        status, answer = await self.post("decide", body)
        if status != 200:
            raise RuntimeError(f"decide was answered with {status}: {answer!r}")
        self._lines.append(b"d %d %d %d" % (self._task, number, json.loads(answer)["action"]))

    async def _close(self, numbers: range) -> None:
        task = self._task
        for number in filter(is_withdrawn, numbers):
            status, answer = await self.post("withdraw", json.dumps({"id": f"{task}-{number}"}).encode())
            self._note(b"w", number, status, json.loads(answer))
        rewarded = [number for number in numbers if not is_withdrawn(number) and not is_forgotten(number)]
        if numbers.start // BATCH % 2:
            for number in rewarded:
                status, answer = await self.post("rewards", json.dumps(self._reward(number)).encode())
                self._note(b"r", number, status, json.loads(answer))
            return
        body = b"\n".join(json.dumps(self._reward(number)).encode() for number in rewarded)
        status, answer = await self.post("rewards", body, LINES)
        if status != 200:
            raise RuntimeError(f"a batch was answered with {status}: {answer!r}")
        for number, line in zip(rewarded, answer.splitlines(), strict=True):
            row = json.loads(line)
            self._note(b"r", number, row["status"], row)

    def _reward(self, number: int) -> dict[str, Any]:
        return {"id": f"{self._task}-{number}", "reward": reward_of(self._task, number)}

    def _note(self, kind: bytes, number: int, status: int, answer: dict[str, Any]) -> None:
        """Note an answer; the deadline may have come first, as it does if a restart takes long."""
        if status == 200:
            self._lines.append(b"%b %d %d" % (kind, self._task, number))
        elif status not in (404, 409):
            raise RuntimeError(f"{self._task}-{number} was answered with {status}: {answer}")


class Served:
    """Lives of `equipoise serve`, with clients in this process; a signal ends them."""

    def __init__(self, folder: Path, by: signal.Signals = signal.SIGKILL) -> None:
        self._by = by
        self._file, self._data = folder / "shop.toml", folder / "data"
        self._file.write_text(CONFIG)
        self._data.mkdir(exist_ok=True)
        self.path = self._data / "shop.db"

    def live(self, firsts: list[int], seconds: float) -> Life:
        """Start the service, and end it after this time."""
        command = ["-m", "equipoise", "serve", str(self._file), "--data", str(self._data), "--port", str(PORT)]
        since = time.perf_counter()
        with self.path.with_name("log").open("ab") as log:
            process = subprocess.Popen([sys.executable, *command], stderr=log, env={**os.environ, **ONE_THREAD})
        lines: list[bytes] = []
        try:
            start_seconds = asyncio.run(self._load(process, since, firsts, seconds, lines))
            if process.wait(END_SECONDS) != (0 if self._by == signal.SIGTERM else -self._by):
                raise RuntimeError(f"the service ended with {process.returncode} after {self._by.name}")
        finally:
            process.kill()
            process.wait()
        return Life(lines, start_seconds)

    async def _load(
        self, process: subprocess.Popen[bytes], since: float, firsts: list[int], seconds: float, lines: list[bytes]
    ) -> float:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", PORT)
                writer.close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError(f"the service ended with {process.returncode} at its start") from None
                await asyncio.sleep(0.01)
        start_seconds = time.perf_counter() - since
        tasks = [asyncio.create_task(Client(task, lines).run(first)) for task, first in enumerate(firsts)]
        await asyncio.sleep(seconds)
        process.send_signal(self._by)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(outcome, OSError | asyncio.IncompleteReadError):
                raise RuntimeError("a client ended before the service did") from outcome
        return start_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--life-seconds", type=float, default=5.0, help="longest life of a process")
    parser.add_argument("--folder", type=Path, help="where the journal is kept, to go on after an interruption")
    parser.add_argument("--term", action="store_true", help="end the process by SIGTERM, not by SIGKILL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        lives = Served(folder, signal.SIGTERM if options.term else signal.SIGKILL)
        found = run_lives(lives, options.kills, options.events, seed=options.seed, life_seconds=options.life_seconds)
    print(f"{found}; faults: {found.faults[:5] or 'none'}")
    sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
