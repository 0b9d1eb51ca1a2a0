"""Guarantees for misspecified learners with a gap: how long each can remain active, and the resulting regret.

A learner has the gap Delta and the exponent alpha if its regret over n plays is at least Delta n^alpha, at every n.
With alpha above 1/2 and above the exponent of its bound the test must fire, and the learner is eliminated. D_1 =
D(T)/sqrt(T) is called `per_root`; N_i is the largest number of plays at which learner i can pass the test.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lem:elimination_gen_obs, thm:poly_reg_gap, lem:elimination_sqrt_obs and thm:sqrt_reg_gap.
Departures: one more play than printed, the one on which the test fires; for equal exponents (n_i/n_*) R_*(n_*) is
bounded by c_* Z_i^(1-beta) n_i^beta instead of 2 Z_i R_i(n_i); the theorems are printed without constants (the second
with those of a lemma that is stated as analogous), and the constants here are those of the lemmas, summed. "At every n"
is false for a learner that starts well, so the lemmas apply to learners whose regret is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, sqrt

from equipoise.settings.checks import count, non_negative, positive
from equipoise.theory.guarantees.balance import power_ratio, sqrt_log_ratio
from equipoise.theory.guarantees.checks import check_bound_delta, check_exponent, check_gap, check_pool, check_terms


def power_plays(
    coefficient: float,
    best_coefficient: float,
    exponent: float,
    *,
    gap: float,
    gap_exponent: float = 1.0,
    per_root: float,
    best_exponent: float | None = None,
    best_plays: int | None = None,
) -> float:
    """lem:elimination_gen_obs, corrected: the largest number of plays of a learner with a gap and bound c_j n^beta.

    1 + max( [(2/Delta) A]^(1/(alpha-beta)), [(4/Delta)(1 + sqrt(Z)) D_1]^(1/(alpha-1/2)) ), with A = c_j + c_*
    Z^(1-beta) for equal exponents and (1 + 2 Z) c_j otherwise; Z as in `power_ratio`.

    >>> round(power_plays(1.0, 1.0, 0.5, gap=0.5, per_root=2.0))
    2305
    """
    check_gap(gap, gap_exponent, check_exponent(exponent))
    ratio = power_ratio(coefficient, best_coefficient, exponent, best_exponent, best_plays)
    if best_exponent is None or best_exponent == exponent:
        learning = coefficient + best_coefficient * ratio ** (1 - exponent)
    else:
        learning = (1 + 2 * ratio) * coefficient
    by_bounds = (2 / gap * learning) ** (1 / (gap_exponent - exponent))
    by_noise = (4 / gap * (1 + sqrt(ratio)) * positive("per_root", per_root)) ** (1 / (gap_exponent - 0.5))
    return 1 + float(max(by_bounds, by_noise))


def sqrt_log_plays(
    coefficient: float,
    best_coefficient: float,
    bound_delta: float,
    *,
    gap: float,
    gap_exponent: float = 1.0,
    per_root: float,
    rounds: int,
) -> float:
    """lem:elimination_sqrt_obs, corrected: the largest number of plays with bound c_j sqrt(n ln_+(n/delta)).

    1 + [ ((c_j + c_* sqrt(Z)) sqrt(ln_+(T/delta)) + 2 (1 + sqrt(Z)) D_1) / Delta ]^(1/(alpha-1/2)).

    >>> round(sqrt_log_plays(1.0, 1.0, 0.05, gap=0.5, per_root=2.0, rounds=1000))
    1840
    """
    check_gap(gap, gap_exponent, 0.5)
    slope = _sqrt_log_slope(coefficient, best_coefficient, bound_delta, per_root, rounds)
    return 1 + float((slope / gap) ** (1 / (gap_exponent - 0.5)))


def power_gap_guarantee(
    coefficients: Sequence[float],
    exponent: float,
    gaps: Sequence[float | None],
    *,
    rounds: int,
    radius: float,
    gap_exponent: float = 1.0,
    width: float = 1.0,
) -> float:
    """thm:poly_reg_gap with constants: the smallest guarantee with bounds c_i n^beta; `gaps` has None for the
    well-specified learners.

    (M - B)(c_* T^beta + w) + sum over the others of w + (c_i + c_* Z_i^(1-beta)) N_i^beta + 2 (1 + sqrt(Z_i)) D_1
    sqrt(N_i), where N_i is the smaller of `power_plays` - 1 and T.

    >>> round(power_gap_guarantee([1.0, 2.0], 0.5, [0.5, None], rounds=10**6, radius=3000.0))
    6682
    """
    well_specified = [gap is None for gap in gaps]
    check_pool(coefficients, well_specified)
    check_terms(rounds, radius, width)
    per_root, guarantees = radius / sqrt(rounds), []
    for best, true in zip(coefficients, well_specified, strict=True):
        if not true:
            continue
        total: float = sum(well_specified) * (best * rounds**exponent + width)
        for c, gap in zip(coefficients, gaps, strict=True):
            if gap is not None:
                ratio = power_ratio(c, best, exponent)
                n_plays = power_plays(c, best, exponent, gap=gap, gap_exponent=gap_exponent, per_root=per_root)
                n = min(n_plays - 1, rounds)
                total += width + (c + best * ratio ** (1 - exponent)) * n**exponent
                total += 2 * (1 + sqrt(ratio)) * per_root * sqrt(n)
        guarantees.append(total)
    return min(guarantees)


def sqrt_log_gap_guarantee(
    coefficients: Sequence[float],
    bound_delta: float,
    gaps: Sequence[float | None],
    *,
    rounds: int,
    radius: float,
    gap_exponent: float = 1.0,
    width: float = 1.0,
) -> float:
    """thm:sqrt_reg_gap with the constants of `sqrt_log_plays`; the arguments are as in `power_gap_guarantee`.

    >>> round(sqrt_log_gap_guarantee([1.0, 2.0], 0.05, [0.5, None], rounds=10**6, radius=3000.0))
    17154
    """
    well_specified = [gap is None for gap in gaps]
    check_pool(coefficients, well_specified)
    check_terms(rounds, radius, width)
    per_root, guarantees = radius / sqrt(rounds), []
    for best, true in zip(coefficients, well_specified, strict=True):
        if not true:
            continue
        total = sum(well_specified) * (best * sqrt(rounds * log(max(rounds / bound_delta, e))) + width)
        for c, gap in zip(coefficients, gaps, strict=True):
            if gap is not None:
                shared = {"gap": gap, "gap_exponent": gap_exponent, "per_root": per_root, "rounds": rounds}
                n = min(sqrt_log_plays(c, best, bound_delta, **shared) - 1, rounds)  # type: ignore[arg-type]
                total += width + _sqrt_log_slope(c, best, bound_delta, per_root, rounds) * sqrt(n)
        guarantees.append(total)
    return min(guarantees)


def _sqrt_log_slope(coefficient: float, best: float, bound_delta: float, per_root: float, rounds: int) -> float:
    """Upper bound on the regret of a learner that passes the test, divided by the square root of its plays."""
    root = sqrt(sqrt_log_ratio(coefficient, best, bound_delta))
    logs = log(max(count("rounds", rounds) / check_bound_delta(bound_delta), e))
    return (coefficient + best * root) * sqrt(logs) + 2 * (1 + root) * positive("per_root", per_root)


def printed_power_gap_order(
    sizes: Sequence[float],
    constant: float,
    exponent: float,
    gaps: Sequence[float | None],
    best: int,
    *,
    rounds: int,
    log_term: float,
    gap_exponent: float = 1.0,
) -> float:
    """The expression in the O(...) of thm:poly_reg_gap, for bounds d_i C n^beta; `log_term` is ln(M ln T/delta).

    >>> round(printed_power_gap_order([1.0, 2.0], 1.0, 0.5, [0.5, None], 1, rounds=10**6, log_term=6.0))
    5764
    """
    star, alpha, beta = sizes[best], gap_exponent, check_exponent(exponent)
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
    sizes: Sequence[float],
    constant: float,
    bound_delta: float,
    gaps: Sequence[float | None],
    best: int,
    *,
    rounds: int,
    gap_exponent: float = 1.0,
) -> float:
    """thm:sqrt_reg_gap as printed, for bounds d_i C sqrt(n ln_+(n/delta)).

    >>> round(printed_sqrt_log_gap([1.0, 2.0], 1.0, 0.05, [0.5, None], 1, rounds=10**6))
    2533143
    """
    star, n_learners = sizes[best], len(sizes)
    power = 1 / (2 * gap_exponent - 1)
    outer = log(max(4 * e * log(rounds / check_bound_delta(bound_delta)), e))
    inner = log(max(n_learners * rounds / bound_delta, e))
    total = n_learners * star * constant * sqrt(rounds * log(max(rounds / bound_delta, e))) + 2 * n_learners
    for size, gap in zip(sizes, gaps, strict=True):
        if gap is not None:
            check_gap(gap, gap_exponent, 0.5)
            term = 9 * constant * star * outer ** (0.5 + power) * inner ** (0.5 + power / 2)
            total += term * (42 * size * constant / gap) ** power * max(1.0, star / size) ** (1 + 2 * power)
    return total
