"""Evaluates the claims that concern one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf, sqrt

from equipoise.bounds import Power, SqrtLog
from equipoise.lab.audit.claims import Seen
from equipoise.lab.experiment import reward_width
from equipoise.selectors import BalancedElimination
from equipoise.simulation.tapes import Tapes
from equipoise.simulation.watch import Facts, watch_on_tapes
from equipoise.theory import guarantees
from equipoise.theory.closed_forms import closed_form, coefficients_of, deviation, terms_of
from equipoise.types import AnyArray

ROUNDING = 1 + 1e-9  # of long sums


def run_and_evaluate(
    tapes: Tapes,
    selector: BalancedElimination,
    optimum: float,
    *,
    late: int = 0,
    declared: Sequence[bool] | None = None,
    gaps: Sequence[float | None] | None = None,
) -> tuple[Facts, list[Seen]]:
    """One run from tapes, in which low rewards arrive `late` rounds late, and the claims that concern it."""
    facts, state = watch_on_tapes(tapes, selector, optimum, late=late)
    return facts, list(evaluate(selector, facts, state.accounts, late=late > 0, declared=declared, gaps=gaps))


def evaluate(
    selector: BalancedElimination,
    facts: Facts,
    accounts: AnyArray,
    *,
    late: bool,
    declared: Sequence[bool] | None = None,
    gaps: Sequence[float | None] | None = None,
) -> Iterator[Seen]:
    """The claims that concern one run of Algorithm 1, which ended with `accounts`.

    A claim on regret can fail if it predicts less than w T, one on deviations if the radius is below w T, and one on
    eliminations if some well-specified learner could have been eliminated with the worst rewards.
    `declared` tells which learners are well specified by construction, `gaps` what each of the others loses per play;
    both are known for scheduled learners only.
    """
    width, regret = reward_width(selector), float(facts.regret[-1])
    kept, rounds = facts.kept.tolist(), int(accounts["plays"].sum())
    trivial = width * rounds  # the largest regret that is possible
    yield Seen(
        "balancing", width, float(facts.imbalance[0]), bool(facts.imbalance[0] > width * ROUNDING), len(kept) > 1
    )
    wide = selector.noise is None and deviation(selector, rounds) >= trivial
    yield Seen("radius", 1.0, float(facts.deviation[0]), bool(facts.deviation[0] > 1.0), not wide)
    n_eliminated = int(facts.eliminated_kept[0])
    if declared is not None:
        exceeded = [i for i, true in enumerate(declared) if true and not kept[i]]
        eliminated = [i for i, true in enumerate(declared) if true and not accounts["active"][i]]
        n_eliminated = max(n_eliminated, len(eliminated))
        below = [accounts["booked_bound"][i] < width * accounts["booked_plays"][i] for i in range(len(kept))]
        binding = any(true and low for true, low in zip(declared, below, strict=True))
        yield Seen("declared", 0.0, float(len(exceeded)), bool(exceeded), binding)
    yield Seen("eliminated", 0.0, float(n_eliminated), n_eliminated > 0, could_be_eliminated(selector, accounts, kept))
    if facts.supported[-1]:
        broken = bool(facts.uncertified[0] > regret * 1e-12 + 1e-9)
        yield Seen("certificate", float(facts.certified[-1]), regret, broken, bool(facts.certified[-1] < trivial))
    if late or not any(kept):
        return  # the closed forms and the general bound assume immediate rewards
    general = general_of(selector, facts, accounts, kept)
    yield Seen("general", general, regret, regret > general * ROUNDING, general < trivial)
    closed = closed_form(selector, kept, rounds)
    if closed is not None and closed < inf:
        yield Seen("closed form", closed, regret, regret > closed * ROUNDING, closed < trivial)
    if gaps is not None and any(gap is not None for gap in gaps):
        yield from _with_gaps(selector, accounts, gaps, regret)


def could_be_eliminated(selector: BalancedElimination, accounts: AnyArray, kept: Sequence[bool]) -> bool:
    """Whether the test could have eliminated a learner that kept its bound: the means of rewards differ by at most w,
    so it needs (R_i + D(n_i))/n_i + D(n_j)/n_j < w for another learner j."""
    plays, bounds = accounts["booked_plays"].tolist(), accounts["booked_bound"].tolist()
    radii, width = [deviation(selector, n) / n if n else inf for n in plays], reward_width(selector)
    return any(
        kept[i] and n > 0 and bounds[i] / n + radii[i] + min(radii[:i] + radii[i + 1 :], default=inf) < width
        for i, n in enumerate(plays)
    )


def general_of(selector: BalancedElimination, facts: Facts, accounts: AnyArray, kept: Sequence[bool]) -> float:
    """The general bound at the actual plays, for the best choice of *."""
    radius = partial(deviation, selector)
    bounds = [float(bound) for bound, true in zip(accounts["booked_bound"], kept, strict=True) if true]
    smallest = inf
    for star, true in enumerate(kept):
        if not true:
            continue
        passed = []
        for i in range(len(kept)):
            if not kept[i]:
                plays, values = facts.passed_plays[i], facts.passed_bounds[i]
                tested = plays[i] > 0 and plays[star] > 0
                both = int(plays[i]), float(values[i]), int(plays[star]), float(values[star])
                passed.append(guarantees.Passed(*both) if tested else None)
        smallest = min(smallest, guarantees.general_guarantee(bounds, passed, radius, width=reward_width(selector)))
    return smallest


def _with_gaps(
    selector: BalancedElimination, accounts: AnyArray, gaps: Sequence[float | None], regret: float
) -> Iterator[Seen]:
    bounds, terms = selector.bounds or (), terms_of(selector, int(accounts["plays"].sum()))
    coefficients, per_root = coefficients_of(bounds), terms["radius"] / sqrt(terms["rounds"])

    match bounds[0]:
        case Power(_, exponent):
            promise = guarantees.power_gap_guarantee(coefficients, exponent, gaps, **terms)
            most = partial(guarantees.power_plays, exponent=exponent)
        case SqrtLog(_, delta):
            promise = guarantees.sqrt_log_gap_guarantee(coefficients, delta, gaps, **terms)
            most = partial(guarantees.sqrt_log_plays, bound_delta=delta, rounds=terms["rounds"])
        case _:
            return
    well_specified = [i for i, gap in enumerate(gaps) if gap is None]
    limits = [
        (
            min(most(coefficients[i], coefficients[best], gap=gap, per_root=per_root) for best in well_specified),
            float(accounts["plays"][i]),
        )
        for i, gap in enumerate(gaps)
        if gap is not None
    ]
    worst = max(limits, key=lambda pair: pair[1] / pair[0])
    rounds = terms["rounds"]
    yield Seen("gap plays", *worst, worst[1] > worst[0], worst[0] < rounds)
    yield Seen("gap theorem", promise, regret, regret > promise * ROUNDING, promise < terms["width"] * rounds)
