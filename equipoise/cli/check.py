"""`equipoise check`: check a configuration before it is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.app import app
from equipoise.errors import InvalidArgument
from equipoise.types import Context

if TYPE_CHECKING:
    from equipoise.config import PortfolioConfig


@app.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file portfolio.toml, or a folder of such files.")],
) -> None:
    """Build the portfolio of each file, print who is compatible with what, and play a dry round."""
    from equipoise.config import check_served, config_files, read

    names: list[str] = []
    for file in config_files(path):
        config = read(file)
        check_served(config, names)
        names.append(config.name)
        _check(config)


def _check(config: PortfolioConfig) -> None:
    from equipoise.cli.terminal import print_table
    from equipoise.compatibility import NEEDS, provided_by

    portfolio = config.portfolio()
    selector = portfolio.selector
    typer.echo(f"{config.name}: {selector!r}")
    needed = [need for need in NEEDS if need in selector.needs]
    rows = []
    for name, learner in zip(portfolio.learner_names, portfolio.learners, strict=True):
        words = provided_by(learner)
        lacking = [NEEDS[need].heading for need in needed if not NEEDS[need].met_by(learner)]
        rows.append((name, ", ".join(sorted(words)) or "-", f"lacks {', '.join(lacking)}" if lacking else "yes"))
    print_table(["learner", "accepts and provides", "compatible"], rows, justify="left")
    if needed:
        typer.echo(f"needs: {'; '.join(NEEDS[need].meaning for need in needed)}")
    context = _dry_context(config)
    decision = portfolio.decide(context)
    low, high = config.reward_range or (0.0, 1.0)
    portfolio.learn(decision, (low + high) / 2.0)
    action = decision.action if decision.action_id is None else f"{decision.action_id!r}"
    typer.echo(
        f"dry round on {context!r:.200}: {decision.learner_name} chose action {action} and learned; nothing is kept"
    )
    if not config.has_deadline:
        typer.echo("no deadline: a reward that never comes keeps its decision open; see [reward] deadline")
    if portfolio.failed_lessons:
        raise InvalidArgument(f"learning failed in the dry round: {portfolio.failed_lessons[0].error}")


def _dry_context(config: PortfolioConfig) -> Context:
    """A context that has all that the learners of a file ask for; None if they ask for nothing."""
    import numpy as np

    from equipoise.features import Concat, Interactions, Offers, OneHot, Shared

    learners = config.learners()
    maps = [each for each in (getattr(learner, "features", None) for learner in learners) if each is not None]
    ids, n_shared = config.action_names, len(config.context_features or ())
    while maps:
        match maps.pop():
            case Interactions(left, right):
                maps += [left, right]
            case Concat(parts):
                maps += parts
            case Shared(dim):
                n_shared = max(n_shared, dim)
            case OneHot(names):
                ids = ids or names
    n_columns = max(getattr(learner, "n_columns", 0) for learner in learners)
    if ids is None and not n_columns and not n_shared:
        return None
    rows = np.full((len(ids) if ids else 2, n_columns), 1.0 / max(n_columns, 1))
    return Offers(rows, np.full(n_shared, 1.0 / n_shared) if n_shared else None, ids)
