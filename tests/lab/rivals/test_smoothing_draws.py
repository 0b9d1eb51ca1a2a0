"""Smoothed learners: one stored policy is not a fresh draw for every second round, and the words say so."""

from math import sqrt

import numpy as np
import pytest

from equipoise.lab.rivals import StochasticCorral, smoothing
from equipoise.selectors._core.evidence import REPLAY
from tests.lab.rivals.tasks import task_of

ROUNDS, RUNS = 400, 200


def total_reward(seed: int, fresh: bool) -> float:
    """Learner 0 always pays 1/2; the policies of learner 1 pay 1 or 0, by the flip of a fair coin for each. In second
    rounds of learner 1 plays the policy that the selector stored, or, as in the publication, one drawn afresh."""
    selector, rng = StochasticCorral(2, rounds=ROUNDS, seed=seed, eta=2.0), np.random.default_rng([7, seed])
    pays = (rng.random(ROUNDS + 1) < 0.5).astype(float)
    total, updates = 0.0, 0
    for _ in range(ROUNDS):
        choice = selector.choose()
        task = task_of(selector, choice)
        if choice.learner == 0:
            reward = 0.5
        elif task.kind != REPLAY:
            updates += 1
            reward = float(pays[updates])
        else:
            reward = float(pays[rng.integers(1, updates + 1) if fresh else task.policy])
        selector.credit(choice, reward)
        total += reward
    return total


@pytest.mark.slow
def test_a_stored_policy_earns_another_mean_reward_than_fresh_draws() -> None:
    """If both had the same mean, a difference of 4 standard errors would come up with probability below 1e-4."""
    stored, drawn = ([total_reward(seed, fresh) for seed in range(RUNS)] for fresh in (False, True))
    error = sqrt((np.var(stored) + np.var(drawn)) / RUNS)
    assert np.mean(stored) - np.mean(drawn) > 4 * error


def test_the_words_do_not_claim_that_the_distributions_are_the_same() -> None:
    words = " ".join((smoothing.__doc__ or "").split())
    assert "this is not the original" in words
    for claim in ("distribution of the original", "expectation of every round", "is the same"):
        assert claim not in words
