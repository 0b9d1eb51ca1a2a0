"""Selectors and claims that are wrong on purpose, which an audit must detect.

Each control runs through the same code as the other subjects, and is caught if at least one claim is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from equipoise.bounds import Power
from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.lab.audit.claims import Seen
from equipoise.lab.audit.judging import run_and_evaluate
from equipoise.lab.audit.pools import GAP, LOSS, make_pool
from equipoise.learners import Scheduled
from equipoise.problems import GapBandit
from equipoise.selectors import BalancedElimination, balanced_elimination
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params, State
from equipoise.selectors._core.kernels import Kernels
from equipoise.simulation.tapes import Tapes

NARROW = 0.3
SHARE = 0.5  # of rich rounds


def narrow_radius(seed: int, rounds: int) -> Iterator[Seen]:
    """A radius of three tenths of the valid one."""
    pool = make_pool("n^(1/2)", gap=True, radius_scale=NARROW)
    tapes = Tapes(pool.problem, pool.learners, np.array([rounds]), seed)
    yield from run_and_evaluate(tapes, pool.selector, pool.problem.optimum, declared=pool.declared)[1]


def halved_bound(seed: int, rounds: int) -> Iterator[Seen]:
    """A learner whose bound is half its regret, but which is declared well specified."""
    honest, overclaiming = Scheduled("power", 1.0, 0.5, gap=LOSS), Scheduled("power", 30.0, 0.5, gap=LOSS)
    selector = BalancedElimination(
        [overclaiming.bound(0.5), overclaiming.bound(0.5)]
    )  # much larger than the regret of the first learner
    problem = GapBandit(gap=LOSS)
    tapes = Tapes(problem, [honest, overclaiming], np.array([rounds]), seed)
    yield from run_and_evaluate(tapes, selector, problem.optimum, declared=[True, True])[1]


def mixed_units(seed: int, rounds: int) -> Iterator[Seen]:
    """A test that divides sums by sqrt(n) and adds the whole bound to that, as a public implementation does."""
    problem = GapBandit(poor=GAP, gap=GAP)
    learners = [Scheduled("power", GAP, 1.0, gap=GAP), Scheduled("power", 1.0, 0.5, gap=GAP)]
    selector = MixedUnits([Power(1.0), Power(1.0)])
    tapes = Tapes(problem, learners, np.array([rounds]), seed)
    yield from run_and_evaluate(tapes, selector, problem.optimum, declared=[False, True], gaps=[GAP, None])[1]


def leaked_context(seed: int, rounds: int) -> Iterator[Seen]:
    """A choice that sees the context: rich rounds go to the first learner, poor ones to the second.

    Each learner then plays alone on a problem with identical rounds, so each has its own tape.
    """
    rich, poor, whole = GapBandit(share=1.0), GapBandit(share=0.0), GapBandit(share=SHARE)
    learners = [Scheduled("power", 1.0, 0.5), Scheduled("power", 1.0, 0.5)]
    tapes = Tapes(rich, learners, np.array([rounds]), seed)
    tapes.extend(0)
    tapes.problem = poor
    tapes.extend(1)
    while tapes.recorded.min() < rounds:
        i = int(tapes.recorded.argmin())
        tapes.problem = (rich, poor)[i]
        tapes.extend(i)
    selector = Peeking([learner.bound() for learner in learners])
    yield from run_and_evaluate(tapes, selector, whole.optimum, declared=[True, True])[1]


CONTROLS: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "radius too narrow": narrow_radius,
    "bound halved": halved_bound,
    "units mixed up": mixed_units,
    "context leaked": leaked_context,
}


@kernel
def credit_mixed(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    evidence.credit(params, state, i, reward, regret)
    best_lower = -inf
    for j in range(len(state.accounts)):
        account = state.accounts[j]
        if account.active:
            if account.booked_plays == 0:
                return
            lower = (account.rewards - radius_sum(params.radius, account.booked_plays)) / sqrt(account.booked_plays)
            best_lower = max(best_lower, lower)
    for j in range(len(state.accounts)):
        account = state.accounts[j]
        n = account.booked_plays
        if (account.rewards + radius_sum(params.radius, n)) / sqrt(n) + account.booked_bound < best_lower:
            account.active = False


@kernel
def choose_by_context(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The random number determines whether the round is rich or poor."""
    return (0 if rng.random() < SHARE else 1), 1.0


class MixedUnits(BalancedElimination):
    """Compares sums divided by sqrt(n) with whole bounds."""

    name = "Units mixed up"
    kernels: ClassVar[Kernels] = Kernels(balanced_elimination.choose, credit_mixed)


class Peeking(BalancedElimination):
    """Chooses after it has observed the context."""

    name = "Context leaked"
    kernels: ClassVar[Kernels] = Kernels(choose_by_context, balanced_elimination.credit)
