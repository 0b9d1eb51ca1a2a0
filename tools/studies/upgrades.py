"""Whether an upgrade changes a decision, and whether there is a way back: `python -m tools.studies.upgrades OTHER`.

OTHER is a checkout of an older release, which this Python can run. Its service decides rounds under ids of the clients,
rewards most, withdraws some and leaves some open; then it is stopped by SIGTERM or killed. This release serves the same
files and data, is asked for all decisions again, and decides more. In a rollback the older release does the same once
more. Each start must succeed, each repeated request must get the same answer, and `equipoise rebuild` must find that
nothing differs from a start. The table has a row for each way to stop, each way, and each selector.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
LEARNER = '[[learner]]\nuse = "OFUL"\nfeatures = {{ use = "Prefix", dim = {} }}\n'
REWARD = "[reward]\nrange = [0, 1]\ndeadline = 200\ndefault = 0.0\n"
CONFIG = 'version = 1\nname = "shop"\n' + REWARD + "".join(map(LEARNER.format, (2, 4, 8)))
SELECTORS = {"default": "", "named": '[selector]\nuse = "CounterfactualBalancing"\n'}
STOPS = {"SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL}
HEADERS = {"Content-Type": "application/json"}


class Row(NamedTuple):
    """The outcome of a case: an error if a release did not start, else how many decisions were asked for again."""

    stop: str
    way: str
    selector: str
    repeated: int = 0
    changed: int = 0
    rebuilt: bool = False
    error: str = ""

    @property
    def holds(self) -> bool:
        return not self.error and self.changed == 0 and self.rebuilt

    def __str__(self) -> str:
        result = (
            self.error or f"{self.changed} of {self.repeated} changed, rebuild {'equal' if self.rebuilt else 'differs'}"
        )
        return f"| {self.stop} | {self.way} | {self.selector} | {result} |"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def command(checkout: Path, *arguments: str) -> tuple[list[str], dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"}
    return [sys.executable, "-m", "equipoise", *arguments], {"cwd": checkout, "env": environment}


@contextmanager
def served(checkout: Path, folder: Path, stop: int) -> Iterator[HTTPConnection]:
    """Serve by the code of a checkout; at the end, stop it by a signal."""
    port, log = free_port(), folder / "log"
    paths = str(folder / "shop.toml"), "--data", str(folder / "data")
    line, options = command(checkout, "serve", *paths, "--port", str(port))
    with log.open("w") as file:
        process = subprocess.Popen(line, stderr=file, **options)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            if process.poll() is not None:
                lines = [line for line in log.read_text().splitlines() if line.startswith("equipoise: ")]
                raise RuntimeError(f"did not start: {lines[-1] if lines else log.read_text()[-300:]}")
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", "/readyz")
                if connection.getresponse().read():
                    break
            except OSError:
                connection.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield connection
        connection.close()
        process.send_signal(stop)
        process.wait(30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ask(connection: HTTPConnection, path: str, body: Any) -> Any:
    connection.request("POST", f"/v1/portfolios/shop/{path}", json.dumps(body), HEADERS)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}: {content.get('detail')}")
    return content


def context(number: int) -> list[list[float]]:
    return [[((number * 7 + 3 * row + column) % 11 - 5) / 20 for column in range(8)] for row in range(3)]


def play(connection: HTTPConnection, prefix: str, rounds: int) -> dict[str, Any]:
    """Decide rounds and close most; return the decisions by their ids."""
    made = {}
    for number in range(rounds):
        id_ = f"{prefix}{number}"
        decision = made[id_] = ask(connection, "decide", {"id": id_, "context": context(number)})
        if number % 17 == 5:
            ask(connection, "withdraw", {"id": id_})
        elif number % 13 != 4:
            ask(connection, "rewards", {"id": id_, "reward": float((number + decision["action"]) % 3) / 2})
    return made


def repeat(connection: HTTPConnection, made: dict[str, Any]) -> int:
    """Ask for all decisions again; return how many answers are not as before."""
    numbers = {id_: int(id_[1:]) for id_ in made}
    again = {id_: ask(connection, "decide", {"id": id_, "context": context(k)}) for id_, k in numbers.items()}
    return sum(again[id_] != made[id_] for id_ in made)


def run_case(releases: Sequence[Path], folder: Path, stop: str, selector: str, rounds: int) -> Row:
    """Serve the same files by one release after the other."""
    way = "upgrade" if len(releases) == 2 else "upgrade, rollback"
    (folder / "shop.toml").write_text(CONFIG + SELECTORS[selector])
    made: dict[str, Any] = {}
    row = Row(stop, way, selector, rebuilt=True)
    for number, checkout in enumerate(releases):
        try:
            with served(checkout, folder, STOPS[stop]) as connection:
                row = row._replace(repeated=row.repeated + len(made), changed=row.changed + repeat(connection, made))
                made |= play(connection, "abc"[number], rounds)
        except RuntimeError as error:
            return row._replace(error=f"release {number + 1}: {error}"[:300])
        line, options = command(checkout, "rebuild", str(folder / "data" / "shop.db"))
        rebuilt = subprocess.run(line, capture_output=True, **options).returncode == 0
        row = row._replace(rebuilt=row.rebuilt and rebuilt)
    return row


def run(older: Path, newer: Path, rounds: int, selectors: Sequence[str] = tuple(SELECTORS)) -> Iterator[Row]:
    for stop, releases, selector in product(STOPS, ([older, newer], [older, newer, older]), selectors):
        with tempfile.TemporaryDirectory() as folder:
            yield run_case(releases, Path(folder), stop, selector, rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="checkout of the older release")
    parser.add_argument("--rounds", type=int, default=200, help="that each release decides")
    given = parser.parse_args(arguments)
    print("| stopped by | way | selector | outcome |\n|---|---|---|---|")
    rows = []
    for row in run(given.other.resolve(), ROOT, given.rounds):
        rows.append(row)
        print(row, flush=True)
    return int(not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main())
