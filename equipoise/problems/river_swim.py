"""RiverSwim: a chain with a small immediate reward at one end and a large reward at the other.

Action 0 always moves left; action 1 tries to move right and often stays in place. The leftmost state pays 0.005 for
action 0, the rightmost 1 for action 1, and all others pay nothing. Episodes start at the left end, so a learner that
does not explore finds only the small reward.

Reference: Strehl and Littman (2008), "An analysis of model-based interval estimation for Markov decision processes",
section 5; probabilities as in Osband, Russo and Van Roy (2013), "(More) efficient reinforcement learning via posterior
sampling", figure 1.
"""

from __future__ import annotations

import numpy as np

from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.settings import configurable, setting
from equipoise.settings.checks import several, size

LEFT, RIGHT = 0, 1
SMALL_REWARD = 0.005


@configurable
class RiverSwim(FiniteMDP):
    """A chain of states, with one-hot features, whose large reward requires many steps against the current.

    Examples
    --------
    >>> RiverSwim(n_states=3, horizon=8).optimal_policy[0].tolist() == [RIGHT, RIGHT, RIGHT]
    True
    """

    n_states: int = setting("Number of states of the chain, at least 2.", several, default=6, kw_only=False)
    horizon: int = setting("Number of steps H of an episode.", size, default=20, kw_only=False)

    def _set_up(self) -> None:
        super()._set_up()
        n = self.n_states
        self.name = f"RiverSwim(S={n}, H={self.horizon})"
        transitions, rewards = np.zeros((n, 2, n)), np.zeros((n, 2))
        for state in range(n):
            transitions[state, LEFT, max(state - 1, 0)] = 1.0
            forward, stay = (0.35, 0.6) if state > 0 else (0.6, 0.4)
            if state == n - 1:
                forward, stay = 0.0, 0.6
            transitions[state, RIGHT, state] = stay
            if state < n - 1:
                transitions[state, RIGHT, state + 1] = forward
            if state > 0:
                transitions[state, RIGHT, state - 1] = 1.0 - stay - forward
        rewards[0, LEFT], rewards[n - 1, RIGHT] = SMALL_REWARD, 1.0
        self._build_chain(rewards, transitions)
