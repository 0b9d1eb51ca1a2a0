"""From what was seen in a run to the claims it bears on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf, sqrt
from typing import Any

from equipoise.audit.claims import Seen
from equipoise.bounds import LinearSqrt, Power, SqrtLog
from equipoise.confidence import radius_sum
from equipoise.simulation.watch import Facts
from equipoise.theory.guarantees import (
    Passed,
    general_guarantee,
    linear_sqrt_guarantee,
    power_gap_guarantee,
    power_guarantee,
    power_plays,
    sqrt_log_gap_guarantee,
    sqrt_log_guarantee,
    sqrt_log_plays,
)

ROUNDING = 1 + 1e-9  # of long sums


def judge(
    selector: Any,
    facts: Facts,
    books: Any,
    *,
    late: bool,
    declared: Sequence[bool] | None = None,
    gaps: Sequence[float | None] | None = None,
) -> Iterator[Seen]:
    """The claims on one run of Algorithm 1. `declared` says which learners are well specified by construction, `gaps`
    what each of the others loses in every play; both are known of scheduled learners only."""
    low, high = selector.reward_range
    width, regret = high - low, float(facts.regret[-1])
    kept = facts.kept.tolist()
    yield Seen("balancing", width, float(facts.imbalance[0]), bool(facts.imbalance[0] > width * ROUNDING))
    yield Seen("radius", 1.0, float(facts.deviation[0]), bool(facts.deviation[0] > 1.0))
    n_dropped = int(facts.dropped_kept[0])
    if declared is not None:
        false = [i for i, true in enumerate(declared) if true and not kept[i]]
        gone = [i for i, true in enumerate(declared) if true and not books.accounts["active"][i]]
        n_dropped = max(n_dropped, len(gone))
        yield Seen("declared", 0.0, float(len(false)), bool(false))
    yield Seen("dropped", 0.0, float(n_dropped), n_dropped > 0)
    if facts.vouched[-1]:
        broken = bool(facts.uncertified[0] > regret * 1e-12 + 1e-9)
        yield Seen("certificate", float(facts.certified[-1]), regret, broken)
    if late or not any(kept):
        return  # the closed forms and the general bound are for rewards that come at once
    general = general_of(selector, facts, books, kept, width)
    yield Seen("general", general, regret, regret > general * ROUNDING)
    closed = closed_form_of(selector, kept, regret_rounds(books), width)
    if closed is not None:
        yield Seen("closed form", closed, regret, regret > closed * ROUNDING)
    if gaps is not None and any(gap is not None for gap in gaps):
        yield from _with_gaps(selector, books, gaps, regret, width)


def regret_rounds(books: Any) -> int:
    return int(books.accounts["plays"].sum())


def general_of(selector: Any, facts: Facts, books: Any, kept: Sequence[bool], width: float) -> float:
    """The general bound at the plays that happened, for the best choice of *."""
    radius = partial(radius_sum, selector.confidence.radius)
    bounds = [float(bound) for bound, true in zip(books.accounts["booked_bound"], kept, strict=True) if true]
    least = inf
    for star, true in enumerate(kept):
        if not true:
            continue
        passed = []
        for i in range(len(kept)):
            if not kept[i]:
                plays, values = facts.passed_plays[i], facts.passed_bounds[i]
                tested = plays[i] > 0 and plays[star] > 0
                passed.append(
                    Passed(int(plays[i]), float(values[i]), int(plays[star]), float(values[star])) if tested else None
                )
        least = min(least, general_guarantee(bounds, passed, radius, width=width))
    return least


def closed_form_of(selector: Any, kept: Sequence[bool], rounds: int, width: float) -> float | None:
    """The theorem for the family of the bounds; None where they are of several, or observed."""
    bounds = selector.bounds
    world: dict[str, Any] = {"rounds": rounds, "radius": radius_sum(selector.confidence.radius, rounds), "width": width}
    shapes = {bound_shape(bound) for bound in bounds}
    if len(shapes) > 1:
        return None
    match bounds[0]:
        case Power(_, exponent):
            return power_guarantee([bound.coefficient for bound in bounds], exponent, kept, **world)
        case SqrtLog(_, delta):
            return sqrt_log_guarantee([bound.coefficient for bound in bounds], delta, kept, **world)
        case LinearSqrt(_, coefficient):
            promise = linear_sqrt_guarantee([bound.slope for bound in bounds], coefficient, kept, **world)
            return None if promise == inf else promise
        case _:
            return None


def bound_shape(bound: Any) -> tuple[Any, ...]:
    """What bounds of one family have in common."""
    match bound:
        case Power(_, exponent):
            return Power, exponent
        case SqrtLog(_, delta):
            return SqrtLog, delta
        case LinearSqrt(_, coefficient):
            return LinearSqrt, coefficient
        case _:
            return (type(bound),)


def _with_gaps(selector: Any, books: Any, gaps: Sequence[float | None], regret: float, width: float) -> Iterator[Seen]:
    bounds, rounds = selector.bounds, regret_rounds(books)
    radius = radius_sum(selector.confidence.radius, rounds)
    coefficients = [getattr(bound, "coefficient", 0.0) for bound in bounds]
    world: dict[str, Any] = {"rounds": rounds, "radius": radius, "width": width}
    most: list[tuple[float, float]] = []
    match bounds[0]:
        case Power(_, exponent):
            promise = power_gap_guarantee(coefficients, exponent, gaps, **world)
        case SqrtLog(_, delta):
            promise = sqrt_log_gap_guarantee(coefficients, delta, gaps, **world)
        case _:
            return
    for i, gap in enumerate(gaps):
        if gap is None:
            continue
        limits = []
        for best, other in zip(coefficients, gaps, strict=True):
            if other is None:
                shared: dict[str, Any] = {"gap": gap, "per_root": radius / sqrt(rounds)}
                if isinstance(bounds[0], Power):
                    limits.append(power_plays(coefficients[i], best, bounds[0].exponent, **shared))
                else:
                    limits.append(sqrt_log_plays(coefficients[i], best, bounds[0].delta, rounds=rounds, **shared))
        most.append((min(limits), float(books.accounts["plays"][i])))
    worst = max(most, key=lambda pair: pair[1] / pair[0])
    yield Seen("gap plays", *worst, worst[1] > worst[0])
    yield Seen("gap theorem", promise, regret, regret > promise * ROUNDING)
