"""The problems do what their documentation says: geometry, laws, noise, gaps, and refusals.

Tests of laws use fixed seeds and Kolmogorov-Smirnov or exact binomial tests; each alone accuses a sound problem with
probability at most 1e-6.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.problems.linear_bandit import Params, draw, draw_theta

FALSE_ALARM = 1e-6
N_DRAWS = 4000

SHAPES = st.integers(2, 9).flatmap(lambda d_max: st.tuples(st.just(d_max), st.integers(2, d_max)))


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def agrees_with(sample: Any, law: Any) -> bool:
    """Whether a sample passes for one of a continuous law."""
    return bool(stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM)


def squared_share(n_columns: int, dim: int) -> Any:
    """Law of the squared length of the first `n_columns` entries of a random direction in `dim` dimensions: a sum of
    n squares of normals over the sum of all, hence beta."""
    return stats.beta(n_columns / 2, (dim - n_columns) / 2)


@settings(max_examples=60)
@given(SHAPES, st.integers(2, 6), st.sampled_from(["fresh", "table", "fixed"]), st.integers(0, 99))
def test_actions_and_theta_have_the_documented_norms(
    shape: tuple[int, int], n_actions: int, contexts: str, seed: int
) -> None:
    d_max, d_star = shape
    problem = LinearBandit(d_max, d_star, n_actions, contexts=contexts, table_size=3, seed=seed)
    theta, actions = problem.params.theta, problem.observe(rng_of(seed))
    assert actions.shape == (n_actions, d_max)
    assert actions[:, 0] == pytest.approx(1 / sqrt(2))
    assert np.linalg.norm(actions[:, 1:d_star], axis=1) == pytest.approx(0.6)
    assert np.linalg.norm(actions[:, d_star:], axis=1) == pytest.approx(0.37 if d_star < d_max else 0.0)
    assert np.linalg.norm(actions, axis=1).max() <= 1.0
    assert theta[0] == pytest.approx(0.5 * sqrt(2))
    assert np.linalg.norm(theta[1:d_star]) == pytest.approx(0.5 / 0.6)
    assert (theta[d_star:] == 0.0).all()
    assert np.linalg.norm(theta) <= 1.1


@settings(max_examples=60)
@given(SHAPES, st.integers(2, 6), st.integers(0, 99))
def test_mean_and_gap_are_those_of_the_angle(shape: tuple[int, int], n_actions: int, seed: int) -> None:
    """The expected reward is 0.5 + 0.5 cos(angle), the gap its distance from the greatest one, by brute force."""
    d_max, d_star = shape
    problem = LinearBandit(d_max, d_star, n_actions, seed=seed)
    actions = problem.observe(rng_of(seed))
    direction = problem.params.theta[1:d_star].tolist()
    means = []
    for row in actions[:, 1:d_star].tolist():
        product = sum(a * b for a, b in zip(row, direction, strict=True))
        lengths = sqrt(sum(a * a for a in row)) * sqrt(sum(b * b for b in direction))
        means.append(0.5 + 0.5 * product / lengths)
    assert problem.means(actions) == pytest.approx(means, abs=1e-12)
    gaps = [problem.gap(actions, action) for action in range(n_actions)]
    assert gaps == pytest.approx([max(means) - mean for mean in means], abs=1e-12)
    assert min(gaps) == 0.0


def test_the_first_half_of_the_signal_is_shrunk() -> None:
    """Before it was normalized u had normal entries, the first d*/2 - 1 of them times 0.3: so the ratio of one of those
    to a later one is 0.3 times a Cauchy variable, and that of two of a kind a Cauchy variable."""
    directions = np.array([draw_theta(12, 8, rng_of(seed))[1:8] for seed in range(N_DRAWS)])
    shrunk, plain = directions[:, :3], directions[:, 3:]
    assert agrees_with(shrunk[:, 2] / plain[:, 0] / 0.3, stats.cauchy)
    assert agrees_with(shrunk[:, 0] / shrunk[:, 2], stats.cauchy)
    assert agrees_with(plain[:, 0] / plain[:, 3], stats.cauchy)
    assert not agrees_with(shrunk[:, 2] / plain[:, 0], stats.cauchy)


def rounds_with_columns(problem: LinearBandit, params: Params, n_columns: int, seed: int) -> np.ndarray:
    """The first row of many rounds of which only `n_columns` columns are drawn."""
    rows = np.empty((N_DRAWS, n_columns))
    workspace = problem.workspace(n_columns)
    for n in range(N_DRAWS):
        rows[n] = draw(params, workspace, rng_of(seed + n))[0][0]
    return rows


@pytest.mark.statistical
@pytest.mark.parametrize("n_columns", [5, 8, 16])
def test_columns_that_are_drawn_alone_have_the_law_they_have_among_all(n_columns: int) -> None:
    """d* = 4 of 16: signal and distractors are uniform directions in 3 and in 12 dimensions, however many columns of
    the latter are drawn. Negative control: without the chi variable for the rest, their law would be another."""
    problem = LinearBandit(16, 4, 2)
    rows = rounds_with_columns(problem, problem.params, n_columns, seed=0)
    assert agrees_with((rows[:, 1] / 0.6) ** 2, squared_share(1, 3))
    assert agrees_with((rows[:, 4] / 0.37) ** 2, squared_share(1, 12))
    assert np.abs((rows[:, 4] > 0).mean() - 0.5) < 0.5 * sqrt(-2 * np.log(FALSE_ALARM / 2) / N_DRAWS)
    if n_columns < 16:
        n_distractors = n_columns - 4
        lengths = ((rows[:, 4:] / 0.37) ** 2).sum(axis=1)
        assert agrees_with(lengths, squared_share(n_distractors, 12))
        every_column = rounds_with_columns(problem, problem.params, 16, seed=N_DRAWS)
        for column in (1, 4):
            assert stats.ks_2samp(rows[:, column], every_column[:, column]).pvalue > FALSE_ALARM
        narrow = problem.params._replace(theta=problem.params.theta[:n_columns])
        wrong = rounds_with_columns(problem, narrow, n_columns, seed=0)
        assert not agrees_with((wrong[:, 4] / 0.37) ** 2, squared_share(1, 12))


def test_a_learner_needs_its_own_columns_and_those_of_the_signal() -> None:
    problem = LinearBandit(16, 4, 2)
    assert [problem.columns_for(OFUL(dim)) for dim in (2, 4, 9, 16, 20)] == [4, 4, 9, 16, 16]
    assert problem.columns_for(UCB(2)) == 4
    assert KArmedBandit([0.1, 0.2]).columns_for(UCB(2)) == 0


@pytest.mark.statistical
def test_contexts_of_a_table_come_up_equally_often() -> None:
    """Each of four action sets in a quarter of the rounds: exact binomial test, a share of 1e-6 for each."""
    problem = LinearBandit(4, 2, 3, contexts="table", table_size=4, seed=1)
    rng, counts = rng_of(0), dict.fromkeys(range(4), 0)
    for _ in range(N_DRAWS):
        context = problem.observe(rng)
        (row,) = [k for k, stored in enumerate(problem.params.table) if np.array_equal(context, stored)]
        counts[row] += 1
    for seen in counts.values():
        assert stats.binomtest(seen, N_DRAWS, 0.25).pvalue > FALSE_ALARM / 4


def test_a_fixed_action_set_is_the_same_in_every_round_and_belongs_to_the_seed() -> None:
    problem, rng = LinearBandit(4, 2, 3, contexts="fixed", seed=1), rng_of(0)
    first = problem.observe(rng)
    assert all(np.array_equal(problem.observe(rng), first) for _ in range(5))
    assert np.array_equal(LinearBandit(4, 2, 3, contexts="fixed", seed=1).observe(rng), first)
    assert not np.array_equal(LinearBandit(4, 2, 3, contexts="fixed", seed=2).observe(rng), first)


def test_the_seed_fixes_the_instance() -> None:
    assert np.array_equal(LinearBandit(seed=7).params.theta, LinearBandit(seed=7, contexts="table").params.theta)
    assert not np.array_equal(LinearBandit(seed=7).params.theta, LinearBandit(seed=8).params.theta)


def test_fresh_contexts_differ() -> None:
    problem, rng = LinearBandit(4, 2, 3), rng_of(0)
    assert not np.array_equal(problem.observe(rng), problem.observe(rng))


def rewards_of(problem: Any, context: Any, action: int) -> np.ndarray:
    rng = rng_of(3)
    return np.array([problem.respond(context, action, rng) for _ in range(N_DRAWS)])


BANDITS: list[Callable[..., Any]] = [
    lambda **noise: KArmedBandit([0.3, 0.8], **noise),
    lambda **noise: LinearBandit(4, 3, 2, contexts="fixed", seed=1, **noise),
]


@pytest.mark.statistical
@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize("action", [0, 1])
def test_noise_has_the_documented_law(bandit: Callable[..., Any], action: int) -> None:
    """Each law passes for itself and, as negative control, not for its neighbor."""
    context = bandit().observe(rng_of(0))
    mean = float(bandit().means(context)[action])
    assert 0.1 < mean < 0.9

    bernoulli = rewards_of(bandit(noise="bernoulli"), context, action)
    assert set(bernoulli) == {0.0, 1.0}
    assert stats.binomtest(int(bernoulli.sum()), N_DRAWS, mean).pvalue > FALSE_ALARM
    assert not stats.binomtest(int(bernoulli.sum()), N_DRAWS, 0.8 * mean).pvalue > FALSE_ALARM

    half_width = 0.5 * min(mean, 1.0 - mean)
    uniform = rewards_of(bandit(noise="uniform", noise_scale=0.5), context, action)
    assert agrees_with(uniform, stats.uniform(mean - half_width, 2 * half_width))
    assert not agrees_with(uniform, stats.uniform(mean - 2 * half_width, 4 * half_width))

    gaussian = rewards_of(bandit(noise="gaussian", noise_scale=0.2), context, action)
    assert agrees_with(gaussian, stats.norm(mean, 0.2))
    assert not agrees_with(gaussian, stats.norm(mean, 0.3))


def test_a_problem_says_which_noise_is_unbounded() -> None:
    assert LinearBandit(noise="gaussian", noise_scale=0.3).noise == 0.3
    assert LinearBandit(noise="uniform").noise is None
    assert KArmedBandit([0.1, 0.2]).noise is None


@pytest.mark.parametrize("seed", range(20))
def test_bounded_rewards_never_leave_the_range_by_rounding(seed: int) -> None:
    """With d* = 2 all expected rewards are 0 or 1, up to rounding."""
    problem, rng = LinearBandit(3, 2, 4, noise="uniform", noise_scale=1.0, seed=seed), rng_of(seed)
    for _ in range(10):
        context = problem.observe(rng)
        assert problem.means(context) == pytest.approx(problem.means(context).round(), abs=1e-12)
        assert all(0.0 <= problem.respond(context, action, rng) <= 1.0 for action in range(4))


def test_k_armed_bandit_has_its_means_and_gaps() -> None:
    problem = KArmedBandit([0.25, 0.75, 0.5])
    assert [problem.gap(None, action) for action in range(3)] == [0.5, 0.0, 0.25]
    assert problem.observe(rng_of(0)).shape == (3, 0)
    assert problem.name == "KArmedBandit(K=3)"
    assert KArmedBandit(np.array([0.25, 0.75])).config() == KArmedBandit((0.25, 0.75)).config()
    assert all(problem.respond(None, action, rng_of(0)) in (0.0, 1.0) for action in range(3))


def test_the_name_says_what_is_played() -> None:
    assert LinearBandit().name == "LinearBandit(d*=8 of 32, K=10, fresh contexts)"


SMALL = LinearBandit(4, 2, 3)
ROWS = SMALL.observe(rng_of(0))
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: LinearBandit(1), "d_max is 1, but must be a whole number from 2 to 10000"),
    (lambda: LinearBandit(8.5), "d_max is 8.5, but must be a whole number from 2 to 10000"),  # type: ignore[arg-type]
    (lambda: LinearBandit(8, 1), "d_star is 1, but must be a whole number at least 2"),
    (lambda: LinearBandit(8, 9), "d_star is 9, but must be at most d_max = 8"),
    (lambda: LinearBandit(8, 4, 1), "n_actions is 1, but must be a whole number from 2 to 1000000"),
    (lambda: LinearBandit(contexts="iid"), "contexts is 'iid', but must be one of fresh, table, fixed"),
    (lambda: LinearBandit(table_size=0), "table_size is 0, but must be a whole number at least 1"),
    (lambda: LinearBandit(noise="cauchy"), "noise is 'cauchy', but must be one of bernoulli, uniform, gaussian"),
    (lambda: LinearBandit(noise_scale=0.0), "noise_scale is 0.0, but must be positive, at least 1e-100"),
    (
        lambda: LinearBandit(noise="uniform", noise_scale=1.5),
        "noise_scale is 1.5, but must lie in (0, 1] for uniform noise",
    ),
    (lambda: LinearBandit(seed=-1), "seed is -1, but must be a whole number at least 0"),
    (lambda: KArmedBandit([0.5]), "means has 1 entries, but must have at least 2"),
    (lambda: KArmedBandit([0.5, 1.5]), "means[1] is 1.5, but must lie in [0, 1]"),
    (lambda: KArmedBandit([0.5, float("nan")]), "means[1] is nan, but must be a finite number of magnitude at most"),
    (lambda: KArmedBandit(3), "means is 3, but must be a list of expected rewards, one per action"),
    (lambda: KArmedBandit("ab"), "means is 'ab', but must be a list of expected rewards, one per action"),
    (lambda: SMALL.gap(ROWS, 3), "action is 3, but must be a whole number from 0 to 2"),
    (lambda: SMALL.respond(ROWS, -1, rng_of(0)), "action is -1, but must be a whole number from 0 to 2"),
    (lambda: SMALL.gap(ROWS, 0.5), "action is 0.5, but must be a whole number from 0 to 2"),
    (lambda: SMALL.gap(ROWS[:2], 0), "context has shape (2, 4), but must have (3, 4)"),
    (lambda: SMALL.gap(ROWS[:, :3], 0), "context has shape (3, 3), but must have (3, 4)"),
    (lambda: SMALL.gap(None, 0), "context is None, but must be a K x d matrix of numbers"),
    (lambda: SMALL.gap("rows", 0), "context is 'rows', but must be a K x d matrix of numbers"),
    (
        lambda: SMALL.gap(np.full((3, 4), np.nan), 0),
        "context has expected rewards from nan to nan, but they must lie in [0, 1]",
    ),
    (
        lambda: SMALL.gap(3.0 * np.abs(ROWS) * np.sign(SMALL.params.theta), 0),
        "context has expected rewards from 3 to 3, but they must lie in [0, 1]",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refusal_names_argument_value_and_rule(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value).startswith(message)
