"""Dollars with late conversions: which of three offers to show, when purchases arrive much later, or never.

    python examples/dollars.py [VISITS]

The unit is said once, at the portfolio. A visit without a purchase within the deadline counts as 0 dollars, and seldom
a purchase is larger than the stated range: it is clipped and counted.
"""

from __future__ import annotations

import sys

import numpy as np

from equipoise import Portfolio
from equipoise.learners import UCB, Constant, EpsilonGreedy

CONVERSION = np.array([0.10, 0.06, 0.03])  # probability of a purchase, by offer
PRICE = np.array([20.0, 60.0, 70.0])  # dollars: the second offer earns most per visit
DEADLINE = 400  # visits; later purchases are not waited for
LARGEST = 150.0  # dollars; more is clipped
VISITS = 6_000


def main(visits: int) -> None:
    learners = [Constant(0, name="always the first offer"), UCB(3, scale=0.3), EpsilonGreedy(3, epsilon=0.1)]
    portfolio = Portfolio(learners, reward_range=(0.0, LARGEST), clip=True, deadline=DEADLINE, default_reward=0.0)
    rng = np.random.default_rng(7)
    on_the_way: dict[int, list[tuple[str, float]]] = {}  # purchases by the visit during which they arrive
    for visit in range(visits):
        decision = portfolio.decide(None)
        if rng.random() < CONVERSION[decision.action]:
            dollars = float(PRICE[decision.action] * rng.lognormal(0.0, 0.4))
            arrival = visit + int(rng.integers(1, 300))
            on_the_way.setdefault(arrival, []).append((decision.id, dollars))
        for id_, dollars in on_the_way.pop(visit, []):
            portfolio.learn(id_, dollars)
    print(portfolio.describe())
    for name in portfolio.learner_names:
        print(portfolio.explain(name))
    health = portfolio.health()
    print(f"{health['expired']:,} visits ended without a purchase; {len(portfolio.pending):,} may still lead to one.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else VISITS)
