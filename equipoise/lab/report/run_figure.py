"""The figure of a run: regret of each selector and of each learner alone, shares of plays, and certified regret.

Of a single instance, the upper panel shows cumulative regret over rounds. Below, one column per selector: the shares of
plays, with a cross where a learner was eliminated, and the certified next to the true regret. A run of several
instances has a row for each: regret on the left, and on the right a small panel of shares per selector.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise.lab.report import panels
from equipoise.lab.report.drawing import GRAY, blank_figure, selector_style
from equipoise.lab.report.kit import short
from equipoise.lab.report.panels import Curves, Mark
from equipoise.lab.runs.results import Results
from equipoise.lab.runs.summary import facts, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from equipoise.lab.report.drawing import Place

# Inches, unless said otherwise.
WIDTH, LEFT, HEAD, FOOT = 11.0, 1.1, 1.3, 0.5
# Of a single instance.
MAIN, BELOW_MAIN = 4.0, 0.55
SHARES, CERTIFIED, BETWEEN, COLUMN_GAP, ROW_GAP = 1.45, 1.15, 0.14, 0.55, 0.45
TITLE, NOTE = 0.3, 0.155
PANELS_PER_ROW = 3
MIN_LABELS = 22  # characters; the width of the keys of the lower panels
# Of several instances.
RIGHT, NAME, FACT, ROW, BETWEEN_ROWS = 0.2, 0.42, 0.16, 2.75, 0.55
SMALL_PANELS, SMALL_GAP, SMALL_TITLE, SMALL_LEFT = 2.75, 0.24, 0.36, 0.6
PER_LINE = 2  # small panels next to each other
CHARACTER = 0.09  # of a label
CROSS_SIZE = 6.0  # points


def regret_figure(results: Results) -> Figure:
    """The figure of a run."""
    return _instances_figure(results) if len(results.instances) > 1 else _single_figure(results)


def curves_over_seeds(results: Results, kind: str, instance: str = "") -> list[Curves]:
    """The curves of one kind, each gathered over seeds, in the order of the run."""
    found, n_learners = [], len(rows_of(results.summary, "learners", instance))
    curves = results.curves_of(instance).filter(kind=kind)
    for row in rows_of(results.summary, f"{kind}s", instance):
        rows = curves.filter(curve=row["name"]).sort("seed", "round")
        rounds = rows["round"].unique().sort().to_numpy()
        shape = (-1, len(rounds))
        found.append(
            Curves(
                row["name"],
                rounds,
                rows["regret"].to_numpy().reshape(shape),
                None if rows["certified_regret"].null_count() else rows["certified_regret"].to_numpy().reshape(shape),
                None if rows["plays"].null_count() else np.array(rows["plays"].to_list()).reshape(*shape, n_learners),
                row.get("well_specified_share", 1.0) < 0.5,
            )
        )
    return found


def elimination_marks(results: Results, selector: str, instance: str = "") -> list[Mark]:
    """The learners that a selector eliminated in some seed, by median round."""
    rounds: dict[tuple[int, str], list[int]] = {}
    for record in results.eliminations_of(instance).filter(selector=selector).to_dicts():
        rounds.setdefault((record["learner"]["index"], record["learner"]["name"]), []).append(record["round"])
    marks = [Mark(index, name, float(np.median(found)), len(found)) for (index, name), found in rounds.items()]
    return sorted(marks, key=lambda mark: (mark.median_round, mark.learner))


class _Shown(NamedTuple):
    instance: str
    learners: list[Curves]
    selectors: list[Curves]
    marks: list[list[Mark]]
    facts: str  # what is unknown to the learners


def _shown(results: Results, instance: str) -> _Shown:
    learners = curves_over_seeds(results, "learner", instance)
    selectors = curves_over_seeds(results, "selector", instance)
    marks = [elimination_marks(results, selector.name, instance) for selector in selectors]
    unknown = facts(results.summary, instance)
    return _Shown(instance, learners, selectors, marks, f"Unknown to the learners: {unknown}" if unknown else "")


def _heading(figure: Figure, results: Results, learners: Iterable[Curves]) -> None:
    left, height = LEFT / WIDTH, figure.get_figheight()
    n_seeds, rounds = results.summary["seeds"], results.summary["rounds"]
    seeds = f"mean of {n_seeds} seeds, bands from the 10th to the 90th percentile" if n_seeds > 1 else "1 seed"
    title, subtitle = results.experiment["title"], f"Cumulative regret over {rounds:,} rounds, {seeds}"
    figure.text(left, 1 - 0.45 / height, title, fontsize=15, fontweight="bold")
    figure.text(left, 1 - 0.72 / height, subtitle, fontsize=10, color=GRAY)
    crosses, dotted = len(results.eliminations) > 0, any(learner.misspecified for learner in learners)
    panels.draw_line_key(figure, left, 1 - 1.12 / height, crosses=crosses, misspecified=dotted)


class _Layout(NamedTuple):
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


def _single_figure(results: Results) -> Figure:
    _, learners, selectors, marks, _ = _shown(results, "")
    layout = _layout([*learners, *selectors], selectors, marks)
    figure, axes = blank_figure(WIDTH, layout.height)
    _heading(figure, results, learners)
    panels.draw_regret(axes("regret", LEFT, HEAD, layout.right - LEFT, MAIN), learners, selectors, marks)
    scale = panels.regret_scale([final for selector in selectors for final in panels.final_regrets(selector)])
    for k, selector in enumerate(selectors):
        _draw_block(axes, layout, results, k, selector, marks[k], scale)
    if selectors:
        panels.draw_keys(figure, learners, layout.certified)
    return figure


def _draw_block(
    axes: Place, layout: _Layout, results: Results, k: int, selector: Curves, marks: list[Mark], scale: panels.Scale
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


def _layout(curves: list[Curves], selectors: list[Curves], marks: list[list[Mark]]) -> _Layout:
    n_rows = ceil(len(selectors) / PANELS_PER_ROW)
    n_columns = ceil(len(selectors) / max(n_rows, 1)) or 1
    longest = max(MIN_LABELS, *(len(panels.end_label(curve)) for curve in curves))
    right = WIDTH - 0.5 - 0.088 * longest
    column_width = (right - LEFT - COLUMN_GAP * (n_columns - 1)) / n_columns
    notes_height = NOTE * max((len(panels.notes(found, 1, column_width)) for found in marks), default=0)
    certified = any(selector.certified is not None for selector in selectors)
    block_height = TITLE + notes_height + SHARES + (BETWEEN + CERTIFIED if certified else 0.0)
    height = HEAD + MAIN + BELOW_MAIN + n_rows * (block_height + ROW_GAP) - ROW_GAP + FOOT
    return _Layout(height, right, n_columns, column_width, block_height, notes_height, certified)


def _instances_figure(results: Results) -> Figure:
    rows = [_shown(results, instance) for instance in results.instances]
    title = NAME + (FACT if any(row.facts for row in rows) else 0.0)
    height = HEAD + len(rows) * (title + ROW + BETWEEN_ROWS) - BETWEEN_ROWS + FOOT
    figure, axes = blank_figure(WIDTH, height)
    longest = max(len(panels.end_label(curve)) for row in rows for curve in (*row.learners, *row.selectors))
    shares = SMALL_PANELS if any(row.selectors for row in rows) else 0.0
    main_width = WIDTH - LEFT - panels.LABEL_GAP - CHARACTER * longest - SMALL_LEFT - shares - RIGHT
    _heading(figure, results, [curve for row in rows for curve in row.learners])
    for k, row in enumerate(rows):
        top = HEAD + k * (title + ROW + BETWEEN_ROWS)
        figure.text(LEFT / WIDTH, 1 - (top + 0.26) / height, row.instance, fontsize=11.5, fontweight="bold")
        figure.text(LEFT / WIDTH, 1 - (top + 0.46) / height, row.facts, fontsize=9, color=GRAY)
        main = axes(f"regret: {row.instance}", LEFT, top + title, main_width, ROW)
        panels.draw_regret(main, row.learners, row.selectors, row.marks)
        main.set_xlabel("Rounds" if k == len(rows) - 1 else "", fontsize=9)
        main.yaxis.label.set_fontsize(9)
        main.tick_params(labelsize=8.5)
        for position, (left, below, wide, tall) in enumerate(_places(len(row.selectors), title + ROW)):
            label = f"plays of {row.selectors[position].name}: {row.instance}"
            _draw_small(axes(label, left, top + below, wide, tall), row, position, results.summary["seeds"])
    return figure


def _places(n_selectors: int, row_height: float) -> list[tuple[float, float, float, float]]:
    """(left, below the top of the row, width, height) of the small panels."""
    n_columns = min(PER_LINE, n_selectors)
    n_lines = ceil(n_selectors / PER_LINE)
    if not n_selectors:
        return []
    wide = (SMALL_PANELS - SMALL_GAP * (n_columns - 1)) / n_columns
    tall = (row_height - n_lines * SMALL_TITLE - SMALL_GAP * (n_lines - 1)) / n_lines
    places = []
    for position in range(n_selectors):
        line, column = divmod(position, PER_LINE)
        left = WIDTH - RIGHT - SMALL_PANELS + column * (wide + SMALL_GAP)
        places.append((left, line * (tall + SMALL_TITLE + SMALL_GAP) + SMALL_TITLE, wide, tall))
    return places


def _draw_small(axes: Axes, row: _Shown, k: int, n_seeds: int) -> None:
    selector, marks, n_learners = row.selectors[k], row.marks[k], len(row.learners)
    panels.draw_shares(axes, selector, n_learners, marks, CROSS_SIZE)
    color, _ = selector_style(k)
    panels.annotate_above(axes, short(selector.name, 24), 14, color=color, fontsize=8.5, fontweight="bold")
    mean = sum(mark.n_seeds for mark in marks) / n_seeds
    note = f"eliminates {mean:.2g} of {n_learners}" if marks else "eliminates none"
    panels.annotate_above(axes, note, 4, color=GRAY, fontsize=7.5)
    first_column, last_line = k % PER_LINE == 0, k + PER_LINE >= len(row.selectors)
    axes.set_xticks([0, int(selector.rounds[-1])])
    axes.tick_params(labelsize=7, labelleft=first_column, labelbottom=last_line)
    axes.set_ylabel("Share of plays" if first_column else "", fontsize=7.5)
    if last_line:  # labels of neighbors would meet
        first, last = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        last.set_horizontalalignment("right")
