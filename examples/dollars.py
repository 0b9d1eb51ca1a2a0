"""Dollars with late conversions: which of three offers to show, when most purchases arrive a day later, or never.

The unit is said once, at the portfolio. A visit without a purchase within the deadline counts as 0 dollars, and seldom
a purchase is larger than the stated range: it is clipped and counted.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from equipoise import Portfolio
from equipoise.learners import UCB, Constant, EpsilonGreedy

CONVERSION = np.array([0.10, 0.06, 0.03])  # probability of a purchase, by offer
PRICE = np.array([20.0, 60.0, 70.0])  # dollars: the second offer earns most per visit
DEADLINE = 400  # visits; later purchases are not waited for
LARGEST = 150.0  # dollars; more is clipped
ROUNDS = 6_000


def main(rounds: int = ROUNDS) -> Portfolio:
    """Play `rounds` visits and print what is known afterwards."""
    learners = [Constant(0, name="always the first offer"), UCB(3, scale=0.3), EpsilonGreedy(3, epsilon=0.1)]
    portfolio = Portfolio(learners, reward_range=(0.0, LARGEST), clip=True, deadline=DEADLINE, default_reward=0.0)
    rng = np.random.default_rng(7)
    on_the_way: deque[tuple[int, str, float]] = deque()  # purchases that have not arrived yet
    for visit in range(rounds):
        decision = portfolio.decide(None)
        if rng.random() < CONVERSION[decision.action]:
            dollars = float(PRICE[decision.action] * rng.lognormal(0.0, 0.4))
            on_the_way.append((visit + int(rng.integers(1, 300)), decision.id, dollars))
        arrived = [purchase for purchase in on_the_way if purchase[0] <= visit]
        for purchase in arrived:
            on_the_way.remove(purchase)
            portfolio.learn(purchase[1], purchase[2])
    print(portfolio.describe())
    for name in portfolio.learner_names:
        print(portfolio.explain(name))
    health = portfolio.health()
    print(f"{health['clipped']} purchases were clipped, {health['expired']:,} visits ended without one.")
    return portfolio


if __name__ == "__main__":
    main()
