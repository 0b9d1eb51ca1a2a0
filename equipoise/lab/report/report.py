"""The report of a run: one HTML file with everything in it, readable without a network, in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from statistics import median

from equipoise.certificates.fields import Record
from equipoise.certificates.records import describe_elimination
from equipoise.certificates.wording import confidence_text
from equipoise.lab.report.figures import PNG, SVG, regret_figure, save_figure
from equipoise.lab.report.html import inline, page, table
from equipoise.lab.report.tables import COLUMNS, command_line, facts, overview, plays, with_error
from equipoise.lab.runs.results import CURVES, ELIMINATIONS, EXPERIMENT, SUMMARY, Results
from equipoise.lab.runs.summary import PRICE_FLOOR, Row, rows_of
from equipoise.storage.files import write_atomic

REPORT = "report.html"
PAPER = (
    "Pacchiano, Dann, Gentile and Bartlett (2020), “Regret Bound Balancing and Elimination for Model Selection in "
    "Bandits and RL”"
)


def publish(results: Results) -> list[Path]:
    """Draw the figure of a finished run and write its report; returns all files of the run, the report first."""
    svg = save_figure(regret_figure(results), results.path)
    write_report(results, svg, results.path / REPORT)
    return [results.path / name for name in (REPORT, PNG, SVG, SUMMARY, CURVES, ELIMINATIONS, EXPERIMENT)]


def write_report(results: Results, figure_svg: str, path: Path) -> None:
    """Write the report to `path`."""
    title = str(results.experiment["title"])
    sections = [
        _head(results, title),
        ("<h2>Result</h2>", *_per_instance(results, _result, _facts, _overview), _explanations(results)),
        ("<h2>Regret, plays and certificates over time</h2>", _figure(figure_svg, title)),
        ("<h2>Share of plays</h2>", _plays_note(), *_per_instance(results, _plays)),
        ("<h2>Certificates</h2>", *_certificates(results)),
        ("<h2>Settings</h2>", _settings(results), "<h2>Run it again</h2>", _command(results)),
    ]
    write_atomic(path, page(title, sections).encode())


def _head(results: Results, title: str) -> Iterable[str]:
    section, claim = results.experiment["section"], results.experiment["claim"]
    return (
        f"<h1>{escape(title)}</h1>",
        f"<p class='claim'>{escape(claim)}</p>",
        f"<p class='quiet'>Section “{escape(section)}” of {escape(PAPER)}.</p>",
    )


def _per_instance(results: Results, *parts: Callable[[Results, str], str]) -> Iterable[str]:
    """The parts once for each instance, below its name where there are several."""
    for instance in results.instances:
        if instance:
            yield f"<h3>{escape(instance)}</h3>"
        yield from (part(results, instance) for part in parts)


def _result(results: Results, instance: str) -> str:
    """The outcome in a sentence or two."""
    summary, learners = results.summary, rows_of(results.summary, "learners", instance)
    best = min(learners, key=lambda row: row["regret_mean"])
    worst = max(learners, key=lambda row: row["regret_mean"])
    text = (
        f"After {summary['rounds']:,} rounds the best learner alone, <b>{escape(best['name'])}</b>, has lost "
        f"{_regret(best)}, and the worst, {escape(worst['name'])}, {_regret(worst)}. Which learner is best is not "
        "known in advance."
    )
    if selectors := rows_of(summary, "selectors", instance):
        least = min(selectors, key=lambda row: row["regret_mean"])
        text += (
            f" The best selector, <b>{escape(least['name'])}</b>, which learns online which learner to play, has lost "
            f"{_regret(least)}, a price of {with_error(least['price_mean'], least['price_se'])}."
        )
    return f"<p>{text}</p>"


def _regret(row: Row) -> str:
    return with_error(row["regret_mean"], row["regret_se"])


def _facts(results: Results, instance: str) -> str:
    unknown = facts(results.summary, instance)
    return f"<p>Unknown to the learners: {escape(unknown)}.</p>" if unknown else ""


def _overview(results: Results, instance: str) -> str:
    rows = [[row.name, *row.cells] for row in overview(results.summary, instance)]
    return table(["", *COLUMNS], rows, n_plain=len(rows_of(results.summary, "learners", instance)))


def _explanations(results: Results) -> str:
    error = "± is one standard error over seeds. " if results.summary["seeds"] > 1 else ""
    return (
        f"<p class='quiet'>Regret is the total expected reward lost against always playing the best action. {error}"
        f"Price is the regret of a selector over that of the best learner alone, the latter taken as at least "
        f"{PRICE_FLOOR:g} times the width of the reward range times the square root of the number of rounds. A "
        "certificate is violated in a seed if the certified regret was below the true regret at some recorded round. "
        "Seconds are single-thread time, summed over seeds.</p>"
    )


def _figure(svg: str, title: str) -> str:
    return f"<figure>{inline(svg, title)}</figure>"


def _plays_note() -> str:
    return "<p>Share of all rounds played by each learner, mean over seeds.</p>"


def _plays(results: Results, instance: str) -> str:
    names = [row["name"] for row in rows_of(results.summary, "learners", instance)]
    return table(["", *names], [[row.name, *row.cells] for row in plays(results.summary, instance)])


def _certificates(results: Results) -> Iterable[str]:
    if not len(results.eliminations):
        yield "<p>No learner was eliminated: the rewards contradict no bound.</p>"
        return
    delta = max(results.eliminations["delta"])
    by_lower_bounds = any("lower_sum" in record["witness"] for record in results.records)
    proviso = ", if the confidence sets of the witnesses hold" if by_lower_bounds else ""
    yield (
        "<p>A learner is eliminated once its rewards contradict its bound. Every elimination below can be recomputed "
        f"from its record in <code>{ELIMINATIONS}</code> with <code>equipoise verify</code>; in each run, with "
        f"probability at least {confidence_text(delta)}, no learner that keeps its bound is ever eliminated{proviso}."
        "</p>"
    )
    yield from _per_instance(results, _eliminated)


def _eliminated(results: Results, instance: str) -> str:
    n_seeds, level, parts = results.summary["seeds"], 4 if instance else 3, []
    groups: dict[tuple[str, str], list[Record]] = {}
    own = [record for record in results.records if not instance or record["instance"] == instance]
    for record in sorted(own, key=lambda record: record["learner"]["index"]):
        groups.setdefault((record["selector"], record["learner"]["name"]), []).append(record)
    for row in rows_of(results.summary, "selectors", instance):
        found = {learner: group for (selector, learner), group in groups.items() if selector == row["name"]}
        parts.append(f"<h{level}>{escape(row['name'])}</h{level}>")
        if not found:
            parts.append("<p>No learner was eliminated.</p>")
        for learner, group in found.items():
            rounds = f"{median(record['round'] for record in group):,.0f}"
            parts.append(
                f"<p><b>{escape(learner)}</b> was eliminated in {len(group)} of {n_seeds} "
                f"{'seeds' if n_seeds > 1 else 'seed'}, median round {rounds}. For example:</p>"
                f"<blockquote>{escape(describe_elimination(group[0]))}</blockquote>"
            )
    return "\n".join(parts)


def _settings(results: Results) -> str:
    settings = {**results.experiment["settings"], "version of equipoise": results.experiment["version"]}
    rows = [
        [key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)] for key, value in settings.items()
    ]
    return table(["setting", "value"], rows, kind="settings")


def _command(results: Results) -> str:
    from equipoise.lab.experiments import EXPERIMENTS

    settings = results.experiment["settings"]
    registered = EXPERIMENTS.get(settings["experiment"])
    defaults, selectors = (registered.defaults, registered.selectors) if registered else ({}, ())
    command = command_line(settings, defaults, selectors)
    return (
        f"<pre>{escape(command)} --out NEW_FOLDER</pre>"
        "<p class='quiet'>The same settings and seeds give the same curves for any number of processes. With the "
        "folder of this run as <code>--out</code>, only missing seeds are computed.</p>"
    )
