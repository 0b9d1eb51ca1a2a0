"""Models of the reward for the direct method: ridge regression on the features of context and action.

Each round is predicted by the rounds before it, by their position in the log. So a prediction depends on the past only,
and DR is unbiased on logs of policies that learned as well. Folds would not do there: later rounds depend on the reward
that they predict.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.logs.estimators import Evaluation, clip_to
from equipoise.logs.rounds import LoggedRounds, Rounds, contexts
from equipoise.settings.checks import interval, positive
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
        self._theta: Array = np.zeros(dim + 1)
        self._n_learned = self._n_fitted = 0  # rounds

    def learn(self, features: Array, rewards: Array) -> None:
        """Add rounds: features (n, dim) of the logged actions and their rewards."""
        rows = np.concatenate([features, np.ones((len(features), 1))], axis=1)
        self._gram += rows.T @ rows
        self._moments += rows.T @ rewards
        self._n_learned += len(rewards)

    def fit(self) -> None:
        """Solve the normal equations of all rounds so far."""
        self._theta = np.linalg.solve(self._gram, self._moments).astype(np.float64)
        self._n_fitted = self._n_learned

    @property
    def _due(self) -> int:
        """The number of rounds from which on another fit is worth it."""
        return self._n_fitted + 1 + self._n_fitted // 10

    def predict(self, features: Array) -> Array:
        """Predicted rewards of any number of actions, (..., dim), by the last fit; 0 before the first."""
        predictions: Array = features @ self._theta[:-1] + self._theta[-1]
        return predictions

    def follow(self, rows: Array, rounds: Rounds) -> Array:
        """Predict the rewards of all actions, (n, actions), each round by rounds before it; then learn the rounds.

        `rows` are the contexts, (n, actions, dim). A fit serves until the log has grown by a tenth.
        """
        own, values, first = logged_features(rows, rounds), np.empty(rows.shape[:2]), 0
        while first < rounds.n_rounds:
            if self._n_learned >= self._due:
                self.fit()
            last = min(first + self._due - self._n_learned, rounds.n_rounds)
            values[first:last] = self.predict(rows[first:last])
            self.learn(own[first:last], rounds.rewards[first:last])
            first = last
        return values


def logged_features(rows: Array, rounds: Rounds) -> Array:
    """The features of the logged actions among those of all actions."""
    own: Array = rows[np.arange(rounds.n_rounds), rounds.actions]
    return own


def evaluate(
    log: LoggedRounds,
    policy: Policy,
    *,
    model: bool = True,
    regularization: float = 1.0,
    reward_range: tuple[float, float] | None = None,
    max_weight: float | None = None,
) -> Evaluation:
    """A fixed policy on a log, with predictions of a ridge regression on the rounds before each one.

    Parameters
    ----------
    log
        The log; it is read once.
    policy
        A function that returns the probabilities of all actions, (n, actions), for a batch of rounds.
    model
        Whether to fit a model, which DM, DR and SWITCH-DR need.
    regularization
        Ridge penalty of the model.
    reward_range
        Least and greatest possible reward, known beforehand; without it only bootstrap intervals are offered.
    max_weight
        The largest possible weight, known beforehand. Default: from the log, if it states all probabilities or, as a
        journal, the exploration floor.

    Examples
    --------
    >>> import numpy as np
    >>> from equipoise.logs import from_arrays
    >>> from equipoise.logs.estimators import ips
    >>> log = from_arrays(None, [0, 1, 1, 0], [1.0, 0.0, 0.0, 1.0], np.full(4, 0.5))
    >>> ips(evaluate(log, uniform)).value
    0.5
    """
    check_range(log, reward_range)
    ridge, possible = Ridge(log.n_columns, regularization) if model else None, 0.0
    parts: list[list[Array]] = [[] for _ in range(6)]
    for batch in log:
        pmf, each = _check_pmf(policy(batch), batch), np.arange(batch.n_rounds)
        predicted, expected = np.zeros(batch.n_rounds), np.zeros(batch.n_rounds)
        if ridge is not None:
            values = clip_to(ridge.follow(contexts(batch), batch), reward_range)
            predicted, expected = values[each, batch.actions], (values * pmf).sum(axis=1)
        of_logged = pmf[each, batch.actions]
        possible = max(possible, _largest_weight(pmf, batch))
        new = (batch.rewards, batch.propensities, of_logged, predicted, expected, batch.weights)
        for part, array in zip(parts, new, strict=True):
            part.append(array)
    rewards, propensities, probabilities, predicted, expected, counts = map(np.concatenate, parts)
    if max_weight is None:
        by_floor = 1.0 / log.min_offered_exposure if log.min_offered_exposure > 0.0 else np.inf
        largest = min(possible, by_floor)
        max_weight = largest if largest < np.inf else None
    predictions: tuple[Array | None, Array | None] = (predicted, expected) if model else (None, None)
    return Evaluation(rewards, propensities, probabilities, reward_range, max_weight, *predictions, counts)


def check_range(log: LoggedRounds, reward_range: tuple[float, float] | None) -> None:
    """Raise an error if the log has rewards outside of the stated range."""
    if reward_range is None:
        return
    low, high = interval("reward_range", reward_range)
    least, greatest = log.reward_range
    if least < low or greatest > high:
        raise InvalidArgument(f"reward_range is {reward_range}, but the log has rewards from {least:g} to {greatest:g}")


def _largest_weight(pmf: Array, batch: Rounds) -> float:
    """The largest weight that any action of the policy can get in these rounds; inf if the log does not say."""
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(pmf > 0.0, pmf / batch.pmf, 0.0)
    if np.isnan(weights).any():
        return np.inf
    if np.isinf(weights).any():
        i, action = np.argwhere(np.isinf(weights))[0]
        raise InvalidArgument(
            f"policy takes action {action} in row {batch.rows[i]} with probability {pmf[i, action]:g}, "
            "but the log says that it never takes it there"
        )
    own = pmf[np.arange(batch.n_rounds), batch.actions] / batch.propensities
    return float(max(weights.max(), own.max()))  # other systems round the probabilities that they store


def uniform(rounds: Rounds) -> Array:
    """The policy that takes every offered action with the same probability."""
    offered = np.arange(rounds.offers.shape[1]) < rounds.n_offered[:, None]
    pmf: Array = offered / rounds.n_offered[:, None]
    return pmf


def _check_pmf(pmf: Array, batch: Rounds) -> Array:
    expected = batch.offers.shape[:2]
    if pmf.shape != expected:
        raise InvalidArgument(f"policy returned shape {pmf.shape}, but must return {expected}")
    offered = np.arange(expected[1]) < batch.n_offered[:, None]
    good = (np.abs(pmf.sum(axis=1) - 1.0) <= 1e-6) & np.all((pmf >= 0.0) & (offered | (pmf == 0.0)), axis=1)
    if not good.all():
        i = int(good.argmin())
        raise InvalidArgument(
            f"policy returned {np.array2string(pmf[i], precision=4, threshold=10)} in row {batch.rows[i]}, but must "
            f"return nonnegative probabilities of the {batch.n_offered[i]} offered actions that sum to 1"
        )
    return pmf
