"""Theorems and lemmas as the paper prints them, where the corrected ones of `equipoise.theory` differ.

The pages on guarantees and theory show them next to the corrected ones. Symbols are those of `equipoise.theory`; sizes
d_i and C stand for coefficients d_i C.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, sqrt
from typing import NamedTuple

from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, STITCHED_WEIGHT, stitched_level
from equipoise.settings.checks import count, non_negative, positive, probability, real
from equipoise.theory.guarantees import (
    Gaps,
    Passed,
    Sizes,
    check_bound_delta,
    check_exponent,
    check_gap,
    check_terms,
)
from equipoise.theory.lemmas import check_chance


def printed_survivor_regret(plays: int, best_plays: int, best_bound: float, deviation: float) -> float:
    """lem:regbound_nonelim as printed, where `deviation` is c sqrt(ln(M ln t/delta)).

    >>> printed_survivor_regret(100, 100, 5.0, 1.0)
    51.0
    """
    ratio = count("plays", plays) / count("best_plays", best_plays)
    return 1 + (ratio + 1) * best_bound + 2 * deviation * (1 + sqrt(ratio)) * sqrt(plays)


def printed_general_guarantee(n_learners: int, passed: Sequence[Passed], deviation: float) -> float:
    """thm:general_regbound as printed for width 1, where `deviation` is c sqrt(ln(M ln T/delta)); the first sum
    is over all M learners and uses the largest R_* in `passed`.

    >>> printed_general_guarantee(2, [Passed(100, 10.0, 100, 5.0)], 1.0)
    59.0
    """
    max_bound = max((row.best_bound for row in passed), default=0.0)
    total = count("n_learners", n_learners) * (max_bound + 2)
    for row in passed:
        ratio = row.plays / row.best_plays
        total += ratio * row.best_bound + 2 * deviation * (1 + sqrt(ratio)) * sqrt(row.plays)
    return total


def printed_sqrt_log_ratio(coefficient: float, best_coefficient: float, bound_delta: float, rounds: int) -> float:
    """lem:sqrt_ratio_bound as printed: 7 max(1, (d_*/d_i)^2) ln_+(4 e ln(t/delta)).

    >>> round(printed_sqrt_log_ratio(1.0, 3.0, 0.05, 1000))
    295
    """
    logs = log(max(4 * e * log(count("rounds", rounds) / check_bound_delta(bound_delta)), e))
    ratio = positive("best_coefficient", best_coefficient) / positive("coefficient", coefficient)
    return 7 * max(1.0, ratio**2) * logs


class Pool(NamedTuple):
    """Learners with bounds d_i C times a rate, of which `n_wrong` are misspecified; d_i >= 1, C >= 1 and width 1."""

    size: float  # d_*
    constant: float
    n_learners: int
    n_wrong: int


def printed_power_guarantee(pool: Pool, exponent: float, *, rounds: int, radius: float) -> float:
    """thm:poly_reg as printed, for bounds d_i C n^beta; its constants are too small.

    >>> round(printed_power_guarantee(Pool(2.0, 1.0, 2, 1), 0.5, rounds=100, radius=10.0))
    224
    """
    size, constant, n_learners, n_wrong = checked(pool)
    check_terms({"rounds": rounds, "radius": radius})
    factor = n_learners + 2 * n_wrong ** (1 - exponent) * size ** (1 / exponent - 1)
    rest = 5 * size ** (1 / (2 * exponent)) * sqrt(n_wrong) * radius + 2 * n_learners
    return float(factor * size * constant * rounds**exponent + rest)


def printed_sqrt_log_guarantee(pool: Pool, bound_delta: float, *, rounds: int, deviation: float) -> float:
    """thm:sqrt_reg as printed, for bounds d_i C sqrt(n ln_+(n/delta)); `deviation` stands for c ln(11 M ln T/delta).

    >>> round(printed_sqrt_log_guarantee(Pool(2.0, 1.0, 2, 1), 0.05, rounds=100, deviation=3.0))
    826
    """
    size, constant, n_learners, n_wrong = checked(pool)
    logs = log(count("rounds", rounds) / check_bound_delta(bound_delta))
    factor = n_learners + size * sqrt(n_wrong * log(max(11 * logs, e)))
    learning = factor * size * constant * sqrt(rounds * max(logs, 1.0))
    return learning + 2 * n_learners + 8 * deviation * size * sqrt(n_wrong * rounds)


def printed_power_gap_order(
    sizes: Sizes, constant: float, exponent: float, gaps: Gaps, best: int, *, rounds: int, log_term: float
) -> float:
    """The expression in the O(...) of thm:poly_reg_gap, for bounds d_i C n^beta and a gap in every
    play (alpha = 1); `log_term` is ln(M ln T/delta).

    >>> round(printed_power_gap_order([1.0, 2.0], 1.0, 0.5, [0.5, None], 1, rounds=10**6, log_term=6.0))
    5764
    """
    star, alpha, beta = sizes[best], 1.0, check_exponent(exponent)
    total: float = len(sizes) * star * constant * count("rounds", rounds) ** beta
    for size, gap in zip(sizes, gaps, strict=True):
        if gap is None:
            continue
        check_gap(gap, alpha, beta)
        if beta < 0.5:
            power = 1 / (2 * alpha - 1)
            sum_of_sizes = (2 * star) ** (1 / beta + power / beta) + star * size**power
            total += constant * sum_of_sizes * (20 * constant / gap * non_negative("log_term", log_term)) ** power
        else:
            power = beta / (alpha - beta)
            sum_of_sizes = star ** (1 / beta + 1 / (alpha - beta)) + star * size**power
            total += constant * sqrt(log_term) * sum_of_sizes * (20 * constant / gap) ** power
    return total


def printed_sqrt_log_gap(
    sizes: Sizes, constant: float, bound_delta: float, gaps: Gaps, best: int, *, rounds: int
) -> float:
    """thm:sqrt_reg_gap as printed, for bounds d_i C sqrt(n ln_+(n/delta)) and a gap in every play (alpha = 1).

    >>> round(printed_sqrt_log_gap([1.0, 2.0], 1.0, 0.05, [0.5, None], 1, rounds=10**6))
    2533143
    """
    star, n_learners, alpha = sizes[best], len(sizes), 1.0
    power = 1 / (2 * alpha - 1)
    outer = log(max(4 * e * log(rounds / check_bound_delta(bound_delta)), e))
    inner = log(max(n_learners * rounds / bound_delta, e))
    total = n_learners * star * constant * sqrt(rounds * log(max(rounds / bound_delta, e))) + 2 * n_learners
    for size, gap in zip(sizes, gaps, strict=True):
        if gap is not None:
            check_gap(gap, alpha, 0.5)
            term = 9 * constant * star * outer ** (0.5 + power) * inner ** (0.5 + power / 2)
            total += term * (42 * size * constant / gap) ** power * max(1.0, star / size) ** (1 + 2 * power)
    return total


def printed_mean_radius(plays: int, n_learners: int, delta: float) -> float:
    """lem:mustar_conc as in its proof, for width 1: two sums, each max(3, 0.85 sqrt(n (ln ln(n/2) + 0.72
    ln(10.4 M/delta)))). Its delta covers only one of the two sums.

    >>> round(printed_mean_radius(1000, 5, 0.05), 1)
    140.5
    """
    n, share = count("plays", plays), probability("delta", delta) / count("n_learners", n_learners)
    if n < 4:
        return 6.0
    level = log(2 * STITCHED_RATIO / share)
    return 2 * max(3.0, STITCHED_FACTOR / 2 * sqrt(n * (log(log(n / 2)) + STITCHED_WEIGHT * level)))


def printed_noise_radius(rounds: int, delta: float) -> float:
    """lem:mu_adv_conc as in its proof, for width 1: 0.85 sqrt(t (ln ln(4 t) + 0.72 ln(10.4/delta))).

    >>> round(printed_noise_radius(1000, 0.05), 1)
    65.6
    """
    inner, level = log(log(4 * count("rounds", rounds))), log(2 * STITCHED_RATIO / probability("delta", delta))
    return STITCHED_FACTOR / 2 * sqrt(rounds * (inner + STITCHED_WEIGHT * level))


def printed_most_plays(rounds: int, chance: float, n_learners: int, delta: float) -> float:
    """lem:playcount_ub as printed: (3/2) t p + 4.06 ln(5.2 M ln(2 t)/delta).

    >>> round(printed_most_plays(1000, 0.1, 3, 0.05))
    182
    """
    times = STITCHED_RATIO * count("n_learners", n_learners) * log(2 * count("rounds", rounds))
    logs = log(times / probability("delta", delta))
    return 1.5 * rounds * check_chance(chance) + 4.06 * logs


def printed_ellipsoid_radius(dim: int, plays: float, *, noise: float, norm_bound: float, delta: float) -> float:
    """The simplified form in lem:yasin, sqrt(sigma^2 d ln((1 + t L^2/lambda)/delta)) + sqrt(lambda) S, for L = lambda
    = 1: false for d = 1.

    >>> round(printed_ellipsoid_radius(2, 100, noise=0.5, norm_bound=1.0, delta=0.01), 3)
    3.147
    """
    growth = (1 + plays) / probability("delta", delta)
    return noise * sqrt(count("dim", dim) * log(growth)) + norm_bound


def printed_random_potential(log_determinant: float, cap: float, chance: float, rounds: int, delta: float) -> float:
    """The second printed form of lem:elliptical_random: (4/p)(1 + b) ln(5.2 ln max(2 b n, 2) det V_n/(delta det V_0)).

    >>> round(printed_random_potential(10.0, 1.0, 0.5, 1000, 0.05))
    267
    """
    logs = log(log(max(2 * cap * rounds, 2.0))) + stitched_level(probability("delta", delta)) + log_determinant
    return 4 / positive("chance", chance) * (1 + positive("cap", cap)) * logs


def printed_epoch_guarantee(
    size: float, n_learners: int, *, rounds: int, delta: float, action_bound: float = 1.0, half_width: float = 1.0
) -> float:
    """thm:adv_general_regret as printed for z_* = `size` and well-spaced sizes (M bar = 2), without its last term.

    >>> round(printed_epoch_guarantee(20.0, 2, rounds=10**6, delta=0.05))
    9751534
    """
    t = count("rounds", rounds)
    inside = 10.4 * (1 + t * action_bound**2) * log(2 * min(half_width, action_bound) * t) / probability("delta", delta)
    learning = (n_learners * sqrt(size) + size * sqrt(2)) * 12 * log(inside) * sqrt(t)
    return learning + 8.12 * n_learners * half_width * log(STITCHED_RATIO * n_learners * log(2 * t) / delta)


def checked(pool: Pool) -> Pool:
    """Check the normalization of the printed theorems."""
    for name in ("size", "constant"):
        if real(name, getattr(pool, name)) < 1.0:
            value = getattr(pool, name)
            raise InvalidArgument(f"{name} is {value!r}, but must be at least 1, as in the printed theorem")
    return pool
