"""What a portfolio refuses, and what it promises when a learner fails in mid-round: nothing has changed."""

from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Decision, Portfolio
from equipoise.bounds import Custom, Observed, Power
from equipoise.errors import DuplicateReward, IncompatibleLearner, InvalidArgument, NoLearnerAvailable, UnknownDecision
from equipoise.learners import OFUL, EpsilonGreedy, LinearThompson
from equipoise.selectors import BalancedElimination
from equipoise.storage.parts import read_part
from tests.recorders import FiveLines, Recorder, eliminating, nth, number, numbers, play, recorders, rewards_of, saved


@pytest.mark.parametrize("ticket", [lambda d: d, lambda d: d.id])
def test_a_reward_is_booked_once(ticket: Callable[[Decision], Any]) -> None:
    portfolio = recorders()
    decision = portfolio.decide(None)
    portfolio.learn(decision, 0.5)
    before = saved(portfolio)
    with pytest.raises(
        DuplicateReward, match=r"^decision \w+-1 already has its reward, was withdrawn or is past its deadline$"
    ):
        portfolio.learn(ticket(decision), 0.5)
    assert saved(portfolio) == before


@pytest.mark.parametrize("stranger", ["x", "a-1", "-1", "", Decision("9", 0, 0, "")])
def test_a_ticket_that_was_never_given_out_is_refused(stranger: Any) -> None:
    portfolio = recorders()
    portfolio.decide(None)
    before = saved(portfolio)
    id_ = stranger.id if isinstance(stranger, Decision) else stranger
    with pytest.raises(UnknownDecision, match=rf"^decision {id_} was never made, or was made before") as caught:
        portfolio.learn(stranger, 0.5)
    assert not isinstance(caught.value, DuplicateReward)
    assert saved(portfolio) == before


@pytest.mark.parametrize("nonsense", [True, 0, 1, np.int64(7), 1.0, None, [1], np.array([1]), (1, 0)])
def test_what_is_no_ticket_at_all_is_refused(nonsense: Any) -> None:
    portfolio = recorders()
    portfolio.decide(None)
    before = saved(portfolio)
    with pytest.raises(InvalidArgument, match=r"^decision is .*, but must be a Decision or its id$"):
        portfolio.learn(nonsense, 0.5)
    assert saved(portfolio) == before


def test_an_overdue_decision_that_cannot_be_taught_fails_nothing() -> None:
    portfolio = recorders(1, deadline=1, default_reward=0.0)
    for _ in range(2):
        portfolio.decide(None)
    portfolio.learners[0].failures["learn"] = 1
    for _ in range(3):
        portfolio.decide(None)
    assert rewards_of(portfolio) == [[0.0, 0.0]]
    assert [update.round for update in portfolio.failed_updates] == [1]
    assert portfolio.standing()[0].plays - portfolio.standing()[0].pending == 3


def test_a_callback_that_raises_is_logged_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def complain(happened: object) -> None:
        raise RuntimeError("I liked it")

    for portfolio, decision, reward in eliminating():
        if number(decision.id) == 1:
            portfolio.on_elimination(complain)
            portfolio.on_event(complain)
        portfolio.learn(decision, reward)
        if portfolio.selector.eliminations:
            break
    assert portfolio.pending == ()
    assert sum(row.plays - row.pending for row in portfolio.standing()) == number(decision.id)
    assert "a callback failed on an elimination" in caplog.messages
    assert "a callback failed on the event 'eliminated'" in caplog.messages


def test_a_failure_while_deciding_changes_nothing() -> None:
    """The retry decides what an undisturbed run decides."""
    portfolio, undisturbed = recorders(2, Observed()), recorders(2, Observed())
    for t in range(5):
        assert str(portfolio.decide(t)[1:]) == str(undisturbed.decide(t)[1:])
    portfolio.learn(nth(portfolio, 1), 0.5)
    undisturbed.learn(nth(undisturbed, 1), 0.5)
    before = saved(portfolio)
    for learner in portfolio.learners:
        learner.failures["decide"] = 2
    with pytest.raises(
        NoLearnerAvailable, match=r"no learner can play \(Recorder\(.\): RuntimeError: no luck in decide"
    ):
        portfolio.decide(5)
    assert saved(portfolio) == before
    for learner in portfolio.learners:
        learner.failures["decide"] = 0
    for t in range(5, 10):
        assert str(portfolio.decide(t)[1:]) == str(undisturbed.decide(t)[1:])
    assert saved(portfolio) == saved(undisturbed)


def test_a_failure_with_random_learners_changes_nothing() -> None:
    """A context of the wrong shape for one of the learners; random streams are not moved by it."""

    def make() -> Portfolio:
        learners = [EpsilonGreedy(3, epsilon=0.5), LinearThompson(2)]
        return Portfolio(learners, BalancedElimination([Power(1.0)] * 2), seed=4)

    portfolio, undisturbed, good = make(), make(), np.full((3, 2), 0.5)
    for t in range(20):
        before = saved(portfolio)
        with pytest.raises(InvalidArgument, match=r"^context has "):
            portfolio.decide(np.full((4, 1), 0.5))
        assert saved(portfolio) == before
        decision = portfolio.decide(good)
        same = undisturbed.decide(good)
        assert str(decision[1:]) == str(same[1:])
        portfolio.learn(decision, t % 2)
        undisturbed.learn(same, t % 2)
    assert saved(portfolio) == saved(undisturbed)


@pytest.mark.parametrize("bound", [Power(1.0), Observed()])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failing_update_is_lost_for_its_learner_only(bound: Any, failing: int) -> None:
    """Shared data: everybody else learns, the selector gets the reward, and the update can be tried again."""
    portfolio, undisturbed = recorders(3, bound, share_data=True), recorders(3, bound, share_data=True)
    for t in range(3):
        portfolio.decide(t)
        undisturbed.decide(t)
    portfolio.learners[failing].failures["learn"] = 1
    portfolio.learn(nth(portfolio, 1), 0.5)
    undisturbed.learn(nth(undisturbed, 1), 0.5)
    assert numbers(portfolio.pending) == (2, 3)
    assert rewards_of(portfolio) == [[] if i == failing else [0.5] for i in range(3)]
    assert portfolio.failed_updates == ((failing, 1, "RuntimeError: no luck in learn"),)
    assert str(portfolio.standing()) == str(undisturbed.standing())
    assert portfolio.retry_updates() == 1
    assert len(portfolio.failed_updates) == 0 and rewards_of(portfolio) == [[0.5]] * 3
    assert portfolio.retry_updates() == 0


def test_updates_that_are_learned_in_order_go_on_after_one_that_failed() -> None:
    """A reward completes a prefix of three plays, and the learner fails at the second of them."""

    class FailsAtTwo(Recorder):
        def learn(self, context, action, reward):
            if reward == 0.2:
                self.fail("learn")
            self.updates.append((context, action, reward))

    learner = FailsAtTwo()
    portfolio = Portfolio([learner], BalancedElimination([Observed()]))
    for _ in range(3):
        portfolio.decide(None)
    portfolio.learn(nth(portfolio, 2), 0.2)
    portfolio.learn(nth(portfolio, 3), 0.3)
    learner.failures["learn"] = 2
    portfolio.learn(nth(portfolio, 1), 0.1)
    assert (learner.rewards, portfolio.pending, portfolio.standing()[0].pending) == ([0.1, 0.3], (), 0)
    assert portfolio.retry_updates() == 0
    assert portfolio.retry_updates() == 1
    assert learner.rewards == [0.1, 0.3, 0.2]


class Mute(FiveLines):
    name = "mute"


def needing(what: str) -> Any:
    selector = BalancedElimination([Power(1.0)])
    selector.needs = frozenset({what})
    return selector


BALANCED = [Power(1.0), Power(1.0)]


TWIN = Mute()
ANYTHING: Any = object()


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: Portfolio([Mute()], BalancedElimination(BALANCED)),
        InvalidArgument,
        "learners has 1 entries, but Balanced elimination was created for 2",
    ),
    (
        lambda: Portfolio([TWIN, TWIN], BalancedElimination(BALANCED)),
        InvalidArgument,
        "learners has one object twice, but must have different objects",
    ),
    (
        lambda: Portfolio([Mute(), ANYTHING], BalancedElimination(BALANCED)),
        InvalidArgument,
        "learner 'object' has no decide(), but must have one: see equipoise.Learner",
    ),
    (
        lambda: Portfolio([OFUL(2), Mute()], BalancedElimination([Observed(), Observed()])),
        IncompatibleLearner,
        "bound 1 of Balanced elimination is Observed, but learner 'mute' provides no 'regret'",
    ),
    (
        lambda: Portfolio([Mute()], needing("weight")),
        IncompatibleLearner,
        "Balanced elimination needs learners that accept importance weights, but 'mute' does not",
    ),
    (
        lambda: Portfolio([Mute()], needing("lower")),
        IncompatibleLearner,
        "Balanced elimination needs a lower bound from every learner, but 'mute' provides none",
    ),
    (lambda: recorders(seed=-1), InvalidArgument, "seed is -1, but must be a whole number from 0 to"),
    (lambda: recorders(seed=1.5), InvalidArgument, "seed is 1.5, but must be a whole number from 0 to"),
    (
        lambda: recorders(deadline=0, default_reward=0.0),
        InvalidArgument,
        "deadline is 0, but must be a whole number at least 1",
    ),
    (
        lambda: recorders(deadline=3),
        InvalidArgument,
        "deadline is 3 and default_reward is None, but must be given together",
    ),
    (
        lambda: recorders(default_reward=0.0),
        InvalidArgument,
        "deadline is None and default_reward is 0.0, but must be given together",
    ),
    (
        lambda: recorders(deadline=3, default_reward=2.0),
        InvalidArgument,
        "default_reward is 2.0, but must lie in reward_range (0, 1)",
    ),
    (
        lambda: recorders(delays="late"),
        InvalidArgument,
        "delays is 'late', but must be one of any, independent, exogenous",
    ),
    (lambda: recorders(share_data="yes"), InvalidArgument, "share_data is 'yes', but must be True or False"),
    (
        lambda: Portfolio([Mute()], BalancedElimination([Power(1.0)]), share_data=True),
        InvalidArgument,
        "share_data is True, but no learner accepts 'off_policy' data",
    ),
    (
        lambda: recorders().on_elimination(None),  # type: ignore[arg-type]
        InvalidArgument,
        "callback is None, but must be callable with an Elimination",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_bad_settings_are_refused(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)


def two_open_rounds() -> Portfolio:
    """Two OFUL learners in mid-run, decisions 6 and 7 open; actions have 4 features and norm at most 1."""
    selector = BalancedElimination([Observed(), Power(1.0)], reward_range=(-1.0, 1.0))
    portfolio = Portfolio([OFUL(2), OFUL(4)], selector, share_data=True)
    play(portfolio, 5)
    for _ in range(2):
        portfolio.decide(np.full((3, 4), 0.5))
    return portfolio


def contains_itself() -> list[Any]:
    context: list[Any] = []
    context.append(context)
    return context


def nested(depth: int) -> list[Any]:
    """A list in a list, `depth` of them."""
    return [] if depth == 1 else [nested(depth - 1)]


OFFERED = np.full((3, 4), 0.5)
MISUSES: list[tuple[Callable[[Portfolio], Any], str]] = [
    (lambda p: p.learn(nth(p, 6), nan), "reward is nan, but must be a finite number of magnitude at most 1e+100"),
    (
        lambda p: p.learn(nth(p, 6), float("-inf")),
        "reward is -inf, but must be a finite number of magnitude at most 1e+100",
    ),
    (lambda p: p.learn(nth(p, 6), 1e155), "reward is 1e+155, but must be a finite number of magnitude at most 1e+100"),
    (lambda p: p.learn(nth(p, 6), 1.5), "reward is 1.5, but must lie in reward_range (-1, 1)"),
    (lambda p: p.learn(nth(p, 6), "1"), "reward is '1', but must be a real number"),  # type: ignore[arg-type]
    (lambda p: p.learn(nth(p, 6), None), "reward is None, but must be a real number"),  # type: ignore[arg-type]
    (lambda p: p.learn(nth(p, 6), 0.5, regret=-1.0), "regret is -1.0, but must not be negative"),
    (lambda p: p.learn(nth(p, 6), 0.5, regret=1e155), "regret is 1e+155, but must be a finite number"),
    (lambda p: p.decide(np.ones(4)), "context has shape (4,), but must be a K x d matrix with K >= 1 rows"),
    (lambda p: p.decide(np.ones((0, 4))), "context has shape (0, 4), but must be a K x d matrix with K >= 1 rows"),
    (lambda p: p.decide(np.full((3, 4), nan)), "context has an entry nan, but entries must be finite and at most"),
    (lambda p: p.decide(np.full((3, 4), 1e155)), "context has an entry 1e+155, but entries must be finite and at most"),
    (lambda p: p.decide(np.full((3, 4), 9.0)), "context has row 0 of norm 18, but norms must be at most action_bound"),
    (lambda p: p.decide("x"), "context is 'x', but must be a K x d matrix of numbers"),
    (lambda p: p.decide([[1.0, 0.0], [1.0]]), "context is [[1.0, 0.0], [1.0]], but must be a K x d matrix of numbers"),
    (lambda p: p.learn(6.0, 0.5), "decision is 6.0, but must be a Decision or its id"),  # type: ignore[arg-type]
    (lambda p: p.decide(OFFERED, at=nan), "at is nan, but must be a finite number"),
    (lambda p: p.decide(OFFERED, at="noon"), "at is 'noon', but must be a real number"),  # type: ignore[arg-type]
    (
        lambda p: p.decide(OFFERED, at=1.7e12),
        "at is 1700000000000.0, but must be in seconds, of magnitude at most 1e+11",
    ),
    (lambda p: p.learn(nth(p, 6), 0.5, at=float("inf")), "at is inf, but must be a finite number"),
    (lambda p: p.expire(at=10**400), "at is 1"),
    (lambda p: p.decide(OFFERED, available="OFUL(d=2)"), "available is 'OFUL(d=2)', but must be a list of names"),
    (lambda p: p.decide(OFFERED, available=[0]), "available has 0, but must have names"),  # type: ignore[list-item]
    (lambda p: p.decide(OFFERED, available=3), "available is 3, but must be a list of names"),  # type: ignore[arg-type]
    (lambda p: p.decide(contains_itself()), "context[0][0][0]"),
    (lambda p: p.decide(nested(102)), "context[0][0][0]"),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSES, ids=[message for _, message in MISUSES])
def test_bad_input_is_refused_and_changes_nothing(misuse: Callable[[Portfolio], Any], message: str) -> None:
    portfolio = two_open_rounds()
    before = saved(portfolio)
    with pytest.raises(InvalidArgument) as caught:
        misuse(portfolio)
    assert str(caught.value).startswith(message)
    assert saved(portfolio) == before


def test_a_context_that_is_nested_as_deep_as_allowed_is_saved(tmp_path: Path) -> None:
    portfolio = recorders()
    portfolio.decide(nested(101))
    portfolio.save(tmp_path / "portfolio")
    (ticket,) = read_part(tmp_path / "portfolio", "portfolio")["tickets"]["open"]
    assert ticket["context"] == nested(101)


def test_a_bound_that_breaks_its_rule_is_refused_and_changes_nothing() -> None:
    portfolio = Portfolio([Recorder()], BalancedElimination([Custom(lambda n: 3.0 - n, "falling")]))
    with pytest.raises(InvalidArgument, match=r"^bound 'falling' gives 1.0 at n = 2 and 2.0 before it"):
        for _ in range(3):
            portfolio.learn(portfolio.decide(None), 0.5)
    assert portfolio.standing()[0].plays == 1
    assert portfolio.pending == ()


def test_a_proposal_that_makes_no_sense_is_refused_and_changes_nothing() -> None:
    portfolio = Portfolio([Recorder(regret=-0.5)], BalancedElimination([Observed()]))
    before = saved(portfolio)
    with pytest.raises(NoLearnerAvailable, match=r"regret is -0.5, but must be finite and not negative"):
        portfolio.decide(None)
    assert saved(portfolio) == before
