"""The files of a finished suite: numbers as JSON, the picture, an HTML report, a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from pathlib import Path
from textwrap import fill

from equipoise import __version__
from equipoise.lab.report.figures import save_figure, small_png
from equipoise.lab.report.html import inline, page, table
from equipoise.lab.runs.summary import PRICE_FLOOR
from equipoise.lab.suite import tables
from equipoise.lab.suite.contenders import CONTENDERS, DELTA, REFERENCES
from equipoise.lab.suite.exceptions import FACTOR, RECOMMENDED, lower_rivals, reason
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Place
from equipoise.lab.suite.picture import suite_figure
from equipoise.lab.suite.setups import HALVES
from equipoise.lab.suite.suite import TUNING_SEEDS, Outcome
from equipoise.storage.files import write_atomic
from equipoise.theory.first_rounds import N_LEARNERS
from equipoise.types import Config, Plain

JSON, REPORT, PICTURE, DRAWING, PAGE = "suite.json", "report.html", "suite.png", "suite.svg", "suite.md"
FORMAT = 2
WIDTH = 120
TITLE = "The suite: which selector to use"
LOWER_TITLE = "Where another selector is clearly better than the recommended one"


def publish(outcome: Outcome, out: Path, docs: Path | None) -> list[Path]:
    """Write the files of the run to `out` and, if `docs` is given, page and picture there; returns all paths."""
    figure = suite_figure(outcome)
    svg = save_figure(figure, out, PICTURE, DRAWING)
    content = json.dumps(figures(outcome), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(out / JSON, content.encode())
    write_atomic(out / REPORT, page(TITLE, list(_sections(outcome, svg))).encode())
    paths = [out / name for name in (REPORT, PICTURE, DRAWING, JSON)]
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        write_atomic(docs / PICTURE, small_png(figure))
        write_atomic(docs / PAGE, ("\n\n".join(_paragraphs(outcome)) + "\n").encode())
        paths += [docs / PAGE, docs / PICTURE]
    return paths


def figures(outcome: Outcome) -> Config:
    """The content of `suite.json`."""
    return {
        "format": FORMAT,
        "version": __version__,
        "seeds": outcome.n_seeds,
        "first_seed": outcome.seeds.start,
        "instances": [
            {
                "name": name,
                "group": INSTANCES[name].group,
                "half": INSTANCES[name].half,
                "tests": INSTANCES[name].tests,
                "rounds": outcome.rounds[name],
                "learners": [
                    {"name": learner, "regret_mean": float(mean)}
                    for learner, mean in zip(
                        outcome.learners[name], outcome.scores["alone"].learners[name].mean(axis=0), strict=True
                    )
                ],
            }
            for name in outcome.instances
        ],
        "selectors": [
            {
                "name": label,
                "class": each.selector,
                "constants": each.constants,
                "proved": each.proof,
                "informative_from": each.informative_from,
            }
            for label, each in CONTENDERS.items()
        ],
        "tables": {name: _table_figures(outcome, name) for name in outcome.scores},
    }


def _table_figures(outcome: Outcome, name: str) -> Config:
    scores = outcome.scores[name]
    grids = [tables.price_grid(outcome, name, ranked=ranked) for ranked in (True, False)]
    prices: dict[str, dict[str, float]] = {}
    for grid in grids:
        for label, row in zip(grid.labels, grid.prices, strict=True):
            known = {column: value for column, value in zip(grid.names, row, strict=True) if value is not None}
            prices.setdefault(label, {}).update(known)
    return {
        "prices": prices,
        "floors": dict(scores.floors),
        "regrets": {
            label: {column: regrets.tolist() for column, regrets in own.items()}
            for label, own in scores.selectors.items()
        },
        "regret_after_change": {
            label: after
            for label, own in scores.selectors.items()
            if (after := {n: value for n in own if (value := outcome.after_change(name, label, n)) is not None})
        },
        "leaderboard": [_place(place) for place in tables.places(outcome, name)],
        **{half: [_place(place) for place in tables.half_places(outcome, name, half)] for half in HALVES},
        "violations": {
            label: sum(r["violated"] for r in outcome.rows_of(name, label, prices[label])) for label in prices
        },
        "lower_rivals": [
            {**case._asdict(), "ratio": case.ratio, "reason": reason(name, case)}
            for case in lower_rivals(outcome, name)
        ],
    }


def _place(place: Place) -> Config:
    """As plain data; null where there is no ratio."""

    def plain(value: Plain) -> Plain:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return None if value != value else value

    return {key: plain(value) for key, value in asdict(place).items()}


def describe_table(outcome: Outcome, name: str) -> str:
    """The outcome of a table in a sentence or two."""
    n_all = len(tables.ranked_scores(outcome, name).learners)
    compatible = [place for place in tables.places(outcome, name) if place.n_instances == n_all]
    ranked = [place for place in compatible if place.label not in REFERENCES]
    if not ranked:
        return "No selector is compatible with all instances."
    first = ranked[0]
    figures = f"{tables.number(first.price.value)} ({tables.span(first.price)})"
    text = f"Lowest price of the selectors compatible with all {n_all} instances: {first.label}, {figures}"
    strictest = min(ranked, key=lambda place: place.strict)
    text += f"; lowest strict price: {strictest.label}, {tables.number(strictest.strict)}"
    proved = [place for place in ranked if CONTENDERS[place.label].guaranteed]
    if not CONTENDERS[first.label].guaranteed and proved:
        best = proved[0]
        text += f"; lowest with a proved bound: {best.label}, {tables.number(best.price.value)}"
    worst = min(ranked, key=lambda place: place.worst_seed_price)
    return f"{text}. Lowest price in its worst seed: {worst.label}, {tables.number(worst.worst_seed_price)}."


def explanations(outcome: Outcome) -> list[str]:
    return [
        f"Price is the mean regret of a selector over that of the best learner alone on the same instance, the latter "
        f"taken as at least {PRICE_FLOOR:g} w √T (w the width of the reward range, T the rounds), since no selector "
        "avoids regret of order √T. A price below 1 means that the selector lost less than the best single learner. "
        "The strict price counts prices below 1 as 1, instance by instance. The leaderboard has geometric means over "
        'the instances of the group "bandits". Intervals are of 95 %, by '
        f"drawing the {outcome.n_seeds} seeds with replacement; the ratio to the leader is paired by seed, on the "
        "instances that both are compatible with. Worst instance is the highest price, worst seed the highest price in "
        "a single seed. Violations are runs in which a certificate was below the true regret at a recorded round, of "
        "the runs of selectors that give one; certificates with candidate bounds assume that one of them holds, and "
        "the scaled ones are not proven. Seconds are single-thread time of all runs, compilation excluded.",
        f"All selectors have failure probability δ = {DELTA:g} where they take one and are given the range of the "
        "rewards, the noise where it is not bounded, and whether contexts change. Constants are the published ones, "
        "the same on all instances. Proved: of what a regret bound is proved for the method as it runs here, with "
        'learners such as these; methods that only follow the style of a publication do not count. "If a scaled bound '
        'is true": nothing is proved of the instances on which none is. Below trivial from T: the first number of '
        f"rounds at which that bound is below w T, which no regret exceeds, with {N_LEARNERS} learners, δ = 0.05, "
        "rewards like fair coins, one learner with regret at most w √n and bounds of the others that are false; before "
        "it, the proof says nothing. Unknown where no constants are published or the bound depends on the data.",
        "Reference rows: the oracle knows which learner is best and plays it alone, the best twin is the learner that "
        "loses least when it plays only what it believes best, without exploring.",
        f"Tuning half: the instances on which selectors may have been tuned, with seeds below {TUNING_SEEDS:,}. Report "
        "half: the other instances; some constants of counterfactual-balancing were chosen with instances of it too, "
        "and docs/counterfactual-balancing.md says which. The seeds of these tables, "
        f"{outcome.seeds.start:,} to {outcome.seeds[-1]:,}, were "
        + ("not used for tuning." if outcome.seeds.start >= TUNING_SEEDS else "partly used for tuning."),
    ]


def _lower_lines(outcome: Outcome, table: str) -> list[str]:
    cases = lower_rivals(outcome, table)
    if not cases:
        return [f"On no instance is another selector's strict price more than {FACTOR:g} times lower."]
    return [
        f"{case.instance}: {case.rival} {tables.number(case.rival_price)} against {case.recommended} "
        f"{tables.number(case.price)}, {tables.number(case.ratio)} times lower. Reason: {reason(table, case)}"
        for case in cases
    ]


def _sections(outcome: Outcome, svg: str) -> Iterator[list[str]]:
    yield [f"<h1>{escape(TITLE)}</h1>", *(f"<p class='quiet'>{escape(text)}</p>" for text in explanations(outcome))]
    yield ["<h2>Prices by instance</h2>", f"<figure>{inline(svg, TITLE)}</figure>"]
    for name in outcome.scores:
        yield [
            f"<h2>{escape(tables.TITLES[name])}</h2>",
            f"<p>{escape(describe_table(outcome, name))}</p>",
            _html(tables.leaders(outcome, name)),
            "<h3>Tuning half and report half</h3>",
            _html(tables.halves(outcome, name)),
            "<h3>By instance</h3>",
            _html(tables.by_instance(outcome, name, RECOMMENDED)),
            *(["<h3>Regret after the change</h3>", _html(found)] if (found := tables.drifts(outcome, name)) else []),
            f"<h3>{escape(LOWER_TITLE)}</h3>",
            *(f"<p>{escape(text.replace('**', ''))}</p>" for text in _lower_lines(outcome, name)),
        ]
    yield ["<h2>Selectors and their constants</h2>", _html(tables.contenders(outcome), "settings")]
    yield ["<h2>Instances</h2>", _html(tables.instances(outcome), "settings")]
    yield ["<h2>Run it again</h2>", f"<pre>{escape(command(outcome))}</pre>"]


def _html(rows: tables.Table, kind: str = "figures") -> str:
    return table(rows[0], rows[1:], kind=kind)


def _paragraphs(outcome: Outcome) -> Iterator[str]:
    """The page of the documentation, in Markdown."""
    yield f"# {TITLE}"
    yield f"```sh\n{command(outcome)}\n```"
    yield "![Prices of selection by selector and instance](suite.png)"
    for name in outcome.scores:
        yield f"## {tables.TITLES[name]}"
        yield describe_table(outcome, name)
        yield tables.markdown(tables.leaders(outcome, name), left=(0, 1, 8, 9))
        yield "### Tuning half and report half"
        yield tables.markdown(tables.halves(outcome, name), left=(0, 1))
        yield "### By instance"
        grid = tables.by_instance(outcome, name, RECOMMENDED)
        yield tables.markdown(grid, left=(0, len(grid[0]) - 1))
        if found := tables.drifts(outcome, name):
            yield "### Regret after the change"
            yield tables.markdown(found)
        yield f"### {LOWER_TITLE}"
        yield "\n".join(fill(f"- {text}", WIDTH, subsequent_indent="  ") for text in _lower_lines(outcome, name))
    yield "## How to read it"
    yield from (fill(text, WIDTH) for text in explanations(outcome))
    yield "## Selectors and their constants"
    yield tables.markdown(tables.contenders(outcome), left=(0, 1, 2, 4))
    yield "## Instances"
    yield tables.markdown(tables.instances(outcome), left=(0, 1, 2, 5, 7))
    yield f"*Written by `equipoise suite` with version {__version__}: do not edit.*"


def command(outcome: Outcome) -> str:
    """The command that gives the same tables again."""
    words = ["equipoise suite"]
    if not outcome.is_whole:
        lengths = {outcome.rounds[name] == INSTANCES[name].rounds for name in outcome.instances}
        words += [] if lengths == {True} else ["--quick"]
        words += [] if len(outcome.instances) == len(INSTANCES) else [f"--instances {','.join(outcome.instances)}"]
        took_part = {label for scores in outcome.scores.values() for label in scores.selectors} - {*REFERENCES}
        words += [] if took_part == set(CONTENDERS) else [f"--selectors {','.join(sorted(took_part))}"]
        words += [f"--seeds {outcome.n_seeds}", f"--first-seed {outcome.seeds.start}"]
    return " ".join(words)
