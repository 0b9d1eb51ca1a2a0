"""Models of three libraries in one portfolio: which one serves best is found out on live traffic.

A shop ranks eight articles for each visitor. Whether a visitor buys depends on products of two features, which trees
and products of features can represent and a linear model cannot. The shop has a linear model of scikit-learn, trees of
LightGBM and Vowpal Wabbit with products of features, saves its portfolio in mid run and goes on from the file.

    pip install 'equipoise[sklearn,lightgbm,vw]'
    python examples/three_libraries.py [ROUNDS]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from equipoise import Portfolio
from equipoise.adapters import VW, Exploring, InverseGap, LightGBM, Sklearn
from equipoise.types import Array

DIM, ARTICLES = 6, 8


def draw_articles(rng: np.random.Generator) -> Array:
    return rng.choice([-1.0, 1.0], (ARTICLES, DIM))


def chances(articles: Array) -> Array:
    """How likely a visitor is to buy each article."""
    return np.asarray(0.4 + 0.3 * articles[:, 0] * articles[:, 1] + 0.1 * articles[:, 2])


def make_portfolio() -> Portfolio:
    trees = LightGBM(dim=DIM, window=4_000, every=200, lag=50, trees=30)
    return Portfolio(
        [
            Exploring(Sklearn({"class": "linear_model.SGDRegressor"}, dim=DIM), InverseGap(30.0), name="linear"),
            Exploring(trees, InverseGap(30.0), name="trees"),
            VW("--squarecb --gamma_scale 30 -q ff", dim=DIM, name="products"),
        ]
    )


def play(portfolio: Portfolio, rounds: int, rng: np.random.Generator) -> float:
    """The mean regret of these rounds."""
    regret = 0.0
    for _ in range(rounds):
        articles = draw_articles(rng)
        decision = portfolio.decide(articles)
        chance = chances(articles)
        portfolio.learn(decision, float(rng.random() < chance[decision.action]))
        regret += float(chance.max() - chance[decision.action])
    return regret / rounds


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
    rng, portfolio = np.random.default_rng(1), make_portfolio()
    before = play(portfolio, rounds // 2, rng)
    with tempfile.TemporaryDirectory() as folder:
        portfolio.save(Path(folder, "portfolio.eqp"))
        portfolio = Portfolio.load(Path(folder, "portfolio.eqp"))
    after = play(portfolio, rounds - rounds // 2, rng)
    for row in portfolio.standing():
        print(f"{portfolio.learner_names[row.learner]:<9} {row.plays:>6,} plays, mean reward {row.mean_reward:.3f}")
    print(f"Mean regret {before:.3f} before the restart, {after:.3f} after it.")


if __name__ == "__main__":
    main()
