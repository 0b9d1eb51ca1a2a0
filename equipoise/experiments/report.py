"""The report of a run: one HTML file with everything in it, readable without a network, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from equipoise.experiments.figures import PNG, SVG, regret_figure, save_figure
from equipoise.experiments.results import CURVES, ELIMINATIONS, EXPERIMENT, SUMMARY, Results
from equipoise.experiments.summary import PRICE_FLOOR, rows_of
from equipoise.experiments.tables import COLUMNS, command_line, facts, overview, plays, with_error
from equipoise.storage import write_atomic
from equipoise.theory.certificates import elimination_words

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
        ("<h2>Result</h2>", *_per_instance(results, _in_short, _facts, _overview), _explanations(results)),
        ("<h2>Regret, plays and certificates over time</h2>", _figure(figure_svg, title)),
        ("<h2>Who played</h2>", _plays_words(), *_per_instance(results, _plays)),
        ("<h2>Certificates</h2>", *_certificates(results)),
        ("<h2>Settings</h2>", _settings(results), "<h2>Run it again</h2>", _again(results)),
    ]
    body = "\n</section>\n<section>\n".join("\n".join(parts) for parts in sections)
    page = _PAGE.format(title=escape(title), style=_STYLE, body=body)
    write_atomic(path, page.encode())


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


def _in_short(results: Results, instance: str) -> str:
    """The outcome in a sentence or two."""
    summary, learners = results.summary, rows_of(results.summary, "learners", instance)
    best = min(learners, key=lambda row: row["regret_mean"])
    worst = max(learners, key=lambda row: row["regret_mean"])
    text = (
        f"After {summary['rounds']:,} rounds the best learner alone, <b>{escape(best['name'])}</b>, has lost "
        f"{_regret(best)}, the worst, {escape(worst['name'])}, {_regret(worst)}. Nobody knows beforehand which is "
        "which."
    )
    if selectors := rows_of(summary, "selectors", instance):
        least = min(selectors, key=lambda row: row["regret_mean"])
        text += (
            f" The best selector, <b>{escape(least['name'])}</b>, which had to find out while playing, has lost "
            f"{_regret(least)}, a price of {with_error(least['price_mean'], least['price_se'])}."
        )
    return f"<p>{text}</p>"


def _regret(row: Mapping[str, Any]) -> str:
    return with_error(row["regret_mean"], row["regret_se"])


def _facts(results: Results, instance: str) -> str:
    known = facts(results.summary, instance)
    return f"<p>What no learner is told: {escape(known)}.</p>" if known else ""


def _overview(results: Results, instance: str) -> str:
    rows = [[row.name, *row.cells] for row in overview(results.summary, instance)]
    return _table(["", *COLUMNS], rows, n_plain=len(rows_of(results.summary, "learners", instance)))


def _explanations(results: Results) -> str:
    error = "± is one standard error over seeds. " if results.summary["seeds"] > 1 else ""
    return (
        f"<p class='quiet'>Regret is the expected reward lost against the best action in every round, in total. {error}"
        f"Price is the regret of a selector over that of the best learner alone, the latter counted as at least "
        f"{PRICE_FLOOR:g} times the width of the rewards times the root of the rounds. A certificate is violated in a "
        "seed if the regret certified at some recorded round was below the true one. Seconds are single-thread time, "
        "summed over seeds.</p>"
    )


def _figure(svg: str, title: str) -> str:
    return f"<figure>{_inline(svg, title)}</figure>"


def _inline(svg: str, title: str) -> str:
    """The SVG as part of an HTML page: no prolog, no name spaces, no fixed size, and no style that would leak out."""
    drawing = svg[svg.index("<svg") :]
    tag, rest = drawing.split(">", 1)
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"', "", tag)
    rest = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", rest, count=1, flags=re.DOTALL)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, count=1, flags=re.DOTALL)
    label = escape(f"Figure: {title}", quote=True)
    return f'{tag} role="img" aria-label="{label}" style="stroke-linejoin:round;stroke-linecap:butt">{rest}'


def _plays_words() -> str:
    return "<p>Share of all rounds that each learner got, mean over seeds.</p>"


def _plays(results: Results, instance: str) -> str:
    names = [row["name"] for row in rows_of(results.summary, "learners", instance)]
    return _table(["", *names], [[row.name, *row.cells] for row in plays(results.summary, instance)])


def _certificates(results: Results) -> Iterable[str]:
    if not len(results.eliminations):
        yield "<p>No learner was eliminated: the rewards contradict no bound.</p>"
        return
    delta = max(results.eliminations["delta"])
    yield (
        "<p>A learner is dropped once its own rewards disprove its bound. Every elimination below can be recomputed "
        f"from its record in <code>{ELIMINATIONS}</code> with <code>equipoise verify</code>; with probability at least "
        f"{1 - delta:.4g}, no learner that keeps its bound is ever dropped.</p>"
    )
    yield from _per_instance(results, _eliminated)


def _eliminated(results: Results, instance: str) -> str:
    n_seeds, level, parts = results.summary["seeds"], 4 if instance else 3, []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in sorted(results.eliminations_of(instance).to_dicts(), key=lambda record: record["learner"]["index"]):
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
                f"<blockquote>{escape(elimination_words(group[0]))}</blockquote>"
            )
    return "\n".join(parts)


def _settings(results: Results) -> str:
    settings = {**results.experiment["settings"], "version of equipoise": results.experiment["version"]}
    rows = [
        [key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)] for key, value in settings.items()
    ]
    return _table(["setting", "value"], rows, kind="settings")


def _again(results: Results) -> str:
    from equipoise.experiments import EXPERIMENTS

    settings = results.experiment["settings"]
    known = EXPERIMENTS.get(settings["experiment"])
    command = command_line(settings, known.defaults if known else {}, known.selectors if known else ())
    return (
        f"<pre>{escape(command)} --out NEW_FOLDER</pre>"
        "<p class='quiet'>The same settings and seeds give the same curves, whatever the number of processes. With the "
        "folder of this run as <code>--out</code>, missing seeds are added and nothing is computed twice.</p>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], n_plain: int = 0, kind: str = "figures") -> str:
    """A table; the rows after the first `n_plain` stand out if there are such."""
    cells = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    lines = [f"<div class='wide'><table class='{kind}'><thead><tr>{cells}</tr></thead><tbody>"]
    for i, (first, *others) in enumerate(rows):
        mark = " class='selector'" if 0 < n_plain <= i else ""
        values = "".join(f"<td>{escape(value)}</td>" for value in others)
        lines.append(f"<tr{mark}><th scope='row'>{escape(first)}</th>{values}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


_STYLE = """
:root { color-scheme: light dark; }
:root { --ink: #1c1c1c; --quiet: #5f6368; --paper: #fdfdfc; --line: #d9d9d6; --tint: #f3f1ea; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --quiet: #a3a09a; --paper: #17181a; --line: #3a3c40; --tint: #222427; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
h4 { font-size: .92rem; margin: 1rem 0 .2rem; color: var(--quiet); }
p { max-width: 46rem; margin: .5rem 0; }
.claim { font-size: 1.1rem; }
.quiet { color: var(--quiet); font-size: .88rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .9rem .38rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: pre; }
th:first-child { text-align: left; }
td { padding-left: .9rem; }
thead th { font-size: .82rem; color: var(--quiet); font-weight: 600; vertical-align: bottom; padding-left: .9rem; }
tbody th { font-weight: 400; }
th:first-child { padding-left: .5rem; }
.selector { background: var(--tint); }
.selector th { font-weight: 600; }
.settings td { text-align: left; }
.settings thead th { text-align: left; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
figure svg { display: block; width: 100%; height: auto; }
blockquote { margin: .3rem 0 .9rem; padding: .1rem 0 .1rem 1rem; border-left: 3px solid var(--line); max-width: 46rem; }
pre { background: var(--tint); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<section>
{body}
</section>
</main>
</body>
</html>
"""
