"""The figure of a run: regret of each selector and of each learner alone, shares of plays, and certified regret.

The upper panel shows cumulative regret over rounds: selectors as thick lines with a band over seeds, learners alone as
thin lines, each labeled at its end with its final mean. Below, one column per selector: the share of plays that each
learner got, with a cross where it was eliminated, and the certified beside the true regret. Runs of several instances
have another figure, in `instances_figure`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from equipoise.lab.report import panels
from equipoise.lab.report.instances_figure import heading, instances_figure
from equipoise.lab.runs.gather import curves_over_seeds, elimination_marks
from equipoise.lab.runs.results import Results
from equipoise.storage.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Place: TypeAlias = Callable[[str, float, float, float, float], Axes]  # axes by label, left, top, width, height

PNG, SVG = "regret.png", "regret.svg"
PANELS_PER_ROW = 3
SMALL_COLORS, SMALL_DPI = 128, 120  # of pictures for the documentation
MIN_LABELS = 22  # characters; the width of the keys of the lower panels
# Inches.
WIDTH, LEFT = 11.0, 1.1
HEAD, MAIN, BELOW_MAIN, FOOT = 1.3, 4.0, 0.55, 0.5
SHARES, CERTIFIED, BETWEEN, COLUMN_GAP, ROW_GAP = 1.45, 1.15, 0.14, 0.55, 0.45
TITLE, NOTE = 0.3, 0.155


class Layout(NamedTuple):
    """Positions and sizes in inches, from the top left."""

    height: float
    right: float  # where axes end and labels begin
    n_columns: int
    column_width: float
    block_height: float  # of the panels of one selector, title included
    notes_height: float
    certified: bool  # whether there is a row for certified regret

    def block(self, k: int) -> tuple[float, float]:
        """Left and top of the panels of the k-th selector."""
        row, column = divmod(k, self.n_columns)
        left = LEFT + column * (self.column_width + COLUMN_GAP)
        return left, HEAD + MAIN + BELOW_MAIN + row * (self.block_height + ROW_GAP)


def save_figure(figure: Figure, folder: Path, png_name: str = PNG, svg_name: str = SVG) -> str:
    """Write the figure as PNG and SVG, and return the SVG. The same figure gives the same bytes."""
    import matplotlib as mpl

    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": "equipoise", "svg.fonttype": "path"}):
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    write_atomic(folder / png_name, png.getvalue())
    write_atomic(folder / svg_name, svg.getvalue())
    return svg.getvalue().decode()


def small_png(figure: Figure) -> bytes:
    """The figure as a PNG with a reduced palette, a third of the size of the full one."""
    from PIL import Image  # which Matplotlib needs too

    full, small = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png", dpi=SMALL_DPI)
    Image.open(full).convert("RGB").quantize(SMALL_COLORS, dither=Image.Dither.NONE).save(
        small, format="png", optimize=True
    )
    return small.getvalue()


def regret_figure(results: Results) -> Figure:
    """The figure of a run; no global setting of Matplotlib is changed."""
    return instances_figure(results) if len(results.instances) > 1 else _single_figure(results)


def _single_figure(results: Results) -> Figure:
    from matplotlib.figure import Figure

    learners, selectors = curves_over_seeds(results, "learner"), curves_over_seeds(results, "selector")
    marks = [elimination_marks(results, selector.name) for selector in selectors]
    layout = _layout([*learners, *selectors], selectors, marks)
    figure = Figure(figsize=(WIDTH, layout.height), facecolor="white")

    def axes(label: str, left: float, top: float, width: float, tall: float) -> Axes:
        box = (left / WIDTH, 1 - (top + tall) / layout.height, width / WIDTH, tall / layout.height)
        return figure.add_axes(box, label=label)

    heading(figure, results, LEFT, misspecified=any(learner.misspecified for learner in learners))
    panels.draw_regret(axes("regret", LEFT, HEAD, layout.right - LEFT, MAIN), learners, selectors, marks)
    scale = panels.regret_scale([final for selector in selectors for final in panels.final_regrets(selector)])
    for k, selector in enumerate(selectors):
        _draw_block(axes, layout, results, k, selector, marks[k], scale)
    if selectors:
        panels.draw_keys(figure, learners, layout.certified)
    return figure


def _draw_block(
    axes: Place,
    layout: Layout,
    results: Results,
    k: int,
    selector: panels.Curves,
    marks: list[panels.Mark],
    scale: panels.Scale,
) -> None:
    n_seeds, violations = results.summary["seeds"], results.summary["selectors"][k]["certificate_violations"]
    warning = f"violated in {violations} of {n_seeds} seeds" if violations else ""
    left, top = layout.block(k)
    first_column, last_row = left == LEFT, k + layout.n_columns >= len(results.summary["selectors"])
    top += layout.notes_height + TITLE
    lowest = axes(f"plays of {selector.name}", left, top, layout.column_width, SHARES)
    notes = panels.notes(marks, n_seeds, layout.column_width)
    panels.draw_title(lowest, selector.name, k, notes, layout.notes_height)
    panels.draw_shares(lowest, selector, len(results.summary["learners"]), marks)
    lowest.set_ylabel("Share of plays" if first_column else "", fontsize=9)
    lowest.tick_params(labelleft=first_column)
    if layout.certified:
        lowest.tick_params(labelbottom=False)
        top += SHARES + BETWEEN
        lowest = axes(f"certified regret of {selector.name}", left, top, layout.column_width, CERTIFIED)
        panels.draw_certified(lowest, selector, k, scale, warning)
        lowest.set_ylabel(f"Regret{scale.note}" if first_column else "", fontsize=9)
        lowest.tick_params(labelleft=first_column)
    lowest.set_xlabel("Rounds" if last_row else "", fontsize=9)


def _layout(curves: list[panels.Curves], selectors: list[panels.Curves], marks: list[list[panels.Mark]]) -> Layout:
    n_rows = ceil(len(selectors) / PANELS_PER_ROW)
    n_columns = ceil(len(selectors) / max(n_rows, 1)) or 1
    longest = max(MIN_LABELS, *(len(panels.end_label(curve)) for curve in curves))
    right = WIDTH - 0.5 - 0.088 * longest
    column_width = (right - LEFT - COLUMN_GAP * (n_columns - 1)) / n_columns
    notes_height = NOTE * max((len(panels.notes(found, 1, column_width)) for found in marks), default=0)
    certified = any(selector.certified is not None for selector in selectors)
    block_height = TITLE + notes_height + SHARES + (BETWEEN + CERTIFIED if certified else 0.0)
    height = HEAD + MAIN + BELOW_MAIN + n_rows * (block_height + ROW_GAP) - ROW_GAP + FOOT
    return Layout(height, right, n_columns, column_width, block_height, notes_height, certified)
