"""The panels of the figure of a run, each drawn into axes that the layout has placed.

Regret has a logarithmic scale where the largest final regret is more than `LOG_RATIO` times the smallest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import floor, log10
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.report import drawing
from equipoise.lab.report.kit import short
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSPECIFIED: drawing.Dashes = (0, (1, 1.2))
BAND = (0.1, 0.9)  # quantiles over seeds
LOG_RATIO = 20.0
MAX_NOTES = 4
MAX_KEYS = 9  # learners; with more, the colored labels of the main panel are the key
NOTE_SIZE, NOTE_INCHES = 7.5, 0.058  # points; inches per character
REGRET_LABEL = "Regret: reward lost against\nalways acting best"
LABEL_INCHES, LABEL_GAP, LABEL_SIZE = 0.212, 0.21, 9.5  # from label to label and from axes to label; points
CROSS: Config = {"marker": "X", "markersize": 8.5, "markeredgecolor": "white", "linestyle": "none", "clip_on": False}


class Curves(NamedTuple):
    """The curves of one learner or selector over all seeds."""

    name: str
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]  # (seeds, rounds)
    certified: NDArray[np.float64] | None
    plays: NDArray[np.int64] | None  # (seeds, rounds, learners)
    misspecified: bool = False  # whether the learner is known to be misspecified in most seeds


class Mark(NamedTuple):
    """The eliminations of one learner by one selector."""

    learner: int
    name: str
    median_round: float
    n_seeds: int


class Scale(NamedTuple):
    """Of an axis that shows regret."""

    bottom: float
    top: float
    log: bool

    def fraction(self, value: float) -> float:
        """Where a value is drawn, from 0 at the bottom to 1 at the top of the axes."""
        if not self.log:
            return value / self.top
        share = log10(max(value, self.bottom) / self.bottom) / log10(self.top / self.bottom)
        return min(share, 1.0)

    @property
    def note(self) -> str:
        return " (log scale)" if self.log else ""


def regret_scale(finals: Sequence[float]) -> Scale:
    """The scale on which these final regrets can be told apart.

    >>> regret_scale([3.0, 20.0]).log, regret_scale([3.0, 0.0, 200.0])
    (False, Scale(bottom=1.0, top=300.0, log=True))
    """
    largest = max(finals, default=0.0)
    smallest = min((final for final in finals if final > 0.0), default=0.0)
    if largest <= LOG_RATIO * smallest:
        return Scale(0.0, 1.08 * largest or 1.0, log=False)
    # Down to a power of ten that leaves room to see the smallest curve rise.
    return Scale(10.0 ** floor(log10(max(smallest / 3, largest / 1e6))), 1.5 * largest, log=True)


def end_label(curves: Curves) -> str:
    final = float(curves.regret[:, -1].mean())
    return f"{short(curves.name)}  {final:,.0f}" if final >= 10 else f"{short(curves.name)}  {final:.2g}"


def final_regrets(curves: Curves) -> list[float]:
    """The mean over seeds of the final regret, true and certified."""
    both = [curves.regret] if curves.certified is None else [curves.regret, curves.certified]
    return [float(regret[:, -1].mean()) for regret in both]


def notes(marks: Sequence[Mark], n_seeds: int, inches: float) -> list[str]:
    """The eliminations as text, one line each; names are shortened where the line would exceed `inches`."""
    if not marks:
        return ["no learner eliminated"]
    lines = []
    for mark in marks:
        rest = f": {mark.n_seeds}/{n_seeds} seeds, round {mark.median_round:,.0f}"
        lines.append(f"× {short(mark.name, max(8, int(inches / NOTE_INCHES) - len(rest) - 2))}{rest}")
    return lines if len(lines) <= MAX_NOTES else [*lines[: MAX_NOTES - 1], f"and {len(lines) - MAX_NOTES + 1} more"]


def draw_regret(
    axes: Axes, learners: Sequence[Curves], selectors: Sequence[Curves], marks: Sequence[Sequence[Mark]]
) -> None:
    """Mean regret of all learners and selectors."""
    ends: list[tuple[float, str, drawing.Color, str]] = []
    for learner, color in zip(learners, drawing.learner_colors(len(learners)), strict=True):
        mean = learner.regret.mean(axis=0)
        dashes = MISSPECIFIED if learner.misspecified else "-"
        axes.plot(learner.rounds, mean, color=color, linewidth=1.5, linestyle=dashes, label=learner.name)
        ends.append((float(mean[-1]), end_label(learner), color, "normal"))
    for k, selector in enumerate(selectors):
        color, dashes = drawing.selector_style(k)
        mean = selector.regret.mean(axis=0)
        if len(selector.regret) > 1:
            low, high = np.quantile(selector.regret, BAND, axis=0)
            axes.fill_between(selector.rounds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(selector.rounds, mean, color=color, linewidth=2.8, linestyle=dashes, label=selector.name)
        for mark in marks[k]:
            height = float(np.interp(mark.median_round, selector.rounds, mean))
            axes.plot(mark.median_round, height, color=color, zorder=5, **CROSS)
        ends.append((float(mean[-1]), end_label(selector), color, "bold"))
    scale = regret_scale([end for end, *_ in ends])
    _frame(axes, int(learners[0].rounds[-1]), scale)
    axes.set_xlabel("Rounds")
    axes.set_ylabel(f"{REGRET_LABEL}{scale.note}")
    _label_ends(axes, ends, scale)


def _frame(axes: Axes, last_round: int, scale: Scale) -> None:
    from matplotlib.ticker import NullFormatter

    _rounds_axis(axes, last_round)
    if scale.log:
        axes.set_yscale("log", nonpositive="clip")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(scale.bottom, scale.top)
    drawing.readable_ticks(axes.yaxis)
    drawing.frame(axes, labels=None)


def _rounds_axis(axes: Axes, last_round: int) -> None:
    from matplotlib.ticker import MaxNLocator

    inches = axes.get_window_extent().width / axes.figure.dpi
    axes.set_xlim(0, last_round)
    axes.xaxis.set_major_locator(MaxNLocator(max(2, int(1.2 * inches)), steps=[1, 2, 5, 10], integer=True))
    drawing.readable_ticks(axes.xaxis)


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, drawing.Color, str]], scale: Scale) -> None:
    """The label of each curve to the right of the axes, moved apart where they would overlap."""
    from matplotlib.colors import to_rgb

    width = axes.get_window_extent().width / axes.figure.dpi
    ordered = sorted(ends, key=lambda end: end[0])
    wanted = [scale.fraction(end) for end, *_ in ordered]
    inches = axes.get_window_extent().height / axes.figure.dpi
    spacing = min(LABEL_INCHES / inches, 1.0 / len(ends))
    for (_, label, color, weight), place, target in zip(ordered, spread(wanted, spacing), wanted, strict=True):
        axes.annotate(
            label,
            xy=(1.0, target),
            xytext=(1.0 + LABEL_GAP / width, place),
            xycoords="axes fraction",
            color=tuple(0.78 * part for part in to_rgb(color)),  # light colors are hard to read as text
            fontsize=LABEL_SIZE * spacing * inches / LABEL_INCHES,
            fontweight=weight,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkB": 0, "relpos": (0, 0.5)},
        )


def spread(wanted: Sequence[float], spacing: float) -> list[float]:
    """Positions in [0, 1], at least `spacing` apart, near the wanted ones, which are ascending and must fit."""
    places: list[float] = []
    for i, place in enumerate(wanted):
        places.append(max(place, places[-1] + spacing if i else 0.0))
    limit = 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - spacing
    return places


def draw_title(axes: Axes, name: str, k: int, lines: Sequence[str], notes_height: float) -> None:
    """Name of the selector and notes above its panels, starting at the same height in all columns."""
    top = 72 * notes_height + 6
    color, _ = drawing.selector_style(k)
    annotate_above(axes, short(name), top, color=color, fontsize=10.5, fontweight="bold")
    text = "\n".join(lines)
    annotate_above(axes, text, top - 3, va="top", color=drawing.GRAY, fontsize=NOTE_SIZE, linespacing=1.15)


def annotate_above(axes: Axes, text: str, points: float, **style: Plain) -> None:
    """Text that starts at the left end of the axes, `points` above them."""
    place: Config = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(text, (0, 1), (0, points), **place, **style)


def draw_shares(axes: Axes, selector: Curves, n_learners: int, marks: Sequence[Mark], cross_size: float = 8.5) -> None:
    """The share of plays of each learner over time, as stacked areas."""
    if selector.plays is None:
        axes.set_axis_off()
        return
    middles, shares = drawing.play_shares(selector.rounds, selector.plays)
    heights = np.cumsum(shares, axis=1)
    axes.stackplot(middles, shares.T, colors=drawing.learner_colors(n_learners), linewidth=0)
    for mark in marks:
        upper = float(np.interp(mark.median_round, middles, heights[:, mark.learner]))
        lower = float(np.interp(mark.median_round, middles, heights[:, mark.learner] - shares[:, mark.learner]))
        style = {**CROSS, "markersize": cross_size}
        axes.plot(mark.median_round, (lower + upper) / 2, color="black", zorder=5, **style)
    _rounds_axis(axes, int(selector.rounds[-1]))
    axes.set_yticks([0, 0.5, 1])
    drawing.share_axis(axes)
    axes.tick_params(labelsize=8)


def draw_certified(axes: Axes, selector: Curves, k: int, scale: Scale, warning: str) -> None:
    """The certified upper bound on the regret, next to the true regret."""
    color = drawing.selector_style(k)[0]
    regret = selector.regret.mean(axis=0)
    if selector.certified is not None:
        certified = selector.certified.mean(axis=0)
        axes.fill_between(selector.rounds, regret, certified, color=color, alpha=0.08, linewidth=0)
        axes.plot(selector.rounds, certified, color=color, linewidth=1.4, linestyle=":")
    axes.plot(selector.rounds, regret, color=color, linewidth=2.2)
    _frame(axes, int(selector.rounds[-1]), scale)
    axes.tick_params(labelsize=8)
    if warning:
        axes.set_title(warning, loc="right", fontsize=8, color="#B00020", fontweight="bold", pad=2)


def draw_line_key(figure: Figure, left: float, bottom: float, *, crosses: bool, misspecified: bool) -> None:
    """The key of the lines of the main panel, above it."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=drawing.GRAY, linewidth=3, label="selector: learns online which learner to play"),
        Line2D([], [], color=drawing.GRAY, linewidth=1.3, label="learner playing alone"),
    ]
    if misspecified:
        label = "misspecified learner playing alone"
        handles.append(Line2D([], [], color=drawing.GRAY, linewidth=1.5, linestyle=MISSPECIFIED, label=label))
    if crosses:
        label = "elimination (median round)" if misspecified else "a learner is eliminated (median round)"
        handles.append(Line2D([], [], color=drawing.GRAY, label=label, **CROSS))
    fontsize, spacing = (9, 1.8) if len(handles) < 4 else (8.5, 1.0)
    style = {"ncols": len(handles), "fontsize": fontsize, "handlelength": 1.8, "columnspacing": spacing}
    drawing.legend_at(figure, (left, bottom), handles, loc="lower left", **style)


def draw_keys(figure: Figure, learners: Sequence[Curves], certified: bool) -> None:
    """The key of the lower panels, to the right of the last column of the first row."""
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    shares = [axes for axes in figure.axes if str(axes.get_label()).startswith("plays of ")]
    right = max(shares, key=lambda axes: (axes.get_position().x1, axes.get_position().y1))
    names = drawing.color_keys([learner.name for learner in learners], drawing.learner_colors(len(learners)))
    lines = [
        Line2D([], [], color=drawing.GRAY, linewidth=1.4, linestyle=":", label="certified upper bound"),
        Line2D([], [], color=drawing.GRAY, linewidth=2.2, label="true regret"),
    ]
    x = 1 + 0.12 * figure.dpi / right.get_window_extent().width
    legend = partial(Axes.legend, loc="upper left", frameon=False, handlelength=1.4, borderaxespad=0.0)
    if len(learners) <= MAX_KEYS:
        legend(right, handles=names[::-1], bbox_to_anchor=(x, 1.02), fontsize=8.5, labelspacing=0.35)
    else:
        legend(right, handles=[], title="colors as above", bbox_to_anchor=(x, 1.02), title_fontsize=8.5)
    if certified:
        below = figure.axes[figure.axes.index(right) + 1]
        legend(below, handles=lines, bbox_to_anchor=(x, 1.0), fontsize=8.5)
