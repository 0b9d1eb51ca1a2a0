"""Delays that depend on rewards or contexts, and what becomes of certificates if they are called exogenous.

One learner without regret tosses a coin: of probability 3/4 in half of the contexts, 1/4 in the others, so the optimum
is 1/2. Under delays "any" its certificates hold whatever the delays depend on; declared exogenous, a play without a
reward is left out after `WINDOW` rounds, which is valid only if delays are independent of contexts and rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import TypeAlias

import numpy as np

from equipoise.bounds import Power
from equipoise.lab.audit.claims import Seen
from equipoise.selector import Choice
from equipoise.selectors import BalancedElimination

WINDOW = 20  # rounds; also the mean delay
OPTIMUM, MEANS = 0.5, (0.25, 0.75)
DelayOf: TypeAlias = Callable[[np.random.Generator, float, float], float]  # of generator, expected reward and reward


def independent(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW)


def by_reward(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW) if reward else 10.0 * WINDOW


def by_context(rng: np.random.Generator, mean: float, reward: float) -> float:
    return rng.exponential(WINDOW) if mean > OPTIMUM else 10.0 * WINDOW


def late_coins(seed: int, rounds: int, delay_of: DelayOf, *, exogenous: bool = False) -> Iterator[Seen]:
    """Whether the certificate ever excludes the optimum; `exogenous` is what is declared, whatever `delay_of` does."""
    rng, selector = np.random.default_rng([8, seed]), BalancedElimination([Power(0.01)])
    if exogenous:
        selector.configure(delays="exogenous", window=WINDOW)
    due: dict[int, list[tuple[Choice, float]]] = {}
    beyond, can_fail = -inf, False
    for t in range(rounds):
        for choice, reward in due.pop(t, ()):
            selector.credit(choice, reward)
        mean = MEANS[int(rng.random() < 0.5)]
        reward = float(rng.random() < mean)
        arrival = t + 1 + int(delay_of(rng, mean, reward))
        due.setdefault(arrival, []).append((selector.choose(), reward))
        if t % 20 == 19:
            certificate = selector.certificate()
            lower, upper = certificate.optimum_lower, certificate.optimum_upper
            beyond = max(beyond, lower - OPTIMUM, OPTIMUM - upper)
            can_fail |= lower > 0.0 or upper < 1.0
    yield Seen("certificate", 0.0, beyond, beyond > 0.0, can_fail)


VALID_DELAYS: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "exogenous delays with a window": partial(late_coins, delay_of=independent, exogenous=True),
    "delays by the reward": partial(late_coins, delay_of=by_reward),
    "delays by the context": partial(late_coins, delay_of=by_context),
}
