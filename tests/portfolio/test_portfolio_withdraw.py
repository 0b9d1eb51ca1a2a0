"""Taking back a decision whose round did not happen: as if it had never been made, whatever waited for it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.learners import Constant
from equipoise.learners._core.trajectory import Trajectory
from equipoise.selectors import BalancedElimination
from tests.recorders import nth, number, player, recorders, rewards_of, saved

EVENTS = st.lists(
    st.tuples(st.sampled_from(["decide"] * 3 + ["learn"] * 2 + ["withdraw"]), st.integers(0, 99)), max_size=60
)


@given(EVENTS, st.sampled_from([Power(1.0), Observed()]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_only_rounds_that_happened_are_learned_and_counted(events: Any, bound: Any, share_data: bool) -> None:
    """Against a list of what happened: with observed bounds learned in the order of the rounds that were not taken
    back, each by its own learner or, with shared data, by all."""
    portfolio = recorders(2, bound, share_data=share_data)
    chosen: dict[str, int | None] = {}
    rewards: dict[str, float] = {}
    arrived: list[str] = []
    for event, which in events:
        waiting = [id_ for id_ in chosen if id_ not in rewards]
        if event == "decide":
            decision = portfolio.decide(None)
            chosen[decision.id] = decision.learner
        elif waiting and event == "learn":
            id_ = waiting[which % len(waiting)]
            rewards[id_] = which / 99
            arrived.append(id_)
            portfolio.learn(id_, rewards[id_])
        elif waiting:
            id_ = waiting[which % len(waiting)]
            del chosen[id_]
            portfolio.withdraw(id_)
    assert portfolio.pending == tuple(id_ for id_ in chosen if id_ not in rewards)
    for i, learned in enumerate(rewards_of(portfolio)):
        updates = [id_ for id_ in chosen if share_data or chosen[id_] == i]
        if bound == Observed():
            resolved = [id_ in rewards for id_ in updates]
            expected = updates[: resolved.index(False)] if False in resolved else updates
        else:
            expected = [id_ for id_ in arrived if id_ in updates]
        assert learned == [rewards[id_] for id_ in expected]
    plays = [list(chosen.values()).count(i) for i in range(2)]
    assert [row.plays for row in portfolio.standing()] == plays


@pytest.mark.parametrize("bound", [Power(1.0), Observed()])
def test_the_newest_decision_leaves_no_trace_but_its_number(bound: Any) -> None:
    portfolio, undisturbed = recorders(2, bound), recorders(2, bound)
    for t in range(5):
        portfolio.learn(portfolio.decide(t), 0.5)
        undisturbed.learn(undisturbed.decide(t), 0.5)
    decision = portfolio.decide("refused")
    portfolio.withdraw(decision)
    for one, other in zip(
        (*portfolio.learners, portfolio.selector), (*undisturbed.learners, undisturbed.selector), strict=True
    ):
        old, new = one.state(), other.state()
        assert all(np.array_equal(old[name], new[name], equal_nan=True) for name in old)
    following = portfolio.decide(6)
    assert number(following.id) == number(decision.id) + 1 and following.learner == decision.learner


def test_a_withdrawn_decision_is_closed_for_good() -> None:
    portfolio = recorders()
    decision = portfolio.decide(None)
    portfolio.withdraw(decision.id)
    before = saved(portfolio)
    for call in (lambda: portfolio.learn(decision, 0.5), lambda: portfolio.withdraw(decision)):
        with pytest.raises(UnknownDecision, match=r"-1 already has its reward, was withdrawn or is past its deadline$"):
            call()
    with pytest.raises(UnknownDecision, match=r"-7 was never made, or was made before"):
        portfolio.withdraw(nth(portfolio, 7))
    with pytest.raises(InvalidArgument, match=r"^decision is 1.5, but must be a Decision or its id$"):
        portfolio.withdraw(1.5)  # type: ignore[arg-type]
    assert saved(portfolio) == before


def test_a_decision_past_its_deadline_was_booked_and_is_not_withdrawn() -> None:
    portfolio = recorders(1, deadline=1, default_reward=0.0)
    for _ in range(3):
        portfolio.decide(None)
    with pytest.raises(UnknownDecision, match=r"-1 already has its reward"):
        portfolio.withdraw(nth(portfolio, 1))


def test_a_learner_that_fails_over_what_waited_loses_that_update_only() -> None:
    portfolio = recorders(1, Observed())
    first, second, third = (portfolio.decide(t) for t in range(3))
    portfolio.learn(second, 0.2)
    portfolio.learners[0].failures["learn"] = 1
    portfolio.withdraw(first)
    assert portfolio.pending == (third.id,) and rewards_of(portfolio) == [[]]
    portfolio.learn(third, 0.3)
    assert rewards_of(portfolio) == [[0.3]]
    assert portfolio.retry_updates() == 1
    assert rewards_of(portfolio) == [[0.3, 0.2]]


def test_an_elimination_that_waited_for_the_withdrawn_round_is_announced() -> None:
    """The first play of a learner that earns nothing stays open; without it the rest disproves the learner's bound."""
    portfolio = Portfolio([Constant(0), Constant(1)], BalancedElimination([Power(0.1)] * 2))
    announced: list[Any] = []
    portfolio.on_elimination(announced.append)
    held = portfolio.decide(None)
    assert held.learner == 0
    for _ in range(600):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(player(decision)))
    assert announced == []
    portfolio.withdraw(held)
    assert [elimination.learner.index for elimination in announced] == [0]


def test_an_episode_that_waits_for_an_earlier_one_is_saved(tmp_path: Any) -> None:
    portfolio = recorders(1, Observed())
    first, second = portfolio.decide(None), portfolio.decide(None)
    portfolio.learn(second, 0.5, outcome=Trajectory([0], [1], [0.5]))
    portfolio.save(tmp_path / "portfolio")
    other = Portfolio.load(tmp_path / "portfolio", learners=recorders(1).learners)
    other.learn(first, 0.25)
    assert other.learners[0].updates[-1] == (None, ([0], [1], [0.5]), 0.5)
