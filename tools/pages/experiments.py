"""The page of an experiment in the documentation: claim, setting, what was measured, and what it shows.

Numbers and figure come from a run of the experiment with its default settings, the words from the experiment itself, so
that one command brings a page up to date: `equipoise docs`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import inf, sqrt
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from equipoise.lab.experiment import Experiment
from equipoise.lab.report.figures import regret_figure
from equipoise.lab.report.report import PAPER
from equipoise.lab.report.tables import command_line, facts, with_error
from equipoise.lab.runs.results import Results
from equipoise.lab.runs.summary import PRICE_FLOOR, Row, rows_of
from equipoise.learner import part_name
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import write_atomic
from equipoise.theory.closed_forms import ClosedForm, closed_form

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("", "regret", "worst seed", "price", "eliminated", "guarantee")
WIDTH = 120  # characters of a line of text
COLORS, DPI = 128, 120  # of the picture, which is to stay small


def write_page(experiment: Experiment, results: Results, folder: Path) -> list[Path]:
    """Write page and picture; returns their paths."""
    page, picture = folder / f"{experiment.name}.md", folder / f"{experiment.name}.png"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(picture, small_png(regret_figure(results)))
    write_atomic(page, ("\n".join(_lines(experiment, results)) + "\n").encode())
    return [page, picture]


def _lines(experiment: Experiment, results: Results) -> Iterator[str]:
    command = command_line(results.experiment["settings"], experiment.defaults, experiment.selectors)
    yield f"# `{experiment.name}`: {experiment.title}\n"
    yield fill(f"**Claim.** {experiment.claim}", WIDTH) + "\n"
    yield fill(f"Section “{experiment.section}” of {PAPER}.", WIDTH) + "\n"
    yield f"## Setting\n\n{experiment.setting}\n"
    yield f"## Measured\n\n```sh\n{command}\n```\n"
    for instance in results.instances:
        if instance:
            yield f"### {instance[0].upper()}{instance[1:]}\n"
        if known := facts(results.summary, instance):
            yield f"What no learner is told: {known}.\n"
        yield from _table(experiment, results, instance)
        yield f"\n{_verdict(results, instance)}\n"
    if len(results.instances) > 1:
        yield f"{_everywhere(results)}\n"
    yield f"![Regret over rounds of every learner alone and of every selector]({experiment.name}.png)\n"
    yield f"{_explanations(experiment, results)}\n"
    yield f"## What it shows\n\n{experiment.remarks}\n"
    yield f"*Written by `equipoise docs {experiment.name}` with version {results.experiment['version']}.*"


def _table(experiment: Experiment, results: Results, instance: str) -> Iterator[str]:
    summary, seeds = results.summary, results.summary["seeds"]
    learners = rows_of(summary, "learners", instance)
    yield f"| {' | '.join(HEAD)} |"
    yield f"|---|{'---:|' * 3}---|---:|"
    for row in learners:
        cells = [
            row["name"],
            with_error(row["regret_mean"], row["regret_se"]),
            _worst(results, row, "learner"),
            "",
            "",
            "",
        ]
        yield f"| {' | '.join(cells)} |"
    for row in rows_of(summary, "selectors", instance):
        gone = [
            f"{learner['name']} in {round(share * seeds)}"
            for learner, share in zip(learners, row["eliminated_share"], strict=True)
            if share > 0
        ]
        cells = [
            f"**{row['name']}**",
            f"**{with_error(row['regret_mean'], row['regret_se'])}**",
            _worst(results, row, "selector"),
            f"**{with_error(row['price_mean'], row['price_se'])}**",
            "; ".join(gone) or "none",
            _guarantee_words(experiment, results, instance, row["name"]),
        ]
        yield f"| {' | '.join(cells)} |"


def _worst(results: Results, row: Row, kind: str) -> str:
    curves = results.curves_of(row.get("instance", "")).filter(kind=kind, curve=row["name"])
    last = curves.filter(round=results.summary["rounds"])
    return with_error(float(np.max(last["regret"].to_numpy())), None)


def _verdict(results: Results, instance: str) -> str:
    """The outcome in two sentences."""
    learners = sorted(rows_of(results.summary, "learners", instance), key=lambda row: float(row["regret_mean"]))
    best = min(rows_of(results.summary, "selectors", instance), key=lambda row: float(row["regret_mean"]))
    median = float(np.median([row["regret_mean"] for row in learners]))
    place = "below" if best["regret_mean"] < median else "above"
    return (
        f"Best learner alone: {learners[0]['name']}. Best selector: `{best['name']}`, price "
        f"{with_error(best['price_mean'], None)}; its regret is {place} that of the median learner "
        f"({with_error(median, None)})."
    )


def _everywhere(results: Results) -> str:
    """Which selectors are better than the median learner whatever the instance."""
    better = []
    for label in results.experiment["settings"]["selectors"]:
        for instance in results.instances:
            median = np.median([row["regret_mean"] for row in rows_of(results.summary, "learners", instance)])
            rows = rows_of(results.summary, "selectors", instance)
            if next(row for row in rows if row["name"] == label)["regret_mean"] >= median:
                break
        else:
            better.append(f"`{label}`")
    return f"Below the median learner on every instance: {', '.join(better) or 'none'}."


def _explanations(experiment: Experiment, results: Results) -> str:
    n_seeds = results.summary["seeds"]
    widths = {instance: _width(experiment, results, instance) for instance in results.instances}
    floors = {name: PRICE_FLOOR * width * sqrt(results.summary["rounds"]) for name, width in widths.items()}
    if set(widths.values()) == {1.0}:
        floor, most = f"{PRICE_FLOOR:g} √T = {max(floors.values()):,.0f} (for rewards of width 1)", "one"
    else:
        stated = [f"{name}: {floor:,.0f}".removeprefix(": ") for name, floor in floors.items()]
        same = len(set(floors.values())) == 1
        floor = f"{PRICE_FLOOR:g} w √T (w the greatest return; {'; '.join(stated[:1] if same else stated)})"
        most = "w"
    return fill(
        f"Means over {n_seeds} seeds, ± one standard error. Price is the regret of a selector over that of the best "
        f"learner alone on the same instance, the latter counted as at least {floor}, since no selector avoids "
        f"regret of order √T. Eliminated: the learners dropped, and in how many of {n_seeds} seeds. Guarantee: what "
        "theory promises of the selector with these bounds, for the learners whose bounds were true at all recorded "
        f"rounds of all seeds; vacuous means more than {most} per round, a dash that no closed form applies.",
        WIDTH,
    )


def _width(experiment: Experiment, results: Results, instance: str) -> float:
    """Of the rewards."""
    return experiment.set_up(results.experiment["settings"], 0, instance).reward_width


def _guarantee_words(experiment: Experiment, results: Results, instance: str, label: str) -> str:
    promise = guarantee(experiment, results, instance, label)
    if promise is None:
        return "–"
    most = _width(experiment, results, instance) * results.summary["rounds"]
    return "vacuous" if promise >= most else f"{promise:,.0f}"


def guarantee(experiment: Experiment, results: Results, instance: str, label: str) -> float | None:
    """What theory promises of a selector with closed-form bounds; None where it has others, inf where nothing."""
    setup = experiment.set_up(results.experiment["settings"], 0, instance)
    selector = setup.selectors[label]
    if not isinstance(selector, BalancedElimination) or not setup.problem.iid:
        return None
    low, high = selector.reward_range
    bounds = [bound for bound in selector.bounds or () if isinstance(bound, ClosedForm)]
    if len(bounds) < len(setup.learners):
        return None
    pairs = zip(setup.learners, bounds, strict=True)
    true = [_keeps(bound, high - low, results, instance, part_name(learner)) for learner, bound in pairs]
    return closed_form(selector, true, results.summary["rounds"]) if any(true) else inf


def _keeps(bound: ClosedForm, width: float, results: Results, instance: str, learner: str) -> bool:
    """Whether the regret of a learner alone was within its bound at all recorded rounds of all seeds."""
    curve = results.curves_of(instance).filter(kind="learner", curve=learner)
    limits = np.array([min(bound.raw(n), width * n) for n in curve["round"].to_list()])
    return bool(np.all(curve["regret"].to_numpy() <= limits * (1 + 1e-12)))


def small_png(figure: Figure) -> bytes:
    """The figure as a picture of few colors, a third of the size of one with all."""
    from PIL import Image  # which Matplotlib needs too

    full, small = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png", dpi=DPI)
    Image.open(full).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()
