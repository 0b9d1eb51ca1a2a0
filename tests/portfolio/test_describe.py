"""What portfolios, certificates and standings say in sentences: only what was given, what is possible, and how sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Certificate, Portfolio, Standing
from equipoise.bounds import Observed, Power
from equipoise.certificates.records import describe_elimination, verify_record
from equipoise.certificates.wording import at_least, at_most, confidence_text, total_at_least, total_at_most
from equipoise.learner import unique_names
from equipoise.learners import OFUL, Constant
from equipoise.selectors import (
    D3RB,
    ED2RB,
    UCB1,
    AdversarialElimination,
    BalancedElimination,
    DynamicBalancing,
    EpochBalancing,
    RealizedBalancing,
    Uniform,
)
from tests.recorders import player

WITHOUT_BOUNDS: list[Any] = [RealizedBalancing, UCB1, D3RB, ED2RB, Uniform]


def played(selector: Any, rounds: int = 200, means: tuple[float, float] = (0.2, 0.8)) -> Portfolio:
    portfolio = Portfolio([Constant(0), Constant(0)], selector)
    for _ in range(rounds):
        decision = portfolio.decide(None)
        portfolio.learn(decision, means[player(decision)])
    return portfolio


@pytest.mark.parametrize("make", WITHOUT_BOUNDS)
def test_nothing_is_said_of_bounds_that_were_not_given(make: Any) -> None:
    portfolio = played(make(2))
    assert not portfolio.certificate().assumes_bounds
    assert not re.search(r"\bbounds?\b", portfolio.describe())


def test_what_rests_on_bounds_says_so() -> None:
    portfolio = played(BalancedElimination([Power(0.5)] * 2), 80)
    certificate, *learners = portfolio.describe().splitlines()
    assert certificate.startswith("With confidence 0.95, if the bound of some active learner holds, the best expected")
    assert any("if the bound of this learner holds" in line for line in learners)
    assert played(RealizedBalancing(2, bounds=[Power(0.5)] * 2)).certificate().assumes_bounds


def test_under_adversarial_contexts_the_presumption_is_that_of_the_classes() -> None:
    learners = [OFUL(2), OFUL(3)]
    certificate = Portfolio(learners, EpochBalancing.for_learners(learners)).certificate()
    names = ["two", "three"]
    assert certificate.describe(names).startswith(
        "With confidence 0.94, if the class of three contains the true model, the best expected reward, averaged"
    )
    assert replace(certificate, consistent=False).describe(names) == (
        "With confidence 0.94, the class of three, which contains all others, lacks the true model: the rewards "
        "contradict it."
    )


def test_an_adversarial_certificate_presumes_the_last_class_and_says_so() -> None:
    """Action (0, 0) pays 1 and (0, 1) pays 0. No linear model of two features has that: the certificate of OFUL(1) and
    OFUL(2) is below the true regret, although OFUL(1), which sees two equal actions and takes the first, has none."""
    learners = [OFUL(1), OFUL(2)]
    portfolio = Portfolio(learners, EpochBalancing.for_learners(learners))
    offers, regret = np.array([[0.0, 0.0], [0.0, 1.0]]), {"OFUL(d=1)": 0.0, "OFUL(d=2)": 0.0}
    for _ in range(400):
        decision = portfolio.decide(offers)
        regret[str(decision.learner_name)] += float(decision.action)
        portfolio.learn(decision, 1.0 - float(decision.action))
    certificate = portfolio.certificate()
    assert certificate.regret_upper < sum(regret.values())
    assert regret["OFUL(d=1)"] == 0.0 and 0 in portfolio.selector.active
    assert certificate.presumed == 1
    assert "if the class of OFUL(d=2) contains the true model" in portfolio.describe()
    assert "some active learner" not in portfolio.describe()


@pytest.mark.parametrize("rounds", [1, 2, 5, 30, 200])
@pytest.mark.parametrize("make", [*WITHOUT_BOUNDS, lambda n: BalancedElimination([Power(0.5)] * n)])
def test_no_reward_outside_the_range_is_printed(make: Any, rounds: int) -> None:
    text = played(make(2), rounds).describe()
    rewards = re.findall(r"expected reward is at (?:least|most) (-?\d+(?:\.\d+)?)", text)
    rewards += re.findall(r"and at most (-?\d+(?:\.\d+)?) if the bound", text)
    rewards += [end for pair in re.findall(r"lies in \[(-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?)\]", text) for end in pair]
    assert rewards and all(0.0 <= float(reward) <= 1.0 for reward in rewards)


@pytest.mark.parametrize("make", [*WITHOUT_BOUNDS, lambda n: BalancedElimination([Power(0.5)] * n)])
def test_every_proved_sentence_has_its_confidence(make: Any) -> None:
    for line in played(make(2)).describe().splitlines():
        for sentence in re.split(r"(?<=\.) (?=[A-Z])", line):
            proved = "at least" in sentence or "at most" in sentence or "lies in" in sentence
            assert "With confidence 0.95" in sentence or not proved, sentence


def test_a_standing_alone_states_facts_only() -> None:
    row = Standing(0, 75, 3, 0.8, 0.3, 1.0, 0.5, 2.1, active=True)
    assert row.describe("good") == "good: 75 plays (3 without a reward), mean reward 0.8."
    assert row._replace(active=False, pending=0).describe("good") == "good: 75 plays, inactive, mean reward 0.8."
    assert row._replace(plays=1, pending=1, mean_reward=float("nan")).describe("a") == "a: 1 play (1 without a reward)."


CERTIFICATE = Certificate(
    rounds=1,
    resolved_rounds=1,
    optimum_lower=0.25,
    optimum_upper=1.0,
    regret_lower=0.0,
    regret_upper=1.0,
    learner_regret_lowers=(0.0,),
    delta=0.05,
    learners_delta=0.0,
    consistent=True,
    valid=True,
)


def test_a_certificate_in_sentences() -> None:
    assert CERTIFICATE.describe() == (
        "With confidence 0.95, the best expected reward lies in [0.25, 1] and the total regret of 1 round is at least "
        "0 and at most 1."
    )
    assert replace(CERTIFICATE, valid=False).describe() == (
        "No statement: radius_scale is below 1, and a narrowed radius proves nothing."
    )
    assert replace(CERTIFICATE, consistent=False, assumes_bounds=True).describe() == (
        "With confidence 0.95, the bounds of all active learners are false: the rewards contradict them."
    )
    presuming = replace(CERTIFICATE, adversarial=True, presumed=0, learners_delta=0.95)
    assert presuming.describe(["a"]) == (
        "No statement: the failure probabilities of the selector and of a add up to 1 or more (0.05 + 0.95)."
    )


def test_a_statement_that_presumes_a_bound_subtracts_nothing_for_it() -> None:
    """A hundred learners once gave "With confidence -0.05"."""
    learners = [OFUL(2, delta=0.01) for _ in range(100)]
    text = Portfolio(learners, BalancedElimination([Observed()] * 100)).describe()
    assert text.startswith("With confidence 0.95, if the bound of some active learner holds")


@pytest.mark.parametrize(
    ("failure", "text"), [(0.05, "0.95"), (0.00004, "0.99996"), (0.5, "0.5"), (1e-9, "1 − 1e-09"), (0.99999, "1e-05")]
)
def test_a_confidence_is_never_rounded_up_to_certainty(failure: float, text: str) -> None:
    assert confidence_text(failure) == text


@given(st.floats(1e-6, 1.0, exclude_max=True))
def test_a_stated_confidence_is_at_most_the_proved_one(failure: float) -> None:
    stated = float(confidence_text(failure))
    assert 0.0 <= stated <= 1 - failure + 1e-9
    assert stated >= 1 - failure - max(1e-4, failure)


def test_equal_names_are_told_apart() -> None:
    assert unique_names(["a", "b", "a", "a"]) == ("a", "b", "a (2)", "a (3)")
    assert unique_names(["a", "a (2)", "a"]) == ("a", "a (2)", "a (3)")
    assert unique_names([]) == ()
    portfolio = played(Uniform(2), 60)
    assert portfolio.learner_names == ("Constant(0)", "Constant(0) (2)")
    assert {portfolio.decide(None).learner_name for _ in range(50)} == set(portfolio.learner_names)
    lines = portfolio.describe().splitlines()
    assert lines[1].startswith("Constant(0): ") and lines[2].startswith("Constant(0) (2): ")
    assert [row["name"] for row in portfolio.to_json()["standing"]] == list(portfolio.learner_names)


def test_the_forecast_names_the_learners_apart() -> None:
    text = played(BalancedElimination([Power(0.5)] * 2), 150).describe()
    assert re.search(
        r"If mean rewards stay as they are, Constant\(0\) would be eliminated on the evidence of Constant\(0\) \(2\) "
        r"after \d+ more plays, in about \d+ rounds\.",
        text,
    )


def coins(portfolio: Portfolio, rounds: int, means: tuple[float, ...], seed: int = 0) -> Portfolio:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < means[decision.action]))
    return portfolio


@given(st.floats(-1e6, 1e6, allow_subnormal=False))
def test_bounds_are_rounded_so_that_they_stay_true(value: float) -> None:
    for least, most in ((at_least, at_most), (total_at_least, total_at_most)):
        slack = 1e-9 * max(abs(value), 1e-9)
        assert float(least(value).replace(",", "")) <= value + slack
        assert float(most(value).replace(",", "")) >= value - slack
        assert least(value) != "-0"


def test_no_statement_has_a_confidence_below_zero() -> None:
    """Learners that are added late add their shares to delta; once comparisons said "With confidence -0.08"."""
    selector = BalancedElimination([Power(0.1)] * 2, delta=0.6)
    portfolio = coins(Portfolio([Constant(0), Constant(1)], selector), 200, (0.0, 1.0))
    for k in range(4):
        portfolio.add_learner(Constant(1, name=f"late {k}"), bound=Power(0.1))
    coins(portfolio, 200, (0.0, 1.0))
    assert portfolio.certificate().delta > 1.0
    comparison = portfolio.compare(1, 2).describe(portfolio.learner_names)
    assert comparison == "No statement: the failure probabilities add up to 1 or more (1.08)."
    assert portfolio.describe().startswith("No statement: the failure probabilities add up to 1 or more (1.08).")
    records = portfolio.records(pairs=[("Constant(1)", "late 0")])
    assert "without confidence (failure probabilities add up to 1.08)" in describe_elimination(records[0])
    assert all("confidence -" not in describe_elimination(record) for record in records)


def test_the_record_of_a_comparison_with_a_late_learner_is_a_sentence_too() -> None:
    portfolio = coins(Portfolio([Constant(0), Constant(1)], BalancedElimination([Power(1.0)] * 2)), 50, (0.2, 0.8))
    portfolio.add_learner(Constant(1, name="late"), bound=Power(1.0))
    coins(portfolio, 100, (0.2, 0.8))
    (record,) = portfolio.records(pairs=[("Constant(0)", "late")])
    assert verify_record(record) == []
    assert describe_elimination(record) == portfolio.compare("Constant(0)", "late").describe(portfolio.learner_names)


def test_only_what_was_eliminated_is_called_eliminated() -> None:
    """A learner outside of the active set of dynamic balancing may return; one that is never played was not tested."""
    dynamic = Portfolio([Constant(0), Constant(1)], DynamicBalancing([Power(0.01), Power(0.02)]))
    coins(dynamic, 400, (0.0, 1.0))
    assert dynamic.health()["learners"][0]["state"] == "inactive"
    assert "plays, inactive, mean reward 0." in dynamic.describe() and "eliminated" not in dynamic.describe()
    learners = [OFUL(dim) for dim in (2, 3, 4)]
    nested = Portfolio(learners, AdversarialElimination.for_learners(learners))
    assert nested.health()["learners"][1]["state"] == "excluded"
    assert "OFUL(d=3): 0 plays, never played." in nested.describe()


def test_rewards_that_wait_are_not_called_missing() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], RealizedBalancing(2))
    decisions = [portfolio.decide(None) for _ in range(12)]
    for decision in (*decisions[:2], *decisions[4:]):
        portfolio.learn(decision, 1.0)
    text = portfolio.compare(0, 1).describe(portfolio.learner_names)
    assert "without a reward" not in text and "its 1 play (5 more do not count)" in text


@pytest.mark.parametrize(
    ("settings", "rewards"),
    [
        ({"clip": True}, "rewards clipped to [0, 1]"),
        ({"deadline": 2, "default_reward": 0.25}, "rewards, with 0.25 where none came before the deadline"),
        (
            {"deadline": 2, "default_reward": 0.0, "aggregate": "sum"},
            "sums of rewards, with 0 where none came before the deadline",
        ),
        (
            {"deadline": 2, "default_reward": 0.0, "aggregate": "sum", "clip": True},
            "sums of rewards clipped to [0, 1], with 0 where none came before the deadline",
        ),
        ({}, ""),
    ],
)
def test_statements_say_what_was_made_of_the_rewards(settings: dict[str, Any], rewards: str) -> None:
    """A learner that is paid late, or beyond the range, looks poor in what counts: the sentences say what counts."""
    selector = BalancedElimination([Power(0.01)] * 2)
    portfolio = Portfolio([Constant(0), Constant(1)], selector, reward_range=(0, 1), **settings)
    for _ in range(400):
        decision = portfolio.decide(None)
        if decision.action or "deadline" not in settings:
            key = "only" if "aggregate" in settings else None
            portfolio.learn(decision, float(decision.action), key=key)
    (record, comparison) = portfolio.records(pairs=[("Constant(0)", "Constant(1)")])
    assert verify_record(record) == verify_record(comparison) == []
    about = f"This is about {rewards}."
    texts = [describe_elimination(record), describe_elimination(comparison)]
    texts.append(portfolio.compare(0, 1).describe(portfolio.learner_names))
    assert [about in text for text in texts] == [bool(rewards)] * 3
    assert (f"All of this is about {rewards}" in portfolio.describe()) is bool(rewards)


def test_rounds_that_nobody_played_count_in_the_round_of_an_elimination(tmp_path: Any) -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], BalancedElimination([Power(0.1)] * 2), fallback=0)
    for _ in range(100):
        portfolio.learn(portfolio.decide(None, available=[]), 0.5)
    while not portfolio.selector.eliminations:
        coins(portfolio, 1, (0.0, 1.0))
    rounds = portfolio.certificate().rounds
    assert rounds > 100 and portfolio.selector.eliminations[0].round == rounds
    assert f"of {rounds} rounds" in portfolio.explain("Constant(0)")
    portfolio.save(tmp_path / "saved")
    assert Portfolio.load(tmp_path / "saved").selector.eliminations == portfolio.selector.eliminations
