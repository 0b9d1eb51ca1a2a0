"""How often each radius is crossed, and how wide it is: `python -m tools.crossings`.

Each run is the sum of one learner's rewards over many plays. A one-sided radius with failure probability alpha must be
crossed at some play in at most a share alpha of the runs, whatever the rewards do. Five kinds of rewards are tried, on
the side and with the variance for which the radius is stated: fair coins, rare ones, rewards that alternate between a
coin and a constant, rewards driven by contexts, and rewards whose variance depends on the past (a coin while the sum is
high, almost constant while it is low). The last column has the same radius with half of its width, which must be
caught: crossed in significantly more than a share alpha of the runs with at least one kind of rewards.

The sharpest setting of a radius is where the variance process grows as fast as it may: fair coins, for which v = w^2/4
is exact. It takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from equipoise.confidence import make_radius, radius_at, radius_sum

Array: TypeAlias = NDArray[np.float64]
ALPHA, RUNS, PLAYS, CHUNK = 0.1, 10_000, 20_000, 250
FALSE_ALARM = 1e-4
STEPS = np.arange(1.0, PLAYS + 1)


def two_point(rng: np.random.Generator, runs: int, plays: int) -> tuple[Array, Array]:
    """Fair coins: rewards and their conditional expectations."""
    return (rng.random((runs, plays), np.float32) < 0.5).astype(float), np.full((1, plays), 0.5)


def rare(rng: np.random.Generator, runs: int, plays: int) -> tuple[Array, Array]:
    return (rng.random((runs, plays), np.float32) < 0.05).astype(float), np.full((1, plays), 0.05)


def alternating(rng: np.random.Generator, runs: int, plays: int) -> tuple[Array, Array]:
    """A coin in every second play, the constant 1/2 in the others."""
    coins = (rng.random((runs, plays), np.float32) < 0.5).astype(float)
    coins[:, 1::2] = 0.5
    return coins, np.full((1, plays), 0.5)


def context_driven(rng: np.random.Generator, runs: int, plays: int) -> tuple[Array, Array]:
    """In 5 of 8 contexts the best action pays 1 and the learner tosses a coin, in the others all pay 0: reward plus
    regret, which the two-sided radius is about, has variance 0.39."""
    lucky = rng.random((runs, plays), np.float32) < 5 / 8
    coins = rng.random((runs, plays), np.float32) < 0.5
    return (lucky & coins) + 0.5 * lucky, np.full((1, plays), 5 / 8)


def adaptive(rng: np.random.Generator, runs: int, plays: int) -> tuple[Array, Array]:
    """A coin while the sum of deviations is not negative, else 0.49 or 0.51: the variance seeks the boundary."""
    signs = np.where(rng.random((runs, plays), np.float32) < 0.5, -0.5, 0.5)
    deviations, total = np.empty((runs, plays)), np.zeros(runs)
    for k in range(plays):
        deviations[:, k] = np.where(total >= 0.0, signs[:, k], 0.02 * signs[:, k])
        total += deviations[:, k]
    return 0.5 + deviations, np.full((1, plays), 0.5)


Draw: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Array, Array]]
REWARDS: dict[str, Draw] = {
    "two-point": two_point,
    "rare": rare,
    "alternating": alternating,
    "context-driven": context_driven,
    "adaptive-variance": adaptive,
}


def boundaries(alpha: float, rewards: Array, contexts: str) -> dict[str, Array]:
    """The boundary of every radius at every play; that of "bernstein" depends on the rewards."""
    conditions: Any = {"width": 1.0, "noise": None, "contexts": contexts, "scale": 1.0}
    grid = {name: radius_at(name, alpha, **conditions) for name in ("mixture", "stitched", "paper")}
    found = {name: _on_all_plays(radius) for name, radius in grid.items()}
    plays = rewards.shape[1]
    sums = np.cumsum(rewards, axis=1)
    guesses = np.concatenate([np.full((len(rewards), 1), 0.5), sums[:, :-1] / STEPS[: plays - 1]], axis=1)
    spread = np.maximum(1.0, np.cumsum((rewards - guesses) ** 2, axis=1))
    level, iterated = np.log(5.2 / alpha), np.log(np.log(2 * spread))
    eb = 1.7 * np.sqrt(spread * (iterated + 0.72 * level)) + (1.4 * iterated + level)
    return {**{name: row[:plays] for name, row in found.items()}, "bernstein": eb}


def _on_all_plays(radius: Any) -> Array:
    key = repr(radius)
    if key not in _CACHE:
        _CACHE[key] = np.array([radius_sum(radius, n) for n in STEPS])
    return _CACHE[key]


_CACHE: dict[str, Array] = {}


def crossings(draw: Draw, *, runs: int, plays: int, contexts: str, seed: int = 0) -> dict[tuple[str, float], int]:
    """Of `runs` runs, those in which the sum exceeds a boundary at some play: by radius and factor of its width."""
    counts: dict[tuple[str, float], int] = {}
    rng = np.random.default_rng([17, seed])
    for start in range(0, runs, CHUNK):
        rewards, means = draw(rng, min(CHUNK, runs - start), plays)
        deviations = np.cumsum(rewards - means, axis=1)
        for name, boundary in boundaries(ALPHA, rewards, contexts).items():
            ratios = (deviations / boundary).max(axis=1)
            for factor in (1.0, 0.5):
                counts[name, factor] = counts.get((name, factor), 0) + int(np.count_nonzero(ratios > factor))
    return counts


def holds(count: int, runs: int) -> bool:
    """Exact binomial test of a rate of at most alpha; rejects a true claim with probability at most FALSE_ALARM."""
    return bool(binomtest(count, runs, ALPHA, alternative="greater").pvalue >= FALSE_ALARM)


def main() -> int:
    failed, caught = [], dict.fromkeys(("mixture", "stitched", "paper", "bernstein"), False)
    print(f"Share of {RUNS:,} runs of {PLAYS:,} plays that cross at alpha = {ALPHA:g}; in brackets: half the width")
    for kind, draw in REWARDS.items():
        # What contexts vary by counts in the two-sided radius alone, as do the regrets of the context-driven kind.
        contexts = "random" if kind == "context-driven" else "fixed"
        counts = crossings(draw, runs=RUNS, plays=PLAYS, contexts=contexts)
        cells = []
        for name in caught:
            full, half = counts[name, 1.0], counts[name, 0.5]
            cells.append(f"{name} {full / RUNS:.4f} ({half / RUNS:.3f})")
            caught[name] |= not holds(half, RUNS)
            if not holds(full, RUNS):
                failed.append(f"{name} with {kind} rewards")
        print(f"{kind:18}", "  ".join(cells))
    print("Width of the new default beside the stitched one, M = 5, delta = 0.05, per play:")
    conditions: Any = {"width": 1.0, "noise": None, "contexts": "random", "scale": 1.0}
    new, old = (make_radius(name, n_learners=5, delta=0.05, **conditions) for name in ("mixture", "stitched"))
    for n in (10**k for k in range(2, 7)):
        wide, narrow = radius_sum(old, n) / n, radius_sum(new, n) / n
        print(f"  n = {n:9,}: {narrow:.5f} beside {wide:.5f}, ratio {narrow / wide:.3f}")
    failed += [f"half of {name} was not caught" for name, found in caught.items() if not found]
    print("FAILED: " + "; ".join(failed) if failed else "All radii hold, and half of each is caught.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
