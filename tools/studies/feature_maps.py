"""What feature maps and the history cost: `python -m tools.studies.feature_maps [--rounds N]`.

Three OFUL learners over one stream of offers (10 actions with 16 features, 8 shared ones) use the first 4 columns, all
16, and the products of 8 columns with the shared features (64). Printed are microseconds per round of a portfolio of
the three (RealizedBalancing, own plays) and of the learner with the largest map alone, together with what computing all
three maps takes; and of a portfolio of two arms with its history and without. Medians of interleaved repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import inf
from statistics import median

import numpy as np

from equipoise import Offers, Portfolio
from equipoise.features import FeatureMap, Interactions, Prefix, Shared
from equipoise.learners import OFUL, Constant
from equipoise.selectors import RealizedBalancing

N_ACTIONS, N_FEATURES, N_SHARED, N_SETS, REPEATS = 10, 16, 8, 256, 7
MAPS: tuple[FeatureMap, ...] = (Prefix(4), Prefix(16), Interactions(Prefix(8), Shared(N_SHARED)))


def make_rounds() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(N_SETS, N_ACTIONS, N_FEATURES)) / 8
    shared = rng.normal(size=(N_SETS, N_SHARED)) / 4
    return list(zip(actions, shared, strict=True))


ROUNDS = make_rounds()


def offers(t: int) -> Offers:
    """The offers of a round, made anew: a request has an object of its own."""
    actions, shared = ROUNDS[t % N_SETS]
    return Offers(actions, shared=shared)


def make_learner(features: FeatureMap) -> OFUL:
    return OFUL(features=features, action_bound=4.0)


def portfolio_of_three(rounds: int) -> None:
    portfolio = Portfolio([make_learner(features) for features in MAPS], RealizedBalancing(3))
    for t in range(rounds):
        portfolio.learn(portfolio.decide(offers(t)), float(t % 3 == 0))


def largest_alone(rounds: int) -> None:
    learner = make_learner(MAPS[-1])
    for t in range(rounds):
        context = offers(t)
        for features in MAPS:
            context.rows(features)
        learner.learn(context, learner.decide(context).action, float(t % 3 == 0))


def two_arms(rounds: int, history: bool) -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], RealizedBalancing(2))
    if not history:
        portfolio.history.next_round = inf
        portfolio.history.see = lambda reward: None  # type: ignore[method-assign]
    for t in range(rounds):
        portfolio.learn(portfolio.decide(None), float(t % 3 == 0))


def compare(actions: dict[str, Callable[[int], None]], rounds: int) -> dict[str, float]:
    """CPU microseconds per round of each, the median of interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(REPEATS):
        for name, action in actions.items():
            start = time.process_time()
            action(rounds)
            times[name].append(1e6 * (time.process_time() - start) / rounds)
    return {name: median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5_000)
    rounds = parser.parse_args().rounds
    maps = compare({"three": portfolio_of_three, "alone": largest_alone}, rounds)
    ratio = maps["three"] / maps["alone"]
    print(f"three maps: {maps['three']:.1f} us a round; largest alone, with all maps: {maps['alone']:.1f}; {ratio:.2f}")
    arms = compare({"with": lambda n: two_arms(n, True), "without": lambda n: two_arms(n, False)}, 4 * rounds)
    print(f"history: {arms['with']:.2f} us a round, without {arms['without']:.2f}")


if __name__ == "__main__":
    main()
