"""The figure of a run of several instances, with a row for each.

On the left of a row, cumulative regret over rounds: selectors as thick lines and learners alone as thin ones, dotted
where a learner is misspecified on this instance; each is labeled at its end with its final mean. On the right, one
small panel per selector: the share of plays that each learner got, in the color of its label, with a cross where it was
eliminated.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from equipoise.lab.report import panels
from equipoise.lab.report.tables import facts
from equipoise.lab.runs.gather import curves_over_seeds, elimination_marks
from equipoise.lab.runs.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches.
WIDTH, LEFT, RIGHT = 11.0, 1.1, 0.2
HEAD, TITLE, FACT, ROW, BETWEEN, FOOT = 1.3, 0.42, 0.16, 2.75, 0.55, 0.5
SHARES, SHARE_GAP, SHARE_TITLE, SHARES_LEFT = 2.75, 0.24, 0.36, 0.6
PER_LINE = 2  # small panels next to each other
CHARACTER = 0.09  # of a label
CROSS_SIZE = 6.0  # points


class Row(NamedTuple):
    """The content of one row."""

    instance: str
    learners: list[panels.Curves]
    selectors: list[panels.Curves]
    marks: list[list[panels.Mark]]
    facts: str  # what is unknown to the learners


def heading(figure: Figure, results: Results, left: float, *, misspecified: bool = False) -> None:
    """Title, size of the run and key of the lines."""
    width, height = figure.get_size_inches()
    n_seeds, rounds = results.summary["seeds"], results.summary["rounds"]
    seeds = f"mean of {n_seeds} seeds, bands from the 10th to the 90th percentile" if n_seeds > 1 else "1 seed"
    title, subtitle = results.experiment["title"], f"Cumulative regret over {rounds:,} rounds, {seeds}"
    figure.text(left / width, 1 - 0.45 / height, title, fontsize=15, fontweight="bold")
    figure.text(left / width, 1 - 0.72 / height, subtitle, fontsize=10, color=panels.GRAY)
    crosses = len(results.eliminations) > 0
    panels.draw_line_key(figure, left / width, 1 - 1.12 / height, crosses=crosses, misspecified=misspecified)


def instances_figure(results: Results) -> Figure:
    """The figure of a run of several instances; no global setting of Matplotlib is changed."""
    from matplotlib.figure import Figure

    rows = [_row_of(results, instance) for instance in results.instances]
    title = TITLE + (FACT if any(row.facts for row in rows) else 0.0)
    height = HEAD + len(rows) * (title + ROW + BETWEEN) - BETWEEN + FOOT
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    longest = max(len(panels.end_label(curve)) for row in rows for curve in (*row.learners, *row.selectors))
    shares = SHARES if any(row.selectors for row in rows) else 0.0
    main_width = WIDTH - LEFT - panels.LABEL_GAP - CHARACTER * longest - SHARES_LEFT - shares - RIGHT

    def axes(label: str, left: float, top: float, wide: float, tall: float) -> Axes:
        box = (left / WIDTH, 1 - (top + tall) / height, wide / WIDTH, tall / height)
        return figure.add_axes(box, label=label)

    heading(figure, results, LEFT, misspecified=any(curve.misspecified for row in rows for curve in row.learners))
    for k, row in enumerate(rows):
        top = HEAD + k * (title + ROW + BETWEEN)
        figure.text(LEFT / WIDTH, 1 - (top + 0.26) / height, row.instance, fontsize=11.5, fontweight="bold")
        figure.text(LEFT / WIDTH, 1 - (top + 0.46) / height, row.facts, fontsize=9, color=panels.GRAY)
        main = axes(f"regret: {row.instance}", LEFT, top + title, main_width, ROW)
        _draw_main(main, row, last=k == len(rows) - 1)
        for position, (left, below, wide, tall) in enumerate(_places(len(row.selectors), title + ROW)):
            label = f"plays of {row.selectors[position].name}: {row.instance}"
            _draw_shares(axes(label, left, top + below, wide, tall), row, position, results.summary["seeds"])
    return figure


def _row_of(results: Results, instance: str) -> Row:
    learners = curves_over_seeds(results, "learner", instance)
    selectors = curves_over_seeds(results, "selector", instance)
    marks = [elimination_marks(results, selector.name, instance) for selector in selectors]
    unknown = facts(results.summary, instance)
    return Row(instance, learners, selectors, marks, f"Unknown to the learners: {unknown}" if unknown else "")


def _draw_main(axes: Axes, row: Row, *, last: bool) -> None:
    panels.draw_regret(axes, row.learners, row.selectors, row.marks)
    axes.set_xlabel("Rounds" if last else "", fontsize=9)
    axes.yaxis.label.set_fontsize(9)
    axes.tick_params(labelsize=8.5)


def _places(n_selectors: int, row_height: float) -> list[tuple[float, float, float, float]]:
    """(left, below the top of the row, width, height) of the small panels."""
    n_columns = min(PER_LINE, n_selectors)
    n_lines = ceil(n_selectors / PER_LINE)
    if not n_selectors:
        return []
    wide = (SHARES - SHARE_GAP * (n_columns - 1)) / n_columns
    tall = (row_height - n_lines * SHARE_TITLE - SHARE_GAP * (n_lines - 1)) / n_lines
    places = []
    for position in range(n_selectors):
        line, column = divmod(position, PER_LINE)
        left = WIDTH - RIGHT - SHARES + column * (wide + SHARE_GAP)
        places.append((left, line * (tall + SHARE_TITLE + SHARE_GAP) + SHARE_TITLE, wide, tall))
    return places


def _draw_shares(axes: Axes, row: Row, k: int, n_seeds: int) -> None:
    selector, marks, n_learners = row.selectors[k], row.marks[k], len(row.learners)
    panels.draw_shares(axes, selector, n_learners, marks, CROSS_SIZE)
    color, _ = panels.selector_style(k)
    panels.annotate_above(axes, panels.short(selector.name, 24), 14, color=color, fontsize=8.5, fontweight="bold")
    mean = sum(mark.n_seeds for mark in marks) / n_seeds
    note = f"eliminates {mean:.2g} of {n_learners}" if marks else "eliminates none"
    panels.annotate_above(axes, note, 4, color=panels.GRAY, fontsize=7.5)
    first_column, last_line = k % PER_LINE == 0, k + PER_LINE >= len(row.selectors)
    axes.set_xticks([0, int(selector.rounds[-1])])
    axes.tick_params(labelsize=7, labelleft=first_column, labelbottom=last_line)
    axes.set_ylabel("Share of plays" if first_column else "", fontsize=7.5)
    if last_line:  # labels of neighbors would meet
        first, last = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        last.set_horizontalalignment("right")
