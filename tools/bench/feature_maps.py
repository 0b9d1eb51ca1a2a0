"""The contest in selection: which of three feature maps, while playing?

A round has a context of two parts a and b and K actions. Expected rewards are linear in a, with weights of each
action's own; b is noise. The features of action k are (1, a, b) in the k-th of K blocks, ordered so that the first K
columns are the map without a context, the next K p those with a, and the last those with b: the first map is too small,
the second right, the third larger than need be. Rewards lie in [0, 1], as some libraries insist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from statistics import mean

import numpy as np

from equipoise.kernels.streams import CONTEXTS, INSTANCE, generator_at
from equipoise.portfolio import Portfolio
from equipoise.selectors import RealizedBalancing
from equipoise.types import Array
from tools.bench.contest import PART_A, PART_B, Contender, Rounds, average_regret, play
from tools.bench.linucb import LearnerSteps, PortfolioSteps, contender_row, make_learner, shape_result
from tools.bench.samples import Line
from tools.bench.scale import Scale, Shape

N_ACTIONS, N_SETS = 5, 500
SPREAD, NOISE = 0.3, 0.2  # of expected rewards around 1/2, and of rewards around those, both at most
DIMS = tuple(N_ACTIONS * n for n in (1, 1 + PART_A, 1 + PART_A + PART_B))


def make_rounds(n_rounds: int, seed: int) -> Rounds:
    """The rounds of a seed, with an instance of the problem of its own."""
    rng = generator_at(seed, INSTANCE)
    a, b = _directions(rng, N_SETS, PART_A), _directions(rng, N_SETS, PART_B)
    weights = _directions(rng, N_ACTIONS, PART_A)
    table = np.zeros((N_SETS, N_ACTIONS, DIMS[-1]))
    for k in range(N_ACTIONS):
        table[:, k, k] = 1.0
        for first, part in ((DIMS[0], a), (DIMS[1], b)):
            start = first + k * part.shape[1]
            table[:, k, start : start + part.shape[1]] = part
    rng = generator_at(seed, CONTEXTS)
    noise = rng.uniform(-NOISE, NOISE, n_rounds)
    return Rounds(table / sqrt(3), 0.5 + SPREAD * a @ weights.T, rng.integers(N_SETS, size=n_rounds), noise)


def _directions(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    directions: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return directions


def portfolio(*, share_data: bool) -> Contender:
    selector = RealizedBalancing(len(DIMS))
    return PortfolioSteps(Portfolio([make_learner(dim) for dim in DIMS], selector, share_data=share_data))


def alone(dim: int) -> Contender:
    return LearnerSteps(make_learner(dim))


ENTRIES: dict[str, tuple[str, Callable[[], Contender]]] = {
    "equipoise": ("RealizedBalancing over OFUL on each map", partial(portfolio, share_data=False)),
    "equipoise, shared data": ("the same, every OFUL learning from every round", partial(portfolio, share_data=True)),
    **{
        f"{words} alone": (f"OFUL on {words}, {dim} features", partial(alone, dim))
        for words, dim in zip(("no context", "a", "a and b"), DIMS, strict=True)
    },
}


def shape_of(scale: Scale) -> Shape:
    return Shape(DIMS[-1], N_ACTIONS, scale.map_rounds)


def measure(rounds: Sequence[Rounds], scale: Scale) -> list[Line]:
    """A line for each entry of this package."""
    rows, shape = [], shape_of(scale)
    for name, (words, make) in ENTRIES.items():
        micros, regrets = [], []
        for each in rounds:
            seconds, actions = play(each, make())
            micros.append(seconds / scale.map_rounds * 1e6)
            regrets.append(average_regret(each, actions))
        rows.append(contender_row(name, words, results=[shape_result(shape, micros, regrets)]))
    return rows


def interval(regrets: Sequence[float]) -> tuple[float, float]:
    """Mean and half-width of the 95 % t-interval over seeds; nan for a single one."""
    from scipy.stats import t

    if len(regrets) < 2:
        return mean(regrets), float("nan")
    error = float(np.std(regrets, ddof=1)) / sqrt(len(regrets))
    return mean(regrets), float(t.ppf(0.975, len(regrets) - 1)) * error
