"""Guarantees of the paper's applications, each with the candidate bounds of its section.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", sections "Linear Bandits with Nested Model Classes", "Linear Markov Decision Processes with Nested
Model Classes", "Linear Bandits and MDPs with Unknown Approximation Error" and "Confidence parameter tuning in OFUL".
Departures: the sections print rates; here are the corrected theorems with the sections' constants. The constant C of
LSVI-UCB is not known and is set to 1. The grids of kappa and eps have coefficients below 1, which the printed theorems
exclude by d_i >= 1 and the corrected ones allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from equipoise.learners.oful import closed_form_constant
from equipoise.settings.checks import count, positive, probability
from equipoise.theory.guarantees import linear_sqrt_guarantee, power_gap_guarantee, power_guarantee, stitched_deviation


def nested_bandits(
    dims: Sequence[int], best_dim: int, *, rounds: int, delta: float = 0.05, gap: float | None = None
) -> float:
    """Nested linear bandits with bounds d_i C sqrt(n); `gap`, if given, is the regret per play of learners with too few
    features.

    >>> round(nested_bandits([2, 4, 8], 4, rounds=10**6) / 10**6, 2)
    1.93
    """
    constant = closed_form_constant(count("rounds", rounds))
    return _nested([dim * constant for dim in dims], [dim >= best_dim for dim in dims], rounds, delta, gap, 1.0)


def nested_processes(
    dims: Sequence[int], best_dim: int, *, horizon: int, episodes: int, delta: float = 0.05, gap: float | None = None
) -> float:
    """Nested linear decision processes with bounds H^2 sqrt(d_i^3 n) ln(d_max T/delta), returns in [0, H].

    >>> round(nested_processes([2, 4], 4, horizon=5, episodes=10**6) / (5 * 10**6), 2)
    5.62
    """
    logs = log(max(dims) * count("episodes", episodes) / probability("delta", delta))
    coefficients = [count("horizon", horizon) ** 2 * sqrt(dim**3) * logs for dim in dims]
    return _nested(coefficients, [dim >= best_dim for dim in dims], episodes, delta, gap, float(horizon))


def unknown_error(
    errors: Sequence[float],
    true_error: float,
    dim: int,
    *,
    rounds: int,
    constant: float = 1.0,
    horizon: int = 1,
    delta: float = 0.05,
) -> float:
    """Unknown approximation error with bounds C H d sqrt(n) + C H sqrt(d) eps_i n; inf if no eps_i is large enough.

    >>> round(unknown_error([0.5, 0.25, 0.125], 0.1, 4, rounds=10**6) / 10**6, 2)
    0.76
    """
    scale, width = positive("constant", constant) * count("horizon", horizon), float(horizon)
    well_specified = [error >= true_error for error in errors]
    if not any(well_specified):
        return float("inf")
    slopes = [scale * sqrt(count("dim", dim)) * error for error in errors]
    radius = stitched_deviation(len(errors), rounds, delta, width)
    return linear_sqrt_guarantee(slopes, scale * dim, well_specified, rounds=rounds, radius=radius, width=width)


def confidence_tuning(
    scales: Sequence[float], least_valid: float, dim: int, *, rounds: int, delta: float = 0.05
) -> float:
    """A grid of confidence scales kappa_i with bounds kappa_i d C sqrt(n), which are true for kappa_i >= kappa*.

    >>> round(confidence_tuning([1.0, 0.5, 0.25], 0.5, 4, rounds=10**6) / 10**6, 2)
    0.98
    """
    constant = closed_form_constant(count("rounds", rounds))
    well_specified = [scale >= least_valid for scale in scales]
    return _nested([scale * dim * constant for scale in scales], well_specified, rounds, delta, None, 1.0)


def _nested(
    coefficients: list[float], well_specified: list[bool], rounds: int, delta: float, gap: float | None, width: float
) -> float:
    terms = {"rounds": rounds, "radius": stitched_deviation(len(well_specified), rounds, delta, width), "width": width}
    if gap is None:
        return power_guarantee(coefficients, 0.5, well_specified, **terms)  # type: ignore[arg-type]
    gaps = [None if true else gap for true in well_specified]
    return power_gap_guarantee(coefficients, 0.5, gaps, **terms)  # type: ignore[arg-type]
