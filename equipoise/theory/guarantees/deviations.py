"""Time-uniform concentration lemmas, corrected and in the paper's printed forms.

The radii that selectors use are in `equipoise.confidence`; this module has the radii that the paper prints instead, and
the boundary that its adversarial part needs in addition.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lem:mustar_conc, lem:mu_adv_conc, lem:uniform_emp_bernstein, lem:playcount_ub. Howard, Ramdas,
McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", eq. (10) and (11).
Departures: lem:mustar_conc splits delta for M learners only, not for two sums with two tails each, and has ln ln(n/2),
which does not exist below n = 3; lem:mu_adv_conc has ln ln(4 k), although its derivation gives
ln ln(2 k); lem:playcount_ub starts its boundary at m = t p, which depends on t: with m = p (1 - p) the proof is valid
and gives half of the printed constant.
"""

from __future__ import annotations

from math import log, sqrt

from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, STITCHED_WEIGHT, stitched_level
from equipoise.settings.checks import count, non_negative, positive, probability


def bernstein_boundary(variance: float, least_variance: float, scale: float, alpha: float) -> float:
    """lem:uniform_emp_bernstein: a sub-Poisson process with constant c = `scale` and variance process W stays below
    1.44 sqrt(max(W, m) l) + (c/3) l, l = 1.4 ln ln(2 max(W/m, 1)) + ln(5.2/alpha), with probability 1 - alpha;
    m = `least_variance` is fixed in advance. The proof of docs/realized-balancing.md with Bennett's function, which is
    at most that of c/3, gives c/3 where the cited boundary has 0.41 c.

    >>> round(bernstein_boundary(100.0, 1.0, 1.0, 0.05), 2)
    40.37
    """
    least = positive("least_variance", least_variance)
    used = max(non_negative("variance", variance), least)
    logs = 1.4 * log(log(2 * used / least)) + stitched_level(probability("alpha", alpha))
    return 1.44 * sqrt(used * logs) + positive("scale", scale) / 3 * logs


def most_plays(rounds: int, chance: float, n_learners: int, delta: float) -> float:
    """lem:playcount_ub, corrected: the largest number of plays in t rounds of a learner drawn with probability p,
    simultaneously for all t and learners with probability 1 - delta.

    The smaller of t p + `bernstein_boundary` and (3/2) t p + 1.45 (1.4 ln ln(2 t) + ln(5.2 M/delta)).

    >>> round(most_plays(1000, 0.1, 3, 0.05))
    143
    """
    t, p = count("rounds", rounds), _chance(chance)
    if p == 1.0:
        return float(t)
    alpha = probability("delta", delta) / count("n_learners", n_learners)
    logs = 1.4 * log(log(2 * t)) + stitched_level(alpha)
    exact = t * p + bernstein_boundary(t * p * (1 - p), p * (1 - p), 1.0, alpha)
    return min(float(t), exact, 1.5 * t * p + 1.45 * logs)


def printed_most_plays(rounds: int, chance: float, n_learners: int, delta: float) -> float:
    """lem:playcount_ub as printed: (3/2) t p + 4.06 ln(5.2 M ln(2 t)/delta).

    >>> round(printed_most_plays(1000, 0.1, 3, 0.05))
    182
    """
    times = STITCHED_RATIO * count("n_learners", n_learners) * log(2 * count("rounds", rounds))
    logs = log(times / probability("delta", delta))
    return 1.5 * rounds * _chance(chance) + 4.06 * logs


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


def _chance(chance: float) -> float:
    if positive("chance", chance) > 1.0:
        raise InvalidArgument(f"chance is {chance!r}, but must lie in (0, 1]")
    return chance
