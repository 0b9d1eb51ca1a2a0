"""Models of the reward for the direct method: ridge regression on the features of context and action.

`evaluate` predicts each round from the rounds of the other half, for fixed policies; a replay from the batches before
it, for policies that learn. In neither case has the model seen the reward of the round it predicts, so DR stays
unbiased. Reference: Chernozhukov et al. (2018), "Double/debiased machine learning", definition 3.2 (cross-fitting).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.logs.estimators import Evaluation
from equipoise.logs.rounds import LoggedRounds, Rounds, contexts
from equipoise.settings.checks import positive
from equipoise.types import Array

MAX_DIM = 4_000
Policy = Callable[[Rounds], Array]  # probabilities of all actions in each round, (n, actions)


class Ridge:
    """Ridge regression on `dim` columns that accumulates its normal equations batch by batch."""

    def __init__(self, dim: int, regularization: float = 1.0) -> None:
        if dim > MAX_DIM:
            raise InvalidArgument(f"dim is {dim}, but must be at most {MAX_DIM}: use fewer features")
        self._gram = positive("regularization", regularization) * np.eye(dim + 1)
        self._gram[dim, dim] = 1e-6  # the constant is hardly penalized
        self._moments = np.zeros(dim + 1)
        self._theta: Array | None = None

    def learn(self, features: Array, rewards: Array) -> None:
        """Add rounds: features (n, dim) of the logged actions and their rewards."""
        rows = np.concatenate([features, np.ones((len(features), 1))], axis=1)
        self._gram += rows.T @ rows
        self._moments += rows.T @ rewards
        self._theta = None

    def predict(self, features: Array) -> Array:
        """Predicted rewards of any number of actions, (..., dim)."""
        if self._theta is None:
            self._theta = np.linalg.solve(self._gram, self._moments).astype(np.float64)
        theta: Array = self._theta
        predictions: Array = features @ theta[:-1] + theta[-1]
        return predictions


def logged_features(rows: Array, rounds: Rounds) -> Array:
    """The features of the logged actions among those of all actions."""
    own: Array = rows[np.arange(rounds.n_rounds), rounds.actions]
    return own


def evaluate(log: LoggedRounds, policy: Policy, *, model: bool = True, regularization: float = 1.0) -> Evaluation:
    """A fixed policy on a log, with cross-fitted predictions of a ridge regression.

    Parameters
    ----------
    log
        The log.
    policy
        A function that returns the probabilities of all actions, (n, actions), for a batch of rounds.
    model
        Whether to fit a model, which DM, DR and SWITCH-DR need; reads the log twice more.
    regularization
        Ridge penalty of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from equipoise.logs import from_arrays
    >>> from equipoise.logs.estimators import ips
    >>> log = from_arrays(None, [0, 1, 1, 0], [1.0, 0.0, 0.0, 1.0], np.full(4, 0.5))
    >>> ips(evaluate(log, uniform)).value
    0.5
    """
    halves = [Ridge(log.n_columns, regularization) for _ in range(2)] if model else []
    if model:
        for batch in log:
            own = logged_features(contexts(batch), batch)
            for parity, half in enumerate(halves):
                which = batch.rows % 2 == parity
                half.learn(own[which], batch.rewards[which])
    parts: list[list[Array]] = [[] for _ in range(6)]
    for batch in log:
        pmf = _check_pmf(policy(batch), batch)
        predicted, expected = np.zeros(batch.n_rounds), np.zeros(batch.n_rounds)
        if model:
            rows = contexts(batch)
            for parity, half in enumerate(halves):
                which = batch.rows % 2 != parity
                values = half.predict(rows[which])
                predicted[which] = values[np.arange(len(values)), batch.actions[which]]
                expected[which] = (values * pmf[which]).sum(axis=1)
        of_logged = pmf[np.arange(batch.n_rounds), batch.actions]
        new = (batch.rewards, batch.propensities, of_logged, predicted, expected, batch.weights)
        for part, array in zip(parts, new, strict=True):
            part.append(array)
    rewards, propensities, probabilities, predicted, expected, counts = map(np.concatenate, parts)
    predictions: tuple[Array | None, Array | None] = (predicted, expected) if model else (None, None)
    return Evaluation(rewards, propensities, probabilities, widened(log.reward_range), None, *predictions, counts)


def widened(reward_range: tuple[float, float]) -> tuple[float, float]:
    """An interval with low < high: the range of rewards itself unless all rewards are equal."""
    low, high = reward_range
    return (low, high) if low < high else (min(low, 0.0), max(high, 1.0))


def uniform(rounds: Rounds) -> Array:
    """The policy that takes every offered action with the same probability."""
    offered = np.arange(rounds.offers.shape[1]) < rounds.n_offered[:, None]
    pmf: Array = offered / rounds.n_offered[:, None]
    return pmf


def _check_pmf(pmf: Array, batch: Rounds) -> Array:
    expected = batch.offers.shape[:2]
    if pmf.shape != expected:
        raise InvalidArgument(f"policy returned shape {pmf.shape}, but must return {expected}")
    if not (np.abs(pmf.sum(axis=1) - 1.0).max() <= 1e-6 and pmf.min() >= 0.0):
        raise InvalidArgument("policy returned probabilities that are negative or do not sum to 1")
    return pmf
