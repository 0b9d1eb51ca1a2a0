"""Faults of public implementations of selection, each with an instance on which it would show, and what is right there.

The names of the tests say the fault; the docstrings say what the faulty rule would have done.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from equipoise.bounds import Power
from equipoise.confidence import radius_sum
from equipoise.lab.rivals import ExploreCommitExploit
from equipoise.selectors import (
    D3RB,
    ED2RB,
    EXP3,
    UCB1,
    BalancedElimination,
    DynamicBalancing,
    GreedyMean,
    RegretBalancing,
)


def mean_radius(n: int, n_learners: int, delta: float = 0.05) -> float:
    """Howard et al. (2021), eq. (11), for rewards in [0, 1] and random contexts."""
    alpha = delta / (2 * (n_learners + 1))
    return 1.7 * math.sqrt(0.5 * (math.log(math.log(2 * n)) + 0.72 * math.log(5.2 / alpha)) / n)


def feed(selector: Any, rewards: list[float], n_rounds: int) -> None:
    """Every learner always earns the same."""
    for _ in range(n_rounds):
        choice = selector.choose()
        selector.credit(choice, rewards[choice.learner])


def feed_until(selector: Any, rewards: list[float], done: Any, most: int = 5000) -> int:
    """Rounds until `done` holds."""
    for t in range(most):
        if done():
            return t
        feed(selector, rewards, 1)
    raise AssertionError(f"nothing happened in {most} rounds")


@pytest.mark.parametrize("cls", [BalancedElimination, DynamicBalancing])
def test_sums_are_divided_by_n_and_not_by_its_square_root(cls: type[Any]) -> None:
    """pacchiano/modelselection divides sums by sqrt(n) but adds the undivided bound, so nothing is ever eliminated.
    Two learners with equal bounds take turns, so after t rounds the one that earns nothing has ceil(t/2) plays."""
    selector = cls([Power(0.25), Power(0.25)], radius="stitched")
    rounds = ((t, (t + 1) // 2, t // 2) for t in range(2, 5000))
    expected = next(t for t, n, m in rounds if 0.25 / math.sqrt(n) + mean_radius(n, 2) < 1.0 - mean_radius(m, 2))
    assert feed_until(selector, [0.0, 1.0], lambda: selector.active == (1,)) == expected


def test_d3rb_doubles_in_the_first_play_in_which_the_means_disprove_the_coefficient() -> None:
    """pacchiano/modelselection divides by sqrt(n) here too. Two learners with equal coefficients take turns; learner 1
    has as many plays as learner 0, or one less while learner 0 is tested."""
    selector = D3RB(2, radius="stitched")
    n = next(n for n in range(2, 5000) if 1.0 / math.sqrt(n) + mean_radius(n, 2) < 1.0 - mean_radius(n - 1, 2))
    t = feed_until(selector, [0.0, 1.0], lambda: selector.coefficients != (1.0, 1.0))
    assert (selector.coefficients, t) == ((2.0, 1.0), 2 * n - 1)


@pytest.mark.parametrize("cls", [BalancedElimination, DynamicBalancing])
def test_learners_that_did_not_play_are_tested_too(cls: type[Any]) -> None:
    """pacchiano/modelselection tests the learner that just played; but a rise of another one's lower mean disproves
    the others too. All rewards of learner 0 are in before the first one of learner 1, which then eliminates it."""
    selector = cls([Power(0.25), Power(0.25)])
    choices = sorted(selector.choose() for _ in range(100))
    for choice in choices:
        assert choice.learner == 1 or selector.active == (0, 1)
        selector.credit(choice, float(choice.learner))
    assert selector.active == (1,)


@pytest.mark.parametrize("cls", [D3RB, ED2RB])
def test_coefficients_have_no_cap_and_scale_with_the_rewards(cls: type[Any]) -> None:
    """pacchiano/modelselection caps coefficients at 10,000, whatever the range of rewards."""
    scale = 2.0**20
    small, large = cls(2), cls(2, reward_range=(0.0, scale))
    for _ in range(2000):
        one, other = small.choose(), large.choose()
        assert one == other
        small.credit(one, 0.75 * one.learner)
        large.credit(other, 0.75 * scale * other.learner)
    assert small.coefficients == large.coefficients
    assert max(large.coefficients) * scale > 1e4


def test_the_radius_pays_for_every_learner_and_grows_with_the_iterated_logarithm() -> None:
    """pacchiano/modelselection has sqrt(n ln((n + 1)/delta)): no number of learners, and a logarithm that grows."""
    few, many = (D3RB(n, radius="stitched").confidence.radius for n in (2, 20))
    for n in (1, 10, 1000):
        gained = (radius_sum(many, n) ** 2 - radius_sum(few, n) ** 2) / n
        assert gained == pytest.approx(1.7**2 * 0.5 * 0.72 * math.log(21 / 3), rel=1e-9)
    steps = [radius_sum(few, 10**k) ** 2 / 10**k for k in range(1, 8)]
    assert steps[-1] - steps[-2] < steps[1] - steps[0]


def test_delta_stands_outside_the_inner_logarithm() -> None:
    """T3p/hidden-features has ln(M ln(N/delta)), in which a hundredfold confidence costs next to nothing."""
    careless, careful = (D3RB(2, delta=delta, radius="stitched").confidence.radius for delta in (0.5, 0.005))
    for n in (1, 10, 1000):
        gained = (radius_sum(careful, n) ** 2 - radius_sum(careless, n) ** 2) / n
        assert gained == pytest.approx(1.7**2 * 0.5 * 0.72 * math.log(100), rel=1e-9)


@pytest.mark.parametrize("cls", [BalancedElimination, DynamicBalancing])
def test_negative_lower_means_are_not_taken_for_zero(cls: type[Any]) -> None:
    """T3p/hidden-features starts the maximum of lower means at the smallest positive number: with rewards that are all
    negative everybody looks disproved."""
    selector = cls([Power(0.1), Power(0.2)], reward_range=(-3.0, -2.0))
    feed(selector, [-2.5, -2.5], 300)
    assert selector.active == (0, 1)


@pytest.mark.parametrize("cls", [D3RB, ED2RB])
def test_negative_lower_means_double_no_coefficient(cls: type[Any]) -> None:
    """The same fault would raise everybody's coefficient."""
    selector = cls(2, reward_range=(-3.0, -2.0))
    feed(selector, [-2.5, -2.5], 300)
    assert selector.coefficients == (1.0, 1.0)
    assert [row.plays for row in selector.standing()] == [150, 150]


def test_exp3_has_the_published_probabilities_without_forced_exploration() -> None:
    """pacchiano/modelselection mixes in exploration and discounts losses: a learner that always loses then keeps a
    share of the rounds. As published, its probability falls below any floor."""
    selector = EXP3(2, rounds=400)
    losses = [0.0, 0.0]
    for _ in range(400):
        choice = selector.choose()
        selector.credit(choice, float(choice.learner))
        losses[choice.learner] += (1.0 - choice.learner) / choice.probability
    eta = math.sqrt(2 * math.log(2) / (2 * 400))
    odds = math.exp(-eta * (losses[0] - losses[1]))
    assert selector.choice_probabilities()[0] == pytest.approx(odds / (1 + odds), rel=1e-9)
    assert selector.choice_probabilities()[0] < 0.01


def test_exp3_without_the_number_of_rounds_is_anytime() -> None:
    """pacchiano/modelselection overwrites its flag for anytime rates. Equal losses seen later count for less."""
    selector = EXP3(2)
    gaps = []
    for t in range(1, 200):
        gap = abs(selector.kernel_state.estimates[0].loss_sum - selector.kernel_state.estimates[1].loss_sum)
        odds = min(selector.choice_probabilities()) / max(selector.choice_probabilities())
        gaps.append((gap, -math.log(odds), t))
        selector.credit(selector.choose(), 0.5)
    for gap, exponent, t in gaps:
        assert exponent == pytest.approx(gap * math.sqrt(math.log(2) / (2 * t)), rel=1e-9, abs=1e-12)


def test_a_learner_is_judged_by_the_greatest_lower_mean() -> None:
    """The code of "Pareto optimal model selection in linear bandits" compares with the greatest *upper* mean, which
    has not been proved of anybody: learners that do equally well would suspend each other. Learner 1 has the wider
    bound and thus the higher upper mean."""
    selector = DynamicBalancing([Power(0.01), Power(0.5)])
    feed(selector, [0.5, 0.5], 500)
    rows = selector.standing()
    assert rows[0].mean_upper < rows[1].mean_upper
    assert selector.active == (0, 1)


def test_ties_are_broken_among_active_learners_only() -> None:
    """The same code draws among all learners that attain the least bound, active or not. Learners 0 and 1 have one and
    the same bound; learner 0 is not active from some round on, and never chosen then."""
    selector = DynamicBalancing([Power(0.25), Power(0.25)])
    feed_until(selector, [0.0, 1.0], lambda: selector.active == (1,))
    plays = selector.standing()[0].plays
    feed(selector, [0.0, 1.0], 200)
    assert selector.active == (1,)
    assert selector.standing()[0].plays == plays


def test_a_suspended_learner_comes_back_when_the_tables_turn() -> None:
    """Learner 1 falls to nothing once learner 0 is suspended, so that its lower mean sinks below learner 0's upper."""
    selector = DynamicBalancing([Power(0.25), Power(0.25)])
    feed_until(selector, [0.0, 1.0], lambda: selector.active == (1,))
    feed_until(selector, [0.0, 0.0], lambda: selector.active == (0, 1))
    assert selector.eliminations == []


@pytest.mark.parametrize("cls", [BalancedElimination, DynamicBalancing, RegretBalancing])
def test_every_learner_is_judged_by_its_own_rewards(cls: type[Any]) -> None:
    """AugustinCablant's code uses the reward sum of the learner that just played for all of them."""
    rewards = [0.25, 0.5, 1.0]
    selector = cls([Power(1.0), Power(1.0), Power(1.0)])
    feed(selector, rewards, 30)
    assert [row.mean_reward for row in selector.standing()] == rewards


@pytest.mark.parametrize(
    "selector",
    [
        BalancedElimination([Power(0.1)] * 3),
        DynamicBalancing([Power(0.1)] * 3),
        RegretBalancing([Power(0.1)] * 3),
        ExploreCommitExploit([Power(0.1)] * 3),
        D3RB(3),
        ED2RB(3),
        UCB1(3),
        GreedyMean(3),
    ],
    ids=lambda selector: selector.name,
)
def test_learners_with_no_play_and_with_one_are_no_division_by_zero(selector: Any) -> None:
    """AugustinCablant's code divides by counts of zero and takes ln ln 1."""
    for t in range(6):
        feed(selector, [0.2, 0.4, 0.6], 1)
        for row in selector.standing():
            assert row.plays == 0 or math.isfinite(row.mean_radius)
        assert sum(row.plays for row in selector.standing()) == t + 1


def test_learners_disproved_in_one_round_all_go_and_no_other() -> None:
    """AugustinCablant's code pops from the list it is indexing, so the wrong learner goes when two go at once.
    Learners 0 and 2 earn nothing and have equal bounds; they are disproved by the same rise of learner 1's mean."""
    for cls in (BalancedElimination, DynamicBalancing):
        selector = cls([Power(0.25), Power(0.25), Power(0.25), Power(0.25)])
        feed_until(selector, [0.0, 1.0, 0.0, 1.0], lambda chosen=selector: len(chosen.active) < 4)
        feed(selector, [0.0, 1.0, 0.0, 1.0], 4)
        assert selector.active == (1, 3)


def test_the_width_of_ucb1_falls_with_the_square_root_of_the_plays() -> None:
    """The bonus of corralling_stoch_bandits is sqrt(ln t)/n: a square root is missing, and exploration ends early."""
    selector = UCB1(2)
    feed(selector, [0.5, 0.5], 800)
    rows = selector.standing()
    widths = [index - row.mean_reward for index, row in zip(selector.indices, rows, strict=True)]
    for width, row in zip(widths, rows, strict=True):
        assert width == pytest.approx(math.sqrt(math.log(801) / (2 * row.plays)), rel=1e-12)
    assert [row.plays for row in rows] == [400, 400]
