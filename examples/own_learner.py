"""Your own learner on a stream of late rewards: how much should it know about a visitor?

A shop shows each visitor one of four offers and learns of a purchase some hundred visitors later, or never. Whether
an offer sells depends on the visitor's device and not on the country, but the shop does not know that. Three copies of
one learner keep their means per device and country, per device, and for all visitors together; the portfolio finds out
which one to use.

    python examples/own_learner.py [ROUNDS]
"""

import heapq
import sys
from collections import defaultdict
from math import log, sqrt
from typing import Any

import numpy as np

from equipoise import Elimination, Portfolio
from equipoise.bounds import Power
from equipoise.selectors import BalancedElimination

N_OFFERS = 4
COUNTRIES = 10
SALES = {"phone": (0.2, 0.5, 0.3, 0.2), "laptop": (0.2, 0.2, 0.3, 0.6)}  # how often each offer sells, by device
ARRIVING = 0.97  # share of rewards that ever arrive
MEAN_DELAY, DEADLINE = 300, 5_000  # in rounds

Visitor = dict[str, Any]


class OfferMeans:
    """Optimistic means of the offers, kept apart for every combination of the columns it looks at."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.name = f"by {' and '.join(columns)}" if columns else "same for all"
        self.plays: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * N_OFFERS)
        self.rewards: defaultdict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0] * N_OFFERS)

    def decide(self, visitor: Visitor) -> int:
        plays, rewards = self.plays[self.cell(visitor)], self.rewards[self.cell(visitor)]
        if 0 in plays:
            return plays.index(0)
        spread = log(sum(plays)) / 4
        return max(range(N_OFFERS), key=lambda k: rewards[k] / plays[k] + sqrt(spread / plays[k]))

    def learn(self, visitor: Visitor, offer: int, reward: float) -> None:
        self.plays[self.cell(visitor)][offer] += 1
        self.rewards[self.cell(visitor)][offer] += reward

    def cell(self, visitor: Visitor) -> tuple[Any, ...]:
        return tuple(visitor[column] for column in self.columns)


def draw_visitor(rng: np.random.Generator) -> Visitor:
    return {"device": "phone" if rng.random() < 0.5 else "laptop", "country": int(rng.integers(COUNTRIES))}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    learners = [OfferMeans(), OfferMeans("device"), OfferMeans("device", "country")]
    # Regret grows like sqrt(cells * offers * plays) at most; each learner claims that, with a small factor.
    cells = (1, len(SALES), len(SALES) * COUNTRIES)
    selector = BalancedElimination([Power(1.25 * sqrt(n * N_OFFERS)) for n in cells])
    # A reward that has not arrived after 5,000 further visitors counts as no purchase. Otherwise one lost reward would
    # hold up its learner's evidence permanently.
    portfolio = Portfolio(learners, selector, deadline=DEADLINE, default_reward=0.0)
    portfolio.on_elimination(lambda elimination: print(describe(elimination, learners)))

    rng, regret = np.random.default_rng(1), 0.0
    under_way: list[tuple[float, str, float]] = []  # when a reward arrives, the decision it belongs to, the reward
    for t in range(rounds):
        visitor = draw_visitor(rng)
        decision = portfolio.decide(visitor)
        rates = SALES[visitor["device"]]
        regret += ARRIVING * (max(rates) - rates[decision.action])
        if rng.random() < ARRIVING:
            reward = float(rng.random() < rates[decision.action])
            heapq.heappush(under_way, (t + rng.exponential(MEAN_DELAY), decision.id, reward))
        while under_way and under_way[0][0] <= t:
            _, ticket, reward = heapq.heappop(under_way)
            portfolio.learn(ticket, reward)

    print(f"\n{rounds:,} rounds, {len(portfolio.pending):,} of them still without a reward\n")
    print(f"{'':<22} {'plays':>7} {'pending':>8} {'mean reward':>12}  the best expected reward lies in")
    for row in portfolio.standing():
        claim = f"[{row.mean_lower:.3f}, {row.mean_upper:.3f}]" + ("" if row.active else "  disproved")
        print(f"{learners[row.learner].name:<22} {row.plays:>7,} {row.pending:>8,} {row.mean_reward:>12.3f}  {claim}")
    print(f"\n{portfolio.certificate().describe()}\nThe true regret is {regret:,.0f}.")


def describe(elimination: Elimination, learners: list[OfferMeans]) -> str:
    learner, witness = elimination.learner, elimination.witness
    return (
        f"Round {elimination.round:,}: {learners[learner.index].name!r} is eliminated. By its bound no rule earns more "
        f"than {learner.mean_upper:.4f} per visitor, but {learners[witness.index].name!r} earns at least "
        f"{witness.mean_lower:.4f}."
    )


if __name__ == "__main__":
    main()
