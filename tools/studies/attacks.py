"""Memory of the service while clients attack its connections, and after they have gone.

    python -m tools.studies.attacks --seconds 60 [--connections 8] [--attack requests]

Each attack runs against a server process of its own, with tokens and without sending one. Its clients read no answer,
and send as much as the server takes; a connection that the server ends is opened again. `slow headers` opens 1,100
connections with half a request each, and asks whether others are still served meanwhile.

Eight connections for 60 seconds each (1,100 for slow headers), on two cores that others used too; MB, of resident
memory but for what was sent. Twice a second another client asked for `/healthz`:

| attack | sent | start | peak | 10 s after closing | connections ended by the server | others served | refused |
|---|---|---|---|---|---|---|---|
| requests | 326,166 | 73 | 73 | 73 | 435,798 | 120 | 0 |
| static files | 208,733 | 73 | 73 | 73 | 154,516 | 120 | 0 |
| headers behind an unread answer | 196,628 | 73 | 73 | 73 | 147,887 | 120 | 0 |
| headers behind a stream | 24 | 73 | 74 | 74 | 0 | 120 | 0 |
| chunk extensions | 236,662 | 73 | 73 | 73 | 241,265 | 120 | 0 |
| slow headers | 4 | 73 | 79 | 79 | 92,352 | 96 | 0 |
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from equipoise.serve.tokens import add_token

CONFIG = 'version = 1\nname = "arms"\n[[learner]]\nuse = "UCB"\narms = 3\n'
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
STATIC = b"GET /static/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Half: "
# What a client sends first, and then again and again.
ATTACKS = {
    "requests": (b"", HEALTH * 1_000),
    "static files": (b"", STATIC * 1_000),
    "headers behind an unread answer": (STATIC * 60 + HALF, b"a" * 60_000),
    "headers behind a stream": (
        b"GET /v1/portfolios/arms/events HTTP/1.1\r\nHost: localhost\r\n%b\r\n" + HALF,
        b"a: b\r\n" * 10_000,
    ),
    "chunk extensions": (
        b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"a" * 60_000,
    ),
    "slow headers": (HALF, b""),
}
MANY = 1_100  # slow connections
MEGABYTE = 1e6
MAX_GROWTH = 120.0  # megabytes; without limits it is gigabytes


class Result(NamedTuple):
    attack: str
    sent: float  # megabytes
    start: float
    peak: float
    after: float
    ended: int
    others_served: int
    others_refused: int


def resident(pid: int) -> float:
    """Megabytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / MEGABYTE


def is_served(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextlib.contextmanager
def server(port: int) -> Iterator[tuple[int, str]]:
    """A service with tokens: the id of its process, and a secret."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "arms.toml").write_text(CONFIG)
        secret = add_token(folder / "tokens.json", "reader", ["read"])
        command = ["serve", str(folder / "arms.toml"), "--data", str(folder), "--port", str(port)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "equipoise", *command], stderr=log)
        try:
            while not is_served(port):
                if process.poll() is not None:
                    raise RuntimeError((folder / "log").read_text())
                time.sleep(0.1)
            yield process.pid, secret
        finally:
            process.terminate()
            process.wait()


class Client:
    """A connection that sends and reads no answer; opened again when the server has ended it."""

    def __init__(self, port: int, first: bytes, piece: bytes) -> None:
        self._port, self._first, self._piece = port, first, piece
        self.sent, self.ended = 0, 0
        self.open()

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self._port))
        self.socket.setblocking(False)
        self._rest = self._first or self._piece

    def send(self) -> bool:
        """Send what the server takes; False if it has ended the connection."""
        try:
            if self._rest:
                n_sent = self.socket.send(self._rest)
                self.sent += n_sent
                self._rest = self._rest[n_sent:] or self._piece
            elif not self.socket.recv(1):  # it has nothing more to send
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self.ended += 1
            return False
        return True


def run(attack: str, port: int, seconds: float, n_connections: int) -> Result:
    first, piece = ATTACKS[attack]
    with server(port) as (pid, secret):
        for _ in range(100):
            is_served(port)
        start = peak = resident(pid)
        if "stream" in attack:
            first %= b"Authorization: Bearer %b\r\n" % secret.encode()
        n_connections = MANY if attack == "slow headers" else n_connections
        selector = selectors.DefaultSelector()
        clients = [Client(port, first, piece) for _ in range(n_connections)]
        for client in clients:
            selector.register(client.socket, selectors.EVENT_WRITE, client)
        served, next_look, end = [0, 0], 0.0, time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            for key, _ in selector.select(0.1):
                client = key.data
                if not client.send():
                    selector.unregister(client.socket)
                    client.socket.close()
                    client.open()
                    selector.register(client.socket, selectors.EVENT_WRITE, client)
            if not piece:
                time.sleep(0.1)
            if now > next_look:
                next_look = now + 0.5
                peak = max(peak, resident(pid))
                served[not is_served(port)] += 1
        peak = max(peak, resident(pid))
        for client in clients:
            client.socket.close()
        time.sleep(10.0)
        sent, ended = sum(client.sent for client in clients), sum(client.ended for client in clients)
        return Result(attack, sent / MEGABYTE, start, peak, resident(pid), ended, *served)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--attack", action="append", choices=tuple(ATTACKS))
    parser.add_argument("--port", type=int, default=8766)
    options = parser.parse_args()
    failed = False
    heads = f"{'sent MB':>9}{'start':>8}{'peak':>8}{'after':>8}{'ended':>8}{'others served':>15}{'refused':>9}"
    print(f"{'attack':<34}{heads}")
    for attack in options.attack or ATTACKS:
        row = run(attack, options.port, options.seconds, options.connections)
        sizes = f"{row.sent:>9.0f}{row.start:>8.0f}{row.peak:>8.0f}{row.after:>8.0f}"
        print(f"{attack:<34}{sizes}{row.ended:>8}{row.others_served:>15}{row.others_refused:>9}", flush=True)
        failed |= row.peak > row.start + MAX_GROWTH or row.others_refused > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
