"""Joint runs: all learners and the selector on one sequence of rounds, as in a portfolio.

Needed if tapes are not exact: with shared data, contexts that depend on the past, or selectors that ask every learner.
The compiled loop and a `Portfolio` use the same random streams, so both make the same decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from equipoise.compatibility import check_compatible
from equipoise.portfolio import Portfolio
from equipoise.simulation.adapters import OnElimination, ignore
from equipoise.simulation.loops import Joint, Loop, Part, can_compile, in_portfolio
from equipoise.simulation.parts import Curves, open_run
from equipoise.types import Integers


def run_jointly(
    problem: Part,
    learners: Sequence[Part],
    selector: Part,
    marks: Integers,
    seed: int,
    *,
    share_data: bool = False,
    on_elimination: OnElimination = ignore,
) -> tuple[Curves, float]:
    """Run a selector up to the last mark with its learners; leaves all of them in their final state.

    `on_elimination` is called with what a selector returns in an interpreted run; in a compiled one it keeps its own.
    """
    check_compatible(selector, learners)
    if not can_compile(problem, selector, *learners):
        portfolio = Portfolio(learners, selector, seed=seed, share_data=share_data)
        portfolio.on_elimination(on_elimination)
        return run_portfolio(problem, portfolio, marks)
    joint = Joint(problem, learners, selector, share_data)
    done = _timed(joint.loop, marks, seed, len(learners))
    joint.finish()
    return done


def run_portfolio(problem: Part, portfolio: Portfolio, marks: Integers) -> tuple[Curves, float]:
    """Run any problem and portfolio through their public methods."""
    return _timed(in_portfolio(problem, portfolio), marks, portfolio.seed, len(portfolio.learners))


def _timed(loop: Loop, marks: Integers, seed: int, n_learners: int) -> tuple[Curves, float]:
    run = open_run(seed, marks, n_learners)
    loop.advance(run, 0)  # compile outside of the measured time
    start = perf_counter()
    loop.advance(run, int(marks[-1]))
    return run.curves, perf_counter() - start
