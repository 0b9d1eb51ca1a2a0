"""Radii against their formulas, written out anew with the exact constants of the theorems."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import zeta

from equipoise.confidence import Radius, make_radius, paper_constant, radius_alpha, radius_sum
from equipoise.errors import InvalidArgument

DELTAS = st.floats(1e-12, 0.999)
PLAYS = st.one_of(st.integers(1, 100), st.integers(1, 10**40))
WIDE_GRID = sorted({*range(1, 200), *(10**k for k in range(3, 41)), *(3 * 10**k for k in range(2, 40))})


def radius(name: str = "stitched", *, n_learners: int = 2, delta: float = 0.05, **settings: Any) -> Radius:
    options = {"width": 1.0, "noise": None, "contexts": "random", "scale": 1.0, **settings}
    return make_radius(name, n_learners=n_learners, delta=delta, **options)


def stitched_formula(n: int, variance: float, alpha: float) -> float:
    """Howard et al. (2021), eq. (11), with V = n v and m = v: 1.7 sqrt(V (ln ln(2V/m) + 0.72 ln(5.2/alpha)))."""
    total = n * variance
    return 1.7 * math.sqrt(total * (math.log(math.log(2 * total / variance)) + 0.72 * math.log(5.2 / alpha)))


def exact_stitching(n: int, variance: float, alpha: float, eta: float = 2.0, s: float = 1.4) -> float:
    """Howard et al. (2021), eq. (10), c = 0, before its constants were rounded up to those of eq. (11)."""
    total = n * variance
    level = s * math.log(math.log(eta * total / variance)) + math.log(float(zeta(s)) / (alpha * math.log(eta) ** s))
    return (eta**0.25 + eta**-0.25) / math.sqrt(2) * math.sqrt(total * level)


@given(PLAYS, st.integers(1, 1000), DELTAS, st.floats(1e-3, 1e3))
def test_stitched_radius_is_its_formula(n: int, n_learners: int, delta: float, width: float) -> None:
    expected = stitched_formula(n, width**2 / 2, delta / (2 * (n_learners + 1)))
    assert radius_sum(radius(n_learners=n_learners, delta=delta, width=width), n) == pytest.approx(expected, rel=1e-12)


@given(PLAYS, st.integers(1, 1000), DELTAS)
def test_stitched_radius_is_nowhere_below_the_exact_boundary(n: int, n_learners: int, delta: float) -> None:
    alpha = radius_alpha(n_learners, delta)
    shipped = radius_sum(radius(n_learners=n_learners, delta=delta), n)
    assert exact_stitching(n, 0.5, alpha) <= shipped <= 1.02 * exact_stitching(n, 0.5, alpha)


def test_known_values_per_play() -> None:
    """M = 5, delta = 0.05, w = 1: three digits of the mean radius, computed apart from this package."""
    found = [f"{radius_sum(radius(n_learners=5), n) / n:.3g}" for n in (10, 100, 1000, 10_000)]
    assert found == ["0.949", "0.313", "0.102", "0.0328"]


def test_alpha_pays_two_sides_of_every_learner_and_of_the_pool() -> None:
    assert radius_alpha(4, 0.05) * 2 * (4 + 1) == pytest.approx(0.05)


@pytest.mark.parametrize("name", ["stitched", "paper"])
@given(n=PLAYS, n_learners=st.integers(2, 1000), delta=DELTAS, smaller=st.floats(0.01, 0.99))
def test_a_radius_grows_with_n_and_with_confidence(
    name: str, n: int, n_learners: int, delta: float, smaller: float
) -> None:
    """`paper` steps down to a smaller constant where M/delta grows past a threshold, so there deltas are compared
    at one constant."""
    now = radius(name, n_learners=n_learners, delta=delta)
    assert 0.0 < radius_sum(now, n) < radius_sum(now, 2 * n)
    assert radius_sum(now, n) / n > radius_sum(now, 2 * n) / (2 * n)
    surer = radius(name, n_learners=n_learners, delta=delta * smaller)
    if name == "stitched" or paper_constant(n_learners, delta) == paper_constant(n_learners, delta * smaller):
        assert radius_sum(now, n) < radius_sum(surer, n)


@pytest.mark.parametrize("name", ["stitched", "paper"])
def test_a_radius_is_defined_from_the_first_play_on(name: str) -> None:
    for n_learners in (1, 2, 1000):
        assert 0.0 < radius_sum(radius(name, n_learners=n_learners, delta=0.499), 1) < math.inf


@pytest.mark.parametrize("n_learners", [1, 2, 3, 5, 10, 100, 10_000])
def test_paper_radius_is_nowhere_below_the_stitched_one(n_learners: int) -> None:
    """At every size of M/delta, the thresholds of the constants included, and every n up to 1e40."""
    ratios = [2.0, 2.001, 3.0, 5.0, 9.99, 10.0, 11.0, 30.0, 99.9, 100.0, 500.0, 999.0, 1e3, 1e5, 1e9, 1e12]
    for ratio in (ratio for ratio in ratios if ratio > n_learners):
        delta = n_learners / ratio
        printed, stitched = (radius(name, n_learners=n_learners, delta=delta) for name in ("paper", "stitched"))
        for n in WIDE_GRID:
            assert radius_sum(printed, n) >= radius_sum(stitched, n), (ratio, n)


@given(PLAYS, st.integers(2, 1000), DELTAS, st.floats(1e-3, 1e3))
def test_paper_radius_has_the_printed_form(n: int, n_learners: int, delta: float, width: float) -> None:
    constant = paper_constant(n_learners, delta)
    printed = constant * width * math.sqrt(n * math.log(n_learners * math.log(math.e * n) / delta))
    found = radius_sum(radius("paper", n_learners=n_learners, delta=delta, width=width), n)
    assert found == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize(("ratio", "below"), [(2.0, 2.19), (10.0, 1.47), (100.0, 1.28), (1000.0, 1.21)])
def test_a_constant_one_hundredth_smaller_is_too_small(ratio: float, below: float) -> None:
    """The negative control: at the threshold of each constant, with one learner, the next smaller one fails."""
    stitched = radius(n_learners=1, delta=1 / ratio)
    assert any(
        below * math.sqrt(n * math.log(ratio * math.log(math.e * n))) < radius_sum(stitched, n) for n in WIDE_GRID
    )


def test_paper_radius_is_refused_where_no_constant_helps() -> None:
    with pytest.raises(InvalidArgument) as caught:
        radius("paper", n_learners=1, delta=0.6)
    assert str(caught.value) == (
        "delta is 0.6 with 1 learners, but must be at most 0.5 for radius 'paper': "
        "above, no constant makes the printed form valid"
    )


@pytest.mark.parametrize(
    ("settings", "variance"),
    [
        ({"width": 2.0}, 4 / 2),  # contexts and rewards: w^2/4 each
        ({"width": 2.0, "contexts": "fixed"}, 4 / 4),  # rewards alone
        ({"width": 2.0, "noise": 0.3}, 4 / 4 + 0.09),  # contexts, and the noise in place of the rewards' range
        ({"width": 2.0, "noise": 0.3, "contexts": "fixed"}, 0.09),
    ],
)
@pytest.mark.parametrize("n", [1, 17, 10**9])
def test_variance_follows_range_noise_and_contexts(settings: dict[str, Any], variance: float, n: int) -> None:
    alpha = radius_alpha(2, 0.05)
    assert radius_sum(radius(**settings), n) == pytest.approx(stitched_formula(n, variance, alpha), rel=1e-12)
    plain, changed = radius("paper"), radius("paper", **settings)
    assert radius_sum(changed, n) / radius_sum(plain, n) == pytest.approx(math.sqrt(variance / 0.5), rel=1e-12)


@pytest.mark.parametrize("name", ["stitched", "paper"])
def test_scale_multiplies_the_radius(name: str) -> None:
    for n in (1, 10, 10**6):
        assert radius_sum(radius(name, scale=0.25), n) == pytest.approx(0.25 * radius_sum(radius(name), n), rel=1e-15)
