"""Stochastic CORRAL, Tsallis corral and UCB-C against slow references, and against known faults of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import chisquare

from equipoise.bounds import Power, SqrtLog
from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.lab.rivals import UCBC, StochasticCorral, StochasticEXP3P, TsallisCorral, tsallis_corral
from equipoise.lab.rivals.tsallis_corral import weigh
from equipoise.lab.rivals.ucbc import group_index
from equipoise.selectors import Corral
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH
from tests.corral_reference import SlowCorral
from tests.lab.rivals.tasks import odds, task_of


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**9))
def test_tsallis_weights_solve_their_equation(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.uniform(-6.0, 0.5, n))
    losses = rng.exponential(1.0, n) * np.exp(rng.uniform(-3.0, 9.0))
    losses -= losses.min()
    odds = [tsallis_corral.Odds(1.0 / n, 1.0 / n, eta, loss) for eta, loss in zip(rates, losses, strict=True)]
    x = weigh(odds)
    raw = 4.0 / (rates * (losses - x)) ** 2
    assert x < losses.min()
    assert abs(raw.sum() - 1.0) < 1e-12
    moved = np.array([row.weight for row in odds])
    assert abs(moved.sum() - 1.0) < 1e-14
    low = -2.0 * math.sqrt(n) / rates.min() - 1.0
    expected = brentq(lambda y: np.sum(4.0 / (rates * (losses - y)) ** 2) - 1.0, low, -1e-9 / rates.max(), xtol=1e-15)
    np.testing.assert_allclose(moved, 4.0 / (rates * (losses - expected)) ** 2, rtol=1e-7)


class SlowTsallis:
    """Weights of the cumulative losses by a general root finder; rises keep the weights of their round."""

    def __init__(self, n: int, rounds: int) -> None:
        self.n, self.t, self.rounds = n, 1, rounds
        self.losses, self.rises, self.bar = np.zeros(n), np.zeros(n), np.full(n, 1 / n)

    def learn(self, i: int, loss: float) -> None:
        self.losses[i] += loss / self.bar[i]
        self.t += 1
        beta = math.exp(1 / math.log(self.rounds))
        eta = beta**self.rises / math.sqrt(self.t)
        base = self.losses.min()
        span = (base - 2 * math.sqrt(self.n) / eta.min() - 1, base - 1e-9)
        x = brentq(lambda y: np.sum(4 / (eta * (self.losses - y)) ** 2) - 1, *span, xtol=1e-14)
        weights = 4 / (eta * (self.losses - x)) ** 2
        self.bar = (1 - 1 / self.t) * weights + 1 / (self.t * self.n)
        rare = (weights < 1 / (5 * self.n * 2**self.rises)) & (self.rises < math.floor(0.5 * math.log2(self.rounds)))
        self.rises[rare] += 1
        self.losses[rare] = x + (self.losses[rare] - x) / beta


class SlowExp3P:
    def __init__(self, n: int, eta: float, floor: float) -> None:
        self.n, self.eta, self.floor, self.gains, self.bar = n, eta, floor, np.zeros(n), np.full(n, 1 / n)

    def learn(self, i: int, loss: float) -> None:
        self.gains += ((np.arange(self.n) == i) * (1 - loss) + self.floor / 2) / self.bar
        shares = np.exp(self.eta * (self.gains - self.gains.max()))
        self.bar = (1 - self.n * self.floor) * shares / shares.sum() + self.floor


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["tsallis", "smooth corral", "smooth exp3p"])
def test_odds_agree_with_the_slow_reference_round_by_round(kind: str, seed: int) -> None:
    rng, n, rounds, low, width = np.random.default_rng(seed), 2 + seed, 400, -2.0, 5.0
    common: dict[str, Any] = {"rounds": rounds, "reward_range": (low, low + width)}
    pairs: dict[str, Any] = {
        "tsallis": lambda: (TsallisCorral(n, **common), SlowTsallis(n, rounds)),
        "smooth corral": lambda: (StochasticCorral(n, eta=0.2, **common), SlowCorral(n, rounds // 2, 0.2)),
        "smooth exp3p": lambda: (StochasticEXP3P(n, eta=0.1, floor=0.04, **common), SlowExp3P(n, 0.1, 0.04)),
    }
    selector, slow = pairs[kind]()
    means = rng.uniform(0.0, 1.0, n)
    for _ in range(rounds):
        choice = selector.choose(rng)
        replays = kind.startswith("smooth") and task_of(selector, choice).kind == REPLAY
        expected = 1.0 if replays else slow.bar[choice.learner]
        assert choice.probability == pytest.approx(expected, rel=1e-7)
        reward = float(rng.random() < means[choice.learner])
        selector.credit(choice, low + width * reward)
        if replays or not kind.startswith("smooth"):
            slow.learn(choice.learner, 1.0 - reward)
        np.testing.assert_allclose(odds(selector), slow.bar, rtol=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(4, 200), st.integers(0, 10**6))
def test_exp3p_keeps_its_floor(n: int, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    selector = StochasticEXP3P(n, rounds=rounds)
    assert selector.floor * n <= 1.0
    for _ in range(rounds):
        choice = selector.choose(rng)
        selector.credit(choice, float(choice.learner == 0))
        assert min(odds(selector)) >= selector.floor * (1 - 1e-12)
        assert sum(odds(selector)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.statistical
def test_the_kept_policy_is_any_of_the_earlier_ones_with_equal_probability() -> None:
    """2,000 independent runs; (number - uniform) / s is uniform on (0, 1) if the number is uniform on 1..s. A p-value
    below 1e-6 has that probability if the claim is true. Playing the newest is the negative control."""
    rng, spread, newest = np.random.default_rng(5), [], []
    for seed in range(2000):
        selector = StochasticCorral(2, rounds=100, seed=seed)
        for _ in range(15):
            first, second = selector.choose(), selector.choose()
        updates, number = selector.kernel_state.policies[first.learner].updates, task_of(selector, second).policy
        assert 1 <= number <= updates
        spread.append((number - rng.random()) / updates)
        newest.append((updates - rng.random()) / updates)
    assert chisquare(np.histogram(spread, 10, (0.0, 1.0))[0]).pvalue > 1e-6
    assert chisquare(np.histogram(newest, 10, (0.0, 1.0))[0]).pvalue < 1e-6


@pytest.mark.statistical
def test_a_policy_is_kept_about_ln_s_times() -> None:
    """The s-th with probability 1/s: the 13th harmonic number is 3.18; the mean of 500 runs is within 0.5 with
    probability 1 - 1e-9 (its standard deviation is 0.06)."""
    kept = 0
    for seed in range(500):
        selector = StochasticCorral(2, rounds=100, seed=seed)
        updates = 0
        while updates < 13:
            choice = selector.choose()
            task = task_of(selector, choice).kind
            if choice.learner == 0 and task != REPLAY:
                updates += 1
                kept += task == KEEP
    assert kept / 500 == pytest.approx(sum(1 / s for s in range(1, 14)), abs=0.5)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_ucbc_plays_the_highest_median_index(copies: int) -> None:
    rng, rounds = np.random.default_rng(copies), 300
    bounds: list[Any] = [Power(0.5), Power(1.0), SqrtLog(0.3, 0.1)]
    selector = UCBC(bounds, rounds=rounds, copies=copies, reward_range=(-1.0, 1.0))
    rewards: list[list[float]] = [[] for _ in range(3 * copies)]
    turn: list[int] = []
    for _ in range(rounds):
        if not turn:
            indices = []
            for group, bound in enumerate(bounds):
                played = rewards[group * copies : (group + 1) * copies]
                n = len(played[0])
                if n == 0:
                    indices.append(math.inf)
                    continue
                median = sorted(float(np.mean(one)) for one in played)[copies // 2]
                indices.append(median + min(bound.raw(n), 2.0 * n) / n + 2.0 * math.sqrt(math.log(rounds) / (2 * n)))
            best = int(np.argmax(indices))
            turn = list(range(best * copies, (best + 1) * copies))
        choice = selector.choose()
        assert choice.learner == turn.pop(0)
        reward = float(np.clip(rng.normal([0.1, 0.3, -0.2][choice.learner // copies], 0.3), -1.0, 1.0))
        rewards[choice.learner].append(reward)
        selector.credit(choice, reward)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StochasticEXP3P(2, rounds=9, floor=0.6), "floor is 0.6, but must be at most 1 / n_learners = 0.5"),
        (lambda: TsallisCorral(1, rounds=10), "n_learners is 1, but must be a whole number at least 2"),
        (lambda: UCBC([], rounds=10), "bounds is empty, but must have one bound per algorithm"),
        (lambda: UCBC(3, rounds=10), "bounds is 3, but must have one bound per algorithm"),  # type: ignore[arg-type]
        (lambda: UCBC([1.0], rounds=10), "bounds has 1.0, but every entry must be one of"),  # type: ignore[list-item]
        (lambda: UCBC([Power(1.0)], rounds=10, copies=0), "copies is 0, but must be a whole number at least 1"),
    ],
)
def test_bad_settings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        make()
    assert str(error.value).startswith(message)


def test_hidden_features_never_alternates_its_two_steps_but_here_they_do() -> None:
    selector = StochasticCorral(3, rounds=200)
    for _ in range(50):
        first = selector.choose()
        assert task_of(selector, first).kind in (TEACH, KEEP)
        second = selector.choose()
        assert task_of(selector, second).kind == REPLAY
        assert first.learner == second.learner
        selector.credit(first, 0.3)
        selector.credit(second, 0.6)


@pytest.mark.parametrize("cls", [Corral, TsallisCorral, StochasticCorral, StochasticEXP3P])
def test_hidden_features_feeds_gains_as_losses_but_here_the_better_learner_gains(cls: Any) -> None:
    selector = cls(2, rounds=400, seed=1)
    for _ in range(200):
        choice = selector.choose()
        selector.credit(choice, 0.9 if choice.learner == 1 else 0.1)
    assert odds(selector)[1] > 0.8


def test_hidden_features_has_no_learning_rate_in_exp3p_but_here_it_scales_the_exponent() -> None:
    logits = []
    for eta in (0.01, 0.02):
        selector = StochasticEXP3P(2, rounds=100, eta=eta, floor=0.001)
        selector.credit(selector.choose(), 0.0)
        choice = selector.choose()
        selector.credit(choice, 1.0)
        share = (odds(selector)[choice.learner] - 0.001) / (1 - 0.002)
        logits.append(math.log(share / (1 - share)))
    assert logits[1] == pytest.approx(2 * logits[0]) and logits[0] == pytest.approx(0.01 * 1.0 / 0.5)


def test_corralling_stoch_bandits_lacks_a_root_in_its_bonus_but_here_it_is_the_bound_per_play() -> None:
    """With R(n) = sqrt(k n) the bonus falls like 1 / sqrt(n): four times the plays halve it."""
    bonuses = []
    for plays in (100, 400):
        selector = UCBC([Power(math.sqrt(10.0))], rounds=1000)
        for _ in range(plays):
            selector.credit(selector.choose(), 0.0)
        bonuses.append(group_index(selector.params, selector.kernel_state, 0))
    assert bonuses[0] == pytest.approx(math.sqrt(10.0 / 100) + math.sqrt(math.log(1000) / 200))
    assert bonuses[1] == pytest.approx(bonuses[0] / 2)


def test_corralling_stoch_bandits_divides_by_the_weight_but_here_by_the_probability_of_the_draw() -> None:
    selector = TsallisCorral(2, rounds=100)
    for _ in range(30):
        choice = selector.choose()
        others = selector.kernel_state.odds[1 - choice.learner].loss_sum
        own = selector.kernel_state.odds[choice.learner].loss_sum
        assert choice.probability != selector.kernel_state.odds[choice.learner].weight or choice.probability == 0.5
        selector.credit(choice, 0.5)
        grown = (selector.kernel_state.odds[choice.learner].loss_sum - own) - (
            selector.kernel_state.odds[1 - choice.learner].loss_sum - others
        )
        assert grown == pytest.approx(0.5 / choice.probability)


@pytest.mark.parametrize("setting", [{"floor": 0.1}, {"master": "exp3p"}])
def test_stochastic_corral_has_no_settings_of_exp3p(setting: dict[str, Any]) -> None:
    with pytest.raises(UnknownSetting, match=r"setting of StochasticCorral '(floor|master)' is unknown"):
        StochasticCorral(2, rounds=9, **setting)
