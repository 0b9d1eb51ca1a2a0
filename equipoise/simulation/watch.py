"""Checks guarantees in runs from tapes: after every round they are compared with the true regret.

The tapes hold the true regret of every play, so it is known for each learner whether its bound has held so far, how far
its rewards deviate from their expectation, and whether an elimination was correct. Rewards below `midpoint` may reach
the selector `late` rounds later; the learners on tape have learned at once, so the tapes remain exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.kernels.streams import open_stream
from equipoise.selectors._core.evidence import Account, Params
from equipoise.simulation import rounds
from equipoise.simulation.binding import Function, bind
from equipoise.simulation.compiler import driver
from equipoise.simulation.loops import Part, compiled_loop, selector_names
from equipoise.simulation.parts import Components, Evidence, Kernel, Recorded, Run, open_late_rewards, open_run
from equipoise.simulation.rounds import is_probed
from equipoise.simulation.tapes import Tapes
from equipoise.types import Array, Integers

DRAWS = 20_000  # number of contexts from which the optimum is estimated if the problem does not state it


class Facts(NamedTuple):
    """What was observed in one run; (1,) unless another shape is given."""

    imbalance: Array  # the largest difference between bounds of active learners
    deviation: Array  # the largest |n mu* - U - Reg| / D(n) of a learner or of all rounds
    kept: NDArray[np.bool_]  # (M,) whether the learner's bound held at all its resolved plays
    eliminated_kept: Integers  # number of learners eliminated although their bound had held
    uncertified: Array  # the largest excess of the truth over a certificate while the bound of an active learner held
    certified: Array  # (2,) after a quarter of the rounds and at the end
    regret: Array  # (2,) at the same rounds
    supported: NDArray[np.bool_]  # (2,) whether the bound of an active learner had held at these rounds
    regrets: Array  # (M,) over resolved plays
    passed_plays: Integers  # (M, M): resolved plays of all learners when learner i last passed a test
    passed_bounds: Array  # (M, M)


def open_facts(n: int) -> Facts:
    return Facts(
        np.zeros(1),
        np.zeros(1),
        np.ones(n, np.bool_),
        np.zeros(1, np.int64),
        np.full(1, -np.inf),
        np.zeros(2),
        np.zeros(2),
        np.zeros(2, np.bool_),
        np.zeros(n),
        np.zeros((n, n), np.int64),
        np.zeros((n, n)),
    )


class Probe(NamedTuple):
    """The true optimum and regret, and the observed facts."""

    optimum: float
    pool_regret: Array  # (1,) over resolved rounds
    facts: Facts


@kernel
def check_pool(evidence: Evidence, probe: Probe, n: int, gap: float) -> None:
    params, state = evidence
    probe.pool_regret[0] += gap
    _deviate(params, n, state.pool[0].rewards, probe.pool_regret[0], probe)


@kernel
def check_play(evidence: Evidence, probe: Probe, i: int, gap: float) -> None:
    """Update the facts after a play of learner i was credited and tested."""
    params, state = evidence
    facts, accounts = probe.facts, state.accounts
    facts.regrets[i] += gap
    _deviate(params, accounts[i].booked_plays, accounts[i].rewards, facts.regrets[i], probe)
    facts.kept[i] &= facts.regrets[i] <= accounts[i].booked_bound + 1e-9 * params.width
    _compare_bounds(accounts, facts)


@kernel
def _deviate(params: Params, n: int, rewards: float, regret: float, probe: Probe) -> None:
    ratio = abs(n * probe.optimum - rewards - regret) / radius_sum(params.radius, n)
    probe.facts.deviation[0] = max(probe.facts.deviation[0], ratio)


@kernel
def _compare_bounds(accounts: Sequence[Account], facts: Facts) -> None:
    n_learners = len(accounts)
    least, greatest, tested = np.inf, -np.inf, True
    for j in range(n_learners):
        if accounts[j].active:
            least, greatest = min(least, accounts[j].regret_bound), max(greatest, accounts[j].regret_bound)
            tested = tested and accounts[j].plays > 0
    facts.imbalance[0] = max(facts.imbalance[0], greatest - least)
    n_eliminated = 0
    for j in range(n_learners):
        if not accounts[j].active and facts.kept[j]:
            n_eliminated += 1
        if accounts[j].active and tested and accounts[j].booked_plays > 0:
            for other in range(n_learners):
                facts.passed_plays[j, other] = accounts[other].booked_plays
                facts.passed_bounds[j, other] = accounts[other].booked_bound
    facts.eliminated_kept[0] = max(facts.eliminated_kept[0], n_eliminated)


@kernel
def check_certificate(
    evidence: Evidence, probe: Probe, certificate: tuple[float, float, float, float, bool], run: Run
) -> None:
    """Record how far the truth lies outside of the certificate, if the bound of an active learner has held."""
    _, state = evidence
    lower, upper, _, regret_upper, _ = certificate
    facts, optimum, regret = probe.facts, probe.optimum, run.progress.regret[0]
    t, rounds, resolved = run.progress.done[0], run.marks[-1], state.pool[0].plays
    supported, excess = False, resolved * (lower - optimum)
    for j in range(len(state.accounts)):
        supported |= state.accounts[j].active and facts.kept[j]
    if supported:
        excess = max(excess, regret - regret_upper, resolved * (optimum - upper))
    if is_probed(t, rounds):
        facts.uncertified[0] = max(facts.uncertified[0], excess)
    for row in range(2):
        if t == (rounds // 4, rounds)[row]:
            facts.certified[row], facts.regret[row], facts.supported[row] = regret_upper, regret, supported


def watch_on_tapes(tapes: Tapes, selector: Part, optimum: float, *, late: int = 0) -> tuple[Facts, Kernel]:
    """Facts of a run of a selector over all rounds, and its final evidence as arrays."""
    n_learners, rounds_, midpoint = len(tapes.learners), tapes.rounds, sum(tapes.problem.reward_range) / 2
    probe = Probe(optimum, np.zeros(1), open_facts(n_learners))
    source, late_rewards = Recorded(tapes.rows, tapes.recorded), open_late_rewards(late, midpoint, n_learners, rounds_)
    names: dict[str, Function | bool] = {
        **selector_names(selector),
        "play_round": rounds.play_recorded,
        "exhausted": rounds.tape_exhausted,
        "deliver": rounds.deliver_late,
        "probe_round": rounds.probe_certificate,
        "check_pool": check_pool,
        "check_play": check_play,
        "check_certificate": check_certificate,
    }
    loop = compiled_loop(Components(source, selector.to_arrays(), late=late_rewards, facts=probe), bind(names))
    run = open_run(tapes.seed, np.array([rounds_]), n_learners)
    while (short := loop.advance(run, rounds_)) >= 0:
        tapes.extend(short)
    return probe.facts, selector.kernels.evidence_of(*loop.components.selector)[1]


def optimum_of(problem: Part, seed: int) -> float:
    """mu*: stated by the problem, exact for decision processes and fixed actions, else estimated from contexts."""
    if hasattr(problem, "optimum"):
        return float(problem.optimum)
    if hasattr(problem, "optimal_values"):
        return float(problem.start @ problem.optimal_values[0])
    # Fixed contexts give the same numbers every time.
    average = cast(Callable[..., float], driver(bind({"draw": problem.kernels.draw}), "average_best"))
    return average(problem.params, problem.workspace(), open_stream(seed), DRAWS)
