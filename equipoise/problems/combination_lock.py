"""A combination lock: only one action in each state makes progress, and only the full combination earns the reward.

From state h < H the right action leads to state h + 1, any other to an absorbing dead state. The right action in state
H, at the last step, pays 1; each wrong action pays `consolation` immediately, which attracts learners that stop
exploring early. With probability `slip` an action is replaced by a random one.

Reference: Koenig and Simmons (1993), "Complexity analysis of real-time reinforcement learning" (reset chains);
in this episodic form e.g. Azar, Gomez and Kappen (2011), "Dynamic policy programming", section 5.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.kernels.streams import INSTANCE, generator_at
from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, fraction, several, size


@configurable
class CombinationLock(FiniteMDP):
    """A chain, with one-hot features, in which only the right action of every state leads to the reward at the end.

    Examples
    --------
    >>> problem = CombinationLock(horizon=3, n_actions=2)
    >>> problem.optimal_value(0)
    1.0
    """

    horizon: int = setting(
        "Length of the combination: the number of steps H of an episode.", size, default=6, kw_only=False
    )
    n_actions: int = setting("Number of actions in each state, at least 2.", several, default=3, kw_only=False)
    consolation: float = setting("Expected reward of a wrong action, in [0, 1].", fraction, default=0.1)
    slip: float = setting("Probability in [0, 1] that an action is replaced by a random one.", fraction, default=0.0)
    seed: int = setting("Seed of the combination.", partial(count, minimum=0), default=0)

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
        self._build_chain(rewards, transitions)
