"""Q-learning with optimistic bonuses: the model-free baseline for finite episodic decision processes.

Every Q_h(s, a) starts at H. The t-th visit moves it at rate (H + 1) / (H + t) toward reward plus next value plus a
bonus of order sqrt(H^3 / t); the policy is greedy. An episode costs O(H A) and the memory is one table.

Reference: Jin, Allen-Zhu, Bubeck and Jordan (2018), "Is Q-learning provably efficient?", algorithm 1 (UCB-Hoeffding)
and theorem 1. Symbols: c bonus, iota log_term = ln(S A T / p).
Departure: Q_h starts and is clipped at H - h + 1 instead of H. There is no observed regret bound, because the error of
an estimate depends on all of its past targets.
"""

from __future__ import annotations

from math import log, nan, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Power
from equipoise.kernels.marks import kernel
from equipoise.learners._core.episodic import (
    ACTIONS,
    STATES,
    PlanningLearner,
    Process,
    Table,
    check_size,
    delta_setting,
    new_plan,
)
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive
from equipoise.settings.sizes import check_array
from equipoise.types import Array, Integers


class Params(NamedTuple):
    scale: float  # c sqrt(H^3 iota)


class Memory(NamedTuple):
    values: Array  # (H, S, A) Q
    visits: Integers  # (H, S, A)
    policy: Table  # (H, S)
    widths: Array  # (H, S) nan: there is no observed bound
    episodes: Integers  # (1,)
    width_sum: Array  # (1,)


@kernel
def learn_episode(params: Params, memory: Memory, states: Table, actions: Table, rewards: Array) -> None:
    horizon = len(memory.policy)
    for h in range(len(states)):
        state, action = states[h], actions[h]
        memory.visits[h, state, action] += 1
        visits = memory.visits[h, state, action]
        target = rewards[h] + params.scale / sqrt(visits)
        if h + 1 < len(states):
            successor = states[h + 1]
            target += min(memory.values[h + 1, successor, memory.policy[h + 1, successor]], float(horizon - h - 1))
        rate = (horizon + 1.0) / (horizon + visits)
        memory.values[h, state, action] += rate * (target - memory.values[h, state, action])
        best = 0
        for other in range(1, memory.values.shape[2]):
            if memory.values[h, state, other] > memory.values[h, state, best]:
                best = other
        memory.policy[h, state] = best


@configurable
class QLearning(PlanningLearner[Params, Memory]):
    """Optimistic Q-learning for finite episodic processes.

    Examples
    --------
    >>> QLearning(n_states=2, n_actions=2, horizon=3, episodes=100).name
    'Q-learning(c=1)'
    """

    delta: float = delta_setting(doc="Probability in (0, 1) that the values are not optimistic.")
    n_states: int = setting(STATES, check_size, kw_only=False)
    n_actions: int = setting(ACTIONS, check_size, kw_only=False)
    bonus: float = setting("Constant c of the exploration bonus, positive.", positive, default=1.0)

    provides = frozenset()
    learn_episode = staticmethod(learn_episode)

    def _set_up(self) -> None:
        super()._set_up()
        self.process = Process(self.n_states, self.n_actions, self.horizon)
        steps = self.n_states * self.n_actions * self.episodes * self.horizon
        self.params = Params(self.bonus * sqrt(self.horizon**3 * log(steps / self.delta)))
        shape = (self.horizon, self.n_states, self.n_actions)
        check_array("horizon * n_states * n_actions", *shape)
        steps_left = np.arange(self.horizon, 0.0, -1.0)[:, None, None]
        tables = steps_left * np.ones(shape), np.zeros(shape, np.int64)
        self.memory = Memory(*tables, *new_plan(self.horizon, self.n_states, nan))

    def default_name(self) -> str:
        return f"Q-learning(c={self.bonus:g})"

    def paper_bound(self) -> Power:
        """sqrt(H^4 S A T iota), T = H n: theorem 1 without its absolute constant."""
        steps, pairs = self.horizon, self.n_states * self.n_actions
        return Power(sqrt(steps**5 * pairs * log(pairs * steps * self.episodes / self.delta)))
