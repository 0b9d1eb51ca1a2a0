"""UCBVI: optimistic value iteration on visit counts, for finite episodic decision processes without features.

Backwards in h, Q_h(s, a) = mean reward + mean next value + bonus over the visits of (h, s, a), at most H - h + 1, which
is also the value of untried actions; the policy is greedy. An episode costs O(H S^2 A), independent of the number of
past episodes.

Reference: Azar, Osband and Munos (2017), "Minimax regret bounds for reinforcement learning", algorithms 1-3 with the
Chernoff-Hoeffding bonus 7 H L / sqrt(N), L = ln(5 S A T / delta), and theorem 1.
Departures: rewards are estimated like transitions; counts are kept separately for each step, as the process may differ
from step to step; the 7 is a setting.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Power
from equipoise.kernels.marks import kernel, native
from equipoise.learners._core.episodic import ACTIONS, STATES, PlanningLearner, Process, Table, check_size, new_plan
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.sizes import check_array
from equipoise.types import Array, Integers


class Params(NamedTuple):
    scale: float  # bonus after the first visit


class Memory(NamedTuple):
    visits: Array  # (H, S, A)
    reward_sums: Array  # (H, S, A)
    successors: Array  # (H, S, A, S) visits that led to each next state
    policy: Table  # (H, S)
    widths: Array  # (H, S)
    episodes: Integers  # (1,)
    width_sum: Array  # (1,)


@kernel
def plan(params: Params, memory: Memory) -> None:
    horizon, n_states = memory.policy.shape
    values = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        plan_step(params, memory, h, float(horizon - h), values)


@kernel
def plan_step(params: Params, memory: Memory, h: int, steps_left: float, values: Array) -> None:
    """Compute policy and widths of step h; `values` of the next step are replaced by those of this step."""
    visits, every_state = memory.visits[h], np.arange(len(values))
    counted = np.maximum(visits, 1.0)
    bonuses = np.where(visits > 0.0, params.scale / np.sqrt(counted), steps_left)
    means = (memory.reward_sums[h] + memory.successors[h].dot(values)) / counted
    optimistic = np.minimum(means + bonuses, steps_left)
    memory.policy[h] = optimistic.argmax(1)
    values[:] = optimistic[every_state, memory.policy[h]]
    memory.widths[h] = np.minimum(2.0 * bonuses[every_state, memory.policy[h]], steps_left)


@kernel
def learn_episode(params: Params, memory: Memory, states: Table, actions: Table, rewards: Array) -> None:
    """Learn from the steps of an episode, then plan the next one."""
    for h in range(len(states)):
        memory.visits[h, states[h], actions[h]] += 1.0
        memory.reward_sums[h, states[h], actions[h]] += rewards[h]
        if h + 1 < len(states):
            memory.successors[h, states[h], actions[h], states[h + 1]] += 1.0
    plan(params, memory)


@native(plan_step)
def _plan_step(params: Params, memory: Memory, h: int, steps_left: float, values: Array) -> None:
    n_states, n_actions = memory.visits[h].shape
    current = np.zeros(n_states)
    for state in range(n_states):
        best = -1.0
        for action in range(n_actions):
            visits = memory.visits[h, state, action]
            bonus, mean = steps_left, 0.0
            if visits > 0.0:
                mean = memory.reward_sums[h, state, action]
                for successor in range(n_states):
                    mean += memory.successors[h, state, action, successor] * values[successor]
                mean /= visits
                bonus = params.scale / sqrt(visits)
            optimistic = min(mean + bonus, steps_left)
            if optimistic > best:
                best = optimistic
                memory.policy[h, state] = action
                memory.widths[h, state] = min(2.0 * bonus, steps_left)
        current[state] = best
    for state in range(n_states):
        values[state] = current[state]


@configurable
class UCBVI(PlanningLearner[Params, Memory]):
    """Optimistic value iteration on visit counts for finite episodic processes.

    Examples
    --------
    >>> learner = UCBVI(n_states=2, n_actions=2, horizon=3, episodes=100)
    >>> learner.decide(0).action.shape
    (3, 2)
    """

    n_states: int = setting(STATES, check_size, kw_only=False)
    n_actions: int = setting(ACTIONS, check_size, kw_only=False)
    bonus: float = setting("Constant of the exploration bonus, positive; 7 in the reference.", positive, default=7.0)

    learn_episode = staticmethod(learn_episode)

    def _set_up(self) -> None:
        super()._set_up()
        self.process = Process(self.n_states, self.n_actions, self.horizon)
        steps = self.n_states * self.n_actions * self.episodes * self.horizon
        self.params = Params(self.bonus * self.horizon * log(5 * steps / (self.delta / 2)))
        shape = (self.horizon, self.n_states, self.n_actions)
        check_array("horizon * n_states^2 * n_actions", *shape, self.n_states)
        successors, unplanned = np.zeros((*shape, self.n_states)), new_plan(self.horizon, self.n_states)
        self.memory = Memory(np.zeros(shape), np.zeros(shape), successors, *unplanned)
        plan(self.params, self.memory)

    def default_name(self) -> str:
        return f"UCBVI(c={self.bonus:g})"

    def paper_bound(self) -> Power:
        """20 H L sqrt(S A T), T = H n: the leading term of theorem 1, with S states in each of H steps."""
        pairs = self.horizon * self.n_states * self.n_actions
        return Power(20 * self.horizon * log(5 * pairs * self.episodes / self.delta) * sqrt(pairs * self.horizon))
