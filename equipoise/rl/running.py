"""A portfolio of episodic learners in a gymnasium environment: a round is an episode.

The context is the first observation, the decision a policy, the outcome the trajectory and the reward its return. A
policy is a table of actions, one row per step and one column per state, or a function of step and observation. Returns
lie in a declared range, and `Scale` maps them to the selector's `reward_range`; it also converts the regret stated by
learners, which is in the units of returns.

The guarantees assume that start states are independent and identically distributed, as in most environments. They do
not apply if start states depend on earlier plays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.learner import capabilities
from equipoise.learners._core.trajectory import Trajectory
from equipoise.portfolio import Portfolio
from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.selector import traits_of
from equipoise.settings.checks import count, interval, measured
from equipoise.types import Action, Array, Context, Integers

Environment: TypeAlias = gymnasium.Env[Context, Action]


@runtime_checkable
class KnowsGaps(Protocol):
    """An environment that knows the expected loss of a policy from a start state."""

    def gap(self, context: Context, action: Action) -> float: ...


class Scale(NamedTuple):
    """Linear map from returns in [low, high] to rewards in [reward_low, reward_high]."""

    low: float
    high: float
    reward_low: float
    reward_high: float

    def reward(self, total_reward: float) -> float:
        """The reward of a return; raises an error if it is outside the declared range."""
        if not self.low <= total_reward <= self.high:
            raise InvalidArgument(
                f"return is {total_reward!r}, but must lie in the declared return_range ({self.low:g}, {self.high:g})"
            )
        share = (total_reward - self.low) / (self.high - self.low)
        return min(self.reward_low + share * (self.reward_high - self.reward_low), self.reward_high)

    def regret(self, regret: float) -> float | None:
        """A difference of returns as a difference of rewards; None if it is unknown."""
        return None if isnan(regret) else regret * (self.reward_high - self.reward_low) / (self.high - self.low)


class Episodes(NamedTuple):
    """The results of a run, one entry per episode."""

    returns: Array
    rewards: Array  # returns in the units of the selector
    lengths: Integers
    learners: Integers  # index of the learner that played
    gaps: Array  # exact expected loss against the optimum; nan if unknown


def run(
    env: Environment,
    portfolio: Portfolio,
    episodes: int,
    seed: int = 0,
    *,
    horizon: int | None = None,
    return_range: tuple[float, float] | None = None,
) -> Episodes:
    """Play episodes in an environment with discrete actions, learning from each.

    An episode that is too long, has a return outside the range, or is rejected by a learner raises an error. Nothing is
    learned from it and its decision is withdrawn, so the portfolio is in the state before the episode.

    Parameters
    ----------
    env
        Environment with discrete actions. Rewards of steps must lie in [0, 1] for learners of this package; rescale
        them with gymnasium's TransformReward if necessary.
    portfolio
        Portfolio of episodic learners.
    episodes
        Number of episodes to play.
    seed
        Seed of the first reset. Default: 0.
    horizon
        Maximum number of steps H of an episode. Default: that of the learners.
    return_range
        Interval that contains all returns. Default: that of the environment if it is one of this package, else
        (0, horizon).
    """
    n_episodes, first_action = count("episodes", episodes), _check_spaces(env, portfolio)
    steps = _horizon(portfolio) if horizon is None else count("horizon", horizon)
    low, high = interval("return_range", _default_return_range(env, steps) if return_range is None else return_range)
    scale = Scale(low, high, *(traits_of(portfolio.selector).reward_range or (low, high)))
    gap_of = _gap_of(env)
    results = Episodes(*(np.zeros(n_episodes, kind) for kind in (float, float, np.int64, np.int64, float)))
    for n in range(n_episodes):
        observation, _ = env.reset(seed=count("seed", seed, minimum=0)) if n == 0 else env.reset()
        start = _plain(observation)
        decision = portfolio.decide(start)
        if decision.learner is None:
            portfolio.withdraw(decision)
            raise InvalidArgument("portfolio has a fallback or an exploration floor, but an episode needs a policy")
        try:
            trajectory = _roll_out(env, decision.action, start, steps, first_action)
            total_reward = trajectory.total_reward
            reward = scale.reward(total_reward)
            regret = portfolio.regret_of(decision, trajectory)
            gap = gap_of(start, decision.action)
            portfolio.learn(decision, reward, outcome=trajectory, regret=scale.regret(regret))
        except BaseException:
            with suppress(EquipoiseError):  # a decision that was already learned from cannot be withdrawn
                portfolio.withdraw(decision)
            raise
        for column, value in zip(
            results, (total_reward, reward, len(trajectory.rewards), decision.learner, gap), strict=True
        ):
            column[n] = value
    return results


def _roll_out(env: Environment, policy: Action, start: Context, horizon: int, first_action: int) -> Trajectory:
    choose = policy if callable(policy) else lambda step, state: policy[step][state]
    states: list[Context] = []
    actions, rewards, state, ended = [], [], start, False
    while not ended:
        if len(states) == horizon:
            raise InvalidArgument(
                f"episode continues after {horizon} steps, but must end within horizon = {horizon}: "
                "limit it with gymnasium's TimeLimit"
            )
        action = int(choose(len(states), state))
        observation, reward, terminated, truncated, _ = env.step(first_action + action)
        states.append(state)
        actions.append(action)
        rewards.append(measured("reward of a step", reward))
        state, ended = _plain(observation), terminated or truncated
    return Trajectory(states, actions, rewards)


def _plain(observation: Context) -> Context:
    return int(observation) if isinstance(observation, np.integer) else observation


def _check_spaces(env: Environment, portfolio: Portfolio) -> int:
    """Return the first action of the environment; raise an error if a learner cannot use its spaces."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gymnasium.spaces.Discrete):
        raise InvalidArgument(f"env has action space {actions}, but must have a Discrete one")
    for learner in portfolio.learners:
        can = capabilities(learner)
        name, n_states = can.name, can.n_states
        if can.n_actions not in (None, actions.n):
            raise InvalidArgument(f"env has {actions.n} actions, but must have {can.n_actions} for {name!r}")
        if n_states is None:
            continue
        if not isinstance(observations, gymnasium.spaces.Discrete) or observations.start != 0:
            raise InvalidArgument(
                f"env has observation space {observations}, but must have states 0 to {n_states - 1} for {name!r}"
            )
        if observations.n != n_states:
            raise InvalidArgument(f"env has {observations.n} states, but must have {n_states} for {name!r}")
    return int(actions.start)


def _horizon(portfolio: Portfolio) -> int:
    horizons = (capabilities(learner).horizon for learner in portfolio.learners)
    found = {horizon for horizon in horizons if horizon is not None}
    if len(found) != 1:
        raise InvalidArgument(
            f"learners have horizons {sorted(found)}, but must have a single one unless run() is given a horizon"
        )
    return found.pop()


def _default_return_range(env: Environment, horizon: int) -> tuple[float, float]:
    return env.unwrapped.reward_range if isinstance(env.unwrapped, FiniteMDP) else (0.0, float(horizon))


def _gap_of(env: Environment) -> Callable[[Context, Action], float]:
    known = env.unwrapped
    if not isinstance(known, KnowsGaps):
        return lambda start, policy: nan
    return lambda start, policy: nan if callable(policy) else float(known.gap(start, policy))
