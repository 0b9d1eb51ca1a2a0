"""Consequences of balancing and of the elimination test at every round: the lemmas behind Algorithm 1.

R_i is the admissible bound of learner i, n_i its plays, D the radius of a sum (`equipoise.confidence`), w the width of
the expected rewards; * is a learner that satisfies its bound. All statements hold on the event of the radius, or
always.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lemmas labeled lem:balancing, lem:regbound_nonelim, lem:suff_cond_elimination,
lem:general_ratio_bound and lem:sqrt_ratio_bound.
Departures: the printed step R + 1 <= 2 R needs R(1) = w. For a concave bound the factor 2 needs no assumption: when i
was chosen last R_i(n_i - 1) <= R_*(n_*), and R_i(n_i) <= 2 R_i(n_i - 1) once n_i >= 2; n_i = 1 is trivial. With bounds
c_i sqrt(n ln(n/delta)) the same argument gives the ratio of square roots, without the printed ln ln.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import e, log, sqrt

from equipoise.settings.checks import count, non_negative, positive
from equipoise.theory.guarantees.checks import check_bound_delta, check_exponent


def imbalance(regret_bounds: Sequence[float]) -> float:
    """The largest difference between the bounds of active learners; by lem:balancing at most w, at every round.

    >>> imbalance([3.0, 3.5, 2.75])
    0.75
    """
    return max(regret_bounds) - min(regret_bounds)


def survivor_regret(
    plays: int, regret_bound: float, best_plays: int, best_bound: float, radius: Callable[[int], float]
) -> float:
    """R_i + (n_i/n_*)(R_* + 2 D(n_*)) + 2 D(n_i): upper bound on the regret of a learner that passed the
    test (lem:regbound_nonelim); one with larger regret fails it (lem:suff_cond_elimination).

    The printed form has R_* + w instead of R_i, by balancing, and the radius at t instead of those at n_i and n_*.

    >>> survivor_regret(100, 10.0, 50, 5.0, lambda n: n**0.5)
    68.2842712474619
    """
    n, best_n = count("plays", plays), count("best_plays", best_plays)
    best = non_negative("best_bound", best_bound) + 2 * radius(best_n)
    return non_negative("regret_bound", regret_bound) + n / best_n * best + 2 * radius(n)


def power_ratio(
    coefficient: float,
    best_coefficient: float,
    exponent: float,
    best_exponent: float | None = None,
    best_plays: int | None = None,
) -> float:
    """Z_i, the largest possible n_i/n_*, for active learners with bounds min(c n^beta, w n): lem:general_ratio_bound.

    max(2, (2 c_*/c_i)^(1/beta_i) n_*^(beta_*/beta_i - 1)); the last factor is 1 for equal exponents and
    otherwise needs `best_plays`, the plays of * (their maximum if beta_* > beta_i, their minimum if beta_* < beta_i).

    >>> power_ratio(1.0, 3.0, 0.5)
    36.0
    """
    own = check_exponent(exponent)
    base = 2 * positive("best_coefficient", best_coefficient) / positive("coefficient", coefficient)
    spread = (own if best_exponent is None else check_exponent(best_exponent)) / own - 1
    factor = count("best_plays", best_plays) ** spread if spread else 1.0
    return max(2.0, float(base ** (1 / own)) * factor)


def sqrt_log_ratio(coefficient: float, best_coefficient: float, bound_delta: float) -> float:
    """Z_i for bounds min(c sqrt(n ln_+(n/delta)), w n), as for square roots: lem:sqrt_ratio_bound, without its factor.

    From c_i^2 n_i ln_+(n_i/delta) <= 4 c_*^2 n_* ln_+(n_*/delta): either n_i < n_*, or the logarithms make
    the ratio smaller.

    >>> sqrt_log_ratio(1.0, 3.0, 0.05)
    36.0
    """
    check_bound_delta(bound_delta)
    return power_ratio(coefficient, best_coefficient, 0.5)


def printed_sqrt_log_ratio(coefficient: float, best_coefficient: float, bound_delta: float, rounds: int) -> float:
    """lem:sqrt_ratio_bound as printed: 7 max(1, (d_*/d_i)^2) ln_+(4 e ln(t/delta)).

    >>> round(printed_sqrt_log_ratio(1.0, 3.0, 0.05, 1000))
    295
    """
    logs = log(max(4 * e * log(count("rounds", rounds) / check_bound_delta(bound_delta)), e))
    ratio = positive("best_coefficient", best_coefficient) / positive("coefficient", coefficient)
    return 7 * max(1.0, ratio**2) * logs


def printed_survivor_regret(plays: int, best_plays: int, best_bound: float, deviation: float) -> float:
    """lem:regbound_nonelim as printed, where `deviation` is c sqrt(ln(M ln t/delta)).

    >>> printed_survivor_regret(100, 100, 5.0, 1.0)
    51.0
    """
    ratio = count("plays", plays) / count("best_plays", best_plays)
    return 1 + (ratio + 1) * best_bound + 2 * deviation * (1 + sqrt(ratio)) * sqrt(plays)
