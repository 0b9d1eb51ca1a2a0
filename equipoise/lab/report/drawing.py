"""How figures of reports look: one palette, one style of axes, and images whose bytes depend on the figure alone.

Learners have cool colors and selectors warm ones, the same in every figure. Within each palette colors differ in
lightness too, so that they stay distinct for color-blind readers and in grayscale. No global setting of Matplotlib is
changed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from equipoise import theme
from equipoise.lab.report.kit import short
from equipoise.storage.files import write_atomic
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    Place: TypeAlias = Callable[[str, float, float, float, float], Axes]  # axes by label, left, top, width, height

Color: TypeAlias = str | tuple[float, float, float, float]
Dashes: TypeAlias = Literal["-"] | tuple[float, tuple[float, ...]]

WARM, COOL = theme.palette("selector"), theme.palette("learner")
# In turn, when there are more selectors than colors.
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)))
INK, GRAY, LIGHT_GRAY = "#1C1C1C", "#5A5A5A", "#E4E4E4"
DPI = 150
SMALL_COLORS, SMALL_DPI = 128, 120  # of pictures for the documentation


def learner_colors(n_learners: int) -> list[Color]:
    """A cool color for each learner; a sequential color map if there are more learners than colors."""
    if n_learners <= len(COOL):
        return list(COOL[:n_learners])
    import matplotlib as mpl

    return [mpl.colormaps["viridis"](x) for x in np.linspace(0.0, 0.9, n_learners)]


def selector_style(k: int) -> tuple[str, Dashes]:
    """Color and dashes of the k-th selector."""
    return WARM[k % len(WARM)], DASHES[k // len(WARM) % len(DASHES)]


def blank_figure(width: float, height: float) -> tuple[Figure, Place]:
    """A white figure of a size in inches, and a function that places axes in inches from the top left."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")

    def place(label: str, left: float, top: float, wide: float, tall: float) -> Axes:
        box = (left / width, 1 - (top + tall) / height, wide / width, tall / height)
        return figure.add_axes(box, label=label)

    return figure, place


def frame(axes: Axes, *, grid: Literal["x", "y", "both"] = "both", labels: float | None = 8) -> None:
    """A light grid behind the data, and no lines above and to the right of it; `labels` is the size of tick labels."""
    axes.grid(axis=grid, color=LIGHT_GRAY, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if labels is not None:
        axes.tick_params(labelsize=labels)


def readable(value: float) -> str:
    """A number on an axis; millions are abbreviated as in 2.5M."""
    return f"{value / 1e6:,.10g}M" if abs(value) >= 1e6 else f"{value:,.10g}"


def readable_ticks(*axes: Axis) -> None:
    """Write the numbers of these axes in full."""
    from matplotlib.ticker import FuncFormatter

    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))


def share_axis(axes: Axes) -> None:
    """Let the vertical axis show shares, from 0 to 100 %."""
    from matplotlib.ticker import FuncFormatter

    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))


def color_keys(names: Sequence[str], colors: Sequence[Color]) -> list[Patch]:
    """Entries of a key: a color for each name."""
    from matplotlib.patches import Patch

    return [Patch(color=color, label=short(name)) for name, color in zip(names, colors, strict=True)]


def legend_at(figure: Figure, corner: tuple[float, float], handles: Sequence[Artist], **style: Plain) -> None:
    """A key of the whole figure with one corner at a place, without frame and margins."""
    tight: Config = {"frameon": False, "borderaxespad": 0.0, "borderpad": 0.0}
    figure.legend(handles=handles, bbox_to_anchor=corner, **tight, **style)


def play_shares(rounds: NDArray[np.int64], plays: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of plays between recorded rounds, over all seeds together, each at the middle of its window.

    A window has at least two rounds per learner and a twentieth of the rounds up to its end. The first and the last
    share are extended to the ends.
    """
    kept = [-1]  # positions of the edges; -1 stands for the start of the run
    for k in range(len(rounds)):
        start = rounds[kept[-1]] if kept[-1] >= 0 else 0
        if rounds[k] - start >= max(2 * plays.shape[2], 0.05 * rounds[k]):
            kept.append(k)
    # The last window includes the remainder.
    kept = [*kept[:-1], len(rounds) - 1] if len(kept) > 1 else [-1, len(rounds) - 1]
    totals = plays.sum(axis=0)
    edges = np.array([rounds[k] if k >= 0 else 0 for k in kept], float)
    counts = np.diff([totals[k] if k >= 0 else np.zeros_like(totals[0]) for k in kept], axis=0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    middles = np.concatenate([[0.0], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    return middles, np.concatenate([shares[:1], shares, shares[-1:]])


def image(figure: Figure, kind: str = "png") -> bytes:
    """The figure as PNG or SVG. The same figure gives the same bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    empty = {"Software": None} if kind == "png" else {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context({"svg.hashsalt": "equipoise", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=empty)
    return buffer.getvalue()


def save_figure(figure: Figure, png: Path) -> str:
    """Write the figure to `png`, and as SVG next to it; returns the SVG."""
    write_atomic(png, image(figure))
    svg = image(figure, "svg")
    write_atomic(png.with_suffix(".svg"), svg)
    return svg.decode()


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG with a reduced palette, a third of the size of the full one."""
    from PIL import Image  # which Matplotlib needs too

    full, small = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png", dpi=SMALL_DPI)
    reduced = Image.open(full).convert("RGB").quantize(SMALL_COLORS, dither=Image.Dither.NONE)
    reduced.save(small, format="png", optimize=True)
    return small.getvalue()
