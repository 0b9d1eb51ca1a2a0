"""Unequal shares of the failure probability: the budget, a slow reference, records, files, and a control."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.certificates.records import comparison_record, describe_elimination, elimination_record, verify_record
from equipoise.confidence import radius_sum
from equipoise.errors import InvalidArgument
from equipoise.learners import UCB, Constant
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import digest
from tests.radii import mixture_radius

MEANS = (0.15, 0.85, 0.5)
WEIGHTS = (1.0, 6.0, 3.0)


def played(rounds: int, **settings: Any) -> tuple[BalancedElimination, list[list[float]]]:
    """A selector after some rounds of coins with means MEANS, and the rewards of each learner."""
    rng = np.random.default_rng(5)
    selector = BalancedElimination([Power(0.3)] * len(MEANS), delta=0.2, **settings)
    rewards: list[list[float]] = [[] for _ in MEANS]
    for _ in range(rounds):
        choice = selector.choose()
        rewards[choice.learner].append(float(rng.random() < MEANS[choice.learner]))
        selector.credit(choice, rewards[choice.learner][-1])
    return selector, rewards


@given(
    weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12),
    delta=st.floats(1e-6, 0.99),
    radius=st.sampled_from(["mixture", "stitched", "bernstein"]),
    contexts=st.sampled_from(["random", "fixed"]),
)
def test_all_events_together_spend_delta(weights: list[float], delta: float, radius: str, contexts: str) -> None:
    selector = BalancedElimination(
        [Power(1.0)] * len(weights), delta=delta, delta_weights=weights, radius=radius, contexts=contexts
    )
    spent = [selector.shares * selector.confidence_of(i).alpha for i in range(len(weights))]
    assert sum(spent) + selector.shares * selector.alpha == pytest.approx(delta, rel=1e-9)
    assert selector.certificate().learner_shares == pytest.approx(tuple(spent), rel=1e-9)
    assert spent == pytest.approx([spent[0] * weight / weights[0] for weight in weights], rel=1e-9)


def test_equal_weights_are_the_default() -> None:
    by_default, _ = played(400)
    equal, _ = played(400, delta_weights=[7.0, 7.0, 7.0])
    for default, row in zip(by_default.standing(), equal.standing(), strict=True):
        assert row == pytest.approx(default, rel=1e-12)
    assert equal.certificate().regret_upper == pytest.approx(by_default.certificate().regret_upper, rel=1e-12)
    assert by_default.certificate().learner_shares == ()


@pytest.mark.parametrize("late", [False, True])
def test_every_learner_has_the_radius_of_its_share(late: bool) -> None:
    """Against the certificate's formulas, written out with radii of v = 1/2 and alpha_i = delta M w_i/(2 (M+1))."""
    selector, rewards = played(600, delta_weights=WEIGHTS)
    alphas = [0.2 * 3 / 4 * weight / sum(WEIGHTS) / 2 for weight in WEIGHTS]
    if late:
        added = selector.add_learner(Power(0.3))
        alphas.append(0.2 / 2 / 2)
        rewards.append([1.0] * 50)
        while selector.standing()[added].plays < 50:
            choice = selector.choose()
            rewards[choice.learner] += [1.0] if choice.learner < added else []
            selector.credit(choice, 1.0)
    radii = [mixture_radius(len(own), 0.5, alpha) for own, alpha in zip(rewards, alphas, strict=True)]
    pool = sum(map(len, rewards)), sum(map(sum, rewards))
    pool_radius = mixture_radius(pool[0], 0.5, 0.2 / 4 / 2)
    certificate = selector.certificate()
    for i, row in enumerate(selector.standing()):
        assert row.mean_lower == pytest.approx((sum(rewards[i]) - radii[i]) / len(rewards[i]))
        lower = len(rewards[i]) * certificate.optimum_lower - sum(rewards[i]) - radii[i]
        assert certificate.learner_regret_lowers[i] == pytest.approx(max(0.0, lower))
    upper = certificate.optimum_upper
    by_learner = sum(len(own) * upper - sum(own) + radius for own, radius in zip(rewards, radii, strict=True))
    assert certificate.regret_upper == pytest.approx(min(by_learner, pool[0] * upper - pool[1] + pool_radius, pool[0]))
    assert certificate.delta == pytest.approx(0.2 + (0.1 if late else 0.0))
    comparison = selector.compare(0, 1)
    assert (comparison.learner.radius, comparison.other.radius) == pytest.approx(tuple(radii[:2]))


def test_a_larger_share_eliminates_sooner() -> None:
    """The weight of the learner and of its witness count, that of the third does not."""
    rounds = [
        played(3_000, delta_weights=weights)[0].eliminations[0].round
        for weights in ((1e4, 1e4, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1e4))
    ]
    assert rounds[0] < rounds[1] < rounds[2]


def records_of(selector: BalancedElimination) -> list[dict[str, Any]]:
    about: dict[str, Any] = {
        "selector_label": "unequal",
        "seed": 5,
        "selector": selector,
        "learner_names": ["poor", "good", "middle"],
    }
    comparison = comparison_record(selector.compare(0, 1), round=3_000, **about)
    return [elimination_record(selector.eliminations[0], **about), comparison]


@pytest.mark.parametrize("radius", ["mixture", "stitched", "bernstein"])
def test_records_carry_the_weights_and_verify_recomputes_the_radii(radius: str) -> None:
    """Other weights, none, too many or one that is not positive are faults, though the digest is right."""
    selector, _ = played(3_000, delta_weights=WEIGHTS, radius=radius)
    for record in records_of(selector):
        assert record["delta_weights"] == list(WEIGHTS)
        assert verify_record(record) == []
        assert "with confidence 0.8" in describe_elimination(record).lower()
        for weights in ([3.0, 6.0, 1.0], None, [1.0, 6.0, 3.0, 2.0], [1.0, 6.0, -3.0], ["1", 6.0, 3.0], 3.0, [], [1.0]):
            changed = {**record, "delta_weights": weights}
            if weights is None:
                del changed["delta_weights"]
            assert verify_record({**changed, "digest": digest(changed)}) != []
        huge = {**record, "n_learners": 10**15}
        assert verify_record({**huge, "digest": digest(huge)}) != []


def test_files_events_and_copies_keep_the_weights(tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    events: list[Any] = []
    selector = BalancedElimination([Power(0.3), Power(0.6)], delta_weights=[1, 3], trusted=1)
    portfolio = Portfolio([Constant(0), UCB(2)], selector)
    portfolio.on_event(events.append)
    copy = Portfolio([Constant(0), UCB(2)], selector.clone())
    portfolio.save(tmp_path / "start.zip")
    for _ in range(300):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < (0.2, 0.8)[decision.action]))
    portfolio.save(tmp_path / "end.zip")
    loaded = Portfolio.load(tmp_path / "end.zip")
    folded = Portfolio.load(tmp_path / "start.zip")
    for event in events:
        folded.apply(event)
    expected = portfolio.certificate()
    assert len(expected.learner_shares) == 2 and expected.presumed == 1
    assert loaded.certificate() == folded.certificate() == expected
    assert loaded.selector.config() == copy.selector.config() == selector.config()


def test_unequal_shares_keep_the_budget_and_parts_of_the_largest_weight_do_not() -> None:
    """1,000 learners toss fair coins; in at most a delta share of runs may any leave its radius.

    Rejected with probability at most 1e-6 were the claim just false. The control divides the weights by the largest
    instead of by their sum, and must be rejected."""
    n_learners, n_plays, n_runs, delta = 1_000, 150, 40, 0.3
    weights = [float(1 + i % 2) for i in range(n_learners)]
    selector = BalancedElimination([Power(1.0)] * n_learners, delta=delta, delta_weights=weights, contexts="fixed")
    numbers = range(1, n_plays + 1)
    kept = np.array([[radius_sum(selector.confidence_of(i).radius, n) for n in numbers] for i in range(n_learners)])
    part = delta * n_learners / (n_learners + 1) / 2
    by_weight = {w: [mixture_radius(n, 0.25, part * w / max(weights)) for n in numbers] for w in set(weights)}
    wrong = np.array([by_weight[weight] for weight in weights])
    left = [0, 0]
    for seed in range(n_runs):
        coins = np.random.default_rng([13, seed]).random((n_learners, n_plays)) < 0.5
        deviations = np.abs(np.cumsum(coins - 0.5, axis=1))
        left[0] += bool((deviations > kept).any())
        left[1] += bool((deviations > wrong).any())
    kept_p, wrong_p = (binomtest(n, n_runs, delta, alternative="greater").pvalue for n in left)
    assert kept_p >= 1e-6 > wrong_p


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta_weights": [1.0]}, r"delta_weights is \(1.0,\), but must have one entry for each of 2 learners"),
        ({"delta_weights": [1.0, 0.0]}, "every entry of delta_weights is 0.0, but must be positive"),
        ({"delta_weights": 3.0}, "delta_weights is 3.0, but must have one positive number per learner"),
        ({"delta_weights": [1.0, 1e-12]}, "none must be less than 1e-09 times another"),
        ({"delta_weights": [1, 2], "radius": "paper"}, "must be None with radius 'paper': its printed form"),
        ({"delta_weights": [1, 2], "same_round": True}, "must be None with same_round=True: the events of"),
    ],
)
def test_what_no_theorem_covers_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        BalancedElimination([Power(1.0)] * 2, **settings)
