"""The report of a replay: tables as text, one HTML file with everything in it, and `replay.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from equipoise.lab.report.figures import save_figure
from equipoise.lab.report.html import inline, page, table
from equipoise.logs.estimators import ESTIMATORS
from equipoise.logs.figure import replay_figure
from equipoise.logs.health import Health
from equipoise.logs.intervals import Interval
from equipoise.logs.replay import LearnerReplay, PortfolioReplay, Replay, Summary
from equipoise.logs.rounds import Fault, LoggedRounds
from equipoise.storage.files import make_folder, write_atomic
from equipoise.types import Config

VERSION = 1
REPORT, DATA, PNG, SVG = "report.html", "replay.json", "replay.png", "replay.svg"
DELTA = 0.05
COLUMNS = ("value", "95 % interval", "gain", "95 % interval", "effective rounds", "agreement", "unsupported")


@dataclass(frozen=True, eq=False)
class Result:
    """Everything that a replay found."""

    log: LoggedRounds
    health: Health
    replay: Replay
    summaries: tuple[Summary, ...]  # of the logging policy, then of the learners
    portfolio: PortfolioReplay
    settings: Config


def publish(result: Result, folder: Path) -> list[Path]:
    """Write report, figure and data; returns the files, the report first."""
    make_folder(folder)
    svg = save_figure(replay_figure(result.log, result.health, result.replay, result.summaries), folder, PNG, SVG)
    write_atomic(folder / DATA, json.dumps(to_json(result), indent=1).encode())
    title = f"Replay of {result.log.name}"
    sections = [
        _head(result, title),
        ("<h2>Learners</h2>", table(["", *COLUMNS], learner_rows(result)), _explanations(result.replay)),
        ("<h2>Values and the log over time</h2>", f"<figure>{inline(svg, title)}</figure>"),
        ("<h2>Portfolio</h2>", *_portfolio(result)),
        ("<h2>Suggested bounds</h2>", _bounds_note(), f"<pre>{escape(chr(10).join(bound_lines(result.replay)))}</pre>"),
        ("<h2>Health of the log</h2>", *_health(result)),
        ("<h2>Settings</h2>", table(["setting", "value"], _settings(result), kind="settings")),
    ]
    write_atomic(folder / REPORT, page(title, sections).encode())
    return [folder / name for name in (REPORT, PNG, SVG, DATA)]


def learner_rows(result: Result) -> list[list[str]]:
    """The table of learners, best first, below the logging policy."""
    baseline, *learners = result.summaries
    rows = [[baseline.name, f"{baseline.value:.4f}", _text(baseline.interval), *[""] * 5]]
    for i in result.replay.ranking:
        row, learner = learners[i], result.replay.learners[i]
        if not isfinite(row.value):
            rows.append([row.name, "no round", *[""] * 6])
            continue
        rows.append(
            [
                row.name,
                f"{row.value:.4f}",
                _text(row.interval),
                f"{row.advantage:+.4f}",
                _text(row.advantage_interval),
                f"{row.effective_rounds:,.0f}",
                f"{learner.agreement:.1%}",
                f"{learner.evaluation.unsupported_share:.1%}",
            ]
        )
    return rows


def _text(interval: Interval) -> str:
    return f"{interval.low:.4f} to {interval.high:.4f}"


def bound_lines(replay: Replay) -> list[str]:
    """Lines for `portfolio.toml`."""
    lines = []
    for learner, c in zip(replay.learners, replay.suggested_coefficients(), strict=True):
        value = f'bound = {{ use = "Power", coefficient = {c:g} }}' if isfinite(c) else "# too few rounds for a bound"
        lines.append(f"{value}  # {learner.name}")
    return lines


def to_json(result: Result) -> Config:
    """The content of `replay.json`: plain data, None for what is unknown."""
    replay, portfolio = result.replay, result.portfolio
    content = {
        "version": VERSION,
        "log": {"name": result.log.name, "rounds": result.log.n_rounds, "actions": list(result.log.action_names)},
        "skipped_rows": {"count": result.log.n_skipped, "first": [fault._asdict() for fault in result.log.skipped]},
        "health": result.health.to_json(),
        "settings": result.settings,
        "method": replay.method,
        "logged": _summary(result.summaries[0]),
        "ranking": [replay.learners[i].name for i in replay.ranking],
        "learners": [
            {**_summary(row), **_learner(learner)}
            for row, learner in zip(result.summaries[1:], replay.learners, strict=True)
        ],
        "suggested_coefficients": replay.suggested_coefficients(),
        "portfolio": {
            "learners": list(portfolio.names),
            "excluded": list(portfolio.excluded),
            "plays": list(portfolio.plays),
            "rounds": len(portfolio.rewards),
            "value": portfolio.estimate.value if len(portfolio.rewards) else None,
        },
    }
    plain: Config = _plain(content)
    return plain


def _summary(row: Summary) -> Config:
    intervals = {"interval": row.interval._asdict(), "advantage_interval": row.advantage_interval._asdict()}
    return {**row._asdict(), **intervals}


def _learner(learner: LearnerReplay) -> Config:
    evaluation = learner.evaluation
    names = [name for name in ESTIMATORS if evaluation.predicted is not None or name not in ("DM", "DR", "SWITCH-DR")]
    return {
        "estimates": {name: ESTIMATORS[name](evaluation).value for name in names},
        "time_uniform": learner.estimate("progressive").time_uniform(DELTA)._asdict(),
        "effective_sample_size": evaluation.effective_sample_size,
        "max_weight": float(evaluation.weights.max()),
        "agreement": learner.agreement,
        "unsupported_share": evaluation.unsupported_share,
        "accepted_rounds": len(learner.accepted),
    }


def _plain(value: Any) -> Any:
    """The value without nan and infinities, which are not JSON."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _head(result: Result, title: str) -> Iterable[str]:
    log, health = result.log, result.health
    yield f"<h1>{escape(title)}</h1>"
    best = result.summaries[1 + result.replay.ranking[0]]
    yield (
        f"<p class='claim'>On {log.n_rounds:,} logged rounds with {log.n_actions} actions, <b>{escape(best.name)}</b> "
        f"ranks first with a value of {best.value:.4f} per round, {best.advantage:+.4f} against the policy that "
        f"logged them ({health.mean_reward:.4f}).</p>"
    )
    if not health.passed:
        yield "<p><b>The log fails its health check, so no number below can be relied on.</b></p>"


def _explanations(replay: Replay) -> str:
    how = (
        "Every learner is judged by importance weights before it learns from each round; the value is doubly robust "
        "if the log has few enough features for a model of the reward."
        if replay.method == "progressive"
        else "A learner plays the rounds in which it proposes the logged action, thinned to equal propensities."
    )
    return (
        f"<p class='quiet'>{how} Intervals are bootstrap percentiles of single numbers; comparing many learners needs "
        "more. Gain: value above that of the logging policy. Effective rounds: how many rounds of its own would be as "
        "informative. Agreement: share of rounds with "
        "the logged action. Unsupported: estimated share of actions that the log never takes.</p>"
    )


def _portfolio(result: Result) -> Iterable[str]:
    portfolio = result.portfolio
    for name in portfolio.excluded:
        yield f"<p><b>{escape(name)}</b> is excluded: the log does not take its actions.</p>"
    if not len(portfolio.rewards):
        yield "<p>No logged round matches a decision of the portfolio.</p>"
        return
    yield (
        f"<p>The whole portfolio by rejection: {len(portfolio.rewards):,} of {result.log.n_rounds:,} rounds remain, "
        f"with a mean reward of {portfolio.estimate.value:.4f} ({_text(portfolio.estimate.bootstrap(DELTA))}).</p>"
    )
    total = max(sum(portfolio.plays), 1)
    rows = [
        [name, f"{plays:,}", f"{plays / total:.1%}"]
        for name, plays in zip(portfolio.names, portfolio.plays, strict=True)
    ]
    yield table(["", "plays", "share"], rows)
    yield f"<blockquote>{'<br>'.join(map(escape, portfolio.description.splitlines()))}</blockquote>"


def _bounds_note() -> str:
    return (
        "<p>The smallest coefficient for which c √n covers the loss of each learner against the best one in this log: "
        "a starting point for <code>portfolio.toml</code>, not a promise.</p>"
    )


def _health(result: Result) -> Iterable[str]:
    marks = {True: "ok", False: "failed", None: "note"}
    rows = [[check.name, marks[check.passed], check.text] for check in result.health.checks]
    yield table(["check", "result", ""], rows, kind="settings")
    if result.log.n_skipped:
        yield f"<p>{result.log.n_skipped:,} faulty rows were skipped. The first:</p>"
        yield table(["row", "rule"], fault_rows(result.log.skipped), kind="settings")


def fault_rows(faults: Sequence[Fault]) -> list[list[str]]:
    return [[str(fault.row), fault.rule] for fault in faults]


def _settings(result: Result) -> list[list[str]]:
    return [[key, str(value)] for key, value in result.settings.items()]
