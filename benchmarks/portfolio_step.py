"""Time of one round of a portfolio: `decide` and `learn` together, uncompiled, on one thread.

Five OFUL learners of 2 to 32 dimensions, ten fresh actions a round, balanced elimination with a closed-form and with the
observed bound. Contexts are drawn and rewards computed outside the clock. Run it on a quiet machine:

    python benchmarks/portfolio_step.py [ROUNDS]
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before NumPy

import gc
import sys
from time import perf_counter_ns

import numpy as np

from equipoise import Portfolio
from equipoise.bounds import Bound, Observed, Power
from equipoise.learners import OFUL
from equipoise.problems import LinearBandit
from equipoise.selectors import BalancedElimination

DIMS = (2, 4, 8, 16, 32)


def step_times(bounds: list[Bound], rounds: int, share_data: bool = False) -> np.ndarray:
    """Microseconds of each round."""
    problem, rng = LinearBandit(), np.random.default_rng(0)
    learners = [OFUL(dim, norm_bound=1.1) for dim in DIMS]
    portfolio = Portfolio(learners, BalancedElimination(bounds), share_data=share_data)
    times = np.empty(rounds)
    gc.disable()
    for t in range(rounds):
        context, number = problem.observe(rng), rng.random()
        means = problem.means(context).tolist()
        start = perf_counter_ns()
        decision = portfolio.decide(context)
        middle = perf_counter_ns()
        reward = float(number < means[decision.action])
        resumed = perf_counter_ns()
        portfolio.learn(decision, reward)
        times[t] = (middle - start + perf_counter_ns() - resumed) / 1000
    gc.enable()
    return times


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    settings: dict[str, tuple[list[Bound], bool]] = {
        "Power(d/4)": ([Power(dim / 4) for dim in DIMS], False),
        "Observed()": ([Observed() for _ in DIMS], False),
        "Observed(), shared data": ([Observed() for _ in DIMS], True),
    }
    print(f"decide + learn, M = 5 OFUL with d = 2..32, K = 10, {rounds:,} rounds, microseconds")
    print(f"{'bounds':<24} {'median':>8} {'mean':>8} {'95 %':>8}")
    for name, (bounds, share_data) in settings.items():
        times = step_times(bounds, rounds, share_data)
        print(f"{name:<24} {np.median(times):>8.1f} {times.mean():>8.1f} {np.quantile(times, 0.95):>8.1f}")


if __name__ == "__main__":
    main()
