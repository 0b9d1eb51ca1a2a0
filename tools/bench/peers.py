"""Other libraries, each timed in a separate process and environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.bench.linucb import contender_row, shape_result
from tools.bench.peer_process import Report
from tools.bench.samples import Line
from tools.bench.scale import Shape

ROOT = Path(__file__).resolve().parents[2]
MAX_ERROR_LENGTH = 200  # characters


def adapters(folder: Path) -> list[Path]:
    return sorted(folder.glob("[!_]*.py"))


def measure_peer(python: Path, adapter: Path, files: Mapping[Shape, Sequence[Path]], timeout: float) -> Line:
    """The line of one library; it has an error instead of results if there are none."""
    report = _report(python, adapter, [path for several in files.values() for path in several], timeout)
    row = contender_row(adapter.stem, report["runs"], version=report["version"], error=_shortened(report["error"]))
    if not row["error"]:
        timings = iter(report["timings"])
        for shape, several in files.items():
            seconds, regrets = zip(*(next(timings) for _ in several), strict=True)
            row["results"].append(shape_result(shape, [each / shape.rounds * 1e6 for each in seconds], regrets))
    return row


def _report(python: Path, adapter: Path, paths: Sequence[Path], timeout: float) -> Report:
    """What `peer_process` wrote, or an error in the same form."""

    def failed(error: str) -> Report:
        return {"version": "", "runs": "", "error": error, "timings": []}

    if not python.exists():
        return failed("there is no environment with other libraries; `make bench` makes one")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [str(python), "-m", "tools.bench.peer_process", *map(str, (adapter, out, *paths))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        try:
            run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, cwd=folder)
        except subprocess.TimeoutExpired:
            return failed(f"took more than {timeout:g} seconds")
        if not out.exists():
            last_words = (run.stderr.strip().splitlines() or ["without a word"])[-1]
            return failed(f"ended with code {run.returncode}: {last_words}")
        report: Report = json.loads(out.read_text(encoding="utf-8"))
        return report


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_ERROR_LENGTH else f"{words[:MAX_ERROR_LENGTH]}..."
