"""A combination lock: only one action in each state leads on, and only the whole combination pays.

From state h < H the right action leads to state h + 1, any other to the dead state, which is never left. The right
action in state H, at the last step, pays 1; each wrong action pays `consolation` at once, which is what a learner finds
that gives up early. With `slip` an action is replaced by a random one.

Reference: Koenig and Simmons (1993), "Complexity analysis of real-time reinforcement learning" (reset chains);
in this episodic form e.g. Azar, Gomez and Kappen (2011), "Dynamic policy programming", section 5.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.kernels.streams import INSTANCE, generator_at
from equipoise.problems.finite_mdp import FiniteMDP, one_hot
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, fraction


@configurable
class CombinationLock(FiniteMDP):
    """A lock of `horizon` digits with `n_actions` values each, fixed by `seed`; features are one-hot.

    >>> problem = CombinationLock(horizon=3, n_actions=2)
    >>> problem.optimal_value(0)
    1.0
    """

    horizon: int = setting(default=6, check=partial(count, most=10_000), kw_only=False)
    n_actions: int = setting(default=3, check=partial(count, least=2, most=10_000), kw_only=False)
    consolation: float = setting(default=0.1, check=fraction)
    slip: float = setting(default=0.0, check=fraction)
    seed: int = setting(default=0, check=partial(count, least=0))

    def _set_up(self) -> None:
        super()._set_up()
        steps, n_values = self.horizon, self.n_actions
        self.name = f"CombinationLock(H={steps}, A={n_values})"
        dead = steps
        combination = generator_at(self.seed, INSTANCE).integers(0, n_values, steps)
        transitions, rewards = np.zeros((steps + 1, n_values, steps + 1)), np.zeros((steps + 1, n_values))
        transitions[:, :, dead] = 1.0
        rewards[:dead] = self.consolation
        for digit in range(steps):
            right = combination[digit]
            last = digit == steps - 1
            transitions[digit, right] = np.eye(steps + 1)[dead if last else digit + 1]
            rewards[digit, right] = 1.0 if last else 0.0
        transitions = (1 - self.slip) * transitions + self.slip * transitions.mean(1, keepdims=True)
        rewards = (1 - self.slip) * rewards + self.slip * rewards.mean(1, keepdims=True)
        self._build(
            np.broadcast_to(rewards, (steps, *rewards.shape)),
            np.broadcast_to(transitions, (steps, *transitions.shape)),
            np.eye(steps + 1)[0],
            one_hot(steps + 1, n_values),
        )
