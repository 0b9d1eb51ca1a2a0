"""The machine, its load and the versions that measurements depend on; and one thread per process."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from equipoise import __version__
from tools.bench.samples import Machine

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


def has_one_thread() -> bool:
    """Whether matrix libraries were told to use one thread before they were loaded."""
    return all(os.environ.get(name) == value for name, value in ONE_THREAD.items())


def start_over_with_one_thread(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by one that runs the benchmarks: threads are fixed once NumPy is loaded."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "tools.bench", *arguments]
    os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})


def facts() -> Machine:
    """Taken before anything is measured, so that the load is that of others."""
    versions = {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"equipoise": __version__, "python": platform.python_version(), **versions},
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
