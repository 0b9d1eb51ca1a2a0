"""Lemmas on concentration and on least squares, corrected where needed.

The radii that selectors use are in `equipoise.confidence`; this module has the boundary that the paper's adversarial
part needs in addition, the guarantee of OFUL, and the potentials that bound its widths.
Sigma is the regularized covariance of the plays, S a bound on the norm of the parameter, L on that of actions, sigma
the sub-Gaussian factor of the noise, d the dimension, lambda the regularization.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lem:mustar_conc, lem:mu_adv_conc, lem:uniform_emp_bernstein, lem:playcount_ub, lem:yasin (theorem 1
there of Abbasi-Yadkori, Pal and Szepesvari, 2011), lem:LinUCB_regret_guarantee, lem:elliptical, lem:elliptical_random.
Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", eq. (10)
and (11).
Departures: docs/theory.md lists the correction of each statement.
"""

from __future__ import annotations

from math import log, log1p, sqrt

from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import stitched_level
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
    t, p = count("rounds", rounds), check_chance(chance)
    if p == 1.0:
        return float(t)
    alpha = probability("delta", delta) / count("n_learners", n_learners)
    logs = 1.4 * log(log(2 * t)) + stitched_level(alpha)
    exact = t * p + bernstein_boundary(t * p * (1 - p), p * (1 - p), 1.0, alpha)
    return min(float(t), exact, 1.5 * t * p + 1.45 * logs)


def check_chance(chance: float) -> float:
    if positive("chance", chance) > 1.0:
        raise InvalidArgument(f"chance is {chance!r}, but must lie in (0, 1]")
    return chance


def log_determinant_ratio(dim: int, plays: float, *, action_bound: float = 1.0, regularization: float = 1.0) -> float:
    """The largest possible ln(det Sigma/det lambda I) after n plays: d ln(1 + n L^2/(d lambda)).

    >>> round(log_determinant_ratio(2, 100), 3)
    7.864
    """
    growth = non_negative("plays", plays) * positive("action_bound", action_bound) ** 2
    return count("dim", dim) * log1p(growth / (dim * positive("regularization", regularization)))


def ellipsoid_radius(
    log_determinant: float, *, noise: float, norm_bound: float, delta: float, regularization: float = 1.0
) -> float:
    """lem:yasin: sigma sqrt(ln(det Sigma/det lambda I) + 2 ln(1/delta)) + sqrt(lambda) S; with
    probability 1 - delta, the distance of theta* from the estimate in the norm of Sigma is at most this at all times.

    >>> round(ellipsoid_radius(log_determinant_ratio(2, 100), noise=0.5, norm_bound=1.0, delta=0.01), 3)
    3.066
    """
    logs = non_negative("log_determinant", log_determinant) + 2 * log(1 / probability("delta", delta))
    prior = sqrt(positive("regularization", regularization)) * positive("norm_bound", norm_bound)
    return positive("noise", noise) * sqrt(logs) + prior


def oful_regret(
    dim: int, plays: float, greatest_radius: float, *, action_bound: float = 1.0, regularization: float = 1.0
) -> float:
    """lem:LinUCB_regret_guarantee: 2 beta_max sqrt(d n (1 + L^2/lambda) ln(1 + n L^2/(d lambda))), on the event that
    theta* is in all ellipsoids, whose largest radius is beta_max; Sigma must contain all earlier plays of the learner.

    >>> round(oful_regret(2, 10_000, 2.0))
    2335
    """
    potential = log_determinant_ratio(dim, plays, action_bound=action_bound, regularization=regularization)
    cap = action_bound**2 / regularization
    return 2 * non_negative("greatest_radius", greatest_radius) * sqrt(plays * (1 + cap) * potential)


def elliptical_potential(log_determinant: float, cap: float = 1.0) -> float:
    """lem:elliptical: sum of min(b, ||x_t||^2 in the norm of V_{t-1}^{-1}) is at most
    b/ln(1 + b) ln(det V_n/det V_0), which is at most the second printed form with 1 + b in front.

    >>> round(elliptical_potential(10.0), 3)
    14.427
    """
    b = positive("cap", cap)
    return b / log1p(b) * non_negative("log_determinant", log_determinant)


def random_potential(log_determinant: float, cap: float, chance: float, rounds: int, delta: float) -> float:
    """lem:elliptical_random: the same sum over all n rounds, if each x_t enters V only with probability p.

    max(1, 2.9 (b/p)(1.4 ln ln max(2 b n, 2) + ln(5.2/delta)) + (2/p)(1 + b) ln(det V_n/det V_0)), simultaneously for
    all n with probability 1 - delta; b and p are fixed in advance.

    >>> round(random_potential(10.0, 1.0, 0.5, 1000, 0.05))
    123
    """
    b, p = positive("cap", cap), positive("chance", chance)
    logs = 1.4 * log(log(max(2 * b * count("rounds", rounds), 2.0))) + stitched_level(probability("delta", delta))
    return max(1.0, 2.9 * b / p * logs + 2 / p * (1 + b) * non_negative("log_determinant", log_determinant))
