"""One-sided and variance-adaptive radii: formulas written out anew, validity by simulation, records that carry them."""

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import zeta
from scipy.stats import binomtest

from equipoise.bounds import Power
from equipoise.certificates.records import elimination_record, verify_record
from equipoise.confidence import Bernstein, Radius, expected_regret_sum, lower_sum, make_radius, radius_sum, upper_sum
from equipoise.kernels.boundaries import add_spread
from equipoise.selectors import BalancedElimination, RealizedBalancing
from equipoise.storage.files import digest

Array = NDArray[np.float64]
RUNS, PLAYS, CHUNK = 10_000, 600, 2_000
DELTA = 0.05
FALSE_ALARM = 1e-6  # probability that a true claim is rejected, were it false in exactly a delta share of runs


def radius_of(name: str, contexts: str = "random", **settings: Any) -> Radius:
    options = {"n_learners": 5, "delta": DELTA, "width": 1.0, "noise": None, "scale": 1.0, **settings}
    return make_radius(name, contexts=contexts, **options)


def deviation(spread: Array, width: float, alpha: float, eta: float = 2.0, s: float = 1.4) -> Array:
    """The empirical Bernstein boundary, computed from its proof and not from its formula.

    In epoch k, where V is in [eta^k m, eta^{k+1} m] with m = c^2 = w^2, the share alpha_k = alpha/(zeta(s) (k+1)^s)
    gives r = ln(1/alpha_k), and the supermartingale of lambda = 1/(c + sqrt(vbar/(2 r))), vbar = eta^{k+1/2} m, bounds
    the sum by (r + psi(lambda) V)/lambda, psi(lambda) = -(lambda w + ln(1 - lambda w))/w^2 the function of Fan's
    inequality; psi_G(lambda) = lambda^2/(2 (1 - c lambda)) is above it.
    """
    c = width
    total = np.maximum(width**2, spread)
    k = np.floor(np.log(total / width**2) / math.log(eta))
    r = math.log(float(zeta(s)) / alpha) + s * np.log(k + 1)
    rate = 1 / (c + np.sqrt(eta ** (k + 0.5) * width**2 / (2 * r)))
    psi = rate**2 / (2 * (1 - c * rate))
    return (r + psi * total) / rate


def stitched(n: Array, variance: float, alpha: float) -> Array:
    """Howard et al. (2021), eq. (11)."""
    return 1.7 * np.sqrt(variance * n * (np.log(np.log(2 * n)) + 0.72 * math.log(5.2 / alpha)))


def expected_regret(regret: Array, width: float, alpha: float) -> Array:
    """The least over x = 2^-j of (x Reg + w ln((j+1)(j+2)/alpha)) / (1 - exp(-x))."""
    totals = []
    for j in range(20):
        x = 2.0**-j
        totals.append((x * regret + width * math.log((j + 1) * (j + 2) / alpha)) / -math.expm1(-x))
    return np.min(totals, axis=0)


@given(
    st.integers(1, 10**6),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.sampled_from(["random", "fixed"]),
)
def test_bernstein_is_what_its_proof_gives_and_at_most_the_two_sided_radius(
    n: int, share: float, regret_share: float, width: float, contexts: str
) -> None:
    spread, regret = share * n * width**2 / 4, regret_share * n * width
    shares, variance = (4, width**2 / 4) if contexts == "fixed" else (5, width**2 / 2)
    alpha = DELTA / (shares * 6)
    two_sided = float(stitched(np.array(float(n)), variance, alpha))
    below = float(deviation(np.array(spread), width, alpha))
    above = below
    if contexts == "random":
        above += float(expected_regret(np.array(regret), width, alpha)) - regret
    radius = radius_of("bernstein", contexts, width=width)
    assert radius_sum(radius, n) == pytest.approx(two_sided, rel=1e-12)
    for found, exact in ((lower_sum(radius, n, spread), below), (upper_sum(radius, n, spread, regret), above)):
        # Never below what the proof gives, and above it by the step from epochs to a smooth boundary alone.
        assert min(two_sided, exact) * (1 - 1e-12) <= found <= min(two_sided, 1.21 * exact)


@pytest.mark.parametrize(("contexts", "shares", "variance"), [("random", 3, 0.25), ("fixed", 2, 0.25)])
def test_the_lower_side_of_stitched_has_no_context_term(contexts: str, shares: int, variance: float) -> None:
    radius = radius_of("stitched", contexts, separate_lower=True)
    for n in (1, 30, 10_000):
        expected = float(stitched(np.array(float(n)), variance, DELTA / (shares * 6)))
        assert lower_sum(radius, n, 7.0) == pytest.approx(expected, rel=1e-12)
        assert lower_sum(radius, n, 7.0) <= upper_sum(radius, n, 7.0, 1.0) == radius_sum(radius, n)


def test_under_noise_the_lower_side_counts_contexts_and_noise() -> None:
    radius = radius_of("stitched", noise=0.3, separate_lower=True)
    expected = float(stitched(np.array(100.0), 0.25 + 0.09, DELTA / (3 * 6)))
    assert lower_sum(radius, 100, 0.0) == pytest.approx(expected, rel=1e-12)


def test_bernstein_is_less_than_half_as_wide_where_rewards_vary_little() -> None:
    """Variance 0.01 at n = 1,000, M = 5, delta = 0.05: below in any case, above too with fixed contexts."""
    n, spread = 1_000, 10.0
    for contexts in ("random", "fixed"):
        plain, sharp = (radius_sum(radius_of("stitched", contexts), n), radius_of("bernstein", contexts))
        assert lower_sum(sharp, n, spread) <= plain / 2
        if contexts == "fixed":
            assert upper_sum(sharp, n, spread, 0.0) <= plain / 2
    assert lower_sum(radius_of("bernstein"), n, spread) / n == pytest.approx(0.024, abs=0.0005)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_spread_is_the_sum_of_squares_around_the_running_mean(rewards: list[float]) -> None:
    spread, total = 0.0, 0.0
    for n, reward in enumerate(rewards):
        spread, total = add_spread(spread, n, total, 0.5, reward), total + reward
    means = [0.5, *(float(np.mean(rewards[:n])) for n in range(1, len(rewards)))]
    assert spread == pytest.approx(sum((r - m) ** 2 for r, m in zip(rewards, means, strict=True)), rel=1e-9, abs=1e-12)


def two_point(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Fair coins, no regret: rewards, regrets and the optimum."""
    rewards = (rng.random((CHUNK, PLAYS)) < 0.5).astype(float)
    return rewards, np.zeros_like(rewards), 0.5


def rare(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Bernoulli rewards of mean 0.05, as clicks are."""
    rewards = (rng.random((CHUNK, PLAYS)) < 0.05).astype(float)
    return rewards, np.zeros_like(rewards), 0.05


def context_driven(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """In 5 of 8 contexts the best action pays 1 and the learner tosses a coin; in the others all pay 0. Reward plus
    regret has variance 0.39, the greatest that two-point contexts and rewards reach."""
    lucky = rng.random((CHUNK, PLAYS)) < 5 / 8
    rewards = (lucky & (rng.random((CHUNK, PLAYS)) < 0.5)).astype(float)
    return rewards, 0.5 * lucky.astype(float), 5 / 8


Draw = Callable[[np.random.Generator], tuple[Array, Array, float]]
ENVIRONMENTS: dict[str, Draw] = {"two-point": two_point, "rare": rare, "context-driven": context_driven}
N = np.arange(1.0, PLAYS + 1)


def violations(draw: Draw, name: str, *, scale: float = 1.0, variance: float = 0.5, shares: int = 0) -> int:
    """Of RUNS runs, those in which a side of the radius failed at some play; one learner, and no pool, so that the
    events of one learner have all of delta: alpha = delta / shares."""
    shares = shares or {"stitched": 2, "lower apart": 3, "bernstein": 5}[name]
    alpha, n_broken, rng = DELTA / shares, 0, np.random.default_rng([7, len(name)])
    two_sided = scale * stitched(N, variance, alpha)
    for _ in range(RUNS // CHUNK):
        rewards, regrets, optimum = draw(rng)
        sums, lost = np.cumsum(rewards, axis=1), np.cumsum(regrets, axis=1)
        below: Any = two_sided
        above: Any = two_sided
        if name == "lower apart":
            below = scale * stitched(N, 0.25, alpha)
        elif name == "bernstein":
            means = np.concatenate([np.full((CHUNK, 1), 0.5), (sums / N)[:, :-1]], axis=1)
            stray = scale * deviation(np.cumsum((rewards - means) ** 2, axis=1), 1.0, alpha)
            below = np.minimum(two_sided, stray)
            above = np.minimum(two_sided, stray + scale * (expected_regret(lost, 1.0, alpha) - lost))
        broken = (sums - N * optimum > below) | (N * optimum - sums - lost > above)
        broken |= lost - N * optimum + sums > two_sided
        n_broken += int(np.count_nonzero(broken.any(axis=1)))
    return n_broken


def holds(n_broken: int, share: float = DELTA) -> bool:
    """Exact one-sided binomial test; rejects a true claim with probability at most FALSE_ALARM."""
    return bool(binomtest(n_broken, RUNS, share, alternative="greater").pvalue >= FALSE_ALARM)


@pytest.mark.statistical
@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("name", ["stitched", "lower apart", "bernstein"])
def test_a_radius_fails_in_at_most_a_delta_share_of_runs(name: str, environment: str) -> None:
    assert holds(violations(ENVIRONMENTS[environment], name))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "environment", "changes"),
    [
        ("stitched", "context-driven", {"variance": 0.15}),
        ("lower apart", "two-point", {"scale": 0.5}),
        ("bernstein", "rare", {"scale": 0.3}),
        ("bernstein", "context-driven", {"scale": 0.4}),
    ],
)
def test_radii_that_are_too_narrow_are_caught(name: str, environment: str, changes: dict[str, float]) -> None:
    """The negative control: the same check rejects them."""
    assert not holds(violations(ENVIRONMENTS[environment], name, **changes))  # type: ignore[arg-type]


@pytest.mark.statistical
def test_the_regret_part_is_valid_and_nearly_tight() -> None:
    """One x = 1 with all of alpha = 0.1 on Bernoulli regrets of mean 0.3: about 9 % of runs cross, and a tenth less of
    the logarithm is caught."""
    alpha, rng = 0.1, np.random.default_rng(11)
    crossed = {1.0: 0, 0.5: 0}
    for _ in range(RUNS // CHUNK):
        lost = np.cumsum(rng.random((CHUNK, PLAYS)) < 0.3, axis=1)
        for part in crossed:
            bound = (lost + part * math.log(1 / alpha)) / -math.expm1(-1.0)
            crossed[part] += int(np.count_nonzero((bound < 0.3 * N).any(axis=1)))
    assert holds(crossed[1.0], alpha)
    assert not holds(crossed[0.5], alpha)


def test_the_regret_part_costs_a_root() -> None:
    """R + about sqrt(2 w R ln(1/alpha)), up to the logarithm of the grid."""
    radius = radius_of("bernstein")
    assert isinstance(radius, Bernstein)
    alpha = DELTA / (5 * 6)
    for regret in (10.0, 1e3, 1e5):
        extra = expected_regret_sum(radius, regret) - regret
        assert extra <= 2 * math.sqrt(2 * regret * math.log(1 / alpha)) + 4 * math.log(1 / alpha)


def records(selector: Any) -> list[dict[str, Any]]:
    """Of a run with rewards that hardly vary, in which two of three learners are eliminated."""
    chances = random.Random(2)
    while len(selector.eliminations) < 2:
        choice = selector.choose()
        level = (0.8, 0.5, 0.4)[choice.learner]
        selector.credit(choice, level + 0.05 * chances.random())
    about = {"selector_label": "sharp", "seed": 0, "premises": selector.premises, "learner_names": ["a", "b", "c"]}
    return [elimination_record(gone, **about) for gone in selector.eliminations]


BOUNDS = [Power(1.0), Power(0.5), Power(0.5)]
SHARP = {
    "bernstein": records(BalancedElimination(BOUNDS, radius="bernstein")),
    "bernstein, fixed": records(BalancedElimination(BOUNDS, radius="bernstein", contexts="fixed")),
    "realized": records(RealizedBalancing(3, bounds=BOUNDS, slack=1.0, floor=2.0)),
    "realized, stitched": records(RealizedBalancing(3, bounds=BOUNDS, slack=1.0, floor=2.0, radius="stitched")),
}


@pytest.mark.parametrize("name", SHARP)
def test_records_with_sharper_radii_prove_themselves(name: str) -> None:
    for record in SHARP[name]:
        shares = {"bernstein": 5, "bernstein, fixed": 4, "realized": 3, "realized, stitched": 3}[name]
        assert (record["version"], record["shares"]) == (1, shares)
        assert verify_record(json.loads(json.dumps(record))) == []


@pytest.mark.parametrize("name", SHARP)
def test_their_fields_are_tied_together(name: str) -> None:
    for record in SHARP[name]:
        for change in (
            {"version": 2},
            {"shares": 2},
            {"shares": record["shares"] + 1},
            {"witness": {**record["witness"], "spread": -1.0}},
            {"learner": {key: value for key, value in record["learner"].items() if key != "spread"}},
        ):
            forged = {**copy.deepcopy(record), **change}
            forged["digest"] = digest(forged)
            assert verify_record(forged) != [], change
        assert verify_record({**record, "shares": record["shares"] + 1})[0].startswith("digest does not match")


@pytest.mark.parametrize("name", ["bernstein", "bernstein, fixed"])
def test_a_changed_spread_is_rejected_even_if_sealed_anew(name: str) -> None:
    for record in SHARP[name]:
        forged = copy.deepcopy(record)
        forged["witness"]["spread"] += 3.0
        forged["digest"] = digest(forged)
        assert any(fault.startswith("witness.radius is ") for fault in verify_record(forged))


def test_bernstein_drops_poor_learners_earlier_where_rewards_vary_little() -> None:
    plain = records(BalancedElimination(BOUNDS, radius="stitched"))
    assert SHARP["bernstein"][0]["round"] < plain[0]["round"]
    assert plain[0]["shares"] == 2
