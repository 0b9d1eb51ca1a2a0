"""The suite as a picture: prices of selectors by instance, in colors on a logarithmic scale.

Rows are in the order of the leaderboard and columns grouped by half, with the geometric mean in front. Selectors with a
proved regret bound are marked; a blank cell is an instance that the selector is not compatible with.
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from equipoise.lab.suite.contenders import CONTENDERS, ORACLE
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.suite import Outcome
from equipoise.lab.suite.tables import TITLES, places, price_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

CELL_WIDTH, CELL_HEIGHT = 0.62, 0.29  # inches
LEFT, RIGHT, HEAD, FOOT, BETWEEN = 2.05, 0.75, 1.7, 0.75, 0.3
CHARACTERS = 15  # of the caption, in an inch
GAP = 0.35  # cells between the mean and the instances, and between halves
MAX_PRICE = 100.0  # of the darkest color
INK, QUIET = "#1c1c1c", "#5f6368"


def suite_figure(outcome: Outcome) -> Figure:
    """One panel without shared data, one with."""
    from matplotlib.figure import Figure

    grids = {table: price_grid(outcome, table) for table in outcome.scores}
    heights = {table: CELL_HEIGHT * len(labels) for table, (labels, _, _) in grids.items()}
    width = LEFT + RIGHT + CELL_WIDTH * (1 + 2 * GAP + max(len(names) for _, names, _ in grids.values()))
    height = FOOT + sum(heights.values()) + HEAD * len(grids) + BETWEEN * (len(grids) - 1)
    figure = Figure(figsize=(max(width, 6.5), height))
    top = height
    for table, (labels, names, grid) in grids.items():
        top -= HEAD
        columns = CELL_WIDTH * (1 + 2 * GAP + len(names))
        box = (LEFT / figure.get_figwidth(), (top - heights[table]) / height)
        size = (columns / figure.get_figwidth(), heights[table] / height)
        axes = figure.add_axes((*box, *size))
        means = {place.label: place.price.value for place in places(outcome, table)}
        _panel(axes, TITLES[table], labels, names, grid, means)
        top -= heights[table] + BETWEEN
    caption = (
        f"Price of selection: mean regret over that of the best learner alone, {outcome.n_seeds} seeds. Darker "
        "cells are higher prices. ◆ a regret bound is proved. The oracle knows the best learner. Blank where a "
        "selector is not compatible with an instance; its mean is then in parentheses, and its rank is by the "
        "instances it shares with the leader."
    )
    lines = fill(caption, int(CHARACTERS * figure.get_figwidth()))
    figure.text(0.012, 0.1 / height, lines, fontsize=8.5, color=QUIET, va="bottom")
    return figure


def _panel(
    axes: Axes, title: str, labels: list[str], names: list[str], grid: list[list[float | None]], means: dict[str, float]
) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    colors, scale = colormaps["YlOrRd"], LogNorm(1.0, MAX_PRICE, clip=True)
    second = next((k for k, name in enumerate(names) if INSTANCES[name].half == "report"), len(names))
    lefts = [1 + GAP + k + (GAP if k >= second else 0.0) for k in range(len(names))]
    for row, label in enumerate(labels):
        for left, value in zip([0.0, *lefts], [means[label], *grid[row]], strict=True):
            if value is None:
                continue
            shade = colors(scale(max(value, 1.0)))
            axes.add_patch(_cell(left, row, shade))
            dark = float(np.dot(shade[:3], (0.299, 0.587, 0.114))) < 0.5
            weight = "bold" if left == 0.0 else "normal"
            shown = f"({_short(value)})" if left == 0.0 and None in grid[row] else _short(value)
            axes.text(
                left + 0.5,
                row + 0.5,
                shown,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else INK,
                fontweight=weight,
            )
    _frame(axes, title, labels, names, lefts, second)


def _cell(left: float, row: int, shade: tuple[float, float, float, float]) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((left, row), 1.0, 1.0, facecolor=shade, edgecolor="white", linewidth=0.8)


def _frame(axes: Axes, title: str, labels: list[str], names: list[str], lefts: list[float], second: int) -> None:
    axes.set_xlim(0, 1 + 2 * GAP + len(names))
    axes.set_ylim(len(labels), 0)
    axes.set_yticks(np.arange(len(labels)) + 0.5, [_marked(label) for label in labels], fontsize=9)
    axes.set_xticks([0.5, *(left + 0.5 for left in lefts)], ["geometric mean", *names])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for text in axes.get_xticklabels():
        text.set(rotation=40, ha="left", va="bottom", rotation_mode="anchor", fontsize=8.5)
    for side in axes.spines.values():
        side.set_visible(False)
    # One unit is a cell.
    place = (-(LEFT - 0.12) / CELL_WIDTH, -1.55 / CELL_HEIGHT)
    axes.text(*place, title, fontsize=11.5, fontweight="bold", color=INK, va="top")
    for first, last, half in ((0, second, "tuning half"), (second, len(names), "report half")):
        if last > first:
            middle = (lefts[first] + lefts[last - 1] + 1) / 2
            axes.text(middle, len(labels) + 0.12, half, ha="center", va="top", fontsize=8.5, color=QUIET)


def _marked(label: str) -> str:
    return f"{label} ◆" if label != ORACLE and CONTENDERS[label].guaranteed else f"{label}    "


def _short(value: float) -> str:
    digits = 2 if value < 0.1 else 1 if value < 10 else 0
    return f"{value:,.{digits}f}"
