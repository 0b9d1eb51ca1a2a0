"""LSVI-UCB on a feature map of the user's own: for environments whose states cannot be listed.

The algorithm is that of `equipoise.learners.lsvi_ucb`; only what is kept differs. Without a list of states the targets
max_a Q_{h+1}(s', a) of all past steps have to be computed anew for a plan, so features of past steps and of all actions
in the states they led to are stored and Lambda_h^{-1} moves by rank one. A plan costs O(H K A d^2) after K episodes;
`low_switching` makes plans rare.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.learner import Proposal
from equipoise.learners.episodic import observed_bound
from equipoise.learners.lsvi_ucb import DOUBLED, SLACK, add_row
from equipoise.trajectory import as_indices, as_step_rewards, check_lengths
from equipoise.validation import count, positive, probability, real, text

Array = NDArray[np.float64]


class FeaturePolicy:
    """A greedy policy over a feature map: a function of step and observation."""

    def __init__(self, features: Callable[[Any], Array], weights: Array, inverses: Array, radius: float) -> None:
        self._features, self._weights, self._inverses, self._radius = features, weights, inverses, radius

    def __call__(self, step: int, observation: Any) -> int:
        return int(self.values(step, self._features(observation)).argmax())

    def values(self, step: int, rows: Array) -> Array:
        """Optimistic values of the actions whose features are the rows; further axes in front are allowed."""
        left = float(len(self._weights) - step)
        optimistic: Array = rows @ self._weights[step] + self.bonuses(step, rows)
        return np.minimum(np.maximum(optimistic, 0.0), left)

    def bonuses(self, step: int, rows: Array) -> Array:
        squared_norms = ((rows @ self._inverses[step]) * rows).sum(-1)
        widths: Array = self._radius * np.sqrt(np.maximum(squared_norms, 0.0))
        return widths


class FeatureLSVI:
    """LSVI-UCB on `features(observation, action)`, vectors of `dim` entries with norms of at most 1.

    A map that gives anything else is refused where it does, and nothing is learned. It cannot be saved, as its features
    are a function. `episodes` is the number of episodes it has room for.
    """

    accepts: frozenset[str] = frozenset()
    offers = frozenset({"regret"})
    randomized = False

    def __init__(
        self,
        features: Callable[[Any, int], Any],
        dim: int,
        n_actions: int,
        *,
        horizon: int,
        episodes: int,
        bonus: float = 1.0,
        delta: float = 0.01,
        low_switching: bool = False,
        name: str | None = None,
    ) -> None:
        if not callable(features):
            raise InvalidArgument(f"features is {features!r:.80}, but must be a function of observation and action")
        self.features = features
        self.dim = count("dim", dim, most=10_000)
        self.n_actions = count("n_actions", n_actions)
        self.horizon = count("horizon", horizon)
        self.episodes = count("episodes", episodes)
        self.bonus = positive("bonus", bonus)
        self.delta = probability("delta", delta)
        self.low_switching = low_switching
        self.name = f"LSVI-UCB(d={self.dim}, c={self.bonus:g})" if name is None else text("name", name)
        log_term = log(2 * self.dim * self.episodes * self.horizon / (self.delta / 2))
        self._radius = self.bonus * self.horizon * self.dim * sqrt(log_term)
        steps, dim = self.horizon, self.dim
        self._inverses = np.tile(np.eye(dim), (steps, 1, 1))
        self._log_determinants, self._planned = np.zeros(steps), np.zeros(steps)
        self._rows = np.zeros((steps, self.episodes, dim))
        self._rewards = np.zeros((steps, self.episodes))
        self._next_rows = np.zeros((steps, self.episodes, self.n_actions, dim))
        self._goes_on = np.zeros((steps, self.episodes))  # 1 where a next state counts
        self._n_episodes, self._width_sum = 0, 0.0
        self._policy = self._plan()

    def decide(self, context: Any, rng: np.random.Generator | None = None) -> Proposal:
        """The planned policy."""
        self.check_rows(context)
        return Proposal(self._policy)

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        """Take in a trajectory; `reward` is its return in whatever units the selector has and is only checked."""
        rows, chosen, rewards = self._check(action)
        real("reward", reward)
        n = self._n_episodes
        if n == self.episodes:
            raise InvalidArgument(f"{self.name} has learned {n} episodes, but was made for episodes = {n}")
        self._width_sum += self._width(rows, chosen)
        for h in range(len(chosen)):
            row = rows[h, chosen[h]]
            self._rows[h, n], self._rewards[h, n] = row, rewards[h]
            if h + 1 < len(chosen):
                self._next_rows[h, n], self._goes_on[h, n] = rows[h + 1], 1.0
            self._log_determinants[h] += log(add_row(self._inverses[h], row))
        self._n_episodes = n + 1
        if not self.low_switching or (self._log_determinants - self._planned).max() >= DOUBLED:
            self._policy = self._plan()

    def regret_of(self, outcome: Any) -> float:
        """What an episode of the planned policy adds to the observed regret bound; ask before it is learned."""
        rows, chosen, _ = self._check(outcome)
        before, after = self._width_sum, self._width_sum + self._width(rows, chosen)
        greatest, alpha, n = self.horizon * (self.horizon + 1) / 2, self.delta / 2, self._n_episodes
        return observed_bound(n + 1, after, greatest, alpha) - observed_bound(n, before, greatest, alpha)

    def check_rows(self, observation: Any) -> Array:
        """The features of all actions in a state, one row each."""
        rows = []
        for action in range(self.n_actions):
            row = np.asarray(self.features(observation, action), float)
            if row.shape != (self.dim,):
                raise InvalidArgument(
                    f"features of action {action} in state {observation!r:.80} have shape {row.shape}, "
                    f"but must have {(self.dim,)}"
                )
            norm = float(np.sqrt(row @ row))
            if not norm <= SLACK:
                raise InvalidArgument(
                    f"features of action {action} in state {observation!r:.80} have norm {norm:.6g}, "
                    "but norms must be finite and at most 1"
                )
            rows.append(row)
        return np.stack(rows)

    def _check(self, trajectory: Any) -> tuple[Array, NDArray[np.int64], Array]:
        states, actions, rewards = check_lengths(trajectory, self.horizon)
        chosen = as_indices("actions of the trajectory", actions, self.n_actions)
        return np.stack([self.check_rows(state) for state in states]), chosen, as_step_rewards(rewards)

    def _width(self, rows: Array, chosen: NDArray[np.int64]) -> float:
        total = 0.0
        for h, action in enumerate(chosen):
            total += min(2 * float(self._policy.bonuses(h, rows[h, action])), self.horizon - h)
        return total

    def _plan(self) -> FeaturePolicy:
        n, weights = self._n_episodes, np.zeros((self.horizon, self.dim))
        policy = FeaturePolicy(self.check_rows, weights, self._inverses.copy(), self._radius)
        for h in reversed(range(self.horizon)):
            targets = self._rewards[h, :n].copy()
            if h + 1 < self.horizon:
                targets += self._goes_on[h, :n] * policy.values(h + 1, self._next_rows[h, :n]).max(-1, initial=0.0)
            weights[h] = self._inverses[h] @ (targets @ self._rows[h, :n])
        self._planned[:] = self._log_determinants
        return policy
