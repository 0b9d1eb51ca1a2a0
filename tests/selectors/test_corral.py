"""CORRAL against a slow reference, and against known faults of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.selectors import Corral
from equipoise.selectors.corral import Odds, descend
from tests.corral_reference import SlowCorral, barrier_step


def simplex(rng: np.random.Generator, n: int) -> Any:
    """Weights over many orders of magnitude."""
    weights = np.exp(-rng.uniform(0.0, 14.0, n))
    return weights / weights.sum()


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**9), st.booleans())
def test_a_step_of_mirror_descent_solves_its_equation(n: int, seed: int, single: bool) -> None:
    rng = np.random.default_rng(seed)
    weights, rates = simplex(rng, n), np.exp(rng.uniform(-9.0, 1.0, n))
    losses = rng.exponential(1.0, n) * np.exp(rng.uniform(-3.0, 10.0))
    if single:
        losses[1:] = 0.0
    odds = [Odds(p, p, eta, 2.0 * n, loss) for p, eta, loss in zip(weights, rates, losses, strict=True)]
    shift = descend(odds)
    assert losses.min() <= shift <= losses.max()
    new = 1.0 / (1.0 / weights + rates * (losses - shift))
    assert new.min() > 0.0
    assert abs(new.sum() - 1.0) < 1e-12
    moved = np.array([row.weight for row in odds])
    assert abs(moved.sum() - 1.0) < 1e-14
    np.testing.assert_allclose(moved, barrier_step(weights, losses, rates)[0], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_odds_agree_with_the_slow_reference_round_by_round(seed: int) -> None:
    rng, n, rounds, low, width = np.random.default_rng(seed), 2 + seed, 400, -2.0, 5.0
    selector = Corral(n, eta=0.2, rounds=rounds, reward_range=(low, low + width))
    slow, means = SlowCorral(n, rounds, 0.2), rng.uniform(0.0, 1.0, n)
    for _ in range(rounds):
        choice = selector.choose(rng)
        assert choice.probability == pytest.approx(slow.bar[choice.learner], rel=1e-7)
        reward = float(rng.random() < means[choice.learner])
        selector.credit(choice, low + width * reward)
        slow.learn(choice.learner, 1.0 - reward)
        np.testing.assert_allclose(selector.choice_probabilities(), slow.bar, rtol=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(2, 300), st.floats(1e-3, 10.0), st.integers(0, 10**6))
def test_rates_never_fall_and_grow_by_less_than_4_24(n: int, rounds: int, eta: float, seed: int) -> None:
    """Whatever the losses: here whoever is likeliest loses everything, which moves the odds most."""
    rng = np.random.default_rng(seed)
    selector = Corral(n, rounds=rounds, eta=eta)
    rates = [eta] * n
    for _ in range(rounds):
        choice = selector.choose(rng)
        cruel = choice.learner == int(np.argmax(selector.choice_probabilities())) or rng.random() < 0.3
        selector.credit(choice, 0.0 if cruel else 1.0)
        now = [row.rate for row in selector.kernel_state.odds]
        assert all(new >= old for new, old in zip(now, rates, strict=True))
        rates = now
        assert sum(selector.choice_probabilities()) == pytest.approx(1.0, abs=1e-12)
        assert min(selector.choice_probabilities()) >= (1 - 1e-9) / (rounds * n)
    assert max(rates) <= eta * math.exp(1 / math.log(2)) * (1 + 1e-9) < 4.24 * eta


def test_late_rewards_are_divided_by_the_probability_of_their_own_choice() -> None:
    selector, slow = Corral(2, rounds=100, eta=0.3), SlowCorral(2, 100, 0.3)
    choices = [selector.choose() for _ in range(6)]
    before = [choice.probability for choice in choices]
    assert before == [0.5] * 6
    for choice in choices:
        selector.credit(choice, 0.2)
        slow.bar = np.full(2, 0.5)  # what the choice was made with, not what it is now
        slow.learn(choice.learner, 0.8)
        np.testing.assert_allclose(selector.choice_probabilities(), slow.bar, rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Corral(1, rounds=10), "n_learners is 1, but must be a whole number at least 2"),
        (lambda: Corral(2, rounds=1), "rounds is 1, but must be a whole number at least 2"),
        (lambda: Corral(2, rounds=9, eta=0.0), "eta is 0.0, but must be positive"),
    ],
)
def test_bad_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        make()
    assert str(error.value).startswith(message)


def test_hidden_features_passes_the_seed_as_rounds_but_here_both_are_named() -> None:
    with pytest.raises(TypeError):
        Corral(2, 7)  # type: ignore[call-arg]


def test_smpybandits_repairs_weights_that_left_the_simplex_but_here_none_leave() -> None:
    """A full loss, divided by its probability, of the likeliest and of the unlikeliest learner."""
    for weights in ([1e-9, 1.0 - 1e-9], [1.0 - 1e-9, 1e-9]):
        losses = (1.0 / weights[0], 0.0)
        odds = [Odds(weight, weight, 2.0, 4.0, loss) for weight, loss in zip(weights, losses, strict=True)]
        shift = descend(odds)
        new = [1 / (1 / weight + 2.0 * (loss - shift)) for weight, loss in zip(weights, losses, strict=True)]
        assert min(new) > 0.0 and sum(new) == pytest.approx(1.0, abs=1e-12)


def test_coba_lowers_learning_rates_where_they_must_rise() -> None:
    selector = Corral(2, rounds=1000, eta=1.0)
    while all(row.rate == 1.0 for row in selector.kernel_state.odds):
        choice = selector.choose()
        selector.credit(choice, float(choice.learner))
    assert (
        selector.kernel_state.odds[0].rate == pytest.approx(math.exp(1 / math.log(1000)))
        and selector.choice_probabilities()[0] < 0.25
    )
