"""Learners that people ask for by name, on the data they are for: `python -m tools.studies.named_learners [PART]`.

*clicks*: 10 offers with a constant and 7 features, fresh in every round; a click has a logistic probability, 3 % on
average over the offers. Regret in expected clicks of `LogisticUCB` and `LogisticThompson` with their default settings;
each may be at most the regret of `OFUL` with its own. For comparison also `OFUL` with the scale that was best on the
seeds 0 to 5. Control: a logistic learner that never learns must exceed OFUL.
*swap*: the parameter of linear rewards is reversed in the middle, so the best offers become the worst. Regret after the
swap of `OFUL` and `DisjointOFUL` with a discount; each may be at most half of the regret of the same learner without.
The scale is 0.3, for OFUL also 1: with the width that theory asks for, `DisjointOFUL` with a short memory explores all
the time, which the last line shows. Control: a discount of 0.99999, which is none over so few rounds, must exceed half.

Seeds are 1,000 and up; the defaults of the logistic learners and the discount were chosen on the seeds 0 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from equipoise.features import Offers, Shared
from equipoise.learners import OFUL, DisjointOFUL, LogisticThompson, LogisticUCB
from equipoise.types import Array
from tools.main import run_command

FIRST_SEED, BASE_RATE, OFFERS, DIM, STEEPNESS = 1_000, 0.03, 10, 8, 3.0
BEST_SCALE = 0.03  # of OFUL on the clicks of seeds 0 to 5
DISCOUNT, NO_DISCOUNT = 0.995, 0.99999
Figures = Iterator[tuple[str, str, bool]]  # what, the figure, and whether it is as promised


def logistic(logits: Array) -> Array:
    shares: Array = 1.0 / (1.0 + np.exp(-logits))
    return shares


def click_rows(rng: np.random.Generator, n: int) -> Array:
    """Rows of norm 1: the constant 1/2 and a uniform direction."""
    rows = rng.standard_normal((n, DIM - 1))
    rows *= sqrt(0.75) / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([np.full((n, 1), 0.5), rows])


def click_parameter(seed: int) -> Array:
    """Return theta: a direction, and the constant for which the mean click rate is the base rate."""
    rng = np.random.default_rng([seed, 1])
    theta = np.append(0.0, rng.standard_normal(DIM - 1))
    theta *= STEEPNESS / np.linalg.norm(theta)
    logits, low, high = click_rows(rng, 20_000) @ theta, -12.0, 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if logistic(logits + middle).mean() > BASE_RATE else (middle, high)
    theta[0] = 2.0 * low
    return theta


def click_regret(learner: Any, seed: int, rounds: int) -> float:
    theta, regret = click_parameter(seed), 0.0
    draws, own = np.random.default_rng([seed, 2]), np.random.default_rng([seed, 3])
    for _ in range(rounds):
        rows, coin = click_rows(draws, OFFERS), draws.random()
        rates = logistic(rows @ theta)
        action = learner.decide(rows, own).action
        regret += float(rates.max() - rates[action])
        learner.learn(rows, action, float(coin < rates[action]))
    return regret


class Ignorant(LogisticUCB):
    """The control: sees no reward."""

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        return


def linear_swap(learner: Any, seed: int, rounds: int) -> float:
    """Regret after the swap: 10 fresh offers of 5 positive features, rewards of mean <theta, a>."""
    draws, theta, regret = np.random.default_rng([seed, 4]), np.linspace(1.0, 0.0, 5), 0.0
    theta /= np.linalg.norm(theta)
    for t in range(2 * rounds):
        rows = draws.random((OFFERS, 5)) ** 2
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        means, coin = rows @ (theta if t < rounds else theta[::-1]), draws.random()
        action = learner.decide(rows).action
        regret += float(means.max() - means[action]) if t >= rounds else 0.0
        learner.learn(rows, action, float(coin < means[action]))
    return regret


def disjoint_swap(learner: Any, seed: int, rounds: int) -> float:
    """Regret after the swap: 5 actions by id, with linear functions of 3 positive attributes that they exchange."""
    draws, regret, ids = np.random.default_rng([seed, 5]), 0.0, ["a", "b", "c", "d", "e"]
    thetas = np.linspace(0.1, 0.9, 5)[:, None] * np.array([1.0, 0.8, 0.6]) / sqrt(2.0)
    for t in range(2 * rounds):
        x, coin = draws.random(3) + 0.2, draws.random()
        x /= np.linalg.norm(x)
        means = (thetas if t < rounds else thetas[::-1]) @ x
        offers = Offers(None, shared=x, ids=ids)
        action = learner.decide(offers).action
        regret += float(means.max() - means[action]) if t >= rounds else 0.0
        learner.learn(offers, action, float(coin < means[action]))
    return regret


Run = Callable[[Any, int, int], float]


def mean_regret(run: Run, make: Callable[[], Any], seeds: int, rounds: int) -> tuple[float, float]:
    """Mean and standard error over the seeds."""
    regrets = [run(make(), FIRST_SEED + k, rounds) for k in range(seeds)]
    return float(np.mean(regrets)), float(np.std(regrets)) / sqrt(seeds)


def clicks(seeds: int = 20, rounds: int = 5_000) -> Figures:
    limit, error = mean_regret(click_regret, lambda: OFUL(DIM), seeds, rounds)
    yield "clicks: OFUL", f"{limit:.1f} +- {error:.1f}", True
    tuned, error = mean_regret(click_regret, lambda: OFUL(DIM, scale=BEST_SCALE), seeds, rounds)
    yield f"clicks: OFUL, scale {BEST_SCALE}", f"{tuned:.1f} +- {error:.1f}", True
    for cls in (LogisticUCB, LogisticThompson, Ignorant):
        mean, error = mean_regret(click_regret, partial(cls, DIM), seeds, rounds)
        control = cls is Ignorant
        what = "never learns (control, must exceed OFUL)" if control else cls.__name__
        yield f"clicks: {what}", f"{mean:.1f} +- {error:.1f}", (mean <= limit) != control


def swap(seeds: int = 20, rounds: int = 3_000) -> Figures:
    by_id = partial(DisjointOFUL, features=Shared(3), arms=5)
    cases: tuple[tuple[str, Run, Callable[..., Any], bool], ...] = (
        ("OFUL", linear_swap, partial(OFUL, 5), True),
        ("OFUL, scale 0.3", linear_swap, partial(OFUL, 5, scale=0.3), True),
        ("DisjointOFUL, scale 0.3", disjoint_swap, partial(by_id, scale=0.3), True),
        ("DisjointOFUL", disjoint_swap, by_id, False),
    )
    for name, run, make, promised in cases:
        limit, error = mean_regret(run, make, seeds, rounds)
        yield f"swap: {name}", f"{limit:.1f} +- {error:.1f}", True
        for discount in (DISCOUNT, NO_DISCOUNT):
            mean, error = mean_regret(run, partial(make, discount=discount), seeds, rounds)
            control = discount == NO_DISCOUNT
            note = " (control, must exceed half)" if control else "" if promised else " (exceeds half)"
            figure = f"{mean:.1f} +- {error:.1f}, {mean / limit:.2f} of it"
            yield f"swap: {name}, discount {discount}{note}", figure, (mean > 0.5 * limit) == (control or not promised)


PARTS: dict[str, Callable[..., Figures]] = {"clicks": clicks, "swap": swap}


def main(part: str = "", seeds: int = 20) -> None:
    """Run one part, or both."""
    holds = True
    for name in [part] if part else PARTS:
        for what, figure, as_promised in PARTS[name](seeds):
            print(f"{'ok    ' if as_promised else 'BROKEN'} {what}: {figure}", flush=True)
            holds = holds and as_promised
    if not holds:
        raise SystemExit(1)


if __name__ == "__main__":
    run_command(main)
