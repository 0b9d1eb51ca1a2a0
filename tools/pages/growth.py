"""How regret grows with the number of rounds, measured on learners whose own regret is known exactly.

Algorithm 1 does not depend on T, so one run gives the regret at every T. The exponent p in Reg(2T) - Reg(T) = b T^p is
fitted by least squares on logarithms: differences exclude the regret before misspecified learners were eliminated,
which does not grow. For comparison, the same fit is made to the rate in the paper's table, which is not a pure power
where it has a logarithm or two terms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from math import e, log, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.errors import UnreadableFile
from equipoise.lab.audit.pools import BOUND_DELTA, FAMILIES, SLOPE, make_pool
from equipoise.lab.report import drawing
from equipoise.simulation.tapes import Tapes, run_on_tapes
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.types import Array, Config, Integers

VERSION = 1
MIN_POWER, MAX_POWER, SEEDS = 13, 19, 8  # T = 2^13 .. 2^19
QUANTILE = 2.776  # of Student's t with 4 degrees of freedom, for 95 %: six differences, two parameters

RATES: dict[str, Callable[[float], float]] = {
    "n^(1/3)": lambda t: t ** (1 / 3),
    "n^(1/2)": sqrt,
    "n^(2/3)": lambda t: t ** (2 / 3),
    "sqrt(n ln n)": lambda t: sqrt(t * log(max(t / BOUND_DELTA, e))),
    "eps n + sqrt(n)": lambda t: SLOPE * t + sqrt(t),
}


class Growth(NamedTuple):
    """One row: mean regret at each T, fitted exponent with its interval, and that of the paper's rate."""

    family: str
    gap: bool
    regrets: list[float]
    exponent: float
    low: float
    high: float
    rate: float

    @property
    def agrees(self) -> bool:
        return self.low <= self.rate <= self.high


def rate_of(family: str, gap: bool) -> Callable[[float], float]:
    """The rate in T of the paper's row: without a gap sqrt(T) is added, which matters for n^(1/3) alone."""
    if family == "n^(1/3)" and not gap:
        return sqrt
    return RATES[family]


def measure(min_power: int = MIN_POWER, max_power: int = MAX_POWER, seeds: int = SEEDS) -> list[Growth]:
    """Every row of the paper's two tables."""
    marks = 2 ** np.arange(min_power, max_power + 1)
    found = []
    for gap in (False, True):
        for family, about in FAMILIES.items():
            if gap and about.kind == "linear-sqrt":
                continue  # the paper's table has no such row
            runs = [_regrets(family, gap, marks, seed) for seed in range(seeds)]
            means = np.mean(runs, axis=0)
            exponent, error = fitted_exponent(marks, means)
            rate, _ = fitted_exponent(marks, np.array([rate_of(family, gap)(float(t)) for t in marks]))
            reach = QUANTILE * error
            found.append(Growth(family, gap, means.tolist(), exponent, exponent - reach, exponent + reach, rate))
    return found


def _regrets(family: str, gap: bool, marks: Integers, seed: int) -> Array:
    pool = make_pool(family, gap=gap)
    return run_on_tapes(Tapes(pool.problem, pool.learners, marks, seed), pool.selector)[0].regret


def fitted_exponent(marks: Array | Integers, regrets: Array) -> tuple[float, float]:
    """Slope of ln(Reg(2T) - Reg(T)) over ln T, and its standard error."""
    x, y = np.log(marks[:-1]), np.log(np.diff(regrets))
    centered = x - x.mean()
    slope = float(centered @ y / (centered @ centered))
    rest = y - y.mean() - slope * centered
    return slope, sqrt(float(rest @ rest) / (len(x) - 2) / float(centered @ centered))


def rounds_of(row: Growth, min_power: int = MIN_POWER) -> list[int]:
    return [2 ** (min_power + k) for k in range(len(row.regrets))]


def save(rows: Sequence[Growth], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"version": VERSION, "least": MIN_POWER, "seeds": SEEDS, "rows": [row._asdict() for row in rows]}
    write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())


def load(path: Path) -> list[Growth]:
    data: Config = json.loads(read_bytes(path))
    if data.get("version") != VERSION:
        raise UnreadableFile(f"{path} has version {data.get('version')!r}, but must have version {VERSION}")
    return [Growth(**row) for row in data["rows"]]


def table(rows: Sequence[Growth]) -> Iterator[str]:
    """The table for the documentation."""
    yield "| bounds | gap | measured exponent, 95 % interval | exponent of the paper's rate | rate in the interval |"
    yield "|---|---|---|---|---|"
    for row in rows:
        measured = f"{row.exponent:.3f} [{row.low:.3f}, {row.high:.3f}]"
        agrees = "yes" if row.agrees else ("no, slower" if row.high < row.rate else "no, faster")
        yield f"| {row.family} | {'yes' if row.gap else 'no'} | {measured} | {row.rate:.3f} | {agrees} |"


def picture(rows: Sequence[Growth]) -> bytes:
    """Regret over T on logarithmic axes, without and with a gap; dashed: the paper's rate through the last point."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    colors = drawing.learner_colors(len(FAMILIES))
    for panel, gap, title in zip(
        axes,
        (False, True),
        ("Misspecified learner without a gap", "Misspecified learner loses 0.8 per play"),
        strict=True,
    ):
        for row in rows:
            if row.gap != gap:
                continue
            color, marks = colors[list(FAMILIES).index(row.family)], rounds_of(row)
            panel.plot(marks, row.regrets, "o-", ms=3.5, color=color, label=f"{row.family}: {row.exponent:.2f}")
            rate = [rate_of(row.family, gap)(float(t)) for t in marks]
            scale = (row.regrets[-1] - row.regrets[-2]) / (rate[-1] - rate[-2])
            rest = row.regrets[-1] - scale * rate[-1]
            panel.plot(marks, [rest + scale * value for value in rate], "--", lw=0.9, color=color)
        panel.set(xscale="log", yscale="log", title=title, xlabel="Rounds")
        panel.legend(
            loc="upper left",
            frameon=False,
            fontsize=8,
            title="Bounds: fitted exponent (dashed: the paper's rate)",
            title_fontsize=8,
        )
        drawing.readable_ticks(panel.xaxis, panel.yaxis)
        drawing.frame(panel, labels=None)
    axes[0].set_ylim(top=10 * axes[0].get_ylim()[1])  # room for the key
    axes[0].set_ylabel("Regret: reward lost against\nalways acting best (log scale)")
    return drawing.image(figure)
