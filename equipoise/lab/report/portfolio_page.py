"""The page of a portfolio: its statements, its figure, why each learner plays as it does, marks and settings.

The figure shows shares of plays, mean rewards with radii, and certified regret over time. Rounds have a logarithmic
scale, as the samples of a history have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from equipoise.certificates.wording import confidence_text
from equipoise.errors import InvalidArgument
from equipoise.lab.report import drawing, kit
from equipoise.learner import part_name
from equipoise.portfolio import Portfolio, text
from equipoise.portfolio.statements import Mark, Sample, Statements
from equipoise.storage.files import write_atomic
from equipoise.types import Array, Config

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Units: TypeAlias = tuple[float, float] | None  # the range of rewards

SUFFIXES = (".html", ".png", ".svg")
SHOWN_MARKS = 12  # with numbers; more would overlap
# Inches.
WIDTH, PANEL, GAP, LEFT, RIGHT, TOP, BOTTOM, KEY_LINE = 9.0, 1.9, 0.5, 0.95, 0.25, 0.45, 0.5, 0.24
KEYS_PER_LINE = 4
BAND_ALPHA = 0.15


def write(portfolio: Portfolio, path: Path) -> None:
    """Write a page, or the figure alone, by the ending of the path."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgument(f"path is {str(path)!r}, but must end in one of {', '.join(SUFFIXES)}")
    figure = draw(portfolio)
    if path.suffix == ".html":
        title = f"{part_name(portfolio.selector)} over {len(portfolio.learner_names)} learners"
        blocks = [kit.heading(title, 1), *_blocks(portfolio, drawing.image(figure, "svg").decode())]
        write_atomic(path, kit.page(title, blocks).encode())
    else:
        write_atomic(path, drawing.image(figure, path.suffix.removeprefix(".")))


def _blocks(portfolio: Portfolio, svg: str) -> Iterator[kit.Block | kit.Table]:
    rounds = portfolio.health()["rounds"]
    yield kit.paragraph(f"{rounds:,} rounds, {len(portfolio.pending):,} decisions without a reward.", kind="quiet")
    statements = portfolio.statements()
    statement, *notes = text.headlines(statements)
    notes += [statements.recommendation] if statements.recommendation else []
    yield kit.paragraph(statement, kind="claim")
    yield from map(kit.paragraph, notes)
    yield kit.heading("Over time")
    yield kit.picture(svg, "shares of plays, mean rewards and certified regret over time")
    yield _marks(portfolio.history.marks[-SHOWN_MARKS:])
    yield kit.heading("Learners")
    yield _standing(statements)
    yield from _radius_note(portfolio)
    yield kit.heading("Why does a learner play more or less?")
    yield kit.paragraph(text.rule(statements))
    for name in portfolio.learner_names:
        yield kit.heading(name, 3)
        yield kit.paragraph(portfolio.explain(name, with_rule=False))
    yield kit.heading("Settings")
    learners = zip(portfolio.learner_names, map(repr, portfolio.learners), strict=True)
    settings = portfolio.settings.to_plain().items()
    yield kit.settings_table([("selector", repr(portfolio.selector)), *learners, *settings])


def _marks(marks: Sequence[Mark]) -> kit.Block:
    if not marks:
        return kit.paragraph("No events yet.")
    items = []
    for mark in marks:
        until = "" if mark.until is None else f" until round {mark.until:,}"
        reason = f"{until}: {mark.reason}" if mark.reason else until
        items.append((f"Round {mark.round:,}: ", kit.Bold(mark.name), f" {text.happened(mark)}{reason}."))
    return kit.items(items, ordered=True)


def _standing(statements: Statements) -> kit.Table:
    total = sum(learner.standing.plays for learner in statements.learners) or 1
    body = []
    for learner in statements.learners:
        row, state = learner.standing, text.STATE_WORDS[learner.state]
        means = [kit.significant(each, 4) for each in (row.mean_reward, row.mean_radius)]
        body.append((learner.name, f"{row.plays:,}", kit.percent(row.plays / total), *means, state))
    return kit.Table(("", "plays", "share", "mean reward", "radius", "state"), body, left=(0, 5))


def _radius_note(portfolio: Portfolio) -> Iterator[kit.Block | kit.Table]:
    certificate = portfolio.certificate()
    if certificate.valid and not certificate.adversarial and certificate.delta < 1.0:
        yield kit.paragraph(
            "The best expected reward minus a learner's regret per play differs from its mean reward by at most its "
            f"radius, for all learners and rounds together with probability at least "
            f"{confidence_text(certificate.delta)}.",
            kind="quiet",
        )


def draw(portfolio: Portfolio) -> Figure:
    """The figure of a portfolio."""
    samples, names = [*portfolio.history.samples, _now(portfolio)], portfolio.learner_names
    key_lines = -(-len(names) // KEYS_PER_LINE)
    top = TOP + KEY_LINE * key_lines
    height = top + 3 * PANEL + 2 * GAP + BOTTOM
    figure, place = drawing.blank_figure(WIDTH, height)
    axes = [place("", LEFT, top + k * (PANEL + GAP), WIDTH - LEFT - RIGHT, PANEL) for k in range(3)]
    colors = drawing.learner_colors(len(names))
    _shares(axes[0], samples, colors)
    _means(axes[1], samples, colors, portfolio.reward_range)
    _regret(axes[2], samples)
    for panel in axes:
        panel.set_xscale("log")
        panel.set_xlim(1, max(samples[-1].round, 2))
        drawing.readable_ticks(panel.xaxis)
        drawing.frame(panel)
    drawing.readable_ticks(axes[1].yaxis, axes[2].yaxis)
    axes[2].set_xlabel("Rounds (log scale)", fontsize=9)
    _mark(axes, portfolio.history.marks[-SHOWN_MARKS:])
    keys, corner = drawing.color_keys(names, colors), (LEFT / WIDTH, 1 - 0.08 / height)
    style = {"loc": "upper left", "ncols": KEYS_PER_LINE, "fontsize": 9, "handlelength": 1.2}
    drawing.legend_at(figure, corner, keys, **style)
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


def _shares(axes: Axes, samples: Sequence[Sample], colors: Sequence[drawing.Color]) -> None:
    plays = _columns(samples, "plays", 0.0)
    increasing = np.flatnonzero(np.diff(plays.sum(axis=1), prepend=0.0) > 0.0)
    axes.set_ylabel("Share of plays", fontsize=9)
    drawing.share_axis(axes)
    if not len(increasing):
        return
    middles, shares = drawing.play_shares(
        _rounds(samples)[increasing].astype(np.int64), plays[None, increasing].astype(int)
    )
    axes.stackplot(np.maximum(middles, 1.0), shares.T, colors=colors, linewidth=0)


def _means(axes: Axes, samples: Sequence[Sample], colors: Sequence[drawing.Color], units: Units) -> None:
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
        known = radii[-1][np.isfinite(radii[-1])]
        typical = 1.5 * float(np.median(known)) if len(known) else 0.0
        around = max(0.3 * (high - low), typical, 1e-9 * max(abs(low), abs(high), 1.0))
        low, high = low - around, high + around
        if units is not None:
            low, high = max(low, units[0]), min(high, units[1])
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def _regret(axes: Axes, samples: Sequence[Sample]) -> None:
    rounds, color = _rounds(samples), drawing.selector_style(0)[0]
    lower, upper = np.array([sample.regret for sample in samples]).T
    axes.fill_between(rounds, lower, upper, color=color, alpha=BAND_ALPHA, linewidth=0)
    axes.plot(rounds, upper, color=color, linewidth=2.0)
    axes.plot(rounds, lower, color=color, linewidth=1.2, linestyle=":")
    axes.set_ylabel("Certified regret:\nat most, at least", fontsize=9)
    axes.set_ylim(bottom=0)


def _mark(axes: Sequence[Axes], marks: Sequence[Mark]) -> None:
    """A vertical line for each mark, with its number above the upper panel; numbers that would overlap move up."""
    last, height = 0.0, 0
    for k, mark in enumerate(marks):
        for panel in axes:
            panel.axvline(max(mark.round, 1), color=drawing.GRAY, linewidth=0.9, linestyle=(0, (3, 2)))
        place = float(axes[0].transAxes.inverted().transform(axes[0].transData.transform((max(mark.round, 1), 0)))[0])
        height = height + 1 if k and place - last < 0.025 else 0
        last = place
        where: Config = {
            "xy": (max(mark.round, 1), 1.0),
            "xytext": (0, 2 + 8 * (height % 2)),
            "textcoords": "offset points",
        }
        style: Config = {"fontsize": 8, "color": drawing.GRAY, "ha": "center", "va": "bottom", "annotation_clip": False}
        axes[0].annotate(str(k + 1), **where, **style)
