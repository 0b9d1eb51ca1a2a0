"""The live certificate in words and JSON, and what would have to happen for the next elimination."""

import json
from typing import Any

import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.confidence import radius_sum
from equipoise.learner import Proposal
from equipoise.learners import Constant
from equipoise.selectors import BalancedElimination

MEANS = (0.2, 0.8, 0.75)


def played(bounds: list[Any], rounds: int, means: tuple[float, ...] = MEANS, **settings: Any) -> BalancedElimination:
    """A selector whose learners always earn their mean, and report a tenth of it as regret."""
    selector = BalancedElimination(bounds, **settings)
    for _ in range(rounds):
        play(selector, means)
    return selector


def play(selector: BalancedElimination, means: tuple[float, ...]) -> None:
    choice = selector.choose()
    selector.observe(choice, {choice.learner: Proposal(0, regret=0.1)})
    selector.credit(choice, means[choice.learner])


@pytest.mark.parametrize("coefficient", [0.5, 2.0])
def test_prediction_comes_true_where_shares_and_means_stay(coefficient: float) -> None:
    """Equal bounds give equal shares, and rewards are their means: then the elimination comes when foretold."""
    selector = played([Power(coefficient)] * 3, 60)
    outlook = selector.certificate().next_elimination
    assert outlook is not None
    assert (outlook.learner, outlook.witness) == (0, 1)
    while not selector.eliminations:
        play(selector, MEANS)
    assert selector.eliminations[0].learner.index == 0
    assert selector.eliminations[0].round == pytest.approx(60 + outlook.rounds, abs=6)
    assert selector.eliminations[0].learner.plays == pytest.approx(20 + outlook.plays, abs=3)


def test_prediction_uses_the_radius_of_each_side() -> None:
    """With the two-sided radius of the pool it once came four times too late for rewards that do not vary."""
    selector = BalancedElimination([Power(0.5)] * 2, radius="bernstein")
    rounds, predicted = 0, None
    while not selector.eliminations:
        choice = selector.choose()
        selector.credit(choice, (0.3, 0.7)[choice.learner])
        rounds += 1
        predicted = selector.certificate().next_elimination if rounds == 60 else predicted
    assert predicted is not None and predicted.learner == 0
    assert rounds - 60 == pytest.approx(predicted.rounds, abs=2)


def test_no_elimination_is_in_sight_where_means_are_equal_or_one_is_left() -> None:
    assert played([Power(1.0)] * 2, 50, (0.5, 0.5)).certificate().next_elimination is None
    selector = played([Power(0.5)] * 2, 3000, (0.1, 0.9))
    assert len(selector.active) == 1
    assert selector.certificate().next_elimination is None
    assert BalancedElimination([Power(1.0)] * 2).certificate().next_elimination is None


def test_observed_bounds_go_on_as_the_root_of_plays() -> None:
    selector = played([Observed(), Observed()], 100, (0.3, 0.9))
    outlook = selector.certificate().next_elimination
    assert outlook is not None
    row, witness = selector.standing()[0], selector.standing()[1]
    n = 50 + outlook.plays
    rule = selector.confidence.radius

    upper = row.mean_reward + (row.mean_bound * 50 * (n / 50) ** 0.5 + radius_sum(rule, n)) / n
    assert upper == pytest.approx(witness.mean_reward - radius_sum(rule, n) / n, abs=2e-2)


def test_portfolio_says_it_in_words_and_json() -> None:
    portfolio = Portfolio([Constant(0), Constant(1, name="good")], BalancedElimination([Power(0.5)] * 2))
    empty = portfolio.to_json()
    assert empty["certificate"]["next_elimination"] is None
    assert empty["standing"][0]["mean_reward"] is None
    for _ in range(150):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.2, 0.8)[decision.action])
    words, data = portfolio.describe(), portfolio.to_json()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    outlook = data["certificate"]["next_elimination"]
    assert (
        f"If mean rewards stay as they are, Constant(0) would be eliminated on the evidence of good after "
        f"{outlook['plays']} more plays" in words
    )
    assert f"in about {outlook['rounds']} rounds" in words
    assert "good: 75 plays, mean reward 0.8. With confidence 0.95, the best expected reward is at least" in words
    while len(portfolio.selector.active) == 2:
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.2, 0.8)[decision.action])
    for _ in range(400):
        decision = portfolio.decide(None)
        portfolio.learn(decision, 0.8)
    waiting = portfolio.decide(None)
    words = portfolio.describe()
    assert "If mean rewards stay" not in words
    assert "eliminated, mean reward 0.2" in words and "(1 without a reward)" in words
    assert "its own regret is at least" in words
    assert portfolio.certificate().learner_regret_lowers[0] > 0
    portfolio.learn(waiting, 0.8)


def test_voided_certificates_say_nothing_of_losses() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], BalancedElimination([Power(0.5)] * 2, radius_scale=0.1))
    for _ in range(200):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.2, 0.8)[decision.action])
    assert portfolio.describe().startswith("No statement")
    assert "regret" not in portfolio.describe()
