"""What selectors need and what learners provide, as tables of the documentation.

The tables are generated from the declarations that `equipoise.compatibility` compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from textwrap import fill

from equipoise.compatibility import NEEDS, provided_by
from equipoise.learner import Learner
from equipoise.learners import LEARNERS
from equipoise.selectors import SELECTORS
from equipoise.types import Plain

WIDTH = 120

# What a learner accepts or provides, and its column in the table.
PROVIDED = {
    "regret": "`Observed` bounds",
    "lower": "lower bounds",
    "weight": "weights",
    "off_policy": "`share_data=True`",
    "agreed": "rounds it agrees with",
    "probability": "logged probabilities",
    "greedy": "greedy actions",
    "value": "estimated rewards",
    "pmf": "probabilities of all actions",
    "saving": "saving",
    "nested": "nested classes",
}

# A value for every argument that some learner requires.
REQUIRED: dict[str, Plain] = {
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


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# What selectors need and learners provide\n"
    yield fill(
        "Constructing a portfolio fails if a learner lacks what the selector needs; the message names both. The same "
        "holds for your own classes: selectors declare `needs`, learners `accepts` and `provides`.",
        WIDTH,
    )
    yield "\n## What selectors need\n"
    yield from _table("selector", [need.heading for need in NEEDS.values()])
    for name, cls in SELECTORS.items():
        yield _row(name, (need in cls.needs for need in NEEDS))
    yield ""
    for need in NEEDS.values():
        yield f"- **{need.heading}**: {need.meaning}"
    yield fill(
        '- With any selector, an `Observed` bound needs a learner that provides "regret", and `share_data=True` '
        'some learner that accepts "off_policy"; it is refused with selectors that need weights, which tell '
        "each learner of its own rounds in their own way.",
        WIDTH,
        subsequent_indent="  ",
    )
    yield "\n## What learners provide\n"
    found = {type(learner).__name__: provided_by(learner) for learner in examples()}
    shown = [word for word in PROVIDED if any(word in words for words in found.values())]
    yield from _table("learner", [PROVIDED[word] for word in shown])
    for name, words in found.items():
        yield _row(name, (word in words for word in shown))
    yield "\n*Written by `python -m tools.pages compatibility`.*"


def _table(first: str, headings: Iterable[str]) -> Iterator[str]:
    cells = [first, *headings]
    yield f"| {' | '.join(cells)} |"
    yield f"|---{'|:---:' * (len(cells) - 1)}|"


def _row(name: str, marks: Iterable[bool]) -> str:
    return f"| `{name}` | {' | '.join('yes' if mark else '' for mark in marks)} |"


def examples() -> list[Learner]:
    """One object of every registered learner, made with its required arguments only."""
    made = []
    for cls in LEARNERS.values():
        parameters = inspect.signature(cls).parameters
        needed = [given.name for given in parameters.values() if given.default is given.empty]
        if "dim" in parameters and "features" not in needed:  # a number of columns or a feature map
            needed.append("dim")
        made.append(cls(**{name: REQUIRED[name] for name in dict.fromkeys(needed)}))
    return made
