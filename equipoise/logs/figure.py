"""The figure of a replay: values of the learners, their advantage over the log as rounds pass, and the log itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equipoise.lab.report.panels import GRAY, LIGHT_GRAY, learner_colors, short
from equipoise.logs.health import Health
from equipoise.logs.replay import Replay, Summary
from equipoise.logs.rounds import LoggedRounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 400  # of a curve
MAX_ACTIONS = 10  # with a color of their own


def replay_figure(log: LoggedRounds, health: Health, replay: Replay, summaries: Sequence[Summary]) -> Figure:
    """Two rows: values and running advantage above, rewards and action shares of the log below."""
    from matplotlib.figure import Figure

    height = 3.4 + 0.3 * len(replay.learners) + 2.4
    figure = Figure(figsize=(11.0, height), facecolor="white", layout="constrained")
    panels = figure.subplots(2, 2, gridspec_kw={"height_ratios": [height - 2.9, 2.4]})
    draw_values(panels[0][0], replay, summaries)
    draw_advantages(panels[0][1], replay)
    draw_rewards(panels[1][0], health)
    draw_shares(panels[1][1], health, log)
    return figure


def draw_values(axes: Axes, replay: Replay, summaries: Sequence[Summary]) -> None:
    """Value and interval of each learner, best on top; the logging policy as a line."""
    baseline, *learners = summaries
    colors, names = learner_colors(len(learners)), []
    axes.axvline(baseline.value, color=GRAY, linewidth=1.2, linestyle=":")
    axes.text(baseline.value, 0.02, " logging policy", transform=axes.get_xaxis_transform(), fontsize=8, color=GRAY)
    for place, i in enumerate(reversed(replay.ranking)):
        names.append(short(learners[i].name))
        axes.plot(learners[i].interval, [place, place], color=colors[i], linewidth=3, solid_capstyle="round")
        axes.plot([learners[i].value], [place], color=colors[i], marker="o", markersize=7, markeredgecolor="white")
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(-0.6, len(names) - 0.4)
    _frame(axes, "Value per round with its 95 % interval", "x")


def draw_advantages(axes: Axes, replay: Replay) -> None:
    """The running mean of each learner's advantage over the logging policy."""
    colors = learner_colors(len(replay.learners))
    axes.axhline(0.0, color=GRAY, linewidth=1.2, linestyle=":")
    for learner, color in zip(replay.learners, colors, strict=True):
        terms = learner.advantage(replay.method).terms
        if np.isnan(terms[0]):
            continue
        marks = np.unique(np.linspace(len(terms) // 50, len(terms) - 1, MAX_POINTS).astype(np.int64))
        axes.plot(marks + 1, np.cumsum(terms)[marks] / (marks + 1), color=color, linewidth=1.6)
    axes.set_xlabel("Rounds of the log", fontsize=9)
    _frame(axes, "Advantage over the logging policy, mean so far", "y")


def draw_rewards(axes: Axes, health: Health) -> None:
    tenths = np.arange(1, len(health.segment_rewards) + 1)
    axes.plot(tenths, health.segment_rewards, color=GRAY, marker="o", linewidth=1.4)
    axes.set_xlabel("Tenth of the log", fontsize=9)
    _frame(axes, "Mean logged reward", "y")


def draw_shares(axes: Axes, health: Health, log: LoggedRounds) -> None:
    """Shares of the actions over time; the least frequent ones together."""
    shares = np.array(health.segment_shares)
    order = np.argsort(-np.array(health.action_shares), kind="stable")
    shown, rest = order[:MAX_ACTIONS], order[MAX_ACTIONS:]
    rows, labels = [shares[:, k] for k in shown], [short(log.action_names[k]) for k in shown]
    colors = list(learner_colors(len(rows)))
    if len(rest):
        rows.append(shares[:, rest].sum(axis=1))
        labels.append(f"{len(rest)} others")
        colors.append(LIGHT_GRAY)
    axes.stackplot(np.arange(1, len(shares) + 1), rows, colors=colors, labels=labels)
    axes.set_ylim(0, 1)
    axes.set_xlabel("Tenth of the log", fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8, reverse=True)
    _frame(axes, "Share of logged actions", "y")


def _frame(axes: Axes, title: str, grid: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="x" if grid == "x" else "y", color=LIGHT_GRAY, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
