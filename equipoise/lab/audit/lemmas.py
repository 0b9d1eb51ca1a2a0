"""Lemmas that need no selector: each is simulated as stated, in a hard case that is easy to simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from equipoise.confidence import noise_radius, radius_sum
from equipoise.lab.audit.claims import Seen
from equipoise.lab.experiments.tracked_oful import TrackedOFUL
from equipoise.problems import LinearBandit
from equipoise.simulation.tapes import Tapes
from equipoise.theory import lemmas

DELTA = 0.05
CHANCES = (0.6, 0.3, 0.1)  # of the learners in an epoch
DIM, NORM_BOUND, NOISE = 4, 1.1, 0.5


def play_counts(seed: int, rounds: int) -> Iterator[Seen]:
    """Learners drawn with fixed probabilities, compared at every power of 2^(1/4)."""
    draws = np.random.default_rng([1, seed]).random(rounds)
    starts = np.cumsum((0.0, *CHANCES))
    moments = []
    for chance, low in zip(CHANCES, starts, strict=False):
        plays = np.cumsum((draws >= low) & (draws < low + chance))
        moments += [(t, float(plays[t - 1]), chance) for t in _marks(rounds)]
    yield drawn_plays(moments, len(CHANCES), DELTA)


def drawn_plays(moments: Iterable[tuple[int, float, float]], n_learners: int, delta: float) -> Seen:
    """Check the lemma on play counts at some moments: rounds, plays and probability of a learner."""
    worst, can_fail = 0.0, False
    for rounds, plays, chance in moments:
        most = lemmas.most_plays(rounds, chance, n_learners, delta)
        worst, can_fail = max(worst, plays / most), can_fail or most < rounds
    return Seen("play counts", 1.0, worst, worst > 1.0, can_fail)


def bernstein(seed: int, rounds: int) -> Iterator[Seen]:
    """Centered rare events, whose sum is sub-Poisson with constant 1."""
    chance = 0.05
    sums = np.cumsum(np.random.default_rng([2, seed]).random(rounds) < chance)
    step = chance * (1 - chance)
    ratios = [
        (float(sums[t - 1]) - t * chance) / lemmas.bernstein_boundary(t * step, step, 1.0, DELTA)
        for t in _marks(rounds)
    ]
    can_fail = lemmas.bernstein_boundary(rounds * step, step, 1.0, DELTA) < rounds * (1 - chance)
    yield Seen("Bernstein", 1.0, max(ratios), max(ratios) > 1.0, can_fail)


def noise(seed: int, rounds: int) -> Iterator[Seen]:
    """Fair coins, which have the largest noise of rewards in [0, 1]; both sides, alpha each."""
    sums = np.cumsum((np.random.default_rng([3, seed]).random(rounds) < 0.5) - 0.5)
    rule = noise_radius(alpha=DELTA / 2, width=1.0, noise=None, scale=1.0)
    ratios = [abs(float(sums[t - 1])) / radius_sum(rule, t) for t in _marks(rounds)]
    yield Seen("noise", 1.0, max(ratios), max(ratios) > 1.0, radius_sum(rule, rounds) < rounds / 2)


def potentials(seed: int, rounds: int) -> Iterator[Seen]:
    """Vectors in the least explored direction, each added with probability 0.2; random vectors, each added."""
    rng, cap, chance = np.random.default_rng([4, seed]), 1.0, 0.2
    whole, thinned = np.eye(2), np.eye(2)
    whole_sum, thinned_sum, worst, worst_random = 0.0, 0.0, 0.0, 0.0
    can_fail = can_fail_random = False
    for t in range(1, min(rounds, 300) + 1):
        x = np.linalg.eigh(thinned)[1][:, 0] * rng.uniform(0.2, 3.0)
        thinned_sum += min(cap, float(x @ np.linalg.solve(thinned, x)))
        y = rng.normal(size=2) * rng.uniform(0.1, 3.0)
        whole_sum += min(cap, float(y @ np.linalg.solve(whole, y)))
        whole += np.outer(y, y)
        thinned += np.outer(x, x) * (rng.random() < chance)
        determinants = (float(np.log(np.linalg.det(matrix))) for matrix in (whole, thinned))
        limit = lemmas.elliptical_potential(next(determinants), cap)
        random_limit = lemmas.random_potential(next(determinants), cap, chance, t, DELTA)
        worst, worst_random = max(worst, whole_sum / limit), max(worst_random, thinned_sum / random_limit)
        can_fail, can_fail_random = can_fail or limit < cap * t, can_fail_random or random_limit < cap * t
    yield Seen("potential", 1.0, worst, worst > 1.0 + 1e-9, can_fail)
    yield Seen("random potential", 1.0, worst_random, worst_random > 1.0, can_fail_random)


def least_squares(seed: int, rounds: int) -> Iterator[Seen]:
    """OFUL with its true parameter tracked, on Bernoulli rewards."""
    problem = LinearBandit(DIM, DIM, 10, seed=seed)
    learner = TrackedOFUL(problem.params.theta, noise=NOISE, norm_bound=NORM_BOUND, delta=DELTA)
    regret = float(Tapes(problem, [learner], np.array([rounds]), seed).curve(0)[-1])
    holds = learner.largest_ratio <= 1.0
    yield Seen("ellipsoid", 1.0, learner.largest_ratio, not holds)
    if holds:
        growth = lemmas.log_determinant_ratio(DIM, rounds)
        widest = lemmas.ellipsoid_radius(growth, noise=NOISE, norm_bound=NORM_BOUND, delta=DELTA)
        promise = lemmas.oful_regret(DIM, rounds, widest)
        yield Seen("OFUL's regret", promise, regret, regret > promise, promise < rounds)


LEMMAS: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "play counts": play_counts,
    "Bernstein": bernstein,
    "noise": noise,
    "potentials": potentials,
    "least squares": least_squares,
}
CERTAIN = ("potential", "OFUL's regret")  # hold with probability 1


def _marks(rounds: int) -> list[int]:
    return sorted({min(rounds, int(2 ** (k / 4))) for k in range(4 * rounds.bit_length() + 1)} - {0})
