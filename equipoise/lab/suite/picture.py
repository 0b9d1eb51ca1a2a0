"""The suite as a picture: regret of selectors over that of the best learner, by instance, in colors on a logarithmic
scale.

Rows are in the order of the leaderboard. The columns of its instances are grouped by half, with the geometric mean in
front, all others by their group. Selectors with a proved regret bound are marked; a blank cell is an instance that the
selector is not compatible with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise.lab.report.drawing import GRAY, INK, blank_figure
from equipoise.lab.suite.contenders import CONTENDERS, REFERENCES
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.suite import Outcome
from equipoise.lab.suite.tables import TITLES, Grid, places, ratio_grid
from equipoise.types import Config

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL_WIDTH, CELL_HEIGHT = 0.62, 0.29  # inches
LEFT, RIGHT, HEAD, FOOT, BETWEEN = 2.05, 0.75, 1.7, 0.75, 0.3
MIN_WIDTH = 9.5  # inches, so that no title is cut
CHARACTERS = 15  # of the caption, in an inch
GAP = 0.35  # cells between the mean and the instances, and between halves
MIN_RATIO, MAX_RATIO = 0.1, 100.0  # of the darkest colors


class Panel(NamedTuple):
    """Selectors by instances, with the columns in groups."""

    title: str
    grid: Grid
    means: Mapping[str, float]  # geometric means of selectors, shown in front; empty for none
    parts: list[str]  # of each column; columns with the same words are next to each other

    @property
    def lefts(self) -> list[float]:
        """The left end of each column, in cells, behind the column of means."""
        left, lefts = 1.0 + GAP if self.means else 0.0, []
        for k, part in enumerate(self.parts):
            left += GAP if k and part != self.parts[k - 1] else 0.0
            lefts.append(left)
            left += 1.0
        return lefts

    @property
    def n_cells(self) -> float:
        return self.lefts[-1] + 1.0

    @property
    def height(self) -> float:
        return CELL_HEIGHT * len(self.grid.labels)


def _panels(outcome: Outcome) -> Iterator[Panel]:
    notes = {"tuning": "tuning half", "report": "report half"}
    for table in outcome.scores:
        grid = ratio_grid(outcome, table)
        means = {place.label: place.ratio.value for place in places(outcome, table)}
        yield Panel(TITLES[table], grid, means, [notes[INSTANCES[name].half] for name in grid.names])
    for table in outcome.scores:
        grid = ratio_grid(outcome, table, ranked=False)
        if grid.names:
            title = f"Beyond the leaderboard. {TITLES[table]}"
            yield Panel(title, grid, {}, [INSTANCES[name].group for name in grid.names])


def suite_figure(outcome: Outcome) -> Figure:
    """The leaderboard's instances without and with shared data, then the other instances."""
    panels = list(_panels(outcome))
    width = max(MIN_WIDTH, LEFT + RIGHT + CELL_WIDTH * max(panel.n_cells for panel in panels))
    height = FOOT + sum(HEAD + panel.height for panel in panels) + BETWEEN * (len(panels) - 1)
    (figure, place), top = blank_figure(width, height), 0.0
    for panel in panels:
        top += HEAD
        _draw(place("", LEFT, top, CELL_WIDTH * panel.n_cells, panel.height), panel)
        top += panel.height + BETWEEN
    caption = (
        "Mean regret of the selector, divided by that of the best learner alone, over "
        f"{outcome.n_seeds} seeds of simulated problems; {_lengths(outcome)}. "
        "Lower is better: white is 1, blue cells are below, darker red cells are higher. The "
        "oracle knows the best learner; best-greedy is the best of the learners when they play without exploring. "
        "◆ a regret bound is proved. Blank where a selector is not compatible with an instance; its mean is then in "
        "parentheses, and its rank is by the instances it shares with the leader."
    )
    lines = fill(caption, int(CHARACTERS * width))
    figure.text(0.012, 0.1 / height, lines, fontsize=8.5, color=GRAY, va="bottom")
    return figure


def _lengths(outcome: Outcome) -> str:
    """How many rounds the instances have, by group."""
    lengths: dict[str, set[int]] = {}
    for name in outcome.instances:
        lengths.setdefault(INSTANCES[name].group, set()).add(outcome.rounds[name])
    parts = (f"{group} {' or '.join(f'{n:,}' for n in sorted(own))}" for group, own in lengths.items())
    return f"rounds: {', '.join(parts)}"


def _draw(axes: Axes, panel: Panel) -> None:
    from matplotlib.patches import Rectangle

    for row, label in enumerate(panel.grid.labels):
        ratios = panel.grid.ratios[row]
        cells = list(zip(panel.lefts, ratios, strict=True))
        if label in panel.means:
            cells.append((0.0, panel.means[label]))
        for left, value in cells:
            if value is None:
                continue
            shade = _shade(value)
            axes.add_patch(Rectangle((left, row), 1.0, 1.0, facecolor=shade, edgecolor="white", linewidth=0.8))
            is_mean = bool(panel.means) and left == 0.0
            shown = f"({_short(value)})" if is_mean and None in ratios else _short(value)
            dark = float(np.dot(shade[:3], (0.299, 0.587, 0.114))) < 0.5
            style: Config = {"color": "white" if dark else INK, "fontweight": "bold" if is_mean else "normal"}
            axes.text(left + 0.5, row + 0.5, shown, ha="center", va="center", fontsize=8, **style)
    _frame(axes, panel)


def _shade(value: float) -> tuple[float, float, float, float]:
    """Blue below 1 and red above, on a logarithmic scale on either side."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    if value < 1.0:
        return colormaps["Blues"](0.5 * float(LogNorm(1.0, 1.0 / MIN_RATIO, clip=True)(1.0 / max(value, MIN_RATIO))))
    return colormaps["Reds"](0.8 * float(LogNorm(1.0, MAX_RATIO, clip=True)(value)))


def _frame(axes: Axes, panel: Panel) -> None:
    labels, lefts = panel.grid.labels, panel.lefts
    axes.set_xlim(0, panel.n_cells)
    axes.set_ylim(len(labels), 0)
    proved = [label not in REFERENCES and CONTENDERS[label].proof for label in labels]
    marked = [f"{label} ◆" if proof else f"{label}    " for label, proof in zip(labels, proved, strict=True)]
    axes.set_yticks(np.arange(len(labels)) + 0.5, marked, fontsize=9)
    ticks = dict(zip([left + 0.5 for left in lefts], panel.grid.names, strict=True))
    ticks |= {0.5: "geometric mean"} if panel.means else {}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for text in axes.get_xticklabels():
        text.set(rotation=40, ha="left", va="bottom", rotation_mode="anchor", fontsize=8.5)
    axes.spines[:].set_visible(False)
    # One unit is a cell.
    place = (-(LEFT - 0.12) / CELL_WIDTH, -1.55 / CELL_HEIGHT)
    axes.text(
        *place,
        f"Regret over that of the best learner alone. {panel.title}",
        fontsize=11.5,
        fontweight="bold",
        color=INK,
        va="top",
    )
    for part in dict.fromkeys(panel.parts):
        own = [left for left, other in zip(lefts, panel.parts, strict=True) if other == part]
        middle = (own[0] + own[-1] + 1) / 2
        axes.text(middle, len(labels) + 0.12, part, ha="center", va="top", fontsize=8.5, color=GRAY)


def _short(value: float) -> str:
    digits = 2 if value < 0.1 else 1 if value < 10 else 0
    return f"{value:,.{digits}f}"
