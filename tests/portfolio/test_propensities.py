"""Propensities: what a decision says about its probabilities is right, and learners are told it."""

from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Choice, Decision, Portfolio, Proposal
from equipoise.bounds import Power
from equipoise.errors import InvalidArgument
from equipoise.learners import UCB, Constant
from equipoise.selectors import EXP3, BalancedElimination, Corral, Uniform
from tests.recorders import RoundRobin

N_ACTIONS = 4


class Soft:
    """Draws actions from fixed probabilities, and tells them."""

    provides = frozenset({"pmf"})
    accepts = frozenset({"off_policy", "weight", "probability"})
    randomized = True

    def __init__(self, probabilities: list[float]) -> None:
        self.probabilities = np.array(probabilities)
        self.told: list[float] = []

    def pmf(self, context: Any) -> Any:
        return self.probabilities

    def decide(self, context: Any, rng: Any) -> Proposal:
        action = int(rng.choice(len(self.probabilities), p=self.probabilities))
        return Proposal(action, probability=float(self.probabilities[action]))

    def learn(self, context: Any, action: int, reward: float, weight: float = 1.0, *, probability: float = nan) -> None:
        self.told.append(probability)

    def state(self) -> dict[str, Any]:
        return {"told": np.array(self.told)}

    def restore(self, state: dict[str, Any]) -> None:
        self.told = state["told"].tolist()


def softs() -> list[Soft]:
    return [Soft([0.7, 0.1, 0.1, 0.1]), Soft([0.1, 0.2, 0.3, 0.4])]


RANDOMIZED: dict[str, Callable[[], Any]] = {
    "EXP3": lambda: EXP3(2),
    "Uniform": lambda: Uniform(2),
    "Corral": lambda: Corral(2, rounds=4000),
}
MEANS = np.array([0.45, 0.5, 0.55, 0.6])  # so close that every learner keeps some probability


def logged(make: Callable[[], Any], rounds: int, seed: int, explore: float = 0.0) -> list[tuple[Decision, float]]:
    portfolio = Portfolio(softs(), make(), seed=seed, explore=explore)
    rng, log = np.random.default_rng(seed), []
    context = np.zeros((N_ACTIONS, 1))
    for _ in range(rounds):
        decision = portfolio.decide(context, propensity=True)
        reward = float(rng.random() < MEANS[decision.action])
        portfolio.learn(decision, reward)
        log.append((decision, reward))
    return log


@pytest.mark.parametrize("name", RANDOMIZED)
def test_the_propensity_is_the_sum_over_the_learners_that_might_have_been_chosen(name: str) -> None:
    """By hand: the selector tells its probabilities before every choice."""
    portfolio = Portfolio(softs(), RANDOMIZED[name](), seed=3)
    rng = np.random.default_rng(3)
    for _ in range(200):
        chances = portfolio.selector.choice_probabilities()
        decision = portfolio.decide(np.zeros((N_ACTIONS, 1)), propensity=True)
        by_hand = sum(p * learner.probabilities[decision.action] for p, learner in zip(chances, softs(), strict=True))
        assert decision.learner is not None
        assert decision.propensity == pytest.approx(by_hand, abs=1e-12)
        assert decision.learner_probability == pytest.approx(chances[decision.learner], abs=1e-12)
        assert decision.action_probability == softs()[decision.learner].probabilities[decision.action]
        portfolio.learn(decision, float(rng.random() < MEANS[decision.action]))


def ips(log: list[tuple[Decision, float]], policy: Any, chance: Callable[[Decision], float]) -> Any:
    return np.array([policy[decision.action] / chance(decision) * reward for decision, reward in log])


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("name", RANDOMIZED)
def test_inverse_propensities_are_unbiased_and_the_joint_probability_is_not(name: str) -> None:
    """Ten fixed policies, 8 runs of 1,500 rounds.

    The weighted rewards minus the value are martingale increments, at most 10 in size here, so the mean over n = 12,000
    rounds deviates by less than 5 standard errors except with probability 1e-5 or so, in all 40 cases together below
    1e-3. The joint probability of learner and action is smaller than the propensity, so that its estimates are above.
    """
    policies = np.random.default_rng(0).dirichlet(np.ones(N_ACTIONS), 10)
    log = [row for seed in range(8) for row in logged(RANDOMIZED[name], 1500, seed)]
    joint_misses = 0
    for policy in policies:
        value = float(policy @ MEANS)
        weighted = ips(log, policy, lambda decision: decision.propensity)
        assert abs(weighted.mean() - value) < 5 * weighted.std() / np.sqrt(len(log))
        joint = ips(log, policy, lambda decision: decision.learner_probability * decision.action_probability)
        joint_misses += joint.mean() - value > 5 * joint.std() / np.sqrt(len(log))
    assert joint_misses == 10


def test_the_exploration_floor_has_exact_propensities() -> None:
    log = logged(lambda: EXP3(2), 4000, 5, explore=0.2)
    drawn = [decision for decision, _ in log if decision.learner is None]
    assert abs(len(drawn) - 800) < 5 * np.sqrt(4000 * 0.2 * 0.8)
    for decision, _ in log:
        assert decision.propensity >= 0.2 / N_ACTIONS
        if decision.learner is None:
            assert (decision.learner_probability, decision.action_probability) == (0.2, 0.25)
    counts = np.bincount([decision.action for decision in drawn], minlength=N_ACTIONS)
    assert abs(counts - len(drawn) / 4).max() < 5 * np.sqrt(len(drawn) * 3 / 16)
    share = np.mean([decision.propensity for decision, _ in log if decision.action == 3])
    assert 0.05 < share < 1.0


def test_floor_rounds_are_plays_of_nobody() -> None:
    portfolio = Portfolio([UCB(3), Constant(1)], BalancedElimination([Power(1.0)] * 2), explore=0.5, seed=1)
    for _ in range(200):
        portfolio.learn(portfolio.decide(None), 1.0)
    plays = sum(row.plays for row in portfolio.standing())
    health = portfolio.health()
    assert plays + health["unplayed"] == 200 and 60 < health["unplayed"] < 140 and health["fallbacks"] == 0
    certificate = portfolio.certificate()
    assert certificate.rounds == 200 and certificate.resolved_rounds == plays
    assert certificate.regret_upper >= health["unplayed"]
    with pytest.raises(InvalidArgument, match="explore needs finitely many actions"):
        Portfolio([Constant(0)], BalancedElimination([Power(1.0)]), explore=0.5).decide({"no": "matrix"})


def test_deterministic_selectors_have_the_learners_probability() -> None:
    portfolio = Portfolio(softs(), BalancedElimination([Power(1.0)] * 2))
    decision = portfolio.decide(np.zeros((N_ACTIONS, 1)))
    assert decision.propensity == decision.action_probability < 1.0 and decision.learner_probability == 1.0


def test_what_nobody_can_tell_is_nan() -> None:
    class Mute(Soft):
        provides = frozenset()

    portfolio = Portfolio([Mute([0.5, 0.5]), Soft([0.5, 0.5])], EXP3(2))
    assert isnan(portfolio.decide(np.zeros((2, 1)), propensity=True).propensity)
    assert isnan(Portfolio(softs(), EXP3(2)).decide(np.zeros((N_ACTIONS, 1))).propensity)  # nobody asked for it

    class Bare:
        def decide(self, context: Any) -> int:
            return 0

        def learn(self, context: Any, action: int, reward: float) -> None: ...

    assert isnan(Portfolio([Bare()], BalancedElimination([Power(1.0)])).decide(None).action_probability)


def test_learners_are_told_late_and_after_loading(tmp_path: Path) -> None:
    """Of its own plays a learner is told the probability of its action; with shared data that of all learners."""
    for shared in (False, True):
        portfolio = Portfolio(softs(), EXP3(2), share_data=shared, seed=2)
        decisions = [portfolio.decide(np.zeros((N_ACTIONS, 1)), propensity=True) for _ in range(30)]
        portfolio.save(tmp_path / "p")
        loaded = Portfolio.load(tmp_path / "p", learners=softs())
        for decision in reversed(decisions):
            loaded.learn(decision, 0.5)
        for i, learner in enumerate(loaded.learners):
            own = [decision for decision in reversed(decisions) if shared or decision.learner == i]
            assert learner.told == [d.propensity if shared else d.action_probability for d in own]
            assert learner.told


def test_a_selector_that_tells_no_probabilities_gives_no_propensity() -> None:
    class Coin(RoundRobin):
        def choose(self, rng: Any = None) -> Choice:
            return super().choose(rng)._replace(probability=0.5)

    assert isnan(Portfolio(softs(), Coin(2)).decide(np.zeros((N_ACTIONS, 1)), propensity=True).propensity)


def test_rounding_leaves_no_propensity_above_one() -> None:
    """0.05 + 0.55 + 0.3 + 0.1 is 1.0000000000000002 in this order, which learners refuse."""

    class Uneven(Uniform):
        def choice_probabilities(self, available: Any = None) -> tuple[float, ...]:
            return 0.05, 0.55, 0.3, 0.1

    assert sum((0.05, 0.55, 0.3, 0.1)) > 1.0
    portfolio = Portfolio([Constant(2) for _ in range(4)], Uneven(4))
    assert portfolio.decide(np.zeros((N_ACTIONS, 1)), propensity=True).propensity == 1.0
