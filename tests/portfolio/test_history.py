"""The history of a portfolio is bounded, saved and foldable; its marks say what happened and why."""

import sys
from itertools import pairwise
from math import inf, isnan, log
from pathlib import Path
from typing import Any

import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.learners import UCB, Constant
from equipoise.portfolio.statements import MAX_MARKS, MAX_NUMBERS, RATIO, History
from equipoise.selectors import BalancedElimination, RealizedBalancing, Uniform
from tests.recorders import Recorder

LIMIT = 100_000  # bytes


def size(value: Any) -> int:
    """Bytes of a value and of everything in it."""
    own = sys.getsizeof(value)
    if isinstance(value, list | tuple):
        return own + sum(map(size, value))
    return own + (sum(map(size, vars(value).values())) if hasattr(value, "__dict__") else 0)


def eliminating(**options: Any) -> Portfolio:
    selector = BalancedElimination([Power(0.1), Power(0.1), Power(0.5)])
    return Portfolio([Constant(k) for k in range(3)], selector, **options)


def play(portfolio: Portfolio, rounds: int) -> None:
    for _ in range(rounds):
        decision = portfolio.decide(None)
        portfolio.learn(decision, (0.1, 0.9, 0.5)[decision.action])


def test_samples_are_what_the_portfolio_said_in_these_rounds() -> None:
    portfolio, said = eliminating(), {}
    for _ in range(400):
        decision = portfolio.decide(None)
        certificate = portfolio.certificate()
        said[portfolio.health()["rounds"]] = (
            (certificate.optimum_lower, certificate.optimum_upper),
            (certificate.regret_lower, certificate.regret_upper),
            tuple(row.plays for row in portfolio.standing()),
        )
        portfolio.learn(decision, (0.1, 0.9, 0.5)[decision.action])
    samples = portfolio.history.samples
    assert len(samples) > 20
    for sample in samples:
        assert (sample.optimum, sample.regret, sample.plays) == said[sample.round]
    rounds = [sample.round for sample in samples]
    assert rounds[:6] == [1, 2, 3, 4, 5, 6]
    assert all(later <= max(earlier + 1, RATIO * earlier + 1) for earlier, later in pairwise(rounds))
    assert all(isnan(mean) or 0.0 <= mean <= 1.0 for sample in samples for mean in sample.mean_rewards)


@pytest.mark.parametrize("n_learners", [1, 10, 300])
def test_the_history_is_bounded(n_learners: int) -> None:
    """Up to 10^12 rounds, with the standing of a small run, and with many long marks."""
    portfolio = Portfolio([Constant(0) for _ in range(n_learners)], Uniform(n_learners))
    rows, certificate = portfolio.selector.standing(), portfolio.certificate()
    history = History()
    taken, round_ = 0, 1
    while round_ < 10**12:
        history.sample(round_, rows, certificate)
        history.mark(round_, "learner_suspended", {"name": "x" * 20 + str(round_), "error": "e" * 1_000})
        taken, round_ = taken + 1, int(history.next_round)
    for k in range(2 * MAX_MARKS):
        history.mark(k, "learner_resumed", {"name": f"learner {k}", "reason": "r" * 500})
    assert taken <= log(10**12) / log(RATIO) + 20
    assert size(history) <= LIMIT
    assert 2 <= len(history.samples) <= MAX_NUMBERS and len(history.marks) == MAX_MARKS
    rounds = [sample.round for sample in history.samples]
    assert rounds == sorted(set(rounds)) and rounds[-1] > 10**10


def test_marks_have_reasons() -> None:
    portfolio = eliminating()
    play(portfolio, 2_000)
    portfolio.suspend("Constant(2)")
    portfolio.resume("Constant(2)")
    portfolio.rename_learner("Constant(2)", "third")
    kinds = [mark.kind for mark in portfolio.history.marks]
    assert kinds[-3:] == ["learner_suspended", "learner_resumed", "learner_renamed"]
    assert {mark.name for mark in portfolio.history.marks[-3:]} == {"third"}
    (elimination,) = [each for each in portfolio.selector.eliminations if each.learner.index == 0]
    mark = portfolio.history.marks[0]
    assert (mark.kind, mark.name, mark.round) == ("eliminated", "Constant(0)", elimination.round)
    upper, lower = elimination.learner.mean_upper, elimination.witness.mean_lower
    assert upper < lower and f"at most {upper:.4g}" in mark.reason and f"at least {lower:.4g}" in mark.reason
    assert portfolio.history.marks[-3].reason == "by request"


def test_a_learner_that_fails_is_marked_with_its_error() -> None:
    failing = Recorder()
    failing.decide = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    portfolio = Portfolio([failing, Constant(0)], Uniform(2))
    for _ in range(30):
        portfolio.learn(portfolio.decide(None), 0.5)
    marks = portfolio.history.marks
    assert marks and all("ZeroDivisionError" in mark.reason for mark in marks)
    assert all(mark.until is not None and mark.until > mark.round for mark in marks)


def test_the_history_is_saved_and_folded(tmp_path: Path) -> None:
    events: list[Any] = []
    portfolio = eliminating()
    portfolio.on_event(events.append)
    play(portfolio, 500)
    portfolio.save(tmp_path / "file")
    loaded, twin = Portfolio.load(tmp_path / "file"), eliminating()
    for event in events:
        twin.apply(event)
    for other in (loaded, twin):
        assert repr(other.history.samples) == repr(portfolio.history.samples)
        assert other.history.marks == portfolio.history.marks
        assert other.history.next_round == portfolio.history.next_round
    play(loaded, 500)
    play(portfolio, 500)
    assert repr(loaded.history.samples) == repr(portfolio.history.samples)


def test_a_new_history_can_be_saved(tmp_path: Path) -> None:
    Portfolio([UCB(2)]).save(tmp_path / "file")
    history = Portfolio.load(tmp_path / "file").history
    assert (history.samples, history.marks, history.lowest, history.next_round) == ((), [], inf, 1)
    assert repr(history) == "History(0 samples up to round 0, 0 marks)"


def test_a_selector_that_cannot_state_anything_does_not_stop_the_portfolio(caplog: pytest.LogCaptureFixture) -> None:
    portfolio = Portfolio([UCB(2), UCB(2)], RealizedBalancing(2))
    portfolio.selector.certificate = lambda: 1 / 0
    for _ in range(5):
        portfolio.learn(portfolio.decide(None), 0.5)
    assert portfolio.history.samples == () and sum("history ends" in text for text in caplog.messages) == 1
