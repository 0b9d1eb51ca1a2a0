"""Taking in changed files while the service runs, where the change is sound.

Sound: a new portfolio; learners that were added or removed; the deadline and its default reward; sharing of data,
exploration, fallback and availability; more names of actions. Everything else, such as another selector or another
order of the features, would change what was learned or proved, and is refused: the portfolio stays as it is.
"""

from __future__ import annotations

from typing import Any

from equipoise.config import PortfolioConfig
from equipoise.errors import InvalidArgument
from equipoise.learner import part_name, unique_names
from equipoise.portfolio import Portfolio
from equipoise.portfolio.lifecycle import CHANGEABLE
from equipoise.portfolio.saving import rehearsal
from equipoise.serve.contexts import ContextReader
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Served, Service

FIXED = (
    *(("reward", "range"), ("reward", "aggregate"), ("options", "delays"), ("options", "window")),
    ("actions", "features"),
)


async def apply_file(service: Service, config: PortfolioConfig) -> bool:
    """Take in a file that may be new or changed; returns whether anything changed."""
    served = service.portfolios.get(config.name)
    if served is None:
        service.add(config)
        return True
    if served.config == config:
        return False
    await _change(served, config)
    return True


async def _change(served: Served, config: PortfolioConfig) -> None:
    old, new = served.config.parts, config.parts
    _check_fixed(old, new)
    changes = {key: new["options"].get(key) for key in CHANGEABLE if old["options"].get(key) != new["options"].get(key)}
    for key, setting in (("deadline", "deadline"), ("default", "default_reward")):
        if old["reward"].get(key) != new["reward"].get(key):
            changes[setting] = new["reward"].get(key)
    unset = [key for key, value in changes.items() if value is None and key not in ("deadline", "default_reward")]
    if unset:
        raise InvalidArgument(f"{unset[0]} was removed, but must be given to change back to its default")
    before, after = tables_by_name(served.config), tables_by_name(config)
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            raise InvalidArgument(f"learner {name!r} has other settings, but must keep them: add one of another name")
    joining = [table for name, table in after.items() if name not in before]
    leaving = [name for name in before if name not in after]

    def apply(portfolio: Portfolio) -> None:
        if changes:
            portfolio.reconfigure(**changes)
        for learner, bound in map(config.learner, joining):
            portfolio.add_learner(learner, bound=bound)
        for name in leaving:
            portfolio.remove_learner(name)

    def change(hosted: Hosted) -> None:
        if bool(changes) + len(joining) + len(leaving) > 1:  # if a later step is refused, none must have been taken
            apply(rehearsal(hosted.portfolio))
        apply(hosted.portfolio)

    await served.engine.run(change)
    served.config, served.reader = config, ContextReader(config)


def _check_fixed(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raise an error if something changed that must not."""
    for key in ("seed", "selector", "context"):
        if old[key] != new[key]:
            raise InvalidArgument(f"{key} changed, but must not while the portfolio runs")
    for part, key in FIXED:
        if old[part].get(key) != new[part].get(key):
            raise InvalidArgument(f"{key} of {part} changed, but must not while the portfolio runs")
    names, more = old["actions"].get("names"), new["actions"].get("names")
    if (names is None) != (more is None) or not set(names or ()) <= set(more or ()):
        raise InvalidArgument("names of [actions] lost some, but may only gain while the portfolio runs")


def tables_by_name(config: PortfolioConfig) -> dict[str, dict[str, Any]]:
    """The tables of the learners by the names that a portfolio gives them."""
    names = unique_names([part_name(learner) for learner in config.learners()])
    return dict(zip(names, config.parts["learner"], strict=True))
