"""Why a learner plays as it does, in words, for every selector; eliminations as records that can be verified."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.certificates.records import verify_file, verify_record
from equipoise.errors import UnknownName
from equipoise.learners import OFUL, Constant
from equipoise.selectors import (
    SELECTORS,
    AdversarialElimination,
    BalancedElimination,
    DynamicBalancing,
    Oracle,
    Uniform,
)
from tests.outside.own_selector import TurnsThenBest
from tests.selectors.subjects import SUBJECTS


def maker(cls: Any, learners: Any, options: dict[str, Any]) -> Any:
    return partial(cls, learners, **options)


MAKERS: dict[str, Any] = {
    f"{cls.__name__}-{k}": maker(cls, n, options)
    for k, (cls, n, options, _) in enumerate(SUBJECTS)
    if not cls.simulation_only
}
OWN: Any = partial(TurnsThenBest, 2)
MEANS = (0.2, 0.8, 0.5, 0.4, 0.6, 0.3)


def pool(selector: Any) -> list[Any]:
    if "nested" in selector.needs:
        return [OFUL(each.dim, noise=each.noise) for each in selector.classes]
    if "weight" in selector.needs or selector.observed:
        return [OFUL(1, noise=0.1) for _ in range(selector.traits.n_learners)]
    return [Constant(k) for k in range(selector.traits.n_learners)]


def played(make: Any, rounds: int = 60) -> Portfolio:
    selector = make()
    portfolio = Portfolio(pool(selector), selector)
    low, high = portfolio.reward_range or (0.0, 1.0)
    context = np.zeros((6, 16))
    context[:, 0] = np.linspace(0.2, 0.9, 6)
    for _ in range(rounds):
        decision = portfolio.decide(context)
        portfolio.learn(decision, low + (high - low) * MEANS[decision.action % 6])
    return portfolio


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_selector_is_explained_with_true_numbers(make: Any) -> None:
    portfolio = played(make)
    rows = portfolio.standing()
    rule = portfolio.selector.explanation
    total, chances = sum(row.plays for row in rows), portfolio.selector.choice_probabilities()
    for row, name in zip(rows, portfolio.learner_names, strict=True):
        text = portfolio.explain(name)
        assert "\n" not in text and "  " not in text and text.endswith(".")
        if row.plays:
            assert text.startswith(
                f"{name} has played {row.plays:,} of {total:,} rounds ({100 * row.plays / total:.1f} %)"
            )
        else:
            assert text.startswith(f"{name} has not played in {total:,} rounds.")
        if row.active:
            assert rule[1:] in text
        if row.active and portfolio.selector.randomized:
            assert f"In the next round it plays with probability {chances[row.learner]:.3g}." in text
        elif row.active:
            assert ("It plays the next round." in text) == (chances[row.learner] == 1.0)
    if not portfolio.selector.randomized:
        texts = {name: portfolio.explain(name) for name in portfolio.learner_names}
        decided = portfolio.decide(np.full((6, 16), 0.1)).learner_name
        assert decided is not None and "It plays the next round." in texts.pop(decided)
        active = [name for name, text in texts.items() if rule[1:] in text]
        assert all(texts[name].endswith(f"{decided} plays the next round.") for name in active)


def test_rules_are_sentences_of_their_own() -> None:
    rules = [cls.explanation for cls in SELECTORS.values()]
    assert all(rule[0].isupper() and rule.endswith(".") and 20 < len(rule) < 250 for rule in rules)
    assert len(set(rules)) >= len(rules) - 1  # the two corrals over weighted learners share theirs


def test_what_keeps_a_learner_from_playing_is_said() -> None:
    selector = BalancedElimination([Power(0.1), Power(0.1), Power(0.5), Power(0.5)])
    portfolio = Portfolio([Constant(k) for k in range(4)], selector)
    for _ in range(2_000):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.1, 0.9, 0.5, 0.5)[decision.action])
    portfolio.suspend("Constant(2)")
    portfolio.remove_learner("Constant(3)")
    (elimination,) = [each for each in selector.eliminations if each.learner.index == 0]
    assert f"It was eliminated in round {elimination.round:,}: if its bound held" in portfolio.explain("Constant(0)")
    assert "It is suspended by request" in portfolio.explain("Constant(2)")
    assert "It was removed" in portfolio.explain("Constant(3)")
    assert "It plays the next round." in portfolio.explain("Constant(1)")
    with pytest.raises(UnknownName, match="Constant"):
        portfolio.explain("Constant(9)")


def test_a_learner_that_may_come_back_is_not_called_eliminated() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], DynamicBalancing([Power(0.1), Power(0.1)]))
    for _ in range(2_000):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.1, 0.9)[decision.action])
    assert portfolio.selector.active == (1,)
    text = portfolio.explain("Constant(0)")
    assert "It becomes active again if that changes." in text and "eliminated" not in text


def test_selectors_of_users_are_explained_as_far_as_they_say_something() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], OWN())
    portfolio.learn(portfolio.decide(None), 0.5)
    assert "TurnsThenBest does not say how it chooses." in portfolio.explain("Constant(0)")


def test_records_of_a_live_portfolio_are_verified(tmp_path: Path) -> None:
    portfolio = played(partial(BalancedElimination, [Power(0.1), Power(0.1), Power(5.0)]), 3_000)
    records = portfolio.records(tmp_path / "eliminations.jsonl")
    assert len(records) == len(portfolio.selector.eliminations) > 0
    assert verify_file(tmp_path / "eliminations.jsonl") == (len(records), [])
    forged = {**records[0], "round": records[0]["round"] + 1}
    (tmp_path / "forged.jsonl").write_text(json.dumps(forged) + "\n")
    assert verify_file(tmp_path / "forged.jsonl")[1] and verify_record(forged)
    assert Portfolio([Constant(0)], Uniform(1)).records() == [] == played(partial(Oracle, 2, best=1)).records()
    assert Portfolio([Constant(0), Constant(1)], OWN()).records() == []


def test_records_of_epochs_are_verified() -> None:
    """The first of two nested classes does not see the feature that rewards depend on."""
    learners = [OFUL(1, noise=0.01), OFUL(4, noise=0.01)]
    portfolio = Portfolio(learners, AdversarialElimination.for_learners(learners))
    context = np.array([[0.5, 0.0, 0.0, 0.0], [0.5, 0.8, 0.0, 0.0]])
    for _ in range(1_500):
        decision = portfolio.decide(context)
        portfolio.learn(decision, (0.1, 0.9)[decision.action])
    (record,) = portfolio.records()
    assert verify_record(record) == []
    assert "if all active classes contained the rewards" in portfolio.explain("OFUL(d=1)")


def test_records_of_learners_that_joined_later_and_of_pairs_are_verified(tmp_path: Path) -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], BalancedElimination([Power(0.1), Power(0.1)]))
    portfolio.add_learner(Constant(2), bound=Power(0.1))
    for _ in range(3_000):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.5, 0.9, 0.1)[decision.action])
    pairs = [("Constant(0)", "Constant(1)"), ("Constant(1)", "Constant(2)")]
    records = portfolio.records(tmp_path / "records.jsonl", pairs=pairs)
    assert 2 in {each.learner.index for each in portfolio.selector.eliminations}
    assert len(records) == len(portfolio.selector.eliminations) + len(pairs)
    assert verify_file(tmp_path / "records.jsonl") == (len(records), [])
    with pytest.raises(UnknownName):
        portfolio.records(tmp_path / "none.jsonl", pairs=[("Constant(0)", "nobody")])
    assert not (tmp_path / "none.jsonl").exists()
