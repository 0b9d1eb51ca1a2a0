"""The page of a portfolio: what it states, its figure, why each learner plays as it does, marks and settings."""

from __future__ import annotations

import io
from collections.abc import Iterable
from html import escape
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.certificates.wording import confidence_text
from equipoise.errors import InvalidArgument
from equipoise.lab.report.html import inline, page, table
from equipoise.lab.report.portfolio_figure import portfolio_figure, shown_marks
from equipoise.learner import part_name
from equipoise.portfolio import Portfolio
from equipoise.portfolio.explaining import explain, rule_of
from equipoise.storage.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".html", ".png", ".svg")
SETTINGS = (
    "reward_range",
    "clip",
    "seed",
    "share_data",
    "deadline",
    "default_reward",
    "aggregate",
    "delays",
    "explore",
    "availability",
)
HAPPENED = {
    "drift": "drift alarm",
    "eliminated": "eliminated",
    "learner_added": "added",
    "learner_removed": "removed",
    "learner_suspended": "suspended",
}


def draw(portfolio: Portfolio) -> Figure:
    """The figure of a portfolio."""
    return portfolio_figure(portfolio)


def write(portfolio: Portfolio, path: Path) -> None:
    """Write a page, or the figure alone, by the ending of the path."""
    if path.suffix not in SUFFIXES:
        raise InvalidArgument(f"path is {str(path)!r}, but must end in one of {', '.join(SUFFIXES)}")
    figure = draw(portfolio)
    if path.suffix == ".html":
        write_atomic(path, whole_page(portfolio, _image(figure, "svg").decode()).encode())
    else:
        write_atomic(path, _image(figure, path.suffix.removeprefix(".")))


def _image(figure: Figure, kind: str) -> bytes:
    """The figure as an image; the same figure gives the same bytes."""
    import matplotlib as mpl

    image = io.BytesIO()
    empty = {"Software": None} if kind == "png" else {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context({"svg.hashsalt": "equipoise", "svg.fonttype": "path"}):
        figure.savefig(image, format=kind, dpi=150, metadata=empty)
    return image.getvalue()


def whole_page(portfolio: Portfolio, svg: str) -> str:
    """The page as HTML."""
    rounds, n = portfolio.health()["rounds"], len(portfolio.learner_names)
    title = f"{part_name(portfolio.selector)} over {n} learners"
    statement, *others = portfolio.describe().split("\n")
    learners = len(portfolio.standing())
    notes = others[: len(others) - learners]
    sections: list[Iterable[str]] = [
        (
            f"<h1>{escape(title)}</h1>",
            f"<p class='quiet'>{rounds:,} rounds, {len(portfolio.pending):,} decisions without a reward.</p>",
            f"<p class='claim'>{escape(statement)}</p>",
            *(f"<p>{escape(note)}</p>" for note in notes),
        ),
        (
            "<h2>Over time</h2>",
            f"<figure>{inline(svg, 'shares of plays, mean rewards and certified regret over time')}</figure>",
            *_marks(portfolio),
        ),
        ("<h2>Learners</h2>", _standing(portfolio), _radius_note(portfolio)),
        (
            "<h2>Why does a learner play more or less?</h2>",
            f"<p>{escape(rule_of(portfolio))}</p>",
            *(f"<h3>{escape(name)}</h3><p>{escape(reasons)}</p>" for name, reasons in _reasons(portfolio)),
        ),
        ("<h2>Settings</h2>", _settings(portfolio)),
    ]
    return page(title, sections)


def _reasons(portfolio: Portfolio) -> Iterable[tuple[str, str]]:
    return ((name, explain(portfolio, name, with_rule=False)) for name in portfolio.learner_names)


def _marks(portfolio: Portfolio) -> Iterable[str]:
    marks = shown_marks(portfolio.history.marks)
    if not marks:
        yield "<p>Nothing was eliminated, suspended or added.</p>"
        return
    yield "<ol>"
    for mark in marks:
        reason = f": {mark.reason}" if mark.reason else ""
        yield f"<li>Round {mark.round:,}: <b>{escape(mark.name)}</b> {HAPPENED[mark.kind]}{escape(reason)}.</li>"
    yield "</ol>"


def _standing(portfolio: Portfolio) -> str:
    rows, names = portfolio.standing(), portfolio.learner_names
    total = sum(row.plays for row in rows) or 1
    states = {row["name"]: row["state"] for row in portfolio.health()["learners"]}
    body = [
        [
            names[row.learner],
            f"{row.plays:,}",
            f"{100 * row.plays / total:.1f} %",
            _number(row.mean_reward),
            _number(row.mean_radius),
            states[names[row.learner]],
        ]
        for row in rows
    ]
    return table(["", "plays", "share", "mean reward", "radius", "state"], body)


def _radius_note(portfolio: Portfolio) -> str:
    certificate = portfolio.certificate()
    if not certificate.valid or certificate.adversarial or certificate.delta >= 1.0:
        return ""
    return (
        "<p class='quiet'>The best expected reward minus a learner's regret per play differs from its mean reward by "
        f"at most its radius, for all learners and rounds together with probability at least "
        f"{confidence_text(certificate.delta)}.</p>"
    )


def _number(value: float) -> str:
    return "–" if isnan(value) else f"{value:.4g}"


def _settings(portfolio: Portfolio) -> str:
    rows = [["selector", repr(portfolio.selector)]]
    rows += [[name, repr(each)] for name, each in zip(portfolio.learner_names, portfolio.learners, strict=True)]
    rows += [[name, str(getattr(portfolio, name))] for name in SETTINGS]
    return table(["setting", "value"], rows, kind="settings")
