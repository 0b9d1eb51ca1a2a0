"""Trajectories: episodic learners learn from the trajectory of an episode instead of an action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument
from equipoise.settings.checks import measured
from equipoise.types import Array, Context, Integers, Outcome


class Trajectory(NamedTuple):
    """The steps of one episode, in order, one entry each.

    The state after the last step is omitted: an episode ends after `horizon` steps or in a terminal state, and in both
    cases the value of that state is 0.

    >>> Trajectory([3, 0], [1, 1], [0.0, 1.0]).total_reward
    1.0
    """

    states: Sequence[Context] | Integers  # those in which the actions were taken
    actions: Sequence[int] | Integers
    rewards: Sequence[float] | Array

    @property
    def total_reward(self) -> float:
        """The return: the sum of the rewards."""
        return fsum(self.rewards)


class Steps(NamedTuple):
    """A checked trajectory, as arrays."""

    states: Integers
    actions: Integers
    rewards: Array


def check_lengths(trajectory: Outcome, horizon: int) -> Trajectory:
    """Return the trajectory; raise an error unless it has 1 to `horizon` states, actions and rewards."""
    if not isinstance(trajectory, tuple) or len(trajectory) != 3:
        raise InvalidArgument(f"trajectory is {trajectory!r:.80}, but must be a Trajectory(states, actions, rewards)")
    try:
        n_states, n_actions, n_rewards = map(len, trajectory)
    except TypeError:
        raise InvalidArgument(f"trajectory is {trajectory!r:.80}, but must be three sequences") from None
    if not n_states == n_actions == n_rewards:
        raise InvalidArgument(
            f"trajectory has {n_states} states, {n_actions} actions and {n_rewards} rewards, "
            "but must have as many of each"
        )
    if not 1 <= n_states <= horizon:
        raise InvalidArgument(f"trajectory has {n_states} steps, but must have from 1 to horizon = {horizon}")
    return Trajectory(*trajectory)


def as_indices(name: str, values: ArrayLike, n_values: int) -> Integers:
    """Return integers from 0 to n_values - 1 as an array."""
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iu":
        raise InvalidArgument(f"{name} is {values!r:.80}, but must be integers")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < n_values):
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InvalidArgument(f"{name} has {wrong}, but entries must lie from 0 to {n_values - 1}")
    return numbers.astype(np.int64)


def as_step_rewards(values: Iterable[float]) -> Array:
    """Return the rewards of single steps, in [0, 1], as an array."""
    rewards = np.array([measured("reward of a step", value) for value in values])
    if rewards.size and not (rewards.min() >= 0.0 and rewards.max() <= 1.0):
        wrong = rewards.min() if rewards.min() < 0.0 else rewards.max()
        raise InvalidArgument(f"trajectory has a step of reward {wrong:g}, but rewards of steps must lie in [0, 1]")
    return rewards
