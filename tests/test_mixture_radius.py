"""The default radius: its formula, where it is narrower, and what becomes of files and records with another one."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.bounds import Power
from equipoise.confidence import (
    RADII,
    make_confidence,
    make_radius,
    mixture,
    paper_constant,
    radius_alpha,
    radius_at,
    radius_sum,
)
from equipoise.errors import InvalidArgument
from equipoise.selectors import SELECTORS, BalancedElimination
from equipoise.settings import settings_of
from tests.radii import mixture_radius, normal_mixture, stitched_radius

PLAYS = st.one_of(st.integers(1, 3000), st.integers(1, 10**12))
CONDITIONS: Any = {"width": 1.0, "noise": None, "contexts": "random", "scale": 1.0}


@given(PLAYS, st.integers(1, 1000), st.floats(1e-9, 0.9), st.floats(1e-2, 1e2), st.sampled_from([0.4, 1.0]))
def test_the_default_radius_is_its_formula(n: int, m: int, delta: float, width: float, scale: float) -> None:
    conditions = CONDITIONS | {"width": width, "scale": scale}
    found = radius_sum(make_radius("mixture", n_learners=m, delta=delta, **conditions), n)
    assert found == pytest.approx(scale * mixture_radius(n, width**2 / 2, delta / (2 * (m + 1))), rel=1e-11)


@given(PLAYS, st.floats(1e-9, 0.45))
def test_it_grows_with_plays_and_its_mean_shrinks(n: int, alpha: float) -> None:
    radius = mixture(0.5, alpha, 1.0)
    assert 0.0 < radius_sum(radius, n) < radius_sum(radius, n + 1) <= radius_sum(radius, 2 * n)
    assert radius_sum(radius, 2 * n) / 2 < radius_sum(radius, n)


@given(PLAYS, st.floats(1e-9, 0.45), st.floats(0.01, 0.99))
def test_more_confidence_is_wider(n: int, alpha: float, part: float) -> None:
    assert radius_sum(mixture(0.5, alpha, 1.0), n) < radius_sum(mixture(0.5, alpha * part, 1.0), n)


def test_its_width_beside_that_of_the_stitched_one() -> None:
    """M = 5, delta = 0.05: at most a twentieth wider below 500 plays, then up to a sixth narrower."""
    new, old = (make_radius(name, n_learners=5, delta=0.05, **CONDITIONS) for name in ("mixture", "stitched"))
    ratios = [round(radius_sum(new, 10**k) / radius_sum(old, 10**k), 2) for k in range(1, 7)]
    assert ratios == [1.04, 1.04, 0.91, 0.83, 0.87, 0.91]


@pytest.mark.parametrize("alpha", [0.1, 1e-2, 1e-4, 1e-8])
def test_its_rho_is_about_the_best_at_the_stated_number_of_plays(alpha: float) -> None:
    plays = np.geomspace(500, 60_000, 200)
    widths = [normal_mixture(5_400, 0.25, alpha / 2, each) for each in plays]
    assert normal_mixture(5_400, 0.25, alpha / 2) <= 1.002 * min(widths)


@given(st.floats(1e-6, 0.2), st.integers(0, 8))
def test_the_half_normal_mixture_reaches_one_over_alpha_at_the_boundary(alpha: float, power: int) -> None:
    """The lemma itself: 2 sqrt(rho/(V + rho)) exp(x^2/2) Phi(x) >= 1/alpha at the boundary, so that a supermartingale
    crosses it with probability at most alpha. With half the boundary it does not."""

    def mixed(s: float, total: float, rho: float) -> float:
        x = s / math.sqrt(total + rho)
        return math.sqrt(rho / (total + rho)) * math.exp(x**2 / 2) * (1 + math.erf(x / math.sqrt(2)))

    n, variance = 10.0**power, 0.5
    radius = mixture(variance, 2 * alpha, 1.0)
    total, rho = n * variance, radius.prior_plays * variance
    boundary = math.sqrt(
        variance * (n + radius.prior_plays) * (math.log(1 + n / radius.prior_plays) + radius.mixture_level)
    )
    assert mixed(boundary, total, rho) >= (1 - 1e-12) / alpha
    assert mixed(boundary / 2, total, rho) < 1 / alpha


@given(PLAYS, st.floats(1e-9, 0.2))
def test_half_of_alpha_goes_to_each_boundary(n: int, alpha: float) -> None:
    found = radius_sum(mixture(0.5, alpha, 1.0), n)
    assert found <= stitched_radius(n, 0.5, alpha / 2) * (1 + 1e-12)
    assert found <= normal_mixture(n, 0.5, alpha / 2) * (1 + 1e-12)


@pytest.mark.parametrize("name", RADII)
@pytest.mark.parametrize("contexts", ["random", "fixed"])
def test_a_radius_can_be_made_for_a_given_share(name: str, contexts: str) -> None:
    """That of alpha is the one of learners who have alpha each; the printed form of one learner with 4 alpha."""
    conditions = CONDITIONS | {"contexts": contexts}
    confidence = make_confidence(name, n_learners=1, delta=0.01, **conditions)
    assert radius_at(name, confidence.alpha if name != "paper" else 0.01 / 4, **conditions) == confidence.radius
    assert confidence.name == name


@pytest.mark.parametrize("name", [name for name in RADII if name != "paper"])
def test_an_extra_event_takes_a_share_of_delta(name: str) -> None:
    plain, more = (make_confidence(name, n_learners=3, delta=0.05, extra_events=k, **CONDITIONS) for k in (0, 1))
    assert more.shares == plain.shares + 1
    assert more.alpha == radius_alpha(3, 0.05, plain.shares + 1)
    assert radius_sum(more.radius, 100) > radius_sum(plain.radius, 100)


def test_the_printed_form_has_no_share_for_another_event() -> None:
    with pytest.raises(InvalidArgument, match="leaves no share of delta to another test"):
        make_radius("paper", n_learners=3, delta=0.05, extra_events=1, **CONDITIONS)


def test_the_printed_form_of_a_share_is_nowhere_below_the_stitched_one() -> None:
    for alpha in (0.12, 0.01, 1e-3, 1e-6):
        printed, stitched = radius_at("paper", alpha, **CONDITIONS), radius_at("stitched", alpha, **CONDITIONS)
        assert all(radius_sum(printed, n) >= radius_sum(stitched, n) for n in (1, 10, 10**3, 10**9, 10**30))
        assert paper_constant(1, 4 * alpha) > 1


@pytest.mark.parametrize("name", SELECTORS)
def test_every_selector_with_a_choice_of_radius_has_the_mixture_by_default(name: str) -> None:
    defaults = {each.name: each.default for each in settings_of(SELECTORS[name])}
    assert defaults.get("radius", "mixture") == "mixture"
    assert ("radius" in defaults) == (name not in ("EpochBalancing", "AdversarialElimination"))


def test_certificates_carry_the_radius() -> None:
    for name in RADII:
        assert BalancedElimination([Power(1.0)] * 2, radius=name).certificate().radius == name
