"""LSVI-UCB on a feature map, for environments whose states cannot be enumerated.

The algorithm is that of `equipoise.learners.lsvi_ucb`; only the stored data differ. Without a list of states, the
targets max_a Q_{h+1}(s', a) of all past steps must be recomputed for every plan, so the learner stores the features of
past steps and of all actions in the states that they led to; Lambda_h^{-1} is updated by rank-one terms. A plan costs
O(H K A d^2) after K episodes; `low_switching` makes plans rare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposal
from equipoise.learners._core import episodic
from equipoise.learners._core.base import name_setting
from equipoise.learners._core.episodic import PlanRecord
from equipoise.learners._core.linear import check_dim
from equipoise.learners._core.trajectory import as_indices, as_step_rewards, check_lengths
from equipoise.learners.lsvi_ucb import LOG_2, add_row
from equipoise.settings import Configured, configurable, setting
from equipoise.settings.checks import count, function, measured, positive
from equipoise.types import Action, Array, Context, Integers, Outcome, State


@dataclass(frozen=True)
class FeatureMap:
    """A function of observation and action that returns vectors of `dim` entries with norm at most 1."""

    function: Callable[[Context, int], ArrayLike]
    dim: int
    n_actions: int

    def rows(self, observation: Context) -> Array:
        """The features of all actions in a state, one row each; raises an error if the function is invalid."""
        rows = []
        for action in range(self.n_actions):
            row = np.asarray(self.function(observation, action), float)
            if row.shape != (self.dim,):
                raise InvalidArgument(
                    f"features of action {action} in state {observation!r:.80} have shape {row.shape}, "
                    f"but must have {(self.dim,)}"
                )
            norm = float(np.sqrt(row @ row))
            if not norm <= episodic.NORM_TOLERANCE:
                raise InvalidArgument(
                    f"features of action {action} in state {observation!r:.80} have norm {norm:.6g}, "
                    "but norms must be finite and at most 1"
                )
            rows.append(row)
        return np.stack(rows)


@dataclass(frozen=True, eq=False)
class FeaturePolicy:
    """A greedy policy over a feature map: a function of step and observation."""

    features: FeatureMap
    weights: Array  # (H, d)
    inverses: Array  # (H, d, d)
    radius: float

    def __call__(self, step: int, observation: Context) -> int:
        return int(self.values(step, self.features.rows(observation)).argmax())

    def values(self, step: int, rows: Array) -> Array:
        """Optimistic values of the actions with these features; `rows` may have additional leading axes."""
        steps_left = float(len(self.weights) - step)
        optimistic: Array = rows @ self.weights[step] + self.bonuses(step, rows)
        return np.minimum(np.maximum(optimistic, 0.0), steps_left)

    def bonuses(self, step: int, rows: Array) -> Array:
        squared_norms = ((rows @ self.inverses[step]) * rows).sum(-1)
        widths: Array = self.radius * np.sqrt(np.maximum(squared_norms, 0.0))
        return widths


def qualified_name(function: Callable[..., object]) -> str:
    """Module and name of a function, or of the class of a callable object."""
    found = function if hasattr(function, "__qualname__") else type(function)
    return f"{found.__module__}.{found.__qualname__}"


@configurable
class FeatureLSVI(Configured):
    """LSVI-UCB on a feature map, for environments whose states cannot be enumerated.

    Invalid features raise an error, and nothing is learned from the episode. A function cannot be saved: `config`
    contains its name only, and `Portfolio.load` must be given a new learner with the same function.
    """

    features: Callable[[Context, int], ArrayLike] = setting(
        "Function (observation, action) -> vector of `dim` entries with norm at most 1.",
        partial(function, of="observation and action"),
        encode=qualified_name,
        kw_only=False,
    )
    dim: int = setting("Number of features.", check_dim, kw_only=False)
    n_actions: int = setting("Number of actions of the environment.", count, kw_only=False)
    episodes: int = setting("Maximum number of episodes; memory for them is allocated at construction.", count)
    name: str = name_setting()
    horizon: int = setting(episodic.HORIZON, episodic.check_size)
    delta: float = episodic.delta_setting()
    bonus: float = setting("Constant c_b of the exploration bonus, positive.", positive, default=1.0)
    low_switching: bool = setting(
        "Whether to compute a new plan only after the determinant of some Lambda_h has doubled.", default=False
    )

    accepts: ClassVar[frozenset[str]] = frozenset()
    provides: ClassVar[frozenset[str]] = frozenset({"regret"})
    randomized: ClassVar[bool] = False

    def _set_up(self) -> None:
        super()._set_up()
        log_term = log(2 * self.dim * self.episodes * self.horizon / (self.delta / 2))
        self._map = FeatureMap(self.features, self.dim, self.n_actions)
        self._radius = self.bonus * self.horizon * self.dim * sqrt(log_term)
        steps, dim = self.horizon, self.dim
        self._inverses = np.tile(np.eye(dim), (steps, 1, 1))
        self._log_determinants, self._planned = np.zeros(steps), np.zeros(steps)
        self._rows = np.zeros((steps, self.episodes, dim))
        self._rewards = np.zeros((steps, self.episodes))
        self._next_rows = np.zeros((steps, self.episodes, self.n_actions, dim))
        self._has_next = np.zeros((steps, self.episodes))  # 1 if the step has a next state
        self._n_episodes, self._width_sum = 0, 0.0
        self._policy = self._plan()

    def default_name(self) -> str:
        return f"LSVI-UCB(d={self.dim}, c={self.bonus:g})"

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the planned policy."""
        self._map.rows(context)
        return Proposal(self._policy, plan=(self._n_episodes, self._policy.inverses))

    def learn(
        self, context: Context, action: Action, reward: float, weight: float = 1.0, plan: PlanRecord | None = None
    ) -> None:
        """Learn from a trajectory of the proposal with this plan, or of the present plan if it is not given.

        `reward`, its return in the units of the selector, is checked but not used.
        """
        rows, chosen, rewards = self._check(action)
        measured("reward", reward)
        n = self._n_episodes
        if n == self.episodes:
            raise InvalidArgument(f"{self.name} has learned {n} episodes, but must learn at most episodes = {n}")
        self._width_sum += self._width(rows, chosen, plan)
        for h in range(len(chosen)):
            row = rows[h, chosen[h]]
            self._rows[h, n], self._rewards[h, n] = row, rewards[h]
            if h + 1 < len(chosen):
                self._next_rows[h, n], self._has_next[h, n] = rows[h + 1], 1.0
            self._log_determinants[h] += log(add_row(self._inverses[h], row))
        self._n_episodes = n + 1
        if not self.low_switching or (self._log_determinants - self._planned).max() >= LOG_2:
            self._policy = self._plan()

    def state(self) -> State:
        """The learned state as a dictionary of arrays."""
        arrays = {name: array.copy() for name, array in self._arrays(self._n_episodes).items()}
        return {**arrays, "n_episodes": np.array([self._n_episodes]), "width_sum": np.array([self._width_sum])}

    def restore(self, state: State) -> None:
        """Restore a state returned by `state`. Any other state raises an error and changes nothing."""
        check_shapes(state, {"n_episodes": (1,), "width_sum": (1,)})
        n = count("n_episodes", int(state["n_episodes"][0]), minimum=0, maximum=self.episodes)
        check_shapes(state, {name: array.shape for name, array in self._arrays(n).items()})
        self._n_episodes, self._width_sum = n, float(state["width_sum"][0])
        self._policy = replace(
            self._policy, weights=np.empty_like(self._policy.weights), inverses=self._inverses.copy()
        )
        for array in self._arrays(self.episodes).values():
            array.fill(0.0)
        for name, array in self._arrays(n).items():
            array[...] = state[name]

    def _arrays(self, n_episodes: int) -> dict[str, Array]:
        """The stored arrays after `n_episodes` episodes, as views."""
        return {
            "inverses": self._inverses,
            "log_determinants": self._log_determinants,
            "planned": self._planned,
            "policy_weights": self._policy.weights,
            "policy_inverses": self._policy.inverses,
            "rows": self._rows[:, :n_episodes],
            "rewards": self._rewards[:, :n_episodes],
            "next_rows": self._next_rows[:, :n_episodes],
            "goes_on": self._has_next[:, :n_episodes],
        }

    def regret_of(self, outcome: Outcome, plan: PlanRecord | None = None, in_order: bool = True) -> float:
        """Increase of the observed regret bound by an episode, as in `PlanningLearner`; call this before `learn`."""
        rows, chosen, _ = self._check(outcome)
        width = self._width(rows, chosen, plan)
        max_width, alpha, n = self.horizon * (self.horizon + 1) / 2, self.delta / 2, self._n_episodes
        if plan is not None and not in_order:
            return episodic.largest_increase(plan[0], width, max_width, alpha)
        return episodic.increase(n, self._width_sum, width, max_width, alpha)

    def _check(self, trajectory: Outcome) -> tuple[Array, Integers, Array]:
        states, actions, rewards = check_lengths(trajectory, self.horizon)
        chosen = as_indices("actions of the trajectory", actions, self.n_actions)
        return np.stack([self._map.rows(state) for state in states]), chosen, as_step_rewards(rewards)

    def _width(self, rows: Array, chosen: Integers, plan: PlanRecord | None) -> float:
        """The width of an episode under the bonuses of the plan that played."""
        policy, total = self._policy, 0.0
        if plan is not None:
            policy = replace(policy, inverses=episodic.check_plan(plan, policy.inverses.shape)[1])
        for h, action in enumerate(chosen):
            total += min(2 * float(policy.bonuses(h, rows[h, action])), self.horizon - h)
        return total

    def _plan(self) -> FeaturePolicy:
        n, weights = self._n_episodes, np.zeros((self.horizon, self.dim))
        policy = FeaturePolicy(self._map, weights, self._inverses.copy(), self._radius)
        for h in reversed(range(self.horizon)):
            targets = self._rewards[h, :n].copy()
            if h + 1 < self.horizon:
                targets += self._has_next[h, :n] * policy.values(h + 1, self._next_rows[h, :n]).max(-1, initial=0.0)
            weights[h] = self._inverses[h] @ (targets @ self._rows[h, :n])
        self._planned[:] = self._log_determinants
        return policy
