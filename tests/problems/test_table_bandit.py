"""A bandit on given features: what is offered, what it is worth, how often, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from equipoise.errors import InvalidArgument
from equipoise.problems import TableBandit

FEATURES = [[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [[0.2, 0.2], [0.4, 0.0], [0.0, 0.0]], [[0.0, 0.1]] * 3]
THETA = [0.3, 0.9]
N_DRAWS = 4000
FALSE_ALARM = 1e-6


def test_offered_actions_are_those_of_the_table_with_their_expected_rewards() -> None:
    problem, rng = TableBandit(FEATURES, THETA), np.random.default_rng(0)
    seen = set()
    for _ in range(50):
        context = problem.observe(rng)
        (row,) = [n for n, actions in enumerate(FEATURES) if np.array_equal(context, actions)]
        means = [sum(a * b for a, b in zip(action, THETA, strict=True)) for action in FEATURES[row]]
        assert problem.means(context) == pytest.approx(means, abs=1e-12)
        gaps = [problem.gap(context, action) for action in range(3)]
        assert gaps == pytest.approx([max(means) - mean for mean in means], abs=1e-12)
        seen.add(row)
    assert seen == {0, 1, 2}
    assert (problem.n_actions, problem.n_columns, problem.name) == (3, 2, "TableBandit(3 sets, K=3, d=2)")


@pytest.mark.statistical
def test_sets_come_up_equally_often() -> None:
    """Exact binomial test for each of three sets; together they accuse a sound problem with probability 1e-6."""
    problem, rng = TableBandit(FEATURES, THETA), np.random.default_rng(1)
    rows = [problem.observe(rng)[0, 0] for _ in range(N_DRAWS)]
    for actions in FEATURES:
        assert stats.binomtest(rows.count(actions[0][0]), N_DRAWS, 1 / 3).pvalue > FALSE_ALARM / 3
    assert not stats.binomtest(rows.count(1.0), N_DRAWS, 0.25).pvalue > FALSE_ALARM / 3


def test_the_table_is_a_copy() -> None:
    features = np.array(FEATURES)
    problem = TableBandit(features, THETA)
    features[:] = 7.0
    assert problem.params.table.tolist() == FEATURES
    problem.observe(np.random.default_rng(0))[:] = 7.0
    assert problem.params.table.tolist() == FEATURES


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: TableBandit("ab", THETA), "features is 'ab', but must be an array of numbers"),
    (lambda: TableBandit([[[0.1], [0.1, 0.2]]], THETA), "features is [[[0.1], [0.1, 0.2]]], but must be an array"),
    (lambda: TableBandit(FEATURES[0], THETA), "features has shape (3, 2), but must have 3 axes"),
    (lambda: TableBandit(FEATURES, [THETA]), "theta has shape (1, 2), but must have 1 axes"),
    (lambda: TableBandit(np.empty((0, 3, 2)), THETA), "features has shape (0, 3, 2), but must have at least 1 set"),
    (lambda: TableBandit([[[0.1, 0.2]]], THETA), "features has shape (1, 1, 2), but must have at least 1 set of 2"),
    (lambda: TableBandit(FEATURES, [0.5]), "theta has 1 entries, but must have one for each of 2 features"),
    (
        lambda: TableBandit([[[np.nan], [0.0]]], [1.0]),
        "features has invalid entries, but all must be finite and at most 1e+100",
    ),
    (
        lambda: TableBandit(FEATURES, [np.inf, 0.0]),
        "theta has invalid entries, but all must be finite and at most 1e+100",
    ),
    (
        lambda: TableBandit(FEATURES, [0.3, 1.5]),
        "features[0] has expected rewards from 0.3 to 1.5, but they must lie in [0, 1]",
    ),
    (lambda: TableBandit(FEATURES, THETA, noise="cauchy"), "noise is 'cauchy', but must be one of"),
    (lambda: TableBandit(FEATURES, THETA).gap([[0.1, 0.1]], 0), "context has shape (1, 2), but must have (3, 2)"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refusal_names_argument_value_and_rule(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value).startswith(message)
