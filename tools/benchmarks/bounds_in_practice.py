"""The figures about bounds in docs/guide/choose-bounds.md: nested problem, OFUL on 2 to 32 features.

First what each kind of bound claims of each learner alone, against its true regret; then what a selector makes of the
bounds, of a narrowed radius and of shared data. Twenty seeds of 100,000 rounds take about two minutes:

    python tools/benchmarks/bounds_in_practice.py [ROUNDS] [SEEDS]
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before NumPy

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.bounds import Bound, Observed, Power
from equipoise.lab.experiments.nested import NESTED, NORM_BOUND, build, nested_dims
from equipoise.learners.oful import closed_form_constant
from equipoise.selectors import BalancedElimination
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.tapes import Tapes, run_on_tapes

DIMS = nested_dims(NESTED.defaults["d_max"])
BOUNDS: dict[str, Callable[[int], Bound]] = {
    "Observed()": lambda dim: Observed(),
    "Power(d/4)": lambda dim: Power(dim / 4),
}
RADIUS_SCALES = (1.0, 0.5, 0.25)


class Run(NamedTuple):
    """What came of one seed."""

    regret: float
    eliminations: dict[int, int]  # round by learner


def solo_tapes(seed: int, rounds: int) -> Tapes:
    """Every learner alone, recorded to the end: rows of reward, gap and observed regret."""
    setup = build({**NESTED.defaults, "rounds": rounds}, seed)
    tapes = Tapes(setup.problem, setup.learners, np.array([rounds]), seed)
    for i in range(len(DIMS)):
        while tapes.recorded[i] < rounds:
            tapes.extend(i)
    return tapes


def select(tapes: Tapes, bounds: list[Bound], radius_scale: float) -> Run:
    selector = BalancedElimination(bounds, radius_scale=radius_scale)
    curves, _ = run_on_tapes(tapes, selector)
    return outcome(selector, curves.regret)


def select_with_shared_data(seed: int, rounds: int, bounds: list[Bound]) -> Run:
    setup, selector = build({**NESTED.defaults, "rounds": rounds}, seed), BalancedElimination(bounds)
    curves, _ = run_jointly(setup.problem, setup.learners, selector, np.array([rounds]), seed, share_data=True)
    return outcome(selector, curves.regret)


def outcome(selector: BalancedElimination, regret: NDArray[np.float64]) -> Run:
    return Run(float(regret[-1]), {found.learner.index: found.round for found in selector.eliminations})


def show_claims(rounds: int, tapes: list[Tapes]) -> None:
    constant = closed_form_constant(rounds, norm_bound=NORM_BOUND)
    print(f"{rounds:,} plays of each learner alone, mean of {len(tapes)} seeds; the paper's C is {constant:.1f}\n")
    print("   d  vacuous until  d C sqrt(n)  observed  d/4 sqrt(n)     true   peak")
    plays = np.arange(1, rounds + 1)
    for i, dim in enumerate(DIMS):
        gaps, widths = (np.stack([tape.rows[i, :, column] for tape in tapes]) for column in (1, 2))
        regret = gaps.cumsum(axis=1)
        peak = (regret / np.sqrt(plays)).max()
        paper = min(dim * constant * rounds**0.5, rounds)
        print(
            f"{dim:>4} {(dim * constant) ** 2:>14,.0f} {paper:>12,.0f} {widths.sum(axis=1).mean():>9,.0f} "
            f"{dim / 4 * rounds**0.5:>12,.0f} {regret[:, -1].mean():>8,.0f} {peak:>6.2f}"
        )
    print(
        "\nvacuous until: plays up to which the paper's bound is n itself; peak: largest regret / sqrt(n) of any seed\n"
    )


def show_runs(name: str, runs: list[Run]) -> None:
    print(f"{name:<36} regret {np.mean([run.regret for run in runs]):>7,.0f}", end="")
    for i, dim in enumerate(DIMS):
        rounds = [run.eliminations[i] for run in runs if i in run.eliminations]
        if rounds:
            print(f"   d={dim} out in {len(rounds)}/{len(runs)}, round {np.median(rounds):,.0f}", end="")
    print()


def main() -> None:
    rounds, n_seeds = (int(word) for word in (sys.argv[1:] + ["100000", "20"][len(sys.argv) - 1 :]))
    tapes = [solo_tapes(seed, rounds) for seed in range(n_seeds)]
    show_claims(rounds, tapes)
    for name, bound in BOUNDS.items():
        bounds = [bound(dim) for dim in DIMS]
        for scale in RADIUS_SCALES:
            show_runs(f"{name}, radius_scale={scale:g}", [select(tape, bounds, scale) for tape in tapes])
        runs = [select_with_shared_data(seed, rounds, bounds) for seed in range(n_seeds)]
        show_runs(f"{name}, share_data=True", runs)


if __name__ == "__main__":
    main()
