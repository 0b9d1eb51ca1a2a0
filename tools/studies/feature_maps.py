"""What feature maps and the history cost: `python -m tools.studies.feature_maps [--rounds N]`.

Three OFUL learners over one stream of offers (10 actions with 16 features, 16 shared ones) use the first 4 columns, all
16, and the products of some columns with some shared features (64, 128 or 256). Printed are microseconds per round of a
portfolio of the three (RealizedBalancing, own plays) and of the learner with the largest map alone, together with what
computing all three maps takes; and of a portfolio of two arms with its history and without. The two sides of a
comparison take turns in blocks of rounds, so that a busy machine slows both: medians over the blocks. The samples of
the history, which few blocks have, are timed one by one and added.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from math import inf
from statistics import median

import numpy as np

from equipoise import Offers, Portfolio
from equipoise.features import FeatureMap, Interactions, Prefix, Shared
from equipoise.learners import OFUL, Constant
from equipoise.selectors import RealizedBalancing

N_ACTIONS, N_FEATURES, N_SHARED, N_SETS, BLOCK = 10, 16, 16, 256, 250
PRODUCTS = ((8, 8), (16, 8), (16, 16))  # of so many columns with so many shared features


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


def maps_of(columns: int, shared: int) -> tuple[FeatureMap, ...]:
    return Prefix(4), Prefix(16), Interactions(Prefix(columns), Shared(shared))


def make_learner(features: FeatureMap) -> OFUL:
    return OFUL(features=features, action_bound=4.0)


Play = Callable[[int], None]  # plays the round of this number


def portfolio_of_three(maps: tuple[FeatureMap, ...]) -> Play:
    portfolio = Portfolio([make_learner(features) for features in maps], RealizedBalancing(3))

    def play(t: int) -> None:
        portfolio.learn(portfolio.decide(offers(t)), float(t % 3 == 0))

    return play


def largest_alone(maps: tuple[FeatureMap, ...]) -> Play:
    learner = make_learner(maps[-1])

    def play(t: int) -> None:
        context = offers(t)
        for features in maps:
            context.rows(features)
        learner.learn(context, learner.decide(context).action, float(t % 3 == 0))

    return play


def two_arms(samples: list[float] | None) -> Play:
    """With a history, whose samples add the seconds that they take to a list; or without."""
    portfolio = Portfolio([Constant(0), Constant(1)], RealizedBalancing(2))
    if samples is None:
        portfolio.history.next_round = inf
        portfolio.history.see = lambda reward: None  # type: ignore[method-assign]
    else:
        portfolio._sample = partial(timed, portfolio._sample, samples)  # type: ignore[method-assign]

    def play(t: int) -> None:
        portfolio.learn(portfolio.decide(None), float(t % 3 == 0))

    return play


def timed(action: Callable[[], None], seconds: list[float]) -> None:
    start = time.process_time()
    action()
    seconds.append(time.process_time() - start)


def compare(one: Play, other: Play, rounds: int) -> list[tuple[float, float]]:
    """CPU microseconds per round of both in each block."""
    times = []
    for block in range(rounds // BLOCK):
        pair = []
        for play in (one, other):
            start = time.process_time()
            for t in range(block * BLOCK, (block + 1) * BLOCK):
                play(t)
            pair.append(1e6 * (time.process_time() - start) / BLOCK)
        times.append((pair[0], pair[1]))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    rounds = parser.parse_args().rounds
    for columns, shared in PRODUCTS:
        maps = maps_of(columns, shared)
        blocks = compare(portfolio_of_three(maps), largest_alone(maps), rounds)
        three, alone = (median(times) for times in zip(*blocks, strict=True))
        ratio = median(one / other for one, other in blocks)
        print(f"three maps: {three:.1f} us a round; the one of {maps[-1].dim} alone: {alone:.1f}; {ratio:.2f}")
    samples: list[float] = []
    blocks = compare(two_arms(samples), two_arms(None), 2 * rounds)
    every, sampling = median(one - other for one, other in blocks), 1e6 * sum(samples) / (2 * rounds)
    print(f"history: {every + sampling:.2f} us a round, {sampling:.2f} of it for {len(samples)} samples")


if __name__ == "__main__":
    main()
