"""Times one library on given rounds; runs in the environment of the libraries, in a process of its own.

    python -m tools.bench.peer_process ADAPTER OUT ROUNDS...

An adapter is a file named after its distribution (up to the first dot), with a text `RUNS` that says what is run and a
class `Peer(dim, n_actions, width, ridge, seed)` that is a `Contender`. What came out is written to OUT as JSON.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import TypedDict

from tools.bench.contest import RIDGE, WIDTH, average_regret, load, load_module, play


class Report(TypedDict):
    """What came out."""

    version: str
    runs: str
    error: str
    timings: list[tuple[float, float]]  # seconds and regret


def measure(adapter: Path, files: list[Path]) -> Report:
    """Version, what was run, and seconds and regret for each file of rounds; or why there are none."""
    report: Report = {"version": "", "runs": "", "error": "", "timings": []}
    distribution = adapter.stem.split(".")[0]
    try:
        report["version"] = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        report["error"] = why_missing(distribution)
        return report
    try:
        module = load_module(adapter)
        report["runs"] = module.RUNS
        for seed, file in enumerate(files):
            rounds = load(file)
            _, n_actions, dim = rounds.table.shape
            seconds, actions = play(rounds, module.Peer(dim, n_actions, WIDTH, RIDGE, seed))
            report["timings"].append((seconds, average_regret(rounds, actions)))
    except Exception as error:  # a failing library must not stop the others
        report["error"] = f"{type(error).__name__}: {error}"
    return report


def why_missing(name: str) -> str:
    """What the installation noted, if it failed."""
    notes = Path(sys.prefix) / "failures.json"
    failures = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else {}
    return f"could not be installed: {failures[name]}" if name in failures else "not installed"


def main() -> None:
    adapter, out, *files = map(Path, sys.argv[1:])
    out.write_text(json.dumps(measure(adapter, files)), encoding="utf-8")


if __name__ == "__main__":
    main()
