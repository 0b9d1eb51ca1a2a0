"""The tables of a suite as text, the same in the terminal, in the report and in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf
from typing import NamedTuple

import numpy as np

from equipoise.lab.report.kit import MISSING, Table, number
from equipoise.lab.runs.summary import small_percent
from equipoise.lab.suite.contenders import CONTENDERS, REFERENCES
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import (
    Cost,
    Interval,
    Place,
    Scores,
    Worst,
    cost,
    leaderboard,
    restricted,
    worst_seed_ratio,
)
from equipoise.lab.suite.setups import BANDITS, GROUPS, HALVES
from equipoise.lab.suite.suite import Outcome

TITLES = {"alone": "Every learner learns from its own plays", "shared": "Learners learn from all rounds where they can"}
# `Portfolio` takes the first that is compatible with the learners.
RECOMMENDED = ("counterfactual-balancing", "realized-balancing")
FACTOR = 1.25  # by which another selector's strict ratio must be lower to be listed

LEADERS = (
    "selector",
    "best alone",
    "regret",
    "ratio",
    "95 %",
    "strict",
    "largest excess",
    "reward lost",
    "most lost",
    "worst instance",
    "worst seed",
    "to leader",
    "proved",
    "below trivial from T",
    "violations",
)


def ranked_scores(outcome: Outcome, table: str) -> Scores:
    """The scores that the leaderboard is over: bandits, or whatever was run if no bandit was."""
    scores = outcome.scores[table]
    bandits = [name for name in scores.learners if INSTANCES[name].group == BANDITS]
    return restricted(scores, bandits) if bandits else scores


def kind_of_problems(outcome: Outcome, table: str) -> str:
    """What the leaderboard is over, in words."""
    names = list(ranked_scores(outcome, table).learners)
    group = {INSTANCES[name].group for name in names}
    kind = "bandit" if group == {BANDITS} else "decision"
    rounds = sorted({outcome.rounds[name] for name in names})
    lengths = f"{rounds[0]:,}" + (f" to {rounds[-1]:,}" if len(rounds) > 1 else "")
    return f"{len(names)} simulated {kind} problem{'s' if len(names) > 1 else ''} of {lengths} rounds"


def places(outcome: Outcome, table: str) -> list[Place]:
    """The leaderboard over the bandits and all seeds."""
    return leaderboard(ranked_scores(outcome, table))


def half_places(outcome: Outcome, table: str, half: str) -> list[Place]:
    """The leaderboard over the instances of a half."""
    scores = ranked_scores(outcome, table)
    names = [name for name in scores.learners if INSTANCES[name].half == half]
    return leaderboard(restricted(scores, names)) if names else []


def leaders(outcome: Outcome, table: str) -> Table:
    """The leaderboard with all its columns."""
    n_all = len(ranked_scores(outcome, table).learners)
    rows = [_leader(outcome, table, place, n_all) for place in places(outcome, table)]
    return Table(LEADERS, rows, left=(0, 6, 8, 9, 10, 12))


def _leader(outcome: Outcome, table: str, place: Place, n_all: int) -> list[str]:
    rows = outcome.rows_of(table, place.label, ranked_scores(outcome, table).learners)
    certified = [row for row in rows if row["certified"] is not None]
    name = place.label if place.n_instances == n_all else f"{place.label} ({place.n_instances} of {n_all})"
    return [
        name,
        number(place.best),
        number(place.regret),
        number(place.ratio.value),
        span(place.ratio),
        number(place.strict),
        where(place.worst_excess),
        small_percent(place.reward_lost),
        where(place.worst_reward_lost, small_percent),
        where(place.worst_ratio),
        where(place.worst_seed),
        number(place.to_leader.value),
        proof_mark(place.label),
        informative_from(place.label),
        f"{sum(row['violated'] for row in certified)} of {len(certified)}" if certified else "",
    ]


def where(worst: Worst, shown: Callable[[float], str] = number) -> str:
    """A value and the instance that it is from."""
    return f"{shown(worst.value)} {worst.instance}"


def halves(outcome: Outcome, table: str) -> Table:
    """Ratios where selectors may have been tuned, and where they were not."""
    found = {half: {place.label: place for place in half_places(outcome, table, half)} for half in HALVES}
    head = ["selector", "proved"]
    for half in HALVES:
        head += [f"{half} ratio", "95 %", "to leader", "95 %"]
    rows = []
    for label in [place.label for place in places(outcome, table)]:
        cells = [label, proof_mark(label)]
        for half in HALVES:
            place = found[half].get(label)
            cells += [MISSING] * 4 if place is None else _figures(place)
        rows.append(cells)
    return Table(head, rows, left=(0, 1))


def _figures(place: Place) -> list[str]:
    return [number(place.ratio.value), span(place.ratio), number(place.to_leader.value), span(place.to_leader)]


class Grid(NamedTuple):
    """Ratios of selectors, by place, on instances; None where a selector is not compatible with an instance."""

    labels: list[str]
    names: list[str]
    ratios: list[list[float | None]]


def ratio_grid(outcome: Outcome, table: str, *, ranked: bool = True) -> Grid:
    """Ratios on the instances of the leaderboard, by half, or on the others, by group."""
    scores, within = outcome.scores[table], ranked_scores(outcome, table).learners
    names = [name for name in scores.learners if (name in within) == ranked]
    if ranked:
        names.sort(key=lambda name: HALVES.index(INSTANCES[name].half))
    else:
        names.sort(key=lambda name: GROUPS.index(INSTANCES[name].group))
    order = [place.label for place in places(outcome, table)]
    order += [label for label in scores.selectors if label not in order]
    labels = [label for label in order if any(name in scores.selectors[label] for name in names)]
    return Grid(labels, names, [[_ratio(scores, label, name) for name in names] for label in labels])


def _ratio(scores: Scores, label: str, name: str) -> float | None:
    return cost(scores, label, name).ratio if name in scores.selectors[label] else None


def _costs(scores: Scores, name: str) -> dict[str, Cost]:
    """What all compatible selectors lose on an instance, without the references."""
    labels = [label for label, own in scores.selectors.items() if label not in REFERENCES and name in own]
    return {label: cost(scores, label, name) for label in labels}


def drifts(outcome: Outcome, table: str) -> Table | None:
    """Mean regret after the law has changed, by selector, least in the first column first; None without drift."""
    names = [name for name in outcome.instances if INSTANCES[name].change(outcome.rounds[name]) is not None]
    names = [name for name in names if name in outcome.scores[table].learners]
    after = {
        label: [outcome.after_change(table, label, name) for name in names] for label in outcome.scores[table].selectors
    }
    kept = {label: row for label, row in after.items() if any(value is not None for value in row)}
    ranked = sorted(kept, key=lambda label: [inf if value is None else value for value in kept[label]])
    rows = [[label, *(MISSING if value is None else f"{value:,.0f}" for value in kept[label])] for label in ranked]
    return Table(("selector", *names), rows) if rows else None


BY_INSTANCE = (
    "instance",
    "rounds",
    "selector",
    "best alone",
    "regret",
    "ratio",
    "excess",
    "reward lost",
    "worst seed",
)


def by_instance(outcome: Outcome, table: str) -> Table:
    """What the recommended selectors lose on every instance, and the selector that loses least."""
    scores, rows = outcome.scores[table], []
    for name in scores.learners:
        costs = _costs(scores, name)
        lowest = min(costs, key=lambda label: costs[label].regret, default=None)
        shown = [label for label in RECOMMENDED if label in costs]
        for label in [*shown, *([lowest] if lowest is not None and lowest not in shown else [])]:
            rows.append([name, f"{outcome.rounds[name]:,}", label, *_lost(scores, label, name)])
    return Table(BY_INSTANCE, rows, left=(0, 2))


def _lost(scores: Scores, label: str, name: str) -> list[str]:
    own = cost(scores, label, name)
    ratios = [factor(own.ratio), number(own.excess).replace("-", "−"), small_percent(own.reward_lost)]
    return [number(own.best), number(own.regret), *ratios, factor(worst_seed_ratio(scores, label, name))]


def factor(ratio: float) -> str:
    """A ratio; a dash where the best learner has lost nothing."""
    return MISSING if isinf(ratio) else number(ratio)


class Lower(NamedTuple):
    """An instance on which another selector has a lower strict ratio than the recommended one."""

    instance: str
    recommended: str
    strict: float
    rival: str
    rival_strict: float

    @property
    def factor(self) -> float:
        return self.strict / self.rival_strict


def lower_rivals(outcome: Outcome, table: str, least: float = FACTOR) -> list[Lower]:
    """The instances on which the best other selector is more than `least` times lower, the largest factor first."""
    scores, found = outcome.scores[table], []
    for name in scores.learners:
        costs = _costs(scores, name)
        subject = next((label for label in RECOMMENDED if label in costs), None)
        if subject is None or isinf(costs[subject].strict):
            continue
        rival = min(costs, key=lambda label: costs[label].strict)
        case = Lower(name, subject, costs[subject].strict, rival, costs[rival].strict)
        if case.factor > least:
            found.append(case)
    return sorted(found, key=lambda case: -case.factor)


def instances(outcome: Outcome) -> Table:
    """What each instance tests, and the regrets of its best learner and of its best greedy expert alone."""
    head = ("instance", "group", "half", "rounds", "learners", "best alone", "best greedy alone", "what it tests")
    rows = []
    for name in outcome.instances:
        means = outcome.scores["alone"].learners[name].mean(axis=0)
        best = outcome.learners[name][int(means.argmin())]
        instance, greedy = INSTANCES[name], outcome.greedy.get(name)
        best_greedy = "" if greedy is None else f"{np.nanmin(greedy.mean(axis=0)):,.0f}"
        sizes = [f"{outcome.rounds[name]:,}", str(len(means)), f"{best}: {means.min():,.0f}", best_greedy]
        rows.append([name, instance.group, instance.half, *sizes, instance.tests])
    return Table(head, rows, left=(0, 1, 2, 5, 7))


def contenders(outcome: Outcome) -> Table:
    """The constants of the selectors that took part."""
    took_part = {label for scores in outcome.scores.values() for label in scores.selectors}
    rows = [
        (label, each.selector, proof_mark(label), informative_from(label), each.constants)
        for label, each in CONTENDERS.items()
        if label in took_part
    ]
    return Table(("selector", "class", "proved", "below trivial from T", "constants"), rows, left=(0, 1, 2, 4))


def proof_mark(label: str) -> str:
    """Of what a regret bound is proved."""
    return "" if label in REFERENCES else CONTENDERS[label].proof or "no"


def informative_from(label: str) -> str:
    """The first rounds at which the proved bound is below the trivial one, in the reference setting.

    >>> informative_from("uniform"), informative_from("d3rb"), informative_from("ed2rb")
    ('', '4,910', 'unknown')
    """
    if label in REFERENCES or not CONTENDERS[label].proof:
        return ""
    first = CONTENDERS[label].informative_from
    return "unknown" if first is None else f"{first:,}"


def span(interval: Interval) -> str:
    return "" if interval.value != interval.value else f"{number(interval.low)}–{number(interval.high)}"
