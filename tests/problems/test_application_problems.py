"""The problems of the paper's applications: the error that is stated is the true one, and attributes are fair coins.

Tests of laws use fixed seeds and exact binomial tests; each alone accuses a sound problem with probability at most
1e-6.
"""

from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB
from equipoise.problems import DisjointLinearBandit, MisspecifiedLinearBandit

FALSE_ALARM = 1e-6
N_DRAWS = 4000


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def distance_to_linear(actions: np.ndarray, means: np.ndarray) -> float:
    """The least, over all linear functions, of the greatest error on these actions: a linear program."""
    n_actions, dim = actions.shape
    slack = -np.ones((n_actions, 1))
    result = linprog(
        np.append(np.zeros(dim), 1.0),
        A_ub=np.block([[actions, slack], [-actions, slack]]),
        b_ub=np.concatenate([means, -means]),
        bounds=[(None, None)] * dim + [(0, None)],
    )
    assert result.success and result.fun is not None
    return float(result.fun)


@settings(max_examples=40)
@given(st.integers(2, 6), st.just(0.0) | st.floats(1e-3, 0.25), st.integers(0, 99))
def test_no_linear_function_is_nearer_than_the_stated_error(dim: int, error: float, seed: int) -> None:
    """By brute force over all actions: theta errs by exactly eps*, and nothing errs by less.

    Errors well above the 1e-7 by which the solver of the linear program may violate a constraint.
    """
    problem = MisspecifiedLinearBandit(dim, error, seed=seed)
    actions, means = problem.params.table.reshape(-1, dim), problem.params.table_means.ravel()
    assert np.abs(means - actions @ problem.theta).max() == pytest.approx(error, abs=1e-12)
    assert distance_to_linear(actions, means) == pytest.approx(problem.misspecification, abs=1e-9)


def test_the_brute_force_would_notice_a_smaller_error() -> None:
    """Negative control: with the far menu alone the rewards are linear, whatever is stated."""
    problem = MisspecifiedLinearBandit(3, 0.2)
    assert distance_to_linear(problem.params.table[1], problem.params.table_means[1]) == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=40)
@given(st.integers(2, 9), st.floats(0.0, 0.25), st.integers(0, 99))
def test_actions_and_rewards_keep_to_their_ranges(dim: int, error: float, seed: int) -> None:
    problem = MisspecifiedLinearBandit(dim, error, seed=seed)
    assert np.linalg.norm(problem.params.table, axis=2).max() <= 1.0
    assert problem.params.table_means.min() >= 0.0 and problem.params.table_means.max() <= 1.0
    assert problem.norm == pytest.approx(np.linalg.norm(problem.theta))
    slopes = np.sort(np.abs(problem.theta[1:]))
    assert slopes == pytest.approx(np.linspace(0.05, 0.35, dim - 1))


def test_the_error_makes_the_near_menu_slope_the_other_way() -> None:
    """At eps* = 0.2 whoever goes by theta plays the worst action of each pair on the near menu and the best on the far
    one; at eps* = 0 the best on both."""
    for error, near_is_wrong in ((0.0, False), (0.2, True)):
        problem = MisspecifiedLinearBandit(4, error, seed=3)
        stored = problem.params.table, problem.params.table_means
        for menu, means, wrong in zip(*stored, (near_is_wrong, False), strict=True):
            for first in range(0, len(menu), 2):
                pair = slice(first, first + 2)
                assert ((menu[pair] @ problem.theta).argmax() != means[pair].argmax()) == wrong


@pytest.mark.statistical
def test_both_menus_come_up_equally_often() -> None:
    problem, rng = MisspecifiedLinearBandit(3, 0.1), rng_of(0)
    near = sum(np.array_equal(problem.observe(rng), problem.params.table[0]) for _ in range(N_DRAWS))
    assert stats.binomtest(near, N_DRAWS).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 1}, "dim is 1, but must be a whole number from 2 to 1000"),
        ({"misspecification": 0.3}, r"misspecification is 0.3, but must lie in \[0, 0.25\]"),
        ({"misspecification": -0.1}, r"misspecification is -0.1, but must lie in \[0, 0.25\]"),
        ({"noise": "loud"}, "noise is 'loud', but must be one of"),
        ({"seed": -1}, "seed is -1, but must be a whole number at least 0"),
    ],
)
def test_a_misspecified_bandit_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        MisspecifiedLinearBandit(**arguments)


def test_a_context_that_was_never_offered_has_no_rewards() -> None:
    problem = MisspecifiedLinearBandit(3, 0.1)
    with pytest.raises(InvalidArgument, match=r"must be one of the two menus of MisspecifiedLinearBandit\(d=3"):
        problem.gap(2 * problem.params.table[0], 0)


WEIGHTS = st.integers(2, 4).flatmap(
    lambda n_actions: st.integers(1, 4).flatmap(
        lambda m: st.lists(
            st.lists(st.floats(-0.1, 0.1), min_size=m, max_size=m), min_size=n_actions, max_size=n_actions
        )
    )
)


@settings(max_examples=60)
@given(WEIGHTS, st.integers(0, 99))
def test_rewards_are_what_the_attributes_make_of_them(weights: list[list[float]], seed: int) -> None:
    """Attributes read off the features, rewards added up one by one."""
    n_actions, n_attributes = len(weights), len(weights[0])
    biases = [0.4 + 0.05 * k for k in range(n_actions)]
    problem = DisjointLinearBandit(biases, weights)
    context = problem.observe(rng_of(seed))
    assert np.linalg.norm(context, axis=1) == pytest.approx(1.0)
    for k in range(n_actions):
        features = context[k].reshape(1 + n_attributes, n_actions)
        assert np.count_nonzero(features) == np.count_nonzero(features[:, k]) == 1 + n_attributes
        assert features[0, k] == pytest.approx(1 / sqrt(2))
        attributes = features[1:, k] * sqrt(2 * n_attributes)
        assert np.abs(attributes) == pytest.approx(1.0)
        mean = biases[k] + sum(w * a for w, a in zip(weights[k], attributes, strict=True))
        assert problem.means(context)[k] == pytest.approx(mean, abs=1e-12)
    assert problem.norm == pytest.approx(np.linalg.norm(problem.theta))
    assert context @ problem.theta == pytest.approx(problem.means(context), abs=1e-12)


@pytest.mark.statistical
def test_attributes_are_fair_and_independent_coins() -> None:
    problem, rng = DisjointLinearBandit([0.5, 0.5], [[0.1] * 3, [0.0] * 3]), rng_of(1)
    signs = np.array([problem.observe(rng)[0].reshape(4, 2)[1:, 0] > 0 for _ in range(N_DRAWS)])
    for j in range(3):
        assert stats.binomtest(int(signs[:, j].sum()), N_DRAWS).pvalue > FALSE_ALARM
    for i, j in combinations(range(3), 2):
        assert stats.binomtest(int((signs[:, i] == signs[:, j]).sum()), N_DRAWS).pvalue > FALSE_ALARM


def test_fewer_columns_are_the_first_of_all() -> None:
    """So a learner that looks at part of the attributes meets the same visitors."""
    problem = DisjointLinearBandit([0.5, 0.4], [[0.1, 0.0, 0.0], [-0.1, 0.0, 0.0]])
    assert problem.n_relevant == 1
    assert [problem.columns_for(OFUL(dim)) for dim in (1, 2, 4, 5, 8, 9)] == [4, 4, 4, 6, 8, 8]
    assert problem.columns_for(UCB(2)) == 4
    draw, params = problem.kernels.draw, problem.params
    for seed in range(20):
        actions, means = draw(params, problem.workspace(), rng_of(seed))
        some, their_means = draw(params, problem.workspace(4), rng_of(seed))
        assert np.array_equal(some, actions[:, :4])
        assert their_means == pytest.approx(means, abs=1e-15)


@pytest.mark.parametrize(("weights", "n_relevant"), [([0, 0, 0], 0), ([1, 0, 0], 1), ([0, 0, 1], 3), ([1, 0, 1], 3)])
def test_attributes_are_relevant_up_to_the_last_that_matters(weights: list[int], n_relevant: int) -> None:
    assert DisjointLinearBandit([0.5, 0.5], [[0.1 * w for w in weights], [0.0] * 3]).n_relevant == n_relevant


@pytest.mark.parametrize(
    ("biases", "weights", "message"),
    [
        ([0.5], [[0.0]], r"shapes \(1,\) and \(1, 1\), but must have \(K,\) and \(K, m\) with K >= 2"),
        ([0.5, 0.5], [[], []], r"shapes \(2,\) and \(2, 0\)"),
        ([0.5, 0.5], [[0.1]], r"shapes \(2,\) and \(1, 1\)"),
        ([0.9, 0.5], [[0.2], [0.0]], r"give expected rewards from 0.5 to 1.1, but they must lie in \[0, 1\]"),
        ([0.1, 0.5], [[0.1, 0.1], [0.0, 0.0]], r"give expected rewards from -0.1 to 0.5"),
        ("ab", [[0.0], [0.0]], "biases is 'ab', but must be an array of numbers"),
        ([0.5, 0.5], [0.0, 0.0], r"weights has shape \(2,\), but must have 2 axes"),
        ([0.5, float("nan")], [[0.0], [0.0]], "biases has invalid entries, but all must be finite"),
    ],
)
def test_a_disjoint_bandit_refuses(biases: Any, weights: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        DisjointLinearBandit(biases, weights)


def test_extreme_rewards_are_admitted() -> None:
    problem = DisjointLinearBandit([0.5, 0.5], [[0.5], [-0.5]])
    seen = {tuple(problem.means(problem.observe(rng_of(seed))).round(9)) for seed in range(20)}
    assert seen == {(1.0, 0.0), (0.0, 1.0)}
