"""What running a sweep on a cluster costs: `python -m tools.studies.clusters [--rounds 100000] [--seeds 8]`.

The same experiment runs on two local processes, on two workers of Dask, and on Ray: as the address `ray` starts it, on
all cores of this machine (two, for a fair comparison), and by the address of one with two CPUs. Printed are the seconds
to start the cluster, those of a first run, in which its workers import and compile, and of a second; the second over
that of the local processes, which start anew for every run; and whether `curves.parquet` has the same bytes. Clusters
that are not installed are skipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from equipoise.lab.clusters import open_executor
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.runs.results import CURVES
from equipoise.lab.runs.runner import run as run_experiment
from tools.main import run_command

ROOT = Path(__file__).resolve().parents[2]
N_WORKERS = 2
NICENESS = {"RAY_worker_niceness": "0"}  # else workers of Ray give way to everything else, unlike local processes


@contextmanager
def dask_cluster() -> Iterator[Executor | None]:
    from distributed import LocalCluster

    silent = {"dashboard_address": None, "silence_logs": 50}
    with LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, processes=True, **silent) as cluster:
        address = str(cluster.scheduler_address).replace("tcp://", "dask://")
        with open_executor(address) as executor:
            yield executor


@contextmanager
def ray_cluster() -> Iterator[Executor | None]:
    """A cluster that this process starts, with one worker for each core."""
    settings = {**NICENESS, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    with patch.dict(os.environ, settings), open_executor("ray") as executor:
        yield executor


@contextmanager
def ray_client() -> Iterator[Executor | None]:
    """A cluster that this process does not belong to, by its address."""
    ports = [free_port() for _ in range(2)]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--num-cpus={N_WORKERS}"]
    options = [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", "--include-dashboard=false"]
    settings = {**os.environ, **NICENESS, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        command += [*options, "--disable-usage-stats", f"--temp-dir={folder}", "--object-store-memory=100000000"]
        nowhere = subprocess.DEVNULL
        with subprocess.Popen(command, env=settings, stdout=nowhere, stderr=nowhere, start_new_session=True) as head:
            try:
                wait_for_port(ports[1])
                with open_executor(f"ray://127.0.0.1:{ports[1]}") as executor:
                    yield executor
            finally:
                os.killpg(head.pid, signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing answers at port {port}")


Cluster = Callable[[], AbstractContextManager[Executor | None]]
CLUSTERS: dict[str, tuple[str, Cluster]] = {  # what it is called: the package it needs, and how it is started
    "distributed": ("distributed", dask_cluster),
    "ray": ("ray", ray_cluster),
    "ray client": ("ray", ray_client),
}


def run(rounds: int = 100_000, seeds: int = 8, experiment: str = "nested") -> None:
    """Print one line for the local processes and one for each cluster."""
    expected, local = measure("local", nullcontext, rounds, seeds, experiment)
    for name, (package, cluster) in CLUSTERS.items():
        if find_spec(package) is None:
            print(f"{name:<12} {package} is not installed")
            continue
        found, seconds = measure(name, cluster, rounds, seeds, experiment)
        print(f"{'':<12} {seconds / local:.2f} of the local time; same bytes: {found == expected}", flush=True)


def measure(name: str, cluster: Cluster, rounds: int, seeds: int, experiment: str) -> tuple[bytes, float]:
    """The curves, and the seconds of the second run."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, cluster() as executor:
        times = [time.perf_counter() - start]
        for k in range(2):
            where = {"jobs": N_WORKERS} if executor is None else {"executor": executor}
            start = time.perf_counter()
            run_experiment(EXPERIMENTS[experiment], out=Path(folder, str(k)), rounds=rounds, seeds=seeds, **where)
            times.append(time.perf_counter() - start)
        curves = Path(folder, "1", CURVES).read_bytes()
    print(f"{name:<12} start {times[0]:.1f} s, first run {times[1]:.1f} s, second {times[2]:.1f} s", flush=True)
    return curves, times[2]


if __name__ == "__main__":
    run_command(run)
