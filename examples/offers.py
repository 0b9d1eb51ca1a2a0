"""Which features matter for offers that come and go? Three feature maps, and arms by id, in one portfolio.

A shop shows one of five offers, which change every few rounds. Each has an id, a price and a rating; the visitor has a
budget. Whether somebody buys depends on price and budget together, which only the third map can express. The learner
over ids knows no features, and forgets ids that are no longer offered.

    python examples/offers.py [ROUNDS]
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before NumPy

import sys

import numpy as np

from equipoise import Offers, Portfolio
from equipoise.features import Columns, Concat, Interactions, Number, Schema, Shared
from equipoise.learners import OFUL, UCB

NUMBER = Number(-1.0, 1.0, missing="refuse")
SCHEMA = Schema({"budget": NUMBER}, {"price": NUMBER, "rating": NUMBER, "constant": NUMBER})
N_OFFERS, LIFETIME = 5, 40  # offers at a time, and rounds after which one of them is replaced


def offer(n: int) -> dict[str, float]:
    """The features of the n-th offer of the shop."""
    rng = np.random.default_rng([1, n])
    return {"price": float(rng.uniform(-0.5, 0.5)), "rating": float(rng.uniform(-0.5, 0.5)), "constant": 0.5}


def round_of(t: int, rng: np.random.Generator) -> Offers:
    """The offers and the visitor of a round."""
    numbers = range(t // LIFETIME, t // LIFETIME + N_OFFERS)
    budget = float(rng.choice([-1.0, 1.0]))
    return SCHEMA.offers({"budget": budget}, [offer(n) for n in numbers], ids=[f"offer {n}" for n in numbers])


def buys(offers: Offers, action: int, rng: np.random.Generator) -> float:
    """1 if the visitor buys: those with a budget like high prices, those without like low ones."""
    price, rating, _ = offers.actions[action]
    budget = offers.rows(Shared(1))[action, 0]
    return float(rng.random() < 0.5 + 0.8 * price * budget + 0.05 * rating)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    price, both = Columns(["price", "constant"]), Columns(["price", "rating", "constant"])
    by_id = UCB(N_OFFERS, window=1_000, name="offers by id")
    learners = [
        OFUL(features=price, name="price"),
        OFUL(features=both, name="price and rating"),
        OFUL(features=Concat([both, Interactions(price, Shared(1))]), name="price by visitor"),
        by_id,
    ]
    portfolio = Portfolio(learners, schema=SCHEMA)
    rng = np.random.default_rng(0)
    total = 0.0
    for t in range(rounds):
        offers = round_of(t, rng)
        decision = portfolio.decide(offers)
        reward = buys(offers, decision.action, rng)
        portfolio.learn(decision, reward)
        total += reward
    for row in portfolio.standing():
        print(f"{learners[row.learner].name:<17} {row.plays:>7,} plays, mean reward {row.mean_reward:.3f}")
    print(f"\n{total / rounds:.3f} purchases a round; {by_id.n_ids} ids remembered of {rounds // LIFETIME + 5}.")


if __name__ == "__main__":
    main()
