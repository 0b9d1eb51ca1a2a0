"""Guarantees of Algorithm 1 for arbitrary misspecified learners.

All hold with probability 1 - delta simultaneously for all T, for any learner * that satisfies its bound; D is the
radius of a sum, B the number of misspecified learners out of M, w the width of the expected rewards. `printed_...` are
the theorems as printed in the paper, with D(T) for its c sqrt(T ln(M ln T/delta)).

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": thm:general_regbound, thm:poly_reg, thm:sqrt_reg, thm:linTmissp and lem:lin_sqrt_regret_bound.
Departures: thm:poly_reg as printed has the play ratio 2 (d_*/d_i)^(1/beta), its lemma (2 d_*/d_i)^(1/beta); the latter
is used, for any coefficients, without the normalization d_i >= 1. The proof of thm:sqrt_reg gives a factor 3 that its
statement lacks; the play ratio of `balance` gives 2 and no ln ln. thm:linTmissp has no constants; they are those of its
lemma, in whose last case n_i/sqrt(n_*) <= 3 sqrt(n_i) is printed without the 3, so that 2 C_1 sqrt(n_i) becomes
6 C_1 sqrt(n_i). A misspecified learner may have an additional regret w in the play on which the test fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import e, log, sqrt
from typing import NamedTuple

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import count, non_negative, positive
from equipoise.theory.guarantees.balance import power_ratio, survivor_regret
from equipoise.theory.guarantees.checks import (
    check_bound_delta,
    check_exponent,
    check_pool,
    check_printed,
    check_terms,
)


class Passed(NamedTuple):
    """State of a misspecified learner in the last round in which it passed the test, and of * in the same round."""

    plays: int
    regret_bound: float
    best_plays: int
    best_bound: float


def general_guarantee(
    kept_bounds: Sequence[float],
    passed: Sequence[Passed | None],
    radius: Callable[[int], float],
    *,
    width: float = 1.0,
) -> float:
    """thm:general_regbound in terms of the actual play counts, for every admissible bound, including observed ones.

    `kept_bounds` are R_i(n_i(T)) of the well-specified learners; `passed` has an entry for each of the others, None for
    one that was never tested and so was played at most once.

    >>> general_guarantee([5.0], [Passed(100, 10.0, 50, 5.0)], lambda n: n**0.5)
    74.2842712474619
    """
    if not kept_bounds:
        raise InvalidArgument("kept_bounds is empty, but must have an entry for at least one learner")
    positive("width", width)
    total = sum(non_negative("kept_bounds", bound) for bound in kept_bounds)
    return total + sum(width + (0.0 if row is None else survivor_regret(*row, radius)) for row in passed)


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


def power_guarantee(
    coefficients: Sequence[float],
    exponent: float,
    well_specified: Sequence[bool],
    *,
    rounds: int,
    radius: float,
    width: float = 1.0,
) -> float:
    """thm:poly_reg, corrected: the smallest guarantee with bounds c_i n^beta; `radius` is D(T).

    Reg(T) <= M c_* T^beta + c_* Z^(1-beta) T^beta + 2 M w + 2 (sqrt(B) + sqrt(Z)) D(T), with Z the sum over the
    misspecified i of Z_i = max(2, (2 c_*/c_i)^(1/beta)).

    >>> round(power_guarantee([1.0, 2.0], 0.5, [False, True], rounds=100, radius=10.0))
    224
    """
    check_exponent(exponent)
    return _rooted(coefficients, exponent, well_specified, rounds**exponent, rounds, radius, width)


def sqrt_log_guarantee(
    coefficients: Sequence[float],
    bound_delta: float,
    well_specified: Sequence[bool],
    *,
    rounds: int,
    radius: float,
    width: float = 1.0,
) -> float:
    """thm:sqrt_reg, corrected: the smallest guarantee with bounds c_i sqrt(n ln_+(n/delta)), `bound_delta` their delta.

    As `power_guarantee` for square roots, with sqrt(T ln_+(T/delta)) for sqrt(T).

    >>> round(sqrt_log_guarantee([1.0, 2.0], 0.05, [False, True], rounds=100, radius=10.0))
    435
    """
    growth = sqrt(count("rounds", rounds) * log(max(rounds / check_bound_delta(bound_delta), e)))
    return _rooted(coefficients, 0.5, well_specified, growth, rounds, radius, width)


def _rooted(
    coefficients: Sequence[float],
    exponent: float,
    well_specified: Sequence[bool],
    growth: float,
    rounds: int,
    radius: float,
    width: float,
) -> float:
    check_pool(coefficients, well_specified)
    check_terms(rounds, radius, width)
    n_learners = len(coefficients)
    misspecified = [c for c, true in zip(coefficients, well_specified, strict=True) if not true]
    guarantees: list[float] = []
    for best, true in zip(coefficients, well_specified, strict=True):
        if true:
            ratio = sum(power_ratio(c, best, exponent) for c in misspecified)
            extra = ratio ** (1 - exponent) if misspecified else 0.0
            learning = (n_learners + extra) * best * growth
            guarantees.append(learning + 2 * n_learners * width + 2 * (sqrt(len(misspecified)) + sqrt(ratio)) * radius)
    return min(guarantees)


def linear_sqrt_guarantee(
    slopes: Sequence[float],
    coefficient: float,
    well_specified: Sequence[bool],
    *,
    rounds: int,
    radius: float,
    width: float = 1.0,
) -> float:
    """thm:linTmissp with constants: the smallest guarantee with bounds C_1 sqrt(n) + s_i n, for * with s_* >= s_i for
    all misspecified i; inf if there is none. The regret of the misspecified ones is at most `linear_sqrt_survivor` at
    their plays, which sum to at most T.

    >>> round(linear_sqrt_guarantee([0.5, 0.1], 1.0, [True, True], rounds=100, radius=10.0))
    42
    """
    check_pool([1 + non_negative(f"slopes[{i}]", slope) for i, slope in enumerate(slopes)], well_specified)
    check_terms(rounds, radius, width)
    misspecified = [slope for slope, true in zip(slopes, well_specified, strict=True) if not true]
    guarantees = [float("inf")]
    for slope, true in zip(slopes, well_specified, strict=True):
        if not true or any(other > slope for other in misspecified):
            continue
        bound = min(coefficient * sqrt(rounds) + slope * rounds, width * rounds)
        guarantee = (len(slopes) - len(misspecified)) * (bound + width)
        if misspecified:
            shared = {"width": width, "per_root": radius / sqrt(rounds)}
            # Terms in n_i and sqrt(n_i) are largest for equal plays: B times one learner with T/B plays.
            share = rounds / len(misspecified)
            guarantee += len(misspecified) * (width + linear_sqrt_survivor(slope, coefficient, share, bound, **shared))
        guarantees.append(guarantee)
    return min(guarantees)


def linear_sqrt_survivor(
    slope: float, coefficient: float, plays: float, best_bound: float, *, per_root: float, width: float = 1.0
) -> float:
    """lem:lin_sqrt_regret_bound, corrected: bound on the regret of a learner that passed the test after n_i plays.

    w + (1 + k^2) R_* + 2 s_* (1 + D_1/C_1) n_i + ((2 + 2 k) D_1 + 2 k C_1) sqrt(n_i) + 8 C_1 (C_1 + D_1)/w, where
    `slope` is s_* >= s_i, `best_bound` R_*(n_*), `per_root` D_1 >= D(n)/sqrt(n), and k = 2 + min(w/C_1, 2), which is 3
    in the paper.

    >>> linear_sqrt_survivor(0.1, 1.0, 100, 20.0, per_root=1.0)
    397.0
    """
    root, own = sqrt(positive("plays", plays)), positive("coefficient", coefficient)
    k = 2 + min(positive("width", width) / own, 2)
    learning = width + (1 + k**2) * best_bound + 8 * own * (own + per_root) / width
    linear = 2 * non_negative("slope", slope) * (1 + per_root / own) * plays
    return learning + linear + ((2 + 2 * k) * per_root + 2 * k * own) * root


def printed_power_guarantee(
    best_size: float,
    constant: float,
    exponent: float,
    n_learners: int,
    n_wrong: int,
    *,
    rounds: int,
    radius: float,
) -> float:
    """thm:poly_reg as printed, for bounds d_i C n^beta with d_i >= 1, C >= 1 and width 1; its constants are too small.

    >>> round(printed_power_guarantee(2.0, 1.0, 0.5, 2, 1, rounds=100, radius=10.0))
    224
    """
    check_printed([best_size], constant)
    check_terms(rounds, radius, 1.0)
    factor = n_learners + 2 * n_wrong ** (1 - exponent) * best_size ** (1 / exponent - 1)
    rest = 5 * best_size ** (1 / (2 * exponent)) * sqrt(n_wrong) * radius + 2 * n_learners
    return float(factor * best_size * constant * rounds**exponent + rest)


def printed_sqrt_log_guarantee(
    best_size: float,
    constant: float,
    bound_delta: float,
    n_learners: int,
    n_wrong: int,
    *,
    rounds: int,
    deviation: float,
) -> float:
    """thm:sqrt_reg as printed, for bounds d_i C sqrt(n ln_+(n/delta)); `deviation` stands for c ln(11 M ln T/delta).

    >>> round(printed_sqrt_log_guarantee(2.0, 1.0, 0.05, 2, 1, rounds=100, deviation=3.0))
    826
    """
    check_printed([best_size], constant)
    logs = log(count("rounds", rounds) / check_bound_delta(bound_delta))
    factor = n_learners + best_size * sqrt(n_wrong * log(max(11 * logs, e)))
    learning = factor * best_size * constant * sqrt(rounds * max(logs, 1.0))
    return learning + 2 * n_learners + 8 * deviation * best_size * sqrt(n_wrong * rounds)
