"""A portfolio of episodic learners in a gymnasium environment: a round is an episode.

The context is the first observation, the decision a policy, the outcome the trajectory and the reward its return. A
policy is a table of actions, one row per step and one column per state, or a function of step and observation. Returns
lie in a declared range and are carried over to the selector's `reward_range` in one place, `Scale`; so is what learners
say about their regret, which is in the units of the returns.

Selection as in the paper presumes that start states are independent and identically distributed, which resets of most
environments are; where somebody chooses them by what was played before, the guarantees do not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import isnan, nan
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.learner import AdaptedLearner, part_name
from equipoise.learners._core.trajectory import Trajectory
from equipoise.portfolio import Portfolio
from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.selector import traits_of
from equipoise.settings.checks import count, interval, real
from equipoise.types import Action, Array, Context, Integers

Environment: TypeAlias = gymnasium.Env[Context, Action]


@runtime_checkable
class ForActions(Protocol):
    """A learner made for environments with so many actions."""

    n_actions: int


@runtime_checkable
class ForStates(Protocol):
    """A learner made for environments with so many states."""

    n_states: int


@runtime_checkable
class ForHorizon(Protocol):
    """A learner made for episodes of so many steps."""

    horizon: int


@runtime_checkable
class KnowsGaps(Protocol):
    """An environment that knows what a policy loses from a start state, in expectation."""

    def gap(self, context: Context, action: Action) -> float: ...


class Scale(NamedTuple):
    """Carries returns over to rewards: [low, high] to [reward_low, reward_high], by a straight line."""

    low: float
    high: float
    reward_low: float
    reward_high: float

    def reward(self, total_reward: float) -> float:
        """The reward of a return; refuses one outside the declared range."""
        if not self.low <= total_reward <= self.high:
            raise InvalidArgument(
                f"return is {total_reward!r}, but must lie in the declared return_range ({self.low:g}, {self.high:g})"
            )
        share = (total_reward - self.low) / (self.high - self.low)
        return min(self.reward_low + share * (self.reward_high - self.reward_low), self.reward_high)

    def regret(self, regret: float) -> float | None:
        """A difference of returns as a difference of rewards; None where it is unknown."""
        return None if isnan(regret) else regret * (self.reward_high - self.reward_low) / (self.high - self.low)


class Episodes(NamedTuple):
    """What came of a run, one entry per episode."""

    returns: Array
    rewards: Array  # returns in the units of the selector
    lengths: Integers
    learners: Integers  # index of the learner that played
    gaps: Array  # exact expected loss against the optimum; nan where the environment does not know it


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

    `horizon` is the greatest number of steps, by default that of the learners; `return_range` by default what the
    environment states if it is one of this package, else (0, horizon), as learners of this package take rewards of
    steps in [0, 1] (rescale others with gymnasium's TransformReward). An
    episode that is too long, has a return outside the range or that a learner refuses raises; nothing is learned from
    it, and its decision is withdrawn: the portfolio is as if the episode had never begun.
    """
    n_episodes, first_action = count("episodes", episodes), _check_spaces(env, portfolio)
    steps = _horizon(portfolio) if horizon is None else count("horizon", horizon)
    low, high = interval("return_range", _known_range(env, steps) if return_range is None else return_range)
    scale = Scale(low, high, *(traits_of(portfolio.selector).reward_range or (low, high)))
    gap_of = _gap_of(env)
    results = Episodes(*(np.zeros(n_episodes, kind) for kind in (float, float, np.int64, np.int64, float)))
    for n in range(n_episodes):
        observation, _ = env.reset(seed=count("seed", seed, least=0)) if n == 0 else env.reset()
        start = _plain(observation)
        decision = portfolio.decide(start)
        try:
            trajectory = _roll_out(env, decision.action, start, steps, first_action)
            total_reward = trajectory.total_reward
            reward = scale.reward(total_reward)
            regret = AdaptedLearner(portfolio.learners[decision.learner]).regret_after(nan, trajectory)
            gap = gap_of(start, decision.action)
            portfolio.learn(decision, reward, outcome=trajectory, regret=scale.regret(regret))
        except BaseException:
            with suppress(EquipoiseError):  # one that somebody has learned from already cannot be taken back
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
                f"episode goes on after {horizon} steps, but must end within horizon = {horizon}: "
                "limit it with gymnasium's TimeLimit"
            )
        action = int(choose(len(states), state))
        observation, reward, terminated, truncated, _ = env.step(first_action + action)
        states.append(state)
        actions.append(action)
        rewards.append(real("reward of a step", reward))
        state, ended = _plain(observation), terminated or truncated
    return Trajectory(states, actions, rewards)


def _plain(observation: Context) -> Context:
    return int(observation) if isinstance(observation, np.integer) else observation


def _check_spaces(env: Environment, portfolio: Portfolio) -> int:
    """The first action of the environment, if its spaces are what the learners can work with."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gymnasium.spaces.Discrete):
        raise InvalidArgument(f"env has action space {actions}, but must have a Discrete one")
    for learner in portfolio.learners:
        name = part_name(learner)
        if isinstance(learner, ForActions) and learner.n_actions != actions.n:
            raise InvalidArgument(f"env has {actions.n} actions, but {name!r} was made for {learner.n_actions}")
        if not isinstance(learner, ForStates):
            continue
        if not isinstance(observations, gymnasium.spaces.Discrete) or observations.start != 0:
            raise InvalidArgument(
                f"env has observation space {observations}, but {name!r} needs states 0 to {learner.n_states - 1}"
            )
        if observations.n != learner.n_states:
            raise InvalidArgument(f"env has {observations.n} states, but {name!r} was made for {learner.n_states}")
    return int(actions.start)


def _horizon(portfolio: Portfolio) -> int:
    found = {learner.horizon for learner in portfolio.learners if isinstance(learner, ForHorizon)}
    if len(found) != 1:
        raise InvalidArgument(f"learners have horizons {sorted(found)}, but run() needs a single one or horizon=...")
    return int(found.pop())


def _known_range(env: Environment, horizon: int) -> tuple[float, float]:
    return env.unwrapped.reward_range if isinstance(env.unwrapped, FiniteMDP) else (0.0, float(horizon))


def _gap_of(env: Environment) -> Callable[[Context, Action], float]:
    known = env.unwrapped
    if not isinstance(known, KnowsGaps):
        return lambda start, policy: nan
    return lambda start, policy: nan if callable(policy) else float(known.gap(start, policy))
