"""Applying changed files while the service runs, where the change is safe.

Safe: a new portfolio; learners that were added or removed; settings that may change while a portfolio runs; more names
of actions after the present ones. Everything else, such as another selector or another order of the features, would
change what was learned or proved, and is refused: the portfolio stays as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

from equipoise.config import PortfolioConfig
from equipoise.errors import InvalidArgument
from equipoise.learner import part_name, unique_names
from equipoise.portfolio import Portfolio
from equipoise.serve.contexts import ContextReader
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Served, Service


async def apply_file(service: Service, config: PortfolioConfig) -> bool:
    """Apply a file that may be new or changed; return whether anything changed."""
    served = service.portfolios.get(config.name)
    if served is None:
        service.add(config)
        return True
    if served.config == config:
        return False
    await _change(served, config)
    return True


async def _change(served: Served, config: PortfolioConfig) -> None:
    if served.config.selector != config.selector:
        raise InvalidArgument("selector changed, but must not while the portfolio runs")
    wanted = config.portfolio().declared
    before, after = tables_by_name(served.config), tables_by_name(config)
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            raise InvalidArgument(f"learner {name!r} has other settings, but must keep them: add one of another name")
    joining = {name: table for name, table in after.items() if name not in before}
    leaving = [name for name in before if name not in after]

    def apply(portfolio: Portfolio) -> None:
        portfolio.declare(wanted)
        for name, table in joining.items():
            if name in portfolio.learner_names:
                raise InvalidArgument(f"learner {name!r} exists, or did and was removed, but must have another name")
            learner, bound = config.learner(table)
            portfolio.add_learner(learner, bound=bound)
        present = dict(zip(portfolio.learner_names, portfolio.learners, strict=True))
        for name in leaving:
            if present.get(name) is not None:  # else it was removed at run time
                portfolio.remove_learner(name)

    def change(hosted: Hosted) -> None:
        if joining or leaving:  # if a later step is refused, none must have been taken
            apply(hosted.portfolio.rehearsal())
        apply(hosted.portfolio)

    await served.engine.run(change)
    await asyncio.to_thread(served.engine.retain, config.retention)
    served.config, served.reader = config, ContextReader(config)


def tables_by_name(config: PortfolioConfig) -> dict[str, dict[str, Any]]:
    """The tables of the learners by the names that a portfolio gives them."""
    names = unique_names([part_name(learner) for learner in config.learners()])
    return dict(zip(names, config.learner_tables, strict=True))
