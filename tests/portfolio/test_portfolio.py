"""Portfolios: decisions as tickets, rewards that come late or never, and who learns what and when."""

import inspect
import logging
from collections.abc import Callable
from math import isnan, nan
from typing import Any

import numpy as np
import pytest

from equipoise import Certificate, Choice, Decision, Elimination, Portfolio, Proposal
from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import BalancedElimination
from tests.recorders import (
    FiveLines,
    Recorder,
    RoundRobin,
    eliminating,
    nth,
    number,
    numbers,
    play,
    recorders,
    rewards_of,
    saved,
)


def test_a_learner_of_five_lines_is_enough() -> None:
    portfolio = Portfolio([FiveLines(), Constant(1)], BalancedElimination([Power(0.5), Power(0.5)]))
    actions = {}
    for _ in range(20):
        decision = portfolio.decide(None)
        actions[decision.learner_name] = decision.action
        portfolio.learn(decision, reward=0.5)
    assert actions == {"FiveLines": 0, "Constant(1)": 1}
    assert [row.plays for row in portfolio.standing()] == [10, 10]
    assert portfolio.certificate().rounds == 20


@pytest.mark.parametrize(
    "decide",
    [lambda self, context, rng: rng, lambda self, context, *rest: rest[0], lambda self, context, *, rng: rng],
    ids=["positional", "variable", "keyword"],
)
def test_a_learner_that_takes_a_generator_gets_the_one_of_its_round(decide: Callable[..., Any]) -> None:
    def numbers(seed: int) -> list[float]:
        drawn: list[float] = []

        class Drawing(FiveLines):
            def decide(self, *arguments, **named):
                drawn.append(decide(self, *arguments, **named).random())
                return 0

        Drawing.decide.__signature__ = inspect.signature(decide)  # type: ignore[attr-defined]
        portfolio = Portfolio([Drawing(), Drawing()], BalancedElimination([Power(1.0)] * 2), seed=seed)
        for _ in range(6):
            portfolio.learn(portfolio.decide(None), 0.5)
        return drawn

    assert numbers(1) == numbers(1)
    assert len(set(numbers(1) + numbers(2))) == 12


def test_rewards_come_late_out_of_order_and_by_id_alone() -> None:
    portfolio = recorders()
    decisions = [portfolio.decide(t) for t in range(6)]
    assert numbers(portfolio.pending) == (1, 2, 3, 4, 5, 6)
    rewards = {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5, 6: 0.6}
    tickets: list[Any] = [
        decisions[3],
        nth(portfolio, 1),
        decisions[5].id,
        nth(portfolio, 3),
        decisions[1],
        nth(portfolio, 5),
    ]
    for ticket in tickets:
        portfolio.learn(ticket, rewards[number(ticket.id if isinstance(ticket, Decision) else ticket)])
    assert len(portfolio.pending) == 0
    rows = portfolio.standing()
    assert [(row.plays, row.pending) for row in rows] == [(3, 0), (3, 0)]
    assert [row.mean_reward for row in rows] == pytest.approx([0.3, 0.4])
    assert rewards_of(portfolio) == [[0.1, 0.3, 0.5], [0.4, 0.6, 0.2]]  # closed-form bounds: learned at once
    assert [context for context, *_ in portfolio.learners[1].updates] == [3, 5, 1]


def test_a_decision_says_who_acts_and_how_likely() -> None:
    portfolio = recorders(3)
    first, second = portfolio.decide(None), portfolio.decide(None)
    assert str(first) == str(Decision(nth(portfolio, 1), 0, 0, "Recorder(0)", 0, 1.0, 1.0, 1.0))
    assert str(second) == str(Decision(nth(portfolio, 2), 1, 1, "Recorder(1)", 1, 1.0, 1.0, 1.0))


def test_the_probabilities_of_learner_and_action_are_told_apart() -> None:
    class Coin(RoundRobin):
        def choose(self, rng=None):
            return super().choose(rng)._replace(probability=0.5)

    learners = [EpsilonGreedy(4, epsilon=0.4), LinearThompson(2)]
    portfolio = Portfolio(learners, Coin(2))
    context = np.full((4, 2), 0.5)
    greedy, unknown = portfolio.decide(context), portfolio.decide(context)
    assert greedy.learner_probability == unknown.learner_probability == 0.5
    assert greedy.action_probability == pytest.approx(0.7 if greedy.action == 0 else 0.1)
    assert isnan(unknown.action_probability)
    assert isnan(greedy.propensity)  # the selector does not say with what probability it chooses the other learner


def test_a_reward_that_never_comes_is_credited_by_default_and_ignored_if_it_comes_after_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="equipoise")
    portfolio = recorders(1, deadline=2, default_reward=0.25)
    portfolio.decide("first")
    portfolio.learn(portfolio.decide("second"), 1.0)
    portfolio.decide("third")
    assert numbers(portfolio.pending) == (
        1,
        3,
    )  # two further decisions were made, and the first may still get its reward
    portfolio.decide("fourth")
    assert numbers(portfolio.pending) == (3, 4)
    assert portfolio.learners[0].updates == [("second", 0, 1.0), ("first", 0, 0.25)]
    row = portfolio.standing()[0]
    assert (row.plays, row.pending, row.waiting, row.mean_reward) == (4, 3, 1, 0.25)  # the second is too young to count

    before = saved(portfolio)
    with pytest.raises(InvalidArgument, match=r"^reward is nan, but must be a finite number"):
        portfolio.learn(nth(portfolio, 1), nan)
    assert saved(portfolio) == before
    assert len(caplog.messages) == 1  # of the start
    for n in (1, 2):
        portfolio.learn(nth(portfolio, 1), 1.0)
        assert caplog.messages[n].endswith("reason the reward arrived after its deadline")
        assert portfolio.health()["ignored"] == n
    assert portfolio.standing()[0] == row


def test_a_reward_within_the_deadline_counts() -> None:
    portfolio = recorders(1, deadline=1, default_reward=0.0)
    first = portfolio.decide(None)
    portfolio.decide(None)
    portfolio.learn(first, 1.0)
    portfolio.decide(None)
    assert rewards_of(portfolio) == [[1.0]]


def test_a_lost_round_of_unknown_regret_counts_the_full_width() -> None:
    """Else one lost reward would freeze the portfolio, whose bound is Observed."""
    selector = BalancedElimination([Observed(), Observed()], reward_range=(-1.0, 3.0))
    silent, telling = Recorder(0, regret=nan), Recorder(1, regret=0.5)
    portfolio = Portfolio([silent, telling], selector, deadline=1, default_reward=0.0)
    for _ in range(3):
        portfolio.decide(None)
    assert numbers(portfolio.pending) == (2, 3)
    assert portfolio.standing()[0].mean_bound == 4.0
    portfolio.decide(None)
    assert portfolio.standing()[1].mean_bound == 0.5


@pytest.mark.parametrize(
    ("bound", "delays", "expected"),
    [
        (Observed(), "any", [[], [], [0.1, 0.3, 0.5], [0.1, 0.3, 0.5]]),
        (Observed(), "independent", [[0.3], [0.3, 0.5], [0.3, 0.5, 0.1], [0.3, 0.5, 0.1]]),
        (Power(1.0), "any", [[0.3], [0.3, 0.5], [0.3, 0.5, 0.1], [0.3, 0.5, 0.1]]),
    ],
)
def test_learners_with_observed_bounds_learn_in_order_unless_delays_are_independent(
    bound: Any, delays: str, expected: list[list[float]]
) -> None:
    """What learner 0 has learned after the rewards of its decisions 3, 5 and 1, and of one of the other learner."""
    portfolio = recorders(2, bound, delays=delays)
    for _ in range(6):
        portfolio.decide(None)
    seen = []
    for id_ in (3, 5, 1, 2):
        portfolio.learn(nth(portfolio, id_), id_ / 10)
        seen.append(portfolio.learners[0].rewards.copy())
    assert seen == expected


def test_shared_data_teaches_every_learner_that_accepts_it_once() -> None:
    learners = [Recorder(0, accepts={"off_policy"}), Recorder(1), Recorder(2, accepts={"off_policy"})]
    portfolio = Portfolio(learners, BalancedElimination([Power(1.0)] * 3), share_data=True)
    for t in range(6):
        portfolio.learn(portfolio.decide(t), t / 10)
    assert rewards_of(portfolio) == [[0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.4], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]]
    # Whoever learns learns of the action that was played, whoever played it; the selector counts own plays only.
    assert [action for _, action, _ in learners[2].updates] == [0, 1, 2, 0, 1, 2]
    rows = portfolio.standing()
    assert [row.plays for row in rows] == [2, 2, 2]
    assert [row.mean_reward for row in rows] == pytest.approx([0.15, 0.25, 0.35])


def test_with_shared_data_in_order_means_the_order_of_all_rounds() -> None:
    portfolio = recorders(2, Observed(), share_data=True)
    for _ in range(4):
        portfolio.decide(None)
    portfolio.learn(nth(portfolio, 2), 0.2)
    portfolio.learn(nth(portfolio, 3), 0.3)
    assert rewards_of(portfolio) == [[], []]
    portfolio.learn(nth(portfolio, 1), 0.1)
    assert rewards_of(portfolio) == [[0.1, 0.2, 0.3]] * 2
    portfolio.learn(nth(portfolio, 4), 0.4)
    assert rewards_of(portfolio) == [[0.1, 0.2, 0.3, 0.4]] * 2


def test_eliminations_are_announced_once_and_after_they_are_credited() -> None:
    heard: list[tuple[Elimination, Any]] = []
    rounds = eliminating()
    portfolio, decision, reward = next(rounds)
    portfolio.on_elimination(lambda elimination: heard.append((elimination, portfolio.selector.active)))
    portfolio.on_elimination(lambda elimination: heard.append((elimination, portfolio.pending)))
    while number(decision.id) < 200:
        portfolio.learn(decision, reward)
        _, decision, reward = next(rounds)
    (elimination,) = portfolio.selector.eliminations
    assert heard == [(elimination, (0,)), (elimination, ())]
    assert elimination.learner.index == 1
    assert elimination.learner.mean_upper < elimination.witness.mean_lower


@pytest.mark.parametrize("bound", [Power(0.01), Observed()])
def test_an_eliminated_learner_learns_from_its_own_open_rounds_only(bound: Any) -> None:
    """Rewards come four rounds late, so that rounds of both learners are open when one of them is eliminated."""
    waiting: list[tuple[Decision, float]] = []
    for portfolio, decision, reward in eliminating(share_data=True, bound=bound):
        waiting.append((decision, reward))
        if len(waiting) > 4:
            portfolio.learn(*waiting.pop(0))
        if portfolio.selector.eliminations:
            break
    assert [decision.learner for decision, _ in waiting] in ([0, 1, 0, 1], [1, 0, 1, 0])
    staying, gone = portfolio.learners
    n_updates = len(gone.updates)
    for _ in range(10):
        waiting.append((portfolio.decide(None), 1.0))
    for late in waiting:
        portfolio.learn(*late)
    assert [action for _, action, _ in gone.updates[n_updates:]] == [1, 1]
    assert [action for _, action, _ in staying.updates[n_updates:]].count(1) == 2
    assert len(staying.updates) == n_updates + 14
    assert portfolio.selector.active == (0,)


@pytest.mark.parametrize("bound", [Power(1.0), Observed()])
def test_what_the_caller_changes_later_is_not_learned(bound: Any) -> None:
    class Vector(Recorder):
        def decide(self, context):
            return Proposal(np.array([1.0, 2.0]), regret=0.1)

    learner = Vector()
    portfolio = Portfolio([learner], BalancedElimination([bound]))
    contexts: list[Any] = [np.ones((2, 2, 2)), [[1.0, 1.0]], {"x": np.ones(2)}, (np.ones(1), [1.0])]
    decisions = [portfolio.decide(context) for context in contexts]
    contexts[0][...] = 0.0
    contexts[1][0][0] = 0.0
    contexts[2]["x"][...] = 0.0
    contexts[3][0][...] = contexts[3][1][0] = 0.0
    outcome = [1, 2, 3]
    for decision in decisions:
        decision.action[...] = 0.0
    portfolio.learn(decisions[3].id, 0.5, outcome=outcome)
    outcome.clear()
    for decision in decisions[:3]:
        portfolio.learn(decision.id, 0.5)
    updates = sorted(learner.updates, key=lambda update: str(type(update[0])))
    assert len(updates) == 4
    for context, learned, _ in updates:
        values = context.values() if isinstance(context, dict) else context
        assert all(np.all(np.asarray(value) == 1.0) for value in values)
        assert learned == [1, 2, 3] if isinstance(learned, list) else learned.tolist() == [1.0, 2.0]


def test_the_outcome_stands_for_the_action() -> None:
    portfolio = recorders(1)
    portfolio.learn(portfolio.decide("start"), 0.5, outcome=["a", "trajectory"])
    assert portfolio.learners[0].updates == [("start", ["a", "trajectory"], 0.5)]


def test_regret_may_come_with_the_reward() -> None:
    learners = [Recorder(0, regret=nan), Recorder(1, regret=nan)]
    portfolio = Portfolio(learners, BalancedElimination([Observed(), Power(1.0)]))
    first = portfolio.decide(None)
    with pytest.raises(InvalidArgument, match=r"^regret of play 1 of learner 0 is unknown, but its bound is Observed"):
        portfolio.learn(first, 0.5)
    assert learners[0].updates == []
    portfolio.learn(first, 0.5, regret=0.125)
    assert portfolio.standing()[0].mean_bound == 0.125
    assert learners[0].rewards == [0.5]


def test_a_certificate_that_presumes_a_bound_subtracts_nothing_for_it() -> None:
    learners = [OFUL(2, delta=0.01), OFUL(2, delta=0.03), OFUL(2, delta=0.05)]
    bounds: list[Any] = [Observed(), Power(1.0), Observed()]
    certificate = Portfolio(learners, BalancedElimination(bounds, delta=0.1)).certificate()
    assert isinstance(certificate, Certificate)
    assert (certificate.delta, certificate.learners_delta, certificate.presumed) == (0.1, 0.0, None)
    assert Portfolio([UCB(2), UCB(2)], BalancedElimination([Power(1.0)] * 2)).certificate().learners_delta == 0.0


def test_a_selector_with_nothing_but_the_contract_works() -> None:
    selector = RoundRobin(2)
    portfolio = Portfolio([FiveLines(), Constant(1)], selector, deadline=3, default_reward=-7)
    for _ in range(20):  # as many as it takes to know that rewards come at once
        portfolio.learn(portfolio.decide(None), 5.0)
    with pytest.raises(InvalidArgument, match="reward is nan, but must be a finite number"):
        portfolio.learn(portfolio.decide(None), nan)
    assert selector.totals == [50.0, 50.0]
    assert selector.observed_proposals == [{0}, {1}] * 10 + [{0}]


def test_a_selector_that_needs_all_proposals_gets_those_of_the_active_learners() -> None:
    class Nosy(RoundRobin):
        needs = frozenset({"actions", "lower"})

        @property
        def active(self):
            return (0, 2)

        def choose(self, rng=None):
            return Choice(2, 1, 1.0)

    learners = [OFUL(2), OFUL(2), OFUL(2)]
    selector = Nosy(3)
    Portfolio(learners, selector).decide(np.full((2, 2), 0.5))
    assert selector.observed_proposals == [{0, 2}]


def randomized(seed: int) -> Portfolio:
    learners = [EpsilonGreedy(3, epsilon=0.5), EpsilonGreedy(3, epsilon=0.5), LinearThompson(4, norm_bound=1.1)]
    return Portfolio(learners, BalancedElimination([Power(1.0)] * 3), seed=seed)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = randomized(3), randomized(3)
    assert play(one, 60) == play(other, 60)
    assert saved(one) == saved(other)
    assert play(randomized(4), 60) != play(randomized(3), 60)


def test_equal_learners_draw_from_streams_of_their_own() -> None:
    portfolio = Portfolio([EpsilonGreedy(50, epsilon=1.0) for _ in range(2)], BalancedElimination([Power(1.0)] * 2))
    actions = [portfolio.decide(None).action for _ in range(20)]
    assert actions[::2] != actions[1::2]


def test_a_setting_in_second_place_is_not_taken_for_the_generator() -> None:
    class Settled:
        def decide(self, context: Any, k: int = 5) -> int:
            return k

        def learn(self, context: Any, action: int, reward: float) -> None:
            pass

    assert Portfolio([Settled()], BalancedElimination([Power(1.0)])).decide(None).action == 5


def test_a_portfolio_shows_its_parts() -> None:
    assert repr(Portfolio([UCB(2), OFUL(3)], share_data=False)) == "Portfolio([UCB(2), OFUL(3)], RealizedBalancing(2))"
