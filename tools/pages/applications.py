"""The regret bounds displayed in the paper's section "Example Applications", in numbers and beside measured regret.

Each display is evaluated by the corrected theorem with the candidate bounds of its section, at the rounds and settings
of the audited experiment, and the regret is that of the audited selector with these bounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", sections "Linear Bandits with Nested Model Classes", "Linear Markov Decision Processes with Nested
Model Classes", "Linear Bandits and MDPs with Unknown Approximation Error" and "Confidence parameter tuning in OFUL".
Departures: the constant C of LSVI-UCB is not known and is set to 1. The grids of kappa and eps have coefficients below
1, which the printed theorems exclude by d_i >= 1 and the corrected ones allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import log, sqrt
from typing import NamedTuple

from equipoise.lab.experiments.confidence import kappa_grid
from equipoise.lab.experiments.misspecification import error_grid
from equipoise.lab.experiments.nested import nested_dims
from equipoise.learners.oful import closed_form_constant
from equipoise.settings.checks import count, positive
from equipoise.theory.guarantees import linear_sqrt_guarantee, power_gap_guarantee, power_guarantee
from equipoise.types import Plain
from tools.pages.guarantees import stitched_deviation

MAX_ROUNDS = 2**60
DELTA = 0.05
GAP = 0.2  # of the range of returns: what misspecified learners lose per play in the rows with a gap


class Application(NamedTuple):
    """A displayed bound: with constants, in T rounds; `instance` is that of the experiment, if it has several."""

    display: str
    experiment: str
    instance: str
    width: float  # of the range of rewards or returns
    guarantee: Callable[[int], float]


def nested_bandits(dims: Sequence[int], best_dim: int, *, rounds: int, gap: float | None = None) -> float:
    """Nested linear bandits with bounds d_i C sqrt(n); `gap`, if given, is the regret per play of learners with too few
    features.

    >>> round(nested_bandits([2, 4, 8], 4, rounds=10**6) / 10**6, 2)
    1.93
    """
    constant = closed_form_constant(count("rounds", rounds))
    return _guarantee([dim * constant for dim in dims], [dim >= best_dim for dim in dims], rounds, gap, 1.0)


def nested_processes(
    dims: Sequence[int], best_dim: int, *, horizon: int, episodes: int, gap: float | None = None
) -> float:
    """Nested linear decision processes with bounds H^2 sqrt(d_i^3 n) ln(d_max T/delta), returns in [0, H].

    >>> round(nested_processes([2, 4], 4, horizon=5, episodes=10**6) / (5 * 10**6), 2)
    5.62
    """
    logs = log(max(dims) * count("episodes", episodes) / DELTA)
    coefficients = [count("horizon", horizon) ** 2 * sqrt(dim**3) * logs for dim in dims]
    return _guarantee(coefficients, [dim >= best_dim for dim in dims], episodes, gap, float(horizon))


def unknown_error(
    errors: Sequence[float], true_error: float, dim: int, *, rounds: int, constant: float = 1.0, horizon: int = 1
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
    radius = stitched_deviation(len(errors), rounds, DELTA, width)
    return linear_sqrt_guarantee(slopes, scale * dim, well_specified, rounds=rounds, radius=radius, width=width)


def confidence_tuning(scales: Sequence[float], least_valid: float, dim: int, *, rounds: int) -> float:
    """A grid of confidence scales kappa_i with bounds kappa_i d C sqrt(n), which are true for kappa_i >= kappa*.

    >>> round(confidence_tuning([1.0, 0.5, 0.25], 0.5, 4, rounds=10**6) / 10**6, 2)
    0.98
    """
    constant = closed_form_constant(count("rounds", rounds))
    well_specified = [scale >= least_valid for scale in scales]
    return _guarantee([scale * dim * constant for scale in scales], well_specified, rounds, None, 1.0)


def _guarantee(
    coefficients: list[float], well_specified: list[bool], rounds: int, gap: float | None, width: float
) -> float:
    radius = stitched_deviation(len(well_specified), rounds, DELTA, width)
    if gap is None:
        return power_guarantee(coefficients, 0.5, well_specified, rounds=rounds, radius=radius, width=width)
    gaps = [None if true else gap for true in well_specified]
    return power_gap_guarantee(coefficients, 0.5, gaps, rounds=rounds, radius=radius, width=width)


def _error_bound(true_error: float, horizon: int, rounds: int) -> float:
    constant = 1.0 if horizon > 1 else closed_form_constant(rounds, noise=0.1)
    errors = error_grid(rounds, 4)
    return unknown_error(errors, true_error, 4, rounds=rounds, constant=constant, horizon=horizon)


def _nested(gap: float | None, rounds: int) -> float:
    return nested_bandits(nested_dims(32), 8, rounds=rounds, gap=gap)


def _processes(gap: float | None, episodes: int) -> float:
    return nested_processes(nested_dims(16), 8, horizon=5, episodes=episodes, gap=gap)


def _confidence(least_valid: float, rounds: int) -> float:
    return confidence_tuning(kappa_grid(0.03125), least_valid, 16, rounds=rounds)


APPLICATIONS = (
    Application("(ln d_max + d★ √(ln d★)) d★ C √T", "nested", "", 1.0, partial(_nested, None)),
    Application("ln(d_max) d★ C √T + ln(d★) C² d★⁴/Δ √(ln(ln T/δ))", "nested", "", 1.0, partial(_nested, GAP)),
    Application(
        "(√(d★³ ln d★) + ln d_max) H² √(d★³ T) ln(d_max T/δ)", "linear-mdp", "", 5.0, partial(_processes, None)
    ),
    Application(
        "H² √(d★³ T) ln(d_max) ln(d_max T/δ) + H⁴ d★⁶/Δ ln(d_max T/δ)² √(ln(ln T/δ))",
        "linear-mdp",
        "",
        5.0,
        partial(_processes, 5 * GAP),
    ),
    *(
        Application(
            "M C H (d √T + √d ε★ T) √(ln(M ln T/δ)) + B C² H² d²", name, instance, width, partial(_error_bound, e, h)
        )
        for name, instance, width, e, h in (
            ("misspecification", "exactly linear", 1.0, 0.0, 1),
            ("misspecification", "nearly linear", 1.0, 0.05, 1),
            ("bellman-error", "exactly linear", 3.0, 0.0, 3),
            ("bellman-error", "nearly linear", 3.0, 0.1, 3),
        )
    ),
    Application(
        "(κ★/κ_min √(ln(κ★/κ_min)) + ln(1/κ_min)) κ★ d ln(T) √T",
        "confidence",
        "noise 3/5 of what is assumed",
        1.0,
        partial(_confidence, 0.5),
    ),
)


def first_informative(application: Application) -> int | None:
    """The smallest T, to 1 %, at which the bound is below the largest regret possible; None if there is none."""

    def informs(rounds: int) -> bool:
        return application.guarantee(rounds) < application.width * rounds

    high = 16
    while not informs(high):
        if high > MAX_ROUNDS:
            return None
        high *= 2
    low = high // 2
    while high > 1.01 * low:
        middle = (low + high) // 2
        low, high = (low, middle) if informs(middle) else (middle, high)
    return high


def table(audit: Mapping[str, Plain]) -> Iterator[str]:
    """One row per displayed bound."""
    head = ("displayed bound", "experiment", "T", "with constants", "largest possible", "can it fail?")
    yield f"| {' | '.join(head)} | below it from T = | regret |"
    yield "|---|---|---:|---:|---:|---|---:|---:|"
    for application in APPLICATIONS:
        subject = f"{application.experiment}: {application.instance}".removesuffix(": ")
        rows = [
            row
            for row in audit["certified_over_true"]
            if row["subject"] == subject and row["selector"] == "balanced-paper" and not row["late"]
        ]
        if not rows:
            continue
        measured = max(rows, key=lambda row: row["rounds"])
        rounds = measured["rounds"]
        bound, most, first = application.guarantee(rounds), application.width * rounds, first_informative(application)
        cells = [application.display, f"`{application.experiment}`", f"{rounds:,}", f"{bound:,.0f}", f"{most:,.0f}"]
        cells += ["yes" if bound < most else "no", "never" if first is None else f"{first:.2g}"]
        regret = measured["true"]
        yield f"| {' | '.join(cells)} | {'–' if regret is None else f'{regret:,.0f}'} |"
