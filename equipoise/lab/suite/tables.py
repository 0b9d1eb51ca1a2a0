"""The tables of a suite as text, the same in the terminal, in the report and in the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.lab.suite.contenders import CONTENDERS, ORACLE
from equipoise.lab.suite.instances import HALVES, INSTANCES
from equipoise.lab.suite.leaderboard import Interval, Place, leaderboard, price, restricted
from equipoise.lab.suite.suite import Outcome

Table = list[list[str]]  # the header first
TITLES = {
    "alone": "Every learner learns from its own plays",
    "shared": "Learners learn from all rounds where they can",
}
LEADERS = (
    "selector",
    "proved",
    "below trivial from T",
    "price",
    "95 %",
    "to leader",
    "95 %",
    "worst instance",
    "worst seed",
    "violations",
    "seconds",
)


def places(outcome: Outcome, table: str) -> list[Place]:
    """The leaderboard over all instances and seeds."""
    return leaderboard(outcome.scores[table])


def half_places(outcome: Outcome, table: str, half: str) -> list[Place]:
    """The leaderboard over the instances of a half."""
    scores = outcome.scores[table]
    names = [name for name in scores.learners if INSTANCES[name].half == half]
    return leaderboard(restricted(scores, names)) if names else []


def leaders(outcome: Outcome, table: str) -> Table:
    """The leaderboard with all its columns."""
    n_all = len(outcome.scores[table].learners)
    return [list(LEADERS), *(_leader(outcome, table, place, n_all) for place in places(outcome, table))]


def _leader(outcome: Outcome, table: str, place: Place, n_all: int) -> list[str]:
    rows = outcome.rows_of(table, place.label)
    certified = [row for row in rows if row["certified"] is not None]
    name = place.label if place.n_instances == n_all else f"{place.label} ({place.n_instances} of {n_all})"
    return [
        name,
        proof_mark(place.label),
        informative_from(place.label),
        number(place.price.value),
        span(place.price),
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
    rows = [head]
    for label in [place.label for place in places(outcome, table)]:
        cells = [label, proof_mark(label)]
        for half in HALVES:
            place = found[half].get(label)
            cells += [""] * 4 if place is None else _figures(place)
        rows.append(cells)
    return rows


def _figures(place: Place) -> list[str]:
    return [number(place.price.value), span(place.price), number(place.ratio.value), span(place.ratio)]


def price_grid(outcome: Outcome, table: str) -> tuple[list[str], list[str], list[list[float | None]]]:
    """Labels by place, instances by half, and the prices; None where a selector is not compatible with an instance."""
    scores = outcome.scores[table]
    names = sorted(scores.learners, key=lambda name: HALVES.index(INSTANCES[name].half))
    labels = [place.label for place in places(outcome, table)]
    grid: list[list[float | None]] = []
    for label in labels:
        own = scores.selectors[label]
        grid.append(
            [price(own[name], scores.learners[name], scores.floors[name]) if name in own else None for name in names]
        )
    return labels, names, grid


def instances(outcome: Outcome) -> Table:
    """What each instance tests, and the regret of its best learner alone."""
    rows = [["instance", "half", "rounds", "learners", "best alone", "what it tests"]]
    for name in outcome.instances:
        means = outcome.scores["alone"].learners[name].mean(axis=0)
        best = outcome.learners[name][int(means.argmin())]
        instance = INSTANCES[name]
        rows.append(
            [
                name,
                instance.half,
                f"{outcome.rounds[name]:,}",
                str(len(means)),
                f"{best}: {means.min():,.0f}",
                instance.tests,
            ]
        )
    return rows


def contenders(outcome: Outcome) -> Table:
    """The constants of the selectors that took part."""
    took_part = {label for scores in outcome.scores.values() for label in scores.selectors}
    rows = [["selector", "class", "proved", "below trivial from T", "constants"]]
    for label, contender in CONTENDERS.items():
        if label in took_part:
            rows.append([label, contender.selector, proof_mark(label), informative_from(label), contender.constants])
    return rows


def proof_mark(label: str) -> str:
    """Of what a regret bound is proved."""
    return "" if label == ORACLE else CONTENDERS[label].proof or "no"


def informative_from(label: str) -> str:
    """The first rounds at which the proved bound is below the trivial one, in the reference setting.

    >>> informative_from("uniform"), informative_from("d3rb"), informative_from("ed2rb")
    ('', '4,910', 'unknown')
    """
    if label == ORACLE or not CONTENDERS[label].guaranteed:
        return ""
    first = CONTENDERS[label].informative_from
    return "unknown" if first is None else f"{first:,}"


def number(value: float) -> str:
    """Three significant digits, more for large numbers; empty for nan.

    >>> [number(value) for value in (0.9876, 98.76, 9876.5, float("nan"))]
    ['0.99', '98.8', '9,876', '']
    """
    if value != value:
        return ""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def span(interval: Interval) -> str:
    return "" if interval.value != interval.value else f"{number(interval.low)}–{number(interval.high)}"


def markdown(table: Table, left: Sequence[int] = (0,)) -> str:
    """A table in Markdown, columns aligned to the right but for those in `left`."""
    head, *rows = table
    rule = ["---" if column in left else "---:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))
