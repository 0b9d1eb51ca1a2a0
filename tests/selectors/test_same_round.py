"""The same-round test against a slow reference, with the control that shows why a witness must be trusted or nested."""

import json
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.bounds import Bound, Custom, Observed, Power
from equipoise.certificates import Elimination, SameRoundElimination
from equipoise.certificates.records import describe_elimination, elimination_record, verify_record
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import Proposal
from equipoise.learners import OFUL, UCB, Constant
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import digest
from equipoise.storage.parts import load, save
from tests.radii import normal_mixture, stitched_radius

NARROW = 0.05  # radius_scale at which learners are eliminated within few rounds


class Round(NamedTuple):
    learner: int
    reward: float
    lowers: tuple[float, ...]


def noise_radius(n: int, alpha: float) -> float:
    return min(stitched_radius(n, 0.25, alpha / 2), normal_mixture(n, 0.25, alpha / 2))


def refuted(rounds: list[Round], i: int, bounds: list[Bound], active: set[int]) -> bool:
    """Whether the lower bounds of an active witness in the rounds of i exceed what its bound allows; from scratch."""
    own = [each for each in rounds if each.learner == i]
    bound = 0.0
    for n in range(1, len(own) + 1):
        bound = min(bound + 1.0, max(bound, bounds[i].raw(n)))  # type: ignore[union-attr]
    allowed = sum(each.reward for each in own) + bound + NARROW * noise_radius(len(own), 0.05 / (3 * (len(bounds) + 1)))
    claims = [sum(each.lowers[j] for each in own) for j in range(i + 1, len(bounds)) if j in active]
    return max(claims, default=-np.inf) > allowed


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_it_eliminates_whom_the_reference_eliminates(seed: int) -> None:
    """All other eliminations are by the test of Algorithm 1, which has a reference of its own."""
    rng = np.random.default_rng(seed)
    bounds: list[Bound] = [Power(0.3), Power(0.4), Power(0.5)]
    selector = BalancedElimination(bounds, same_round=True, radius_scale=NARROW)
    means, levels = rng.random(3) * 0.5 + 0.25, rng.random(3)
    rounds: list[Round] = []
    for _ in range(40):
        before = set(selector.active)
        choice = selector.choose()
        lowers = tuple(float(level * rng.random()) for level in levels)
        selector.observe(choice, {j: Proposal(0, lower=lowers[j]) for j in selector.active})
        reward = float(rng.random() < means[choice.learner])
        known = tuple(lower if j in before else 0.0 for j, lower in enumerate(lowers))
        rounds.append(Round(choice.learner, reward, known))
        new = selector.credit(choice, reward)
        by_round = [each.learner.index for each in new if isinstance(each, SameRoundElimination)]
        by_plays = {each.learner.index for each in new if isinstance(each, Elimination)}
        left = before - by_plays
        expected = choice.learner in left and refuted(rounds, choice.learner, bounds, left)
        assert by_round == ([choice.learner] if expected else [])
        assert selector.active
        for each in new:
            about: Any = {"selector_label": "s", "seed": 0, "premises": selector.premises, "learner_names": "abc"}
            record = elimination_record(each, **about)
            faults = verify_record(json.loads(json.dumps(record)))
            assert [fault for fault in faults if not fault.startswith("radius_scale")] == []


def test_a_true_bound_is_kept_if_plays_are_left_out() -> None:
    """Regret 0 in 900 plays that are left out, then 1 in each of 30: at most sqrt(n) after every play n."""
    selector = BalancedElimination([Power(1.0), Power(100.0)], same_round=True)
    while (plays := selector.standing()[0].plays) < 930 and 0 in selector.active:
        counts = plays >= 900
        choice = selector.choose(available=None if counts else [0])
        selector.observe(choice, {i: Proposal(i, lower=float(i)) for i in range(1 + counts)})
        if not counts:
            selector.leave_out(choice)
        selector.credit(choice, float(choice.learner == 1 or not counts))
    assert selector.active == (0, 1)


def single_offers(dims: tuple[int, int], rounds: int = 8_000) -> BalancedElimination:
    """One action is offered: (1, 0), which pays 0.85, in 30 % of the rounds, and (0.4, 1), which pays 0.1, in the
    others. No model of the first feature alone has that; OFUL(2) is perfect, and nobody has any regret."""
    rng = np.random.default_rng(0)
    learners = [OFUL(dim, noise=0.05, action_bound=1.1) for dim in dims]
    selector = BalancedElimination([Power(0.05)] * 2, same_round=True)
    for _ in range(rounds):
        rare = rng.random() < 0.3
        context, reward = (np.array([[1.0, 0.0]]), 0.85) if rare else (np.array([[0.4, 1.0]]), 0.1)
        choice = selector.choose()
        selector.observe(choice, {i: learners[i].decide(context) for i in selector.active})
        learners[choice.learner].learn(context, 0, reward)
        selector.credit(choice, reward)
        if selector.eliminations:
            break
    return selector


@pytest.mark.slow
def test_a_misspecified_witness_would_eliminate_a_perfect_learner() -> None:
    """The control: why Algorithm 1's freedom in the choice of a witness is not there."""
    selector = single_offers((2, 1))  # a portfolio refuses this order
    (elimination,) = selector.eliminations
    assert isinstance(elimination, SameRoundElimination)
    assert (elimination.learner.index, elimination.witness.index) == (0, 1)
    about: Any = {"selector_label": "s", "seed": 0, "premises": selector.premises}
    record = elimination_record(elimination, learner_names=["OFUL(d=2)", "OFUL(d=1)"], **about)
    assert verify_record(record) == []
    assert "OFUL(d=2) was eliminated with confidence 0.95, if the confidence sets of OFUL(d=1) hold" in (
        describe_elimination(record)
    )
    for name, value in (("lower_sum", 2000.0), ("mean_lower", 0.9)):
        forged = {**record, "witness": {**record["witness"], name: value}}
        assert verify_record({**forged, "digest": digest(forged)}) != []


@pytest.mark.slow
def test_in_a_nested_pool_no_smaller_class_is_a_witness() -> None:
    selector = single_offers((1, 2), rounds=6_400)
    assert selector.needs == {"bounds", "actions", "lower", "nested"}
    assert selector.eliminations == []


def eliminated_by_late_zeros(seed: int, *, in_order: bool = True) -> bool:
    """Whether one of two learners with regret 0 and true bounds is eliminated, if zeros of the second come late.

    The one action pays 1 in half of the rounds. Unless learners learn `in_order`, the second believes in more.
    """
    selector = BalancedElimination([Power(0.5)] * 2, same_round=True)
    portfolio = Portfolio([OFUL(dim, noise=0.5) for dim in (1, 2)], selector, seed=seed)
    if not in_order:
        portfolio._state.updates.in_order.clear()
    rng, waiting, context = np.random.default_rng([12, seed]), deque[tuple[int, str]](), np.array([[1.0, 0.0]])
    for t in range(2_600):
        while waiting and waiting[0][0] <= t:
            portfolio.learn(waiting.popleft()[1], 0.0)
        decision, reward = portfolio.decide(context), float(rng.random() < 0.5)
        if decision.learner == 1 and reward == 0.0:
            waiting.append((t + 1_200, decision.id))
        else:
            portfolio.learn(decision, reward)
    return bool(selector.eliminations)


@pytest.mark.slow
def test_witnesses_learn_in_order_whatever_their_bound() -> None:
    """No learner is eliminated; the control, in which witnesses learn at once, eliminates one in 2 of 2 runs."""
    assert not any(map(eliminated_by_late_zeros, range(3)))
    assert all(eliminated_by_late_zeros(seed, in_order=False) for seed in range(2))


def test_which_learners_learn_in_order() -> None:
    def of(selector: BalancedElimination, **settings: Any) -> set[int]:
        return set(Portfolio([OFUL(1), OFUL(2), OFUL(3)], selector, **settings)._state.updates.in_order)

    bounds: list[Bound] = [Power(1.0), Observed(), Power(1.0)]
    assert of(BalancedElimination(bounds)) == {1}
    assert of(BalancedElimination(bounds, same_round=True)) == {0, 1, 2}
    assert of(BalancedElimination(bounds, same_round=True), delays="independent") == set()


def test_saving_keeps_the_sums(tmp_path: Any) -> None:
    selector = single_offers((1, 2), rounds=50)
    save(selector, tmp_path / "s")
    assert load(tmp_path / "s") == selector


def test_what_it_needs_is_said() -> None:
    with pytest.raises(
        InvalidArgument, match=r"same_round is True with radius 'paper', but its printed form leaves no"
    ):
        BalancedElimination([Power(1.0)] * 2, same_round=True, radius="paper")
    with pytest.raises(InvalidArgument, match=r"same_round is True, but bound 'f' is Custom"):
        BalancedElimination([Custom(float, "f")] * 2, same_round=True)
    same_round = BalancedElimination([Power(1.0)] * 2, same_round=True)
    with pytest.raises(IncompatibleLearner, match=r"needs learners with nested model classes"):
        Portfolio([OFUL(3), OFUL(2)], same_round)
    with pytest.raises(IncompatibleLearner, match=r"needs a lower bound from every learner"):
        Portfolio([UCB(2), Constant(0)], BalancedElimination([Power(1.0)] * 2, same_round=True))
    assert BalancedElimination([Power(1.0)] * 2).needs == {"bounds"}
    assert BalancedElimination([Power(1.0)] * 2, same_round=True).confidence.shares == 3
