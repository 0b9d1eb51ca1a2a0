"""What selection costs a portfolio of three libraries and OFUL, with the default selector, on public data.

    python -m tools.studies.adapter_prices [--data NAME] [--rounds 6000] [--seeds 10] [--own-data]

A portfolio of a linear model of scikit-learn, trees of LightGBM, Vowpal Wabbit and OFUL decides every round, and each
of the learners plays the same rounds alone. The ratio is the regret of the portfolio over that of the best learner
alone, against the label; reward lost is their difference in percent of what that learner earns. With --own-data
learners do not learn from rounds of others, which changes the default. In mid run the portfolio is saved and loaded,
and both must go on to the last bit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from equipoise import Portfolio
from equipoise.settings.checks import one_of
from equipoise.types import Array
from tools.main import run_command
from tools.studies.public_data import LEARNERS, Problem, mean_with_error, play_live, problems

POOL = ("SGD, inverse gaps", "LightGBM, inverse gaps", "VW --squarecb", "OFUL")
DATA = ("digits", "breast cancer")


def run(data: str | None = None, rounds: int = 6_000, seeds: int = 10, own_data: bool = False) -> None:
    """Print one table per data set, or that of one."""
    found = problems()
    for name in DATA if data is None else [one_of("--data", data, tuple(found))]:
        study(found[name], rounds, seeds, own_data)


def study(problem: Problem, rounds: int, seeds: int, own_data: bool = False) -> bool:
    """Print the table of a data set; returns whether every loaded portfolio went on as the saved one."""
    alone = np.array(
        [
            [rounds - play_live(LEARNERS[name](problem), problem, rounds, seed).sum() for name in POOL]
            for seed in range(seeds)
        ]
    )
    regrets, plays, same = np.empty(seeds), np.empty((seeds, len(POOL))), True
    for seed in range(seeds):
        portfolio, rewards, equal = play_portfolio(problem, rounds, seed, own_data)
        regrets[seed], same = rounds - rewards.sum(), same and equal
        plays[seed] = [row.plays for row in portfolio.standing()]
    best = alone.mean(axis=0).min()
    selector = type(portfolio.selector).__name__
    sharing = "own data" if own_data else "shared data"
    print(f"\n{problem.name}, {rounds:,} rounds, {seeds} seeds, {selector}, {sharing}")
    for i, name in enumerate(POOL):
        share = plays[:, i].mean() / rounds
        print(f"{name:24} alone: regret {alone[:, i].mean():7.0f}; plays {share:.1%} of the portfolio's rounds")
    ratios, lost = regrets / alone.min(axis=1), (regrets.mean() - best) / (rounds - best)
    print(
        f"portfolio: regret {regrets.mean():.0f}, {regrets.mean() / best:.2f} times that of the best learner alone, "
        f"reward lost {lost:.1%}"
    )
    print(f"by seed, over the best one of the seed: {mean_with_error(ratios)}, median {np.median(ratios):.2f}")
    print(f"saved, loaded and continued identically: {'yes' if same else 'NO'}", flush=True)
    return same


def play_portfolio(problem: Problem, rounds: int, seed: int, own_data: bool) -> tuple[Portfolio, Array, bool]:
    """A portfolio after all rounds, its rewards, and whether one that was loaded in mid run went on as it did."""
    rows, labels = problem.draw(np.random.default_rng([seed, 6]), rounds)
    learners = [LEARNERS[name](problem) for name in POOL]
    portfolio = Portfolio(learners, seed=seed, share_data=False if own_data else None)
    loaded: Portfolio | None = None
    rewards, same = np.empty(rounds), True
    for t, context in enumerate(problem.contexts(rows)):
        if t == rounds // 2:
            with tempfile.TemporaryDirectory() as folder:
                portfolio.save(Path(folder, "portfolio.eqp"))
                loaded = Portfolio.load(Path(folder, "portfolio.eqp"))
        decision = portfolio.decide(context)
        rewards[t] = float(decision.action == labels[t])
        portfolio.learn(decision, rewards[t])
        if loaded is not None:
            copy = loaded.decide(context)
            same = same and copy[1:] == decision[1:]  # ids of decisions are random
            loaded.learn(copy, rewards[t])
    return portfolio, rewards, same


if __name__ == "__main__":
    run_command(run)
