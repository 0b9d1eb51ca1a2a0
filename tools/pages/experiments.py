"""The page of an experiment in the documentation: claim, setting, measurements and findings.

Numbers and figure come from a run of the experiment with its default settings, the claim from the experiment itself.
Setting and findings are written by hand in the page and kept. `python -m tools.pages NAME` writes a page again.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from textwrap import fill
from typing import TypeAlias

import numpy as np

from equipoise.bounds import LinearSqrt, Power, SqrtLog
from equipoise.lab.experiment import Experiment, reward_width
from equipoise.lab.report.drawing import small_png
from equipoise.lab.report.kit import with_error
from equipoise.lab.report.run_figure import regret_figure
from equipoise.lab.report.run_report import PAPER, command_line, cost_cells
from equipoise.lab.runs.results import Results
from equipoise.lab.runs.summary import Row, facts, rows_of
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import write_atomic
from equipoise.theory.closed_forms import closed_form
from tools.pages.findings import findings, section

ClosedForm: TypeAlias = Power | SqrtLog | LinearSqrt  # bounds that are a formula in the number of plays
HEAD = ("", "regret", "worst seed", "ratio", "excess", "reward lost", "eliminated", "guarantee")
WIDTH = 120  # characters of a line of text


def write_page(experiment: Experiment, results: Results, folder: Path) -> list[Path]:
    """Write page and picture; returns their paths."""
    page, picture = folder / f"{experiment.name}.md", folder / f"{experiment.name}.png"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(picture, small_png(regret_figure(results)))
    write_atomic(page, ("\n".join(_lines(experiment, results)) + "\n").encode())
    return [page, picture]


def _lines(experiment: Experiment, results: Results) -> Iterator[str]:
    page = f"experiments/{experiment.name}.md"
    command = command_line(results.experiment["settings"], experiment.defaults, experiment.selectors)
    yield f"# `{experiment.name}`: {experiment.title}\n"
    yield fill(f"**Claim.** {experiment.claim}", WIDTH) + "\n"
    yield fill(f"Section “{experiment.section}” of {PAPER}.", WIDTH) + "\n"
    yield f"## Setting\n\n{section(page, 'Setting')}\n"
    yield f"## Measured\n\n```sh\n{command}\n```\n"
    for instance in results.instances:
        if instance:
            yield f"### {instance[0].upper()}{instance[1:]}\n"
        if known := facts(results.summary, instance):
            yield f"Unknown to the learners: {known}.\n"
        yield from _table(experiment, results, instance)
        yield f"\n{_outcome(results, instance)}\n"
    if len(results.instances) > 1:
        yield f"{_everywhere(results)}\n"
    yield f"![Regret over rounds of every learner alone and of every selector]({experiment.name}.png)\n"
    yield f"{_explanations(experiment, results)}\n"
    yield f"## What it shows\n\n{findings(page, experiment.name)}\n"
    yield f"*Written by `python -m tools.pages {experiment.name}` with version {results.experiment['version']}.*"


def _table(experiment: Experiment, results: Results, instance: str) -> Iterator[str]:
    summary, seeds = results.summary, results.summary["seeds"]
    learners = rows_of(summary, "learners", instance)
    yield f"| {' | '.join(HEAD)} |"
    yield f"|---|{'---:|' * 5}---|---:|"
    for row in learners:
        cells = [
            row["name"],
            with_error(row["regret_mean"], row["regret_se"]),
            _worst(results, row, "learner"),
            *[""] * 5,
        ]
        yield f"| {' | '.join(cells)} |"
    for row in rows_of(summary, "selectors", instance):
        eliminated = [
            f"{learner['name']} in {round(share * seeds)}"
            for learner, share in zip(learners, row["eliminated_share"], strict=True)
            if share > 0
        ]
        ratio, *others = cost_cells(row)
        cells = [
            f"**{row['name']}**",
            f"**{with_error(row['regret_mean'], row['regret_se'])}**",
            _worst(results, row, "selector"),
            f"**{ratio}**",
            *others,
            "; ".join(eliminated) or "none",
            _guarantee_cell(experiment, results, instance, row["name"]),
        ]
        yield f"| {' | '.join(cells)} |"


def _worst(results: Results, row: Row, kind: str) -> str:
    curves = results.curves_of(row.get("instance", "")).filter(kind=kind, curve=row["name"])
    last = curves.filter(round=results.summary["rounds"])
    return with_error(float(np.max(last["regret"].to_numpy())), None)


def _outcome(results: Results, instance: str) -> str:
    """The outcome in two sentences."""
    learners = sorted(rows_of(results.summary, "learners", instance), key=lambda row: float(row["regret_mean"]))
    best = min(rows_of(results.summary, "selectors", instance), key=lambda row: float(row["regret_mean"]))
    median = float(np.median([row["regret_mean"] for row in learners]))
    place = "below" if best["regret_mean"] < median else "above"
    ratio, _, lost = cost_cells(best)
    return (
        f"Best learner alone: {learners[0]['name']}. Best selector: `{best['name']}`; after "
        f"{results.summary['rounds']:,} rounds its regret is {ratio} times that of the best learner alone ({lost} of "
        f"that learner's reward), and {place} that of the median learner ({with_error(median, None)})."
    )


def _everywhere(results: Results) -> str:
    """Which selectors are better than the median learner on every instance."""
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
    largest = "one" if set(widths.values()) == {1.0} else "w"
    stated = "; ".join(f"{name}: {width:g}".removeprefix(": ") for name, width in widths.items())
    return fill(
        f"Means over {n_seeds} seeds of {results.summary['rounds']:,} simulated rounds, ± one standard error. Ratio is "
        "the regret of a selector over that of the best learner alone on the same instance, excess their difference "
        f"over w √T (w, the width of the range of rewards: {stated}), reward lost the same difference in percent of "
        f"that learner's reward. Eliminated: the learners that were eliminated, and in how many of {n_seeds} seeds. "
        "Guarantee: the theorem's bound on the regret of the selector with these candidate bounds, for the learners "
        "whose bounds held at all recorded rounds of all seeds; vacuous means more than "
        f"{largest} per round, a dash that no closed form applies.",
        WIDTH,
    )


def _width(experiment: Experiment, results: Results, instance: str) -> float:
    """The width of the range of rewards."""
    return reward_width(experiment.set_up(results.experiment["settings"], 0, instance).problem)


def _guarantee_cell(experiment: Experiment, results: Results, instance: str, label: str) -> str:
    promise = guarantee(experiment, results, instance, label)
    if promise is None:
        return "–"
    trivial = _width(experiment, results, instance) * results.summary["rounds"]
    return "vacuous" if promise >= trivial else f"{promise:,.0f}"


def guarantee(experiment: Experiment, results: Results, instance: str, label: str) -> float | None:
    """The proven regret bound of a selector with closed-form bounds; None for other selectors, inf if none holds."""
    setup = experiment.set_up(results.experiment["settings"], 0, instance)
    selector = setup.selectors[label]
    if not isinstance(selector, BalancedElimination) or not setup.problem.iid:
        return None
    bounds = [bound for bound in selector.bounds or () if isinstance(bound, ClosedForm)]
    if len(bounds) < len(setup.learners):
        return None
    names = [row["name"] for row in rows_of(results.summary, "learners", instance)]
    pairs = zip(names, bounds, strict=True)
    held = [_bound_held(bound, reward_width(selector), results, instance, name) for name, bound in pairs]
    return closed_form(selector, held, results.summary["rounds"]) if any(held) else inf


def _bound_held(bound: ClosedForm, width: float, results: Results, instance: str, learner: str) -> bool:
    """Whether the regret of a learner alone was within its bound at all recorded rounds of all seeds."""
    curve = results.curves_of(instance).filter(kind="learner", curve=learner)
    limits = np.array([min(bound.raw(n), width * n) for n in curve["round"].to_list()])
    return bool(np.all(curve["regret"].to_numpy() <= limits * (1 + 1e-12)))
