"""ModCB: its gap estimate against the direct U-statistic, its decisions, when it moves and when it does not."""

from math import log, pi, sqrt

import numpy as np
import pytest
from scipy.stats import chisquare

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import NATIVE
from equipoise.lab.rivals import ModCB
from equipoise.lab.rivals.modcb import gap_increments, threshold
from equipoise.learners import OFUL
from equipoise.types import Array

DIMS = (2, 4, 7)


def offered(rng: np.random.Generator, n_actions: int) -> Array:
    """Actions of norm 1 with a constant first feature, correlated others, and a sixth one that never varies."""
    rows = rng.standard_normal((n_actions, 6))
    rows[:, 2] += 0.8 * rows[:, 1]
    rows[:, 1] *= 2.0
    rows[:, 4] = 0.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.hstack([np.ones((n_actions, 1)), rows]) / sqrt(2)


def mean_reward(theta: Array, action: Array) -> float:
    """Linear in the first len(theta) features, as the first one is constant."""
    mean = 0.5 + float(theta @ action[: len(theta)])
    assert 0.0 <= mean <= 1.0
    return mean


def direct_gap(contexts: list[Array], rows: Array, rewards: Array, small: int, large: int) -> float:
    """The U-statistic, pair by pair, with pseudo-inverses."""
    everything = np.vstack(contexts)[:, :large]
    sigma = everything.T @ everything / len(everything)
    padded = np.zeros((large, large))
    padded[:small, :small] = np.linalg.pinv(sigma[:small, :small], rcond=1e-7, hermitian=True)
    values, vectors = np.linalg.eigh(sigma)
    root = vectors @ np.diag(np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    images = (rows[:, :large] * rewards[:, None]) @ (padded - np.linalg.pinv(sigma, rcond=1e-7, hermitian=True)) @ root
    n, total = len(rows), 0.0
    for s in range(n):
        for t in range(s + 1, n):
            total += float(images[s] @ images[t])
    return total / (n * (n - 1) / 2)


def play(learner: ModCB, theta: Array, rounds: int, seed: int) -> list[tuple[Array, int, float, float]]:
    """Rounds as (actions, action, reward, probability), Bernoulli rewards."""
    rng, log_ = np.random.default_rng(seed), []
    for _ in range(rounds):
        actions = offered(rng, 4)
        action, _, _, probability, _, _, _ = learner.decide(actions, rng)
        reward = float(rng.random() < mean_reward(theta, actions[action]))
        learner.learn(actions, action, reward)
        log_.append((actions, action, reward, probability))
    return log_


def test_the_gap_estimate_is_the_direct_u_statistic() -> None:
    """For every pair of classes, over exploring rounds only; a feature that never varies adds nothing."""
    learner = ModCB(DIMS, exploration=0.3)
    rounds = play(learner, np.array([0.0, 0.2, 0.5]), 300, seed=61)
    explored = [(actions[action], reward) for actions, action, reward, probability in rounds if probability < 1.0]
    rows, rewards = np.array([row for row, _ in explored]), np.array([reward for _, reward in explored])
    assert len(rows) == learner.memory.explored[0]
    increments = gap_increments(learner.params, learner.memory)
    np.testing.assert_allclose(
        NATIVE[gap_increments](learner.params, learner.memory), increments, rtol=1e-9, atol=1e-12
    )
    for small, large in [(2, 4), (2, 7), (4, 7)]:
        direct = direct_gap([actions for actions, *_ in rounds], rows, rewards, small, large)
        assert increments[small:large].sum() == pytest.approx(direct, rel=1e-5, abs=1e-9)


def test_exploring_rounds_are_spread_evenly_and_drawn_uniformly() -> None:
    """After t rounds there are t^{1 - kappa} of them, to within one; their actions are uniform (p > 1e-6)."""
    rounds = play(ModCB((2, 7), exploration=0.4), np.zeros(1), 1500, seed=62)
    explored = np.cumsum([probability < 1.0 for *_, probability in rounds])
    schedule = np.arange(1, 1501) ** 0.6
    assert (explored >= schedule).all()
    assert (explored < schedule + 1).all()
    assert {probability for *_, probability in rounds} == {0.25, 1.0}
    counts = np.bincount([action for _, action, _, probability in rounds if probability < 1.0], minlength=4)
    assert chisquare(counts).pvalue > 1e-6


def test_between_exploring_rounds_it_is_oful_on_the_current_class_restarted_at_each_move() -> None:
    """A twin OFUL of the current class learns from the same rounds since the last move; decisions agree throughout."""
    learner, rng = ModCB(DIMS, exploration=0.15, delta=0.1, norm_bound=1.5), np.random.default_rng(63)
    theta, twin, classes = np.array([0.0, 0.0, 0.7]), OFUL(2, norm_bound=1.5, delta=0.1), [0]
    for _ in range(2500):
        actions = offered(rng, 4)
        proposal = learner.decide(actions, rng)
        if proposal.probability == 1.0:
            assert proposal.action == twin.decide(actions).action
        reward = float(rng.random() < mean_reward(theta, actions[proposal.action]))
        learner.learn(actions, proposal.action, reward)
        twin.learn(actions, proposal.action, reward)
        if learner.memory.current[0] != classes[-1]:
            classes.append(int(learner.memory.current[0]))
            twin = OFUL(DIMS[classes[-1]], norm_bound=1.5, delta=0.1)
    assert classes == [0, 1]


def final_classes(theta: Array, seeds: range, rounds: int, largest_square: float | None = None) -> list[int]:
    """The class each of some learners ends in."""
    finals = []
    for seed in seeds:
        learner = ModCB(DIMS, exploration=0.1, delta=0.05, norm_bound=1.5)
        if largest_square is not None:
            learner.params = learner.params._replace(largest_square=largest_square)
        play(learner, theta, rounds, seed)
        finals.append(int(learner.memory.current[0]))
    return finals


@pytest.mark.slow
def test_it_moves_from_a_class_that_is_too_small_to_the_one_that_suffices() -> None:
    """theta has its weight on the third feature, so class 1 of 0, 1, 2 suffices; the test's own error is delta = 0.05 a
    seed, so that 2 of 6 right learners going further has probability 0.03 at most, and far less as seen."""
    finals = final_classes(np.array([0.0, 0.0, 0.7]), range(70, 76), 2000)
    assert min(finals) == 1
    assert finals.count(2) < 2


@pytest.mark.slow
def test_it_does_not_leave_a_class_that_suffices() -> None:
    """Class 0 suffices. Each seed leaves it with probability at most delta = 0.05: 4 or more of 16 have probability
    below 0.01. With a threshold of a fiftieth (negative control) most seeds leave."""
    theta = np.array([0.0, 0.6])
    assert sum(final > 0 for final in final_classes(theta, range(80, 96), 600)) < 4
    assert sum(final > 0 for final in final_classes(theta, range(80, 86), 600, largest_square=0.02)) >= 4


def test_the_threshold_is_the_stated_one() -> None:
    learner = ModCB(DIMS, delta=0.02, reward_range=(-2.0, 0.0))
    learner.memory.tests[0], learner.memory.explored[0] = 3, 50
    tail = log(3 * 9 * pi**2 / 6 / 0.02)
    assert threshold(learner.params, learner.memory, 5) == pytest.approx(4.0 * (2 * sqrt(5 * tail) + 2 * tail) / 50)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dims": []}, r"dims is \[\], but must be a nonempty list of numbers of features"),
        ({"dims": "24"}, r"dims is '24', but must be a nonempty list of numbers of features"),
        ({"dims": [2, 2]}, r"dims is \[2, 2\], but must increase"),
        ({"dims": [2, 0]}, r"dims\[1\] is 0, but must be a whole number from 1"),
        ({"dims": [2], "exploration": 1.0}, r"exploration is 1.0, but must lie in \(0, 1\)"),
    ],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ModCB(**settings)
