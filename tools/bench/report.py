"""The measurements as text, the same in the terminal and in the document, and their files."""

from __future__ import annotations

import json
import textwrap
from itertools import groupby
from pathlib import Path

from equipoise.lab.report.kit import Table
from equipoise.storage.files import write_atomic
from tools.bench.contest import RIDGE, WIDTH
from tools.bench.feature_maps import interval
from tools.bench.linucb import ENGINE, N_SETS, NOISE
from tools.bench.picture import draw
from tools.bench.samples import Benchmark, Figure, Line

INTRODUCTION = (
    "Written by `make bench` (`python -m tools.bench`): do not edit. All figures come from one run on one machine, one "
    "thread each, and are medians; ratios within the run are worth more than the figures themselves."
)
CONTEST = (
    "Every contender plays the same rounds ({rounds}) of the same problems, a seed per repeat: one of {n_sets} stored "
    "action sets a round, expected rewards linear in the features, Gaussian noise of {noise}. Action k of a set is a "
    "fixed linear image of the set's context, so that libraries with one model for all actions and libraries with a "
    "model per action both see a linear problem; the latter have K times as many parameters to learn, and more regret. "
    "Confidence width {width} and ridge {ridge:g} for all, so that equal decisions have equal regret. Features are "
    "handed over in the form each library wants, converted before the clock starts. This package and the plain loops "
    "take turns; the libraries follow, each in a process of its own. Regret is the average of a round."
)


SELECTION_TITLE = "Selecting among three feature maps while playing"
SELECTION = (
    "Everyone plays the same {rounds:,} rounds, a seed per repeat. A round has a context of two parts a and b and "
    "{n_actions} actions; expected rewards are linear in a with weights of each action's own, b is noise, and rewards "
    "lie in [0, 1]. Three feature maps are on offer: the action alone, which is too small, with a, which is right, and "
    "with a and b, which has more to learn. Who runs LinUCB runs it with width {width} and ridge {ridge:g}. Regret is "
    "the average of a round, ± half a 95 % interval over seeds."
)


def write(data: Benchmark, folder: Path) -> list[Path]:
    """Document, figures and picture; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "benchmarks.md": document(data).encode(),
        "benchmarks.json": (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
        "benchmarks.png": draw(data),
    }
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return [folder / name for name in contents]


def contest_table(data: Benchmark) -> Table:
    """Per contender and shape: microseconds per round, how many times the simulator's, average regret."""
    measured = [row for row in data["contest"] if row["results"]]
    engine = next(row for row in measured if row["name"] == ENGINE)["results"]
    header = [""]
    for result in engine:
        header += [f"d={result['dim']}, K={result['n_actions']}: µs", "× simulator", "regret"]
    rows = []
    for row in measured:
        cells = [row["name"]]
        for result, reference in zip(row["results"], engine, strict=True):
            micros = result["micros"]["median"]
            cells += [number(micros), number(micros / reference["micros"]["median"]), f"{result['regret']:.4f}"]
        rows.append(cells)
    return Table(header, rows)


def selection_table(data: Benchmark) -> Table:
    """Per contender: microseconds per round, average regret with its interval, what was run."""
    rows = []
    for row in data["selection"]:
        for result in row["results"]:
            regret, half = interval(result["regrets"])
            name = f"{row['name']}{' ' * bool(row['version'])}{row['version']}"
            rows.append([name, number(result["micros"]["median"]), f"{regret:.4f} ± {half:.4f}", row["runs"]])
    return Table(("", "µs", "regret of a round", "what was run"), rows)


def left_out(data: Benchmark) -> list[str]:
    """Contenders that could not be measured, with the reason."""
    return [f"{row['name']}: {row['error']}" for row in (*data["contest"], *data["selection"]) if row["error"]]


def figure_tables(data: Benchmark) -> dict[str, Table]:
    """The other figures, a table per group."""
    return {
        group: Table(("", "median", "range", ""), list(map(_figure_cells, rows)))
        for group, rows in groupby(data["figures"], key=lambda row: row["group"])
    }


def _figure_cells(row: Figure) -> list[str]:
    return [row["name"], number(row["median"]), f"{number(row['least'])} – {number(row['greatest'])}", row["unit"]]


def number(value: float) -> str:
    """Three significant digits, without trailing zeros.

    >>> number(0.15249), number(21.35), number(3025.4), number(1234567.0)
    ('0.152', '21.4', '3,025', '1,230,000')
    """
    rounded = float(f"{value:.3g}")
    if abs(value) >= 100:
        return f"{rounded if abs(value) >= 10_000 else value:,.0f}"
    return f"{rounded:.3g}"


def machine_line(data: Benchmark) -> str:
    facts = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    load = "unknown" if facts["load"] is None else " / ".join(map(str, facts["load"]))
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}; {versions}; {facts['date']}, "
        f"load average before the start {load} (1, 5, 15 minutes)"
    )


def document(data: Benchmark) -> str:
    """All of it as Markdown."""
    shapes = next(row for row in data["contest"] if row["name"] == ENGINE)["results"]
    rounds = ", ".join(f"{result['rounds']:,}" for result in shapes)
    settings = {"rounds": rounds, "n_sets": N_SETS, "noise": NOISE, "width": WIDTH, "ridge": RIDGE}
    measured = [row for row in data["contest"] if row["results"]]
    parts = ["# Benchmarks", paragraph(INTRODUCTION)]
    parts.append(paragraph(f"{machine_line(data)}. The {data['scale']} benchmark took {data['seconds']:,} seconds."))
    if data["scale"] != "full":
        parts.append("**This was a quick run: it shows that the benchmark works, its times mean nothing.**")
    parts += ["## One round of LinUCB: decide and learn", paragraph(CONTEST.format(**settings))]
    parts += [contest_table(data).markdown, "![Microseconds per round, logarithmic scale](benchmarks.png)"]
    parts += ["What was run:", "\n".join(map(_item, measured))]
    if left_out(data):
        parts += ["Left out:", "\n".join(f"- {line}" for line in left_out(data))]
    selection = {**data["selection"][0]["results"][0], "width": WIDTH, "ridge": RIDGE}
    parts += [f"## {SELECTION_TITLE}", paragraph(SELECTION.format(**selection)), selection_table(data).markdown]
    for group, table in figure_tables(data).items():
        parts += [f"## {group}", table.markdown]
    return "\n\n".join(parts) + "\n"


def _item(row: Line) -> str:
    return f"- **{row['name']}**{' ' * bool(row['version'])}{row['version']}: {row['runs']}"


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
