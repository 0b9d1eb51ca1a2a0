"""The figure of a portfolio over time: shares of plays, mean rewards with radii, certified regret, and marks.

Rounds have a logarithmic scale, as the samples of a history have. Learners have the colors of the figures of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equipoise.lab.report.panels import GRAY, LIGHT_GRAY, Color, learner_colors, play_shares, readable, short
from equipoise.portfolio import Portfolio
from equipoise.portfolio.history import Mark, Sample
from equipoise.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches.
WIDTH, PANEL, GAP, LEFT, RIGHT, TOP, BOTTOM, KEY_LINE = 9.0, 1.9, 0.5, 0.95, 0.25, 0.45, 0.5, 0.24
KEYS_PER_LINE = 4
SHOWN_MARKS = 12  # with numbers; more would overlap
BAND_ALPHA = 0.15
SHOWN_KINDS = ("drift", "eliminated", "learner_added", "learner_removed", "learner_suspended")


def shown_marks(marks: Sequence[Mark]) -> list[Mark]:
    """The marks that get a number in the figure: the newest ones, without what only ends or renames."""
    return [mark for mark in marks if mark.kind in SHOWN_KINDS][-SHOWN_MARKS:]


def portfolio_figure(portfolio: Portfolio) -> Figure:
    """The figure; no global setting of Matplotlib is changed."""
    from matplotlib.figure import Figure

    samples, names = [*portfolio.history.samples, _now(portfolio)], portfolio.learner_names
    key_lines = -(-len(names) // KEYS_PER_LINE)
    top = TOP + KEY_LINE * key_lines
    height = top + 3 * PANEL + 2 * GAP + BOTTOM
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    box = LEFT / WIDTH, PANEL / height, (WIDTH - LEFT - RIGHT) / WIDTH
    axes = [figure.add_axes((box[0], 1 - (top + PANEL + k * (PANEL + GAP)) / height, box[2], box[1])) for k in range(3)]
    colors = learner_colors(len(names))
    _shares(axes[0], samples, colors)
    _means(axes[1], samples, colors, portfolio.reward_range)
    _regret(axes[2], samples)
    for panel in axes:
        _frame(panel, samples[-1].round)
    axes[2].set_xlabel("Rounds (log scale)", fontsize=9)
    _mark(axes, shown_marks(portfolio.history.marks))
    _key(figure, names, colors, 1 - 0.08 / height)
    return figure


def _now(portfolio: Portfolio) -> Sample:
    certificate, rows = portfolio.certificate(), portfolio.standing()
    return Sample(
        max(certificate.rounds, 1),
        (certificate.optimum_lower, certificate.optimum_upper),
        (certificate.regret_lower, certificate.regret_upper),
        tuple(row.plays for row in rows),
        tuple(row.mean_reward for row in rows),
        tuple(row.mean_radius for row in rows),
    )


def _columns(samples: Sequence[Sample], name: str, missing: float) -> Array:
    """One row per sample and one column per learner; learners that joined later are missing before."""
    n_learners = len(samples[-1].plays)
    rows = [getattr(sample, name) for sample in samples]
    return np.array([[*row, *[missing] * (n_learners - len(row))] for row in rows], float)


def _rounds(samples: Sequence[Sample]) -> Array:
    return np.array([sample.round for sample in samples], float)


def _shares(axes: Axes, samples: Sequence[Sample], colors: Sequence[Color]) -> None:
    from matplotlib.ticker import FuncFormatter

    plays = _columns(samples, "plays", 0.0)
    increasing = np.flatnonzero(np.diff(plays.sum(axis=1), prepend=0.0) > 0.0)
    axes.set_ylabel("Share of plays", fontsize=9)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    if not len(increasing):
        return
    middles, shares = play_shares(_rounds(samples)[increasing].astype(np.int64), plays[None, increasing].astype(int))
    axes.stackplot(np.maximum(middles, 1.0), shares.T, colors=colors, linewidth=0)


def _means(axes: Axes, samples: Sequence[Sample], colors: Sequence[Color], units: tuple[float, float] | None) -> None:
    rounds = _rounds(samples)
    means, radii = _columns(samples, "mean_rewards", np.nan), _columns(samples, "mean_radii", np.nan)
    if units is not None:
        radii[radii > units[1] - units[0]] = np.nan  # which say nothing
    for mean, radius, color in zip(means.T, radii.T, colors, strict=True):
        axes.fill_between(rounds, mean - radius, mean + radius, color=color, alpha=BAND_ALPHA, linewidth=0)
        axes.plot(rounds, mean, color=color, linewidth=1.8)
    axes.set_ylabel("Mean reward\nand its radius", fontsize=9)
    if np.isfinite(means).any():
        low, high = float(np.nanmin(means)), float(np.nanmax(means))
        around = max(0.3 * (high - low), _typical(radii[-1]), 1e-9 * max(abs(low), abs(high), 1.0))
        low, high = low - around, high + around
        if units is not None:
            low, high = max(low, units[0]), min(high, units[1])
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def _typical(radii: Array) -> float:
    known = radii[np.isfinite(radii)]
    return 1.5 * float(np.median(known)) if len(known) else 0.0


def _regret(axes: Axes, samples: Sequence[Sample]) -> None:
    lower, upper = np.array([sample.regret for sample in samples]).T
    axes.fill_between(_rounds(samples), lower, upper, color="#D55E00", alpha=BAND_ALPHA, linewidth=0)
    axes.plot(_rounds(samples), upper, color="#D55E00", linewidth=2.0)
    axes.plot(_rounds(samples), lower, color="#D55E00", linewidth=1.2, linestyle=":")
    axes.set_ylabel("Certified regret:\nat most, at least", fontsize=9)
    axes.set_ylim(bottom=0)


def _frame(axes: Axes, last_round: int) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xscale("log")
    axes.set_xlim(1, max(last_round, 2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
    if not axes.get_ylabel().startswith("Share"):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
    axes.grid(True, color=LIGHT_GRAY, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: Sequence[Axes], marks: Sequence[Mark]) -> None:
    """A vertical line for each mark, with its number above the upper panel; numbers that would overlap move up."""
    last, height = 0.0, 0
    for k, mark in enumerate(marks):
        for panel in axes:
            panel.axvline(max(mark.round, 1), color=GRAY, linewidth=0.9, linestyle=(0, (3, 2)))
        place = float(axes[0].transAxes.inverted().transform(axes[0].transData.transform((max(mark.round, 1), 0)))[0])
        height = height + 1 if k and place - last < 0.025 else 0
        last = place
        axes[0].annotate(
            str(k + 1),
            (max(mark.round, 1), 1.0),
            (0, 2 + 8 * (height % 2)),
            textcoords="offset points",
            fontsize=8,
            color=GRAY,
            ha="center",
            va="bottom",
            annotation_clip=False,
        )


def _key(figure: Figure, names: Sequence[str], colors: Sequence[Color], top: float) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=short(name)) for name, color in zip(names, colors, strict=True)]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(LEFT / WIDTH, top),
        ncols=KEYS_PER_LINE,
        frameon=False,
        fontsize=9,
        handlelength=1.2,
        borderaxespad=0.0,
        borderpad=0.0,
    )
