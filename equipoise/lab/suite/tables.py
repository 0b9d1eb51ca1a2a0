"""The tables of a suite as text, the same in the terminal, in the report and in the documentation."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from equipoise.lab.report.kit import MISSING, Table, number
from equipoise.lab.suite.contenders import CONTENDERS, REFERENCES
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Interval, Place, Scores, leaderboard, price, restricted, worst_seed_price
from equipoise.lab.suite.setups import BANDITS, GROUPS, HALVES
from equipoise.lab.suite.suite import Outcome

TITLES = {"alone": "Every learner learns from its own plays", "shared": "Learners learn from all rounds where they can"}
# `Portfolio` takes the first that is compatible with the learners.
RECOMMENDED = ("counterfactual-balancing", "realized-balancing")
FACTOR = 1.25  # by which another selector's strict price must be lower to be listed

LEADERS = (
    "selector",
    "proved",
    "below trivial from T",
    "price",
    "95 %",
    "strict",
    "to leader",
    "95 %",
    "worst instance",
    "worst seed",
    "violations",
    "seconds",
)


def ranked_scores(outcome: Outcome, table: str) -> Scores:
    """The scores that the leaderboard is over: bandits, or whatever was run if no bandit was."""
    scores = outcome.scores[table]
    bandits = [name for name in scores.learners if INSTANCES[name].group == BANDITS]
    return restricted(scores, bandits) if bandits else scores


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
    return Table(LEADERS, rows, left=(0, 1, 8, 9))


def _leader(outcome: Outcome, table: str, place: Place, n_all: int) -> list[str]:
    rows = outcome.rows_of(table, place.label, ranked_scores(outcome, table).learners)
    certified = [row for row in rows if row["certified"] is not None]
    name = place.label if place.n_instances == n_all else f"{place.label} ({place.n_instances} of {n_all})"
    return [
        name,
        proof_mark(place.label),
        informative_from(place.label),
        number(place.price.value),
        span(place.price),
        number(place.strict),
        number(place.ratio.value),
        span(place.ratio),
        f"{number(place.worst_price)} {place.worst_instance}",
        f"{number(place.worst_seed_price)} {place.worst_seed_instance}",
        f"{sum(row['violated'] for row in certified)} of {len(certified)}" if certified else "",
        f"{sum(row['seconds'] for row in rows):.1f}" if rows else "",
    ]


def halves(outcome: Outcome, table: str) -> Table:
    """Prices where selectors may have been tuned, and where they were not."""
    found = {half: {place.label: place for place in half_places(outcome, table, half)} for half in HALVES}
    head = ["selector", "proved"]
    for half in HALVES:
        head += [f"{half} price", "95 %", "to leader", "95 %"]
    rows = []
    for label in [place.label for place in places(outcome, table)]:
        cells = [label, proof_mark(label)]
        for half in HALVES:
            place = found[half].get(label)
            cells += [MISSING] * 4 if place is None else _figures(place)
        rows.append(cells)
    return Table(head, rows, left=(0, 1))


def _figures(place: Place) -> list[str]:
    return [number(place.price.value), span(place.price), number(place.ratio.value), span(place.ratio)]


class Grid(NamedTuple):
    """Prices of selectors, by place, on instances; None where a selector is not compatible with an instance."""

    labels: list[str]
    names: list[str]
    prices: list[list[float | None]]


def price_grid(outcome: Outcome, table: str, *, ranked: bool = True) -> Grid:
    """Prices on the instances of the leaderboard, by half, or on the others, by group."""
    scores, within = outcome.scores[table], ranked_scores(outcome, table).learners
    names = [name for name in scores.learners if (name in within) == ranked]
    if ranked:
        names.sort(key=lambda name: HALVES.index(INSTANCES[name].half))
    else:
        names.sort(key=lambda name: GROUPS.index(INSTANCES[name].group))
    order = [place.label for place in places(outcome, table)]
    order += [label for label in scores.selectors if label not in order]
    labels = [label for label in order if any(name in scores.selectors[label] for name in names)]
    return Grid(labels, names, [[_price(scores, label, name) for name in names] for label in labels])


def _price(scores: Scores, label: str, name: str) -> float | None:
    own = scores.selectors[label]
    return price(own[name], scores.learners[name], scores.floors[name]) if name in own else None


def _prices(scores: Scores, name: str) -> dict[str, float]:
    """The prices of all compatible selectors on an instance, without the references."""
    labels = [label for label in scores.selectors if label not in REFERENCES]
    return {label: value for label in labels if (value := _price(scores, label, name)) is not None}


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


def by_instance(outcome: Outcome, table: str) -> Table:
    """Price and worst seed of the recommended selectors, and the lowest price of any, on every instance."""
    scores = outcome.scores[table]
    shown = [label for label in RECOMMENDED if label in scores.selectors]
    head = ["instance"]
    for label in shown:
        head += [label, "strict", "worst seed"]
    rows = []
    for name in scores.learners:
        cells = [name]
        for label in shown:
            value = _price(scores, label, name)
            worst = number(worst_seed_price(scores, label, name)) if value is not None else ""
            cells += [MISSING] * 3 if value is None else [number(value), number(max(1.0, value)), worst]
        prices = _prices(scores, name)
        lowest = min(prices, key=lambda label: prices[label], default=None)
        rows.append([*cells, MISSING if lowest is None else f"{number(prices[lowest])} {lowest}"])
    return Table([*head, "lowest price"], rows, left=(0, len(head)))


class Lower(NamedTuple):
    """An instance on which another selector has a lower strict price than the recommended one."""

    instance: str
    recommended: str
    price: float
    rival: str
    rival_price: float

    @property
    def ratio(self) -> float:
        return self.price / self.rival_price


def lower_rivals(outcome: Outcome, table: str, factor: float = FACTOR) -> list[Lower]:
    """The instances on which the best other selector is more than `factor` times lower, the largest ratio first."""
    scores, found = outcome.scores[table], []
    for name in scores.learners:
        prices = {label: max(1.0, value) for label, value in _prices(scores, name).items()}
        subject = next((label for label in RECOMMENDED if label in prices), None)
        if subject is None:
            continue
        rival = min(prices, key=lambda label: prices[label])
        case = Lower(name, subject, prices[subject], rival, prices[rival])
        if case.ratio > factor:
            found.append(case)
    return sorted(found, key=lambda case: -case.ratio)


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
