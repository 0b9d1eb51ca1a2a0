"""The report of a run, and its tables, which the terminal shows too."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from equipoise.certificates.fields import Record
from equipoise.certificates.records import describe_elimination
from equipoise.certificates.wording import confidence_text
from equipoise.lab.report import kit
from equipoise.lab.report.drawing import save_figure
from equipoise.lab.report.run_figure import regret_figure
from equipoise.lab.runs.results import CURVES, ELIMINATIONS, EXPERIMENT, SUMMARY, Results
from equipoise.lab.runs.summary import Row, facts, rows_of, small_percent
from equipoise.storage.files import write_atomic
from equipoise.types import Plain

REPORT, PNG, SVG = "report.html", "regret.png", "regret.svg"
COLUMNS = ("regret", "ratio", "excess", "reward lost", "eliminated", "violations", "seconds")
PAPER = (
    "Pacchiano, Dann, Gentile and Bartlett (2020), “Regret Bound Balancing and Elimination for Model Selection in "
    "Bandits and RL”"
)


def publish(results: Results) -> list[Path]:
    """Draw the figure of a finished run and write its report; returns all files of the run, the report first."""
    svg = save_figure(regret_figure(results), results.path / PNG)
    write_report(results, svg, results.path / REPORT)
    return [results.path / name for name in (REPORT, PNG, SVG, SUMMARY, CURVES, ELIMINATIONS, EXPERIMENT)]


def write_report(results: Results, figure_svg: str, path: Path) -> None:
    """Write the report to `path`."""
    write_atomic(path, kit.page(results.experiment["title"], _blocks(results, figure_svg)).encode())


def overview(summary: Mapping[str, Plain], instance: str = "") -> kit.Table:
    """Learners alone, then selectors, with the numbers of `summary.json`; cells that do not apply are empty."""
    learners, seeds = rows_of(summary, "learners", instance), summary["seeds"]
    rows = [(row["name"], _regret(row), *[""] * 5, _seconds(row["seconds"])) for row in learners]
    for row in rows_of(summary, "selectors", instance):
        shares = zip(learners, row["eliminated_share"], strict=True)
        eliminated = [f"{learner['name']} {round(share * seeds)}/{seeds}" for learner, share in shares if share > 0]
        violations = f"{row['certificate_violations']} of {seeds}"
        others = "\n".join(eliminated) or "none", violations, _seconds(row["seconds"])
        rows.append((row["name"], _regret(row), *cost_cells(row), *others))
    return kit.Table(("", *COLUMNS), rows, marks=dict.fromkeys(range(len(learners), len(rows)), "selector"))


def plays(summary: Mapping[str, Plain], instance: str = "") -> kit.Table:
    """Mean plays of every learner, as share of the rounds, one row per selector and one cell per learner."""
    names = [row["name"] for row in rows_of(summary, "learners", instance)]
    rows = [
        (row["name"], *(kit.percent(mean / summary["rounds"]) for mean in row["plays_mean"]))
        for row in rows_of(summary, "selectors", instance)
    ]
    return kit.Table(("", *names), rows)


def command_line(settings: Mapping[str, Plain], defaults: Mapping[str, Plain], selectors: tuple[str, ...]) -> str:
    """The command that repeats a run; settings at their default and a full set of selectors are left out."""
    words = ["equipoise", "run", settings["experiment"]]
    words += ["--rounds", str(settings["rounds"]), "--seeds", str(settings["seeds"])]
    if tuple(settings["selectors"]) != selectors:
        words += ["--selectors", ",".join(settings["selectors"])]
    for key, value in settings.items():
        if key in ("experiment", "rounds", "seeds", "selectors") or (key in defaults and defaults[key] == value):
            continue
        words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
    return shlex.join(words)


def _blocks(results: Results, svg: str) -> Iterator[kit.Block | kit.Table]:
    about, summary = results.experiment, results.summary
    yield kit.heading(about["title"], 1)
    yield kit.paragraph(about["claim"], kind="claim")
    yield kit.paragraph(f"Section “{about['section']}” of {PAPER}.", kind="quiet")
    yield kit.heading("Result")
    for instance in results.instances:
        yield from _name(instance)
        yield _result(summary, instance)
        if unknown := facts(summary, instance):
            yield kit.paragraph(f"Unknown to the learners: {unknown}.")
        yield overview(summary, instance)
    yield _explanations(results)
    yield kit.heading("Regret, plays and certificates over time")
    yield kit.picture(svg, about["title"])
    yield kit.heading("Share of plays")
    yield kit.paragraph("Share of all rounds played by each learner, mean over seeds.")
    for instance in results.instances:
        yield from _name(instance)
        yield plays(summary, instance)
    yield kit.heading("Certificates")
    yield from _certificates(results)
    yield kit.heading("Settings")
    yield kit.settings_table([*about["settings"].items(), ("version of equipoise", about["version"])])
    yield kit.heading("Run it again")
    yield kit.listing(f"{_command(results)} --out NEW_FOLDER")
    yield kit.paragraph(
        "The same settings and seeds give the same curves for any number of processes. With the folder of this run as ",
        kit.Code("--out"),
        ", only missing seeds are computed.",
        kind="quiet",
    )


def _name(instance: str) -> list[kit.Block]:
    """The heading of an instance; none where there is only one."""
    return [kit.heading(instance, 3)] if instance else []


def _result(summary: Mapping[str, Plain], instance: str) -> kit.Block:
    learners = rows_of(summary, "learners", instance)
    best = min(learners, key=lambda row: row["regret_mean"])
    worst = max(learners, key=lambda row: row["regret_mean"])
    parts = [
        f"After {summary['rounds']:,} rounds the best learner alone, ",
        kit.Bold(best["name"]),
        f", has lost {_regret(best)}, and the worst, {worst['name']}, {_regret(worst)}. Which learner is best is not "
        "known in advance.",
    ]
    if selectors := rows_of(summary, "selectors", instance):
        least = min(selectors, key=lambda row: row["regret_mean"])
        parts += [
            " The best selector, ",
            kit.Bold(least["name"]),
            f", which learns online which learner to play, has lost {_regret(least)}{_against_best(least)}.",
        ]
    return kit.paragraph(*parts)


def _explanations(results: Results) -> kit.Block:
    error = "± is one standard error over seeds. " if results.summary["seeds"] > 1 else ""
    return kit.paragraph(
        f"Regret is the total expected reward lost against always playing the best action. {error}"
        "Ratio is the regret of a selector over the regret of the best learner alone; excess is their difference over "
        "w √T (w the width of the reward range, T the rounds), reward lost the same in percent of that learner's "
        "reward. A certificate is violated in a seed if the certified regret was below the true regret at some "
        "recorded round. Seconds are single-thread time, summed over seeds.",
        kind="quiet",
    )


def _certificates(results: Results) -> Iterator[kit.Block | kit.Table]:
    if not len(results.eliminations):
        yield kit.paragraph("No learner was eliminated: the rewards contradict no bound.")
        return
    delta = max(results.eliminations["delta"])
    by_lower_bounds = any("lower_sum" in record["witness"] for record in results.records)
    proviso = ", if the confidence sets of the witnesses hold" if by_lower_bounds else ""
    yield kit.paragraph(
        "A learner is eliminated once its rewards contradict its bound. Every elimination below can be recomputed "
        "from its record in ",
        kit.Code(ELIMINATIONS),
        " with ",
        kit.Code("equipoise verify"),
        f"; in each run, with probability at least {confidence_text(delta)}, no learner that keeps its bound is ever "
        f"eliminated{proviso}.",
    )
    for instance in results.instances:
        yield from _name(instance)
        yield from _eliminated(results, instance)


def _eliminated(results: Results, instance: str) -> Iterator[kit.Block | kit.Table]:
    n_seeds = results.summary["seeds"]
    groups: dict[tuple[str, str], list[Record]] = {}
    own = [record for record in results.records if not instance or record["instance"] == instance]
    for record in sorted(own, key=lambda record: record["learner"]["index"]):
        groups.setdefault((record["selector"], record["learner"]["name"]), []).append(record)
    for row in rows_of(results.summary, "selectors", instance):
        found = {learner: group for (selector, learner), group in groups.items() if selector == row["name"]}
        yield kit.heading(row["name"], 4 if instance else 3)
        if not found:
            yield kit.paragraph("No learner was eliminated.")
        for learner, group in found.items():
            seeds = f"{len(group)} of {n_seeds} {'seeds' if n_seeds > 1 else 'seed'}"
            rounds = f"median round {median(record['round'] for record in group):,.0f}"
            yield kit.paragraph(kit.Bold(learner), f" was eliminated in {seeds}, {rounds}. For example:")
            yield kit.quote(describe_elimination(group[0]))


def _command(results: Results) -> str:
    from equipoise.lab.experiments import EXPERIMENTS

    settings = results.experiment["settings"]
    registered = EXPERIMENTS.get(settings["experiment"])
    defaults, selectors = (registered.defaults, registered.selectors) if registered else ({}, ())
    return command_line(settings, defaults, selectors)


def _regret(row: Row) -> str:
    return kit.with_error(row["regret_mean"], row["regret_se"])


def cost_cells(row: Row) -> tuple[str, str, str]:
    """Ratio, excess and reward lost of a selector, as text."""
    ratio = kit.MISSING if row["ratio_mean"] is None else kit.with_error(row["ratio_mean"], row["ratio_se"])
    excess = kit.MISSING if row["excess"] is None else kit.number(row["excess"]).replace("-", "−")
    return ratio, excess, small_percent(row["reward_lost"])


def _against_best(row: Row) -> str:
    ratio, excess, lost = cost_cells(row)
    if row["ratio_mean"] is None:
        return f", {excess} w √T more than the best learner ({lost} of its reward)"
    return f", {ratio} times as much as the best learner ({lost} of its reward)"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2f}"
