"""Selectors and claims that are wrong on purpose, which an audit must detect.

Each control runs through the same code as the other subjects, and names the claim that must be rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Power
from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.lab.audit.claims import Seen
from equipoise.lab.audit.judging import run_and_evaluate
from equipoise.lab.audit.late import by_context, by_reward, late_coins, late_zeros, overlapping_episodes
from equipoise.lab.audit.pools import GAP, LOSS, make_pool
from equipoise.lab.audit.sharp import BEST, CLASSES, run_epochs
from equipoise.learner import Proposals
from equipoise.learners import Scheduled
from equipoise.problems import GapBandit
from equipoise.selectors import (
    AdversarialElimination,
    BalancedElimination,
    EpochBalancing,
    balanced_elimination,
    epoch_balancing,
)
from equipoise.selectors._core import epochs, evidence, kernels
from equipoise.selectors._core.evidence import Params, State
from equipoise.selectors._core.kernels import Kernels, nested_kernels
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
    # Much larger than the regret of the first learner.
    selector = BalancedElimination([overclaiming.bound(0.5), overclaiming.bound(0.5)])
    problem = GapBandit(gap=LOSS)
    tapes = Tapes(problem, [honest, overclaiming], np.array([rounds]), seed)
    yield from run_and_evaluate(tapes, selector, problem.optimum, declared=[True, True])[1]


def mixed_units(seed: int, rounds: int) -> Iterator[Seen]:
    """A test that divides sums by sqrt(n) and adds the whole bound to that, as a public implementation does."""
    problem = GapBandit(poor=GAP, gap=GAP)
    learners = [Scheduled("power", GAP, 1.0, gap=GAP), Scheduled("power", 1.0, 0.5, gap=GAP)]
    selector = BalancedElimination([Power(1.0), Power(1.0)]).use_kernels(MIXED_UNITS)
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
    selector = BalancedElimination([learner.bound() for learner in learners]).use_kernels(PEEKING)
    yield from run_and_evaluate(tapes, selector, whole.optimum, declared=[True, True])[1]


def present_plan(seed: int, rounds: int) -> Iterator[Seen]:
    """Overlapping episodes with the widths of the plan at the time of the reward, which comes in order."""
    return overlapping_episodes(2 * seed, rounds, present_plan=True)


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


@kernel
def drop_largest(
    params: kernels.Params, state: epochs.State, i: int, reward: float, regret: float, proposals: Proposals
) -> None:
    """As in Algorithm 3, but the learner before the last one is eliminated."""
    epochs.add_round(params.evidence, state, reward, regret, proposals)
    largest = len(state.ends) - 2
    while largest >= 0 and not state.evidence.accounts[largest].active:
        largest -= 1
    if largest >= 0 and epochs.test(params.evidence, state, largest):
        evidence.mark_eliminated(state.evidence, largest)
        epochs.begin_epoch(params.evidence, state)


LARGEST_FIRST = nested_kernels(epoch_balancing.choose, close_round=drop_largest, certify=epochs.certify)
MIXED_UNITS = Kernels(balanced_elimination.choose, credit_mixed)
PEEKING = Kernels(choose_by_context, balanced_elimination.credit)


class Control(NamedTuple):
    """What is simulated, the claim that must be rejected, and the numbers of rounds and of runs, also in a quick audit:
    as many as the claim is sure to be rejected with."""

    simulate: Callable[[int, int], Iterator[Seen]]
    caught_by: str
    rounds: int = 8000
    runs: int = 100
    quick_runs: int = 20


CONTROLS: dict[str, Control] = {
    "radius too narrow": Control(narrow_radius, "radius"),
    "bound halved": Control(halved_bound, "declared"),
    "units mixed up": Control(mixed_units, "gap plays"),
    "context leaked": Control(leaked_context, "certificate"),
    "radius of Algorithm 3 removed": Control(
        partial(run_epochs, partial(AdversarialElimination, CLASSES, radius_scale=1e-9), wrong=1), "epochs", 400
    ),
    "radius of Algorithm 2 halved": Control(
        partial(run_epochs, partial(EpochBalancing, CLASSES, radius_scale=0.5), wrong=0), "epochs", 1000, 200, 60
    ),
    "Algorithm 3 eliminates the wrong class": Control(  # the largest but the last; the smallest is the false one
        partial(run_epochs, lambda: AdversarialElimination(CLASSES).use_kernels(LARGEST_FIRST), wrong=1), "epochs", 400
    ),
    "last class of Algorithm 3 is false": Control(  # no learner knows of the best action
        partial(run_epochs, partial(AdversarialElimination, CLASSES), wrong=0, optimum=BEST + 0.2), "certificate", 1000
    ),
    "late rewards learned at once": Control(partial(late_zeros, delays="independent"), "ellipsoid", 1500, 20, 3),
    "widths of the present plan": Control(present_plan, "declared", 1500, 20, 5),
    "delays by the reward called exogenous": Control(
        partial(late_coins, delay_of=by_reward, exogenous=True), "certificate", 700, 40, 12
    ),
    "delays by the context called exogenous": Control(
        partial(late_coins, delay_of=by_context, exogenous=True), "certificate", 700, 40, 12
    ),
}
