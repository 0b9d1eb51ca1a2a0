"""Service, shop and load generator together: `make serve`, or

    python examples/shop [--seconds 1800] [--rate 25] [--data FOLDER] [--port 8000]

Everything ends after that many seconds, or with Ctrl-C. Without --data, nothing is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

FOLDER = Path(__file__).resolve().parent
ENTRY_POINT = "[equipoise.learners]\nRecommender = recommender:Recommender\n"
START_SECONDS = 60


def free_port(wanted: int) -> int:
    """The wanted port, or another one if it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no port is free")


def make_environment(data: Path) -> dict[str, str]:
    """The environment of the processes, in which the shop's learner is registered, as `pip install` would do it."""
    about = data / "packages" / "shop-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINT)
    path = os.pathsep.join(filter(None, (str(about.parent), str(FOLDER), os.environ.get("PYTHONPATH"))))
    outage = data / "model-server-is-down"
    outage.unlink(missing_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": path,
        "SHOP_MODEL_SERVER_DOWN": str(outage),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(10 * START_SECONDS):
        if process.poll() is not None:
            raise SystemExit(f"a process ended at once; {log} says:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), urlopen(address, timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit(f"{address} gave no answer")


def run(data: Path, options: argparse.Namespace) -> None:
    """Start everything, wait, and end everything."""
    data.mkdir(parents=True, exist_ok=True)
    environment, log = make_environment(data), data / "log.txt"
    port, shop_port = free_port(options.port), free_port(options.port + 1)
    service, shop = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{shop_port}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(output: int | None, *command: str) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches this process only, which then ends the others in order.
        process = subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=output, stderr=output, start_new_session=True
        )
        processes.append(process)
        return process

    with log.open("ab") as file:
        try:
            portfolios = str(FOLDER / "portfolios")
            served = ("-m", "equipoise", "serve", portfolios, "--data", str(data / "journals"), "--port", str(port))
            wait_for(f"{service}/readyz", start(file.fileno(), *served), log)
            opened = (str(FOLDER / "shop.py"), "--service", service, "--port", str(shop_port))
            wait_for(f"{shop}/", start(file.fileno(), *opened), log)
            print(f"Dashboard  {service}/\nShop       {shop}/\n", flush=True)
            print(EXPLANATION.format(minutes=round(options.seconds / 60)), flush=True)
            limits = ("--shop", shop, "--seconds", str(options.seconds), "--rate", str(options.rate))
            start(None, str(FOLDER / "visitors.py"), *limits).wait()
        finally:
            for process in reversed(processes):
                stop(process)
    print("Everything has ended.", flush=True)


EXPLANATION = """Visitors come until Ctrl-C, for {minutes} minutes at most. What to watch on the dashboard:
  offers    after 1 minute the model server of the learner "recommender" fails for 2 minutes: others play instead
  offers    after 4 minutes the taste of visitors changes once: what earned most may not do so any more
  banner    within 3 minutes banners that sell too little are eliminated, with a proof
"""


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Service, shop and load generator together.")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--rate", type=float, default=25.0, help="visitors per second")
    parser.add_argument("--data", type=Path, help="folder of the journals; by default nothing is kept")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if options.data is not None:
            run(options.data, options)
            return
        with tempfile.TemporaryDirectory(prefix="equipoise-shop-") as folder:
            run(Path(folder), options)
    except KeyboardInterrupt:
        print("\nEverything has ended.", flush=True)


if __name__ == "__main__":
    main()
