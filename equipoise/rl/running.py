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
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.learner import AdaptedLearner, learner_name
from equipoise.portfolio import Portfolio
from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.trajectory import Trajectory
from equipoise.validation import count, interval, real


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

    returns: NDArray[np.float64]
    rewards: NDArray[np.float64]  # returns in the units of the selector
    lengths: NDArray[np.int64]
    learners: NDArray[np.int64]  # index of the learner that played
    gaps: NDArray[np.float64]  # exact expected loss against the optimum; nan where the environment does not know it


def run(
    env: gymnasium.Env[Any, Any],
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
    scale = Scale(low, high, *getattr(portfolio.selector, "reward_range", (low, high)))
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


def _roll_out(env: gymnasium.Env[Any, Any], policy: Any, start: Any, horizon: int, first_action: int) -> Trajectory:
    choose = policy if callable(policy) else lambda step, state: policy[step][state]
    states: list[Any] = []
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


def _plain(observation: Any) -> Any:
    return int(observation) if isinstance(observation, np.integer) else observation


def _check_spaces(env: gymnasium.Env[Any, Any], portfolio: Portfolio) -> int:
    """The first action of the environment, if its spaces are what the learners can work with."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, gymnasium.spaces.Discrete):
        raise InvalidArgument(f"env has action space {actions}, but must have a Discrete one")
    for learner in portfolio.learners:
        made_for = getattr(learner, "n_actions", actions.n)
        if made_for != actions.n:
            raise InvalidArgument(f"env has {actions.n} actions, but {learner_name(learner)!r} was made for {made_for}")
        n_states = getattr(learner, "n_states", None)
        if n_states is None:
            continue
        if not isinstance(observations, gymnasium.spaces.Discrete) or observations.start != 0:
            raise InvalidArgument(
                f"env has observation space {observations}, "
                f"but {learner_name(learner)!r} needs states 0 to {n_states - 1}"
            )
        if observations.n != n_states:
            raise InvalidArgument(
                f"env has {observations.n} states, but {learner_name(learner)!r} was made for {n_states}"
            )
    return int(actions.start)


def _horizon(portfolio: Portfolio) -> int:
    found = {learner.horizon for learner in portfolio.learners if hasattr(learner, "horizon")}
    if len(found) != 1:
        raise InvalidArgument(f"learners have horizons {sorted(found)}, but run() needs a single one or horizon=...")
    return int(found.pop())


def _known_range(env: gymnasium.Env[Any, Any], horizon: int) -> tuple[float, float]:
    return env.unwrapped.reward_range if isinstance(env.unwrapped, FiniteMDP) else (0.0, float(horizon))


def _gap_of(env: gymnasium.Env[Any, Any]) -> Callable[[Any, Any], float]:
    known = getattr(env.unwrapped, "gap", None)
    return lambda start, policy: nan if known is None or callable(policy) else float(known(start, policy))
