"""UCB, EpsilonGreedy and Constant: against naive references, their probabilities, what they refuse."""

from copy import deepcopy
from math import inf, isnan, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from equipoise.errors import InvalidArgument
from equipoise.learner import Proposal
from equipoise.learners import UCB, Ball, Constant, EpsilonGreedy


def offered(n_arms: int) -> np.ndarray:
    """A context that offers the first n_arms arms; its columns mean nothing."""
    return np.full((n_arms, 2), 0.3)


class NaiveUCB:
    """All rewards kept, everything computed afresh."""

    def __init__(self, arms: int, noise: float, scale: float, delta: float, reward_range: tuple[float, float]) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(arms)]
        self.noise, self.scale, self.delta, self.reward_range = noise, scale, delta, reward_range

    def interval(self, arm: int) -> tuple[float, float]:
        """(mean, half width) of one arm: the stitched radius of the sum over n plays, divided by n."""
        n = len(self.rewards[arm])
        alpha = self.delta / (2 * len(self.rewards))
        radius = 1.7 * sqrt(self.noise**2 * n * (log(log(2 * n)) + 0.72 * log(5.2 / alpha)))
        return sum(self.rewards[arm]) / n, self.scale * radius / n

    def decide(self, n_offered: int) -> Proposal:
        low, high = self.reward_range
        for arm in range(n_offered):
            if not self.rewards[arm]:
                return Proposal(arm, low, high - low, 1.0, arm, (low + high) / 2)
        uppers = [sum(self.interval(arm)) for arm in range(n_offered)]
        best = uppers.index(max(uppers))
        mean, half_width = self.interval(best)
        lower, regret = min(max(mean - half_width, low), high), min(2 * half_width, high - low)
        means = [self.interval(arm)[0] for arm in range(n_offered)]
        return Proposal(best, lower, regret, 1.0, means.index(max(means)), mean)


@pytest.mark.slow
@given(
    arms=st.integers(1, 6),
    noise=st.floats(0.05, 2),
    scale=st.floats(0.05, 2),
    delta=st.floats(0.001, 0.5),
    low=st.floats(-2, 0.4),
    seed=st.integers(0, 2**32),
)
def test_ucb_equals_the_naive_reference(
    arms: int, noise: float, scale: float, delta: float, low: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    learner = UCB(arms, noise=noise, scale=scale, delta=delta, reward_range=(low, 1.0))
    naive = NaiveUCB(arms, noise, scale, delta, (low, 1.0))
    for _ in range(60):
        n_offered = int(rng.integers(1, arms + 1))
        proposal = learner.decide(None if n_offered == arms else offered(n_offered))
        expected = naive.decide(n_offered)
        assert (proposal.action, proposal.greedy) == (expected.action, expected.greedy)
        assert proposal.plan is None
        assert proposal[:-1] == pytest.approx(expected[:-1], rel=1e-9, abs=1e-12)
        reward = float(rng.random())
        learner.learn(offered(n_offered), proposal.action, reward)
        naive.rewards[proposal.action].append(reward)


def interval_ever_missed(seed: int, scale: float) -> bool:
    """Whether some arm's expected reward left its interval in 1,500 rounds of Bernoulli rewards (factor 1/2)."""
    rng = np.random.default_rng([21, seed])
    means = np.array([0.5, 0.5, 0.4])
    learner = UCB(3, scale=scale, delta=0.1)
    for number in rng.random(1500):
        arm = learner.decide(None).action
        learner.learn(None, arm, float(number < means[arm]))
        if not learner.memory.mean_lowers[arm] <= means[arm] <= learner.memory.mean_uppers[arm]:
            return True
    return False


def p_value_of_misses(n_missed: int, n_runs: int) -> float:
    """How likely so many misses are if each run misses with probability 0.1 at most."""
    return float(binomtest(n_missed, n_runs, 0.1, alternative="greater").pvalue)


@pytest.mark.statistical
def test_ucb_intervals_hold_at_all_times() -> None:
    """delta = 0.1. If the claim is true, the test fails with probability at most 1e-6 (exact binomial test)."""
    assert p_value_of_misses(sum(interval_ever_missed(seed, scale=1.0) for seed in range(100)), 100) > 1e-6


@pytest.mark.statistical
def test_ucb_intervals_of_a_third_of_the_width_are_caught() -> None:
    """Negative control: the same test must reject."""
    assert p_value_of_misses(sum(interval_ever_missed(seed, scale=1 / 3) for seed in range(100)), 100) < 1e-6


def test_ucb_statements_hold_on_the_event() -> None:
    """Wherever all intervals hold, lower <= expected reward and the proposal's regret covers the gap, for any K."""
    rng = np.random.default_rng(22)
    means = np.array([0.2, 0.7, 0.5, 0.75])
    learner = UCB(4, scale=0.4)
    n_checked = 0
    for _ in range(2000):
        n_offered = int(rng.integers(1, 5))
        proposal = learner.decide(offered(n_offered))
        if ((learner.memory.mean_lowers <= means) & (means <= learner.memory.mean_uppers)).all():
            n_checked += 1
            assert proposal.lower <= means[proposal.action]
            assert proposal.regret >= means[:n_offered].max() - means[proposal.action]
        learner.learn(offered(n_offered), proposal.action, float(rng.random() < means[proposal.action]))
    assert n_checked > 500


def test_unplayed_arms_come_first_in_order() -> None:
    for learner in (UCB(3), EpsilonGreedy(3, epsilon=0.0)):
        for arm in range(3):
            assert learner.decide(None).action == arm
            learner.learn(None, arm, 1.0)


def greedy_after(rewards: list[list[float]], n_offered: int) -> int:
    learner = EpsilonGreedy(len(rewards), epsilon=0.0)
    for arm, of_arm in enumerate(rewards):
        for reward in of_arm:
            learner.learn(None, arm, reward)
    proposal = learner.decide(offered(n_offered))
    assert proposal.probability == 1.0
    return proposal.action


def test_greedy_arm_has_the_greatest_mean_and_ties_go_to_the_lower_index() -> None:
    assert greedy_after([[0.2], [0.9, 0.5], [0.8]], 3) == 2
    assert greedy_after([[0.2], [0.9, 0.5], [0.8]], 2) == 1
    assert greedy_after([[0.1], [0.5], [0.5]], 3) == 1
    assert greedy_after([[1.0], [], [1.0]], 3) == 1
    assert greedy_after([[-3.0], [-2.0]], 2) == 1


@pytest.mark.parametrize(("n_offered", "epsilon"), [(2, 0.3), (5, 0.3), (5, 1.0), (4, 0.05)])
def test_reported_probabilities_are_the_frequencies(n_offered: int, epsilon: float) -> None:
    """20,000 decisions, chi-square test of level 1e-6, which is the probability of failing with the right law.

    The reported probability of each action is always the same number, and they sum to 1.
    """
    learner = EpsilonGreedy(5, epsilon=epsilon)
    for arm, reward in enumerate([0.1, 0.6, 0.3, 0.9, 0.2]):
        learner.learn(None, arm, reward)
    rng = np.random.default_rng(23)
    counts, reported = np.zeros(n_offered), np.full(n_offered, nan)
    for _ in range(20_000):
        proposal = learner.decide(offered(n_offered), rng)
        counts[proposal.action] += 1
        assert isnan(reported[proposal.action]) or reported[proposal.action] == proposal.probability
        reported[proposal.action] = proposal.probability
    assert reported.sum() == pytest.approx(1.0, rel=1e-12)
    assert chisquare(counts, 20_000 * reported).pvalue > 1e-6


def test_wrong_probabilities_would_be_noticed() -> None:
    """Negative control of the chi-square test: frequencies of epsilon = 0.3 against the law of epsilon = 0.25."""
    learner = EpsilonGreedy(5, epsilon=0.3)
    rng = np.random.default_rng(23)
    counts = np.bincount([learner.decide(None, rng).action for _ in range(20_000)], minlength=5)
    law = np.full(5, 0.25 / 5)
    law[0] += 0.75
    assert chisquare(counts, 20_000 * law).pvalue < 1e-6


def test_own_stream_belongs_to_the_seed_and_moves_on() -> None:
    def actions(seed: int) -> list[int]:
        learner = EpsilonGreedy(8, epsilon=1.0, seed=seed)
        return [learner.decide(None).action for _ in range(40)]

    assert actions(1) == actions(1) != actions(2)
    assert len(set(actions(1))) > 1


def test_a_deep_copy_draws_from_a_stream_of_its_own() -> None:
    learner = EpsilonGreedy(8, epsilon=1.0)
    expected = [learner.decide(None).action for _ in range(20)]
    fresh = EpsilonGreedy(8, epsilon=1.0)
    copy = deepcopy(fresh)
    assert [copy.decide(None).action for _ in range(20)] == expected
    assert [fresh.decide(None).action for _ in range(20)] == expected


def test_constant_always_plays_the_same() -> None:
    learner = Constant(2)
    for context in (None, offered(3), offered(7)):
        assert str(learner.decide(context)) == str(Proposal(2, greedy=2))
        learner.learn(context, 1, 0.5)
    learner.learn(None, 10**6, 0.5)
    assert str(learner.decide(None)) == str(Proposal(2, greedy=2))


def test_names_tell_learners_apart() -> None:
    assert UCB(3).name == "UCB"
    assert UCB(3, scale=0.5).name == "UCB(scale=0.5)"
    assert EpsilonGreedy(3, epsilon=0.1).name == "EpsilonGreedy(0.1)"
    assert Constant(4).name == "Constant(4)"
    assert Constant(4, name="today's rule").name == "today's rule"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UCB(0), "arms is 0, but must be a whole number from 1 to 1000000"),
        (lambda: UCB(True), "arms is True, but must be a whole number from 1 to 1000000"),
        (lambda: UCB(2, noise=-1), "noise is -1, but must be positive, at least 1e-100"),
        (lambda: UCB(2, scale=inf), "scale is inf, but must be a finite number of magnitude at most 1e+100"),
        (lambda: UCB(2, delta=0.0), "delta is 0.0, but must lie in (0, 1)"),
        (lambda: UCB(2, reward_range=(1.0, 0.0)), "reward_range is (1.0, 0.0), but must have low < high"),
        (lambda: EpsilonGreedy(2, epsilon=1.5), "epsilon is 1.5, but must lie in [0, 1]"),
        (lambda: EpsilonGreedy(2, epsilon=nan), "epsilon is nan, but must be a finite number"),
        (lambda: EpsilonGreedy(2, epsilon=0.1, seed=-1), "seed is -1, but must be a whole number from 0 to 1844"),
        (lambda: Constant(-1), "action is -1, but must be a whole number from 0 to 2147483647"),
        (lambda: Constant(True), "action is True, but must be a whole number from 0 to 2147483647"),
    ],
)
def test_impossible_settings_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize("learner", [UCB(3), EpsilonGreedy(3, epsilon=0.1), Constant(1)], ids=lambda it: it.name)
@pytest.mark.parametrize(
    ("context", "message"),
    [
        (np.zeros(3), "context has shape (3,), but must be a K x d matrix with K >= 1 rows"),
        (np.zeros((0, 2)), "context has shape (0, 2), but must be a K x d matrix with K >= 1 rows"),
        (np.full((2, 2), nan), "context has an entry nan, but entries must be finite and at most 1e+100"),
        (np.full((2, 2), 1e155), "context has an entry 1e+155, but entries must be finite and at most 1e+100"),
        ([["a"]], "context is [['a']], but must be a K x d matrix of numbers"),
        (Ball(2), "context is Ball(dim=2, radius=1.0), but must offer finitely many actions"),
    ],
)
def test_bad_context_is_refused(learner, context, message: str) -> None:
    for call in (lambda: learner.decide(context), lambda: learner.learn(context, 0, 0.5)):
        with pytest.raises(InvalidArgument) as error:
            call()
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("learner", "context", "message"),
    [
        (UCB(3), offered(4), "context has 4 rows, but must have at most arms = 3"),
        (EpsilonGreedy(3, epsilon=0.1), offered(4), "context has 4 rows, but must have at most arms = 3"),
        (Constant(1), offered(1), "context has 1 rows, but must have more than action = 1"),
    ],
)
def test_wrong_number_of_offered_arms_is_refused(learner, context, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        learner.decide(context)
    assert str(error.value) == message


@pytest.mark.parametrize("learner", [UCB(3), EpsilonGreedy(3, epsilon=0.1), Constant(1)], ids=lambda it: it.name)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((offered(2), 2, 0.5), "action is 2, but must be an index from 0 to 1"),
        ((None, -1, 0.5), "action is -1, but must be an index from 0 to"),
        ((None, 0, nan), "reward is nan, but must be a finite number of magnitude at most 1e+100"),
        ((None, 0, 1e155), "reward is 1e+155, but must be a finite number of magnitude at most 1e+100"),
        ((None, 0, 0.5, -2.0), "weight is -2.0, but"),
    ],
)
def test_bad_update_is_refused_and_changes_nothing(learner, arguments: tuple, message: str) -> None:
    before = learner.state()
    with pytest.raises(InvalidArgument) as error:
        learner.learn(*arguments)
    assert message in str(error.value)
    for name, array in learner.state().items():
        np.testing.assert_array_equal(array, before[name])
