"""What the learners of linear rewards have in common: settings, the regression, and the rule for offered actions."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.learners.base import KernelLearner, as_matrix, check_entries, check_index
from equipoise.learners.ridge import Array, Ellipsoid, Ridge, open_ridge, update, update_offered
from equipoise.validation import count, interval, positive, probability

SLACK = 1 + 1e-9  # relative room for rounding in the norms of actions
# Below this multiple of action_bound^2 the regularization is so weak that rounding shows in the widths after 1e6 rows.
WEAKEST = 1e-8


@kernel
def learn(params: object, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """What a learner with a single regression does: add the row of the action, its squared error counting `weight`."""
    update_offered(ridge, actions, action, reward, weight)


class LinearLearner(KernelLearner):
    """Least squares on the first `dim` features of the offered actions.

    A context is a K x d matrix of actions, d >= dim, with row norms at most `action_bound`; K may change every round.
    """

    accepts = frozenset({"off_policy"})
    offers = frozenset({"lower", "regret"})
    memory: Ridge

    def __init__(
        self,
        dim: int,
        *,
        noise: float,
        norm_bound: float,
        action_bound: float,
        regularization: float,
        delta: float,
        scale: float,
        reward_range: tuple[float, float],
        name: str | None,
        seed: int = 0,
    ) -> None:
        self.dim = count("dim", dim, most=10_000)
        self.noise = positive("noise", noise)
        self.norm_bound = positive("norm_bound", norm_bound)
        self.action_bound = positive("action_bound", action_bound)
        self.regularization = positive("regularization", regularization)
        if self.regularization < WEAKEST * self.action_bound**2:
            least = f"{WEAKEST:g} * action_bound^2 = {WEAKEST * self.action_bound**2:g}"
            raise InvalidArgument(f"regularization is {regularization!r}, but must be at least {least}")
        self.delta = probability("delta", delta)
        self.scale = positive("scale", scale)
        self.reward_range = interval("reward_range", reward_range)
        self.ellipsoid = Ellipsoid(self.noise, 2 * log(1 / self.delta), sqrt(self.regularization) * self.norm_bound)
        self.memory = open_ridge(self.dim, self.regularization)
        self._greatest_squared_norm = (self.action_bound * SLACK) ** 2
        super().__init__(default_name=self._default_name(), name=name, seed=seed)

    def _default_name(self) -> str:
        scaled = f", scale={self.scale:g}" if self.scale != 1.0 else ""
        return f"{type(self).__name__}(d={self.dim}{scaled})"

    def check_context(self, context: Any) -> NDArray[np.float64]:
        actions = as_matrix(context, self.dim)
        check_entries(actions)
        squared_norms = np.vecdot(actions, actions)
        if squared_norms[squared_norms.argmax()] > self._greatest_squared_norm:
            self._refuse_norm(actions)
        return actions

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        """Take in the reward of an action that was offered; its squared error counts `weight` times."""
        row, number = self.check_row(context, action), self.check_reward(reward, weight)
        update(self.memory, row, number, float(weight))

    def check_row(self, context: Any, action: Any) -> NDArray[np.float64]:
        """The features of an offered action; only its own row is looked at, as `decide` has seen the rest."""
        actions = as_matrix(context, self.dim)
        row: NDArray[np.float64] = actions[check_index(action, len(actions))]
        if not np.vdot(row, row) <= self._greatest_squared_norm:
            check_entries(actions)
            self._refuse_norm(actions)
        return row[: self.dim]

    def _refuse_norm(self, actions: NDArray[np.float64]) -> None:
        norms = np.sqrt((actions**2).sum(axis=1))
        row = int(norms.argmax())
        rule = f"norms must be at most action_bound = {self.action_bound:g}"
        raise InvalidArgument(f"context has row {row} of norm {norms[row]:.6g}, but {rule}")
