"""Episodic decision processes with finitely many states and actions and exactly known values.

A round is an episode of H steps. The context is the start state, drawn independently each time; the action is a policy,
a table of H x S action indices; the reward is the return, between 0 and the largest possible one (at most H), as the
rewards of steps are Bernoulli. Backward induction gives the optimal values and the value of any policy, so the regret
of an episode is exact: it is the expected loss from the start state, independent of the randomness of the trajectory.

Reference: Puterman (1994), "Markov decision processes", section 4.5 (backward induction).
"""

from __future__ import annotations

from collections.abc import Callable
from math import fsum
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.learners._core.trajectory import Trajectory, as_indices
from equipoise.settings import Configured
from equipoise.settings.checks import count
from equipoise.types import Action, Array, Context, Integers

Table = Integers  # (H, S) a policy


class Params(NamedTuple):
    """The process as arrays; rows of the flattened ones are state * A + action."""

    rewards: Array  # (H, S A)
    transitions: Array  # (H, S A, S)
    cumulative: Array  # (H, S A, S) of the transitions
    cumulative_start: Array  # (S,)
    optimal_values: Array  # (H + 1, S)
    first_rows: Integers  # (S,) state * A


class EpisodeKernels(NamedTuple):
    start: Callable[..., int]  # (params, generator) -> start state
    roll_out: Callable[..., None]  # (params, policy, states, actions, rewards, generator), states[0] being the start
    loss: Callable[..., float]  # (params, policy, state) -> the policy's expected loss from there


@kernel
def start(params: Params, rng: np.random.Generator) -> int:
    return find(params.cumulative_start, rng.random())


@kernel
def roll_out(
    params: Params, policy: Table, states: Table, actions: Table, rewards: Array, rng: np.random.Generator
) -> None:
    """Fill in the steps of an episode that starts in states[0]."""
    horizon, state = len(policy), states[0]
    for step in range(horizon):
        states[step], actions[step] = state, policy[step, state]
        rewards[step], state = advance(params, step, params.first_rows[state] + policy[step, state], rng)


@kernel
def advance(params: Params, step: int, row: int, rng: np.random.Generator) -> tuple[float, int]:
    """Draw reward and next state of one step; `row` is state * A + action."""
    reward = 1.0 if rng.random() < params.rewards[step, row] else 0.0
    return reward, find(params.cumulative[step, row], rng.random())


@kernel
def find(cumulative: Array, number: float) -> int:
    """The first index whose cumulative probability is above a number."""
    return int(cumulative.searchsorted(number, "right"))


@native(find)
def _find(cumulative: Array, number: float) -> int:
    low, high = 0, len(cumulative)
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def loss(params: Params, policy: Table, state: int) -> float:
    """Expected loss of a policy against the optimum from a start state."""
    return float(params.optimal_values[0, state] - evaluate(params, policy)[state])


@kernel
def evaluate(params: Params, policy: Table) -> Array:
    """The expected return of a policy from every start state."""
    values = np.zeros(len(params.first_rows))
    for step in range(len(policy) - 1, -1, -1):
        values = action_values(params, step, values)[params.first_rows + policy[step]]
    return values


@kernel
def action_values(params: Params, step: int, next_values: Array) -> Array:
    """(S A,) expected returns from a step on. Optimum and evaluation use the same product, so that the loss of an
    optimal policy is exactly 0."""
    values: Array = params.transitions[step].dot(next_values)
    values += params.rewards[step]
    return values


@native(evaluate)
def _evaluate(params: Params, policy: Table) -> Array:
    n_states = len(params.first_rows)
    values, earlier = np.zeros(n_states), np.zeros(n_states)
    for step in range(len(policy) - 1, -1, -1):
        for state in range(n_states):
            row = params.first_rows[state] + policy[step, state]
            value = params.rewards[step, row]
            for successor in range(n_states):
                value += params.transitions[step, row, successor] * values[successor]
            earlier[state] = value
        values, earlier = earlier, values
    return values


class FiniteMDP(Configured):
    """Base class of finite decision processes; subclasses declare settings and compute the arrays from them.

    `rewards` (H, S, A) are expected rewards of steps in [0, 1], `transitions` (H, S, A, S) and `start` (S,)
    probabilities, and `features` (S, A, d) the features of states and actions, with norms of at most 1.
    """

    name: str
    horizon: int
    n_states: int
    n_actions: int
    iid: ClassVar[bool] = True  # start states are independent and identically distributed
    noise: ClassVar[float | None] = None  # returns lie in the range
    episode_kernels: ClassVar[EpisodeKernels] = EpisodeKernels(start, roll_out, loss)

    def _build(self, rewards: Array, transitions: Array, start: Array, features: Array) -> None:
        self.rewards, self.transitions, self.start, self.features = rewards, transitions, start, features
        self.horizon, self.n_states, self.n_actions = rewards.shape
        self.reward_range = (0.0, self._max_return())
        flat = np.ascontiguousarray(transitions).reshape(self.horizon, -1, self.n_states)
        self.params = Params(
            np.ascontiguousarray(rewards).reshape(self.horizon, -1),
            flat,
            _cumulative(flat),
            _cumulative(start),
            np.zeros((self.horizon + 1, self.n_states)),
            np.arange(self.n_states) * self.n_actions,
        )
        self.optimal_policy = self._solve()

    def _build_chain(self, rewards: Array, transitions: Array) -> None:
        """Build a process that is the same in all steps and starts in state 0; its features are one-hot."""
        n_states, n_actions = rewards.shape
        r, p = (np.broadcast_to(each, (self.horizon, *each.shape)) for each in (rewards, transitions))
        self._build(r, p, np.eye(n_states)[0], one_hot(n_states, n_actions))

    @property
    def optimal_values(self) -> Array:
        """(H + 1, S) largest expected returns from each step and state on."""
        return self.params.optimal_values

    def observe(self, rng: np.random.Generator) -> int:
        """The start state of the next episode."""
        return start(self.params, rng)

    def play(self, context: int, action: Action, rng: np.random.Generator) -> tuple[float, Trajectory]:
        """Play an episode with a policy; return its total reward and trajectory."""
        state, policy = self.check_state(context), self.check_policy(action)
        states, actions, rewards = *np.empty((2, self.horizon), np.int64), np.empty(self.horizon)
        states[0] = state
        roll_out(self.params, policy, states, actions, rewards, rng)
        return fsum(rewards), Trajectory(states, actions, rewards)

    def respond(self, context: int, action: Action, rng: np.random.Generator) -> float:
        """Play an episode with a policy; return its total reward."""
        return self.play(context, action, rng)[0]

    def gap(self, context: int, action: Action) -> float:
        """Expected loss of a policy against the optimum from the start state."""
        return loss(self.params, self.check_policy(action), self.check_state(context))

    def optimal_value(self, state: int) -> float:
        """The largest expected return from a start state."""
        return float(self.optimal_values[0, self.check_state(state)])

    def policy_value(self, policy: Action) -> Array:
        """The expected return of a policy from every start state."""
        return evaluate(self.params, self.check_policy(policy))

    def check_policy(self, policy: Action) -> Table:
        """Return the policy as a table of actions, one row per step and one column per state."""
        shape = (self.horizon, self.n_states)
        if np.shape(policy) != shape:
            raise InvalidArgument(f"policy has shape {np.shape(policy)}, but must have {shape}: steps and states")
        return as_indices("policy", policy, self.n_actions)

    def check_state(self, state: Context) -> int:
        return count("state", state, minimum=0, maximum=self.n_states - 1)

    def _max_return(self) -> float:
        """The largest return that has positive probability under some policy; H if all rewards are 0."""
        max_returns = np.zeros(self.n_states)
        for step in reversed(range(self.horizon)):
            later = np.where(self.transitions[step] > 0.0, max_returns, 0.0).max(-1)
            max_returns = ((self.rewards[step] > 0.0) + later).max(-1)
        return float(max_returns[self.start > 0.0].max()) or float(self.horizon)

    def _solve(self) -> Table:
        """Fill in the optimal values and return an optimal policy."""
        policy, values = np.empty((self.horizon, self.n_states), np.int64), self.params.optimal_values
        for step in reversed(range(self.horizon)):
            returns = action_values(self.params, step, values[step + 1]).reshape(self.n_states, self.n_actions)
            policy[step] = returns.argmax(1)
            values[step] = returns.max(1)
        return policy


def _cumulative(probabilities: Array) -> Array:
    """Cumulative sums whose last entry is exactly 1, so that it exceeds every number drawn from [0, 1)."""
    sums: Array = probabilities.cumsum(-1)
    sums /= sums[..., -1:].copy()
    return sums


def one_hot(n_states: int, n_actions: int) -> Array:
    """One-hot features of states and actions, which make every finite process linear."""
    return np.eye(n_states * n_actions).reshape(n_states, n_actions, -1)
