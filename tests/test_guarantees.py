"""Guarantees as numbers: against the formulas written out anew, and against what the formulas must imply."""

from math import inf, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.theory.guarantees import linear_sqrt_guarantee, power_guarantee

COEFFICIENTS = st.lists(st.floats(0.1, 20.0), min_size=1, max_size=6)
SLOPES = st.lists(st.floats(0.0, 0.5), min_size=1, max_size=6)


@given(COEFFICIENTS, st.sampled_from([1 / 3, 0.5, 2 / 3, 1.0]), st.data())
def test_power_guarantee_is_the_least_over_the_well_specified(
    coefficients: list[float], exponent: float, data: Any
) -> None:
    true = data.draw(st.lists(st.booleans(), min_size=len(coefficients), max_size=len(coefficients)).filter(any))
    rounds, radius, width = 1000, 70.0, 2.0
    promises = []
    for star, holds in zip(coefficients, true, strict=True):
        ratios = [
            max(2, (2 * star / c) ** (1 / exponent)) for c, fine in zip(coefficients, true, strict=True) if not fine
        ]
        total = len(coefficients) * star * rounds**exponent + star * sum(ratios) ** (1 - exponent) * rounds**exponent
        if not ratios:  # 0 to the power 0 counts as 1 in the formula for exponent 1
            total = (len(coefficients) + 0 ** (1 - exponent)) * star * rounds**exponent
        total += 2 * len(coefficients) * width + 2 * (sqrt(len(ratios)) + sqrt(sum(ratios))) * radius
        promises.append(total if holds else inf)
    found = power_guarantee(coefficients, exponent, true, rounds=rounds, radius=radius, width=width)
    assert found == pytest.approx(min(promises))


@given(COEFFICIENTS, st.data())
def test_a_learner_that_turns_out_wrong_lowers_no_promise(coefficients: list[float], data: Any) -> None:
    """With square roots, for which each misspecified learner adds to Z and B."""
    right = data.draw(st.integers(0, len(coefficients) - 1))
    wrong = [i == right for i in range(len(coefficients))]
    best = power_guarantee(coefficients, 0.5, [True] * len(wrong), rounds=400, radius=50.0)
    assert best <= power_guarantee(coefficients, 0.5, wrong, rounds=400, radius=50.0) * (1 + 1e-12)


@given(SLOPES, st.data())
def test_linear_sqrt_guarantee_needs_the_greatest_slope_among_the_wrong(slopes: list[float], data: Any) -> None:
    true = data.draw(st.lists(st.booleans(), min_size=len(slopes), max_size=len(slopes)).filter(any))
    rounds, radius, c = 10_000, 300.0, 1.5
    wrong = [slope for slope, fine in zip(slopes, true, strict=True) if not fine]
    promises = [inf]
    for slope, fine in zip(slopes, true, strict=True):
        if fine and slope >= max(wrong, default=0.0):
            bound = min(c * 100 + slope * rounds, rounds)
            promise = (len(slopes) - len(wrong)) * (bound + 1)
            for _ in wrong:
                promise += 1 + 10 * bound + 8 * c**2 + 8 * c * 3.0
            if wrong:
                promise += 2 * slope * (1 + 3.0 / c) * rounds
                promise += 8 * 300.0 * sqrt(len(wrong)) + 2 * c * sqrt(len(wrong)) * 100
            promises.append(promise)
    assert linear_sqrt_guarantee(slopes, c, true, rounds=rounds, radius=radius) == pytest.approx(min(promises))


@pytest.mark.parametrize("promise", [power_guarantee, linear_sqrt_guarantee])
def test_guarantees_refuse_what_they_do_not_cover(promise: Any) -> None:
    second = 0.5
    with pytest.raises(InvalidArgument, match="well_specified has no True, but the guarantee needs a learner"):
        promise([1.0, 2.0], second, [False, False], rounds=10, radius=1.0)
    with pytest.raises(InvalidArgument, match="well_specified has 1 entries, but there are 2 bounds"):
        promise([1.0, 2.0], second, [True], rounds=10, radius=1.0)
