"""The regret bounds displayed in the paper's section "Example Applications", in numbers and beside measured regret.

Each display is evaluated with the constants of `equipoise.theory.applications`, at the rounds and settings
of the audited experiment, and the regret is that of the audited selector with the paper's candidate bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from equipoise.lab.experiments.confidence import kappa_grid
from equipoise.lab.experiments.misspecification import error_grid
from equipoise.lab.experiments.nested import nested_dims
from equipoise.learners.oful import closed_form_constant
from equipoise.theory.applications import confidence_tuning, nested_bandits, nested_processes, unknown_error
from equipoise.types import Plain

MAX_ROUNDS = 2**60
GAP = 0.2  # of the range of returns: what misspecified learners lose per play in the rows with a gap


class Application(NamedTuple):
    """A displayed bound: with constants, in T rounds; `instance` is that of the experiment, if it has several."""

    display: str
    experiment: str
    instance: str
    width: float  # of the range of rewards or returns
    guarantee: Callable[[int], float]


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
