"""The files of a finished suite: numbers as JSON, the picture, an HTML report, a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from equipoise import __version__
from equipoise.lab.report import drawing, kit
from equipoise.lab.report.kit import Block, Table, number
from equipoise.lab.runs.summary import small_percent
from equipoise.lab.suite import tables
from equipoise.lab.suite.contenders import CONTENDERS, DELTA, REFERENCES
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Cost, Place, cost
from equipoise.lab.suite.picture import suite_figure
from equipoise.lab.suite.setups import HALVES
from equipoise.lab.suite.suite import TUNING_SEEDS, Outcome
from equipoise.storage.files import write_atomic
from equipoise.theory.first_rounds import N_LEARNERS
from equipoise.types import Config

JSON, REPORT, PICTURE, DRAWING, PAGE = "suite.json", "report.html", "suite.png", "suite.svg", "suite.md"
FORMAT = 2
TITLE = "The suite: which selector to use"
WHY = (
    "[Choose a selector](guide/choose-a-selector.md#where-another-selector-is-better) says why another selector is "
    "better where one is."
)
FOOTER = f"*Written by `equipoise suite` with version {__version__}: do not edit.*"
LOWER_TITLE = "Where another selector has a clearly lower strict ratio than the recommended one"


def publish(outcome: Outcome, out: Path, docs: Path | None) -> list[Path]:
    """Write the files of the run to `out` and, if `docs` is given, page and picture there; returns all paths."""
    figure = suite_figure(outcome)
    blocks = list(_blocks(outcome, drawing.save_figure(figure, out / PICTURE)))
    write_atomic(out / JSON, kit.json_text(figures(outcome)).encode())
    write_atomic(out / REPORT, kit.page(TITLE, blocks).encode())
    paths = [out / name for name in (REPORT, PICTURE, DRAWING, JSON)]
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        write_atomic(docs / PICTURE, drawing.small_png(figure))
        write_atomic(docs / PAGE, f"{kit.markdown(blocks)}\n{WHY}\n\n{FOOTER}\n".encode())
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
                "learners": _learner_figures(outcome, name),
            }
            for name in outcome.instances
        ],
        "selectors": [
            {"name": label, "class": each.selector, "constants": each.constants, "proved": each.proof}
            | {"informative_from": each.informative_from}
            for label, each in CONTENDERS.items()
        ],
        "tables": {name: _table_figures(outcome, name) for name in outcome.scores},
    }


def _learner_figures(outcome: Outcome, name: str) -> list[Config]:
    means = outcome.scores["alone"].learners[name].mean(axis=0).tolist()
    return [{"name": each, "regret_mean": mean} for each, mean in zip(outcome.learners[name], means, strict=True)]


def _table_figures(outcome: Outcome, name: str) -> Config:
    scores = outcome.scores[name]
    costs = {label: {column: cost(scores, label, column) for column in own} for label, own in scores.selectors.items()}
    return {
        "costs": {label: {column: _cost_figures(one) for column, one in own.items()} for label, own in costs.items()},
        "regrets": {
            label: {column: regrets.tolist() for column, regrets in own.items()}
            for label, own in scores.selectors.items()
        },
        "regret_after_change": {
            label: after
            for label, own in scores.selectors.items()
            if (after := {n: value for n in own if (value := outcome.after_change(name, label, n)) is not None})
        },
        "leaderboard": [asdict(place) for place in tables.places(outcome, name)],
        **{half: [asdict(place) for place in tables.half_places(outcome, name, half)] for half in HALVES},
        "violations": {
            label: sum(r["violated"] for r in outcome.rows_of(name, label, costs[label])) for label in costs
        },
        "lower_rivals": [{**case._asdict(), "factor": case.factor} for case in tables.lower_rivals(outcome, name)],
    }


def _cost_figures(one: Cost) -> Config:
    derived = {"ratio": one.ratio, "strict": one.strict, "excess": one.excess, "reward_lost": one.reward_lost}
    return {"best": one.best, "regret": one.regret, **derived}


def describe_table(outcome: Outcome, name: str) -> str:
    """The outcome of a table in a few sentences."""
    n_all, problems = len(tables.ranked_scores(outcome, name).learners), tables.kind_of_problems(outcome, name)
    compatible = [place for place in tables.places(outcome, name) if place.n_instances == n_all]
    ranked = [place for place in compatible if place.label not in REFERENCES]
    if not ranked:
        return f"No selector is compatible with all of the {problems}."
    text = f"{problems}, means of {outcome.n_seeds} seeds. Of the selectors compatible with all of them, "
    text += f"{_headline(ranked[0])}."
    strictest = min(ranked, key=lambda place: place.strict)
    text += f" Lowest strict ratio: {strictest.label}, {number(strictest.strict)}."
    proved = [place for place in ranked if CONTENDERS[place.label].proof]
    if not CONTENDERS[ranked[0].label].proof and proved:
        text += f" Lowest ratio with a proved bound: {proved[0].label}, {number(proved[0].ratio.value)}."
    worst = min(ranked, key=lambda place: place.worst_seed.value)
    return (
        f"{text} Lowest ratio in its worst seed: {worst.label}, {number(worst.worst_seed.value)} "
        f"({worst.worst_seed.instance})."
    )


def _headline(place: Place) -> str:
    """What a selector loses, with everything that the number needs."""
    gains = place.reward_lost < 0
    return (
        f"{place.label} has the lowest regret: {number(place.ratio.value)} times that of the best learner alone "
        f"(geometric mean; 95 %: {tables.span(place.ratio)}), at most {number(place.worst_excess.value)} w √T more "
        f"({place.worst_excess.instance}). It {'gains' if gains else 'loses'} "
        f"{small_percent(abs(place.reward_lost))} of the best learner's reward on average"
        f"{' and loses' if gains else ','} "
        f"{small_percent(place.worst_reward_lost.value)} at most ({place.worst_reward_lost.instance})"
    )


def explanations(outcome: Outcome) -> list[str]:
    return [
        "Best alone is the mean regret of the best learner alone on the instance, ratio the mean regret of the "
        "selector over it. A ratio below 1 means that the selector lost less than the best single learner. The strict "
        "ratio counts ratios below 1 as 1, instance by instance. Excess is the difference of both regrets over w √T (w "
        "the width of the reward range, T the rounds), as no selector avoids regret of order √T. A large ratio with a "
        "small excess says that the best learner loses next to nothing. Reward lost is the same difference in percent "
        "of what the best learner earns, a dash where that is not positive. The leaderboard has geometric means of "
        'ratios, and means of regrets and of reward lost, over the instances of the group "bandits". Intervals are of '
        f"95 %, by drawing the {outcome.n_seeds} seeds with replacement; the ratio to the leader is paired by seed, on "
        "the instances that both are compatible with. Worst instance is the highest ratio, worst seed the highest "
        "ratio in a single seed. Violations are runs in which a certificate was below the true regret at a recorded "
        "round, of the runs of selectors that give one; certificates with candidate bounds assume that one of them "
        "holds, and the scaled ones are not proven.",
        f"All selectors have failure probability δ = {DELTA:g} where they take one and are given the range of the "
        "rewards, the noise where it is not bounded, and whether contexts change. Constants are the published ones, "
        "the same on all instances. Proved: of what a regret bound is proved for the method as it runs here, with "
        'learners such as these; methods that only follow the style of a publication do not count. "If a scaled bound '
        'is true": nothing is proved of the instances on which none is. Below trivial from T: the first number of '
        f"rounds at which that bound is below w T, which no regret exceeds, with {N_LEARNERS} learners, δ = 0.05, "
        "rewards like fair coins, one learner with regret at most w √n and bounds of the others that are false; before "
        "it, the proof says nothing. Unknown where no constants are published or the bound depends on the data.",
        "Reference rows: the oracle knows which learner is best and plays it alone, best-greedy is the learner that "
        "loses least when it plays only what it believes best, without exploring.",
        f"Tuning half: the instances on which selectors may have been tuned, with seeds below {TUNING_SEEDS:,}. Report "
        "half: the other instances; some constants of counterfactual-balancing were chosen with instances of it too, "
        "and docs/counterfactual-balancing.md says which. The seeds of these tables, "
        f"{outcome.seeds.start:,} to {outcome.seeds[-1]:,}, were "
        + ("not used for tuning." if outcome.seeds.start >= TUNING_SEEDS else "partly used for tuning."),
    ]


def _blocks(outcome: Outcome, svg: str) -> Iterator[Block | Table]:
    """The report, which is also a page of the documentation."""
    yield kit.heading(TITLE, 1)
    yield kit.listing(command(outcome))
    yield kit.picture(svg, "Regret of every selector over that of the best learner alone, by instance", PICTURE)
    for name in outcome.scores:
        yield kit.heading(tables.TITLES[name])
        yield kit.paragraph(describe_table(outcome, name))
        yield tables.leaders(outcome, name)
        yield kit.heading("Tuning half and report half", 3)
        yield tables.halves(outcome, name)
        yield kit.heading("By instance", 3)
        yield tables.by_instance(outcome, name)
        if found := tables.drifts(outcome, name):
            yield kit.heading("Regret after the change", 3)
            yield found
        yield kit.heading(LOWER_TITLE, 3)
        yield kit.items((line,) for line in _lower_lines(outcome, name))
    yield kit.heading("How to read it")
    yield from map(kit.paragraph, explanations(outcome))
    yield kit.heading("Selectors and their constants")
    yield tables.contenders(outcome)
    yield kit.heading("Instances")
    yield tables.instances(outcome)


def _lower_lines(outcome: Outcome, table: str) -> Iterator[str]:
    cases = tables.lower_rivals(outcome, table)
    for case in cases:
        yield (
            f"{case.instance}: {case.rival} {number(case.rival_strict)} against {case.recommended} "
            f"{number(case.strict)}, {number(case.factor)} times lower."
        )
    if not cases:
        yield f"On no instance is another selector's strict ratio more than {tables.FACTOR:g} times lower."


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
