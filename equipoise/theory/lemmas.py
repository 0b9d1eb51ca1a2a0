"""Lemmas on concentration and on least squares, corrected and in the paper's printed forms.

The radii that selectors use are in `equipoise.confidence`; this module has the radii that the paper prints instead, the
boundary that its adversarial part needs in addition, the guarantee of OFUL, and the potentials that bound its widths.
Sigma is the regularized covariance of the plays, S a bound on the norm of the parameter, L on that of actions, sigma
the sub-Gaussian factor of the noise, d the dimension, lambda the regularization.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": lem:mustar_conc, lem:mu_adv_conc, lem:uniform_emp_bernstein, lem:playcount_ub, lem:yasin (theorem 1
there of Abbasi-Yadkori, Pal and Szepesvari, 2011), lem:LinUCB_regret_guarantee, lem:elliptical, lem:elliptical_random.
Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", eq. (10)
and (11).
Departures: lem:mustar_conc splits delta for M learners only, not for two sums with two tails each, and has ln ln(n/2),
which does not exist below n = 3; lem:mu_adv_conc has ln ln(4 k), although its derivation gives ln ln(2 k);
lem:playcount_ub starts its boundary at m = t p, which depends on t: with m = p (1 - p) the proof is valid and gives
half of the printed constant. The printed simplification of the radius of the ellipsoid fails for d = 1, where it has
d ln(1/delta) instead of 2 ln(1/delta), so `ellipsoid_radius` bounds the determinant instead; the regret bound has L^2
in its logarithm, as in the appendix, not L as in the text; the second printed form of the random potential is an upper
bound, not an equality.
"""

from __future__ import annotations

from math import log, log1p, sqrt

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


def printed_ellipsoid_radius(
    dim: int,
    plays: float,
    *,
    noise: float,
    norm_bound: float,
    delta: float,
    action_bound: float = 1.0,
    regularization: float = 1.0,
) -> float:
    """The simplified form in lem:yasin, sqrt(sigma^2 d ln((1 + t L^2/lambda)/delta)) + sqrt(lambda) S: false for d = 1.

    >>> round(printed_ellipsoid_radius(2, 100, noise=0.5, norm_bound=1.0, delta=0.01), 3)
    3.147
    """
    growth = (1 + plays * action_bound**2 / regularization) / probability("delta", delta)
    return noise * sqrt(count("dim", dim) * log(growth)) + sqrt(regularization) * norm_bound


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


def printed_random_potential(log_determinant: float, cap: float, chance: float, rounds: int, delta: float) -> float:
    """The second printed form of lem:elliptical_random: (4/p)(1 + b) ln(5.2 ln max(2 b n, 2) det V_n/(delta det V_0)).

    >>> round(printed_random_potential(10.0, 1.0, 0.5, 1000, 0.05))
    267
    """
    logs = log(log(max(2 * cap * rounds, 2.0))) + stitched_level(probability("delta", delta)) + log_determinant
    return 4 / positive("chance", chance) * (1 + positive("cap", cap)) * logs
