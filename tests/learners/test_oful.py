"""OFUL against a learner that solves everything from scratch each round; its ellipsoid; what it refuses."""

from dataclasses import dataclass, field
from math import inf, log, nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL
from equipoise.learners._core.ridge import ellipsoid_radius
from equipoise.types import Array


@dataclass
class NaiveOFUL:
    """OFUL as the textbook has it: all rows kept, all matrices solved afresh."""

    dim: int
    noise: float = 0.5
    delta: float = 0.01
    norm_bound: float = 1.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    regularization: float = 1.0
    scale: float = 1.0
    misspecification: float = 0.0
    rows: list[Array] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def estimate(self) -> tuple[Array, Array, float]:
        """(theta, Sigma, beta)."""
        rows = np.array(self.rows).reshape(-1, self.dim)
        sigma = self.regularization * np.eye(self.dim) + rows.T @ rows
        theta = np.linalg.solve(sigma, rows.T @ np.array(self.rewards))
        log_ratio = np.linalg.slogdet(sigma)[1] - self.dim * log(self.regularization)
        beta = self.noise * sqrt(log_ratio + 2 * log(1 / self.delta)) + sqrt(self.regularization) * self.norm_bound
        return theta, sigma, beta

    def decide(self, actions: Array) -> tuple[int, float, float, Array]:
        """(action, lower, regret, optimistic reward of every action)."""
        theta, sigma, beta = self.estimate()
        optimistic, lowers, regrets = [], [], []
        low, high = self.reward_range
        for action in actions[:, : self.dim]:
            norm = sqrt(action @ np.linalg.solve(sigma, action))
            half_width = self.scale * beta * norm + self.misspecification * sqrt(len(self.rows)) * norm
            optimistic.append(low + theta @ action + half_width)
            lowers.append(np.clip(low + theta @ action - half_width - self.misspecification, low, high))
            regrets.append(min(2 * half_width + 2 * self.misspecification, high - low))
        best = int(np.argmax(optimistic))
        return best, lowers[best], regrets[best], np.array(optimistic)

    def learn(self, row: Array, reward: float) -> None:
        self.rows.append(row[: self.dim])
        self.rewards.append(reward - self.reward_range[0])


def actions_in_the_ball(rng: np.random.Generator, n: int, dim: int) -> Array:
    rows = rng.standard_normal((n, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.random((n, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"dim": 4},
        {"dim": 1, "delta": 0.2},
        {"dim": 3, "scale": 0.25, "regularization": 0.3, "noise": 0.2, "norm_bound": 2.5},
        {"dim": 2, "misspecification": 0.05},
        {
            "dim": 6,
            "noise": 0.5,
            "scale": 0.5,
            "misspecification": 0.02,
            "reward_range": (-2.0, 3.0),
            "norm_bound": 1.0,
        },
    ],
)
def test_equals_the_naive_reference(settings: dict) -> None:
    """Offered actions change in number every round and have more columns than `dim`."""
    rng = np.random.default_rng(11)
    learner, naive = OFUL(**settings), NaiveOFUL(**settings)
    theta = actions_in_the_ball(rng, 1, 6)[0]
    for _ in range(400):
        actions = actions_in_the_ball(rng, int(rng.integers(1, 9)), 6)
        proposal = learner.decide(actions)
        action, lower, regret, _ = naive.decide(actions)
        assert proposal.action == action
        assert proposal.lower == pytest.approx(lower, rel=1e-9, abs=1e-9)
        assert proposal.regret == pytest.approx(regret, rel=1e-9)
        assert proposal.probability == 1.0
        reward = float(rng.random() < 0.5 + 0.5 * actions[action] @ theta)
        learner.learn(actions, action, reward)
        naive.learn(actions[action], reward)


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 4), n_actions=st.integers(1, 5), scale=st.floats(0.01, 3))
def test_learns_from_rounds_it_did_not_play(seed: int, dim: int, n_actions: int, scale: float) -> None:
    """Actions of somebody else's choice enter the estimate like its own; the action is optimistic all the same."""
    rng = np.random.default_rng(seed)
    learner, naive = OFUL(dim, scale=scale), NaiveOFUL(dim, scale=scale)
    for _ in range(12):
        actions = actions_in_the_ball(rng, n_actions, 5)
        proposal = learner.decide(actions)
        _, _, _, optimistic = naive.decide(actions)
        assert optimistic[proposal.action] == pytest.approx(optimistic.max(), rel=1e-9, abs=1e-9)
        taken, reward = int(rng.integers(n_actions)), float(rng.random())
        learner.learn(actions, taken, reward)
        naive.learn(actions[taken], reward)


def test_ties_go_to_the_first_action() -> None:
    assert OFUL(2).decide([[0.0, 0.5], [0.6, 0.0], [0.0, 0.6]]).action == 1


def test_radius_for_one_dimension_is_the_determinant_form() -> None:
    """Ten rows of norm 1: det Sigma = 11. The simplified form sqrt(d ln((1 + n/d)/delta)) would be smaller."""
    learner = OFUL(1, delta=0.01)
    for _ in range(10):
        learner.learn([[1.0]], 0, 0.5)
    radius = ellipsoid_radius(learner.params.ellipsoid, learner.memory)
    assert radius == pytest.approx(0.5 * sqrt(log(11) + 2 * log(100)) + 1.0, rel=1e-12)
    assert radius > 0.5 * sqrt(log(11 / 0.01)) + 1.0


def ellipsoid_ever_missed(seed: int, declared_noise: float) -> bool:
    """Whether theta* left the ellipsoid in any of 150 rounds; rewards are two-point, of sub-Gaussian factor 1/2."""
    rng = np.random.default_rng([12, seed])
    theta = np.array([0.2, 0.1])
    # Weak regularization and a tight norm bound: nearly all of the radius is there for the noise.
    learner = OFUL(
        2, noise=declared_noise, norm_bound=float(np.linalg.norm(theta)), regularization=0.01, delta=0.1, scale=0.2
    )
    for _ in range(150):
        actions = actions_in_the_ball(rng, 3, 2)
        action = learner.decide(actions).action
        learner.learn(actions, action, float(actions[action] @ theta + rng.choice([-0.5, 0.5])))
        distance = np.linalg.norm(np.linalg.solve(learner.memory.factor, learner.memory.theta - theta))
        if distance > ellipsoid_radius(learner.params.ellipsoid, learner.memory):
            return True
    return False


def p_value_of_misses(n_missed: int, n_runs: int, delta: float) -> float:
    """How likely so many misses are if each run misses with probability delta at most."""
    return float(binomtest(n_missed, n_runs, delta, alternative="greater").pvalue)


@pytest.mark.statistical
def test_ellipsoid_contains_the_parameter_at_all_times() -> None:
    """delta = 0.1. If the claim is true, the test fails with probability at most 1e-6 (exact binomial test)."""
    n_missed = sum(ellipsoid_ever_missed(seed, declared_noise=0.5) for seed in range(200))
    assert p_value_of_misses(n_missed, 200, 0.1) > 1e-6


@pytest.mark.statistical
def test_ellipsoid_for_understated_noise_is_caught() -> None:
    """Negative control: a third of the true noise declared, and the same test must reject."""
    n_missed = sum(ellipsoid_ever_missed(seed, declared_noise=0.5 / 3) for seed in range(200))
    assert p_value_of_misses(n_missed, 200, 0.1) < 1e-6


def width_ever_broken_by_misspecification(seed: int, declared: float) -> bool:
    """Whether |<theta, a> - <theta*, a>| ever exceeds the half-width of an offered action.

    Rewards are off by 0.3 in the direction that hurts most, always the sign of one coordinate, and have no noise.
    """
    rng = np.random.default_rng([13, seed])
    theta = np.array([0.3, -0.2, 0.1])
    settings: dict[str, Any] = {"noise": 1e-3, "norm_bound": 0.4, "regularization": 0.01}
    learner, naive = OFUL(3, misspecification=declared, **settings), NaiveOFUL(3, **settings)
    for _ in range(100):
        actions = actions_in_the_ball(rng, 4, 3)
        estimate, sigma, beta = naive.estimate()
        for row in actions:
            half_width = (beta + declared * sqrt(len(naive.rows))) * sqrt(row @ np.linalg.solve(sigma, row))
            if abs(row @ (estimate - theta)) > half_width:
                return True
        action = learner.decide(actions).action
        reward = float(actions[action] @ theta + 0.3 * np.sign(actions[action, 0]))
        learner.learn(actions, action, reward)
        naive.learn(actions[action], reward)
    return False


@pytest.mark.statistical
def test_width_for_misspecified_rewards_holds() -> None:
    """Nothing is random in the claim here (no noise), so it must hold in every run."""
    assert not any(width_ever_broken_by_misspecification(seed, declared=0.3) for seed in range(10))


@pytest.mark.statistical
@pytest.mark.parametrize("declared", [0.0, 0.15])
def test_width_for_less_than_the_misspecification_is_caught(declared: float) -> None:
    """Negative control: none, and half of it."""
    assert all(width_ever_broken_by_misspecification(seed, declared=declared) for seed in range(10))


@pytest.mark.statistical
def test_statements_hold_on_a_linear_problem() -> None:
    """lower <= expected reward and regret <= the proposal's in all rounds of at least a 1 - delta share of runs.

    delta = 0.1; fails with probability at most 1e-6 if the claim is true.
    """
    n_broken = 0
    for seed in range(60):
        rng = np.random.default_rng([14, seed])
        theta = np.array([0.5, 0.3, 0.2])
        learner = OFUL(3, noise=0.5, delta=0.1, reward_range=(-1.0, 1.0))
        broken = False
        for _ in range(150):
            actions = np.abs(actions_in_the_ball(rng, 5, 3))
            proposal = learner.decide(actions)
            means = actions @ theta - 1.0  # linear above the low end of the range
            broken |= proposal.lower > means[proposal.action] + 1e-12
            broken |= proposal.regret < means.max() - means[proposal.action] - 1e-12
            learner.learn(actions, proposal.action, float(means[proposal.action] + rng.choice([-0.5, 0.5])))
        n_broken += broken
    assert p_value_of_misses(n_broken, 60, 0.1) > 1e-6


GOOD = np.array([[0.6, 0.0, 0.3], [0.0, 0.5, 0.1]])


def filled_with(value: float) -> Array:
    actions = GOOD.copy()
    actions[1, 2] = value
    return actions


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (filled_with(nan), "context has an entry nan, but entries must be finite and at most 1e+100"),
        (filled_with(inf), "context has an entry inf, but entries must be finite and at most 1e+100"),
        (filled_with(-inf), "context has an entry inf, but entries must be finite and at most 1e+100"),
        (filled_with(1e155), "context has an entry 1e+155, but entries must be finite and at most 1e+100"),
        (np.full((2, 2), 1e99), "of norm 1.41421e+99, but norms must be at most action_bound = 1"),
        (np.array([[1.01, 0.0], [1.0, 0.5]]), "row 1 of norm 1.11803, but norms must be at most action_bound = 1"),
        (GOOD[0], "context has shape (3,), but must be a K x d matrix with K >= 1 rows"),
        (GOOD[:0], "context has shape (0, 3), but must be a K x d matrix with K >= 1 rows"),
        (GOOD[:, :1], "context has 1 columns, but must have at least dim = 2"),
        (None, "context is None, but must be a K x d matrix of numbers"),
        ("a", "context is 'a', but must be a K x d matrix of numbers"),
        ([["0.1", "0.2"]], "context is [['0.1', '0.2']], but must be a K x d matrix of numbers"),
        ([[0.1, 0.2], [0.3]], "context is [[0.1, 0.2], [0.3]], but must be a K x d matrix of numbers"),
        (GOOD * 1j, "but must be a K x d matrix of numbers"),
    ],
)
def test_bad_context_is_refused_and_changes_nothing(context, message: str) -> None:
    learner = OFUL(2)
    learner.learn(GOOD, 0, 0.4)
    before = learner.state()
    for call in (lambda: learner.decide(context), lambda: learner.learn(context, 1, 0.5)):
        with pytest.raises(InvalidArgument) as error:
            call()
        assert message in str(error.value)
    assert_same_state(learner, before)


def assert_same_state(learner: OFUL, before: dict[str, Array]) -> None:
    after = learner.state()
    assert after.keys() == before.keys()
    for name, array in after.items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GOOD, 2, 0.5), "action is 2, but must be an index from 0 to 1"),
        ((GOOD, -1, 0.5), "action is -1, but must be an index from 0 to 1"),
        ((GOOD, 0.0, 0.5), "action is 0.0, but must be an index from 0 to 1"),
        ((GOOD, None, 0.5), "action is None, but must be an index from 0 to 1"),
        ((GOOD, GOOD[0], 0.5), "but must be an index from 0 to 1"),
        ((GOOD, 0, nan), "reward is nan, but must be a finite number of magnitude at most 1e+100"),
        ((GOOD, 0, -inf), "reward is -inf, but must be a finite number of magnitude at most 1e+100"),
        ((GOOD, 0, 1e155), "reward is 1e+155, but must be a finite number of magnitude at most 1e+100"),
        ((GOOD, 0, "1"), "reward is '1', but must be a real number"),
        ((GOOD, 0, None), "reward is None, but must be a real number"),
        ((GOOD, 0, 0.5, -0.5), "weight is -0.5, but must not be negative"),
        ((GOOD, 0, 0.5, nan), "weight is nan, but must be a finite number of magnitude at most 1e+100"),
    ],
)
def test_bad_update_is_refused_and_changes_nothing(arguments: tuple, message: str) -> None:
    learner = OFUL(2)
    learner.learn(GOOD, 0, 0.4)
    before = learner.state()
    with pytest.raises(InvalidArgument) as error:
        learner.learn(*arguments)
    assert message in str(error.value)
    assert_same_state(learner, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim is 0, but must be a whole number from 1 to 10000"),
        ({"dim": 2.5}, "dim is 2.5, but must be a whole number from 1 to 10000"),
        ({"noise": 0.0}, "noise is 0.0, but must be positive, at least 1e-100"),
        ({"norm_bound": -1}, "norm_bound is -1, but must be positive, at least 1e-100"),
        ({"action_bound": inf}, "action_bound is inf, but must be a finite number of magnitude at most 1e+100"),
        ({"regularization": nan}, "regularization is nan, but must be a finite number of magnitude at most 1e+100"),
        (
            {"regularization": 1e-9},
            "regularization is 1e-09, but must be at least 1e-08 * action_bound^2 = 1e-08",
        ),
        ({"delta": 1.5}, "delta is 1.5, but must lie in (0, 1)"),
        ({"scale": 1e155}, "scale is 1e+155, but must be a finite number of magnitude at most 1e+100"),
        ({"misspecification": -0.1}, "misspecification is -0.1, but must not be negative"),
        ({"reward_range": (1.0, 1.0)}, "reward_range is (1.0, 1.0), but must have low < high"),
        ({"name": ""}, "name is '', but must be a nonempty string"),
        ({"name": 5}, "name is 5, but must be a nonempty string"),
    ],
)
def test_impossible_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        OFUL(**{"dim": 2, **settings})
    assert str(error.value) == message


def test_names_tell_learners_apart() -> None:
    assert OFUL(8).name == "OFUL(d=8)"
    assert OFUL(8, scale=0.5, misspecification=0.125).name == "OFUL(d=8, scale=0.5, eps=0.125)"
    assert OFUL(8, name="mine").name == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": np.zeros(3)}, "'theta' of OFUL(d=2) is float64 of shape (3,), but must be float64 of shape (2,)"),
        ({"draws": np.zeros(1)}, "'draws' of OFUL(d=2) is float64 of shape (1,), but must be int64 of shape (1,)"),
        ({"factor": None}, "'factor' of OFUL(d=2) is object of shape (), but must be float64 of shape (2, 2)"),
        ({"other": np.zeros(1)}, "state has entries ['draws', 'factor', 'log_determinant', 'other', 'theta', 'upda"),
    ],
)
def test_state_of_another_shape_is_refused_and_changes_nothing(change: dict, message: str) -> None:
    learner, other = OFUL(2), OFUL(2)
    learner.learn(GOOD, 0, 0.4)
    other.learn(GOOD, 1, 0.9)
    before = learner.state()
    with pytest.raises(InvalidArgument) as error:
        learner.restore({**other.state(), **change})
    assert message in str(error.value)
    assert_same_state(learner, before)


@pytest.mark.parametrize(
    "settings",
    [
        {"action_bound": 1e50, "regularization": 1e93, "norm_bound": 1e100, "noise": 1e100, "scale": 1e100},
        {"action_bound": 1e-100, "regularization": 1e-100, "norm_bound": 1e-100, "noise": 1e-100, "scale": 1e-100},
        {"regularization": 1e100},
    ],
)
def test_extreme_but_legal_magnitudes_stay_finite(settings: dict) -> None:
    learner = OFUL(2, **settings)
    actions = GOOD * settings.get("action_bound", 1.0)
    for reward in (1e100, -1e100, 0.5):
        learner.learn(actions, 1, reward)
    proposal = learner.decide(actions)
    assert np.isfinite([proposal.lower, proposal.regret]).all()
    assert all(np.isfinite(array).all() for array in learner.state().values())
