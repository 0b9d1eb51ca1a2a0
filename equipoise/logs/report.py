"""The report of a replay: tables, a figure, one HTML file with everything in it, and `replay.json`.

The figure has the values of the learners, their advantage over the log as rounds pass, and the log itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise.config import PortfolioConfig
from equipoise.lab.report import drawing, kit
from equipoise.lab.report.kit import Block, Bold, Code, Table, percent
from equipoise.logs import replay as replaying
from equipoise.logs.estimators import ESTIMATORS, Named
from equipoise.logs.health import Health, health
from equipoise.logs.models import check_range
from equipoise.logs.replay import LearnerReplay, PortfolioReplay, Progress, Replay, Summary
from equipoise.logs.rounds import LoggedRounds
from equipoise.portfolio.warm_start import no_rejection
from equipoise.storage.files import make_folder, write_atomic
from equipoise.types import Config

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 400  # of a curve
MAX_ACTIONS = 10  # with a color of their own
VERSION = 1
REPORT, DATA, PNG, SVG = "report.html", "replay.json", "replay.png", "replay.svg"
DELTA = 0.05
COLUMNS = ("value", "interval", "gain", "interval", "kind of interval", "effective rounds", "unsupported")
LABELS = {"betting": "95 % betting", "time_uniform": "95 % time-uniform", "bootstrap": "bootstrap"}


@dataclass(frozen=True, eq=False)
class Result:
    log: LoggedRounds
    health: Health
    replay: Replay
    summaries: tuple[Summary, ...]  # of the logging policy, then of the learners
    portfolio: PortfolioReplay | None  # None: the log does not allow rejection
    settings: Config


def run(log: LoggedRounds, config: PortfolioConfig, *, method: str, seed: int, progress: Progress) -> Result:
    """Replay a log for the learners of a configuration, each alone by `method`, and for the portfolio by rejection."""
    progress("checking", 0.0)
    whole = config.portfolio()
    limits = None if whole.settings.clip else whole.reward_range  # rewards of the log are not clipped
    check_range(log, limits)
    found = health(log)

    def halved(what: str, done: float) -> None:
        progress(what, 0.5 * done)

    learners = replaying.replay(log, config.learners(), method=method, seed=seed, reward_range=limits, progress=halved)
    allowed = not no_rejection(log.min_offered_exposure)
    portfolio = replaying.replay_portfolio(log, whole, seed=seed, progress=halved) if allowed else None
    settings = {"portfolio": config.name, "method": method, "seed": seed, "reward range": limits}
    return Result(log, found, learners, tuple(replaying.summarize(learners)), portfolio, settings)


def publish(result: Result, folder: Path) -> list[Path]:
    """Write report, figure and data; returns the files, the report first."""
    make_folder(folder)
    svg = drawing.save_figure(replay_figure(result), folder / PNG)
    write_atomic(folder / DATA, kit.json_text(to_json(result)).encode())
    title = f"Replay of {result.log.name}"
    write_atomic(folder / REPORT, kit.page(title, [kit.heading(title, 1), *_blocks(result, svg)]).encode())
    return [folder / name for name in (REPORT, PNG, SVG, DATA)]


def _blocks(result: Result, svg: str) -> Iterator[Block | Table]:
    log, health = result.log, result.health
    best, rounds = result.summaries[1 + result.replay.ranking[0]], f"On {log.n_rounds:,} logged rounds"
    if isfinite(best.value):
        yield kit.paragraph(
            f"{rounds} with {log.n_actions} actions, ",
            Bold(best.name),
            f" ranks first with a value of {best.value:.4f} per round, {best.advantage:+.4f} against the policy that "
            f"logged them ({health.mean_reward:.4f}).",
            kind="claim",
        )
    else:
        yield kit.paragraph(f"{rounds}, no learner has a value.", kind="claim")
    if not health.passed:
        yield kit.paragraph(Bold("The log fails its health check, so no number below can be relied on."))
    yield kit.heading("Learners")
    yield learner_table(result)
    yield _explanations(result)
    yield kit.text_table(("interval", ""), interval_lines(result))
    yield kit.heading("Values and the log over time")
    yield kit.picture(svg, f"Replay of {log.name}")
    yield kit.heading("Portfolio")
    yield from _portfolio(result)
    yield kit.heading("Suggested bounds")
    yield kit.paragraph(
        "The smallest coefficient for which c √n covers the loss of each learner against the best one in this log: a "
        "starting point for ",
        Code("portfolio.toml"),
        ", not a promise.",
    )
    yield kit.listing("\n".join(bound_lines(result.replay)))
    yield kit.heading("Health of the log")
    marks = {True: "ok", False: "failed", None: "note"}
    yield kit.text_table(
        ("check", "result", ""), [(each.name, marks[each.passed], each.text) for each in health.checks]
    )
    if log.n_skipped:
        yield kit.paragraph(f"{log.n_skipped:,} faulty rows were skipped. The first:")
        yield kit.text_table(("row", "rule"), [(str(fault.row), fault.rule) for fault in log.skipped])
    yield kit.heading("Settings")
    yield kit.settings_table(result.settings.items())


def learner_table(result: Result) -> Table:
    """The table of learners, best first, below the logging policy."""
    baseline, *learners = result.summaries
    logged = f"{baseline.value:.4f}", _ends(baseline.interval), "", "", LABELS[baseline.interval.name]
    rows = [[baseline.name, *logged, "", ""]]
    for i in result.replay.ranking:
        row, learner = learners[i], result.replay.learners[i]
        if not isfinite(row.value):
            rows.append([row.name, "none", *[""] * 6])
            continue
        rows.append(
            [
                row.name,
                f"{row.value:.4f}",
                _ends(row.interval),
                f"{row.advantage:+.4f}",
                _ends(row.advantage_interval),
                ", ".join(dict.fromkeys(LABELS[each.name] for each in (row.interval, row.advantage_interval))),
                f"{row.effective_rounds:,.0f}",
                percent(learner.evaluation.unsupported_share),
            ]
        )
    return Table(("", *COLUMNS), rows)


def _ends(named: Named) -> str:
    return f"{named.interval.low:.4f} to {named.interval.high:.4f}"


def interval_lines(result: Result) -> list[tuple[str, str]]:
    """Every kind of interval in the table with its conditions, and why values or guaranteed intervals are missing."""
    shown, replay = [row.interval for row in result.summaries if isfinite(row.value)], result.replay
    shown += [row.advantage_interval for row in result.summaries[1:] if isfinite(row.value)]
    lines = {LABELS[each.name]: each.conditions for each in shown}
    for learner, row in zip(replay.learners, result.summaries[1:], strict=True):
        at, reason = learner.unsupported_row, learner.estimate(replay.method).refusals.get("time_uniform")
        if not isfinite(row.value):
            why = "no round" if at is None else f"takes an action of probability 0 in the log, first in row {at}"
            lines[f"no value: {row.name}"] = why
        elif reason:
            lines["95 % time-uniform, values of learners"] = f"not offered: {reason}"
    return list(lines.items())


def bound_lines(replay: Replay) -> list[str]:
    """Lines for `portfolio.toml`."""
    lines = []
    for learner, c in zip(replay.learners, replay.suggested_coefficients(), strict=True):
        value = f'bound = {{ use = "Power", coefficient = {c:g} }}' if isfinite(c) else "# too few rounds for a bound"
        lines.append(f"{value}  # {learner.name}")
    return lines


def to_json(result: Result) -> Config:
    """The content of `replay.json`."""
    replay, portfolio = result.replay, result.portfolio
    return {
        "version": VERSION,
        "log": {"name": result.log.name, "rounds": result.log.n_rounds, "actions": list(result.log.action_names)},
        "skipped_rows": {"count": result.log.n_skipped, "first": [fault._asdict() for fault in result.log.skipped]},
        "health": result.health.to_json(),
        "settings": result.settings,
        "method": replay.method,
        "logged": _summary(result.summaries[0]),
        "ranking": [replay.learners[i].name for i in replay.ranking],
        "learners": [
            {**_summary(row), **_learner(learner, replay.method)}
            for row, learner in zip(result.summaries[1:], replay.learners, strict=True)
        ],
        "suggested_coefficients": replay.suggested_coefficients(),
        "portfolio": portfolio
        and {
            "learners": list(portfolio.names),
            "plays": list(portfolio.plays),
            "rounds": len(portfolio.rewards),
            "value": portfolio.estimate.value if len(portfolio.rewards) else None,
        },
    }


def _summary(row: Summary) -> Config:
    return {
        **row._asdict(),
        "interval": _named(row.interval),
        "advantage_interval": _named(row.advantage_interval),
    }


def _named(named: Named) -> Config:
    return {"name": named.name, **named.interval._asdict(), "conditions": named.conditions}


def _learner(learner: LearnerReplay, method: str) -> Config:
    evaluation = learner.evaluation
    names = [name for name in ESTIMATORS if evaluation.predicted is not None or name not in ("DM", "DR", "SWITCH-DR")]
    supported = learner.unsupported_row is None
    return {
        "estimates": {name: ESTIMATORS[name](evaluation).value for name in names} if supported else {},
        "intervals_not_offered": dict(learner.estimate(method).refusals),
        "unsupported_row": learner.unsupported_row,
        "effective_sample_size": evaluation.effective_sample_size,
        "max_weight": float(evaluation.weights.max()),
        "agreement": learner.agreement,
        "unsupported_share": evaluation.unsupported_share,
        "accepted_rounds": len(learner.accepted),
    }


def _explanations(result: Result) -> Block:
    how = (
        "Every learner is judged by importance weights before it learns from each round; the value is doubly robust "
        "if the log has few enough features for a model of the reward."
        if result.replay.method == "progressive"
        else "A learner plays the rounds in which it proposes the logged action, thinned to equal propensities."
    )
    return kit.paragraph(
        f"{how} Each interval is of a single number; comparing many learners needs more. Gain: value above the logging "
        "policy's. Effective rounds: how many rounds of its own would be as informative. Unsupported: estimated share "
        "of actions that the log never takes.",
        kind="quiet",
    )


def portfolio_line(result: Result) -> str:
    """The value of the whole portfolio, or why there is none."""
    portfolio, log = result.portfolio, result.log
    if portfolio is None:
        return f"The portfolio is not replayed by rejection: {no_rejection(log.min_offered_exposure)}."
    if not len(portfolio.rewards):
        return "No logged round matches a decision of the portfolio."
    named = portfolio.estimate.interval(DELTA)
    return (
        f"The portfolio by rejection: {portfolio.estimate.value:.4f} per round over {len(portfolio.rewards):,} of "
        f"{log.n_rounds:,} rounds ({_ends(named)}, {LABELS[named.name]})"
    )


def _portfolio(result: Result) -> Iterator[Block | Table]:
    portfolio = result.portfolio
    yield kit.paragraph(portfolio_line(result))
    if portfolio is None or not len(portfolio.rewards):
        return
    total = max(sum(portfolio.plays), 1)
    pairs = zip(portfolio.names, portfolio.plays, strict=True)
    yield Table(("", "plays", "share"), [(name, f"{plays:,}", percent(plays / total)) for name, plays in pairs])
    yield kit.quote(portfolio.description)


def replay_figure(result: Result) -> Figure:
    """Two rows: values and running advantage above, rewards and action shares of the log below."""
    from matplotlib.figure import Figure

    height = 3.4 + 0.3 * len(result.replay.learners) + 2.4
    figure = Figure(figsize=(11.0, height), facecolor="white", layout="constrained")
    panels = figure.subplots(2, 2, gridspec_kw={"height_ratios": [height - 2.9, 2.4]})
    _draw_values(panels[0][0], result.replay, result.summaries)
    _draw_advantages(panels[0][1], result.replay)
    _draw_rewards(panels[1][0], result.health)
    _draw_actions(panels[1][1], result.health, result.log)
    return figure


def _draw_values(axes: Axes, replay: Replay, summaries: Sequence[Summary]) -> None:
    """Value and interval of each learner, best on top; the logging policy as a line."""
    baseline, *learners = summaries
    colors, names = drawing.learner_colors(len(learners)), []
    axes.axvline(baseline.value, color=drawing.GRAY, linewidth=1.2, linestyle=":")
    axes.text(
        baseline.value, 0.02, " logging policy", transform=axes.get_xaxis_transform(), fontsize=8, color=drawing.GRAY
    )
    for place, i in enumerate(reversed(replay.ranking)):
        names.append(kit.short(learners[i].name))
        axes.plot(learners[i].interval.interval, [place, place], color=colors[i], linewidth=3, solid_capstyle="round")
        axes.plot([learners[i].value], [place], color=colors[i], marker="o", markersize=7, markeredgecolor="white")
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_title("Value per round with its interval", loc="left", fontsize=10)
    drawing.frame(axes, grid="x")


def _draw_advantages(axes: Axes, replay: Replay) -> None:
    """The running mean of each learner's advantage over the logging policy."""
    colors = drawing.learner_colors(len(replay.learners))
    axes.axhline(0.0, color=drawing.GRAY, linewidth=1.2, linestyle=":")
    for learner, color in zip(replay.learners, colors, strict=True):
        terms = learner.advantage(replay.method).terms
        if np.isnan(terms[0]):
            continue
        marks = np.unique(np.linspace(len(terms) // 50, len(terms) - 1, MAX_POINTS).astype(np.int64))
        axes.plot(marks + 1, np.cumsum(terms)[marks] / (marks + 1), color=color, linewidth=1.6)
    axes.set_xlabel("Rounds of the log", fontsize=9)
    axes.set_title("Advantage over the logging policy, mean so far", loc="left", fontsize=10)
    drawing.frame(axes, grid="y")


def _draw_rewards(axes: Axes, health: Health) -> None:
    tenths = np.arange(1, len(health.segment_rewards) + 1)
    axes.plot(tenths, health.segment_rewards, color=drawing.GRAY, marker="o", linewidth=1.4)
    axes.set_xlabel("Tenth of the log", fontsize=9)
    axes.set_title("Mean logged reward", loc="left", fontsize=10)
    drawing.frame(axes, grid="y")


def _draw_actions(axes: Axes, health: Health, log: LoggedRounds) -> None:
    """Shares of the actions over time; the least frequent ones together."""
    shares = np.array(health.segment_shares)
    order = np.argsort(-np.array(health.action_shares), kind="stable")
    shown, rest = order[:MAX_ACTIONS], order[MAX_ACTIONS:]
    rows, labels = [shares[:, k] for k in shown], [kit.short(log.action_names[k]) for k in shown]
    colors = list(drawing.learner_colors(len(rows)))
    if len(rest):
        rows.append(shares[:, rest].sum(axis=1))
        labels.append(f"{len(rest)} others")
        colors.append(drawing.LIGHT_GRAY)
    axes.stackplot(np.arange(1, len(shares) + 1), rows, colors=colors, labels=labels)
    drawing.share_axis(axes)
    axes.set_xlabel("Tenth of the log", fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8, reverse=True)
    axes.set_title("Share of logged actions", loc="left", fontsize=10)
    drawing.frame(axes, grid="y")
