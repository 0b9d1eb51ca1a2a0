"""Joint runs: all learners and the selector on one sequence of rounds, as in a portfolio.

Needed if tapes are not exact: with shared data, contexts that depend on the past, or selectors that ask every learner.
The compiled loop and a `Portfolio` use the same random streams, so both make the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.compatibility import check_compatible
from equipoise.errors import InvalidArgument
from equipoise.portfolio import Portfolio, PortfolioSettings
from equipoise.simulation.adapters import OnElimination, ignore
from equipoise.simulation.loops import Joint, Part, can_compile, in_portfolio, replays_policies
from equipoise.simulation.parts import Curves
from equipoise.types import Integers


def run_jointly(
    problem: Part,
    learners: Sequence[Part],
    selector: Part,
    marks: Integers,
    seed: int,
    *,
    share_data: bool | None = None,
    on_elimination: OnElimination = ignore,
) -> tuple[Curves, float]:
    """Run a selector and its learners to their final state; only interpreted runs call `on_elimination`."""
    check_compatible(selector, learners)
    if not can_compile(problem, selector, *learners):
        if replays_policies(selector):
            raise InvalidArgument(
                f"selector is a {type(selector).__name__}, but must not store policies unless problem and learners can "
                "be compiled"
            )
        portfolio = Portfolio.with_settings(
            learners, selector, PortfolioSettings(seed=seed, share_data=share_data), live=False
        )
        portfolio.on_elimination(on_elimination)
        return run_portfolio(problem, portfolio, marks)
    joint = Joint(problem, learners, selector, bool(share_data))
    done = joint.loop.complete(seed, marks, len(learners))
    joint.finish()
    return done


def run_portfolio(problem: Part, portfolio: Portfolio, marks: Integers) -> tuple[Curves, float]:
    """Run any problem and portfolio through their public methods."""
    return in_portfolio(problem, portfolio).complete(portfolio.settings.seed, marks, len(portfolio.learners))
