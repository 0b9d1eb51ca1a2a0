"""Who learns from a round of counterfactual balancing, restarts, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import Proposal
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import CounterfactualBalancing
from tests.counterfactual_reference import drawn_uniformly, small


def test_a_restart_keeps_the_pool_and_forgets_the_rounds() -> None:
    selector = drawn_uniformly(small(delta=0.05), 10)
    selector.add_learner(learning="agreed", greedy=True)
    selector.remove_learner(0)
    selector.restart(0.01)
    assert (selector.active, selector.delta, len(selector.experts)) == ((1, 2), 0.01, 6)
    assert selector.paired_certificate((1, False), (2, True)).gain_squares == 0.0
    for _ in range(20):
        choice = selector.choose()
        assert choice.learner in (1, 2)
        selector.observe(choice, {i: Proposal(i, greedy=0) for i in (1, 2)})
        selector.credit(choice, 0.5)
    proved = selector.paired_certificate((1, False), (2, True))
    assert proved.rounds == 20 and proved.total_delta == pytest.approx(0.015)
    with pytest.raises(InvalidArgument, match="learner is 0, but it was removed before"):
        selector.remove_learner(0)


@pytest.mark.parametrize(
    ("learning", "greedy", "expected"),
    [
        (["own", "own", "own"], False, (0,)),
        (["own", "own", "own"], True, ()),
        (["agreed", "agreed", "agreed"], False, (0, 1)),  # learner 1 proposes the same action
        (["agreed", "agreed", "agreed"], True, (2,)),
        (["all", "own", "agreed"], True, (0, 2)),
    ],
)
def test_who_learns_from_a_round(learning: list[str], greedy: bool, expected: tuple[int, ...]) -> None:
    selector = CounterfactualBalancing(3, learning=learning, greedy_experts=[0, 1, 2], seed=2)
    choice = selector.choose()
    while (choice.learner, choice.greedy) != (0, greedy):
        selector.observe(choice, {i: Proposal(0, greedy=0) for i in range(3)})
        selector.credit(choice, 0.5)
        choice = selector.choose()
    proposals = {0: Proposal(4, greedy=5), 1: Proposal(4, greedy=4), 2: Proposal(5, greedy=5)}
    selector.observe(choice, proposals)
    assert selector.learners_updated_by(choice) == expected


def test_a_portfolio_plays_greedy_experts_and_updates_learners_that_agree() -> None:
    """Two UCBs without contexts under agreed learning: every play of an arm that both propose is learned by both."""
    learners = [UCB(3, scale=0.2), UCB(3, scale=1.0)]
    portfolio = Portfolio(learners, CounterfactualBalancing.for_learners(learners, contexts="fixed"), seed=4)
    rng = np.random.default_rng(4)
    for _ in range(300):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < (0.2, 0.5, 0.8)[decision.action]))
    updates = [int(learner.memory.plays.sum()) for learner in learners]
    assert sum(updates) > 300 and max(updates) <= 300
    experts = portfolio.selector.kernel_state.credit.experts
    assert [experts[0].updates, experts[1].updates] == updates
    assert {row.greedy for row in experts if row.updates} == {False, True}


def test_which_learners_learn_and_have_greedy_experts_by_default() -> None:
    pool = [OFUL(2), UCB(3), Constant(1), EpsilonGreedy(3, epsilon=0.1), LinearThompson(2)]
    own = CounterfactualBalancing.for_learners(pool, share_data=False)
    assert own.learning == ("agreed", "own", "all", "own", "own")
    fixed = CounterfactualBalancing.for_learners(pool, contexts="fixed", share_data=True)
    assert tuple(fixed.learning or ())[:3] == ("all", "agreed", "all")
    assert (2, True) not in fixed.experts and (0, True) in fixed.experts


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"learning": ["all"]}, "learning has 1 entries, but n_learners is 2"),
        ({"learning": ["a", "b"]}, "learning is ['a', 'b'], but must have one of all, agreed, own, silent per learner"),
        (
            {"learning": [["all"], "own"]},
            "learning is [['all'], 'own'], but must have one of all, agreed, own, silent per learner",
        ),
        ({"learning": "all"}, "learning is 'all', but must have one of all, agreed, own, silent per learner"),
        ({"greedy_experts": [2]}, "greedy_experts is (2,), but must have learners from 0 to 1"),
        ({"greedy_experts": [0, 0]}, "greedy_experts is [0, 0], but must have no learner twice"),
        ({"slack": 0.5}, "slack is 0.5, but must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        CounterfactualBalancing(2, **settings_)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("learners", "settings_", "message"),
    [
        ([UCB(2), UCB(2)], {"learning": ["all", "own"]}, "learning of 'UCB' is 'all', but it does not accept"),
        ([UCB(2), UCB(2)], {"learning": ["agreed", "own"]}, "learning of 'UCB' is 'agreed', but it ignores contexts"),
        ([EpsilonGreedy(2, epsilon=0.1), UCB(2)], {"learning": ["agreed", "own"]}, "does not accept 'agreed'"),
    ],
)
def test_learners_that_cannot_learn_so_are_refused(learners: list[Any], settings_: Any, message: str) -> None:
    with pytest.raises(IncompatibleLearner) as caught:
        Portfolio(learners, CounterfactualBalancing(2, **settings_))
    assert message in str(caught.value)


def test_bad_proposals_are_refused_and_change_nothing() -> None:
    selector = small()
    choice = selector.choose()
    before = selector.state()
    for proposals, message in (
        ({0: Proposal(0, greedy=0)}, r"proposals has learners \[0\], but must have 1 too"),
        ({0: Proposal(0), 1: Proposal(1)}, "greedy of learner 0 is None"),
        ({i: Proposal(0, greedy=0, value=math.inf) for i in range(2)}, "value of learner 0 is inf"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            selector.observe(choice, proposals)
    with pytest.raises(InvalidArgument, match=r"observe\(\) must come before credit\(\)"):
        selector.credit(choice, 0.5)
    after = selector.state()
    assert all(np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f") for name in before)
    with pytest.raises(InvalidArgument, match=r"noise is 0\.5, but must be None"):
        CounterfactualBalancing(2, noise=0.5).paired_certificate((0, False), (1, False))
    Portfolio([OFUL(2), OFUL(2)], small(), share_data=True)
    with pytest.raises(InvalidArgument, match=r"share_data is False, but learners of .* share data"):
        Portfolio([OFUL(2), OFUL(2)], small(), share_data=False)


def test_a_continuous_action_is_refused_where_agreement_is_asked() -> None:
    proposals = {i: Proposal(np.array([0.1, 0.2]), greedy=np.array([0.1, 0.3])) for i in range(2)}
    for learning, refused in ((["agreed", "all"], True), (["all", "all"], False)):
        selector = small(learning=learning)
        choice = selector.choose()
        if refused:
            with pytest.raises(InvalidArgument, match="in a continuous set no two learners propose the same action"):
                selector.observe(choice, proposals)
        else:
            selector.observe(choice, proposals)
            assert selector.propensity(choice) == 1.0  # the first plays have probability 1


def test_saved_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    selector = small()
    choice = selector.choose()
    selector.observe(choice, {i: Proposal(0, greedy=0) for i in range(2)})
    saved = selector.state()
    small().restore(saved)
    saved["ledger.experts.odds"] = saved["ledger.experts.odds"] * 0.9
    with pytest.raises(InvalidArgument, match="but it must sum to 1"):
        small().restore(saved)


def test_the_propensity_of_an_action_that_all_propose_is_at_most_one() -> None:
    """Probabilities that sum to 1 up to rounding made 1.0000000000000002, which learners refuse."""
    selector = CounterfactualBalancing(3, greedy_experts=[0, 1, 2], learning=["all"] * 3, seed=1)
    rng = np.random.default_rng(0)
    for t in range(300):
        choice, agreed = selector.choose(), t % 2
        proposals = {i: Proposal(agreed or i, greedy=agreed or int(rng.integers(3))) for i in range(3)}
        selector.observe(choice, proposals)
        assert 0.0 < selector.propensity(choice) <= 1.0
        assert not agreed or selector.propensity(choice) == pytest.approx(1.0, abs=1e-12)
        selector.credit(choice, float(rng.random()))
