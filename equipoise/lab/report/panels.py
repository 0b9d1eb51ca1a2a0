"""The panels of the figure of a run, each drawn into axes that the layout has placed.

Learners have cool colors and selectors warm ones, the same in every panel. Within each palette colors differ in
lightness too, so that neither color blindness nor a gray print makes them one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Color: TypeAlias = str | tuple[float, float, float, float]
Dashes: TypeAlias = Literal["-"] | tuple[float, tuple[float, ...]]

WARM = ("#D55E00", "#000000", "#C2478F", "#E69F00", "#7A3B10", "#8C8C8C")
COOL = ("#56B4E9", "#0072B2", "#009E73", "#9A8FE0", "#1B2A6B", "#8FD1BE", "#5B7F95")
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)))  # in turn, once the colors are used up
WRONG: Dashes = (0, (1, 1.2))  # dashes of a learner that presumes what is false
GRAY, LIGHT_GRAY = "#5A5A5A", "#E4E4E4"
BAND = (0.1, 0.9)  # quantiles over seeds
LONGEST_NAME = 28  # characters that fit a label
MOST_NOTES = 4
MOST_KEYS = 9  # learners; beyond, the colored labels of the main panel are the key
NOTE_SIZE, NOTE_INCHES = 7.5, 0.058  # points; inches a character takes
LABEL_INCHES, LABEL_GAP, LABEL_SIZE = 0.212, 0.21, 9.5  # from label to label and from axes to label; points
CROSS: Config = {
    "marker": "X",
    "markersize": 8.5,
    "markeredgecolor": "white",
    "linestyle": "none",
    "clip_on": False,
}


class Curves(NamedTuple):
    """The curves of one learner or selector over all seeds."""

    name: str
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]  # (seeds, rounds)
    certified: NDArray[np.float64] | None
    plays: NDArray[np.int64] | None  # (seeds, rounds, learners)
    wrong: bool = False  # whether what the learner presumes is known to be false


class Mark(NamedTuple):
    """The eliminations of one learner by one selector."""

    learner: int
    name: str
    median_round: float
    n_seeds: int


def learner_colors(n_learners: int) -> list[Color]:
    """As many cool colors as there are learners; a gradual scale if they outnumber the palette."""
    if n_learners <= len(COOL):
        return list(COOL[:n_learners])
    import matplotlib as mpl

    return [mpl.colormaps["viridis"](x) for x in np.linspace(0.0, 0.9, n_learners)]


def selector_style(k: int) -> tuple[str, Dashes]:
    """Color and dashes of the k-th selector."""
    return WARM[k % len(WARM)], DASHES[k // len(WARM) % len(DASHES)]


def short(name: str, longest: int = LONGEST_NAME) -> str:
    """The name, without its middle if it is too long: names of one family differ at their ends."""
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[len(name) - (longest - 1) // 2 :]}"


def end_label(curves: Curves) -> str:
    final = float(curves.regret[:, -1].mean())
    return f"{short(curves.name)}  {final:,.0f}" if final >= 10 else f"{short(curves.name)}  {final:.2g}"


def highest(curves: Curves) -> float:
    """The greatest mean over seeds of the regret, true or certified."""
    both = [curves.regret] if curves.certified is None else [curves.regret, curves.certified]
    return max(float(regret.mean(axis=0).max()) for regret in both)


def notes(marks: Sequence[Mark], n_seeds: int, inches: float) -> list[str]:
    """The eliminations in words, a line each; names are cut where the line would be longer than `inches`."""
    if not marks:
        return ["no learner eliminated"]
    lines = []
    for mark in marks:
        rest = f": {mark.n_seeds}/{n_seeds} seeds, round {mark.median_round:,.0f}"
        lines.append(f"× {short(mark.name, max(8, int(inches / NOTE_INCHES) - len(rest) - 2))}{rest}")
    return lines if len(lines) <= MOST_NOTES else [*lines[: MOST_NOTES - 1], f"and {len(lines) - MOST_NOTES + 1} more"]


def draw_regret(
    axes: Axes, learners: Sequence[Curves], selectors: Sequence[Curves], marks: Sequence[Sequence[Mark]]
) -> None:
    """Mean regret of all learners and selectors."""
    ends: list[tuple[float, str, Color, str]] = []
    for learner, color in zip(learners, learner_colors(len(learners)), strict=True):
        mean = learner.regret.mean(axis=0)
        dashes = WRONG if learner.wrong else "-"
        axes.plot(learner.rounds, mean, color=color, linewidth=1.5, linestyle=dashes, label=learner.name)
        ends.append((float(mean[-1]), end_label(learner), color, "normal"))
    for k, selector in enumerate(selectors):
        color, dashes = selector_style(k)
        mean = selector.regret.mean(axis=0)
        if len(selector.regret) > 1:
            low, high = np.quantile(selector.regret, BAND, axis=0)
            axes.fill_between(selector.rounds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(selector.rounds, mean, color=color, linewidth=2.8, linestyle=dashes, label=selector.name)
        for mark in marks[k]:
            height = float(np.interp(mark.median_round, selector.rounds, mean))
            axes.plot(mark.median_round, height, color=color, zorder=5, **CROSS)
        ends.append((float(mean[-1]), end_label(selector), color, "bold"))
    _frame(axes, int(learners[0].rounds[-1]), max(end for end, *_ in ends))
    axes.set_xlabel("rounds")
    axes.set_ylabel("cumulative regret (expected reward lost)")
    _label_ends(axes, ends)


def readable(value: float) -> str:
    """A number on an axis; millions as 2.5M, since ten digits would not fit beside it."""
    return f"{value / 1e6:,.10g}M" if abs(value) >= 1e6 else f"{value:,.10g}"


def _frame(axes: Axes, last_round: int, top: float) -> None:
    from matplotlib.ticker import FuncFormatter

    _rounds_axis(axes, last_round)
    axes.set_ylim(0, 1.08 * top or 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
    axes.grid(True, color=LIGHT_GRAY, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _rounds_axis(axes: Axes, last_round: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    inches = axes.get_window_extent().width / axes.figure.dpi
    axes.set_xlim(0, last_round)
    axes.xaxis.set_major_locator(MaxNLocator(max(2, int(1.2 * inches)), steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, Color, str]]) -> None:
    """The label of each curve to the right of the axes, moved apart where they would overlap."""
    from matplotlib.colors import to_rgb

    top, width = axes.get_ylim()[1], axes.get_window_extent().width / axes.figure.dpi
    ordered = sorted(ends, key=lambda end: end[0])
    wanted = [end / top for end, *_ in ordered]
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
    """Places in [0, 1], at least `spacing` apart, near the wanted ones, which ascend; there must be room for them."""
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
    color, _ = selector_style(k)
    annotate_above(axes, short(name), top, color=color, fontsize=10.5, fontweight="bold")
    text = "\n".join(lines)
    annotate_above(axes, text, top - 3, va="top", color=GRAY, fontsize=NOTE_SIZE, linespacing=1.15)


def annotate_above(axes: Axes, text: str, points: float, **style: Plain) -> None:
    """Text that starts at the left end of the axes, `points` above them."""
    place: Config = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(text, (0, 1), (0, points), **place, **style)


def draw_shares(axes: Axes, selector: Curves, n_learners: int, marks: Sequence[Mark], cross_size: float = 8.5) -> None:
    """Who played when, as stacked areas."""
    from matplotlib.ticker import FuncFormatter

    if selector.plays is None:
        axes.set_axis_off()
        return
    middles, shares = play_shares(selector.rounds, selector.plays)
    heights = np.cumsum(shares, axis=1)
    axes.stackplot(middles, shares.T, colors=learner_colors(n_learners), linewidth=0)
    for mark in marks:
        upper = float(np.interp(mark.median_round, middles, heights[:, mark.learner]))
        lower = float(np.interp(mark.median_round, middles, heights[:, mark.learner] - shares[:, mark.learner]))
        style = {**CROSS, "markersize": cross_size}
        axes.plot(mark.median_round, (lower + upper) / 2, color="black", zorder=5, **style)
    _rounds_axis(axes, int(selector.rounds[-1]))
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.tick_params(labelsize=8)


def play_shares(rounds: NDArray[np.int64], plays: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of plays between recorded rounds, over all seeds together, each at the middle of its window.

    A window is wide enough for every learner to have a turn, and at least a twentieth of the rounds up to its end. The
    first and the last share are held to the ends.
    """
    kept = [-1]  # positions of the edges; -1 stands for the start of the run
    for k in range(len(rounds)):
        start = rounds[kept[-1]] if kept[-1] >= 0 else 0
        if rounds[k] - start >= max(2 * plays.shape[2], 0.05 * rounds[k]):
            kept.append(k)
    # The last window takes in what is left over.
    kept = [*kept[:-1], len(rounds) - 1] if len(kept) > 1 else [-1, len(rounds) - 1]
    totals = plays.sum(axis=0)
    edges = np.array([rounds[k] if k >= 0 else 0 for k in kept], float)
    counts = np.diff([totals[k] if k >= 0 else np.zeros_like(totals[0]) for k in kept], axis=0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    middles = np.concatenate([[0.0], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    return middles, np.concatenate([shares[:1], shares, shares[-1:]])


def draw_certified(axes: Axes, selector: Curves, k: int, top: float, warning: str) -> None:
    """What the selector could certify at most, beside the true regret."""
    color = selector_style(k)[0]
    regret = selector.regret.mean(axis=0)
    if selector.certified is not None:
        certified = selector.certified.mean(axis=0)
        axes.fill_between(selector.rounds, regret, certified, color=color, alpha=0.08, linewidth=0)
        axes.plot(selector.rounds, certified, color=color, linewidth=1.4, linestyle=":")
    axes.plot(selector.rounds, regret, color=color, linewidth=2.2)
    _frame(axes, int(selector.rounds[-1]), top)
    axes.tick_params(labelsize=8)
    if warning:
        axes.set_title(warning, loc="right", fontsize=8, color="#B00020", fontweight="bold", pad=2)


def draw_line_key(figure: Figure, left: float, bottom: float, *, crosses: bool, wrong: bool) -> None:
    """What the lines of the main panel mean, above it."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=GRAY, linewidth=3, label="selector: learns which learner to trust while playing"),
        Line2D([], [], color=GRAY, linewidth=1.3, label="learner playing alone"),
    ]
    if wrong:
        label = "learner alone, presuming what is false"
        handles.append(Line2D([], [], color=GRAY, linewidth=1.5, linestyle=WRONG, label=label))
    if crosses:
        label = "elimination (median round)" if wrong else "a learner is eliminated (median round)"
        handles.append(Line2D([], [], color=GRAY, label=label, **CROSS))
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(left, bottom),
        ncols=len(handles),
        frameon=False,
        fontsize=9 if len(handles) < 4 else 8.5,
        handlelength=1.8,
        columnspacing=1.8 if len(handles) < 4 else 1.0,
        borderaxespad=0.0,
        borderpad=0.0,
    )


def draw_keys(figure: Figure, learners: Sequence[Curves], certified: bool) -> None:
    """What the colors and lines of the lower panels mean, to the right of the last column of the first row."""
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shares = [axes for axes in figure.axes if str(axes.get_label()).startswith("plays of ")]
    right = max(shares, key=lambda axes: (axes.get_position().x1, axes.get_position().y1))
    colors = learner_colors(len(learners))
    names = [Patch(color=color, label=short(learner.name)) for learner, color in zip(learners, colors, strict=True)]
    lines = [
        Line2D([], [], color=GRAY, linewidth=1.4, linestyle=":", label="certified at most"),
        Line2D([], [], color=GRAY, linewidth=2.2, label="true"),
    ]
    x = 1 + 0.12 * figure.dpi / right.get_window_extent().width
    legend = partial(Axes.legend, loc="upper left", frameon=False, handlelength=1.4, borderaxespad=0.0)
    if len(learners) <= MOST_KEYS:
        legend(right, handles=names[::-1], bbox_to_anchor=(x, 1.02), fontsize=8.5, labelspacing=0.35)
    else:
        legend(right, handles=[], title="colors as above", bbox_to_anchor=(x, 1.02), title_fontsize=8.5)
    if certified:
        below = figure.axes[figure.axes.index(right) + 1]
        legend(below, handles=lines, bbox_to_anchor=(x, 1.0), fontsize=8.5)
