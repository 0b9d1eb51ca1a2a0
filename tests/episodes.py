"""Start states and trajectories for learners of episodes: any policy, random states and rewards, any length."""

from typing import Any

import numpy as np

from equipoise.learners._core.trajectory import Trajectory

N_STATES, N_ACTIONS, HORIZON = 3, 2, 4


def start_state(rng: np.random.Generator) -> int:
    return int(rng.integers(N_STATES))


def random_trajectory(start: int, policy: Any, rng: np.random.Generator) -> Trajectory:
    """1 to HORIZON steps under a policy from a start state, in an environment that answers at random."""
    states = rng.integers(0, N_STATES, int(rng.integers(1, HORIZON + 1)))
    states[0] = start
    actions = np.array([policy[h, state] for h, state in enumerate(states)])
    return Trajectory(states, actions, rng.random(len(states)))
