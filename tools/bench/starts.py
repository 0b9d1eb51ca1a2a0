"""What starting costs: importing the package, and the first results of a fresh process, compilation included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from time import perf_counter

from tools.bench.samples import Figure, figure
from tools.bench.scale import Scale

GROUP = "Starting"
IMPORT = "from time import perf_counter as now; start = now(); import equipoise; print(now() - start)"
FIRST_RESULTS = """
from equipoise.lab.experiments.nested import NESTED
from equipoise.lab.runs.runner import complete_settings
from equipoise.lab.runs.runner import simulate_seed
simulate_seed(NESTED, complete_settings(NESTED, rounds=100, seeds=1), 0, lambda what, rounds: None)
"""


def start_figures(scale: Scale) -> Iterator[Figure]:
    imports = [float(_python(IMPORT, os.environ)) for _ in range(scale.repeats)]
    yield figure(GROUP, "import equipoise", "s", imports)
    first: list[float] = []
    second: list[float] = []
    for _ in range(scale.repeats):
        # The first start begins with an empty cache.
        with tempfile.TemporaryDirectory() as cache:
            for seconds in (first, second):
                start = perf_counter()
                _python(FIRST_RESULTS, {**os.environ, "EQUIPOISE_CACHE": cache})
                seconds.append(perf_counter() - start)
    yield figure(GROUP, "nested, 100 rounds, in a new process: first start", "s", first)
    yield figure(GROUP, "nested, 100 rounds, in a new process: second start", "s", second)


def _python(program: str, environment: Mapping[str, str]) -> str:
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return run.stdout
