"""Which features does the model need? Five linear learners on nested feature sets, saved and resumed half-way.

Each round has ten offers with 32 features. Rewards depend on the first 8, which the learners do not know. Learners with
fewer features keep missing the best offer, those with more learn more slowly. Half-way the portfolio is saved, as when
a service restarts, and the loaded one plays the rest.

    python examples/feature_selection.py [ROUNDS] [FOLDER]
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before NumPy

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.learners import OFUL
from equipoise.problems import LinearBandit
from equipoise.selectors import BalancedElimination

DIMS = (2, 4, 8, 16, 32)
COLORS = ("#56B4E9", "#0072B2", "#009E73", "#9A8FE0", "#1B2A6B")


def play(portfolio: Portfolio, problem: LinearBandit, rounds: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows (learner, regret), one per round."""
    log = np.empty((rounds, 2))
    for t in range(rounds):
        context = problem.observe(rng)
        decision = portfolio.decide(context)
        portfolio.learn(decision, problem.respond(context, decision.action, rng))
        log[t] = decision.learner, problem.gap(context, decision.action)
    return log


def draw(log: NDArray[np.float64], portfolio: Portfolio, path: Path) -> None:
    from matplotlib.figure import Figure

    rounds, regret = np.arange(1, len(log) + 1), log[:, 1].cumsum()
    shares = [np.cumsum(log[:, 0] == i) / rounds for i in range(len(DIMS))]
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(rounds, regret, color="#D55E00", linewidth=2, label="portfolio")
    for elimination in portfolio.selector.eliminations:
        i, t = elimination.learner.index, elimination.round
        label = f"{DIMS[i]} features eliminated in round {t:,}"
        above.plot(t, regret[t - 1], "X", color=COLORS[i], markersize=10, markeredgecolor="white", label=label)
    above.set(title="How many features are needed?", ylabel="cumulative regret", xlim=(0, len(log)), ylim=(0, None))
    below.stackplot(rounds, shares, colors=COLORS, labels=[f"{dim} features" for dim in DIMS])
    below.set(xlabel="rounds", ylabel="share of plays so far", ylim=(0, 1))
    for axes in (above, below):
        axes.axvline(len(log) // 2, color="#5A5A5A", linestyle=":", label="saved and loaded" if axes is above else None)
    above.legend(loc="lower right")
    below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(DIMS), frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "results/feature_selection")
    folder.mkdir(parents=True, exist_ok=True)
    problem, rng = LinearBandit(), np.random.default_rng(0)
    learners = [OFUL(dim, norm_bound=1.1) for dim in DIMS]
    portfolio = Portfolio(learners, BalancedElimination([Power(dim / 4) for dim in DIMS]))

    first_half = play(portfolio, problem, rounds // 2, rng)
    portfolio.save(folder / "portfolio.equipoise")
    resumed = Portfolio.load(folder / "portfolio.equipoise")
    log = np.concatenate([first_half, play(resumed, problem, rounds - rounds // 2, rng)])

    for row in resumed.standing():
        state = "" if row.active else "eliminated"
        print(
            f"{resumed.learners[row.learner].name:<11} {row.plays:>7,} plays, mean reward {row.mean_reward:.3f} {state}"
        )
    print(f"\n{resumed.certificate().describe()}\nThe true regret is {log[:, 1].sum():,.0f}.")
    draw(log, resumed, folder / "feature_selection.png")
    print(f"\nWritten: {folder / 'feature_selection.png'}")


if __name__ == "__main__":
    main()
