"""Selectors that tell only the chosen learner, and only its reward, against references written from the formulas.

Rewards are multiples of a sixteenth of the range, so that sums are exact, ties are true ties, and the selectors have to
agree with the references about every choice. Rewards come late, out of order or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.bounds import Power
from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import ExploreCommitExploit, RateAdaptive
from equipoise.selectors import D3RB, ED2RB, EXP3, UCB1, DynamicBalancing, GreedyMean, Oracle, RegretBalancing, Uniform
from equipoise.selectors.regret_balancing import empirical_regret, optimistic_value
from tests import rival_reference as references
from tests.rival_reference import Rival, drawing, play

STEPS = 16
BOUNDED = {"RegretBalancing", "DynamicBalancing", "ExploreCommitExploit"}
RIVALS: dict[str, tuple[type[Any], type[Rival]]] = {
    "RegretBalancing": (RegretBalancing, references.RegretBalancingReference),
    "DynamicBalancing": (DynamicBalancing, references.DynamicBalancingReference),
    "D3RB": (D3RB, references.D3RBReference),
    "ED2RB": (ED2RB, references.ED2RBReference),
    "ExploreCommitExploit": (ExploreCommitExploit, references.ExploreCommitExploitReference),
    "RateAdaptive": (RateAdaptive, references.RateAdaptiveReference),
    "Uniform": (Uniform, references.UniformReference),
    "GreedyMean": (GreedyMean, references.GreedyMeanReference),
    "UCB1": (UCB1, references.UCB1Reference),
    "EXP3": (EXP3, references.EXP3Reference),
    "Oracle": (Oracle, references.OracleReference),
}
OWN_SETTINGS: dict[str, Callable[[int], st.SearchStrategy[dict[str, Any]]]] = {
    "DynamicBalancing": lambda n: st.fixed_dictionaries(
        {
            "scales": st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=n, max_size=n),
            "biases": st.lists(st.sampled_from([-0.125, 0.0, 0.25]), min_size=n, max_size=n),
        }
    ),
    "D3RB": lambda _: st.fixed_dictionaries({"d_min": st.sampled_from([0.01, 0.25, 1.0])}),
    "ED2RB": lambda _: st.fixed_dictionaries({"d_min": st.sampled_from([0.01, 0.25, 1.0])}),
    "UCB1": lambda _: st.fixed_dictionaries({"exploration": st.sampled_from([0.25, 1.0, 4.0])}),
    "EXP3": lambda _: st.fixed_dictionaries({"rounds": st.sampled_from([None, 50])}),
    "Oracle": lambda n: st.fixed_dictionaries({"best": st.integers(0, n - 1)}),
}
EVENTS = st.tuples(st.sampled_from(["choose"] * 4 + ["credit"] * 4 + ["withdraw"]), st.integers(0, 255))


class Run:
    """A selector and its reference side by side."""

    def __init__(self, name: str, n_learners: int, bounds: list[float], options: dict[str, Any]) -> None:
        cls, reference = RIVALS[name]
        if name in BOUNDED:
            self.selector = cls([Power(coefficient) for coefficient in bounds], **options)
            self.reference = reference(n_learners, bounds=bounds, **options)
        else:
            self.selector, self.reference = cls(n_learners, **options), reference(n_learners, **options)
        self.open: list[Any] = []

    def apply(self, event: str, number: int, skills: list[int]) -> None:
        if event == "choose":
            self.choose(number)
        elif self.open:
            choice, play = self.open.pop(number % len(self.open))
            if event == "withdraw":
                self.selector.withdraw(choice)
                self.reference.withdraw(play)
            else:
                level = min(max(skills[choice.learner] + number % 5 - 2, 0), STEPS)
                reward = self.reference.low + self.reference.width * level / STEPS
                self.selector.credit(choice, reward)
                self.reference.credit(play, reward)

    def choose(self, number: int) -> None:
        expected = self.reference.probabilities()
        assert math.fsum(expected) == pytest.approx(1.0, abs=1e-12)
        choice = self.selector.choose(np.random.default_rng(number))
        i = choice.learner
        if 1.0 in expected and not self.selector.randomized:
            first, values = expected.index(1.0), self.reference.values()
            # Values that are equal but for the last digits of other formulas are near ties, which either may break.
            rounding = 1e-12 * max(1.0, abs(values[first]))
            assert i == first or 0.0 < abs(values[i] - values[first]) <= rounding
        else:
            assert choice.probability == pytest.approx(expected[i], rel=1e-9)
        self.open.append((choice, self.reference.choose(i, expected[i])))


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
@settings(max_examples=25)
@given(st.data())
def test_the_selector_chooses_as_its_formula_says(name: str, data: st.DataObject) -> None:
    n_learners = data.draw(st.integers(1, 5))
    bounds = data.draw(st.lists(st.sampled_from([0.02, 0.1, 0.5, 2.0]), min_size=n_learners, max_size=n_learners))
    options = {
        "delta": data.draw(st.sampled_from([0.01, 0.3])),
        "reward_range": data.draw(st.sampled_from([(0.0, 1.0), (-2.0, 2.0), (-5.0, -4.0)])),
        # Narrow ones, so that something is disproved within a few rounds.
        "radius_scale": data.draw(st.sampled_from([1.0, 0.05, 0.01])),
        **(data.draw(OWN_SETTINGS[name](n_learners)) if name in OWN_SETTINGS else {}),
    }
    skills = data.draw(st.lists(st.integers(0, STEPS), min_size=n_learners, max_size=n_learners))
    run = Run(name, n_learners, bounds, options)
    for number in range(data.draw(st.integers(0, 60))):  # in order first, so that late rewards find a history
        run.apply("choose", number, skills)
        run.apply("credit", number, skills)
    for event, number in data.draw(st.lists(EVENTS, max_size=60)):
        run.apply(event, number, skills)
    assert [row.plays for row in run.selector.standing()] == [run.reference.plays(i) for i in run.reference.learners]
    if isinstance(run.reference, references.DynamicBalancingReference):
        assert run.selector.active == tuple(run.reference.active())
    if isinstance(run.reference, references.ExploreCommitExploitReference):
        assert run.selector.current == run.reference.current
        assert run.selector.active == tuple(range(run.reference.current, n_learners))
    if isinstance(run.reference, references.D3RBReference):
        found = [coefficient * run.reference.width for coefficient in run.selector.coefficients]
        assert found == pytest.approx(run.reference.coefficients, rel=1e-9)


@pytest.mark.parametrize(
    "selector",
    [Uniform(3), EXP3(3), RateAdaptive(3), ExploreCommitExploit([Power(9.0), Power(9.5), Power(10.0)])],
    ids=lambda selector: selector.name,
)
def test_random_learners_are_drawn_with_the_stated_probabilities(selector: Any) -> None:
    """Over an even grid of n random numbers a learner drawn with probability p is chosen in n p cases, and one more
    or less for each of at most four ends of intervals."""
    play(selector, [0.3, 0.6, 0.9], 40)
    n_draws, chosen = 3000, {0: 0, 1: 0, 2: 0}
    stated = {}
    for k in range(n_draws):
        choice = selector.choose(drawing((k + 0.5) / n_draws))
        stated[choice.learner] = choice.probability
        chosen[choice.learner] += 1
        selector.withdraw(choice)
    assert math.fsum(stated.values()) == pytest.approx(1.0, abs=1e-12)
    for i, n_chosen in chosen.items():
        assert abs(n_chosen - n_draws * stated[i]) <= 4


@given(st.lists(st.floats(0.0, 1.0), max_size=80), st.sampled_from([None, 100]), st.integers(1, 6))
def test_exp3_stays_on_the_simplex(rewards: list[float], rounds: int | None, n_learners: int) -> None:
    selector = EXP3(n_learners, rounds=rounds)
    for reward in rewards:
        selector.credit(selector.choose(), reward)
        assert math.fsum(selector.choice_probabilities()) == pytest.approx(1.0, abs=1e-12)
        assert min(selector.choice_probabilities()) > 0.0


def test_exp3_does_not_overflow_and_never_draws_what_has_no_weight() -> None:
    """A weight that underflows belongs to a learner that is never drawn, not even by the last of the numbers."""
    selector = EXP3(2, rounds=1)
    for loss in (1500.0, 0.0):
        selector.kernel_state.estimates[0 if loss else 1].loss_sum = loss
    assert selector.choice_probabilities() == (0.0, 1.0)
    assert [selector.choose(drawing(number)).learner for number in (0.0, 0.5, 1.0 - 2.0**-53)] == [1, 1, 1]


@given(st.lists(st.tuples(st.integers(0, STEPS), st.integers(0, STEPS), st.integers(0, STEPS)), max_size=100))
def test_d3rb_only_doubles_and_only_the_learner_that_played(levels: list[tuple[int, int, int]]) -> None:
    """Invariants of the algorithm: coefficients are d_min times powers of two; the potential of the chosen learner is
    least; hence n_i - 1 <= n_j (2 d_j / d_i)^2, the 2 for a coefficient that doubled with its last play."""
    selector = D3RB(3, d_min=0.1, radius_scale=0.05)
    for level in levels:
        before = selector.coefficients
        choice = selector.choose()
        selector.credit(choice, level[choice.learner] / STEPS)
        for i, (old, new) in enumerate(zip(before, selector.coefficients, strict=True)):
            assert new == old or (i == choice.learner and new == 2 * old)
        plays = [row.plays for row in selector.standing()]
        for i, own in enumerate(selector.coefficients):
            for j, other in enumerate(selector.coefficients):
                assert plays[j] == 0 or plays[i] - 1 <= plays[j] * (2 * other / own) ** 2 * (1 + 1e-9)


def test_d3rb_shares_rounds_in_inverse_proportion_to_squared_coefficients() -> None:
    selector = D3RB(2)
    play(selector, [0.0, 1.0], 4000)
    plays = [row.plays for row in selector.standing()]
    poor, good = selector.coefficients
    assert (poor / good) ** 2 >= 16
    assert plays[1] / plays[0] == pytest.approx((poor / good) ** 2, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, STEPS), st.integers(0, STEPS), st.integers(0, STEPS)), max_size=100))
def test_ed2rb_potentials_stay_within_a_factor_of_two(levels: list[tuple[int, int, int]]) -> None:
    """A potential never falls and at most doubles, and only that of the learner that played, which was the least."""
    selector = ED2RB(3, d_min=0.1, radius_scale=0.05)
    for level in levels:
        before = [balance.potential for balance in selector.kernel_state.balances]
        choice = selector.choose()
        selector.credit(choice, level[choice.learner] / STEPS)
        after = [balance.potential for balance in selector.kernel_state.balances]
        for i in range(3):
            assert before[i] <= after[i] <= 2 * before[i]
            assert after[i] == before[i] or i == choice.learner
        assert max(after) <= 2 * min(after)


def test_ed2rb_forgives_a_learner_that_starts_slow_and_d3rb_does_not() -> None:
    """Learner 0 earns nothing in its first 20 plays and then always the most, learner 1 always a half."""

    def course(selector: Any) -> list[float]:
        coefficients = []
        for _ in range(1500):
            choice = selector.choose()
            slow = 0.0 if choice.play <= 20 else 1.0
            selector.credit(choice, 0.5 if choice.learner else slow)
            coefficients.append(selector.coefficients[0])
        return coefficients

    estimated, doubled = (course(cls(2, d_min=0.25, radius_scale=0.1)) for cls in (ED2RB, D3RB))
    assert max(estimated) > 1.0 and estimated[-1] == 0.25
    assert max(doubled) >= 1.0 and doubled[-1] == max(doubled)


@given(st.lists(st.tuples(st.integers(0, STEPS), st.integers(0, STEPS)), min_size=2, max_size=80))
def test_regret_balancing_plays_nobody_whose_empirical_regret_exceeds_the_bound_in_force(
    levels: list[tuple[int, int]],
) -> None:
    """The learner that sets the optimistic value has its bound for empirical regret, and the one played has no more."""
    selector = RegretBalancing([Power(0.5), Power(1.5)])
    for level in levels:
        accounts = selector.evidence.accounts
        params, state, bounds = selector.params, selector.kernel_state, [account.booked_bound for account in accounts]
        regrets = [empirical_regret(params, state, i, optimistic_value(params, state)) for i in range(2)]
        unplayed = min(account.plays for account in accounts) == 0
        choice = selector.choose()
        if not unplayed:
            assert all(regret >= bound - 1e-9 for regret, bound in zip(regrets, bounds, strict=True))
            assert regrets[choice.learner] == min(regrets)
            assert min(regrets) <= max(bounds) + 1e-9
        selector.credit(choice, level[choice.learner] / STEPS)


@given(st.integers(1, 200))
def test_ucb1_index_is_mean_plus_width(n_rounds: int) -> None:
    selector = UCB1(2, reward_range=(-1.0, 1.0))
    play(selector, [0.3, 0.6], n_rounds)
    for index, row in zip(selector.indices, selector.standing(), strict=True):
        expected = math.inf
        if row.plays:
            expected = row.mean_reward + 2.0 * math.sqrt(math.log(n_rounds + 1) / (2 * row.plays))
        assert index == pytest.approx(expected, rel=1e-12)


def test_ucb1_has_the_published_index_at_exploration_4() -> None:
    selector = UCB1(2, exploration=4.0)
    play(selector, [0.3, 0.6], 50)
    for index, row in zip(selector.indices, selector.standing(), strict=True):
        assert index == pytest.approx(row.mean_reward + math.sqrt(2 * math.log(51) / row.plays), rel=1e-12)


def test_the_oracle_plays_the_best_alone() -> None:
    selector = Oracle(4, best=2)
    assert play(selector, [0.1, 0.2, 0.3, 0.4], 20) == [2] * 20
    assert (selector.active, selector.excluded) == ((2,), (0, 1, 3))


@given(st.integers(1, 5), st.lists(st.floats(0.0, 1.0), max_size=40), st.integers(0, 2**32))
def test_without_bounds_the_certificate_presumes_nothing(n_learners: int, rewards: list[float], seed: int) -> None:
    """Every learner has the bound w n, so the optimum may be as high as rewards can be, and nobody is eliminated."""
    low, width = -1.0, 3.0
    selector = Uniform(n_learners, reward_range=(low, low + width), seed=seed)
    reference = Rival(n_learners, (low, low + width))
    for reward in rewards:
        choice = selector.choose()
        selector.credit(choice, low + width * reward)
        reference.credit(reference.choose(0, 1.0), low + width * reward)  # as if one learner had played all rounds
    certificate, t = selector.certificate(), len(rewards)
    assert certificate.optimum_upper == low + width
    assert certificate.consistent and selector.eliminations == []
    pool = t * (low + width - reference.mean(0) + reference.mean_radius(0)) if t else 0.0
    assert 0.0 <= certificate.regret_upper <= min(width * t, pool) + 1e-9
    for row in selector.standing():
        assert math.isnan(row.mean_bound) if row.plays == 0 else row.mean_bound == pytest.approx(width)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(0), "n_learners is 0, but must be a whole number at least 1"),
        (lambda: Uniform(True), "n_learners is True, but must be a whole number at least 1"),
        (lambda: D3RB(2, d_min=0.0), "d_min is 0.0, but must be positive, at least 1e-100"),
        (lambda: ED2RB(2, d_min=-1.0), "d_min is -1.0, but must be positive, at least 1e-100"),
        (lambda: UCB1(2, exploration=0.0), "exploration is 0.0, but must be positive, at least 1e-100"),
        (lambda: EXP3(2, rounds=0), "rounds is 0, but must be a whole number at least 1"),
        (lambda: EXP3(2, seed=-1), "seed is -1, but must be a whole number from 0 to 18446744073709551615"),
        (lambda: Oracle(2, best=2), "best is 2, but must be a whole number from 0 to 1"),
        (lambda: RegretBalancing([]), "bounds is empty, but must have one bound per learner"),
        (
            lambda: DynamicBalancing([Power(1.0)], scales=[1.0, 2.0]),
            "scales is [1.0, 2.0], but must have one entry for each of 1 learners",
        ),
        (
            lambda: DynamicBalancing([Power(1.0)], biases=0.5),  # type: ignore[arg-type]  # that is what is refused
            "biases is 0.5, but must have one entry for each of 1 learners",
        ),
        (lambda: DynamicBalancing([Power(1.0)], scales=[0.0]), "scales is 0.0, but must be positive, at least 1e-100"),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert str(refusal.value) == message


def test_config_has_the_number_of_learners_in_place_of_bounds() -> None:
    config = Uniform(3, seed=8, delta=0.2).config()
    assert (config["n_learners"], config["seed"], "bounds" in config) == (3, 8, False)
    assert Uniform.from_config(config).config() == config
