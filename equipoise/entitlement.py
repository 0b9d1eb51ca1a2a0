"""What selectors demand and what learners offer, as tables of the documentation: `equipoise docs entitlement`.

A portfolio compares the two when it is made and refuses with the name of the learner and of the demand; the tables are
read off the same declarations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Any

from equipoise.errors import EquipoiseError
from equipoise.learner import accepts, can_be_restored, offers
from equipoise.learners import LEARNERS
from equipoise.nesting import linear_class
from equipoise.selectors import SELECTORS

WIDTH = 120

# The demands of `Selector.needs`: heading, and what it takes to meet them.
DEMANDS = {
    "bounds": ("bounds", "one candidate regret bound per learner, given to the selector"),
    "actions": ("all propose", "every learner proposes in every round"),
    "lower": ("lower bounds", 'every proposal has a lower bound: the learner offers "lower"'),
    "weight": ("weights", 'every learner is told of every round, importance-weighted: it accepts "weight"'),
    "snapshots": ("snapshots", "earlier policies play again: the learner has `state` and `restore`"),
    "nested": ("nested", "the learners' classes contain each other: each states its class of linear rewards"),
}
# What a learner offers: heading, and what it entitles to.
OFFERS = {
    "regret": "`Observed` bounds",
    "lower": "lower bounds",
    "weight": "weights",
    "off_policy": "`share_data=True`",
    "snapshots": "snapshots, saving",
    "nested": "nested classes",
}

# A value for every argument that some learner cannot do without.
LEAST: dict[str, Any] = {
    "action": 0,
    "arms": 2,
    "coefficient": 1.0,
    "dim": 2,
    "dims": [1, 2],
    "episodes": 10,
    "epsilon": 0.1,
    "family": "power",
    "features": [[[1.0], [0.5]], [[0.5], [1.0]]],
    "horizon": 2,
    "n_actions": 2,
    "n_states": 2,
    "rounds": 100,
    "shape": 0.5,
}


def demands_of(selector: Any) -> frozenset[str]:
    """What a selector, or a class of selectors, needs."""
    needs: frozenset[str] = selector.needs
    return needs


def offers_of(learner: Any) -> frozenset[str]:
    """What a learner offers: what it declares, and what follows from the methods and settings it has."""
    follows = {"snapshots": can_be_restored(learner), "nested": _states_a_class(learner)}
    return offers(learner) | accepts(learner) | {word for word, given in follows.items() if given}


def _states_a_class(learner: Any) -> bool:
    try:
        linear_class(learner)
    except EquipoiseError:
        return False
    return True


def met(demand: str, learner: Any) -> bool:
    """Whether a learner meets a demand of a selector; bounds are the user's to give, and anybody can propose."""
    return demand in ("bounds", "actions") or demand in offers_of(learner)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# What selectors demand and learners offer\n"
    yield fill(
        "A portfolio is refused when it is made if a learner does not meet a demand of the selector; the message names "
        "both. The same holds for your own classes: selectors declare `needs`, learners `accepts` and `offers`.",
        WIDTH,
    )
    yield "\n## Demands of selectors\n"
    yield from _table("selector", [heading for heading, _ in DEMANDS.values()])
    for name, cls in SELECTORS.items():
        yield _row(name, (demand in demands_of(cls) for demand in DEMANDS))
    yield ""
    for heading, meaning in DEMANDS.values():
        yield f"- **{heading}**: {meaning}"
    yield fill(
        '- Whatever the selector, an `Observed` bound demands that its learner offers "regret", and '
        '`share_data=True` that some learner accepts "off_policy"; it is refused with selectors that demand weights or '
        "snapshots, which tell each learner of its own rounds in their own way. `UCBC` with `copies` > 1 demands that "
        "learners stand in groups of equal settings.",
        WIDTH,
        subsequent_indent="  ",
    )
    yield "\n## Offers of learners\n"
    yield from _table("learner", OFFERS.values())
    for learner in examples():
        yield _row(type(learner).__name__, (offer in offers_of(learner) for offer in OFFERS))
    yield "\n*Written by `equipoise docs entitlement`.*"


def _table(first: str, headings: Iterable[str]) -> Iterator[str]:
    cells = [first, *headings]
    yield f"| {' | '.join(cells)} |"
    yield f"|---{'|:---:' * (len(cells) - 1)}|"


def _row(name: str, marks: Iterable[bool]) -> str:
    return f"| `{name}` | {' | '.join('yes' if mark else '' for mark in marks)} |"


def examples() -> list[Any]:
    """One object of every registered learner, made with the least that it takes."""
    made = []
    for cls in LEARNERS.values():
        parameters = inspect.signature(cls).parameters.values()
        made.append(cls(**{given.name: LEAST[given.name] for given in parameters if given.default is given.empty}))
    return made
